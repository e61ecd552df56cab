/*
 * What a registry writes to its audit log: an entry when a call is decided on, before anything of it runs, and one when
 * it has ended. The first has to be kept or the call does not run. The second tells what has happened already, so a
 * failure to write it is logged and changes nothing.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { canonical, uuid } from "../../internal/digest.ts"
import { excerpt } from "../../internal/text.ts"
import * as AuditEntry from "../AuditEntry.ts"
import { AuditError, TimedOut, Unavailable } from "../AuditError.ts"
import * as AuditLog from "../AuditLog.ts"
import type { Definition } from "../Tool.ts"
import type { ToolErrorReason } from "../ToolError.ts"
import type { ToolCall, ToolInvocation } from "../ToolInvocation.ts"
import type { Identity, Ready } from "./run.ts"
import { supervise } from "./supervise.ts"

/** How much is written of a name, a label or an explanation: models and others make them up. */
const MAX_TEXT_CHARACTERS = 1_000

/** Which call an entry is about. */
interface Subject {
  readonly call: ToolCall
  readonly tool: Definition | undefined
  readonly identity: Pick<Identity, "sessionId" | "traceId" | "turn" | "index">
  readonly actor: string | undefined
}

export interface Recorder {
  /** Notes that a call was answered without having run. */
  readonly rejected: (subject: Subject, reason: ToolErrorReason) => Effect.Effect<void>
  /** Runs a call between its two entries; `unaudited` is the answer if the first cannot be written. */
  readonly around: (
    subject: Subject,
    verdict: AuditEntry.Verdict,
    run: Effect.Effect<ToolInvocation>,
    unaudited: Effect.Effect<ToolInvocation>
  ) => Effect.Effect<ToolInvocation>
}

/** The recorder of the log in the context, or one that does nothing. */
export const make: Effect.Effect<Recorder> = Effect.gen(function*() {
  const log = yield* AuditLog.AuditLog
  if (log === undefined) return { rejected: () => Effect.void, around: (_subject, _verdict, run) => run }
  const timeout = yield* AuditLog.WriteTimeout
  const redact = yield* AuditLog.Redact
  const maxArgumentsBytes = yield* AuditLog.MaxArgumentsBytes

  // A log that does not react to interruption must not hold a call for longer than its time.
  const write = (entry: Effect.Effect<AuditEntry.AuditEntry, AuditError>): Effect.Effect<void, AuditError> =>
    supervise(Effect.flatMap(entry, (entry) => log.write(entry)), {
      timeout,
      gracePeriod: Duration.zero,
      onStop: () => {},
      onAbandon: () => {}
    }).pipe(
      Effect.flatMap((outcome) =>
        outcome._tag === "Ended"
          ? outcome.exit
          : Effect.fail(new AuditError({ reason: new TimedOut({ timeoutMillis: outcome.timeoutMillis }) }))
      ),
      Effect.catchDefect((cause) =>
        Effect.fail(new AuditError({ reason: new Unavailable({ description: "the entry could not be made", cause }) }))
      )
    )

  const decided = (
    { call, tool }: Subject,
    facts: Facts,
    verdict: AuditEntry.Verdict
  ): Effect.Effect<void, AuditError> =>
    write(
      Effect.suspend(() => redact({ toolName: call.name, tool, input: call.params })).pipe(
        Effect.flatMap((shown) => limit({ toolName: call.name, tool, input: shown }, maxArgumentsBytes)),
        Effect.map((shown) => new AuditEntry.CallDecided({ ...facts, verdict, arguments: shown }))
      )
    )

  const ended = (facts: Facts, end: End): Effect.Effect<void> =>
    Effect.flatMap(now, (at) => write(Effect.sync(() => new AuditEntry.CallEnded({ ...facts, at, ...end })))).pipe(
      Effect.catchCause((cause) =>
        Effect.logError(`The end of a call of "${facts.toolName}" could not be written to the audit log`, cause)
      )
    )

  return {
    rejected: (subject, reason) =>
      Effect.flatMap(factsOf(subject), (facts) => decided(subject, facts, verdictOf(reason))).pipe(
        Effect.uninterruptible,
        Effect.catchCause((cause) =>
          Effect.logError(`A refused call of "${subject.call.name}" could not be written to the audit log`, cause)
        )
      ),
    around: (subject, verdict, run, unaudited) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(factsOf(subject), (facts) =>
          // Not to be interrupted, so that an entry without an end always means what it says.
          Effect.matchCauseEffect(decided(subject, facts, verdict), {
            onFailure: (cause) =>
              Effect.andThen(
                Effect.logError(`A call of "${subject.call.name}" does not run: the audit log failed`, cause),
                unaudited
              ),
            onSuccess: () =>
              Effect.flatMap(Clock.currentTimeMillis, (started) =>
                Effect.onExit(restore(run), (exit) =>
                  Effect.flatMap(Clock.currentTimeMillis, (ended_) => ended(facts, endOf(exit, ended_ - started)))))
          }))
      )
  }
})

// -----------------------------------------------------------------------------
// Facts
// -----------------------------------------------------------------------------

/** What both entries of a call say. */
type Facts = Omit<ConstructorParameters<typeof AuditEntry.CallDecided>[0], "_tag" | "verdict" | "arguments">

type End = Pick<AuditEntry.CallEnded, "outcome" | "durationMillis"> & { reason?: string; detail?: string }

const now = Effect.map(DateTime.now, DateTime.formatIso)

const short = (text: string): string => excerpt(text, MAX_TEXT_CHARACTERS)

const factsOf = Effect.fnUntraced(function*({ actor, call, identity }: Subject) {
  const facts: Facts = {
    invocationId: yield* uuid,
    at: yield* now,
    ...(actor === undefined ? undefined : { actor: short(actor) }),
    sessionId: short(identity.sessionId),
    traceId: short(identity.traceId),
    turn: identity.turn,
    index: identity.index,
    toolCallId: short(call.id),
    toolName: short(call.name)
  }
  return facts
})

const limit = (shown: AuditLog.Arguments & { readonly input: Schema.Json }, maxBytes: number) => {
  const bytes = new TextEncoder().encode(canonical(shown.input)).length
  return bytes > maxBytes ? AuditLog.hashArguments(shown) : Effect.succeed(shown.input)
}

const ALLOWED = new AuditEntry.Allowed()

/** Who let a call run. */
export const verdictOfReady = ({ isEdited, reply }: Ready): AuditEntry.Verdict =>
  reply !== undefined
    ? new AuditEntry.Answered()
    : isEdited !== undefined
    ? new AuditEntry.Approved({ edited: isEdited })
    : ALLOWED

/** Who kept a call from running. */
const verdictOf = (reason: ToolErrorReason): AuditEntry.Verdict => {
  switch (reason._tag) {
    case "PermissionDenied":
      return new AuditEntry.Denied({ by: "policy", explanation: short(reason.explanation) })
    case "ApprovalDenied":
      return new AuditEntry.Denied({ by: "person", explanation: short(reason.explanation) })
    case "AwaitingAnswer":
      return new AuditEntry.Asked({ question: short(reason.question.prompt) })
    default:
      return new AuditEntry.Rejected({ reason: reason._tag })
  }
}

const endOf = (exit: Exit.Exit<ToolInvocation>, elapsedMillis: number): End => {
  if (Exit.isFailure(exit)) {
    return Cause.hasInterruptsOnly(exit.cause)
      ? { outcome: "interrupted", durationMillis: elapsedMillis }
      : { outcome: "failure", reason: "ExecutionFailed", detail: "defect", durationMillis: elapsedMillis }
  }
  const { durationMillis, error } = exit.value
  if (error === undefined) return { outcome: "success", durationMillis }
  const detail = detailOf(error.reason)
  return {
    outcome: error.reason._tag === "AwaitingAnswer" ? "suspended" : "failure",
    reason: error.reason._tag,
    ...(detail === undefined ? undefined : { detail }),
    durationMillis
  }
}

const detailOf = (reason: ToolErrorReason): string | undefined => {
  switch (reason._tag) {
    case "ExecutionFailed":
      return reason.origin
    case "NotExecuted":
      return reason.why
    case "TimedOut":
      return reason.stopped ? "stopped" : "still running"
    default:
      return undefined
  }
}
