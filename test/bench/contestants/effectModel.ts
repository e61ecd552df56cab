/**
 * Two `LanguageModel`s of effect/ai that follow a script without a network.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { callsOf, deltasOf, type Script, TOOL } from "../script.ts"

/** As effect/ai has models made: it decodes each answer by the tools of its request. */
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

/** What is left without that, as in agcore's OpenAI layer for callers who check tool calls themselves. */
export const handingOver = (script: Script): Layer.Layer<LanguageModel.LanguageModel> => {
  const answers = Array.from({ length: script.turns }, (_, turn) => partsOf(script, turn).map(toPart))
  let count = 0
  const generateText = () => Effect.sync(() => new LanguageModel.GenerateTextResponse(answers[count++ % script.turns]!))
  return Layer.effect(
    LanguageModel.LanguageModel,
    Effect.map(
      LanguageModel.make({
        generateText: () => Effect.die("not asked"),
        streamText: () => Stream.die("only whole answers are asked for in memory")
      }),
      // Which parts there are depends on the toolkit by its type, and on the script in truth.
      (model) => ({ ...model, generateText: generateText as unknown as typeof model.generateText })
    )
  )
}

const toPart = (part: Response.PartEncoded) =>
  (part.type === "finish"
    ? Response.makePart("finish", { ...part, usage: new Response.Usage(part.usage) })
    // Only parts of the script come here.
    : Response.makePart(part.type, part)) as Response.Part<Record<string, Tool.Any>>

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
