/*
 * Whether what a strategy returns may take the place of the transcript.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { Unit } from "../CompactionStrategy.ts"
import * as History from "../History.ts"
import { messagesOf } from "./compactUnits.ts"

/** A transcript to go on with, or why there is none. */
export type Checked =
  | { readonly _tag: "Sound"; readonly messages: ReadonlyArray<Prompt.Message> }
  | { readonly _tag: "Unsound"; readonly why: string }

/**
 * What must be kept has to be there as the same objects, in the same order.
 * The rest is repaired where it has come apart.
 */
export const check = (units: ReadonlyArray<Unit>, after: ReadonlyArray<Prompt.Message>): Checked => {
  const messages = History.messages(History.fromMessages(after))
  let position = 0
  for (const message of messagesOf(units.filter((unit) => unit.isKept))) {
    position = messages.indexOf(message, position) + 1
    if (position === 0) {
      return { _tag: "Unsound", why: `a ${message.role} message that has to be kept is gone or out of order` }
    }
  }
  return { _tag: "Sound", messages }
}
