/**
 * The parts that all decoders share. They are plain code: a list of 2,000 tools takes a fraction of a millisecond, and one
 * broken item costs nothing but itself.
 */
import { shown, shownName } from "../../internal/shown.ts"
import type { Capabilities, Implementation, LogLevel } from "../McpModel.ts"
import type { Diagnostic } from "./diagnostic.ts"
import { isObject, type JsonObject } from "./jsonrpc.ts"

/** Where decoders report what they left out. */
export type Report = (diagnostic: Diagnostic) => void

// `null` and a value of the wrong type mean what absence means: none of these fields is worth losing the item.

export const optionalString = (value: unknown): string | undefined => typeof value === "string" ? value : undefined

export const optionalNumber = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined

export const optionalBoolean = (value: unknown): boolean | undefined => typeof value === "boolean" ? value : undefined

export const optionalObject = (value: unknown): JsonObject | undefined => isObject(value) ? value : undefined

/** A text that a person or a model will read; `undefined` if nothing is left of it. */
export const optionalText = (value: unknown): string | undefined => {
  const text = typeof value === "string" ? shown(value) : ""
  return text === "" ? undefined : text
}

export const optionalName = (value: unknown): string | undefined => {
  const text = typeof value === "string" ? shownName(value) : ""
  return text === "" ? undefined : text
}

/** A URI is used as it is, so one that could not be shown as it is, is none. */
export const usableUri = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" && shownName(value) === value ? value : undefined

/** Decodes each item by itself. `undefined` from `decode` means broken; the first of two with one key stays. */
export const decodeItems = <A>(
  kind: string,
  items: unknown,
  decode: (item: JsonObject, report: Report) => A | undefined,
  keyOf: (item: A) => string,
  report: Report
): Array<A> => {
  if (!Array.isArray(items)) {
    if (items !== undefined && items !== null) report({ kind: "dropped-item", message: `${kind}: not a list` })
    return []
  }
  const keys = new Set<string>()
  const decoded: Array<A> = []
  items.forEach((item: unknown, index) => {
    const value = isObject(item) ? decode(item, report) : undefined
    if (value === undefined) {
      return report({ kind: "dropped-item", message: `${kind} ${index} has no usable ${identityOf(kind)}` })
    }
    const key = keyOf(value)
    if (keys.has(key)) {
      return report({ kind: "dropped-item", message: `${kind} "${key}" is listed twice; the first counts` })
    }
    keys.add(key)
    decoded.push(value)
  })
  return decoded
}

const identityOf = (kind: string): string => kind.startsWith("resource") ? "URI" : "name"

export const decodeImplementation = (value: unknown): Implementation | undefined => {
  if (!isObject(value)) return undefined
  return {
    name: optionalName(value["name"]) ?? "unnamed",
    version: optionalName(value["version"]),
    title: optionalName(value["title"]),
    raw: value
  }
}

export const decodeCapabilities = (value: unknown): Capabilities => {
  const raw = optionalObject(value) ?? {}
  const part = (name: string): JsonObject | undefined =>
    // `true` is not in the specification, but says the same.
    raw[name] === true ? {} : optionalObject(raw[name])
  const tools = part("tools")
  const prompts = part("prompts")
  const resources = part("resources")
  return {
    tools: tools && { listChanged: tools["listChanged"] === true },
    prompts: prompts && { listChanged: prompts["listChanged"] === true },
    resources: resources && {
      listChanged: resources["listChanged"] === true,
      subscribe: resources["subscribe"] === true
    },
    logging: part("logging") !== undefined,
    completions: part("completions") !== undefined,
    raw
  }
}

const LOG_LEVELS: ReadonlySet<unknown> = new Set<LogLevel>([
  "debug",
  "info",
  "notice",
  "warning",
  "error",
  "critical",
  "alert",
  "emergency"
])

const isLogLevel = (value: unknown): value is LogLevel => LOG_LEVELS.has(value)

/** A level nobody knows is an ordinary message. */
export const decodeLogLevel = (value: unknown): LogLevel => isLogLevel(value) ? value : "info"
