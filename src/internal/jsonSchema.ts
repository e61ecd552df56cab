/*
 * JSON Schema validation for schemas known at run time only.
 *
 * The dialect follows `$schema`: draft-07 where it says so, 2020-12 otherwise.
 * `format` is an annotation, as in 2020-12. A `$ref` is resolved inside its own
 * document, never over the network.
 */
import { Ajv, type ErrorObject, type Options } from "ajv"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import { exceedsDepth, MAX_SCHEMA_DEPTH } from "./depth.ts"
import { messageOf } from "./text.ts"

/** Returns what is wrong with a value, or `undefined` if it fits. */
export type Validate = (value: unknown) => string | undefined

/** How many problems of one value are told. */
const MAX_PROBLEMS = 5

const OPTIONS: Options = {
  strict: false,
  allErrors: false,
  validateFormats: false,
  addUsedSchema: false,
  logger: false,
  // `constructor` is not a property of every object.
  ownProperties: true,
  validateSchema: false
}

/**
 * Compiles a schema into a validator; fails with the reason when it is not a
 * usable JSON Schema.
 */
export const compile = (schema: unknown): Result.Result<Validate, string> => {
  if (!Predicate.isObject(schema)) return Result.fail("a JSON Schema is an object")
  if (exceedsDepth(schema, MAX_SCHEMA_DEPTH)) return Result.fail(`nested deeper than ${MAX_SCHEMA_DEPTH} levels`)
  const dialect = isDraft07(schema) ? DRAFT_07 : DRAFT_2020
  // Its dialect is known; others are read as 2020-12.
  const { $schema: _, ...target } = schema
  return Result.try({
    try: () => {
      const meta = dialect.meta()
      if (meta.validateSchema(target) === false) throw new Error(describe(meta.errors))
      // `$id` of two servers may be the same, so nothing is shared between schemas.
      const validate = dialect.make({ ...OPTIONS, meta: false }).compile<unknown>(target)
      return (value: unknown) => validate(value) ? undefined : describe(validate.errors)
    },
    catch: messageOf
  })
}

/** A dialect, with the validator of its schemas: that takes long to make, and is the same for all. */
const makeDialect = (make: (options: Options) => Ajv | Ajv2020) => {
  let meta: Ajv | Ajv2020 | undefined
  return { make, meta: () => (meta ??= make(OPTIONS)) }
}

const DRAFT_07 = makeDialect((options) => new Ajv(options))
const DRAFT_2020 = makeDialect((options) => new Ajv2020(options))

const isDraft07 = ({ $schema }: { readonly $schema?: unknown }): boolean =>
  typeof $schema === "string" && /^https?:\/\/json-schema\.org\/draft-0[67]\/schema#?$/.test($schema)

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
