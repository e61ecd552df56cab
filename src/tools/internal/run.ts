/*
 * The run of an accepted call: exclusivity key → permit → handler under its
 * timeout → limit → record. It never fails; what happened is in the invocation.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type * as Schema from "effect/Schema"
import { cutBytes } from "../../internal/text.ts"
import type { EncodedReply, Outcome as HandlerOutcome, Prepared } from "../Tool.ts"
import { ToolContext } from "../ToolContext.ts"
import {
  ApprovalDenied,
  AwaitingAnswer,
  ExecutionFailed,
  NotExecuted,
  TimedOut,
  ToolError,
  type ToolErrorReason
} from "../ToolError.ts"
import { failed, type ToolCall, ToolInvocation } from "../ToolInvocation.ts"
import type * as ToolOutput from "../ToolOutput.ts"
import * as ToolSettings from "../ToolSettings.ts"
import type { InvokeOptions, RunOptions } from "../ToolSnapshot.ts"
import * as AuditRecord from "./auditRecord.ts"
import type { Item } from "./catalogue.ts"
import * as Exclusivity from "./exclusivity.ts"
import * as Questions from "./questions.ts"
import * as ResultLimit from "./resultLimit.ts"
import { makeSpill, type Whole } from "./spill.ts"
import { type Outcome, supervise } from "./supervise.ts"
import * as Telemetry from "./telemetry.ts"

/** How much of changed arguments is repeated to the model. */
const MAX_EDIT_BYTES = 4_096

/** Which call this is, for those who ask from inside it. */
export interface Identity {
  readonly sessionId: string
  readonly traceId: string
  readonly turn: number
  readonly index: number
  readonly idempotencyKey: string
}

/** A call that nothing stands in the way of. */
export interface Ready {
  /** With the arguments it runs with. */
  readonly call: ToolCall
  readonly prepared: Prepared
  /** The answer to its own question, where it goes on after one. */
  readonly reply?: EncodedReply
  /** How often it has asked before. Default 0. */
  readonly round?: number
  /** Whether a person has changed its arguments. Default `false`. */
  readonly isEdited?: boolean
}

type Run = (
  item: Item,
  ready: Ready,
  identity: Identity,
  options: InvokeOptions | undefined,
  /** The names of the tools that are offered beside it. */
  available: () => ReadonlyArray<string>
) => (options?: RunOptions) => Effect.Effect<ToolInvocation>

export const makeRun: (
  record: (invocation: ToolInvocation) => void,
  audit: AuditRecord.Recorder
) => Effect.Effect<Run> = Effect.fnUntraced(
  function*(record, audit) {
    const settings = {
      timeout: yield* ToolSettings.Timeout,
      gracePeriod: yield* ToolSettings.GracePeriod,
      maxResultBytes: yield* ToolSettings.MaxResultBytes,
      captureContent: yield* ToolSettings.CaptureContent
    }
    const spill = yield* makeSpill(settings.gracePeriod)
    const exclusivity = Exclusivity.make()

    const perform = Effect.fnUntraced(function*(
      { available, identity, item, maxBytes, options, ready, timeout }: Job,
      abandon: Exclusivity.Abandon,
      beside: RunOptions | undefined
    ): Effect.fn.Return<ToolInvocation> {
      const { call, prepared } = ready
      const refusal = beside?.refuse === undefined ? undefined : yield* beside.refuse
      if (refusal !== undefined) return failedWithin(maxBytes, call, refusal)
      const { context, end, partial, stop } = makeContext(call, identity, maxBytes, options)
      const onStart = beside?.onStart
      if (onStart !== undefined) yield* hearOf(call, "start", onStart)
      const clock = yield* Clock.Clock
      const started = clock.currentTimeMillisUnsafe()
      const outcome = yield* supervise(
        Effect.provideService(Effect.scoped(prepared.run(partial, ready.reply)), ToolContext, context),
        {
          timeout,
          until: beside?.until,
          gracePeriod: settings.gracePeriod,
          onStop: stop,
          onAbandon: abandon
        }
      ).pipe(Effect.onExit(() => Effect.sync(end)))
      const durationMillis = clock.currentTimeMillisUnsafe() - started
      if (isQuestion(outcome)) {
        const subject = { tool: item.definition, call, identity }
        const question = yield* Questions.input(subject, outcome.exit.value, ready.round ?? 0)
        return failed(call, new AwaitingAnswer({ question }), durationMillis)
      }
      const settled = yield* settle(call, outcome, durationMillis, maxBytes)
      const invocation = settled.truncated
        ? yield* spill(settled, { tool: item.definition, identity, available }, wholeOf(settled, outcome), maxBytes)
        : settled
      return ready.isEdited === true ? tellEdit(invocation) : invocation
    })

    const conclude = (invocation: ToolInvocation): Effect.Effect<void> => {
      // A call that waits has no outcome yet.
      if (invocation.error?.reason._tag === "AwaitingAnswer") return Effect.void
      record(invocation)
      return Telemetry.record(invocation)
    }

    return (item, ready, identity, options, available) => {
      const { call, prepared } = ready
      const maxBytes = options?.maxResultBytes ?? settings.maxResultBytes
      const timeout = Duration.fromInputUnsafe(item.definition.timeout ?? options?.timeout ?? settings.timeout)
      const job = { item, ready, identity, options, available, timeout, maxBytes }
      const audited = { call, tool: item.definition, identity, actor: options?.actor }

      const work = (abandon: Exclusivity.Abandon, beside: RunOptions | undefined) =>
        audit.around(
          audited,
          AuditRecord.verdictOfReady(ready),
          perform(job, abandon, beside),
          Effect.sync(() => failedWithin(maxBytes, call, new NotExecuted({ why: "unaudited" })))
        )

      return (beside) =>
        exclusivity.withKey(
          prepared.exclusivityKey,
          (abandon) =>
            beside?.permits === undefined ? work(abandon, beside) : beside.permits.withPermit(work(abandon, beside)),
          Effect.suspend(() => {
            const reason = new NotExecuted({ why: "busy" })
            return Effect.as(audit.rejected(audited, reason), failedWithin(maxBytes, call, reason))
          })
        ).pipe(
          Effect.tap(conclude),
          Telemetry.span(call, settings.captureContent)
        )
    }
  }
)

/** One run. */
interface Job {
  readonly item: Item
  readonly ready: Ready
  readonly identity: Identity
  readonly options: InvokeOptions | undefined
  readonly available: () => ReadonlyArray<string>
  readonly timeout: Duration.Duration
  readonly maxBytes: number
}

/** The record of a failed call whose explanation keeps to the limit too. */
export const failedWithin = (
  maxBytes: number,
  call: ToolCall,
  reason: ToolErrorReason,
  durationMillis: number = 0
): ToolInvocation => {
  const invocation = failed(call, reason, durationMillis)
  const { result, truncated } = ResultLimit.limit(invocation.result, undefined, maxBytes)
  return truncated ? new ToolInvocation({ ...invocation, result, truncated }) : invocation
}

// A question about another call, one the tool has made itself, is not this call's:
// answering it here would run this one again.
const ownReason = (reason: ToolErrorReason): ToolErrorReason =>
  reason._tag === "AwaitingAnswer" ? new ApprovalDenied({ explanation: "nobody could be asked" }) : reason

// Who listens to a call does not decide about it.
const hearOf = (call: ToolCall, what: string, listener: () => void): Effect.Effect<void> =>
  Effect.suspend(() => {
    try {
      listener()
      return Effect.void
    } catch (cause) {
      return Effect.logError(`A listener to the ${what} of tool "${call.name}" failed`, Cause.die(cause))
    }
  })

/** Why a call failed; what nobody planned for is logged. */
export const reasonOf = (call: ToolCall, cause: Cause.Cause<ToolError>): Effect.Effect<ToolErrorReason> => {
  const error = Cause.hasDies(cause) ? Option.none() : Cause.findErrorOption(cause)
  return Option.isSome(error) ? Effect.succeed(ownReason(error.value.reason)) : Effect.as(
    Effect.logError(`Tool "${call.name}" failed unexpectedly`, cause),
    new ExecutionFailed({ origin: "defect", cause: Cause.squash(cause) })
  )
}

/** A run that has ended with a question of the tool. */
interface Asking {
  readonly exit: Exit.Success<Extract<HandlerOutcome, { readonly _tag: "AwaitingInput" }>>
}

const isQuestion = (outcome: Ended): outcome is Ended & Asking =>
  outcome._tag === "Ended" && Exit.isSuccess(outcome.exit) && outcome.exit.value._tag === "AwaitingInput"

type Ended = Outcome<HandlerOutcome, ToolError>

// The model made the call as its transcript says, so it has to be told what ran.
const tellEdit = (invocation: ToolInvocation): ToolInvocation => {
  const { kept, missingBytes } = cutBytes(JSON.stringify(invocation.input), MAX_EDIT_BYTES)
  const note = `The user changed the arguments of this call before it ran: ${kept}${missingBytes > 0 ? "…" : ""}`
  const { modelOutput, result } = invocation
  return new ToolInvocation({
    ...invocation,
    modelOutput: [
      Prompt.makePart("text", { text: note }),
      ...(modelOutput ??
        [Prompt.makePart("text", { text: typeof result === "string" ? result : JSON.stringify(result) })])
    ]
  })
}

const settle = (
  call: ToolCall,
  outcome: Ended,
  durationMillis: number,
  maxBytes: number
): Effect.Effect<ToolInvocation> => {
  const unexpected = (cause: Cause.Cause<ToolError>) =>
    Effect.map(reasonOf(call, cause), (reason) => failedWithin(maxBytes, call, reason, durationMillis))

  if (outcome._tag === "TimedOut") {
    return Effect.succeed(failedWithin(maxBytes, call, new TimedOut(outcome), durationMillis))
  }
  const { exit } = outcome
  if (Exit.isFailure(exit)) return unexpected(exit.cause)
  const { value } = exit
  // What a handler shows a model is checked here: it may not be what its type says.
  return value._tag === "Final"
    ? Effect.suspend(() => {
      try {
        return Effect.succeed(succeeded(call, value, durationMillis, maxBytes))
      } catch (cause) {
        return unexpected(Cause.die(cause))
      }
    })
    : unexpected(Cause.die(new Error("a question is no result")))
}

// What a cut result was cut from: the output, or the words of a failure without one.
const wholeOf = (invocation: ToolInvocation, outcome: Ended): Whole =>
  invocation.output !== undefined && outcome._tag === "Ended" && Exit.isSuccess(outcome.exit)
    && outcome.exit.value._tag === "Final"
    ? { value: invocation.output, modelOutput: outcome.exit.value.modelOutput }
    : { value: invocation.error?.modelMessage ?? invocation.result, modelOutput: undefined }

const succeeded = (
  call: ToolCall,
  output: ToolOutput.Final<Schema.Json>,
  durationMillis: number,
  maxBytes: number
): ToolInvocation => {
  const { modelOutput, result, truncated } = ResultLimit.limit(output.value, output.modelOutput, maxBytes)
  return new ToolInvocation({
    toolCallId: call.id,
    toolName: call.name,
    turn: call.turn ?? 0,
    index: call.index ?? 0,
    input: call.params,
    durationMillis,
    output: output.value,
    result,
    truncated,
    ...(modelOutput === undefined ? undefined : { modelOutput }),
    ...(output.isFailure
      ? {
        error: new ToolError({
          toolName: call.name,
          reason: new ExecutionFailed({ origin: "failure", failure: output.value })
        })
      }
      : undefined)
  })
}

// The handler may outlive its call: then its signal has aborted, and nobody
// hears of its progress.
const makeContext = (
  call: ToolCall,
  identity: Identity,
  maxResultBytes: number,
  options: InvokeOptions | undefined
) => {
  // Most tools never ask for the signal, so it is made when one does.
  let controller: AbortController | undefined
  let isStopped = false
  let onProgress = options?.onProgress
  let onPartial: InvokeOptions["onPartialResult"] = options?.onPartialResult ?? options?.onProgress
  return {
    context: ToolContext.of({
      ...identity,
      toolCallId: call.id,
      maxResultBytes: ResultLimit.toBytes(maxResultBytes),
      get signal() {
        controller ??= new AbortController()
        if (isStopped) controller.abort()
        return controller.signal
      },
      progress: (value) => hearOf(call, "progress", () => onProgress?.(value, call)),
      sharedState: options?.sharedState ?? Ref.makeUnsafe<ReadonlyMap<string, unknown>>(new Map())
    }),
    partial: (value: Schema.Json) => hearOf(call, "partial result", () => onPartial?.(value, call)),
    stop: () => {
      isStopped = true
      controller?.abort()
    },
    end: () => {
      onProgress = undefined
      onPartial = undefined
    }
  }
}
