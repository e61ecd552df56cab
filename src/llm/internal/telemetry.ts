/*
 * Spans and metrics of a conversation, named by the OpenTelemetry conventions
 * for generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/).
 */
import type * as Response from "effect/ai/Response"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"

const turns = Metric.counter("agcore.cycle.turns", { description: "Responses of the model", incremental: true })

const tokens = Metric.histogram("gen_ai.client.token.usage", {
  description: "Tokens of one response, by type",
  boundaries: Metric.exponentialBoundaries({ start: 1, factor: 4, count: 14 })
})

const inputTokens = Metric.withAttributes(tokens, { "gen_ai.token.type": "input" })

const outputTokens = Metric.withAttributes(tokens, { "gen_ai.token.type": "output" })

export const recordTurn = (usage: Response.Usage): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.sync(() => {
      turns.updateUnsafe(1, context)
      const { inputTokens: { total: input }, outputTokens: { total: output } } = usage
      if (input !== undefined) inputTokens.updateUnsafe(input, context)
      if (output !== undefined) outputTokens.updateUnsafe(output, context)
    })
  )

/** The name and attributes of the span around one submit. */
export const AGENT_SPAN = "invoke_agent"

export const agentAttributes = (sessionId: string): Record<string, unknown> => ({
  "gen_ai.operation.name": "invoke_agent",
  "gen_ai.conversation.id": sessionId
})
