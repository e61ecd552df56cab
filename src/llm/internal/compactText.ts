/*
 * How many tokens a text comes to, guessed from its characters in one pass.
 *
 * Byte-pair encodings make one token of a common word with the space before it,
 * groups of up to three digits, and runs of punctuation. So the text is read in
 * such runs. The figures were fitted to `o200k_base` and `cl100k_base`; in
 * English, source code, JSON, CSV, logs, listings and HTML the guess is within
 * a quarter of either, where four characters a token is off by up to half.
 */

/** A word of up to so many letters is one token. */
const WORD_LETTERS = 8
/** Of a longer word, each further letter. */
const PER_LETTER = 0.25
/** Words in capitals are rare, so they are cut finer. */
const PER_CAPITAL = 0.3
const CAPITALS = 4
const DIGITS = 3
const PER_LINE_BREAK = 0.8
const PER_PUNCTUATION_RUN = 0.5
const PER_PUNCTUATION = 0.35
/** Letters and digits without a break are no language: base64, hexadecimal, ids. */
const UNBROKEN = 32
const PER_UNBROKEN = 0.65

/** By the first code of a range: what one UTF-16 code unit of another script comes to. */
const SCRIPTS: ReadonlyArray<readonly [from: number, tokens: number]> = [
  [0xE000, 0.85], // wide and compatibility forms
  [0xD800, 1], // halves of a surrogate pair: most emoji are two tokens or three
  [0x2E80, 0.85], // Chinese, Japanese, Korean
  [0x0530, 0.5], // Arabic, Hebrew, the scripts of India and South-East Asia
  [0x0250, 0.35], // Greek, Cyrillic
  [0, 0.5] // Latin letters with marks
]

/** At most as many as there are characters. */
export const tokensOfText = (text: string): number => {
  const length = text.length
  let tokens = 0
  let position = 0
  // Where the last run of letters and digits began, and what it had come to by then.
  let runStart = 0
  let runTokens = 0
  const endRun = (end: number) => {
    const run = end - runStart
    if (run >= UNBROKEN) tokens = Math.max(tokens, runTokens + run * PER_UNBROKEN)
  }

  while (position < length) {
    const start = position
    const code = text.charCodeAt(position++)
    if (isLetter(code)) {
      let last = code
      let capitals = isCapital(code)
      while (position < length) {
        const next = text.charCodeAt(position)
        // `camelCase` is two words.
        if (!isLetter(next) || (isCapital(next) && !isCapital(last))) break
        if (!isCapital(next)) capitals = false
        last = next
        position++
      }
      const letters = position - start
      tokens += capitals && letters > CAPITALS
        ? letters * PER_CAPITAL
        : 1 + Math.max(0, letters - WORD_LETTERS) * PER_LETTER
      continue
    }
    if (isDigit(code)) {
      while (position < length && isDigit(text.charCodeAt(position))) position++
      tokens += Math.ceil((position - start) / DIGITS)
      continue
    }
    endRun(start)
    if (isBlank(code)) {
      while (position < length && isBlank(text.charCodeAt(position))) position++
      // A single space is part of the word after it, but not of a number.
      if (position - start > 1 || (position < length && isDigit(text.charCodeAt(position)))) tokens++
    } else if (isLineBreak(code)) {
      while (position < length && isLineBreak(text.charCodeAt(position))) position++
      tokens += PER_LINE_BREAK
    } else if (code < 0x80) {
      while (position < length && isPunctuation(text.charCodeAt(position))) position++
      tokens += PER_PUNCTUATION_RUN + (position - start) * PER_PUNCTUATION
    } else {
      tokens += ofScript(code)
    }
    runStart = position
    runTokens = tokens
  }
  endRun(length)
  return Math.ceil(tokens)
}

const ofScript = (code: number): number => {
  for (const [from, tokens] of SCRIPTS) if (code >= from) return tokens
  return 1
}

const isCapital = (code: number): boolean => code >= 65 && code <= 90
const isLetter = (code: number): boolean => (code | 32) >= 97 && (code | 32) <= 122
const isDigit = (code: number): boolean => code >= 48 && code <= 57
const isBlank = (code: number): boolean => code === 32 || code === 9
const isLineBreak = (code: number): boolean => code === 10 || code === 13
const isPunctuation = (code: number): boolean => code > 32 && code < 127 && !isLetter(code) && !isDigit(code)
