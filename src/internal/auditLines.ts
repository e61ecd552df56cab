/*
 * Lines of bytes that anybody may have written: cut at the newline and nowhere else, each within a bound. What is not
 * UTF-8, or too long, is shown, and marked so that it cannot be taken for JSON.
 */
import * as Stream from "effect/Stream"

/** The longest line that is read whole. */
const MAX_LINE_BYTES = 8 * 1024 * 1024

/** How much is shown of a line that is longer. */
const MAX_SHOWN_BYTES = 1024

/** Begins the text of a line that was not read as it stands. */
const MARK = "\uFFFD"

const NEWLINE = 0x0a

export interface Line {
  readonly text: string
  /** Its length, with its newline. */
  readonly bytes: number
  /** Whether it ends with a newline. */
  readonly isTerminated: boolean
}

export const lines = <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Line, E, R> =>
  Stream.mapAccum(bytes, makeOpen, split, { onHalt: (open) => open.bytes === 0 ? [] : [close(open, false)] })

/** The beginning of a line whose end has not come yet. */
interface Open {
  parts: Array<Uint8Array>
  bytes: number
}

const makeOpen = (): Open => ({ parts: [], bytes: 0 })

const split = (open: Open, chunk: Uint8Array): readonly [Open, ReadonlyArray<Line>] => {
  const found: Array<Line> = []
  let start = 0
  for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
    extend(open, chunk.subarray(start, end))
    found.push(close(open, true))
    start = end + 1
  }
  extend(open, chunk.subarray(start))
  return [open, found]
}

const extend = (open: Open, part: Uint8Array): void => {
  open.bytes += part.length
  // Of one that is too long the beginning is kept.
  if (open.bytes <= MAX_LINE_BYTES) open.parts.push(part)
  else open.parts = [concat(open.parts).subarray(0, MAX_SHOWN_BYTES)]
}

const close = (open: Open, isTerminated: boolean): Line => {
  const content = concat(open.parts)
  const line = {
    text: open.bytes > MAX_LINE_BYTES ? `${MARK}${lossy.decode(content)}` : decode(content),
    bytes: open.bytes + (isTerminated ? 1 : 0),
    isTerminated
  }
  open.parts = []
  open.bytes = 0
  return line
}

const exact = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const lossy = new TextDecoder("utf-8", { ignoreBOM: true })

const decode = (bytes: Uint8Array): string => {
  try {
    return exact.decode(bytes)
  } catch {
    return `${MARK}${lossy.decode(bytes)}`
  }
}

const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  if (parts.length === 1 && parts[0] !== undefined) return parts[0]
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
