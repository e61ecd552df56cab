/*
 * What follows from a response.
 */
import type * as Response from "effect/ai/Response"
import { isComplete } from "../../internal/finishReason.ts"
import type { NotExecuted } from "../../tools/ToolError.ts"
import { BudgetExceeded, type CycleErrorReason, IncompleteResponse, MaxTurnsExceeded } from "../CycleError.ts"

export type Decision =
  /** It is an answer. */
  | { readonly _tag: "Done" }
  /** The provider paused: ask again. */
  | { readonly _tag: "AskAgain" }
  /** Its calls are to be admitted and run. */
  | { readonly _tag: "RunCalls" }
  /** Its calls, if any, must not run. */
  | { readonly _tag: "Fail"; readonly reason: CycleErrorReason; readonly why: NotExecuted["why"] }

export const decide = (response: {
  readonly hasCalls: boolean
  /** `unknown` where the response did not say. */
  readonly finishReason: Response.FinishReason
  readonly turn: number
  readonly maxTurns: number
  readonly usedTokens: number
  readonly budget: number | undefined
}): Decision => {
  const { budget, finishReason, hasCalls, maxTurns, turn, usedTokens } = response
  if (!hasCalls && isAnswer(finishReason)) return { _tag: "Done" }
  const goesOn = hasCalls ? isComplete(finishReason) : finishReason === "pause"
  if (!goesOn) return { _tag: "Fail", reason: new IncompleteResponse({ finishReason }), why: "incomplete" }
  if (turn >= maxTurns) return { _tag: "Fail", reason: new MaxTurnsExceeded({ maxTurns }), why: "turnLimit" }
  if (budget !== undefined && usedTokens >= budget) {
    return { _tag: "Fail", reason: new BudgetExceeded({ limit: "tokens", budget, used: usedTokens }), why: "budget" }
  }
  return { _tag: hasCalls ? "RunCalls" : "AskAgain" }
}

// It may be shown, although it is not always whole.
const isAnswer = (reason: Response.FinishReason): boolean =>
  isComplete(reason) || reason === "length" || reason === "content-filter"
