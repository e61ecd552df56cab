/*
 * How deep JSON nests. Those who walk it recursively must not let others decide
 * how deep.
 */
import * as Predicate from "effect/Predicate"

/** Nesting of a JSON Schema above which it is refused: its compiler recurses over it. */
export const MAX_SCHEMA_DEPTH = 128

/** Whether JSON nests deeper than `limit`; itself iterative, so that depth cannot hurt it. */
export const exceedsDepth = (value: unknown, limit: number): boolean => {
  let level = new Set([value].filter(Predicate.isObjectOrArray))
  for (let depth = 0; level.size > 0; depth++) {
    if (depth >= limit) return true
    // A set: what is not JSON may hold an object many times over.
    level = new Set(Array.from(level).flatMap(Object.values).filter(Predicate.isObjectOrArray))
  }
  return false
}
