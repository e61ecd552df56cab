/*
 * What follows from a response, and what its budget says to a submit.
 */
import type * as Response from "effect/ai/Response"
import { isComplete } from "../../internal/finishReason.ts"
import type { NotExecuted } from "../../tools/ToolError.ts"
import type { OnExceeded } from "../Budget.ts"
import { type BudgetExceeded, type CycleErrorReason, IncompleteResponse, MaxTurnsExceeded } from "../CycleError.ts"

export type Decision =
  /** It is an answer. */
  | { readonly _tag: "Done" }
  /** The provider paused: ask again. */
  | { readonly _tag: "AskAgain" }
  /** Its calls are to be admitted and run. */
  | { readonly _tag: "RunCalls" }
  /** Its calls must not run, and the submit goes on. */
  | { readonly _tag: "SkipCalls"; readonly why: NotExecuted["why"] }
  /** Its calls, if any, must not run. */
  | { readonly _tag: "Fail"; readonly reason: CycleErrorReason; readonly why: NotExecuted["why"] }

export const decide = (response: {
  readonly hasCalls: boolean
  /** `unknown` where the response did not say. */
  readonly finishReason: Response.FinishReason
  readonly turn: number
  readonly maxTurns: number
  /** The limit that is reached now. */
  readonly exceeded: BudgetExceeded | undefined
  readonly onExceeded: OnExceeded
  /** The limit that had been reached before, if the model was asked to conclude. */
  readonly concludes: BudgetExceeded | undefined
}): Decision => {
  const { concludes, exceeded, finishReason, hasCalls, maxTurns, onExceeded, turn } = response
  if (!hasCalls && isAnswer(finishReason)) return { _tag: "Done" }
  const goesOn = hasCalls ? isComplete(finishReason) : finishReason === "pause"
  if (!goesOn) return { _tag: "Fail", reason: new IncompleteResponse({ finishReason }), why: "incomplete" }
  if (turn >= maxTurns) return { _tag: "Fail", reason: new MaxTurnsExceeded({ maxTurns }), why: "turnLimit" }
  if (concludes !== undefined) return { _tag: "Fail", reason: concludes, why: "budget" }
  if (exceeded !== undefined && onExceeded === "fail") return { _tag: "Fail", reason: exceeded, why: "budget" }
  if (!hasCalls) return { _tag: "AskAgain" }
  // Calls take time, but neither tokens nor money.
  return exceeded?.limit === "duration" ? { _tag: "SkipCalls", why: "budget" } : { _tag: "RunCalls" }
}

// It may be shown, although it is not always whole.
const isAnswer = (reason: Response.FinishReason): boolean =>
  isComplete(reason) || reason === "length" || reason === "content-filter"

/** Whether the model is asked again. */
export type Border =
  | { readonly _tag: "Ask" }
  /** For the last time, to conclude. */
  | { readonly _tag: "Conclude"; readonly exceeded: BudgetExceeded }
  | { readonly _tag: "Pause"; readonly exceeded: BudgetExceeded }
  | { readonly _tag: "Fail"; readonly exceeded: BudgetExceeded }

export const border = (exceeded: BudgetExceeded | undefined, onExceeded: OnExceeded): Border => {
  if (exceeded === undefined) return { _tag: "Ask" }
  switch (onExceeded) {
    case "fail":
      return { _tag: "Fail", exceeded }
    case "pause":
      return { _tag: "Pause", exceeded }
    case "last-turn":
      return { _tag: "Conclude", exceeded }
  }
}
