/*
 * Spans and metrics of tool calls, named by the OpenTelemetry conventions for
 * generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/).
 */
import type * as Context from "effect/Context"
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
  const { durationMillis, error, toolName } = invocation
  // Models make names up, and each set of attributes is kept for good.
  const { counted, failed, timed } = metricsOf(error?.reason._tag === "NotFound" ? undefined : toolName)
  return Effect.contextWith((context: Context.Context<never>) =>
    Effect.sync(() => {
      counted.updateUnsafe(1, context)
      timed.updateUnsafe(Duration.millis(durationMillis), context)
      if (error !== undefined) failed(error.reason._tag).updateUnsafe(1, context)
    })
  )
}

const makeMetrics = (toolName: string | undefined) => {
  const attributes = toolName === undefined ? {} : { "gen_ai.tool.name": toolName }
  return {
    counted: Metric.withAttributes(calls, attributes),
    timed: Metric.withAttributes(duration, attributes),
    failed: (type: string) => Metric.withAttributes(failures, { ...attributes, "error.type": type })
  }
}

// A metric finds its state by its attributes once, and remembers it: a new one for each call would look each time.
const known = new Map<string | undefined, ReturnType<typeof makeMetrics>>()

const metricsOf = (toolName: string | undefined): ReturnType<typeof makeMetrics> => {
  const metrics = known.get(toolName) ?? makeMetrics(toolName)
  known.set(toolName, metrics)
  return metrics
}

export const span = (
  call: ToolCall,
  captureContent: boolean
): (run: Effect.Effect<ToolInvocation>) => Effect.Effect<ToolInvocation> =>
(run) =>
  run.pipe(
    Effect.tap((invocation) =>
      invocation.error === undefined && !captureContent
        ? Effect.void
        : Effect.annotateCurrentSpan(outcomeAttributes(invocation, captureContent))
    ),
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
