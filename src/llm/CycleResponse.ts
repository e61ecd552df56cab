/**
 * What a submit came to.
 *
 * @since 0.1.0
 */
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Schema from "effect/Schema"
import { Question } from "../tools/Question.ts"
import { ToolInvocation } from "../tools/ToolInvocation.ts"
import { BudgetExceeded } from "./CycleError.ts"

/**
 * Schema of why a submit has come to rest: what the model said last, or one of
 * these, after which `resume` goes on.
 *
 * - `awaiting-input`: calls wait for the answers to questions
 * - `paused`: a limit was reached that pauses
 *
 * @category schemas
 * @since 0.1.0
 */
export const FinishReason: Schema.Union<[
  typeof Response.FinishReason,
  Schema.Literals<readonly ["awaiting-input", "paused"]>
]> = Schema.Union([Response.FinishReason, Schema.Literals(["awaiting-input", "paused"])])

/**
 * Why a submit has come to rest.
 *
 * @category models
 * @since 0.1.0
 */
export type FinishReason = typeof FinishReason.Type

/**
 * The answer, and how it came about.
 *
 * @category models
 * @since 0.1.0
 */
export class CycleResponse extends Schema.Class<CycleResponse>("agcore/llm/CycleResponse")({
  /** The text of the last turn. */
  text: Schema.String,
  /** All of the last turn: text, reasoning, files. */
  content: Schema.Array(Prompt.AssistantMessagePart),
  /** Why it came to rest: mostly, why the last turn ended. */
  finishReason: FinishReason,
  /** What calls wait for, if the reason is `awaiting-input`. */
  pending: Schema.Array(Question),
  /** The answer of `submitObject` as JSON, once it is given. */
  value: Schema.optionalKey(Schema.Json),
  /** Tokens of all turns of this submit, as far as the provider tells. */
  usage: Response.Usage,
  /** What this submit has cost, in the currency of `pricing`; absent where something has no price. */
  cost: Schema.optionalKey(Schema.Finite),
  /** The limit of the budget that made the submit pause, or conclude. */
  exceeded: Schema.optionalKey(BudgetExceeded),
  /** How often the model was asked in this submit. */
  turns: Schema.Finite,
  /** Every call of this submit, in the order the model made them. */
  invocations: Schema.Array(ToolInvocation)
}) {}
