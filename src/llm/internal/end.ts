/*
 * How a submit comes to its end, or to rest.
 */
import * as Effect from "effect/Effect"
import type { BudgetExceeded, CycleError, CycleErrorReason } from "../CycleError.ts"
import { CycleResponse, type FinishReason } from "../CycleResponse.ts"
import * as History from "../History.ts"
import * as Budget from "./budget.ts"
import { type Conversation, fail, keep, type LastAnswer, type Submit } from "./conversation.ts"

/** How a submit goes on after a turn. */
export type Next =
  | { readonly _tag: "Again" }
  | { readonly _tag: "Done"; readonly response: CycleResponse }
  | { readonly _tag: "Fail"; readonly error: CycleError }

/** How it comes to its end, or to rest. */
export type End = Exclude<Next, { readonly _tag: "Again" }>

export const failWith = (submit: Submit, reason: CycleErrorReason): End => ({
  _tag: "Fail",
  error: fail(submit, reason)
})

/** What has come to its end is over; what waits or is paused goes on when it is resumed. */
export const rest = <N extends Next>(submit: Submit, next: N): Effect.Effect<N, CycleError> => {
  const { conversation } = submit
  if (next._tag === "Again") return Effect.as(keep(submit), next)
  const isSuspended = next._tag === "Done" && isResumable(next.response.finishReason)
  if (!isSuspended) {
    // A submit that fails leaves nobody to answer to.
    for (const { index } of conversation.pending) {
      conversation.history = History.settle(conversation.history, index, SIBLING)
    }
    conversation.pending = []
    conversation.submit = undefined
  }
  return Effect.as(keep(submit), next)
}

const isResumable = (reason: FinishReason): boolean => reason === "awaiting-input" || reason === "paused"

const SIBLING: History.Answer = {
  isFailure: true,
  result: "Not executed: another call of the same turn was refused or failed."
}

/** The response whose calls are open, as far as the transcript tells. */
export const lastAnswer = ({ history }: Conversation): LastAnswer => {
  const content = history.open !== undefined && "calls" in history.open ? history.open.content : []
  return {
    content,
    text: content.map((part) => part.type === "text" ? part.text : "").join(""),
    finishReason: "tool-calls"
  }
}

/** What the submit has come to. */
export const respond = (
  submit: Submit,
  answer: LastAnswer,
  finishReason: FinishReason = answer.finishReason,
  exceeded?: BudgetExceeded
): CycleResponse => {
  const cost = Budget.costOf(submit.account)
  return new CycleResponse({
    text: answer.text,
    content: answer.content,
    finishReason,
    pending: submit.conversation.pending,
    usage: submit.tally.read(),
    turns: submit.turns,
    invocations: submit.invocations,
    ...(submit.goal?.given === undefined ? undefined : { value: submit.goal.given }),
    ...(cost === undefined ? undefined : { cost }),
    ...(exceeded === undefined ? undefined : { exceeded })
  })
}
