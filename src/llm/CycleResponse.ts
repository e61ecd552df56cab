/**
 * What a submit came to.
 *
 * @since 0.1.0
 */
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Schema from "effect/Schema"
import { ToolInvocation } from "../tools/ToolInvocation.ts"

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
  /** Why the last turn ended. */
  finishReason: Response.FinishReason,
  /** Tokens of all turns of this submit, as far as the provider tells. */
  usage: Response.Usage,
  /** How often the model was asked in this submit. */
  turns: Schema.Finite,
  /** Every call of this submit, in the order the model made them. */
  invocations: Schema.Array(ToolInvocation)
}) {}
