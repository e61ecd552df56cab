/*
 * The run of an accepted call: exclusivity key → permit → handler under its
 * timeout → limit → record. It never fails; what happened is in the invocation.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type * as Schema from "effect/Schema"
import type { Prepared } from "../Tool.ts"
import { ToolContext } from "../ToolContext.ts"
import { ExecutionFailed, NotExecuted, TimedOut, ToolError, type ToolErrorReason } from "../ToolError.ts"
import { failed, type ToolCall, ToolInvocation } from "../ToolInvocation.ts"
import type * as ToolOutput from "../ToolOutput.ts"
import * as ToolSettings from "../ToolSettings.ts"
import type { InvokeOptions, RunOptions } from "../ToolSnapshot.ts"
import type { Item } from "./catalogue.ts"
import * as Exclusivity from "./exclusivity.ts"
import * as ResultLimit from "./resultLimit.ts"
import { type Outcome, supervise } from "./supervise.ts"
import * as Telemetry from "./telemetry.ts"

/** Which call this is, for those who ask from inside it. */
export interface Identity {
  readonly sessionId: string
  readonly traceId: string
  readonly turn: number
  readonly index: number
  readonly idempotencyKey: string
}

type Run = (
  item: Item,
  call: ToolCall,
  prepared: Prepared,
  identity: Identity,
  options: InvokeOptions | undefined
) => (options?: RunOptions) => Effect.Effect<ToolInvocation>

export const makeRun: (record: (invocation: ToolInvocation) => void) => Effect.Effect<Run> = Effect.fnUntraced(
  function*(record) {
    const settings = {
      timeout: yield* ToolSettings.Timeout,
      gracePeriod: yield* ToolSettings.GracePeriod,
      maxResultBytes: yield* ToolSettings.MaxResultBytes,
      captureContent: yield* ToolSettings.CaptureContent
    }
    const exclusivity = Exclusivity.make()

    return (item, call, prepared, identity, options) => {
      const timeout = Duration.fromInputUnsafe(item.definition.timeout ?? options?.timeout ?? settings.timeout)
      const maxBytes = options?.maxResultBytes ?? settings.maxResultBytes

      const work = Effect.fnUntraced(function*(abandon: Exclusivity.Abandon, beside: RunOptions | undefined) {
        const { context, end, stop } = makeContext(call, identity, options)
        yield* hearOf(call, "start", () => beside?.onStart?.())
        const started = yield* Clock.currentTimeMillis
        const outcome = yield* supervise(
          Effect.provideService(Effect.scoped(prepared.run), ToolContext, context),
          { timeout, gracePeriod: settings.gracePeriod, onStop: stop, onAbandon: abandon }
        ).pipe(Effect.onExit(() => Effect.sync(end)))
        const durationMillis = (yield* Clock.currentTimeMillis) - started
        return yield* settle(call, outcome, durationMillis, maxBytes)
      })

      return (beside) =>
        exclusivity.withKey(
          prepared.exclusivityKey,
          (abandon) =>
            beside?.permits === undefined ? work(abandon, beside) : beside.permits.withPermit(work(abandon, beside)),
          Effect.sync(() => failedWithin(maxBytes, call, new NotExecuted({ why: "busy" })))
        ).pipe(
          Effect.tap((invocation) => {
            record(invocation)
            return Telemetry.record(invocation)
          }),
          Telemetry.span(call, settings.captureContent)
        )
    }
  }
)

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

// Who listens to a call does not decide about it.
const hearOf = (call: ToolCall, what: string, listener: () => void): Effect.Effect<void> =>
  Effect.ignoreCause(Effect.sync(listener), {
    log: "Error",
    message: `A listener to the ${what} of tool "${call.name}" failed`
  })

/** Why a call failed; what nobody planned for is logged. */
export const reasonOf = (call: ToolCall, cause: Cause.Cause<ToolError>): Effect.Effect<ToolErrorReason> => {
  const error = Cause.hasDies(cause) ? Option.none() : Cause.findErrorOption(cause)
  return Option.isSome(error) ? Effect.succeed(error.value.reason) : Effect.as(
    Effect.logError(`Tool "${call.name}" failed unexpectedly`, cause),
    new ExecutionFailed({ origin: "defect", cause: Cause.squash(cause) })
  )
}

const settle = (
  call: ToolCall,
  outcome: Outcome<ToolOutput.Final<Schema.Json>, ToolError>,
  durationMillis: number,
  maxBytes: number
): Effect.Effect<ToolInvocation> => {
  const unexpected = (cause: Cause.Cause<ToolError>) =>
    Effect.map(reasonOf(call, cause), (reason) => failedWithin(maxBytes, call, reason, durationMillis))

  if (outcome._tag === "TimedOut") {
    return Effect.succeed(failedWithin(maxBytes, call, new TimedOut(outcome), durationMillis))
  }
  const { exit } = outcome
  return Exit.isFailure(exit)
    ? unexpected(exit.cause)
    // What a handler shows a model is checked here: it may not be what its type says.
    : Effect.catchCause(Effect.sync(() => succeeded(call, exit.value, durationMillis, maxBytes)), unexpected)
}

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
const makeContext = (call: ToolCall, identity: Identity, options: InvokeOptions | undefined) => {
  // Most tools never ask for the signal, so it is made when one does.
  let controller: AbortController | undefined
  let isStopped = false
  let onProgress = options?.onProgress
  return {
    context: ToolContext.of({
      ...identity,
      toolCallId: call.id,
      get signal() {
        controller ??= new AbortController()
        if (isStopped) controller.abort()
        return controller.signal
      },
      progress: (value) => hearOf(call, "progress", () => onProgress?.(value, call)),
      sharedState: options?.sharedState ?? Ref.makeUnsafe<ReadonlyMap<string, unknown>>(new Map())
    }),
    stop: () => {
      isStopped = true
      controller?.abort()
    },
    end: () => {
      onProgress = undefined
    }
  }
}
