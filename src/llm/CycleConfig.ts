/**
 * How a conversation behaves. Every field has a default; all of them together
 * are `{}`.
 *
 * @since 0.1.0
 */
import type * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { Decision, Request } from "../tools/PermissionPolicy.ts"
import type { ToolError, ToolErrorReason } from "../tools/ToolError.ts"
import type { ToolInvocation } from "../tools/ToolInvocation.ts"
import type { ToolFilter } from "../tools/ToolSnapshot.ts"
import type { Budget } from "./Budget.ts"
import type { Compaction } from "./Compaction.ts"
import type { PriceTable } from "./Pricing.ts"
import type { StopCondition } from "./StopCondition.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * Which tools the model may, must or must not call.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolChoice = LanguageModel.ToolChoice<string>

/**
 * Where a submit stands before it asks the model, or after a turn's calls have
 * settled.
 *
 * @category models
 * @since 0.1.0
 */
export interface TurnState {
  /** The turn to come or just taken, counted from 1 within the submit. */
  readonly turn: number
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Tokens of this submit so far. */
  readonly usage: Response.Usage
  /** Calls of this submit so far. */
  readonly invocations: ReadonlyArray<ToolInvocation>
  /** Input and output of this submit, estimated where the provider does not count and a limit or price needs it. */
  readonly tokens: number
  /** What this submit has cost, in the currency of `pricing`; `undefined` where something has no price. */
  readonly cost: number | undefined
  /** The call that was repeated most often in the last turn; `undefined` where nothing was called. */
  readonly repetition: Repetition | undefined
}

/**
 * A call that a model makes again.
 *
 * @category models
 * @since 0.1.0
 */
export interface Repetition {
  readonly toolName: string
  /** In how many turns it was made with the same arguments and the same result, and nothing new between them. */
  readonly count: number
}

/**
 * How one turn differs from the others.
 *
 * @category models
 * @since 0.1.0
 */
export interface TurnOptions {
  /** Narrows the tools of this turn further. Default: the cycle's tools. */
  readonly tools?: ToolFilter | undefined
  /** Default: the cycle's. */
  readonly toolChoice?: ToolChoice | undefined
  /** Another model for this turn. Default: the cycle's. */
  readonly model?: LanguageModel.LanguageModel | undefined
  /** Services and references for the model's provider. Default: none. */
  readonly context?: Context.Context<never> | undefined
  /** Default: the cycle's. */
  readonly system?: string | undefined
}

/**
 * What becomes of a tool's error: `tell` gives it to the model as the call's
 * result, `fail` ends the submit with `ToolFailed`.
 *
 * @category models
 * @since 0.1.0
 */
export type ErrorPolicy = {
  readonly [
    // A call that waits has not failed: the submit comes to rest instead.
    Reason in Exclude<ToolErrorReason["_tag"], "AwaitingAnswer">
  ]: "tell" | "fail"
}

/**
 * Settings of a cycle. `R` is what its functions require; it is captured when
 * the cycle is made.
 *
 * @category options
 * @since 0.1.0
 */
export interface CycleConfig<R = never> {
  /** How often one submit may ask the model; the last time may still answer. Default 10. */
  readonly maxTurns?: number | undefined
  /** Limit of one run of a tool, unless the tool has its own. Default: `ToolSettings.Timeout`, 60 seconds. */
  readonly toolTimeout?: Duration.Input | undefined
  /** How many calls of a turn run at a time, at least 1. Default: all of them. */
  readonly toolConcurrency?: number | "unbounded" | undefined
  /** What the model is told of one result at the most. Default: `ToolSettings.MaxResultBytes`, 64 KiB. */
  readonly maxToolResultBytes?: number | undefined
  /** When to ask again after a retryable failure of the model. Default: `defaultRetry`. */
  readonly retry?: Schedule.Schedule<unknown, AiError.AiError> | undefined
  /** Changes to `defaultErrorPolicy`. Default: none. */
  readonly errorPolicy?: Partial<ErrorPolicy> | undefined
  /** Instructions that precede every request; not part of the history. Default: none. */
  readonly system?: string | undefined
  /** Narrows the registry's tools. Default: all of them. */
  readonly tools?: ToolFilter | undefined
  /**
   * Which tools the model may or must call. A choice that forces a call holds
   * for the first turn of a submit; after it the model is free to answer.
   * Default `auto`.
   */
  readonly toolChoice?: ToolChoice | undefined
  /** Chooses options for a turn before the model is asked. Default: none. */
  readonly prepareTurn?: ((state: TurnState) => Effect.Effect<TurnOptions, never, R>) | undefined
  /** Ends the submit with the last turn's text, asked when its calls have settled. Default: never. */
  readonly stopWhen?: StopCondition | undefined
  /** What one submit may spend, and what happens when it is spent. Default: no limit. */
  readonly budget?: Budget | undefined
  /** What tokens cost, for `budget.cost` and for reports. Default: costs are not known. */
  readonly pricing?: PriceTable | undefined
  /**
   * In how many turns the model may make the same call with the same result,
   * nothing new between them, before the submit fails with `RepeatedCalls`.
   * `Infinity` lets it. Default 10.
   */
  readonly repeatedCalls?: number | undefined
  /**
   * Keeps the transcript within the window of the model, see `Compaction.make`;
   * or a function that replaces it before each request, where `undefined` keeps
   * it. What comes back is repaired, so that no call loses its answer. Default:
   * `Compaction.Current`, none.
   */
  readonly compaction?:
    | Compaction<R>
    | ((state: TurnState) => Effect.Effect<ReadonlyArray<Prompt.Message> | undefined, never, R>)
    | undefined
  /**
   * Decides about calls beside the registry's policy, and can only be stricter;
   * one that dies denies. It holds for sub-agents too. Default: the registry's
   * policy alone decides.
   */
  readonly restrict?: ((request: Request) => Effect.Effect<Decision, never, R>) | undefined
  /** Who the calls are made for, as the audit log names them. Default: nobody is named. */
  readonly actor?: string | undefined
  /** Names the conversation for tools, policies and traces. Default: a random id. */
  readonly sessionId?: string | undefined
  /** What was said before; repaired by `History.fromMessages`. Default: nothing. */
  readonly history?: ReadonlyArray<Prompt.Message> | undefined
  /**
   * How many turns were taken before, as `History.turns` says: with it, a
   * conversation that goes on under the same `sessionId` gives no call the
   * identity, and the idempotency key, of an earlier one. Default: as many as
   * `history` shows.
   */
  readonly turns?: number | undefined
}

// =============================================================================
// Defaults
// =============================================================================

/**
 * How often one submit may ask the model.
 *
 * @category defaults
 * @since 0.1.0
 */
export const defaultMaxTurns: number = 10

/**
 * How often the model may repeat itself.
 *
 * @category defaults
 * @since 0.1.0
 */
export const defaultRepeatedCalls: number = 10

/**
 * Three retries, after about 0.5, 1 and 2 seconds, or when the provider says.
 *
 * @category defaults
 * @since 0.1.0
 */
export const defaultRetry: Schedule.Schedule<unknown, AiError.AiError> = Schedule.exponential("500 millis").pipe(
  Schedule.jittered,
  Schedule.upTo({ times: 3 })
)

/**
 * The longest time a provider may ask to wait before a retry. A request to wait
 * longer is not honoured: the submit fails and says when to come back.
 *
 * @category defaults
 * @since 0.1.0
 */
export const maxRetryAfter: Duration.Duration = Duration.minutes(5)

/**
 * The model is told of what it can mend. What another try cannot help with, or
 * must not be offered, ends the submit.
 *
 * **Example** (Telling the model about a denial)
 *
 * ```ts run
 * import { CycleConfig } from "agcore"
 *
 * const policy = CycleConfig.errorPolicy({ errorPolicy: { PermissionDenied: "tell" } })
 *
 * policy.PermissionDenied // => "tell"
 * policy.NotFound // => "fail"
 * ```
 *
 * @category defaults
 * @since 0.1.0
 */
export const defaultErrorPolicy: ErrorPolicy = {
  ExecutionFailed: "tell",
  InvalidArguments: "tell",
  TimedOut: "tell",
  ApprovalDenied: "tell",
  NotExecuted: "tell",
  Other: "tell",
  NotFound: "fail",
  PermissionDenied: "fail",
  McpError: "fail",
  McpNotInitialized: "fail",
  McpTimeout: "fail",
  Io: "fail"
}

/**
 * The error policy of a configuration: the default one with its changes.
 *
 * @category defaults
 * @since 0.1.0
 */
export const errorPolicy = (config: Pick<CycleConfig, "errorPolicy">): ErrorPolicy => ({
  ...defaultErrorPolicy,
  ...config.errorPolicy
})

/**
 * Whether an error ends the submit under a policy.
 *
 * @category defaults
 * @since 0.1.0
 */
export const isFatal = (policy: ErrorPolicy, error: ToolError): boolean =>
  error.reason._tag !== "AwaitingAnswer" && policy[error.reason._tag] === "fail"
