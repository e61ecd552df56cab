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
 * The rest is repaired where it has come apart, and left as it is where it has not.
 */
export const check = (units: ReadonlyArray<Unit>, after: ReadonlyArray<Prompt.Message>): Checked => {
  const unsound = (why: string): Checked => ({ _tag: "Unsound", why })
  const messages = repair(after)
  let position = 0
  for (const message of messagesOf(units.filter((unit) => unit.isKept))) {
    position = messages.indexOf(message, position) + 1
    if (position === 0) return unsound(`a ${message.role} message that has to be kept is gone or out of order`)
  }
  const ids = new Set<string>()
  for (const id of messages.flatMap(callIds)) {
    if (ids.has(id)) return unsound(`the call "${id}" stands there twice`)
    ids.add(id)
  }
  return { _tag: "Sound", messages }
}

const callIds = (message: Prompt.Message): ReadonlyArray<string> =>
  message.role === "assistant" ? message.content.flatMap((part) => isCall(part) ? [part.id] : []) : []

const isCall = (part: Prompt.AssistantMessagePart): part is Prompt.ToolCallPart =>
  part.type === "tool-call" && !part.providerExecuted

const repair = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const repaired: Array<Prompt.Message> = []
  for (let start = 0; start < messages.length;) {
    let end = start + 1
    while (messages[end]?.role === "tool") end++
    repaired.push(...repairPart(messages.slice(start, end)))
    start = end
  }
  return repaired
}

/** A message with the results that follow it. What is as it should be stays the same object. */
const repairPart = (part: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const [first, results, ...more] = part
  if (first === undefined || first.role === "tool") return []
  if (first.role !== "assistant") return [first]
  const calls = callIds(first)
  const isClean = first.content.length > 0 &&
    !first.content.some((part) => part.type === "tool-approval-request" || isOwnResult(part))
  if (isClean && calls.length === 0) return [first]
  const isAnswered = results?.role === "tool" && more.length === 0 && results.content.length === calls.length &&
    results.content.every((part, index) => part.type === "tool-result" && part.id === calls[index])
  return isClean && isAnswered ? part : History.messages(History.fromMessages(part))
}

const isOwnResult = (part: Prompt.AssistantMessagePart): boolean =>
  part.type === "tool-result" && !part.providerExecuted
