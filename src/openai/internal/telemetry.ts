/*
 * What a span of effect/ai's says of a request and its answer, by the
 * OpenTelemetry conventions for generative AI
 * (https://opentelemetry.io/docs/specs/semconv/gen-ai/).
 */
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import type { Span } from "effect/Tracer"
import type { Parameters } from "../OpenAiModel.ts"
import type { Settings } from "./settings.ts"

export const annotateRequest = (span: Span, { model, profile }: Settings, parameters: Parameters): void =>
  Telemetry.addGenAIAnnotations(span, {
    provider: { name: profile.name },
    operation: { name: "chat" },
    request: {
      model,
      temperature: parameters.temperature,
      topP: parameters.topP,
      maxTokens: parameters.maxTokens,
      stopSequences: parameters.stop,
      seed: parameters.seed
    }
  })

export const annotateResponse = (span: Span, parts: ReadonlyArray<Response.StreamPartEncoded>): void => {
  for (const part of parts) {
    if (part.type === "response-metadata") {
      Telemetry.addGenAIAnnotations(span, { response: { id: part.id, model: part.modelId } })
    } else if (part.type === "finish") {
      Telemetry.addGenAIAnnotations(span, {
        response: { finishReasons: [part.reason] },
        usage: { inputTokens: part.usage.inputTokens.total, outputTokens: part.usage.outputTokens.total }
      })
    }
  }
}
