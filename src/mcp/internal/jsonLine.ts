/**
 * Where a value of a JSON text stands.
 *
 * `JSON.parse` tells no positions of what it read, and people mend files by line. The text is known to be valid JSON, so this
 * walk checks nothing.
 */

/** The line of the value at a path, counted from 1; of the nearest value around it where there is none. */
export const lineOf = (text: string, path: ReadonlyArray<PropertyKey>): number => {
  let at = skipSpace(text, 0)
  for (const step of path) {
    const next = text[at] === "{"
      ? member(text, at, String(step))
      : text[at] === "["
      ? element(text, at, Number(step))
      : undefined
    if (next === undefined) break
    at = next
  }
  return lineAt(text, at)
}

/** The line of a position, counted from 1. */
export const lineAt = (text: string, position: number): number => text.slice(0, position).split("\n").length

const skipSpace = (text: string, from: number): number => {
  let at = from
  while (/\s/.test(text[at] ?? "")) at++
  return at
}

const skipString = (text: string, from: number): number => {
  let at = from + 1
  while (at < text.length && text[at] !== "\"") at += text[at] === "\\" ? 2 : 1
  return at + 1
}

const skipValue = (text: string, from: number): number => {
  let depth = 0
  for (let at = from; at < text.length;) {
    const character = text[at]!
    if (character === "\"") {
      at = skipString(text, at)
    } else {
      if (character === "{" || character === "[") depth++
      else if (character === "}" || character === "]") depth--
      if (depth < 0 || (depth === 0 && character === ",")) return at
      at++
    }
    if (depth === 0 && /[,}\]]/.test(text[skipSpace(text, at)] ?? "}")) return at
  }
  return text.length
}

/** The position of a member's value. Of two members of one name, the last: it is the one that counts. */
const member = (text: string, object: number, name: string): number | undefined => {
  let found: number | undefined
  let at = skipSpace(text, object + 1)
  while (text[at] === "\"") {
    const end = skipString(text, at)
    const key: unknown = JSON.parse(text.slice(at, end))
    const value = skipSpace(text, skipSpace(text, end) + 1)
    if (key === name) found = value
    at = skipSpace(text, skipValue(text, value))
    if (text[at] === ",") at = skipSpace(text, at + 1)
  }
  return found
}

const element = (text: string, array: number, index: number): number | undefined => {
  let at = skipSpace(text, array + 1)
  for (let i = 0; at < text.length && text[at] !== "]"; i++) {
    if (i === index) return at
    at = skipSpace(text, skipValue(text, at))
    if (text[at] === ",") at = skipSpace(text, at + 1)
  }
  return undefined
}
