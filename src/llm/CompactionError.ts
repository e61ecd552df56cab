/**
 * A strategy could not shorten a transcript. A cycle logs it, and the transcript
 * stays as it was.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

const TypeId = "~agcore/llm/CompactionError" as const

/**
 * Why a strategy has come to nothing.
 *
 * **Example** (What a strategy fails with)
 *
 * ```ts run
 * import { CompactionError, CompactionStrategy } from "agcore"
 * import { Effect } from "effect"
 *
 * const strategy = CompactionStrategy.custom("archive", () => Effect.fail(new Error("the archive is closed")))
 *
 * const error = new CompactionError.CompactionError({
 *   strategy: strategy.name,
 *   description: "the archive is closed"
 * })
 *
 * error.message // => "archive: the archive is closed"
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class CompactionError
  extends Schema.TaggedError<CompactionError>("agcore/llm/CompactionError")("CompactionError", {
    /** Its name. */
    strategy: Schema.String,
    description: Schema.String,
    cause: Schema.optionalKey(Schema.Defect())
  })
{
  readonly [TypeId] = TypeId

  override get message(): string {
    return `${this.strategy}: ${this.description}`
  }
}

/**
 * Returns whether a value is a `CompactionError`.
 *
 * @category guards
 * @since 0.1.0
 */
export const isCompactionError = (u: unknown): u is CompactionError => Predicate.hasProperty(u, TypeId)
