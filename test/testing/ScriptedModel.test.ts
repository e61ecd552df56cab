import { assert, describe, it } from "@effect/vitest"
import { ScriptedModel } from "agcore/testing"
import { Deferred, Effect, Exit, Fiber, Schema, Stream } from "effect"
import { AiError, LanguageModel, Tool, Toolkit } from "effect/ai"

const Look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(Look)

const request = {
  prompt: "go",
  toolkit,
  disableToolCallResolution: true,
  toolCallValidation: "deferred"
} as const

const failure = AiError.make({ module: "Test", method: "test", reason: new AiError.RateLimitError({}) })

describe("ScriptedModel", () => {
  it.effect("answers in order, whole", () =>
    Effect.gen(function*() {
      const { model, requests } = yield* ScriptedModel.make([
        {
          reasoning: "Hm.",
          text: "Let me look.",
          calls: [{ name: "look", params: { at: "it" } }, { id: "own", name: "other", params: "no JSON" }],
          usage: { input: 5, output: 7 }
        },
        ScriptedModel.text("Seen.")
      ])
      const first = yield* model.generateText(request)
      assert.deepStrictEqual(
        first.content.map((part) => part.type),
        ["reasoning", "text", "tool-call", "tool-call", "finish"]
      )
      assert.deepStrictEqual(first.toolCalls.map(({ id, name, params }) => [id, name, params]), [
        ["call-1-1", "look", { at: "it" }],
        ["own", "other", "no JSON"]
      ])
      assert.deepStrictEqual([first.finishReason, first.usage.inputTokens.total, first.usage.outputTokens.total], [
        "tool-calls",
        5,
        7
      ])
      const second = yield* model.generateText({ prompt: "on" })
      assert.deepStrictEqual([second.text, second.finishReason], ["Seen.", "stop"])
      assert.deepStrictEqual((yield* requests).map(({ tools }) => tools.map(({ name }) => name)), [["look"], []])
    }))

  it.effect("answers in pieces", () =>
    Effect.gen(function*() {
      const { model } = yield* ScriptedModel.make([{
        reasoning: "Hm, well.",
        text: "Let me look.",
        calls: [{ name: "look", params: { at: "it" } }]
      }])
      const parts = yield* Stream.runCollect(model.streamText(request))
      assert.deepStrictEqual(parts.map((part) => "delta" in part ? part.delta : part.type), [
        "reasoning-start",
        "Hm, ",
        "well.",
        "reasoning-end",
        "text-start",
        "Let ",
        "me ",
        "look.",
        "text-end",
        "tool-params-start",
        "{\"at\":\"it\"}",
        "tool-params-end",
        "tool-call",
        "finish"
      ])
    }))

  it.effect("makes responses from requests", () =>
    Effect.gen(function*() {
      const { model } = yield* ScriptedModel.make((request, count) => ({
        text: `${count}: ${request.prompt.content.length}`
      }))
      assert.strictEqual((yield* model.generateText({ prompt: "a" })).text, "1: 1")
      assert.strictEqual((yield* model.generateText({ prompt: "b" })).text, "2: 1")
      const one = yield* ScriptedModel.make([({ prompt }) => ScriptedModel.text(prompt.content[0]!.role)])
      assert.strictEqual((yield* one.model.generateText({ prompt: "a" })).text, "user")
    }))

  it.effect("can leave out why it ends, or say anything else", () =>
    Effect.gen(function*() {
      const { model } = yield* ScriptedModel.make([
        { text: "a", finishReason: null },
        { text: "b", finishReason: "length" },
        { parts: [{ type: "source", sourceType: "url", id: "1", url: "https://example.com", title: "t" }] }
      ])
      assert.strictEqual((yield* model.generateText({ prompt: "a" })).finishReason, "unknown")
      assert.strictEqual((yield* model.generateText({ prompt: "a" })).finishReason, "length")
      const { content } = yield* model.generateText({ prompt: "a" })
      assert.deepStrictEqual(content.map(({ type }) => type), ["source", "finish"])
    }))

  it.effect("fails when it is told to, in a stream after what it has said", () =>
    Effect.gen(function*() {
      const { model } = yield* ScriptedModel.make([{ error: failure }, { text: "so far", error: failure }])
      assert.strictEqual(yield* Effect.flip(model.generateText({ prompt: "a" })), failure)
      const seen: Array<string> = []
      const error = yield* model.streamText({ prompt: "a" }).pipe(
        Stream.runForEach((part) => Effect.sync(() => seen.push(part.type))),
        Effect.flip
      )
      assert.strictEqual(error, failure)
      assert.deepStrictEqual(seen, ["text-start", "text-delta", "text-delta", "text-end"])
    }))

  it.effect("waits before it begins, and can be interrupted there", () =>
    Effect.gen(function*() {
      for (const streams of [false, true]) {
        const asked = yield* Deferred.make<void>()
        const left = yield* Deferred.make<void>()
        const { model } = yield* ScriptedModel.make([{
          text: "late",
          before: Deferred.succeed(asked, undefined).pipe(
            Effect.andThen(Effect.never),
            Effect.onInterrupt(() => Deferred.succeed(left, undefined))
          )
        }])
        const fiber = yield* Effect.forkChild(
          streams ? Stream.runDrain(model.streamText({ prompt: "a" })) : model.generateText({ prompt: "a" })
        )
        yield* Deferred.await(asked)
        yield* Fiber.interrupt(fiber)
        yield* Deferred.await(left)
      }
    }))

  it.effect("that is asked too often is a defect", () =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(LanguageModel.generateText({ prompt: "a" }))
      assert.isTrue(Exit.isFailure(exit) && exit.cause.reasons.every(({ _tag }) => _tag === "Die"))
    }).pipe(Effect.provide(ScriptedModel.layer([]))))
})
