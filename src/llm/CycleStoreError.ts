/**
 * Why a conversation could not be kept, or read back.
 *
 * None of them changes what is stored.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { excerpt } from "../internal/text.ts"

const TypeId = "~agcore/llm/CycleStoreError" as const

/** How much of an id is repeated: it may be a whole text. */
const MAX_ID_CHARACTERS = 100

// =============================================================================
// Reasons
// =============================================================================

/**
 * Somebody else saved or removed the conversation meanwhile. Two versions are
 * never merged: load it and go on from there. `expected` is the revision the
 * save builds on, `found` the one that is stored; 0 is none.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Conflict extends Schema.TaggedError<Conflict>("agcore/llm/CycleStoreError/Conflict")("Conflict", {
  expected: Schema.Finite,
  found: Schema.Finite
}) {
  override get message(): string {
    return `it was saved or removed by somebody else meanwhile (${shown(this.expected)} was expected, ${
      shown(this.found)
    } found): load it and go on from there`
  }
}

const shown = (revision: number): string => revision === 0 ? "none" : `revision ${revision}`

/**
 * It is kept in a format that this version does not know. `supported` is the
 * newest format it reads.
 *
 * @category reasons
 * @since 0.1.0
 */
export class UnsupportedFormat
  extends Schema.TaggedError<UnsupportedFormat>("agcore/llm/CycleStoreError/UnsupportedFormat")("UnsupportedFormat", {
    found: Schema.Finite,
    supported: Schema.Finite
  })
{
  override get message(): string {
    return `it is kept in format ${this.found} and this version of agcore reads formats up to ${this.supported}: `
      + "open it with the version that saved it, or a newer one; nothing was changed"
  }
}

/**
 * What is stored is no conversation: it was damaged, or written by something
 * else. It stays until the session is removed.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Corrupt extends Schema.TaggedError<Corrupt>("agcore/llm/CycleStoreError/Corrupt")("Corrupt", {
  issue: Schema.String
}) {
  override get message(): string {
    return `what is stored cannot be read: ${this.issue}`
  }
}

/**
 * The conversation holds something that has no JSON: `issue` says where.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NotStorable
  extends Schema.TaggedError<NotStorable>("agcore/llm/CycleStoreError/NotStorable")("NotStorable", {
    issue: Schema.String
  })
{
  override get message(): string {
    return `it cannot be stored: ${this.issue}`
  }
}

/**
 * The store itself failed or did not answer in time. A save that was not
 * answered may still have been made; loading tells.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Io extends Schema.TaggedError<Io>("agcore/llm/CycleStoreError/Io")("Io", {
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
export const CycleStoreErrorReason: Schema.Union<[
  typeof Conflict,
  typeof UnsupportedFormat,
  typeof Corrupt,
  typeof NotStorable,
  typeof Io
]> = Schema.Union([Conflict, UnsupportedFormat, Corrupt, NotStorable, Io])

/**
 * Why a store failed.
 *
 * @category models
 * @since 0.1.0
 */
export type CycleStoreErrorReason = typeof CycleStoreErrorReason.Type

// =============================================================================
// Error
// =============================================================================

/**
 * The single failure type of a store. `sessionId` is absent where it is about
 * all of them.
 *
 * **Example** (Told that somebody else was faster)
 *
 * ```ts run
 * import { CycleStoreError } from "agcore"
 * import { Effect } from "effect"
 *
 * const save = Effect.fail(
 *   new CycleStoreError.CycleStoreError({
 *     sessionId: "a",
 *     reason: new CycleStoreError.Conflict({ expected: 3, found: 4 })
 *   })
 * )
 *
 * const program = save.pipe(
 *   Effect.catchReason("CycleStoreError", "Conflict", ({ found }) => Effect.succeed(`${found} is stored`))
 * )
 *
 * await Effect.runPromise(program) // => "4 is stored"
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class CycleStoreError
  extends Schema.TaggedError<CycleStoreError>("agcore/llm/CycleStoreError")("CycleStoreError", {
    sessionId: Schema.optionalKey(Schema.String),
    reason: CycleStoreErrorReason
  })
{
  readonly [TypeId] = TypeId

  override readonly cause = this.reason

  override get message(): string {
    return this.sessionId === undefined
      ? `Stored conversations: ${this.reason.message}`
      : `Conversation "${excerpt(this.sessionId, MAX_ID_CHARACTERS)}": ${this.reason.message}`
  }
}

/**
 * Returns whether a value is a `CycleStoreError`.
 *
 * @category guards
 * @since 0.1.0
 */
export const isCycleStoreError = (u: unknown): u is CycleStoreError => Predicate.hasProperty(u, TypeId)
