/**
 * agcore's cycle, over its OpenAI layer with the transport that is meant for Node.
 */
import { LlmCycle, PermissionPolicy, Tool, ToolRegistry } from "agcore"
import { HttpTransport, OpenAiModel } from "agcore/openai"
import type * as LanguageModel from "effect/ai/LanguageModel"
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

class Add extends Tool.Service<Add>()(TOOL, {
  description: "Adds two numbers and the length of a note",
  parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite, note: Schema.String }),
  success: Schema.Finite
}) {}

type Model = Layer.Layer<LanguageModel.LanguageModel>

const runtimeOf = ({ script, sink }: Setup, model: Model) => {
  const more = definitionsOf(script.tools).slice(1).map((definition) =>
    Tool.dynamic({
      name: definition.name,
      description: definition.description,
      inputSchema: { ...definition.parameters },
      handler: () => Effect.die("never called")
    })
  )
  const tools = script.tools === 0 ? ToolRegistry.layer() : ToolRegistry.layer(Add, ...more)
  return ManagedRuntime.make(Layer.mergeAll(
    tools.pipe(Layer.provide([Add.layer((args) => Effect.sync(() => sink.add(args))), PermissionPolicy.layer()])),
    model
  ))
}

export const over = (modelOf: (setup: Setup) => Model): ModelContestant => ({
  plain: async (setup) => {
    const runtime = runtimeOf(setup, modelOf(setup))
    const conversation = Effect.gen(function*() {
      const cycle = yield* LlmCycle.make({ maxTurns: setup.script.turns })
      return (yield* cycle.submitWithTools(PROMPT)).text
    })
    return () => runtime.runPromise(conversation)
  },
  streamed: async (setup) => {
    const runtime = runtimeOf(setup, modelOf(setup))
    const conversation = Effect.gen(function*() {
      const cycle = yield* LlmCycle.make({ maxTurns: setup.script.turns })
      let text = ""
      yield* Stream.runForEachArray(cycle.submitStreamWithTools(PROMPT), (events) =>
        Effect.sync(() => {
          for (const event of events) {
            if (event._tag === "AssistantTextDelta") setup.sink.delta(event.delta)
            if (event._tag === "CycleComplete") text = event.text
          }
        }))
      return text
    })
    return () => runtime.runPromise(conversation)
  }
})

export const sending = (transport: HttpTransport.HttpTransport) => ({ baseUrl, model, script }: Setup): Model =>
  baseUrl === undefined ? inMemory(script) : OpenAiModel.layer({ model, baseUrl, transport })

export const { plain, streamed } = over(sending(HttpTransport.fromNode({ http, https })))
