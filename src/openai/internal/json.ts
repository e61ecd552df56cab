/*
 * Reading JSON that servers are free about.
 *
 * Fields are missing, null or of another type than documented, and a stream is read at tens of thousands of chunks a
 * second: each reader takes what it can use and answers `undefined` for the rest, instead of a schema that would refuse
 * the whole chunk.
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type { Json, JsonObject } from "effect/Schema"
import { exceedsDepth } from "../../internal/depth.ts"

export type { Json, JsonObject }

/** Parses JSON text; `undefined` when it is not JSON, which JSON itself can't say. */
export const parse = (text: string): Json | undefined => Result.getOrUndefined(Result.try((): Json => JSON.parse(text)))

/** Writes JSON; of a value nested too deep to write, a text that says so and is no JSON itself. */
export const write = (value: Json): string =>
  Result.getOrElse(Result.try(() => JSON.stringify(value)), () => "(nested too deep)")

export const isObject = (value: Json | undefined): value is JsonObject => Predicate.isObject(value)

export const object = (value: Json | undefined): JsonObject | undefined => isObject(value) ? value : undefined

/** A list, empty where there is none. The check alone does not narrow a type of readonly arrays. */
export const array = (value: Json | undefined): ReadonlyArray<Json> =>
  Array.isArray(value) ? value as ReadonlyArray<Json> : []

/** A string with something in it: servers send `""` where they mean nothing. */
export const text = (value: Json | undefined): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

/** A count, as tokens and times are. */
export const count = (value: Json | undefined): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined

/** Parses text that holds a JSON object. */
export const parseObject = (source: string): JsonObject | undefined => object(parse(source))

/** Nesting of what is kept as metadata: schemas walk it recursively later, so a server must not decide how deep. */
const MAX_METADATA_DEPTH = 32

/** Whether JSON is shallow enough to be kept as metadata. */
export const isShallow = (value: Json): boolean => !exceedsDepth(value, MAX_METADATA_DEPTH)
