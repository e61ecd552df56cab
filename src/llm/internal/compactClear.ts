/*
 * Replacing old tool results by a word about them.
 */
import * as Prompt from "effect/ai/Prompt"
import { excerpt } from "../../internal/text.ts"
import type { ClearedResult, ClearToolResultsOptions, CompactionState, Unit } from "../CompactionStrategy.ts"
import { tokensPerCall } from "../TokenEstimate.ts"
import { tokensOfText } from "./compactText.ts"
import { marked, markOf, messagesOf } from "./compactUnits.ts"

/** A result that comes to less is not worth clearing: the marker takes room too. */
const MIN_TOKENS = 100

/** Clears results, oldest first, until the rest fits; `undefined` if there is nothing to clear. */
export const clearResults = (
  state: CompactionState,
  options: ClearToolResultsOptions
): ReadonlyArray<Prompt.Message> | undefined => {
  let excess = state.tokens(state.messages) - state.target
  if (excess <= 0) return undefined
  const clearable = clearableIn(state.units, options)
  if (clearable.size === 0) return undefined
  let hasCleared = false
  const units = state.units.map((unit): Unit => {
    if (unit.isKept || excess <= 0) return unit
    const messages = unit.messages.map((message) => {
      if (excess <= 0 || message.role !== "tool" || !message.content.some((part) => clearable.has(part))) return message
      const cleared = Prompt.makeMessage("tool", {
        content: message.content.map((part) =>
          part.type === "tool-result" && clearable.has(part) ? clear(part, options.marker ?? defaultMarker) : part
        ),
        options: message.options
      })
      excess -= state.tokens([message]) - state.tokens([cleared])
      hasCleared = true
      return cleared
    })
    return { ...unit, messages }
  })
  return hasCleared ? messagesOf(units) : undefined
}

/** The results that may go: not the last ones, not those of tools that keep theirs, and none that is small. */
const clearableIn = (
  units: ReadonlyArray<Unit>,
  { except = [], keepLast = 0, only }: ClearToolResultsOptions
): ReadonlySet<Prompt.ToolMessagePart> => {
  const results = units.flatMap((unit) =>
    unit.isKept ? [] : unit.messages.flatMap((message) => message.role === "tool" ? message.content : [])
  )
  const last = keepLast > 0 ? results.slice(-keepLast) : []
  return new Set(
    results.filter((part) =>
      part.type === "tool-result" && !last.includes(part) && markOf(part) !== "cleared" &&
      (only === undefined || only.includes(part.name)) && !except.includes(part.name) &&
      shownTokens(part) >= MIN_TOKENS
    )
  )
}

const shownTokens = (part: Prompt.ToolResultPart): number => tokensOfText(shownText(part)) + tokensPerCall

/** What the model was told, as text; files by their kind. */
export const shownText = ({ modelOutput, result }: Prompt.ToolResultPart): string =>
  modelOutput === undefined
    ? typeof result === "string" ? result : JSON.stringify(result) ?? ""
    : Prompt.toolModelOutputToText(modelOutput)

const clear = (part: Prompt.ToolResultPart, marker: (cleared: ClearedResult) => string): Prompt.ToolResultPart => {
  const text = shownText(part)
  return Prompt.makePart("tool-result", {
    id: part.id,
    name: part.name,
    isFailure: part.isFailure,
    providerExecuted: part.providerExecuted,
    result: marker({ toolName: part.name, isFailure: part.isFailure, text, handle: handleOf(part) }),
    options: { ...part.options, ...marked("cleared") }
  })
}

/** How a result that went to the `ResultStore` names its handle, at the end of what the model was shown. */
const HANDLE = /\bstored as (res_[0-9a-f]{24})\b/g

const handleOf = (part: Prompt.ToolResultPart): string | undefined =>
  Array.from(shownText(part).matchAll(HANDLE)).at(-1)?.[1]

/** How much of a failure is left: it is short as a rule, and says what not to do again. */
const MAX_FAILURE_CHARACTERS = 200

/** Says that something was there, how much, and how to come by it again. */
const defaultMarker = ({ handle, isFailure, text }: ClearedResult): string => {
  const failure = isFailure ? ` It was a failure: ${excerpt(text, MAX_FAILURE_CHARACTERS)}` : ""
  return handle === undefined
    ? `[A result of ${text.length} characters was cleared to make room. Call the tool again if it is needed.${failure}]`
    : `[A result was cleared to make room. The whole of it is stored as ${handle} and can be read again.${failure}]`
}
