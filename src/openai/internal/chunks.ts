/*
 * Chunks of a stream as JSON, read by what differs from the chunk before.
 *
 * A streamed text is thousands of chunks that differ in one string, the next piece of it; parsing all the rest again is
 * most of what a chunk costs. So a chunk is kept as what stands before that string and after it. A text that begins and
 * ends the same and has one JSON string in between is the same JSON with that string in its place, whatever the string
 * holds: only the string is parsed. Everything else is parsed as a whole.
 */
import * as Json from "./json.ts"

/** Parses a chunk; `undefined` if it is no JSON object. What it answers is valid until the next one is read. */
export type Reader = (text: string) => Json.JsonObject | undefined

/** A chunk with a place for a string. */
interface Pattern {
  readonly before: string
  readonly after: string
  readonly chunk: Json.JsonObject
  readonly put: (value: string) => void
}

/** Longer chunks hold more than one piece of text, and are not followed by others like them. */
const MAX_PATTERN_LENGTH = 4096

/** After so many patterns in a row that fitted no chunk, a stream is taken for one without a pattern. */
const MAX_MISSES = 8

export const makeReader = (): Reader => {
  let pattern: Pattern | undefined
  let misses = 0
  return (text) => {
    const value = pattern === undefined ? undefined : between(text, pattern)
    if (pattern !== undefined && value !== undefined) {
      misses = 0
      pattern.put(value)
      return pattern.chunk
    }
    const chunk = Json.parseObject(text)
    pattern = chunk !== undefined && misses < MAX_MISSES && text.length <= MAX_PATTERN_LENGTH
      ? patternOf(text)
      : undefined
    if (pattern !== undefined) misses++
    return chunk
  }
}

const between = (text: string, { after, before }: Pattern): string | undefined => {
  const start = before.length
  const end = text.length - after.length
  // Slices share the text they are of, and are compared faster than `startsWith` compares.
  if (start > end || text.slice(0, start) !== before || text.slice(end) !== after) return undefined
  const value = Json.parse(text.slice(start, end))
  return typeof value === "string" ? value : undefined
}

/** The fields that carry what a model says, up to the quote of their value. Inside of a string it would be escaped. */
const spoken = /"(content|arguments|reasoning_content|reasoning)"\s*:\s*(?=")/g
const string = /"[^"\\]*(?:\\.[^"\\]*)*"/y

/** Stands in for the string; JSON text can only hold it escaped. */
const MARK = "\u0000"
const ESCAPED_MARK = JSON.stringify(MARK).slice(1, -1)

const patternOf = (text: string): Pattern | undefined => {
  const field = Array.from(text.matchAll(spoken)).at(-1)
  if (field === undefined || text.includes(ESCAPED_MARK)) return undefined
  string.lastIndex = field.index + field[0].length
  const literal = string.exec(text)
  if (literal === null) return undefined
  const before = text.slice(0, literal.index)
  const after = text.slice(literal.index + literal[0].length)
  const chunk = Json.parseObject(`${before}"${ESCAPED_MARK}"${after}`)
  const name = field[1]
  if (chunk === undefined || name === undefined) return undefined
  const holder = holders(chunk).find((holder) => holder[name] === MARK)
  return holder && { before, after, chunk, put: (value) => void (holder[name] = value) }
}

/** Where the assembler reads strings and keeps nothing else: what it keeps must not change under it. */
const holders = (chunk: Json.JsonObject): ReadonlyArray<Record<string, Json.Json>> =>
  Json.array(chunk["choices"]).flatMap((choice) => {
    const delta = Json.object(Json.object(choice)?.["delta"])
    const calls = Json.array(delta?.["tool_calls"]).map((call) => Json.object(Json.object(call)?.["function"]))
    // Parsed for this pattern alone, so it may be written to.
    return [delta, ...calls].filter((holder) => holder !== undefined) as Array<Record<string, Json.Json>>
  })
