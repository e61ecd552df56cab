/*
 * Names that model providers accept for tools.
 */
import * as Hash from "effect/Hash"

const VALID = /^[a-zA-Z0-9_-]{1,64}$/
const MAX_LENGTH = 64

/** Whether every provider accepts the name. */
export const isValid = (name: string): boolean => VALID.test(name)

/**
 * A name every provider accepts: the same where it already is, otherwise a
 * readable form with a digest of the original, so that two originals do not
 * meet. Whoever maps keeps the original; the digest makes the way back unique.
 */
export const toValid = (name: string): string => isValid(name) ? name : withDigest(name)

/** Two names in one. Where another pair could read the same, a digest of both tells them apart. */
export const qualify = (prefix: string, name: string): string => {
  const isAmbiguous = prefix.includes(SEPARATOR) || prefix.endsWith("_")
  return isAmbiguous
    ? withDigest(`${prefix}${SEPARATOR}${name}`, `${prefix}\n${name}`)
    : toValid(`${prefix}${SEPARATOR}${name}`)
}

const SEPARATOR = "__"

const withDigest = (name: string, original: string = name): string => {
  const digest = (Hash.string(original) >>> 0).toString(36).padStart(7, "0")
  const readable = name.normalize("NFKD").replaceAll(/[^a-zA-Z0-9_-]+/g, "_")
  return `${readable.slice(0, MAX_LENGTH - digest.length - 1)}_${digest}`
}
