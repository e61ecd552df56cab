/*
 * Text for people and models: what a failure says, and cutting without breaking characters.
 */

/** What something that was thrown says about itself. */
export const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)

/** The first `maxCharacters` of a text, with an ellipsis if it was longer. */
export const excerpt = (text: string, maxCharacters: number): string =>
  text.length <= maxCharacters ? text : `${text.slice(0, maxCharacters).replace(LONE_HIGH_SURROGATE, "")}…`

const LONE_HIGH_SURROGATE = /[\uD800-\uDBFF]$/

const encoder = new TextEncoder()
// A mark at the start of a text is a character like others.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/** Whether a text fits `maxBytes` in UTF-8 for certain, which takes no encoding: no unit of it is more than three bytes. */
export const isSurelyWithin = (text: string, maxBytes: number): boolean => text.length * 3 <= maxBytes

/** The longest start of a text that fits `maxBytes` in UTF-8, cut between characters. */
export const cutBytes = (
  text: string,
  maxBytes: number
): { readonly kept: string; readonly keptBytes: number; readonly missingBytes: number } => {
  const bytes = encoder.encode(text)
  if (bytes.length <= maxBytes) return { kept: text, keptBytes: bytes.length, missingBytes: 0 }
  let end = maxBytes
  while (isContinuation(bytes[end])) end--
  return { kept: decoder.decode(bytes.subarray(0, end)), keptBytes: end, missingBytes: bytes.length - end }
}

// Of a character of several bytes, all but the first.
const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000
