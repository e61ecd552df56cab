/*
 * JSON as one text, whoever wrote it, and the digest of a text: what a stored question or an audit entry is bound to.
 *
 * The text is that of RFC 8785 (https://www.rfc-editor.org/rfc/rfc8785): no white space, properties in the order of
 * their UTF-16 code units, strings and numbers as `JSON.stringify` writes them.
 */
import * as WebCrypto from "effect/crypto/WebCrypto"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"

/**
 * The canonical text of JSON. What is not JSON is treated as by `JSON.stringify`: left out of objects, `null` in arrays.
 * Throws where that throws: for a `BigInt`, a cycle, and what nests thousands of levels deep.
 */
export const canonical = (json: unknown): string => write(json) ?? "null"

const write = (value: unknown): string | undefined => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  if ("toJSON" in value && typeof value.toJSON === "function") return write(value.toJSON())
  if (Array.isArray(value)) return `[${value.map((item) => write(item) ?? "null").join(",")}]`
  const members = Object.entries(value).toSorted(byKey).flatMap(([key, member]) => {
    const text = write(member)
    return text === undefined ? [] : [`${JSON.stringify(key)}:${text}`]
  })
  return `{${members.join(",")}}`
}

// By code units: a locale must not decide about a digest.
const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => a < b ? -1 : a > b ? 1 : 0

const encoder = new TextEncoder()

/** SHA-256 of a text in UTF-8, as 64 lowercase hexadecimal digits. Where there is no Web Crypto it is a defect. */
export const sha256 = (text: string): Effect.Effect<string> =>
  Effect.flatMap(WebCrypto.WebCrypto, (crypto) =>
    Effect.map(
      // The type is said here: without the DOM's library `crypto` has none.
      Effect.promise((): Promise<ArrayBuffer> => crypto.subtle.digest("SHA-256", encoder.encode(text))),
      (digest) => Hex.encode(new Uint8Array(digest))
    ))

/** A random UUID, the same for no two who ask. */
export const uuid: Effect.Effect<string> = Effect.map(
  WebCrypto.WebCrypto,
  // The type is said here: without the DOM's library `crypto` has none.
  (crypto): string => crypto.randomUUID()
)
