/*
 * A conversation as text, `{"format":1,"cycle":…}`, and back. The number of the format is looked at before anything
 * else; what is older is migrated in memory, what is newer is refused.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { excerpt, messageOf } from "../../internal/text.ts"
import { ToolInvocation } from "../../tools/ToolInvocation.ts"
import { Corrupt, NotStorable, UnsupportedFormat } from "../CycleStoreError.ts"
import { SavedCycle, SavedSubmit } from "../SavedCycle.ts"

/** How much of what a schema says is repeated. */
const MAX_ISSUE_CHARACTERS = 1_000

// =============================================================================
// Formats
// =============================================================================

/** JSON of one format, as that of the next. What does not fit is found when the result is decoded. */
type Migration = (json: unknown, sessionId: string) => unknown

/** Messages alone, as effect/ai encodes them: what was kept by hand before there was a store. */
const fromMessages: Migration = (json, sessionId) => {
  const messages = isRecord(json) ? json["content"] : json
  return {
    format: 1,
    cycle: {
      sessionId,
      revision: 1,
      turns: Array.isArray(messages) ? messages.filter(isResponse).length : 0,
      messages,
      running: [],
      pending: [],
      sharedState: {},
      usage: { inputTokens: {}, outputTokens: {} }
    }
  }
}

/** At index n: from format n to n + 1. */
const MIGRATIONS: ReadonlyArray<Migration> = [fromMessages]

/**
 * The format that is written. A change of what `SavedCycle` is as JSON is a new one, also where it only adds: an older
 * version would read the rest, and lose the addition with its next save.
 */
export const FORMAT = MIGRATIONS.length

const formatOf = (json: unknown): number | undefined => {
  if (Array.isArray(json)) return 0
  if (!isRecord(json)) return undefined
  const format = json["format"]
  if (format === undefined) return Array.isArray(json["content"]) ? 0 : undefined
  return typeof format === "number" && Number.isSafeInteger(format) && format >= 0 ? format : undefined
}

// =============================================================================
// From text
// =============================================================================

/** The conversation of a text, under the revision it was found at. */
export const fromText = (
  sessionId: string,
  text: string,
  revision?: number
): Result.Result<SavedCycle, Corrupt | UnsupportedFormat> => {
  const corrupt = (issue: string) => Result.fail(new Corrupt({ issue: excerpt(issue, MAX_ISSUE_CHARACTERS) }))
  try {
    const json: unknown = JSON.parse(text)
    const format = formatOf(json)
    if (format === undefined) return corrupt("it says no format, and is no list of messages")
    if (format > FORMAT) return Result.fail(new UnsupportedFormat({ found: format, supported: FORMAT }))
    const migrated = MIGRATIONS.slice(format).reduce((json, migrate) => migrate(json, sessionId), json)
    const { cycle } = codecs().decode(revision === undefined ? migrated : at(revision, migrated))
    // Questions to a person are bound to their conversation; under another id they would not be.
    if (cycle.sessionId !== sessionId) return corrupt(`it is the conversation "${excerpt(cycle.sessionId, 100)}"`)
    return Result.succeed(cycle)
  } catch (error) {
    return corrupt(messageOf(error))
  }
}

const at = (revision: number, json: unknown): unknown =>
  isRecord(json) && isRecord(json["cycle"]) ? { ...json, cycle: { ...json["cycle"], revision } } : json

/**
 * Whether a text is complete, without parsing it where it is one of ours: those have their only line feed at the end,
 * and no zeros, which is what blocks that were never written read as.
 */
export const isWhole = (text: string): boolean => {
  if (text.endsWith("}\n") && text.indexOf("\n") === text.length - 1 && !text.includes("\0")) return true
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

// =============================================================================
// To text
// =============================================================================

/** JSON text of values. */
const texts = <A>(schema: Schema.Codec<A, unknown>): (value: A) => string => {
  const encode = Schema.encodeSync(Schema.toCodecJson(schema))
  return (value) => JSON.stringify(encode(value))
}

/** JSON text of values that do not change, made once for each. */
const remembered = <A extends object>(schema: Schema.Codec<A, unknown>): (value: A) => string => {
  const textOf = texts(schema)
  const known = new WeakMap<A, string>()
  return (value) => {
    const found = known.get(value)
    if (found !== undefined) return found
    const text = textOf(value)
    known.set(value, text)
    return text
  }
}

/**
 * The text of a conversation, in pieces: most are the same strings from one save to the next. It ends in a line feed and
 * has no other.
 */
export const toPieces = (saved: SavedCycle): Result.Result<ReadonlyArray<string>, NotStorable> =>
  Result.try({
    try: () => {
      const { cycleText, invocationText, messageText, submitText } = codecs()
      return [
        `{"format":${FORMAT},"cycle":${opened(cycleText(saved))}`,
        ...(saved.submit === undefined ? [] : [
          `,"submit":${opened(submitText(saved.submit))},"invocations":[`,
          ...separated(saved.submit.invocations, invocationText),
          "]}"
        ]),
        ",\"messages\":[",
        ...separated(saved.messages, messageText),
        "]}}\n"
      ]
    },
    catch: (error) => new NotStorable({ issue: excerpt(messageOf(error), MAX_ISSUE_CHARACTERS) })
  })

const separated = <A>(values: ReadonlyArray<A>, text: (value: A) => string): ReadonlyArray<string> =>
  values.flatMap((value, index) => index === 0 ? [text(value)] : [",", text(value)])

/** The text of an object that has members, before its end. */
const opened = (text: string): string => text.slice(0, -1)

// =============================================================================
// Codecs
// =============================================================================

const makeCodecs = () => {
  // What grows with the conversation is put into the text of the rest.
  const { messages: _messages, submit: _submit, ...cycleFields } = SavedCycle.fields
  const { invocations: _invocations, ...submitFields } = SavedSubmit.fields
  return {
    decode: Schema.decodeUnknownSync(Schema.toCodecJson(Schema.Struct({
      format: Schema.Literal(FORMAT),
      cycle: SavedCycle
    }))),
    cycleText: texts(Schema.Struct(cycleFields)),
    submitText: texts(Schema.Struct(submitFields)),
    messageText: remembered(Prompt.Message),
    invocationText: remembered(ToolInvocation)
  }
}

let made: ReturnType<typeof makeCodecs> | undefined

/** Made with the first conversation that is stored or read: most programs store none. */
const codecs = () => made ??= makeCodecs()

// =============================================================================
// Internals
// =============================================================================

const isRecord = (json: unknown): json is Record<string, unknown> =>
  typeof json === "object" && json !== null && !Array.isArray(json)

const isResponse = (message: unknown): boolean => isRecord(message) && message["role"] === "assistant"
