/*
 * The JSON Schema of a tool's arguments, with an object at its root.
 */
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { exceedsDepth, MAX_SCHEMA_DEPTH } from "./depth.ts"
import * as SecretProperties from "./secretProperties.ts"
import { messageOf } from "./text.ts"

/** Describes what a schema's JSON form looks like; fails with why it cannot be offered. */
export const fromSchema = (schema: Schema.Constraint): Result.Result<JsonSchema.JsonSchema, string> =>
  Result.try({
    try: () => Schema.toJsonSchemaDocument(Schema.toCodecJson(schema)),
    catch: messageOf
  }).pipe(
    Result.flatMap(({ definitions, schema }) => {
      const root = resolveRoot(schema, definitions)
      return fromJsonSchema(Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions })
    }),
    Result.tap((inputSchema) => SecretProperties.declare(inputSchema, schema))
  )

/** Accepts a JSON Schema whose root is an object; an absent type means one. */
export const fromJsonSchema = (schema: JsonSchema.JsonSchema): Result.Result<JsonSchema.JsonSchema, string> =>
  !Predicate.isObject(schema)
    ? Result.fail("parameters must be described by an object")
    : exceedsDepth(schema, MAX_SCHEMA_DEPTH)
    ? Result.fail(`nested deeper than ${MAX_SCHEMA_DEPTH} levels`)
    : schema["type"] === "object"
    ? Result.succeed("properties" in schema ? schema : { ...schema, properties: {} })
    : schema["type"] === undefined && "properties" in schema
    ? Result.succeed({ ...schema, type: "object" })
    : Result.fail("parameters must be an object: the root of their JSON Schema has to say \"type\": \"object\"")

// A named root is a reference into the definitions; models want it in place.
const resolveRoot = (
  schema: JsonSchema.JsonSchema,
  definitions: Readonly<Record<string, JsonSchema.JsonSchema>>
): JsonSchema.JsonSchema => {
  const name = typeof schema["$ref"] === "string" ? /^#\/\$defs\/(.+)$/.exec(schema["$ref"])?.[1] : undefined
  // A struct without fields takes whatever is there; a call's arguments always are an object.
  if (name === undefined) return isAnyPresent(schema) ? { type: "object" } : schema
  return definitions[name.replaceAll("~1", "/").replaceAll("~0", "~")] ?? schema
}

const isAnyPresent = ({ not, ...rest }: JsonSchema.JsonSchema): boolean =>
  Predicate.isObject(not) && not["type"] === "null" && Object.keys(not).length === 1 && Object.keys(rest).length === 0
