/*
 * A cycle over `agcore/openai` and a real server that answers as it is told.
 */
import { type CycleConfig, LlmCycle, PermissionPolicy, type Tool, ToolRegistry } from "agcore"
import { OpenAiModel } from "agcore/openai"
import { Effect, type Scope } from "effect"
import { LanguageModel } from "effect/ai"
import { chunk, event, events, json, type ModelServer, type Respond, serve } from "../openai/support.ts"

export interface Said {
  readonly text?: string
  readonly calls?: ReadonlyArray<{ readonly name: string; readonly arguments: string }>
  readonly finish?: string
}

/** A sound answer, whole or streamed, as it was asked for. */
export const says =
  ({ calls = [], finish = calls.length > 0 ? "tool_calls" : "stop", text = "" }: Said): Respond =>
  (response, received) => {
    const toolCalls = calls.map(({ arguments: args, name }, index) => ({
      index,
      id: `call_${index}`,
      type: "function",
      function: { name, arguments: args }
    }))
    const respond = received.body["stream"] === true
      ? events([
        chunk({ role: "assistant", content: text }),
        ...toolCalls.map((call) => chunk({ tool_calls: [call] })),
        chunk({}, finish),
        event("[DONE]")
      ])
      : json({
        id: "c1",
        created: 1,
        model: "m",
        choices: [{
          index: 0,
          finish_reason: finish,
          message: {
            role: "assistant",
            content: text,
            ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : undefined)
          }
        }]
      })
    respond(response, received)
  }

/** Answers by a list, one after the other; when it is used up, all is well. */
export const inOrder = (...responds: ReadonlyArray<Respond>): Respond => {
  let next = 0
  return (response, received) => (responds[next++] ?? says({ text: "all is well" }))(response, received)
}

export const makeHttpCycle = Effect.fnUntraced(function*(options: {
  readonly respond: Respond
  readonly model?: Partial<OpenAiModel.Options>
  readonly tools?: ReadonlyArray<Tool.Tool>
  readonly config?: CycleConfig.CycleConfig
}): Effect.fn.Return<
  { readonly cycle: LlmCycle.LlmCycle["Service"]; readonly server: ModelServer },
  never,
  Scope.Scope
> {
  const server = yield* serve(options.respond)
  const registry = yield* ToolRegistry.make.pipe(
    Effect.tap((registry) => Effect.orDie(registry.registerAll(options.tools ?? []))),
    Effect.provide(PermissionPolicy.layerAllowAll)
  )
  const cycle = yield* LlmCycle.make(options.config).pipe(
    Effect.provideServiceEffect(
      LanguageModel.LanguageModel,
      OpenAiModel.make({ model: "m", baseUrl: server.baseUrl, ...options.model })
    ),
    Effect.provideService(ToolRegistry.ToolRegistry, registry)
  )
  return { cycle, server }
})
