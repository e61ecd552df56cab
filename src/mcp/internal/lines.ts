/**
 * Cuts a byte stream into lines.
 *
 * Only LF ends a line (a CR before it is white space to JSON, U+2028 is an ordinary character), bytes are decoded when a
 * line is complete, so a character may be split anywhere, and every byte is looked at once. Lines that come whole in one
 * chunk are decoded together: for small messages, that costs most. A line over the limit is passed over up to its end; its
 * beginning and its end tell which request it would have answered.
 */
const LF = 0x0a

/** How much of an oversized line is kept at either side. */
const EDGE = 512

export interface LineHandlers {
  readonly line: (text: string) => void
  /** A line has become longer than `max`. `true`: what can be done was done, its end is of no interest. */
  readonly overflowing: (head: string) => boolean
  /** Such a line ended. */
  readonly oversized: (tail: string) => void
}

export interface LineReader {
  readonly feed: (chunk: Uint8Array) => void
  /** The stream ended; a last line without an LF counts. */
  readonly end: () => void
}

/** Memory for unfinished lines: what there is at least, and what stays after a line that needed more. */
const MIN_HELD_BYTES = 64 * 1024
const MAX_HELD_BYTES = 2 * 1024 * 1024

export const makeLineReader = (max: number, handlers: LineHandlers): LineReader => {
  // Never throws. Each line may begin with a byte order mark, so the mark is taken away there.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
  // What has come of a line that is not complete. Used again: fresh memory costs more than the copying.
  let held = new Uint8Array(0)
  let size = 0
  let overflow: "settled" | "open" | undefined

  const line = (text: string): void => {
    if (text.trim() !== "") handlers.line(text.startsWith("\ufeff") ? text.slice(1) : text)
  }

  const append = (bytes: Uint8Array): void => {
    const needed = size + bytes.length
    if (needed > held.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * held.length, MIN_HELD_BYTES))
      larger.set(held.subarray(0, size))
      held = larger
    }
    held.set(bytes, size)
    size = needed
  }

  const push = (bytes: Uint8Array): void => {
    if (bytes.length === 0) return
    append(bytes)
    if (overflow === undefined) {
      if (size <= max) return
      overflow = handlers.overflowing(decoder.decode(held.subarray(0, Math.min(size, EDGE)))) ? "settled" : "open"
      // Such a line may never end: the memory it took is given back at once.
      held = held.slice(Math.max(size - EDGE, 0), size)
      size = held.length
    } else if (size > EDGE) {
      // Only the last bytes are needed.
      held.copyWithin(0, size - EDGE, size)
      size = EDGE
    }
  }

  const finish = (): void => {
    const bytes = held.subarray(0, size)
    if (overflow === "open") handlers.oversized(decoder.decode(bytes))
    else if (overflow === undefined && size > 0) line(decoder.decode(bytes))
    if (held.length > MAX_HELD_BYTES) held = new Uint8Array(0)
    size = 0
    overflow = undefined
  }

  return {
    feed(chunk) {
      const last = chunk.lastIndexOf(LF)
      let start = 0
      while (start <= last) {
        if (size === 0 && last - start <= max) {
          // LF is no part of any other character.
          decoder.decode(chunk.subarray(start, last)).split("\n").forEach(line)
          start = last + 1
        } else {
          const end = chunk.indexOf(LF, start)
          push(chunk.subarray(start, end))
          finish()
          start = end + 1
        }
      }
      push(chunk.subarray(start))
    },
    end: finish
  }
}

/**
 * The id an oversized answer belongs to, from its beginning or its end. Servers write the id first or last; anywhere else it
 * could be data. A nested object would end with two braces, so one brace at the very end is the message's own.
 */
export const idAtStart = (head: string): number | undefined =>
  number(/^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,15})"?\s*,/.exec(head))

export const idAtEnd = (tail: string): number | undefined =>
  number(
    /[}\]"\w]\s*,\s*"id"\s*:\s*"?(\d{1,15})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.exec(tail)
  )

const number = (match: RegExpExecArray | null): number | undefined =>
  match?.[1] === undefined ? undefined : Number(match[1])

/** What one line of a server's standard output holds. */
export type Line =
  | { readonly _tag: "Message"; readonly message: unknown; readonly noise: string | undefined }
  | { readonly _tag: "Noise" }

/**
 * Parses a line. Log text in front of a message or behind it does not lose the message.
 */
export const parseLine = (text: string): Line => {
  const whole = parseJson(text)
  if (whole !== undefined) return { _tag: "Message", message: whole.value, noise: undefined }
  const start = text.indexOf("{\"")
  const end = text.lastIndexOf("}")
  if (start === -1 || end < start) return { _tag: "Noise" }
  const inner = parseJson(text.slice(start, end + 1))
  return inner === undefined
    ? { _tag: "Noise" }
    : { _tag: "Message", message: inner.value, noise: text.slice(0, start) + text.slice(end + 1) }
}

const parseJson = (text: string): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}
