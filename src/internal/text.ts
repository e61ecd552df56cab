/*
 * Cutting text without breaking characters.
 */

/** The first `maxCharacters` of a text, with an ellipsis if it was longer. */
export const excerpt = (text: string, maxCharacters: number): string =>
  text.length <= maxCharacters ? text : `${text.slice(0, maxCharacters).replace(LONE_HIGH_SURROGATE, "")}…`

const LONE_HIGH_SURROGATE = /[\uD800-\uDBFF]$/

const encoder = new TextEncoder()
// A mark at the start of a text is a character like others.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/** Bytes of a text in UTF-8, as far as needed to tell whether it fits `maxBytes`. */
export const fitsBytes = (text: string, maxBytes: number): boolean =>
  text.length * 3 <= maxBytes || (text.length <= maxBytes && encoder.encode(text).length <= maxBytes)

/** The longest start of a text that fits `maxBytes` in UTF-8, cut between characters. */
export const cutBytes = (text: string, maxBytes: number): { readonly kept: string; readonly missingBytes: number } => {
  const bytes = encoder.encode(text)
  if (bytes.length <= maxBytes) return { kept: text, missingBytes: 0 }
  let end = maxBytes
  while (end > 0 && (bytes[end]! & 0b1100_0000) === 0b1000_0000) end--
  return { kept: decoder.decode(bytes.subarray(0, end)), missingBytes: bytes.length - end }
}
