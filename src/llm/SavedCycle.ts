/**
 * A conversation as plain data: what has to be kept to go on with it in another
 * process.
 *
 * @since 0.1.0
 */
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Schema from "effect/Schema"
import { Question } from "../tools/Question.ts"
import { ToolInvocation } from "../tools/ToolInvocation.ts"
import { Spent } from "./Budget.ts"

/**
 * Schema of a submit that has not come to its end: it waits for answers, is
 * paused, or was cut off.
 *
 * @category schemas
 * @since 0.1.0
 */
export const SavedSubmit: Schema.Struct<{
  readonly withTools: typeof Schema.Boolean
  readonly turns: typeof Schema.Finite
  readonly usage: typeof Response.Usage
  readonly invocations: Schema.$Array<typeof ToolInvocation>
  readonly spent: Schema.optionalKey<typeof Spent>
  readonly budgetFrom: Schema.optionalKey<typeof Spent>
}> = Schema.Struct({
  withTools: Schema.Boolean,
  /** How often it has asked the model. */
  turns: Schema.Finite,
  usage: Response.Usage,
  invocations: Schema.Array(ToolInvocation),
  /** What it has spent. Absent in older conversations: nothing. */
  spent: Schema.optionalKey(Spent),
  /** What it had spent when its budget began to count anew. Absent: it counts from the beginning. */
  budgetFrom: Schema.optionalKey(Spent)
})

/**
 * A submit that has not come to its end.
 *
 * @category models
 * @since 0.1.0
 */
export interface SavedSubmit extends Schema.Schema.Type<typeof SavedSubmit> {}

/**
 * Schema of a conversation as it is kept. Its JSON form is
 * `Schema.toCodecJson(SavedCycle)`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const SavedCycle: Schema.Struct<{
  readonly sessionId: typeof Schema.String
  readonly revision: typeof Schema.Finite
  readonly turns: typeof Schema.Finite
  readonly messages: Schema.$Array<typeof Prompt.Message>
  readonly running: Schema.$Array<typeof Schema.Finite>
  readonly pending: Schema.$Array<typeof Question>
  readonly sharedState: Schema.$Record<typeof Schema.String, typeof Schema.Json>
  readonly usage: typeof Response.Usage
  readonly spent: Schema.optionalKey<typeof Spent>
  readonly submit: Schema.optionalKey<typeof SavedSubmit>
}> = Schema.Struct({
  /** The id it is found by. */
  sessionId: Schema.String,
  /** Grows by one each time it is saved; the first is 1, and 0 was never saved. */
  revision: Schema.Finite,
  /** Turns taken by the model, which may be more than the messages show. */
  turns: Schema.Finite,
  messages: Schema.Array(Prompt.Message),
  /** Calls of the last turn that may have begun and have no result yet, by index. */
  running: Schema.Array(Schema.Finite),
  /** What calls of the last turn wait for. */
  pending: Schema.Array(Question),
  sharedState: Schema.Record(Schema.String, Schema.Json),
  /** Tokens of the whole conversation. */
  usage: Response.Usage,
  /** What all submits have spent. Absent in older conversations: nothing. */
  spent: Schema.optionalKey(Spent),
  /** The submit that is not over yet, if there is one. */
  submit: Schema.optionalKey(SavedSubmit)
})

/**
 * A conversation as it is kept.
 *
 * @category models
 * @since 0.1.0
 */
export interface SavedCycle extends Schema.Schema.Type<typeof SavedCycle> {}
