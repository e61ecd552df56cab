import { assert, describe, it } from "@effect/vitest"
import { LlmCycle, PermissionPolicy, Tool, ToolRegistry } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Effect, Layer, Schema } from "effect"
import { LanguageModel } from "effect/ai"

class Clock extends Tool.Service<Clock>()("clock", { description: "Tells the time", success: Schema.String }) {}

const Tools = ToolRegistry.layer(Clock).pipe(
  Layer.provide([Clock.layer(() => Effect.succeed("12:00")), PermissionPolicy.layer()])
)

/** A cycle with a tool, and what its model is asked. */
const conversation = Effect.fnUntraced(function*(script: ScriptedModel.Script, history?: Iterable<string>) {
  const { model, requests } = yield* ScriptedModel.make(script)
  const cycle = yield* LlmCycle.make().pipe(
    Effect.provideService(LanguageModel.LanguageModel, model),
    Effect.provide(Tools)
  )
  for (const prompt of history ?? []) yield* cycle.submit(prompt)
  return { cycle, requests }
})

describe("a submit without tools", () => {
  // verifies: cycle.submit
  it.effect("adds the prompt, asks once and offers no tools", () =>
    Effect.gen(function*() {
      const { cycle, requests } = yield* conversation([ScriptedModel.text("Hello!")])
      const response = yield* cycle.submit("Hi")
      assert.deepStrictEqual([response.text, response.turns, response.finishReason], ["Hello!", 1, "stop"])
      assert.deepStrictEqual((yield* cycle.messages).map(({ role }) => role), ["user", "assistant"])
      assert.deepStrictEqual((yield* requests).map(({ tools }) => tools.length), [0])
    }))

  it.effect("runs no call of an answer, and answers each", () =>
    Effect.gen(function*() {
      const { cycle } = yield* conversation([ScriptedModel.calls({ name: "clock", params: {} })])
      const error = yield* Effect.flip(cycle.submit("What time is it?"))
      assert.strictEqual(error.reason._tag, "MaxTurnsExceeded")
      assert.deepStrictEqual((yield* cycle.messages).map(({ role }) => role), ["user", "assistant", "tool"])
      assert.strictEqual(error.invocations[0]?.error?.reason._tag, "NotExecuted")
    }))

  // verifies: cycle.submit-messages
  it.effect("of the messages adds no user message", () =>
    Effect.gen(function*() {
      const { cycle, requests } = yield* conversation([ScriptedModel.text("one"), ScriptedModel.text("two")], ["Hi"])
      assert.strictEqual((yield* cycle.submitMessages).text, "two")
      assert.deepStrictEqual((yield* cycle.messages).map(({ role }) => role), ["user", "assistant", "assistant"])
      const [, second] = yield* requests
      assert.deepStrictEqual(second?.prompt.content.map(({ role }) => role), ["user", "assistant"])
    }))
})

describe("a cycle", () => {
  // verifies: cycle.any-model
  it.effect("runs over any LanguageModel of effect/ai", () =>
    Effect.gen(function*() {
      const model = yield* LanguageModel.make({
        generateText: ({ prompt, tools }) =>
          Effect.succeed(
            prompt.content.some(({ role }) => role === "tool")
              ? [{ type: "text", text: "noon" }, FINISH]
              : [{ type: "tool-call", id: "1", name: tools[0]!.name, params: {} }, FINISH]
          ),
        streamText: () => {
          throw new Error("the plain loop does not stream")
        }
      })
      const cycle = yield* LlmCycle.make().pipe(
        Effect.provideService(LanguageModel.LanguageModel, model),
        Effect.provide(Tools)
      )
      const response = yield* cycle.submitWithTools("What time is it?")
      assert.deepStrictEqual([response.text, response.invocations[0]?.output], ["noon", "12:00"])
    }))
})

const FINISH = {
  type: "finish",
  reason: "stop",
  usage: { inputTokens: {}, outputTokens: {} },
  response: undefined
} as const
