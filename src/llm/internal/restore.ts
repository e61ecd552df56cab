/*
 * Goes on with a conversation from what was kept of it.
 */
import * as History from "../History.ts"
import type { SavedCycle } from "../SavedCycle.ts"
import * as Budget from "./budget.ts"
import { type Conversation, makeSubmit } from "./conversation.ts"
import { INTERRUPTED } from "./running.ts"
import { makeTally } from "./usage.ts"

/** Calls that were running when it was kept may have taken effect, so they are not run again. */
export const restore = (conversation: Conversation, saved: SavedCycle): void => {
  let history = History.reopen(History.fromMessages(saved.messages, saved.turns))
  for (const index of saved.running) history = History.settle(history, index, INTERRUPTED)
  conversation.history = history
  conversation.tally = makeTally(saved.usage)
  conversation.account = Budget.makeAccount({
    limits: Budget.NO_LIMITS,
    pricing: conversation.config.pricing,
    spent: saved.spent
  })
  // A question about a call that is not there cannot be answered, nor two about the same one, nor any without a submit.
  conversation.pending = saved.submit === undefined ?
    [] :
    saved.pending.filter(({ index, turn }, position) =>
      turn === history.turns && History.openCalls(history)[index] !== undefined &&
      saved.pending.findIndex((question) => question.index === index) === position
    )
  conversation.submit = saved.submit === undefined
    ? undefined
    : makeSubmit(conversation, saved.submit.withTools, saved.submit)
}
