/**
 * A `LanguageModel` over OpenAI's Chat Completions, for OpenAI and every server that speaks its protocol.
 *
 * One call makes one request: nothing is retried here, and no tool is run. An error says by `isRetryable` and
 * `retryAfter` whether and when the same request may succeed.
 *
 * @since 0.1.0
 */
import * as IdGenerator from "effect/ai/IdGenerator"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as ByteSize from "effect/ByteSize"
import type * as Config from "effect/Config"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { Json, JsonObject } from "effect/Schema"
import type { HttpTransport } from "./HttpTransport.ts"
import * as Answer from "./internal/answer.ts"
import * as Assembler from "./internal/assembler.ts"
import * as Body from "./internal/body.ts"
import * as Model from "./internal/model.ts"
import * as Request from "./internal/request.ts"
import * as Settings from "./internal/settings.ts"
import { annotateRequest } from "./internal/telemetry.ts"
import type * as ProviderProfile from "./ProviderProfile.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * What a request asks of the model besides its prompt. What is absent is not sent, so the server's default holds.
 *
 * @category models
 * @since 0.1.0
 */
export interface Parameters {
  /** How freely tokens are drawn, usually 0 to 2. */
  readonly temperature?: number
  /** The share of probability tokens are drawn from, 0 to 1. */
  readonly topP?: number
  /** The most tokens of an answer, reasoning included where the server counts it. */
  readonly maxTokens?: number
  /** Texts that end the answer when the model writes them. */
  readonly stop?: ReadonlyArray<string>
  /** The same seed makes the same answer likelier. */
  readonly seed?: number
  /** How long a reasoning model thinks, in the server's words: `"minimal"`, `"low"`, `"medium"`, `"high"`. */
  readonly reasoningEffort?: string
  /** Whether one answer may hold several tool calls. Sent only with tools, and to servers that know it. */
  readonly parallelToolCalls?: boolean
  /** Any other field of the body, and the last word on the ones above. */
  readonly body?: Readonly<Record<string, Json>>
}

/**
 * How a model is reached.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** The model's name, as the server knows it. */
  readonly model: string
  /** Sent to the server only; never part of an error, a log or a span. Local servers need none. */
  readonly apiKey?: Redacted.Redacted<string> | undefined
  /** Where the API is, without `/chat/completions`. Default `https://api.openai.com/v1`. */
  readonly baseUrl?: string | undefined
  /** What is particular about the server. Default: {@link ProviderProfile.fromBaseUrl} of the base URL. */
  readonly profile?: ProviderProfile.ProviderProfile | undefined
  /** Parameters of every request; {@link CurrentParameters} overrides them for a part of a program. */
  readonly parameters?: Parameters | undefined
  /** Headers of every request. Those given as `Redacted` are treated as the API key is. */
  readonly headers?: Readonly<Record<string, string | Redacted.Redacted<string>>> | undefined
  /**
   * How long the answer may take to begin. Default 5 minutes, as long as Node's own `fetch` waits; for a longer time
   * pass a `fetch` that waits longer too, or {@link HttpTransport.fromNode}.
   */
  readonly firstByteTimeout?: Duration.Input | undefined
  /** How long an answer may pause. Default 2 minutes. Keep-alives count as signs of life. */
  readonly idleTimeout?: Duration.Input | undefined
  /** How long to wait, after the finish reason, for usage and `[DONE]`. Default 2 seconds. */
  readonly finishGrace?: Duration.Input | undefined
  /** The largest event of a stream, counted in characters. Default 4 MiB. */
  readonly maxEventBytes?: ByteSize.Input | undefined
  /** The largest answer. Default 64 MiB. Of an answer that is an error, 64 KiB are read and 500 characters kept. */
  readonly maxResponseBytes?: ByteSize.Input | undefined
  /** The `fetch` to use. Default: that of `FetchHttpClient.Fetch`, which is the global one. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** How requests are sent, if not with a `fetch`: on Node, {@link HttpTransport.fromNode} takes a third of the CPU. */
  readonly transport?: HttpTransport | undefined
}

/**
 * Parameters for the requests of a part of a program, over those of the layer.
 *
 * **Example** (Cooler for one effect)
 *
 * ```ts run
 * import { Effect } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import { OpenAiModel } from "agcore/openai"
 *
 * const Model = OpenAiModel.layer({
 *   model: "qwen3",
 *   baseUrl: "http://localhost:11434/v1",
 *   parameters: { temperature: 1 },
 *   // Stands in for a server that answers with the temperature it was sent.
 *   fetch: (_url, init) => {
 *     const { temperature } = JSON.parse(String(init?.body))
 *     return Promise.resolve(Response.json({ choices: [{ message: { content: `at ${temperature}` } }] }))
 *   }
 * })
 *
 * const exact = LanguageModel.generateText({ prompt: "2 + 2 = ?" }).pipe(
 *   Effect.map((response) => response.text),
 *   Effect.provideService(OpenAiModel.CurrentParameters, { temperature: 0 }),
 *   Effect.provide(Model)
 * )
 *
 * await Effect.runPromise(exact) // => "at 0"
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export const CurrentParameters: Context.Reference<Parameters> = Context.Reference<Parameters>(
  "agcore/openai/OpenAiModel/CurrentParameters",
  { defaultValue: () => ({}) }
)

// =============================================================================
// Constructors
// =============================================================================

// Effect's own reference, by its key. Its module would bring a whole HTTP client along, 14 files, of which nothing else
// is used here.
const Fetch: typeof FetchHttpClient.Fetch = Context.Reference<typeof globalThis.fetch>(
  "effect/http/FetchHttpClient/Fetch",
  { defaultValue: () => globalThis.fetch }
)

/**
 * Makes a model.
 *
 * Never fails by itself: a missing key or an unusable URL is an `AiError` of the request, so that a program can be
 * built before it is configured.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: (options: Options) => Effect.Effect<LanguageModel.LanguageModel> = Effect.fnUntraced(function*(
  options
) {
  const settings = Settings.resolve(options, options.fetch ?? (yield* Fetch))
  const { limits, profile, transport } = settings
  const idGenerator = Option.getOrElse(
    yield* Effect.serviceOption(IdGenerator.IdGenerator),
    () => IdGenerator.defaultIdGenerator
  )
  // Ids are made for calls that have none: unique by a prefix of this model and the number of the request.
  const idPrefix = yield* idGenerator.generateId()
  let requests = 0

  return yield* Model.make({
    codecTransformer: settings.codecTransformer,
    ask: (request, method) =>
      Effect.flatMap(CurrentParameters, (current) => {
        const failures = settings.failures[method]
        const streamed = method === "streamText" && (profile.streamTools || request.tools.length === 0)
        const parameters = { ...options.parameters, ...current }
        annotateRequest(request.span, settings, parameters)
        const made = Request.make(request, { ...settings, parameters }, streamed)
        if (Result.isFailure(made)) return Effect.fail(failures.because(made.failure))
        const { body, names } = made.success
        return Effect.map(settings.target(failures), (target) =>
          Effect.map(Body.open(transport, { ...target, body }, limits, failures), (exchange) => ({
            answer: Answer.make(exchange, {
              assembler: Assembler.make({ declared: names, idPrefix: `${idPrefix}_${requests++}` }),
              failures,
              limits,
              streamed,
              missingFinish: profile.missingFinish,
              callable: request.toolCallValidation === "deferred" ? undefined : names,
              span: request.span
            }),
            close: exchange.close
          })))
      })
  })
})

/**
 * Provides a model.
 *
 * **Example** (A model behind any compatible server)
 *
 * ```ts run
 * import { Effect } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import { OpenAiModel } from "agcore/openai"
 *
 * const Model = OpenAiModel.layer({
 *   model: "qwen3",
 *   baseUrl: "http://localhost:11434/v1",
 *   // Stands in for the server; leave it out to reach a real one.
 *   fetch: () => Promise.resolve(Response.json({ choices: [{ message: { content: "Hello!" } }] }))
 * })
 *
 * const program = LanguageModel.generateText({ prompt: "Say hello" }).pipe(
 *   Effect.map((response) => response.text),
 *   Effect.provide(Model)
 * )
 *
 * await Effect.runPromise(program) // => "Hello!"
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<LanguageModel.LanguageModel> =>
  Layer.effect(LanguageModel.LanguageModel, make(options))

/**
 * Provides a model that is configured by `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OPENAI_MODEL`.
 *
 * An empty variable counts as absent, and `options` are the defaults for absent ones. Fails with a `ConfigError` if
 * neither names a model.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerConfig = (
  options?: Partial<Options>
): Layer.Layer<LanguageModel.LanguageModel, Config.ConfigError> =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.promise(loadConfigured).pipe(
      Effect.flatMap(({ configured }) => configured(options)),
      Effect.flatMap(make)
    )
  )

const loadConfigured = () => import("./internal/configured.ts")

// =============================================================================
// Metadata
//
// The types below say what is under the key `openai` of a part's metadata and
// options. They do not augment effect/ai's own: an optional member beside an
// index signature compiles only for users with `exactOptionalPropertyTypes`.
// =============================================================================

/**
 * What is kept of reasoning under `openai`, to send it back as it came.
 *
 * @category models
 * @since 0.1.0
 */
export type ReasoningMetadata = {
  /** The field the reasoning came in; `reasoning_content` if absent. */
  readonly field?: string
  /** OpenRouter's structured reasoning, its pieces joined; absent if the server sent none. */
  readonly details?: ReadonlyArray<JsonObject>
}

/**
 * What is kept of a tool call under `openai`, to send it back as it came.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolCallMetadata = {
  /** Fields that no specification names, such as Gemini's `extra_content`; absent if there were none. */
  readonly unknown?: JsonObject
}

/**
 * What is kept of the end of a response under `openai`, in the server's own words.
 *
 * @category models
 * @since 0.1.0
 */
export type FinishMetadata = {
  /** Absent if the server gave no reason. */
  readonly finishReason?: string
  /** Absent if the server counted nothing. */
  readonly usage?: JsonObject
}

/**
 * What can be said about a file in a prompt under `openai`.
 *
 * @category models
 * @since 0.1.0
 */
export type FileOptions = {
  /** The resolution an image is read at. The server chooses if absent. */
  readonly imageDetail?: "auto" | "low" | "high"
  /** The id of an uploaded file to send instead of data. The data is sent if absent. */
  readonly fileId?: string
}
