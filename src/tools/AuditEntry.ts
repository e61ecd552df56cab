/**
 * What an audit log holds: for each call of a tool what was decided about it,
 * and for each that ran how it ended.
 *
 * The first is written before anything runs. So a call that is decided on and
 * has no end is one whose process died, or whose end could not be written.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

// =============================================================================
// Verdicts
// =============================================================================

/**
 * The policy let the call run.
 *
 * @category models
 * @since 0.1.0
 */
export class Allowed extends Schema.TaggedClass<Allowed>("agcore/tools/AuditEntry/Allowed")("Allowed", {}) {}

/**
 * A person let the call run. `edited`: with other arguments than the model's;
 * the entry has those that it ran with.
 *
 * @category models
 * @since 0.1.0
 */
export class Approved
  extends Schema.TaggedClass<Approved>("agcore/tools/AuditEntry/Approved")("Approved", { edited: Schema.Boolean })
{}

/**
 * A person answered what the tool had asked, so it goes on.
 *
 * @category models
 * @since 0.1.0
 */
export class Answered extends Schema.TaggedClass<Answered>("agcore/tools/AuditEntry/Answered")("Answered", {}) {}

/**
 * The call waits for a person, and has not run.
 *
 * @category models
 * @since 0.1.0
 */
export class Asked extends Schema.TaggedClass<Asked>("agcore/tools/AuditEntry/Asked")("Asked", {
  question: Schema.String
}) {}

/**
 * The call did not run: `by` the policy, or by a person who was asked or did not
 * answer. `explanation` is theirs.
 *
 * @category models
 * @since 0.1.0
 */
export class Denied extends Schema.TaggedClass<Denied>("agcore/tools/AuditEntry/Denied")("Denied", {
  by: Schema.Literals(["policy", "person"]),
  explanation: Schema.String
}) {}

/**
 * The call did not run because it could not: no such tool, arguments that do
 * not fit. `reason` is the tag of the `ToolError`'s reason.
 *
 * @category models
 * @since 0.1.0
 */
export class Rejected extends Schema.TaggedClass<Rejected>("agcore/tools/AuditEntry/Rejected")("Rejected", {
  reason: Schema.String
}) {}

/**
 * Schema of every verdict.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Verdict: Schema.Union<[
  typeof Allowed,
  typeof Approved,
  typeof Answered,
  typeof Asked,
  typeof Denied,
  typeof Rejected
]> = Schema.Union([Allowed, Approved, Answered, Asked, Denied, Rejected])

/**
 * What was decided about a call.
 *
 * @category models
 * @since 0.1.0
 */
export type Verdict = typeof Verdict.Type

// =============================================================================
// Entries
// =============================================================================

const call = {
  /** Says which entries belong together; the same for no two calls. */
  invocationId: Schema.String,
  /** When the entry was made: UTC, ISO 8601. */
  at: Schema.String,
  /** On whose behalf the call was made. Absent: the application did not say. */
  actor: Schema.optionalKey(Schema.String),
  sessionId: Schema.String,
  traceId: Schema.String,
  /** The turn of the conversation, counted from 1; 0 outside of one. */
  turn: Schema.Finite,
  /** The position among the calls of the turn, counted from 0. */
  index: Schema.Finite,
  /** The label the model gave to the call. */
  toolCallId: Schema.String,
  toolName: Schema.String
}

/**
 * What was decided about a call. `Allowed`, `Approved` and `Answered` mean that
 * it runs now; it has a `CallEnded` then.
 *
 * @category models
 * @since 0.1.0
 */
export class CallDecided extends Schema.TaggedClass<CallDecided>("agcore/tools/AuditEntry/CallDecided")("CallDecided", {
  ...call,
  verdict: Verdict,
  /** The arguments, as `AuditLog.Redact` shows them. */
  arguments: Schema.Json
}) {}

/**
 * How a call ended that ran, or was about to.
 *
 * @category models
 * @since 0.1.0
 */
export class CallEnded extends Schema.TaggedClass<CallEnded>("agcore/tools/AuditEntry/CallEnded")("CallEnded", {
  ...call,
  /** `suspended`: it asked a question and goes on with the answer, as a call of its own here. */
  outcome: Schema.Literals(["success", "failure", "interrupted", "suspended"]),
  /** The tag of the `ToolError`'s reason. Absent: there was none. */
  reason: Schema.optionalKey(Schema.String),
  /** What the reason says besides: `origin`, `why`, or whether the work of a `TimedOut` was `stopped`. Absent: nothing. */
  detail: Schema.optionalKey(Schema.String),
  /** How long the tool ran; 0 if it never started. */
  durationMillis: Schema.Finite
}) {}

/**
 * Schema of every entry.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AuditEntry: Schema.Union<[typeof CallDecided, typeof CallEnded]> = Schema.Union([CallDecided, CallEnded])

/**
 * An entry of an audit log.
 *
 * @category models
 * @since 0.1.0
 */
export type AuditEntry = typeof AuditEntry.Type

/**
 * An entry as JSON, as logs store it.
 *
 * **Example** (An entry as JSON)
 *
 * ```ts run
 * import { AuditEntry } from "agcore"
 *
 * const entry = new AuditEntry.CallDecided({
 *   invocationId: "1",
 *   at: "2026-01-01T00:00:00.000Z",
 *   sessionId: "session",
 *   traceId: "trace",
 *   turn: 1,
 *   index: 0,
 *   toolCallId: "call-1",
 *   toolName: "add",
 *   verdict: new AuditEntry.Allowed(),
 *   arguments: { a: 1 }
 * })
 *
 * JSON.stringify(AuditEntry.toJson(entry)).includes('"verdict":{"_tag":"Allowed"}') // => true
 * ```
 *
 * @category destructors
 * @since 0.1.0
 */
export const toJson = (entry: AuditEntry): Schema.Json => {
  encode ??= Schema.encodeSync(Schema.toCodecJson(AuditEntry))
  return encode(entry)
}

// Made with the first entry: most programs write none.
let encode: ((entry: AuditEntry) => Schema.Json) | undefined
