/**
 * Failures of a store of large results: keeping one, finding it, reading it.
 *
 * Every operation fails with one `ResultStoreError`; what went wrong is its
 * `reason`.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { excerpt } from "../internal/text.ts"

const TypeId = "~agcore/tools/ResultStoreError" as const

/** How much of a handle somebody made up is repeated. */
const MAX_HANDLE_CHARACTERS = 64

// =============================================================================
// Reasons
// =============================================================================

/**
 * The session has no such result: there never was one, it belongs to another
 * session, or it was removed to make room. These are not told apart, so that a
 * handle says nothing about other sessions.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NotFound extends Schema.TaggedError<NotFound>("agcore/tools/ResultStoreError/NotFound")("NotFound", {
  handle: Schema.String
}) {
  override get message(): string {
    return `there is no stored result "${excerpt(this.handle, MAX_HANDLE_CHARACTERS)}" here;`
      + " if there was, it was removed to make room for newer ones"
  }
}

/**
 * One result is larger than the whole store may grow.
 *
 * @category reasons
 * @since 0.1.0
 */
export class TooLarge extends Schema.TaggedError<TooLarge>("agcore/tools/ResultStoreError/TooLarge")("TooLarge", {
  sizeBytes: Schema.Finite,
  maxBytes: Schema.Finite
}) {
  override get message(): string {
    return `a result of ${this.sizeBytes} bytes does not fit into a store of ${this.maxBytes}`
  }
}

/**
 * What was asked makes no sense: a negative offset, an empty text to search for.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidRequest
  extends Schema.TaggedError<InvalidRequest>("agcore/tools/ResultStoreError/InvalidRequest")("InvalidRequest", {
    problem: Schema.String
  })
{
  override get message(): string {
    return this.problem
  }
}

/**
 * The place where results are kept failed: a full disk, a missing permission, a
 * damaged file.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Io extends Schema.TaggedError<Io>("agcore/tools/ResultStoreError/Io")("Io", {
  description: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  override get message(): string {
    return this.description
  }
}

/**
 * Schema of every reason a store can fail for.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ResultStoreErrorReason: Schema.Union<
  [typeof NotFound, typeof TooLarge, typeof InvalidRequest, typeof Io]
> = Schema.Union([NotFound, TooLarge, InvalidRequest, Io])

/**
 * Why a store failed.
 *
 * @category models
 * @since 0.1.0
 */
export type ResultStoreErrorReason = typeof ResultStoreErrorReason.Type

// =============================================================================
// Error
// =============================================================================

/**
 * The single failure type of a store of results.
 *
 * **Example** (A result that is gone)
 *
 * ```ts run
 * import { ResultStore } from "agcore"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* ResultStore.makeMemory()
 *   return yield* store.read({ sessionId: "s-1", handle: "res_0" })
 * }).pipe(
 *   Effect.catchReason("ResultStoreError", "NotFound", (reason) => Effect.succeed(reason.handle))
 * )
 *
 * await Effect.runPromise(program) // => "res_0"
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class ResultStoreError
  extends Schema.TaggedError<ResultStoreError>("agcore/tools/ResultStoreError")("ResultStoreError", {
    reason: ResultStoreErrorReason
  })
{
  readonly [TypeId] = TypeId

  override readonly cause = this.reason

  override get message(): string {
    return this.reason.message
  }
}

/**
 * Returns whether a value is a `ResultStoreError`.
 *
 * @category guards
 * @since 0.1.0
 */
export const isResultStoreError = (u: unknown): u is ResultStoreError => Predicate.hasProperty(u, TypeId)
