/*
 * Arguments without their secrets, as far as names, schemas and well-known forms tell them.
 */
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import { secretArguments } from "../../internal/secretArguments.ts"
import * as SecretProperties from "../../internal/secretProperties.ts"
import type { Definition } from "../Tool.ts"

const REDACTED = "<redacted>"

/** Words that make a property's name that of a secret, wherever they stand in it. */
const SECRET_WORDS = new Set(
  ("password passwords passwd passphrase passcode pwd pin otp cvv cvc secret secrets token credential credentials " +
    "auth authorization bearer cookie cookies apikey apikeys apitoken accesskey accesstoken authtoken privatekey secretkey")
    .split(" ")
)

/** Words that make a key secret that stands behind them. */
const KEY_WORDS = new Set(["api", "access", "private", "signing", "encryption", "license", "ssh", "account", "shared"])

/** Whether a property of that name holds a secret. */
const isSecretName = (name: string): boolean => {
  const words = name.replace(/([a-z\d])([A-Z])/g, "$1 $2").toLowerCase().split(/[^\p{L}\p{N}]+/u)
  return words.some((word, index) =>
    SECRET_WORDS.has(word) || (/^keys?$/.test(word) && KEY_WORDS.has(words[index - 1] ?? ""))
  )
}

/** Nesting below which nothing is shown. */
const MAX_DEPTH = 64

export const redactSecrets = (tool: Definition | undefined, input: unknown): Schema.Json => {
  if (!Predicate.isObject(input)) return `<no JSON object: ${String(JSON.stringify(input) ?? "").length} characters>`
  const secrets = tool === undefined ? undefined : SecretProperties.of(tool.inputSchema)
  if (secrets?.everything === true) return REDACTED

  const redact = (value: unknown, depth: number): Schema.Json => {
    if (typeof value === "string") return redactText(value)
    if (!Predicate.isObjectOrArray(value)) return toJson(value)
    if (depth >= MAX_DEPTH) return "<nested too deep>"
    if (Array.isArray(value)) {
      const hidden = new Set(secretArguments(value.map((item) => typeof item === "string" ? beginning(item) : "")))
      return value.map((item) => typeof item === "string" ? redactArgument(item, hidden) : redact(item, depth + 1))
    }
    return Object.fromEntries(
      Object.entries(value).flatMap(([name, member]) =>
        member === undefined
          ? []
          : [[name, secrets?.names.has(name) || isSecretName(name) ? REDACTED : redact(member, depth + 1)]]
      )
    )
  }
  return redact(input, 0)
}

/** How much of an argument is looked at: enough for the name of an option, and no more work than it is worth. */
const MAX_ARGUMENT_CHARACTERS = 512

const beginning = (item: string): string => item.slice(0, MAX_ARGUMENT_CHARACTERS)

/** An argument of a command: a secret, or one with a secret behind its `=`. */
const redactArgument = (item: string, hidden: ReadonlySet<string>): string => {
  const start = beginning(item)
  if (hidden.has(start)) return REDACTED
  const name = start.slice(0, start.indexOf("=") + 1)
  return name !== "" && hidden.has(start.slice(name.length)) ? `${name}${REDACTED}` : redactText(item)
}

/** What stands in texts: the credentials of a URL or of an HTTP header. */
const redactText = (text: string): string =>
  text
    .replace(/([a-z][a-z\d+.-]{0,20}:\/\/)[^\s/?#@]+@/gi, `$1${REDACTED}@`)
    .replace(/\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi, `$1 ${REDACTED}`)

const toJson = (value: unknown): Schema.Json => {
  const text = JSON.stringify(value)
  return text === undefined ? null : JSON.parse(text)
}
