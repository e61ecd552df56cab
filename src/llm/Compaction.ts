/**
 * Conversations that outgrow the context window of their model.
 *
 * A `Compaction` says when a transcript is too long and what is done about it,
 * by one strategy or several. It never divides what belongs together: calls keep
 * their results, system messages, the last turns and the last thing a person
 * said stay, and so does what is pinned. What stays are the same objects, so
 * that prompt caches hold as far as they can.
 *
 * @since 0.1.0
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tokenizer from "effect/ai/Tokenizer"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as HandlerContext from "../internal/handlerContext.ts"
import type { Definition } from "../tools/Tool.ts"
import type { CompactionError } from "./CompactionError.ts"
import * as CompactionStrategy from "./CompactionStrategy.ts"
import { makeCompactor } from "./internal/compactor.ts"
import * as Overflow from "./internal/compactOverflow.ts"
import { makeTally } from "./internal/usage.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * When a transcript is compacted, and how. Made by `make`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Compaction<out R = never> {
  readonly strategy: CompactionStrategy.Strategy<R>
  /** In tokens; `Infinity` where it is not known. */
  readonly contextWindow: number
  /** Tokens left for the answer. */
  readonly reserve: number
  /** Part of the window without the reserve, from 0 to 1. */
  readonly trigger: number
  /** Part of the window without the reserve, from 0 to `trigger`. */
  readonly target: number
  /** How many of the last turns stay whole, at least 1. */
  readonly keepTurns: number
  readonly pin: CompactionStrategy.Pin
  readonly timeout: Duration.Duration
}

/**
 * Settings of a compaction.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<R = never> {
  /**
   * How many tokens the model takes, question and answer together. Default: not
   * known; then only a refusal by the provider leads to a compaction.
   */
  readonly contextWindow?: number | undefined
  /** Default: `clearToolResults()`, then `dropOldest()`. */
  readonly strategy?: CompactionStrategy.Strategy<R> | undefined
  /** Tokens that are left for the answer. Default: a quarter of the window, at most 8,192; never more than half of it. */
  readonly reserve?: number | undefined
  /** From which part of the window, without the reserve, on it is compacted. Between 0 and 1. Default 0.85. */
  readonly trigger?: number | undefined
  /**
   * Down to which part of the window, without the reserve. The lower it is, the
   * more turns go by until the next compaction, and the longer a prompt cache
   * holds. Between 0 and `trigger`. Default 0.5.
   */
  readonly target?: number | undefined
  /** How many of the last turns stay whole. At least 1. Default 2. */
  readonly keepTurns?: number | undefined
  /** What stays besides them. Default: `firstUserMessage`. */
  readonly pin?: CompactionStrategy.Pin | undefined
  /** How long a strategy may take. Default 2 minutes. */
  readonly timeout?: Duration.Input | undefined
}

// =============================================================================
// Defaults
// =============================================================================

const DEFAULT_RESERVE_PART = 4
const DEFAULT_MAX_RESERVE = 8_192
const DEFAULT_TRIGGER = 0.85
const DEFAULT_TARGET = 0.5
const DEFAULT_KEEP_TURNS = 2
const DEFAULT_TIMEOUT = Duration.minutes(2)

// =============================================================================
// Constructors
// =============================================================================

/**
 * Says when and how transcripts are compacted. Numbers outside their range are
 * taken to its nearest end.
 *
 * **Example** (A model with a small window)
 *
 * ```ts run
 * import { Compaction, LlmCycle, PermissionPolicy, ToolRegistry } from "agcore"
 * import { ScriptedModel } from "agcore/testing"
 * import { Effect, Layer } from "effect"
 *
 * const Live = LlmCycle.layer({
 *   compaction: Compaction.make({ contextWindow: 1_000, reserve: 200, keepTurns: 1 })
 * }).pipe(
 *   Layer.provide(ToolRegistry.layer()),
 *   Layer.provide([PermissionPolicy.layer(), ScriptedModel.layer(() => ScriptedModel.text("word ".repeat(300)))])
 * )
 *
 * const program = Effect.gen(function*() {
 *   const cycle = yield* LlmCycle.LlmCycle
 *   for (const question of ["one", "two", "three", "four"]) yield* cycle.submit(question)
 *   return (yield* cycle.messages).map((message) => message.role)
 * }).pipe(Effect.provide(Live))
 *
 * await Effect.runPromise(program) // => ["user", "user", "assistant", "user", "assistant"]
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <R = never>(options: Options<R> = {}): Compaction<R> => {
  const contextWindow = options.contextWindow !== undefined && options.contextWindow > 0
    ? options.contextWindow
    : Infinity
  const trigger = between(options.trigger, 0, 1) ?? DEFAULT_TRIGGER
  return {
    strategy: options.strategy ??
      CompactionStrategy.sequence(CompactionStrategy.clearToolResults(), CompactionStrategy.dropOldest()),
    contextWindow,
    reserve: between(options.reserve, 0, contextWindow / 2)
      ?? Math.min(contextWindow / DEFAULT_RESERVE_PART, DEFAULT_MAX_RESERVE),
    trigger,
    target: between(options.target, 0, trigger) ?? Math.min(DEFAULT_TARGET, trigger),
    keepTurns: between(options.keepTurns, 1, Infinity) ?? DEFAULT_KEEP_TURNS,
    pin: options.pin ?? CompactionStrategy.firstUserMessage,
    timeout: Duration.fromInputUnsafe(options.timeout ?? DEFAULT_TIMEOUT)
  }
}

// What is no number counts as not given.
const between = (value: number | undefined, low: number, high: number): number | undefined =>
  value === undefined || Number.isNaN(value) ? undefined : Math.min(high, Math.max(low, value))

// =============================================================================
// Services
// =============================================================================

/**
 * The compaction of cycles whose configuration names none. Read once, when a
 * cycle is made. Default: none.
 *
 * @category references
 * @since 0.1.0
 */
export const Current: Context.Reference<Compaction | undefined> = Context.Reference<Compaction | undefined>(
  "agcore/llm/Compaction/Current",
  { defaultValue: () => undefined }
)

/**
 * Compacts the conversations of all cycles above it whose configuration does
 * not say otherwise. Its strategies keep the services they were made with.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <R = never>(options?: Options<R>): Layer.Layer<never, never, R> =>
  Layer.effect(Current, provided(make(options)))

/**
 * A compaction whose strategies have their services.
 *
 * @category combinators
 * @since 0.1.0
 */
export const provided = <R>(self: Compaction<R>): Effect.Effect<Compaction, never, R> =>
  Effect.map(Effect.context<R>(), (context) => {
    const withServices = HandlerContext.provider(context)
    const { compact, name } = self.strategy
    return {
      ...self,
      strategy: {
        name,
        compact: (state) =>
          withServices<CompactionStrategy.Compacted | undefined, CompactionError, never>(compact(state))
      }
    }
  })

// =============================================================================
// Combinators
// =============================================================================

/**
 * A transcript to compact.
 *
 * @category options
 * @since 0.1.0
 */
export interface Request {
  /** Calls have to be followed by their results: see `History.fromMessages`. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Tools that a request will offer, for their share of the window. Default: none. */
  readonly tools?: ReadonlyArray<Definition> | undefined
  /** Whether to compact even though there is room: to `target` of what it comes to now. Default `false`. */
  readonly force?: boolean | undefined
}

/**
 * A transcript that has become shorter.
 *
 * @category models
 * @since 0.1.0
 */
export interface Shortened extends CompactionStrategy.Compacted {
  /** What the request came to, tools included, as far as is known. */
  readonly tokensBefore: number
  /** What it comes to now. */
  readonly tokensAfter: number
  /** What the strategies have spent. */
  readonly usage: Response.Usage
}

/**
 * Compacts a transcript by hand: for a command that does so, or before it is
 * stored. A cycle does it by itself.
 *
 * Answers `undefined` if the transcript is short enough or cannot be shortened.
 * Counts by the `Tokenizer` of effect/ai where there is one, else by
 * `TokenEstimate`.
 *
 * **Example** (Making room now)
 *
 * ```ts run
 * import { Compaction } from "agcore"
 * import { ScriptedModel } from "agcore/testing"
 * import { Effect } from "effect"
 * import { Prompt } from "effect/ai"
 *
 * const { content } = Prompt.make(["one", "two", "three"].flatMap((question) => [
 *   { role: "user" as const, content: question },
 *   { role: "assistant" as const, content: [{ type: "text" as const, text: "word ".repeat(300) }] }
 * ]))
 *
 * const program = Compaction.compact(
 *   Compaction.make({ contextWindow: 1_000, keepTurns: 1 }),
 *   { messages: content, force: true }
 * ).pipe(Effect.provide(ScriptedModel.layer([])))
 *
 * const shortened = await Effect.runPromise(program)
 *
 * shortened?.strategy // => "dropOldest"
 * shortened?.messages.length // => 3
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const compact: <R>(
  self: Compaction<R>,
  request: Request
) => Effect.Effect<Shortened | undefined, never, R | LanguageModel.LanguageModel> = Effect.fnUntraced(function*<R>(
  self: Compaction<R>,
  { force, messages, tools = [] }: Request
) {
  const compactor = makeCompactor(yield* provided(self), yield* Effect.serviceOption(Tokenizer.Tokenizer))
  const usage = makeTally()
  const outcome = yield* compactor.prepare(
    { messages, system: [], tools, model: yield* LanguageModel.LanguageModel },
    {
      force,
      spend: usage.add
    }
  )
  if (outcome._tag !== "Compacted") return undefined
  const { strategy, tokensAfter, tokensBefore } = outcome
  return { messages: outcome.messages, strategy, tokensBefore, tokensAfter, usage: usage.read() }
})

// =============================================================================
// Guards
// =============================================================================

/**
 * Returns whether a provider has refused a request because it was too long for
 * the model, or for what it lets through in a minute.
 *
 * Providers say so in many ways: it goes by the codes and sentences of OpenAI,
 * Azure, Anthropic, Gemini, Bedrock, Mistral, xAI, Cohere, DeepSeek, Groq,
 * Cerebras, Moonshot, OpenRouter, Together, vLLM, SGLang, llama.cpp, LM Studio,
 * Ollama and Text Generation Inference. Servers that shorten the request by
 * themselves say nothing.
 *
 * **Example** (A refusal)
 *
 * ```ts run
 * import { Compaction } from "agcore"
 * import { AiError } from "effect/ai"
 *
 * const error = AiError.make({
 *   module: "Model",
 *   method: "generateText",
 *   reason: new AiError.InvalidRequestError({ description: "prompt is too long: 208656 tokens > 200000 maximum" })
 * })
 *
 * Compaction.isContextLengthError(error) // => true
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isContextLengthError = (error: AiError.AiError): boolean => Overflow.isContextLengthError(error)
