/**
 * A `LanguageModel` of effect/ai that follows a script without a network.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { callsOf, deltasOf, type Script, TOOL } from "../script.ts"

export const inMemory = (script: Script): Layer.Layer<LanguageModel.LanguageModel> => {
  const answers = Array.from({ length: script.turns }, (_, turn) => partsOf(script, turn))
  let count = 0
  return Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: () => Effect.sync(() => answers[count++ % script.turns]!),
      streamText: () => Stream.die("only whole answers are asked for in memory")
    })
  )
}

const partsOf = (script: Script, turn: number): Array<Response.PartEncoded> => {
  const calls = callsOf(script, turn)
  return [
    ...(calls.length === 0 ? [{ type: "text", text: deltasOf(script).join("") } as const] : []),
    ...calls.map(({ arguments: params, id }) => ({ type: "tool-call", id, name: TOOL, params } as const)),
    {
      type: "finish",
      reason: calls.length === 0 ? "stop" : "tool-calls",
      usage: { inputTokens: { total: 100 }, outputTokens: { total: 20 } },
      response: undefined
    }
  ]
}
