/**
 * Why a submit did not come to an answer.
 *
 * Each error carries what happened so far. After any of them the history is
 * valid and the conversation can go on.
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { excerpt } from "../internal/text.ts"
import { Question } from "../tools/Question.ts"
import { ToolError } from "../tools/ToolError.ts"
import { ToolInvocation } from "../tools/ToolInvocation.ts"
import { CycleStoreError } from "./CycleStoreError.ts"
import { NO_USAGE } from "./internal/usage.ts"
import { ModelUnpriced } from "./Pricing.ts"

const TypeId = "~agcore/llm/CycleError" as const

/** How much of what is wrong with an answer is repeated in a message. */
const MAX_ISSUE_CHARACTERS = 1_000

/**
 * The model could not be asked, or what it answered could not be read; retries
 * are used up. `error` says what to do about it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ModelFailed extends Schema.TaggedError<ModelFailed>("agcore/llm/CycleError/ModelFailed")("ModelFailed", {
  error: AiError.AiError
}) {
  override get message(): string {
    return `the model failed: ${this.error.message}`
  }
}

/**
 * The provider has refused a request for its length, and what has to stay of the
 * transcript is by itself more than its window: the last turn, what is pinned,
 * instructions and tools. Limit the results of tools, pin less, or take a model
 * with a larger window.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ContextExceeded
  extends Schema.TaggedError<ContextExceeded>("agcore/llm/CycleError/ContextExceeded")("ContextExceeded", {
    /** What has to stay comes to, as far as is known. */
    tokens: Schema.Finite,
    contextWindow: Schema.Finite,
    /** The refusal. */
    error: AiError.AiError
  })
{
  override get message(): string {
    return `what cannot be left out of the conversation comes to about ${this.tokens} tokens, more than ` +
      `${this.contextWindow}: ${this.error.message}`
  }
}

/**
 * A call was refused or failed in a way the error policy does not tell the model
 * about.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ToolFailed extends Schema.TaggedError<ToolFailed>("agcore/llm/CycleError/ToolFailed")("ToolFailed", {
  error: ToolError
}) {
  override get message(): string {
    return this.error.message
  }
}

/**
 * The model still wanted to call tools when its turns were used up.
 *
 * @category reasons
 * @since 0.1.0
 */
export class MaxTurnsExceeded
  extends Schema.TaggedError<MaxTurnsExceeded>("agcore/llm/CycleError/MaxTurnsExceeded")("MaxTurnsExceeded", {
    maxTurns: Schema.Finite
  })
{
  override get message(): string {
    return `no answer within ${this.maxTurns} ${this.maxTurns === 1 ? "turn" : "turns"}`
  }
}

/**
 * A limit of the budget is reached. `budget` is the limit and `used` what was
 * spent of it: tokens, input and output; money in the currency of `pricing`; or
 * milliseconds.
 *
 * @category reasons
 * @since 0.1.0
 */
export class BudgetExceeded
  extends Schema.TaggedError<BudgetExceeded>("agcore/llm/CycleError/BudgetExceeded")("BudgetExceeded", {
    limit: Schema.Literals(["tokens", "cost", "duration"]),
    budget: Schema.Finite,
    used: Schema.Finite
  })
{
  override get message(): string {
    const { budget, limit, used } = this
    switch (limit) {
      case "tokens":
        return `${used} tokens used of a budget of ${budget}`
      case "cost":
        return `${used} spent of a budget of ${budget}`
      case "duration":
        return `${used} ms taken of a budget of ${budget}`
    }
  }
}

/**
 * A limit of the configuration is none: negative, or no number. Nothing was
 * asked.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidLimit
  extends Schema.TaggedError<InvalidLimit>("agcore/llm/CycleError/InvalidLimit")("InvalidLimit", {
    limit: Schema.Literals(["tokens", "cost", "duration", "repeatedCalls"]),
    /** What was given, as text. */
    value: Schema.String
  })
{
  override get message(): string {
    return `the limit of ${this.limit} must be 0 or more, not ${this.value}`
  }
}

/**
 * The model goes in circles: in `count` turns it made the same call with the
 * same result, and nothing new between them.
 *
 * @category reasons
 * @since 0.1.0
 */
export class RepeatedCalls
  extends Schema.TaggedError<RepeatedCalls>("agcore/llm/CycleError/RepeatedCalls")("RepeatedCalls", {
    toolName: Schema.String,
    count: Schema.Finite
  })
{
  override get message(): string {
    return `tool "${this.toolName}" was called in ${this.count} turns with the same arguments and the same result`
  }
}

/**
 * The response was cut off: by its length limit or a filter in the middle of a
 * call, by an error, or without saying that it was complete. None of its calls
 * ran.
 *
 * @category reasons
 * @since 0.1.0
 */
export class IncompleteResponse
  extends Schema.TaggedError<IncompleteResponse>("agcore/llm/CycleError/IncompleteResponse")("IncompleteResponse", {
    finishReason: Response.FinishReason
  })
{
  override get message(): string {
    return `the response was incomplete (${this.finishReason})`
  }
}

/**
 * The conversation waits for the one who asks: a tool submitted to the cycle it
 * runs in, or the consumer of a stream did before the stream had ended.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Busy extends Schema.TaggedError<Busy>("agcore/llm/CycleError/Busy")("Busy", {}) {
  override get message(): string {
    return "the cycle is waiting for the caller and cannot take another submit from it"
  }
}

/**
 * The model gave no answer that fits the schema, and its repairs are used up.
 * `issue` says what was wrong with the last one.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidObject
  extends Schema.TaggedError<InvalidObject>("agcore/llm/CycleError/InvalidObject")("InvalidObject", {
    issue: Schema.String
  })
{
  override get message(): string {
    return `the answer does not fit its schema: ${excerpt(this.issue, MAX_ISSUE_CHARACTERS)}`
  }
}

/**
 * The conversation waits for answers: `resume` it with them, or deny, before
 * anything else is submitted.
 *
 * @category reasons
 * @since 0.1.0
 */
export class AwaitingAnswers
  extends Schema.TaggedError<AwaitingAnswers>("agcore/llm/CycleError/AwaitingAnswers")("AwaitingAnswers", {
    questions: Schema.Array(Question)
  })
{
  override get message(): string {
    const { length } = this.questions
    return `the conversation waits for ${
      length === 1 ? "an answer" : `answers to ${length} questions`
    }: resume it first`
  }
}

/**
 * An answer cannot be taken: no question of that id is open, it does not fit the
 * question, or there are two of it. Nothing ran, and every question stays open.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidAnswer
  extends Schema.TaggedError<InvalidAnswer>("agcore/llm/CycleError/InvalidAnswer")("InvalidAnswer", {
    questionId: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    return `the answer to question ${this.questionId} cannot be taken: ${this.problem}`
  }
}

/**
 * There is no submit to go on with: the last one has come to its end.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NothingToResume
  extends Schema.TaggedError<NothingToResume>("agcore/llm/CycleError/NothingToResume")("NothingToResume", {})
{
  override get message(): string {
    return "there is nothing to resume: the last submit has come to its end"
  }
}

/**
 * The conversation could not be saved. Calls that had not begun did not run; what
 * happened is in the history of this process, but not in the store.
 *
 * @category reasons
 * @since 0.1.0
 */
export class StoreFailed extends Schema.TaggedError<StoreFailed>("agcore/llm/CycleError/StoreFailed")("StoreFailed", {
  error: CycleStoreError
}) {
  override get message(): string {
    return this.error.message
  }
}

/**
 * Schema of every reason a submit can fail for.
 *
 * @category schemas
 * @since 0.1.0
 */
export const CycleErrorReason: Schema.Union<[
  typeof ModelFailed,
  typeof ContextExceeded,
  typeof ToolFailed,
  typeof MaxTurnsExceeded,
  typeof BudgetExceeded,
  typeof ModelUnpriced,
  typeof InvalidLimit,
  typeof RepeatedCalls,
  typeof IncompleteResponse,
  typeof Busy,
  typeof InvalidObject,
  typeof AwaitingAnswers,
  typeof InvalidAnswer,
  typeof NothingToResume,
  typeof StoreFailed
]> = Schema.Union([
  ModelFailed,
  ContextExceeded,
  ToolFailed,
  MaxTurnsExceeded,
  BudgetExceeded,
  ModelUnpriced,
  InvalidLimit,
  RepeatedCalls,
  IncompleteResponse,
  Busy,
  InvalidObject,
  AwaitingAnswers,
  InvalidAnswer,
  NothingToResume,
  StoreFailed
])

/**
 * Why a submit failed.
 *
 * @category models
 * @since 0.1.0
 */
export type CycleErrorReason = typeof CycleErrorReason.Type

/**
 * The single failure type of a cycle, with the turns taken, the tokens used and
 * the calls answered before it.
 *
 * **Example** (Going on after the limit of turns)
 *
 * ```ts run
 * import { CycleError } from "agcore"
 * import { Effect } from "effect"
 *
 * const submit = Effect.fail(CycleError.make(new CycleError.MaxTurnsExceeded({ maxTurns: 10 })))
 *
 * const program = submit.pipe(
 *   Effect.catchReason("CycleError", "MaxTurnsExceeded", (reason) => Effect.succeed(`stopped after ${reason.maxTurns}`))
 * )
 *
 * await Effect.runPromise(program) // => "stopped after 10"
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class CycleError extends Schema.TaggedError<CycleError>("agcore/llm/CycleError")("CycleError", {
  reason: CycleErrorReason,
  turns: Schema.Finite,
  usage: Response.Usage,
  invocations: Schema.Array(ToolInvocation)
}) {
  readonly [TypeId] = TypeId

  override readonly cause = this.reason

  override get message(): string {
    return this.reason.message
  }
}

/**
 * An error before anything has happened.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (reason: CycleErrorReason): CycleError =>
  new CycleError({ reason, turns: 0, usage: NO_USAGE, invocations: [] })

/**
 * Returns whether a value is a `CycleError`.
 *
 * @category guards
 * @since 0.1.0
 */
export const isCycleError = (u: unknown): u is CycleError => Predicate.hasProperty(u, TypeId)
