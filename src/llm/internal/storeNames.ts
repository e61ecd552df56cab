/*
 * The id of a conversation as a name for files and keys. An id is any text; a name is short, and safe where letters of
 * either case are one, where a path is parsed, and where words are reserved. No two ids share a name.
 */
import * as Effect from "effect/Effect"
import { sha256 } from "../../internal/digest.ts"

/** Longer names are replaced by a digest. File systems take 255 bytes, MySQL 191 characters of a key. */
const MAX_LENGTH = 120

const UNSAFE = /[^a-z0-9_-]/g
const ESCAPED = /%u([0-9a-f]{4})|%([0-9a-f]{2})/g
const HASHED = /^%h[0-9a-f]{64}$/

/** Devices of Windows, whatever follows them. */
const RESERVED = /^(?:con|prn|aux|nul|com\d|lpt\d)$/

const EMPTY = "%"

/** The name of an id. */
export const nameOf = (sessionId: string): Effect.Effect<string> => {
  const name = escaped(sessionId)
  // The digest is of the escaped text: in UTF-8 halves of characters would all be the same.
  return name.length <= MAX_LENGTH ? Effect.succeed(name) : Effect.map(sha256(name), (digest) => `%h${digest}`)
}

/** The id of a name that tells it; `undefined` for a digest, and for what is no name. */
export const idOf = (name: string): string | undefined => {
  const sessionId = name === EMPTY
    ? ""
    : name.replaceAll(ESCAPED, (_, long, short) => String.fromCharCode(Number.parseInt(long ?? short, 16)))
  return name.length <= MAX_LENGTH && escaped(sessionId) === name ? sessionId : undefined
}

/** Whether the id has to be kept beside the name. */
export const isHashed = (name: string): boolean => HASHED.test(name)

const escaped = (sessionId: string): string =>
  sessionId === ""
    ? EMPTY
    : RESERVED.test(sessionId)
    ? escape(sessionId.slice(0, 1)) + sessionId.slice(1)
    : sessionId.replaceAll(UNSAFE, escape)

// By UTF-16 code units: halves of characters have a name as well.
const escape = (unit: string): string => {
  const code = unit.charCodeAt(0)
  return code < 0x100 ? `%${code.toString(16).padStart(2, "0")}` : `%u${code.toString(16).padStart(4, "0")}`
}
