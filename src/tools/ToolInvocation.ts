/**
 * One call of a tool, and what became of it.
 *
 * Both are plain data: they can be stored and sent, and keep nothing alive.
 *
 * @since 0.1.0
 */
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import { ToolError, type ToolErrorReason } from "./ToolError.ts"

/**
 * A request to run a tool, as a model makes it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolCall {
  /** The label the model gave to the call. Not an identity: servers repeat them. */
  readonly id: string
  readonly name: string
  /** JSON arguments as they came; a string where they are not JSON. */
  readonly params: unknown
  /** The turn of the conversation, counted from 1. Default 0: outside of one. */
  readonly turn?: number | undefined
  /** The position among the calls of the turn, counted from 0. Default 0. */
  readonly index?: number | undefined
}

/**
 * The record of a call that was answered: its outcome, whole, and what a model
 * is told of it.
 *
 * @category models
 * @since 0.1.0
 */
export class ToolInvocation extends Schema.Class<ToolInvocation>("agcore/tools/ToolInvocation")({
  toolCallId: Schema.String,
  toolName: Schema.String,
  /** The turn of the conversation, counted from 1; 0 outside of one. */
  turn: Schema.Finite,
  /** The position among the calls of the turn, counted from 0. */
  index: Schema.Finite,
  /** The JSON arguments as they came. */
  input: Schema.Unknown,
  /** The whole encoded result; absent if the call failed without one. */
  output: Schema.optionalKey(Schema.Json),
  /** Why the call failed, if it did. */
  error: Schema.optionalKey(ToolError),
  /** What a model is told: the result or the failure, cut to the limit. */
  result: Schema.Json,
  /** Text and files that a model is shown in place of `result`. */
  modelOutput: Schema.optionalKey(Schema.Array(Prompt.ToolModelOutputPart)),
  /** Whether what a model is shown was cut: `modelOutput`, or `result` where there is none. */
  truncated: Schema.Boolean,
  /** Where the whole of what was cut is kept, if a `ResultStore` has it. */
  stored: Schema.optionalKey(Schema.Struct({
    handle: Schema.String,
    /** The size of its text in UTF-8. */
    sizeBytes: Schema.Finite,
    mediaType: Schema.String
  })),
  /** How long the tool ran; 0 if it never started. */
  durationMillis: Schema.Finite
}) {
  /** Whether the call failed, for whatever reason. */
  get isFailure(): boolean {
    return this.error !== undefined
  }
}

/**
 * The record of a call that has failed; `durationMillis` is 0 unless it ran.
 *
 * @category constructors
 * @since 0.1.0
 */
export const failed = (call: ToolCall, reason: ToolErrorReason, durationMillis: number = 0): ToolInvocation => {
  const error = new ToolError({ toolName: call.name, reason })
  return new ToolInvocation({
    toolCallId: call.id,
    toolName: call.name,
    turn: call.turn ?? 0,
    index: call.index ?? 0,
    // Absent arguments are not JSON, and a record has to be.
    input: call.params ?? null,
    error,
    result: error.modelMessage,
    truncated: false,
    durationMillis
  })
}
