/*
 * Questions about a call, and what an answer to one means.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { canonical, sha256 } from "../../internal/digest.ts"
import * as Question from "../Question.ts"
import type { Definition, Outcome } from "../Tool.ts"
import type { ToolCall } from "../ToolInvocation.ts"
import type { Answered } from "../ToolSnapshot.ts"
import type { Identity } from "./run.ts"

/** What a question is about. */
export interface Subject {
  readonly tool: Definition
  readonly call: ToolCall
  readonly identity: Identity
}

/** Makes the question whether a call may run. Its words do not count: a policy may put them differently each time. */
export const approval = (subject: Subject, prompt: string): Effect.Effect<Question.Approval> =>
  Effect.map(
    digest(subject, { kind: "approval", input: subject.call.params ?? null }),
    (id) => new Question.Approval({ ...about(subject), id, prompt, permissions: subject.tool.permissions })
  )

/** Makes the question of a tool. */
export const input = (
  subject: Subject,
  asked: Extract<Outcome, { readonly _tag: "AwaitingInput" }>,
  round: number
): Effect.Effect<Question.Input> => {
  const { answerSchema, context, prompt } = asked
  return Effect.map(
    digest(subject, { kind: "input", input: subject.call.params ?? null, context, prompt, round }),
    (id) => new Question.Input({ ...about(subject), id, prompt, context, answerSchema, round })
  )
}

/** Whether a question is still the one its call leads to. */
export const isCurrent = (subject: Subject, question: Question.Question): Effect.Effect<boolean> =>
  Effect.map(
    question._tag === "Approval"
      // What was shown, which has to be what the model has called for.
      ? Effect.map(
        digest(subject, { kind: "approval", input: question.input }),
        (id) => canonical(question.input) === canonical(subject.call.params ?? null) ? id : undefined
      )
      // It ran before, perhaps with arguments a person had changed.
      : digest(subject, {
        kind: "input",
        input: question.input,
        context: question.context,
        prompt: question.prompt,
        round: question.round
      }),
    (id) => id === question.id
  )

/** What an answer says about its call. */
export type Meaning =
  | { readonly _tag: "Denied"; readonly reason: string }
  /** It may run, with these arguments. */
  | { readonly _tag: "Approved"; readonly input: unknown; readonly isEdited: boolean }
  /** It goes on with this. */
  | { readonly _tag: "Replied"; readonly context: Schema.Json; readonly value: unknown }
  /** It is no answer to the question. */
  | { readonly _tag: "Unfit"; readonly problem: string }

export const meaningOf = ({ answer, question }: Answered): Meaning => {
  if (answer.questionId !== question.id) return { _tag: "Unfit", problem: "it answers another question" }
  switch (answer._tag) {
    case "Deny":
      return { _tag: "Denied", reason: answer.reason }
    case "Approve":
      if (question._tag !== "Approval") return { _tag: "Unfit", problem: "the tool asks for input, not for approval" }
      return "input" in answer ? edited(answer.input) : { _tag: "Approved", input: question.input, isEdited: false }
    case "Reply":
      return question._tag === "Input"
        ? { _tag: "Replied", context: question.context, value: answer.value }
        : { _tag: "Unfit", problem: "the call needs approval, not input" }
    default:
      return { _tag: "Unfit", problem: "it is no answer" }
  }
}

// What cannot be written as JSON could be neither shown nor kept once it has run.
const edited = (input: unknown): Meaning => {
  try {
    return { _tag: "Approved", input: JSON.parse(JSON.stringify(input) ?? "null"), isEdited: true }
  } catch {
    return { _tag: "Unfit", problem: "the arguments are not JSON" }
  }
}

const about = ({ call, identity, tool }: Subject) => ({
  sessionId: identity.sessionId,
  turn: identity.turn,
  index: identity.index,
  toolCallId: call.id,
  toolName: tool.name,
  input: call.params ?? null
})

const digest = ({ call, identity, tool }: Subject, asked: Readonly<Record<string, unknown>>): Effect.Effect<string> =>
  Effect.suspend(() => {
    const { description, inputSchema, name, permissions, version } = tool
    return sha256(canonical({
      tool: { name, description, version, inputSchema, permissions },
      place: [identity.sessionId, identity.turn, identity.index, call.id],
      ...asked
    }))
  })
