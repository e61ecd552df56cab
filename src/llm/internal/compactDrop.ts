/*
 * Leaving out the oldest part of a transcript.
 */
import * as Prompt from "effect/ai/Prompt"
import type { CompactionState, Unit } from "../CompactionStrategy.ts"
import { marked, markOfUnit, messagesOf } from "./compactUnits.ts"

/**
 * Stands where a transcript would otherwise begin with a response: providers
 * want a user message first. One object, so that it does not change from request
 * to request.
 */
const NOTE: Unit = {
  kind: "user",
  messages: [
    Prompt.makeMessage("user", {
      content: [Prompt.makePart("text", { text: "[Earlier messages were left out to make room.]" })],
      options: marked("note")
    })
  ],
  isKept: false
}

/** Drops what need not be kept, oldest first, until the rest fits; `undefined` if there is nothing to drop. */
export const dropOldest = (state: CompactionState): ReadonlyArray<Prompt.Message> | undefined => {
  let excess = state.tokens(state.messages) - state.target
  if (excess <= 0) return undefined
  const dropped = new Set<Unit>()
  for (const unit of inOrder(state.units)) {
    if (excess <= 0) break
    dropped.add(unit)
    excess -= state.tokens(unit.messages)
  }
  return dropped.size === 0 ? undefined : messagesOf(state.units.filter((unit) => !dropped.has(unit)))
}

/** What may go, in the order it goes: a summary is worth more than what it does not yet tell of. */
const inOrder = (units: ReadonlyArray<Unit>): ReadonlyArray<Unit> => {
  const droppable = units.filter((unit) => !unit.isKept && markOfUnit(unit) !== "note")
  return [
    ...droppable.filter((unit) => markOfUnit(unit) !== "summary"),
    ...droppable.filter((unit) => markOfUnit(unit) === "summary")
  ]
}

/** With a note where the conversation would begin with a response, and none where it does not. */
export const withNote = (units: ReadonlyArray<Unit>): ReadonlyArray<Unit> => {
  const rest = units.filter((unit) => markOfUnit(unit) !== "note")
  const first = rest.findIndex((unit) => unit.kind !== "system")
  if (rest[first]?.kind !== "turn") return rest
  return rest.toSpliced(first, 0, units.find((unit) => markOfUnit(unit) === "note") ?? NOTE)
}
