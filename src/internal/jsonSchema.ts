/*
 * JSON Schema validation for schemas known at run time only.
 *
 * The dialect follows `$schema`: draft-07 where it says so, 2020-12 otherwise.
 * `format` is an annotation, as in 2020-12. A `$ref` is resolved inside its own
 * document, never over the network.
 */
import { Ajv, type AnySchema, type ErrorObject, type Options } from "ajv"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"

/** Returns what is wrong with a value, or `undefined` if it fits. */
export type Validate = (value: unknown) => string | undefined

/** Nesting of a schema above which it is refused: the compiler recurses over it. */
export const MAX_SCHEMA_DEPTH = 128

/** How many problems of one value are told. */
const MAX_PROBLEMS = 5

const OPTIONS: Options = {
  strict: false,
  allErrors: false,
  validateFormats: false,
  addUsedSchema: false,
  logger: false,
  // `$id` of two servers may be the same; nothing is shared between schemas.
  validateSchema: false
}

/**
 * Compiles a schema into a validator; fails with the reason when it is not a
 * usable JSON Schema.
 */
export const compile = (schema: unknown): Result.Result<Validate, string> => {
  if (!isSchema(schema)) return Result.fail("a JSON Schema is an object or a boolean")
  if (exceedsDepth(schema, MAX_SCHEMA_DEPTH)) return Result.fail(`nested deeper than ${MAX_SCHEMA_DEPTH} levels`)
  return Result.try({
    try: () => {
      const ajv = isDraft07(schema) ? new Ajv(OPTIONS) : new Ajv2020(OPTIONS)
      // The meta schema of the dialect is known; other dialects are read as 2020-12.
      const { $schema: _, ...document } = typeof schema === "boolean" ? { $schema: undefined, not: {} } : schema
      const target: AnySchema = typeof schema === "boolean" ? schema : document
      if (ajv.validateSchema(target) === false) throw new Error(describe(ajv.errors))
      const validate = ajv.compile<unknown>(target)
      return (value: unknown) => validate(value) ? undefined : describe(validate.errors)
    },
    catch: (cause) => cause instanceof Error ? cause.message : String(cause)
  })
}

const isSchema = (schema: unknown): schema is boolean | Record<string, unknown> =>
  typeof schema === "boolean" || Predicate.isObject(schema)

const isDraft07 = (schema: boolean | Record<string, unknown>): boolean =>
  typeof schema === "object" && typeof schema["$schema"] === "string" &&
  /^https?:\/\/json-schema\.org\/draft-0[67]\/schema#?$/.test(schema["$schema"])

/** Whether JSON nests deeper than `limit`; itself iterative, so that depth cannot hurt it. */
export const exceedsDepth = (value: unknown, limit: number): boolean => {
  let level: Array<object> = typeof value === "object" && value !== null ? [value] : []
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= limit) return true
    level = level.flatMap((node) =>
      Object.values(node).filter((child): child is object => typeof child === "object" && child !== null)
    )
  }
  return false
}

const describe = (errors: ReadonlyArray<ErrorObject> | null | undefined): string =>
  (errors ?? []).slice(0, MAX_PROBLEMS).map((error) => {
    const at = error.instancePath === "" ? "" : `${error.instancePath.replaceAll("/", ".").slice(1)}: `
    const detail = error.keyword === "enum"
      ? ` (${JSON.stringify(error.params["allowedValues"])})`
      : error.keyword === "additionalProperties"
      ? ` (${JSON.stringify(error.params["additionalProperty"])})`
      : ""
    return `${at}${error.message ?? error.keyword}${detail}`
  }).join("; ") || "does not match"
