/*
 * A transcript in the parts a compaction may not divide, and which of them have
 * to stay.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Predicate from "effect/Predicate"
import type { Pin, Unit } from "../CompactionStrategy.ts"

// =============================================================================
// Marks
// =============================================================================

/** What a compaction has put in place of something. */
type Mark = "summary" | "note" | "cleared"

/** Marks travel in the options of a message or part, under a name of our own, so they survive being stored. */
const OWNER = "agcore"

export const marked = (mark: Mark): Prompt.ProviderOptions => ({ [OWNER]: { compaction: mark } })

export const markOf = (it: { readonly options: Prompt.ProviderOptions }): Mark | undefined => {
  const own = it.options[OWNER]
  const mark = Predicate.isObject(own) && "compaction" in own ? own.compaction : undefined
  return mark === "summary" || mark === "note" || mark === "cleared" ? mark : undefined
}

const isMade = (message: Prompt.Message): boolean => markOf(message) === "summary" || markOf(message) === "note"

// =============================================================================
// Units
// =============================================================================

export interface Keeping {
  readonly keepTurns: number
  readonly pin: Pin
}

/** What a person said, not what a compaction wrote in their place. */
const isFromUser = (message: Prompt.Message): boolean => message.role === "user" && !isMade(message)

export const isFirstFromUser: Pin = (message, index, messages) =>
  isFromUser(message) && messages.findIndex(isFromUser) === index

/** Splits a transcript in which calls are followed by their results. */
export const unitsOf = (
  messages: ReadonlyArray<Prompt.Message>,
  { keepTurns, pin }: Keeping
): ReadonlyArray<Unit> => {
  const drafts: Array<{ kind: Unit["kind"]; messages: Array<Prompt.Message>; isKept: boolean }> = []
  const lastFromUser = messages.findLastIndex(isFromUser)
  messages.forEach((message, index) => {
    const isKept = message.role === "system" || index === lastFromUser || pin(message, index, messages)
    const last = drafts.at(-1)
    if (message.role === "tool" && last?.kind === "turn") {
      last.messages.push(message)
      last.isKept ||= isKept
      return
    }
    const kind = message.role === "system" ? "system" : message.role === "user" ? "user" : "turn"
    drafts.push({ kind, messages: [message], isKept })
  })
  // The last turns stay whole, with what was asked before them and whatever stands between and behind them.
  let turns = 0
  for (const draft of drafts.toReversed()) {
    if (draft.kind !== "user" && turns >= keepTurns) break
    if (draft.kind === "turn") turns++
    if (!draft.messages.every(isMade)) draft.isKept = true
  }
  return drafts
}

export const messagesOf = (units: ReadonlyArray<Unit>): ReadonlyArray<Prompt.Message> =>
  units.flatMap((unit) => unit.messages)

export const markOfUnit = (unit: Unit): Mark | undefined => {
  const [first] = unit.messages
  return first === undefined ? undefined : markOf(first)
}
