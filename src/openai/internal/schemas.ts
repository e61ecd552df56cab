/*
 * JSON Schemas in the dialects servers read.
 *
 * A schema only becomes wider or stays as it is, except that strict mode closes objects: what a tool receives is
 * checked against its own schema anyway.
 */
import * as Predicate from "effect/Predicate"
import type { ProviderProfile } from "../ProviderProfile.ts"

type Schema = Readonly<Record<string, unknown>>

export interface Dialect {
  readonly schema: Schema
  /** Whether the server may be told to hold the model to the schema. */
  readonly strict: boolean
}

/** `wanted` overrides the profile; a schema that strict mode can't express is sent without it. */
export const toDialect = (schema: Schema, profile: ProviderProfile, wanted = profile.strictSchemas): Dialect => {
  const { $schema: _, ...plain } = schema
  const root = { ...plain, type: "object", properties: plain["properties"] ?? {} }
  if (profile.schemaDialect === "gemini") return { schema: toGemini(root), strict: false }
  const strict = profile.strictSchemas && wanted ? toStrict(root) : undefined
  return strict === undefined ? { schema: root, strict: false } : { schema: strict, strict: true }
}

// =============================================================================
// Strict
// =============================================================================

const strictKeywords = new Set(
  `$ref $defs definitions type title description enum const anyOf properties required additionalProperties items
  pattern format multipleOf minimum exclusiveMinimum maximum exclusiveMaximum minItems maxItems`.split(/\s+/)
)

/**
 * The schema with every object closed; `undefined` if strict mode can't express it: optional properties, open maps,
 * schemas without a type, other keywords. https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */
const toStrict = (root: Schema): Schema | undefined => {
  let possible = root["anyOf"] === undefined

  const strictMap = (schemas: unknown): Schema =>
    Predicate.isObject(schemas)
      ? Object.fromEntries(Object.entries(schemas).map(([key, value]) => [key, strict(value)]))
      : {}

  const strict = (schema: unknown): Schema => {
    if (!Predicate.isObject(schema) || !Object.keys(schema).every((key) => strictKeywords.has(key))) {
      possible = false
      return {}
    }
    possible &&= ["type", "anyOf", "enum", "const", "$ref"].some((key) => schema[key] !== undefined)
    const out: Record<string, unknown> = { ...schema }
    if (schema["type"] === "object" || schema["properties"] !== undefined) {
      const properties = strictMap(schema["properties"])
      const names = Object.keys(properties)
      const required = Array.isArray(schema["required"]) ? schema["required"] : []
      const open = schema["additionalProperties"]
      possible &&= names.every((name) => required.includes(name)) &&
        (open === false || (names.length > 0 && (open === undefined || open === true)))
      Object.assign(out, { properties, required: names, additionalProperties: false })
    }
    if (schema["type"] === "array" || schema["items"] !== undefined) out["items"] = strict(schema["items"])
    if (Array.isArray(schema["anyOf"])) out["anyOf"] = schema["anyOf"].map(strict)
    for (const key of ["$defs", "definitions"]) {
      if (schema[key] !== undefined) out[key] = strictMap(schema[key])
    }
    return out
  }

  const schema = strict(root)
  return possible ? schema : undefined
}

// =============================================================================
// Gemini
// =============================================================================

const geminiKeywords = new Set(
  `type title description properties required items minItems maxItems minimum maximum minLength maxLength pattern
  nullable`.split(/\s+/)
)

/** References can make a small schema huge; what is beyond this many schemas is left open. */
const MAX_GEMINI_SCHEMAS = 5000

/**
 * The subset of OpenAPI's schemas Gemini reads: references put in place (a recursive one as an open object), `const` and
 * literals as string enums, several types or `oneOf` as `anyOf`, and no keyword it does not know.
 * https://ai.google.dev/gemini-api/docs/structured-output
 */
const toGemini = (root: Schema): Schema => {
  let budget = MAX_GEMINI_SCHEMAS

  const resolve = (reference: string): Schema | undefined => {
    let target: unknown = root
    for (const step of reference.replace(/^#\/?/, "").split("/")) {
      if (step === "") continue
      const key = step.replaceAll("~1", "/").replaceAll("~0", "~")
      target = Predicate.isObject(target) && Object.hasOwn(target, key) ? target[key] : undefined
    }
    return Predicate.isObject(target) ? target : undefined
  }

  const convert = (value: unknown, within: ReadonlyArray<string>): Schema => {
    if (!Predicate.isObject(value) || budget-- <= 0) return {}
    const reference = value["$ref"]
    if (typeof reference === "string") {
      const { $ref: _, ...siblings } = value
      const target = within.includes(reference) ? undefined : resolve(reference)
      if (target === undefined) return convert({ type: "object", ...siblings }, within)
      return convert({ ...target, ...siblings }, [...within, reference])
    }
    const schema = Array.isArray(value["allOf"]) ? merge(value, value["allOf"]) : value
    const out: Record<string, unknown> = {}
    for (const [key, item] of Object.entries(schema)) {
      if (geminiKeywords.has(key)) out[key] = item
    }
    if (out["properties"] !== undefined || out["type"] === "object") {
      const properties = Predicate.isObject(out["properties"]) ? out["properties"] : {}
      const required = Array.isArray(out["required"]) ? out["required"] : []
      out["type"] = "object"
      out["properties"] = Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, convert(property, within)])
      )
      out["required"] = required.filter((name) => typeof name === "string" && Object.hasOwn(properties, name))
    }
    if (out["type"] === "array" || out["items"] !== undefined) {
      out["items"] = Predicate.isObject(schema["items"]) ? convert(schema["items"], within) : { type: "string" }
    }
    const values = schema["const"] === undefined ? schema["enum"] : [schema["const"]]
    if (Array.isArray(values)) Object.assign(out, literals(values, schema["description"]))
    const choices = [schema["anyOf"], schema["oneOf"]].find(Array.isArray)
    const types = out["type"]
    if (choices !== undefined) {
      out["anyOf"] = choices.map((choice) => convert(choice, within))
    } else if (Array.isArray(types)) {
      const { type: _, description, title, ...rest } = out
      return {
        ...Object.fromEntries(Object.entries({ title, description }).filter(([, text]) => text !== undefined)),
        anyOf: types.map((type: unknown) => type === "null" ? { type } : convert({ ...rest, type }, within))
      }
    }
    return out
  }

  return convert(root, [])
}

/** Gemini's enums hold strings only; other values are described. */
const literals = (values: ReadonlyArray<unknown>, description: unknown): Schema => {
  if (values.every((value) => typeof value === "string")) return { type: "string", enum: values }
  const [type, ...others] = new Set(values.map((value) => value === null ? "null" : typeof value))
  const allowed = `One of: ${values.map((value) => JSON.stringify(value)).join(", ")}`
  return {
    ...(others.length === 0 && type !== "object" ? { type } : undefined),
    description: typeof description === "string" ? `${description}. ${allowed}` : allowed
  }
}

/** One schema for all of `allOf`; where two say different things, the outer one and then the earlier one holds. */
const merge = (schema: Schema, members: ReadonlyArray<unknown>): Schema => {
  const { allOf: _, ...rest } = schema
  const all: Record<string, unknown> = rest
  for (const member of members.filter(Predicate.isObject)) {
    for (const [key, value] of Object.entries(member)) {
      const held = all[key]
      if (held === undefined) all[key] = value
      else if (key === "properties" && Predicate.isObject(held) && Predicate.isObject(value)) {
        all[key] = { ...value, ...held }
      } else if (key === "required" && Array.isArray(held) && Array.isArray(value)) all[key] = [...held, ...value]
    }
  }
  return all
}
