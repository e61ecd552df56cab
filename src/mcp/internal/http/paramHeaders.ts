/**
 * Arguments of a tool that are mirrored into HTTP headers, as the tool's input schema asks with `x-mcp-header`.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
 */
import * as Base64 from "effect/encoding/Base64"
import { isObject } from "../jsonrpc.ts"

/** An argument that travels in a header as well. */
interface HeaderParameter {
  /** The chain of `properties` keys that leads to it. */
  readonly path: ReadonlyArray<string>
  /** The header's name in lower case. */
  readonly header: string
}

/** What a schema says about headers. */
type HeaderParameters =
  | { readonly _tag: "Valid"; readonly parameters: ReadonlyArray<HeaderParameter> }
  | { readonly _tag: "Invalid"; readonly problem: string }

const ANNOTATION = "x-mcp-header"

/** https://datatracker.ietf.org/doc/html/rfc9110#section-5.6.2 */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

const PRIMITIVES: ReadonlySet<unknown> = new Set(["string", "integer", "boolean"])

// Where a schema can stand inside a schema: as the value, in a map or in a list. An annotation in any other place, an
// example or a default for instance, is data.
const HOLDS_SCHEMA = new Set([
  "additionalItems",
  "additionalProperties",
  "contains",
  "contentSchema",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties"
])
const HOLDS_MAP = new Set([
  "$defs",
  "definitions",
  "dependencies",
  "dependentSchemas",
  "patternProperties",
  "properties"
])
const HOLDS_LIST = new Set(["allOf", "anyOf", "items", "oneOf", "prefixItems"])

// `["string", "null"]` is a string that may be left out: null is never mirrored.
const isPrimitive = (type: unknown): boolean => {
  if (!Array.isArray(type)) return PRIMITIVES.has(type)
  const types: ReadonlyArray<unknown> = type.filter((item) => item !== "null")
  return types.length === 1 && PRIMITIVES.has(types[0])
}

/** A place in a schema, from the end: sharing what is before it keeps deep schemas cheap. */
type Place = { readonly key: string; readonly before: Place | undefined }

const pathOf = (place: Place): ReadonlyArray<string> => {
  const path: Array<string> = []
  for (let at: Place | undefined = place; at !== undefined; at = at.before) path.push(at.key)
  return path.toReversed()
}

const problemOf = (
  schema: Readonly<Record<string, unknown>>,
  place: Place | undefined,
  taken: ReadonlySet<string>
): string | undefined => {
  const name = schema[ANNOTATION]
  if (place === undefined) return "it stands where no argument can be read from"
  if (typeof name !== "string" || !TOKEN.test(name)) return `${JSON.stringify(name)} is no header name`
  if (taken.has(name.toLowerCase())) return `"${name}" is used twice`
  return isPrimitive(schema["type"])
    ? undefined
    : `"${name}" stands on something else than a string, integer or boolean`
}

const known = new WeakMap<object, HeaderParameters>()

/** Reads a schema once; the answer is kept as long as the schema is. */
const headerParameters = (inputSchema: unknown): HeaderParameters => {
  if (!isObject(inputSchema)) return { _tag: "Valid", parameters: [] }
  const before = known.get(inputSchema)
  if (before !== undefined) return before
  const found = readSchema(inputSchema)
  known.set(inputSchema, found)
  return found
}

const readSchema = (inputSchema: object): HeaderParameters => {
  const parameters: Array<HeaderParameter> = []
  const taken = new Set<string>()
  // A list of what is still to be read instead of recursion: the depth of a server's schema is not ours to trust. There is
  // no place at the root, nor where something else than `properties` was passed.
  const open: Array<{ readonly schema: unknown; readonly place: Place | undefined; readonly reachable: boolean }> = [
    { schema: inputSchema, place: undefined, reachable: true }
  ]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { place, reachable, schema } = next
    if (!isObject(schema)) continue
    if (Object.hasOwn(schema, ANNOTATION)) {
      const problem = problemOf(schema, place, taken)
      if (problem !== undefined || place === undefined) return { _tag: "Invalid", problem: `${ANNOTATION}: ${problem}` }
      const name = String(schema[ANNOTATION]).toLowerCase()
      taken.add(name)
      parameters.push({ path: pathOf(place), header: `mcp-param-${name}` })
    }
    for (const [keyword, value] of Object.entries(schema)) {
      if (HOLDS_MAP.has(keyword) && isObject(value)) {
        const inside = reachable && keyword === "properties"
        for (const [key, child] of Object.entries(value)) {
          open.push({ schema: child, place: inside ? { key, before: place } : undefined, reachable: inside })
        }
      } else if (HOLDS_LIST.has(keyword) && Array.isArray(value)) {
        for (const child of value) open.push({ schema: child, place: undefined, reachable: false })
      } else if (HOLDS_SCHEMA.has(keyword)) {
        open.push({ schema: value, place: undefined, reachable: false })
      }
    }
  }
  return { _tag: "Valid", parameters }
}

/** Why a tool with this schema must not be offered over HTTP; `undefined` when it may. */
export const headerProblem = (inputSchema: unknown): string | undefined => {
  const found = headerParameters(inputSchema)
  return found._tag === "Invalid" ? found.problem : undefined
}

const argumentAt = (args: unknown, path: ReadonlyArray<string>): unknown => {
  let value = args
  for (const key of path) {
    if (!isObject(value) || !Object.hasOwn(value, key)) return undefined
    value = value[key]
  }
  return value
}

/** The `Mcp-Param-*` headers of one call. Absent and null arguments have none. */
export const paramHeaders = (inputSchema: unknown, args: unknown): Record<string, string> => {
  const headers: Record<string, string> = {}
  const found = headerParameters(inputSchema)
  if (found._tag === "Invalid") return headers
  for (const { header, path } of found.parameters) {
    const value = argumentAt(args, path)
    // What is no primitive does not fit the schema, and the server says so better than a header could.
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") {
      headers[header] = headerValue(String(value))
    }
  }
  return headers
}

const SENTINEL = /^=\?base64\?.*\?=$/

/**
 * A text as a header carries it: as it is when it is plain visible ASCII, else in Base64 between the sentinel's marks.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding
 */
export const headerValue = (text: string): string =>
  /^[\x20-\x7e]*$/.test(text) && text.trim() === text && !SENTINEL.test(text)
    ? text
    : `=?base64?${Base64.encode(text)}?=`
