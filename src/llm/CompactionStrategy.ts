/**
 * Ways to shorten a transcript: what goes, and what takes its place.
 *
 * A strategy is a value with a name. It gets the transcript in the parts that
 * may go, and says what is left. `Compaction` runs it, checks what it returns,
 * and keeps the transcript as it was where the strategy fails.
 *
 * @since 0.1.0
 */
import type * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import { messageOf } from "../internal/text.ts"
import { CompactionError } from "./CompactionError.ts"
import * as Clear from "./internal/compactClear.ts"
import * as Drop from "./internal/compactDrop.ts"
import * as Run from "./internal/compactRun.ts"
import * as Summary from "./internal/compactSummary.ts"
import * as Units from "./internal/compactUnits.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * A part of a transcript that is kept or goes as a whole: a message, or a
 * response with the results of its calls.
 *
 * @category models
 * @since 0.1.0
 */
export interface Unit {
  readonly kind: "system" | "user" | "turn"
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Whether it has to stay as it is. */
  readonly isKept: boolean
}

/**
 * What a strategy starts from.
 *
 * @category models
 * @since 0.1.0
 */
export interface CompactionState {
  /** The whole transcript, without the instructions of the cycle. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** The same, in the parts that may go. */
  readonly units: ReadonlyArray<Unit>
  /** How many tokens the messages should come to. */
  readonly target: number
  /** How many tokens a request may come to, its answer not counted. */
  readonly limit: number
  /** How many tokens messages come to, as far as is known. */
  readonly tokens: (messages: ReadonlyArray<Prompt.Message>) => number
  /** The model of the coming turn. */
  readonly model: LanguageModel.LanguageModel
  /** Counts tokens to the conversation that a strategy has spent. Must not block. */
  readonly spend: (usage: Response.Usage) => void
  /** The same for a transcript that a strategy has come to, for another one to go on with. */
  readonly after: (messages: ReadonlyArray<Prompt.Message>) => CompactionState
}

/**
 * What a strategy has come to, and which one it was.
 *
 * @category models
 * @since 0.1.0
 */
export interface Compacted {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly strategy: string
}

/**
 * A way to shorten a transcript.
 *
 * It answers `undefined` if it has nothing to shorten. What it returns is
 * checked, and repaired where calls and results have come apart. Where the
 * transcript would begin with a response, a note to the model is put before it:
 * providers want a message of the user first. If the strategy loses what has to
 * stay, fails or dies, the transcript stays as it was.
 *
 * @category models
 * @since 0.1.0
 */
export interface Strategy<out R = never> {
  readonly name: string
  /** Shortens a transcript, or answers `undefined`. */
  readonly compact: (state: CompactionState) => Effect.Effect<Compacted | undefined, CompactionError, R>
}

/**
 * Whether a message has to stay, and with it the turn it belongs to.
 *
 * @category models
 * @since 0.1.0
 */
export type Pin = (message: Prompt.Message, index: number, messages: ReadonlyArray<Prompt.Message>) => boolean

// =============================================================================
// Pins
// =============================================================================

/**
 * Pins the first message of a person: as a rule it says what all of it is for.
 *
 * @category defaults
 * @since 0.1.0
 */
export const firstUserMessage: Pin = Units.isFirstFromUser

// =============================================================================
// Strategies
// =============================================================================

/**
 * Drops what need not stay, oldest first, until the rest fits. Costs nothing,
 * and what is dropped is gone.
 *
 * @category constructors
 * @since 0.1.0
 */
export const dropOldest = (): Strategy => {
  const name = "dropOldest"
  return { name, compact: (state) => Effect.sync(() => compacted(name, Drop.dropOldest(state))) }
}

/**
 * A tool result that is about to be cleared.
 *
 * @category models
 * @since 0.1.0
 */
export interface ClearedResult {
  readonly toolName: string
  readonly isFailure: boolean
  /** What the model was shown. */
  readonly text: string
  /** Where the whole result is stored, if a store has it. */
  readonly handle: string | undefined
}

/**
 * Settings of `clearToolResults`.
 *
 * @category options
 * @since 0.1.0
 */
export interface ClearToolResultsOptions {
  /** Results that stay besides those of the last turns: so many of the newest. Default 0. */
  readonly keepLast?: number | undefined
  /** Tools whose results may be cleared. Default: all. */
  readonly only?: ReadonlyArray<string> | undefined
  /** Tools whose results stay. Default: none. */
  readonly except?: ReadonlyArray<string> | undefined
  /** What the model reads in place of a result. Default: its size, its handle, and how a failed one begins. */
  readonly marker?: ((cleared: ClearedResult) => string) | undefined
}

/**
 * Replaces old tool results by a word about them, oldest first, until the rest
 * fits. What was said, and which calls were made, stays. Results below 100
 * tokens are not worth it and stay as well.
 *
 * **Example** (What the model reads)
 *
 * ```ts run
 * import { CompactionStrategy } from "agcore"
 *
 * const strategy = CompactionStrategy.clearToolResults({
 *   except: ["read_plan"],
 *   marker: ({ text, toolName }) => `[${toolName} answered with ${text.length} characters, cleared]`
 * })
 *
 * strategy.name // => "clearToolResults"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const clearToolResults = (options: ClearToolResultsOptions = {}): Strategy => {
  const name = "clearToolResults"
  return { name, compact: (state) => Effect.sync(() => compacted(name, Clear.clearResults(state, options))) }
}

/**
 * Settings of `summarise`.
 *
 * @category options
 * @since 0.1.0
 */
export interface SummariseOptions<R = never> {
  /** Who writes the summary. Default: the model of the coming turn. */
  readonly model?: LanguageModel.LanguageModel | undefined
  /** What that model is told to do. Default: to write down what is needed to go on. */
  readonly instructions?: string | undefined
  /** How long a summary may be, in tokens. Default 1,500; where the target is small, a quarter of it, at least 200. */
  readonly maxTokens?: number | undefined
  /** What the request may come to, in tokens. Default: what a request of the conversation may. */
  readonly maxRequestTokens?: number | undefined
  /** How long it may take, retries included. Default 60 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** When to ask again after a retryable failure. Default: `CycleConfig.defaultRetry`. */
  readonly retry?: Schedule.Schedule<unknown, AiError.AiError> | undefined
  /** What is done if there is no summary. Default: `dropOldest()`. */
  readonly fallback?: Strategy<R> | undefined
}

/**
 * Lets a model write a summary, which takes the place of all that need not
 * stay. An earlier summary goes into the next one. The tokens it costs are
 * counted to the conversation. Where the model fails, takes too long or says
 * nothing, the fallback is used, and a warning logged.
 *
 * The record that the model reads is bounded: where it is too long, its longest
 * parts are cut. A summary may carry over what a tool result tells the model to
 * do, as the result itself could have.
 *
 * @category constructors
 * @since 0.1.0
 */
export const summarise = <R = never>(options: SummariseOptions<R> = {}): Strategy<R> =>
  Run.orElse(Summary.summarise(options), options.fallback ?? dropOldest())

/**
 * A strategy of your own. `undefined` leaves the transcript as it is.
 *
 * **Example** (Leaving out turns that led nowhere)
 *
 * ```ts run
 * import { CompactionStrategy } from "agcore"
 * import { Effect } from "effect"
 *
 * const withoutFailures = CompactionStrategy.custom("withoutFailures", ({ units }) =>
 *   Effect.succeed(
 *     units
 *       .filter((unit) =>
 *         unit.isKept || !unit.messages.some((message) =>
 *           message.role === "tool" && message.content.every((part) => part.type === "tool-result" && part.isFailure)
 *         )
 *       )
 *       .flatMap((unit) => unit.messages)
 *   ))
 *
 * withoutFailures.name // => "withoutFailures"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const custom = <E = never, R = never>(
  name: string,
  compact: (state: CompactionState) => Effect.Effect<ReadonlyArray<Prompt.Message> | undefined, E, R>
): Strategy<R> => ({
  name,
  compact: (state) =>
    Effect.mapBoth(compact(state), {
      onSuccess: (messages) => compacted(name, messages),
      onFailure: (cause) => new CompactionError({ strategy: name, description: messageOf(cause), cause })
    })
})

/**
 * One strategy after the other, each on what the one before has left, until the
 * rest fits. One that fails is passed over, and logged.
 *
 * **Example** (Cheap first, dear last)
 *
 * ```ts run
 * import { CompactionStrategy } from "agcore"
 *
 * const strategy = CompactionStrategy.sequence(
 *   CompactionStrategy.clearToolResults(),
 *   CompactionStrategy.summarise(),
 *   CompactionStrategy.dropOldest()
 * )
 *
 * strategy.name // => "clearToolResults, summarise, dropOldest"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const sequence = <const Strategies extends ReadonlyArray<Strategy<unknown>>>(
  ...strategies: Strategies
): Strategy<Strategies[number] extends Strategy<infer R> ? R : never> =>
  // What one of several requires is in the union of what each requires.
  Run.sequence(strategies as ReadonlyArray<Strategy<Strategies[number] extends Strategy<infer R> ? R : never>>)

const compacted = (strategy: string, messages: ReadonlyArray<Prompt.Message> | undefined): Compacted | undefined =>
  messages === undefined ? undefined : { messages, strategy }
