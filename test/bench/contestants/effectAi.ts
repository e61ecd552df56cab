/**
 * A loop by hand over effect/ai: a `Chat` that resolves its toolkit, asked until there are no calls.
 *
 * No provider package of effect/ai can be installed beside effect 4.1 (the newest import paths of the beta that are gone), so
 * the model is agcore's OpenAI layer, used as any other `LanguageModel`, over the same transport as in agcore's contestant.
 */
import { HttpTransport, OpenAiModel } from "agcore/openai"
import * as Chat from "effect/ai/Chat"
import * as AiTool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as http from "node:http"
import * as https from "node:https"
import type { ModelContestant, Setup } from "../rows/conversation.ts"
import { definitionsOf, PROMPT, TOOL } from "../script.ts"
import { inMemory } from "./effectModel.ts"

const Add = AiTool.make(TOOL, {
  description: "Adds two numbers and the length of a note",
  parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite, note: Schema.String }),
  success: Schema.Finite
})

const toolkitOf = ({ script, sink }: Setup) => {
  const more = definitionsOf(script.tools).slice(1).map(({ description, name, parameters }) =>
    AiTool.dynamic(name, { description, parameters: { ...parameters } })
  )
  // The names of the others are known at run time only; they need no handler, for nobody calls them.
  const toolkit = Toolkit.make(Add, ...more) as unknown as Toolkit.Toolkit<{ readonly [TOOL]: typeof Add }>
  return Effect.provide(toolkit, toolkit.toLayer({ [TOOL]: (args) => Effect.sync(() => sink.add(args)) }))
}

const runtimeOf = ({ baseUrl, model, script }: Setup) =>
  ManagedRuntime.make(
    Layer.mergeAll(
      baseUrl === undefined
        ? inMemory(script)
        : OpenAiModel.layer({ model, baseUrl, transport: HttpTransport.fromNode({ http, https }) })
    )
  )

export const plain: ModelContestant["plain"] = async (setup) => {
  const runtime = runtimeOf(setup)
  const toolkit = await runtime.runPromise(toolkitOf(setup))
  const conversation = Effect.gen(function*() {
    const chat = yield* Chat.fromPrompt(PROMPT)
    for (;;) {
      const response = yield* chat.generateText({ prompt: [], toolkit })
      if (response.toolCalls.length === 0) return response.text
    }
  })
  return () => runtime.runPromise(conversation)
}

export const streamed: ModelContestant["streamed"] = async (setup) => {
  const { script, sink } = setup
  const runtime = runtimeOf(setup)
  const toolkit = await runtime.runPromise(toolkitOf(setup))
  const conversation = Effect.gen(function*() {
    const chat = yield* Chat.fromPrompt(PROMPT)
    for (;;) {
      let text = ""
      let calls = 0
      const parts = script.tools === 0 ? chat.streamText({ prompt: [] }) : chat.streamText({ prompt: [], toolkit })
      yield* Stream.runForEachArray(parts, (parts) =>
        Effect.sync(() => {
          for (const part of parts) {
            if (part.type === "text-delta") {
              text += part.delta
              sink.delta(part.delta)
            }
            if (part.type === "tool-call") calls++
          }
        }))
      if (calls === 0) return text
    }
  })
  return () => runtime.runPromise(conversation)
}
