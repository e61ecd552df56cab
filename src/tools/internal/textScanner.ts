/*
 * Finds a text in pieces that come one after the other, and knows the byte and
 * the line of each place.
 *
 * Each character is looked at once, whatever the text and whatever is looked for
 * (Knuth, Morris, Pratt): a search cannot be made slow from outside.
 */

export interface Found {
  /** In bytes of UTF-8. */
  readonly offset: number
  readonly lengthBytes: number
  readonly line: number
}

export interface Scanner {
  readonly found: ReadonlyArray<Found>
  /** Looks through the next piece, which is well-formed; answers whether there are enough matches. */
  readonly feed: (piece: string) => boolean
  /** Where it has come to, in bytes. */
  readonly position: () => number
}

const NEWLINE = 10

export const make = (options: {
  readonly text: string
  readonly ignoreCase: boolean
  readonly maxMatches: number
  /** The byte the first piece begins at. */
  readonly offset: number
  /** The line the first piece begins in. */
  readonly line: number
}): Scanner => {
  const { maxMatches } = options
  const fold = options.ignoreCase ? foldCase : (text: string) => text
  // What is stored is well-formed, so a lone surrogate is looked for as what became of it.
  const wanted = fold(options.text.toWellFormed())
  const borders = bordersOf(wanted)
  const linesInside = wanted.split("\n").length - 1
  const found: Array<Found> = []
  let { line, offset: bytes } = options
  let matched = 0
  // The end of earlier pieces, where a match may have begun.
  let tail = ""

  const textUpTo = (piece: string, end: number): string =>
    end >= wanted.length
      ? piece.slice(end - wanted.length, end)
      : tail.slice(tail.length - wanted.length + end) + piece.slice(0, end)

  return {
    found,
    position: () => bytes,
    feed: (piece) => {
      const folded = fold(piece)
      for (let at = 0; at < piece.length; at++) {
        const unit = folded.charCodeAt(at)
        while (matched > 0 && wanted.charCodeAt(matched) !== unit) matched = borders[matched - 1]!
        if (wanted.charCodeAt(matched) === unit) matched++
        if (unit === NEWLINE) line++
        bytes += bytesOf(piece.charCodeAt(at))
        if (matched < wanted.length) continue
        // In another case a character may have another length.
        const lengthBytes = byteLength(textUpTo(piece, at + 1))
        found.push({ offset: bytes - lengthBytes, lengthBytes, line: line - linesInside })
        matched = 0
        if (found.length >= maxMatches) return true
      }
      tail = (tail + piece).slice(-wanted.length)
      return false
    }
  }
}

export const byteLength = (text: string): number => {
  let bytes = 0
  for (let at = 0; at < text.length; at++) bytes += bytesOf(text.charCodeAt(at))
  return bytes
}

// Half a pair has half of its four bytes.
const bytesOf = (unit: number): number => unit < 0x80 ? 1 : unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 2 : 3

/** For each start of a text, the length of the longest other start that it ends with. */
const bordersOf = (text: string): Uint16Array => {
  const borders = new Uint16Array(text.length)
  let length = 0
  for (let at = 1; at < text.length; at++) {
    while (length > 0 && text.charCodeAt(at) !== text.charCodeAt(length)) length = borders[length - 1]!
    if (text.charCodeAt(at) === text.charCodeAt(length)) length++
    borders[at] = length
  }
  return borders
}

// Places must stay where they are: what would change its length stays as it is.
const foldCase = (text: string): string => text.replace(/\p{Changes_When_Casefolded}/gu, foldCharacter)

const foldCharacter = (character: string): string => {
  const upper = sameLength(character, character.toUpperCase())
  return sameLength(upper, upper.toLowerCase())
}

const sameLength = (before: string, after: string): string => before.length === after.length ? after : before
