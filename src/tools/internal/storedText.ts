/*
 * Reads a stored text in pages and searches it, without ever holding it whole.
 *
 * Positions are bytes of UTF-8: a file finds them at once, and limits are in
 * bytes. No page begins or ends inside a character.
 */
import * as Effect from "effect/Effect"
import { cutBytes } from "../../internal/text.ts"
import type { Match, Matches, Page } from "../ResultStore.ts"
import type { ResultStoreError } from "../ResultStoreError.ts"
import * as TextScanner from "./textScanner.ts"

/** Anything that gives bytes by their place. */
export interface Source {
  readonly sizeBytes: number
  /** The bytes that are there, at most `length`. */
  readonly read: (offset: number, length: number) => Effect.Effect<Uint8Array, ResultStoreError>
}

/** How much of a text is looked at in one step. */
const CHUNK_BYTES = 262_144

/** The longest a character can be. */
const MAX_CHARACTER_BYTES = 4

const encoder = new TextEncoder()
// A mark at the start of a text is a character like others.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

export const encode = (text: string): Uint8Array<ArrayBuffer> => encoder.encode(text)

/**
 * Whole characters from the one that `offset` is in, at most `length` bytes of
 * them, and at least one: who follows `nextOffset` reaches the end.
 */
export const page = (source: Source, offset: number, length: number): Effect.Effect<Page, ResultStoreError> => {
  const { sizeBytes } = source
  if (offset >= sizeBytes) return Effect.succeed({ text: "", offset: sizeBytes, nextOffset: undefined, sizeBytes })
  const from = Math.max(0, offset - MAX_CHARACTER_BYTES)
  const to = Math.min(sizeBytes, offset + length + MAX_CHARACTER_BYTES)
  return Effect.map(source.read(from, to - from), (bytes) => {
    const start = boundaryBefore(bytes, offset - from)
    const end = from + start + length >= sizeBytes ? bytes.length : endOf(bytes, start, length)
    return {
      text: decoder.decode(bytes.subarray(start, end)),
      offset: from + start,
      nextOffset: from + end < sizeBytes ? from + end : undefined,
      sizeBytes
    }
  })
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000

// What is not UTF-8 has no boundaries: then any place is as good, as long as a page goes on from where it began.
const boundaryBefore = (bytes: Uint8Array, index: number): number => {
  let at = index
  while (at > 0 && index - at < MAX_CHARACTER_BYTES - 1 && isContinuation(bytes[at])) at--
  return isContinuation(bytes[at]) ? index : at
}

const endOf = (bytes: Uint8Array, start: number, length: number): number => {
  let end = boundaryBefore(bytes, start + length)
  if (end > start) return end
  end = start + 1
  while (end - start < MAX_CHARACTER_BYTES && isContinuation(bytes[end])) end++
  return end
}

/** Finds a text as it is written; nothing in it has a meaning of its own. */
export const search = Effect.fnUntraced(function*(source: Source, options: {
  readonly text: string
  readonly ignoreCase: boolean
  readonly offset: number
  readonly maxMatches: number
  readonly contextBytes: number
}): Effect.fn.Return<Matches, ResultStoreError> {
  let next = yield* page(source, options.offset, CHUNK_BYTES)
  const line = 1 + (yield* newlinesBefore(source, next.offset))
  const scanner = TextScanner.make({ ...options, offset: next.offset, line })
  let isEnough = scanner.feed(next.text, next.nextOffset ?? source.sizeBytes)
  while (!isEnough && next.nextOffset !== undefined) {
    yield* Effect.yieldNow
    next = yield* page(source, next.nextOffset, CHUNK_BYTES)
    isEnough = scanner.feed(next.text, next.nextOffset ?? source.sizeBytes)
  }
  return {
    matches: yield* Effect.forEach(scanner.found, (found) => excerptOf(source, found, options.contextBytes)),
    nextOffset: isEnough && scanner.position() < source.sizeBytes ? scanner.position() : undefined,
    sizeBytes: source.sizeBytes
  }
})

const excerptOf = (
  source: Source,
  found: TextScanner.Found,
  contextBytes: number
): Effect.Effect<Match, ResultStoreError> => {
  const from = Math.max(0, found.offset - contextBytes)
  const to = found.offset + found.lengthBytes + contextBytes
  // A page may begin some bytes earlier, and must not end earlier for it.
  return Effect.map(
    page(source, from, to - from + MAX_CHARACTER_BYTES - 1),
    ({ offset, text }) => ({ ...found, excerpt: cutBytes(text, to - offset).kept })
  )
}

const NEWLINE = 10

const newlinesBefore = Effect.fnUntraced(function*(source: Source, end: number) {
  let count = 0
  for (let position = 0; position < end;) {
    const bytes = yield* source.read(position, Math.min(CHUNK_BYTES, end - position))
    for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) count++
    // A source that has less than it says ends here.
    if (bytes.length === 0) break
    position += bytes.length
    yield* Effect.yieldNow
  }
  return count
})
