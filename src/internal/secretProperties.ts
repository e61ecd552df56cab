/*
 * Which properties of a tool's arguments hold secrets, as far as their schema says: `Schema.Redacted`, and in JSON
 * Schema `"format": "password"` and `"writeOnly": true`.
 *
 * Names count, wherever they stand: what is inside of what changes between a schema and its JSON, names seldom do.
 */
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"

export interface Secrets {
  readonly names: ReadonlySet<string>
  /** Something is secret that has no name. */
  readonly everything: boolean
}

/** JSON Schema does not say what its Schema did, so it is kept beside it. */
const declared = new WeakMap<JsonSchema.JsonSchema, Secrets>()
const known = new WeakMap<JsonSchema.JsonSchema, Secrets>()

/** Keeps what a Schema says for the JSON Schema that was made of it. */
export const declare = (inputSchema: JsonSchema.JsonSchema, schema: Schema.Constraint): void => {
  const secrets = fromAst(schema.ast)
  if (secrets.everything || secrets.names.size > 0) declared.set(inputSchema, secrets)
}

/** The secrets among the arguments that a JSON Schema describes. */
export const of = (inputSchema: JsonSchema.JsonSchema): Secrets => {
  const found = known.get(inputSchema)
  if (found !== undefined) return found
  const own = declared.get(inputSchema)
  const marked = fromJsonSchema(inputSchema)
  const secrets = {
    names: new Set([...own?.names ?? [], ...marked.names]),
    everything: own?.everything === true || marked.everything
  }
  known.set(inputSchema, secrets)
  return secrets
}

const makeFound = () => {
  const names = new Set<string>()
  const found = { names, everything: false }
  const add = (name: string | undefined): void => {
    if (name === undefined) found.everything = true
    else names.add(name)
  }
  return { found, add }
}

// -----------------------------------------------------------------------------
// Schema
// -----------------------------------------------------------------------------

const fromAst = (root: SchemaAST.AST): Secrets => {
  const { add, found } = makeFound()
  const suspended = new Set<SchemaAST.AST>()

  /** Whether there is a secret inside; `name` is the property that it is in. */
  const visit = (ast: SchemaAST.AST, name: string | undefined): boolean => {
    const isSecret = isRedacted(ast)
    if (isSecret) add(name)
    const inside = visitParts(ast, name)
    // In another form it may have other names.
    if (inside && (ast.encoding ?? []).some(({ to }) => !hasNamesOf(to, ast))) add(name)
    return (ast.encoding ?? []).map(({ to }) => visit(to, name)).includes(true) || isSecret || inside
  }

  const visitParts = (ast: SchemaAST.AST, name: string | undefined): boolean => {
    const all = (parts: ReadonlyArray<SchemaAST.AST>) => parts.map((part) => visit(part, name)).includes(true)
    switch (ast._tag) {
      case "Declaration":
        return all(ast.typeParameters)
      case "Arrays":
        return all([...ast.elements, ...ast.rest])
      case "Union":
        return all(ast.types)
      case "Objects":
        return [
          ...ast.propertySignatures.map(({ name, type }) => visit(type, String(name))),
          all(ast.indexSignatures.map(({ type }) => type))
        ].includes(true)
      case "Suspend": {
        if (suspended.has(ast)) return false
        suspended.add(ast)
        return visit(ast.thunk(), name)
      }
      default:
        return false
    }
  }

  visit(root, undefined)
  return found
}

const isRedacted = (ast: SchemaAST.AST): boolean =>
  Predicate.isObject(ast.annotations?.["representation"]) &&
  ast.annotations["representation"]["id"] === "effect/schema/Redacted"

/** A class is another form of its struct. */
const propertiesOf = (ast: SchemaAST.AST): ReadonlyArray<string> =>
  ast._tag === "Objects"
    ? ast.propertySignatures.map(({ name }) => String(name))
    : ast._tag === "Declaration"
    ? ast.typeParameters.flatMap(propertiesOf)
    : []

const hasNamesOf = (to: SchemaAST.AST, ast: SchemaAST.AST): boolean => {
  const names = new Set(propertiesOf(to))
  return propertiesOf(ast).every((name) => names.has(name))
}

// -----------------------------------------------------------------------------
// JSON Schema
// -----------------------------------------------------------------------------

const fromJsonSchema = (root: JsonSchema.JsonSchema): Secrets => {
  const { add, found } = makeFound()
  const marked = new Map<unknown, boolean>()

  /** Whether a value of that schema is a secret, or a list of some. */
  const isMarked = (schema: unknown): boolean => {
    if (!Predicate.isObjectOrArray(schema)) return false
    const before = marked.get(schema)
    if (before !== undefined) return before
    // It may refer to itself.
    marked.set(schema, false)
    const answer = Array.isArray(schema) ? schema.some(isMarked) : isMarkedObject(schema)
    marked.set(schema, answer)
    return answer
  }

  const isMarkedObject = (schema: Readonly<Record<PropertyKey, unknown>>): boolean =>
    schema["format"] === "password" || schema["writeOnly"] === true ||
    (typeof schema["$ref"] === "string" && isMarked(resolve(root, schema["$ref"]))) ||
    PARTS.some((keyword) => isMarked(schema[keyword])) ||
    (Predicate.isObject(schema["patternProperties"]) && Object.values(schema["patternProperties"]).some(isMarked))

  /** Looks at the properties that are described anywhere. */
  const visit = (schema: unknown): void => {
    if (!Predicate.isObjectOrArray(schema)) return
    const properties = "properties" in schema ? schema.properties : undefined
    if (Predicate.isObject(properties)) {
      for (const [name, each] of Object.entries(properties)) if (isMarked(each)) add(name)
    }
    Object.values(schema).forEach(visit)
  }

  if (isMarked(root)) add(undefined)
  visit(root)
  return found
}

/** Keywords whose values describe the value itself, or all that it holds. */
const PARTS = ["items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf"]

const resolve = (root: JsonSchema.JsonSchema, ref: string): unknown =>
  ref.startsWith("#/")
    ? ref.slice(2).split("/").reduce<unknown>(
      (node, step) => Predicate.isObject(node) ? node[step.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined,
      root
    )
    : undefined
