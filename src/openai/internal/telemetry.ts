/*
 * What a span of effect/ai's says of a request and its answer, by the
 * OpenTelemetry conventions for generative AI
 * (https://opentelemetry.io/docs/specs/semconv/gen-ai/).
 *
 * effect/ai's `Telemetry` derives the names of attributes from those of fields, with a regular expression for each
 * attribute of each request; here they are written out.
 */
import type { Span } from "effect/Tracer"
import type { Parameters } from "../OpenAiModel.ts"
import type { StreamPart } from "./part.ts"
import type { Settings } from "./settings.ts"

export const annotateRequest = (span: Span, { model, profile }: Settings, parameters: Parameters): void => {
  const annotate = annotator(span)
  annotate("gen_ai.provider.name", profile.name)
  annotate("gen_ai.operation.name", "chat")
  annotate("gen_ai.request.model", model)
  annotate("gen_ai.request.temperature", parameters.temperature)
  annotate("gen_ai.request.top_p", parameters.topP)
  annotate("gen_ai.request.max_tokens", parameters.maxTokens)
  annotate("gen_ai.request.stop_sequences", parameters.stop)
  annotate("gen_ai.request.seed", parameters.seed)
}

export const annotateResponse = (span: Span, parts: ReadonlyArray<StreamPart>): void => {
  for (const part of parts) {
    if (part.type === "response-metadata") {
      const annotate = annotator(span)
      annotate("gen_ai.response.id", part.id)
      annotate("gen_ai.response.model", part.modelId)
    } else if (part.type === "finish") {
      const annotate = annotator(span)
      annotate("gen_ai.response.finish_reasons", [part.reason])
      annotate("gen_ai.usage.input_tokens", part.usage.inputTokens.total)
      annotate("gen_ai.usage.output_tokens", part.usage.outputTokens.total)
    }
  }
}

const annotator = (span: Span) => (name: string, value: unknown): void => {
  if (value !== undefined) span.attribute(name, value)
}
