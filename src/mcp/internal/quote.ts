/**
 * Texts of servers, quoted in errors: cut to a size, and without secrets.
 */
import { shown } from "../../internal/shown.ts"
import { excerpt as cut } from "../../internal/text.ts"

/** The beginning of a text, to be quoted in an error. */
export const excerpt = (text: string, max = 500): string => cut(shown(text), max)

const REDACTED = "<redacted>"

/** Shorter values are words and numbers ("1", "true", "debug") that would blank out half a message. */
const SHORTEST_SECRET = 6

/** Replaces every occurrence of the secrets. */
export const redactor = (secrets: Iterable<string>): (text: string) => string => {
  // The longest first, so that no secret survives because another one is a part of it.
  const known = [...new Set([...secrets].filter((secret) => secret.length >= SHORTEST_SECRET).flatMap(written))]
    .sort((a, b) => b.length - a.length)
  return known.length === 0
    ? (text) => text
    : (text) => known.reduce((text, secret) => text.replaceAll(secret, REDACTED), text)
}

// A secret may be quoted as JSON holds it, or without what is not shown.
const written = (secret: string): ReadonlyArray<string> =>
  [secret, JSON.stringify(secret).slice(1, -1), shown(secret)].filter((text) => text.length >= SHORTEST_SECRET)
