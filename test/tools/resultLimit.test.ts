import { assert, describe, it } from "@effect/vitest"
import { ToolError, type ToolInvocation, ToolOutput, ToolSettings } from "agcore"
import { Effect, Schema } from "effect"
import { Prompt } from "effect/ai"
import { call, registryOf, tool } from "./support.ts"

const bytes = (text: string) => new TextEncoder().encode(text).length

const MARKER = /\n\[truncated: (\d+) more bytes\]$/

const told = (value: Schema.Json, maxResultBytes?: number) =>
  Effect.gen(function*() {
    const registry = yield* registryOf(tool("say", () => Effect.succeed(value)))
    return yield* registry.invoke(call("say"), { maxResultBytes })
  })

const assertCut = ({ result, truncated }: ToolInvocation.ToolInvocation, whole: string, maxBytes: number) => {
  assert.isTrue(truncated)
  assert.isString(result)
  const text = String(result)
  const missing = Number(MARKER.exec(text)?.[1])
  const kept = text.replace(MARKER, "")
  assert.isAtMost(bytes(kept), maxBytes)
  assert.strictEqual(bytes(kept) + missing, bytes(whole))
  // Nothing but whole characters is kept, and no character that had room is lost.
  assert.isTrue(whole.toWellFormed().startsWith(kept))
  const next = Array.from(whole.toWellFormed().slice(kept.length))[0]!
  assert.isAbove(bytes(kept + next), maxBytes)
}

describe("result limit", () => {
  // verifies: invoke.result-limit
  it.effect.prop(
    "cuts between characters and says how much is missing",
    {
      pieces: Schema.Array(Schema.Union([
        Schema.String,
        Schema.Literals(["é", "漢", "🙂", "👩‍👩‍👧", "\ufeff", "\ud83d", "\ude42", "e\u0301", "\u0000", "\n"])
      ])),
      maxBytes: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 }))
    },
    ({ maxBytes, pieces }) =>
      Effect.gen(function*() {
        const text = pieces.join("")
        const invocation = yield* told(text, maxBytes)
        assert.strictEqual(invocation.output, text)
        if (bytes(text) > maxBytes) assertCut(invocation, text, maxBytes)
        else {
          assert.strictEqual(invocation.result, text)
          assert.isFalse(invocation.truncated)
        }
      }),
    { timeout: 30_000 }
  )

  // verifies: invoke.whole-result
  it.effect("cuts JSON as text and keeps the whole value", () =>
    Effect.gen(function*() {
      const value = { list: Array.from({ length: 100 }, (_, i) => `item ${i} 漢字`) }
      const invocation = yield* told(value, 50)
      assertCut(invocation, JSON.stringify(value), 50)
      assert.deepStrictEqual(invocation.output, value)
      assert.deepStrictEqual((yield* told(value, 100_000)).result, value)
    }))

  it.effect("is 64 KiB where nobody says, or what the settings say", () =>
    Effect.gen(function*() {
      assert.isFalse((yield* told("x".repeat(65_536))).truncated)
      assertCut(yield* told("x".repeat(65_537)), "x".repeat(65_537), 65_536)
      assertCut(
        yield* told("x".repeat(11)).pipe(Effect.provideService(ToolSettings.MaxResultBytes, 10)),
        "x".repeat(11),
        10
      )
    }))

  for (const none of [0, -1, -Infinity, Number.NaN]) {
    it.effect(`of ${none} keeps nothing but the marker`, () =>
      Effect.gen(function*() {
        assert.strictEqual((yield* told("abc", none)).result, "\n[truncated: 3 more bytes]")
      }))
  }

  it.effect("of a fraction is rounded down, and may be infinite", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* told("ééé", 3.9)).result, "é\n[truncated: 4 more bytes]")
      assert.isFalse((yield* told("x".repeat(200_000), Infinity)).truncated)
    }))

  it.effect("holds for failures and refusals too", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(
        tool("fails", () =>
          Effect.fail(
            new ToolError.ToolError({
              toolName: "fails",
              reason: new ToolError.ExecutionFailed({ origin: "failure", failure: "漢".repeat(1000) })
            })
          ))
      )
      const [failed, unknown] = yield* registry.invokeAll([call("fails"), call("nobody")], { maxResultBytes: 20 })
      assertCut(failed!, "漢".repeat(1000), 20)
      assertCut(unknown!, "Error: not found; available: fails", 20)
    }))

  it.effect("goes through the text a model is shown, in order, and leaves files whole", () =>
    Effect.gen(function*() {
      const file = Prompt.makePart("file", { mediaType: "image/png", data: "x".repeat(100) })
      const text = (content: string) => Prompt.makePart("text", { text: content })
      const registry = yield* registryOf(
        tool("shows", () =>
          Effect.succeed(ToolOutput.final("short", {
            modelOutput: [text("12345"), file, text("漢字漢字"), text("more")]
          })))
      )
      const invocation = yield* registry.invoke(call("shows"), { maxResultBytes: 12 })
      assert.isTrue(invocation.truncated)
      assert.strictEqual(invocation.result, "short")
      assert.deepStrictEqual(invocation.modelOutput?.map((part) => part.type === "text" ? part.text : part.type), [
        "12345",
        "file",
        "漢字\n[truncated: 6 more bytes]",
        "\n[truncated: 4 more bytes]"
      ])
    }))
})
