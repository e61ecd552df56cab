/*
 * What follows from a response. The one place that knows which finish reasons
 * mean what.
 */
import type * as Response from "effect/ai/Response"
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

/** Finish reasons of a response that is whole; many servers say `stop` where there are calls. */
const COMPLETE: ReadonlySet<Response.FinishReason> = new Set(["tool-calls", "stop", "other"])

/** Finish reasons of an answer that may be shown, although not always whole. */
const ANSWER: ReadonlySet<Response.FinishReason> = new Set([...COMPLETE, "length", "content-filter"])

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
  if (!hasCalls && ANSWER.has(finishReason)) return { _tag: "Done" }
  const goesOn = hasCalls ? COMPLETE.has(finishReason) : finishReason === "pause"
  if (!goesOn) return { _tag: "Fail", reason: new IncompleteResponse({ finishReason }), why: "incomplete" }
  if (turn >= maxTurns) return { _tag: "Fail", reason: new MaxTurnsExceeded({ maxTurns }), why: "turnLimit" }
  if (budget !== undefined && usedTokens >= budget) {
    return { _tag: "Fail", reason: new BudgetExceeded({ budget, used: usedTokens }), why: "budget" }
  }
  return { _tag: hasCalls ? "RunCalls" : "AskAgain" }
}
