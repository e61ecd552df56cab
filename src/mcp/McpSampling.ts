/**
 * Questions of a server to a language model of the application.
 *
 * A client whose context has `McpSampling` lets its server ask; without it no server can. The service is never there by
 * accident: {@link layerLanguageModel} must be provided on purpose, for a server then spends the application's tokens.
 *
 * @since 0.1.0
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { askLanguageModel } from "./internal/sampling.ts"
import type { ContentBlock, JsonObject, Tool } from "./McpModel.ts"

/**
 * A piece of a message: content, a call of one of the server's tools, or such a call's result.
 *
 * @category models
 * @since 0.1.0
 */
export type SamplingBlock =
  | ContentBlock
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: JsonObject }
  | {
    readonly type: "tool_result"
    readonly toolUseId: string
    readonly content: ReadonlyArray<ContentBlock>
    readonly structuredContent: unknown
    readonly isError: boolean
  }

/**
 * One message of the conversation a server wants continued.
 *
 * @category models
 * @since 0.1.0
 */
export interface SamplingMessage {
  readonly role: "user" | "assistant"
  readonly content: ReadonlyArray<SamplingBlock>
}

/**
 * What a server asks a model for.
 *
 * @category models
 * @since 0.1.0
 */
export interface SamplingRequest {
  /** The configured name of the server that asks. */
  readonly server: string
  readonly messages: ReadonlyArray<SamplingMessage>
  readonly systemPrompt: string | undefined
  readonly maxTokens: number | undefined
  readonly temperature: number | undefined
  readonly stopSequences: ReadonlyArray<string>
  /** Tools the model may call; the server runs them. */
  readonly tools: ReadonlyArray<Tool>
  readonly toolChoice: "auto" | "required" | "none"
  /** The request as it came, with the server's model preferences. */
  readonly raw: JsonObject
}

/**
 * What the model said.
 *
 * @category models
 * @since 0.1.0
 */
export interface SamplingAnswer {
  readonly content: ReadonlyArray<
    | { readonly type: "text"; readonly text: string }
    | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: JsonObject }
  >
  readonly model: string
  readonly stopReason: "endTurn" | "maxTokens" | "toolUse" | undefined
}

/**
 * The server's request is not carried out. The server is told `detail`.
 *
 * @category errors
 * @since 0.1.0
 */
export class SamplingRefused extends Schema.TaggedError<SamplingRefused>("agcore/mcp/McpSampling/SamplingRefused")(
  "SamplingRefused",
  { detail: Schema.String }
) {
  override get message(): string {
    return this.detail
  }
}

/**
 * A model that servers may ask.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
 *
 * @category services
 * @since 0.1.0
 */
export class McpSampling extends Context.Service<McpSampling, {
  /** Answers one request, or refuses it with a reason the server is told. */
  readonly createMessage: (request: SamplingRequest) => Effect.Effect<SamplingAnswer, SamplingRefused>
}>()("agcore/mcp/McpSampling") {}

/**
 * Lets servers ask the application's `LanguageModel`.
 *
 * The model decides its own limits: `maxTokens`, `temperature`, stop sequences and model preferences of the server are in the
 * request for `approve` to see, and go no further.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerLanguageModel = (options?: {
  /** Asked before the model is. Default: every request is carried out. */
  readonly approve?: ((request: SamplingRequest) => Effect.Effect<boolean>) | undefined
}): Layer.Layer<McpSampling, never, LanguageModel.LanguageModel> =>
  Layer.effect(
    McpSampling,
    Effect.map(Effect.context<LanguageModel.LanguageModel>(), (context) => ({
      createMessage: Effect.fnUntraced(function*(request: SamplingRequest) {
        const approved = options?.approve === undefined || (yield* options.approve(request))
        if (!approved) return yield* new SamplingRefused({ detail: "the request was not approved" })
        return yield* askLanguageModel(request).pipe(
          Effect.mapError((error) => new SamplingRefused({ detail: error.message })),
          Effect.provideContext(context)
        )
      })
    }))
  )
