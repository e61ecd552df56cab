/*
 * Spans and metrics of tool calls, named by the OpenTelemetry conventions for
 * generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/).
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { formatJson } from "effect/Formatter"
import * as Metric from "effect/Metric"
import type { ToolCall, ToolInvocation } from "../ToolInvocation.ts"

const calls = Metric.counter("agcore.tool.calls", { description: "Tool calls that were answered", incremental: true })

const failures = Metric.counter("agcore.tool.failures", {
  description: "Tool calls that failed, by reason",
  incremental: true
})

const duration = Metric.timer("agcore.tool.duration", { description: "How long tools ran" })

export const record = (invocation: ToolInvocation): Effect.Effect<void> => {
  // Models make names up, and each set of attributes is kept for good.
  const attributes = invocation.error?.reason._tag === "NotFound" ? {} : { "gen_ai.tool.name": invocation.toolName }
  const counted = Metric.update(Metric.withAttributes(calls, attributes), 1)
  const timed = Metric.update(
    Metric.withAttributes(duration, attributes),
    Duration.millis(invocation.durationMillis)
  )
  const failed = invocation.error === undefined
    ? Effect.void
    : Metric.update(
      Metric.withAttributes(failures, { ...attributes, "error.type": invocation.error.reason._tag }),
      1
    )
  return Effect.andThen(Effect.andThen(counted, timed), failed)
}

export const span = (
  call: ToolCall,
  captureContent: boolean
): (run: Effect.Effect<ToolInvocation>) => Effect.Effect<ToolInvocation> =>
(run) =>
  run.pipe(
    Effect.tap((invocation) => Effect.annotateCurrentSpan(outcomeAttributes(invocation, captureContent))),
    Effect.withSpan(`execute_tool ${call.name}`, {
      attributes: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        ...(captureContent ? { "gen_ai.tool.call.arguments": formatJson(call.params) } : undefined)
      }
    }, { captureStackTrace: false })
  )

const outcomeAttributes = (invocation: ToolInvocation, captureContent: boolean): Record<string, unknown> => ({
  ...(invocation.error === undefined ? undefined : { "error.type": invocation.error.reason._tag }),
  ...(captureContent ? { "gen_ai.tool.call.result": formatJson(invocation.result) } : undefined)
})
