/**
 * Why an audit log could not be opened, written or read.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { messageOf } from "../internal/text.ts"

const TypeId = "~agcore/tools/AuditError" as const

/**
 * The file or the database failed. `cause` is its own error.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unavailable extends Schema.TaggedError<Unavailable>("agcore/tools/AuditError/Unavailable")("Unavailable", {
  description: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  override get message(): string {
    return this.cause === undefined ? this.description : `${this.description}: ${messageOf(this.cause)}`
  }
}

/**
 * Other writers did not let go of the log.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Busy extends Schema.TaggedError<Busy>("agcore/tools/AuditError/Busy")("Busy", {
  description: Schema.String
}) {
  override get message(): string {
    return this.description
  }
}

/**
 * What stands in the log cannot be gone on from: it was cut, exchanged or
 * changed. Nothing is written to it any more. `entries` is how many entries
 * were known to be in order.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Broken extends Schema.TaggedError<Broken>("agcore/tools/AuditError/Broken")("Broken", {
  entries: Schema.Finite,
  explanation: Schema.String
}) {
  override get message(): string {
    return `broken after entry ${this.entries}: ${this.explanation}`
  }
}

/**
 * Writing took longer than `AuditLog.WriteTimeout`. The entry may yet be
 * written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class TimedOut extends Schema.TaggedError<TimedOut>("agcore/tools/AuditError/TimedOut")("TimedOut", {
  timeoutMillis: Schema.Finite
}) {
  override get message(): string {
    return `not written within ${this.timeoutMillis} ms`
  }
}

/**
 * Schema of every reason an audit log fails for.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AuditErrorReason: Schema.Union<[typeof Unavailable, typeof Busy, typeof Broken, typeof TimedOut]> = Schema
  .Union([Unavailable, Busy, Broken, TimedOut])

/**
 * Why an audit log failed.
 *
 * @category models
 * @since 0.1.0
 */
export type AuditErrorReason = typeof AuditErrorReason.Type

/**
 * The single failure type of audit logs.
 *
 * **Example** (Recovering from one reason)
 *
 * ```ts run
 * import { AuditError } from "agcore"
 * import { Effect } from "effect"
 *
 * const write = Effect.fail(
 *   new AuditError.AuditError({ reason: new AuditError.Broken({ entries: 12, explanation: "the file was cut" }) })
 * )
 *
 * const program = write.pipe(Effect.catchReason("AuditError", "Broken", (reason) => Effect.succeed(reason.entries)))
 *
 * await Effect.runPromise(program) // => 12
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class AuditError extends Schema.TaggedError<AuditError>("agcore/tools/AuditError")("AuditError", {
  reason: AuditErrorReason
}) {
  readonly [TypeId] = TypeId

  override readonly cause = this.reason

  override get message(): string {
    return `Audit log: ${this.reason.message}`
  }
}

/**
 * Returns whether a value is an `AuditError`.
 *
 * @category guards
 * @since 0.1.0
 */
export const isAuditError = (u: unknown): u is AuditError => Predicate.hasProperty(u, TypeId)
