/**
 * What a person is asked about a tool call, and what they answer.
 *
 * Both are plain data: a question can be stored, shown elsewhere and answered
 * later, in another process. Its `id` is a hash of the conversation, the place of
 * the call, the tool's definition and the arguments, so that an answer holds for
 * exactly what was shown; a call that changed is another question.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

// =============================================================================
// Questions
// =============================================================================

const about = {
  /** SHA-256 of what is asked, in hexadecimal. */
  id: Schema.String,
  sessionId: Schema.String,
  /** The turn of the conversation, counted from 1; 0 outside of one. */
  turn: Schema.Finite,
  /** The position of the call among its siblings, counted from 0. */
  index: Schema.Finite,
  toolCallId: Schema.String,
  toolName: Schema.String,
  /** The JSON arguments as they would run. */
  input: Schema.Unknown,
  /** What to ask: the policy's words, or the tool's. */
  prompt: Schema.String
}

/**
 * May this call run? Nothing of it has.
 *
 * @category models
 * @since 0.1.0
 */
export class Approval extends Schema.TaggedClass<Approval>("agcore/tools/Question/Approval")("Approval", {
  ...about,
  /** What the tool declares to do. */
  permissions: Schema.Array(Schema.String)
}) {}

/**
 * A tool asks back in the middle of its work. It goes on with the answer and its
 * own `context`.
 *
 * @category models
 * @since 0.1.0
 */
export class Input extends Schema.TaggedClass<Input>("agcore/tools/Question/Input")("Input", {
  ...about,
  /** JSON of the tool's own, handed back to it with the answer. */
  context: Schema.Json,
  /** JSON Schema of the answer. */
  answerSchema: Schema.Json,
  /** How often the call has asked before. */
  round: Schema.Finite
}) {}

/**
 * Schema of all questions, for storing and sending them.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Question: Schema.Union<[typeof Approval, typeof Input]> = Schema.Union([Approval, Input])

/**
 * Something a person has to decide before a call goes on.
 *
 * @category models
 * @since 0.1.0
 */
export type Question = typeof Question.Type

// =============================================================================
// Answers
// =============================================================================

/**
 * The call may run: as it is, or with `input` in place of its arguments.
 *
 * @category models
 * @since 0.1.0
 */
export class Approve extends Schema.TaggedClass<Approve>("agcore/tools/Question/Approve")("Approve", {
  questionId: Schema.String,
  /** JSON arguments to run it with instead; checked like a model's. */
  input: Schema.optionalKey(Schema.Unknown)
}) {}

/**
 * The call must not go on. The model is told `reason`.
 *
 * @category models
 * @since 0.1.0
 */
export class Deny extends Schema.TaggedClass<Deny>("agcore/tools/Question/Deny")("Deny", {
  questionId: Schema.String,
  reason: Schema.String
}) {}

/**
 * What the tool asked for; `value` is JSON that fits the question's
 * `answerSchema`.
 *
 * @category models
 * @since 0.1.0
 */
export class Reply extends Schema.TaggedClass<Reply>("agcore/tools/Question/Reply")("Reply", {
  questionId: Schema.String,
  value: Schema.Unknown
}) {}

/**
 * Schema of all answers.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Answer: Schema.Union<[typeof Approve, typeof Deny, typeof Reply]> = Schema.Union([Approve, Deny, Reply])

/**
 * What a person answers. It names the question by its `id`.
 *
 * @category models
 * @since 0.1.0
 */
export type Answer = typeof Answer.Type

// =============================================================================
// Constructors
// =============================================================================

/**
 * Lets the call run, with other arguments where they are given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const approve = (question: Question, options?: {
  /** JSON arguments in place of the model's. Default: as they are. */
  readonly input?: unknown
}): Answer =>
  new Approve({
    questionId: question.id,
    ...(options !== undefined && "input" in options ? { input: options.input } : undefined)
  })

/**
 * Refuses, with a reason that the model is told.
 *
 * @category constructors
 * @since 0.1.0
 */
export const deny = (question: Question, reason: string): Answer => new Deny({ questionId: question.id, reason })

/**
 * Gives a tool what it asked for.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reply = (question: Question, value: unknown): Answer => new Reply({ questionId: question.id, value })
