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
  /** Looks through the next piece, which is well-formed and ends at a byte; answers whether there are enough matches. */
  readonly feed: (piece: string, endOffset: number) => boolean
  /** Where it has come to, in bytes. */
  readonly position: () => number
}

export const make = (options: {
  readonly text: string
  readonly ignoreCase: boolean
  readonly maxMatches: number
  /** The byte the first piece begins at. */
  readonly offset: number
  /** The line the first piece begins in. */
  readonly line: number
}): Scanner => {
  const { ignoreCase } = options
  // What is stored is well-formed, so a lone surrogate is looked for as what became of it.
  const wanted = unitsOf(options.text.toWellFormed(), ignoreCase)
  const borders = bordersOf(wanted)
  const found: Array<Found> = []
  let { line, offset } = options
  let matched = 0
  // The end of earlier pieces, where a match may have begun.
  let tail = ""

  /** A match that ends in the piece, when everything up to `counted` is counted. */
  const add = (piece: string, counted: number, end: number): void => {
    const before = piece.slice(counted, end)
    const text = end >= wanted.length
      ? piece.slice(end - wanted.length, end)
      : tail.slice(tail.length - wanted.length + end) + piece.slice(0, end)
    offset += byteLength(before)
    line += newlines(before)
    // In another case a character may have another length.
    const lengthBytes = byteLength(text)
    found.push({ offset: offset - lengthBytes, lengthBytes, line: line - newlines(text) })
  }

  return {
    found,
    position: () => offset,
    feed: (piece, endOffset) => {
      const units = unitsOf(piece, ignoreCase)
      let length = matched
      let counted = 0
      for (let at = 0; at < units.length; at++) {
        const unit = units[at]
        while (length > 0 && wanted[length] !== unit) length = borders[length - 1]!
        if (wanted[length] === unit) length++
        if (length < wanted.length) continue
        add(piece, counted, at + 1)
        counted = at + 1
        length = 0
        if (found.length >= options.maxMatches) return true
      }
      matched = length
      line += newlines(piece.slice(counted))
      offset = endOffset
      tail = (tail + piece).slice(-wanted.length)
      return false
    }
  }
}

const encoder = new TextEncoder()

/** The size of a text in UTF-8. */
export const byteLength = (text: string): number => encoder.encode(text).length

const newlines = (text: string): number => {
  let count = 0
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) count++
  return count
}

/** For each start of a text, the length of the longest other start that it ends with. */
const bordersOf = (text: Uint16Array): Uint16Array => {
  const borders = new Uint16Array(text.length)
  let length = 0
  for (let at = 1; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = borders[length - 1]!
    if (text[at] === text[length]) length++
    borders[at] = length
  }
  return borders
}

/** The UTF-16 of a text, in one case where case does not matter. */
const unitsOf = (text: string, ignoreCase: boolean): Uint16Array => {
  const units = new Uint16Array(text.length)
  if (!ignoreCase) {
    for (let at = 0; at < text.length; at++) units[at] = text.charCodeAt(at)
    return units
  }
  const folds = foldsOf()
  const folded = text.replace(CASED_PAIR, fold)
  for (let at = 0; at < folded.length; at++) units[at] = folds[folded.charCodeAt(at)]!
  return units
}

const CASED_PAIR = /(?=[\u{10000}-\u{10ffff}])\p{Changes_When_Casefolded}/gu

let allFolds: Uint16Array | undefined

// A table, made when it is first needed: a search asks for each character.
const foldsOf = (): Uint16Array =>
  allFolds ??= Uint16Array.from({ length: 65_536 }, (_, unit) => fold(String.fromCharCode(unit)).charCodeAt(0))

// Places must stay where they are: what would change its length stays as it is.
const fold = (character: string): string => {
  const upper = sameLength(character, character.toUpperCase())
  return sameLength(upper, upper.toLowerCase())
}

const sameLength = (before: string, after: string): string => before.length === after.length ? after : before
