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
import { ExecutionFailed, NotExecuted, TimedOut, ToolError } from "../ToolError.ts"
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

      const work = (abandon: Exclusivity.Abandon, onStart: (() => void) | undefined) =>
        Effect.flatMap(Clock.currentTimeMillis, (started) => {
          onStart?.()
          return supervise(inContext(prepared.run, call, identity, options), {
            timeout,
            gracePeriod: settings.gracePeriod,
            onAbandon: abandon
          }).pipe(
            Effect.flatMap((outcome) =>
              Effect.flatMap(Clock.currentTimeMillis, (ended) => settle(call, outcome, ended - started, maxBytes))
            )
          )
        })

      return (beside) =>
        exclusivity.withKey(
          prepared.exclusivityKey,
          (abandon) => {
            const started = work(abandon, beside?.onStart)
            return beside?.permits === undefined ? started : beside.permits.withPermit(started)
          },
          Effect.sync(() => failed(call, new NotExecuted({ why: "busy" })))
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

const settle = (
  call: ToolCall,
  outcome: Outcome<ToolOutput.Final<Schema.Json>, ToolError>,
  durationMillis: number,
  maxBytes: number
): Effect.Effect<ToolInvocation> => {
  if (outcome._tag === "TimedOut") {
    return Effect.succeed(failed(call, new TimedOut(outcome), durationMillis))
  }
  if (Exit.isSuccess(outcome.exit)) {
    return Effect.succeed(succeeded(call, outcome.exit.value, durationMillis, maxBytes))
  }
  const cause = outcome.exit.cause
  const error = Cause.hasDies(cause) ? Option.none() : Cause.findErrorOption(cause)
  if (Option.isSome(error)) {
    const told = failed(call, error.value.reason, durationMillis)
    const limited = ResultLimit.limit(told.result, undefined, maxBytes)
    return Effect.succeed(
      limited.truncated ? new ToolInvocation({ ...told, result: limited.result, truncated: true }) : told
    )
  }
  return Effect.as(
    Effect.logError(`Tool "${call.name}" failed unexpectedly`, cause),
    failed(call, new ExecutionFailed({ origin: "defect", cause: Cause.squash(cause) }), durationMillis)
  )
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

const inContext = (
  run: Prepared["run"],
  call: ToolCall,
  identity: Identity,
  options: InvokeOptions | undefined
): Effect.Effect<ToolOutput.Final<Schema.Json>, ToolError> =>
  Effect.suspend(() => {
    // Most tools never ask for the signal, so it is made when one does.
    let controller: AbortController | undefined
    const sharedState = options?.sharedState ?? Ref.makeUnsafe<ReadonlyMap<string, unknown>>(new Map())
    const context = ToolContext.of({
      ...identity,
      toolCallId: call.id,
      get signal() {
        return (controller ??= new AbortController()).signal
      },
      progress: (value) => Effect.sync(() => options?.onProgress?.(value)),
      sharedState
    })
    return Effect.scoped(run).pipe(
      Effect.provideService(ToolContext, context),
      Effect.onInterrupt(() => Effect.sync(() => controller?.abort()))
    )
  })
