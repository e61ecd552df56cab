/*
 * When a submit ends before the model says so, and how a model that goes in
 * circles is found.
 */
import { assert, describe, it } from "@effect/vitest"
import { type CycleConfig, Pricing, Question, StopCondition, ToolError, ToolInvocation, ToolOutput } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Effect } from "effect"
import { Model, Prompt, Response } from "effect/ai"
import { succeed, tool } from "../tools/support.ts"
import { callsOf, drivers, makeCycle, reasonOf } from "./support.ts"

const { calls, text } = ScriptedModel

const invocation = (toolName: string, isFailure = false): ToolInvocation.ToolInvocation =>
  isFailure
    ? ToolInvocation.failed({ id: "1", name: toolName, params: {} }, new ToolError.NotExecuted({ why: "busy" }))
    : new ToolInvocation.ToolInvocation({
      toolCallId: "1",
      toolName,
      turn: 1,
      index: 0,
      input: {},
      output: null,
      result: null,
      truncated: false,
      durationMillis: 0
    })

const state = (known: Partial<CycleConfig.TurnState>): CycleConfig.TurnState => ({
  turn: 1,
  messages: [],
  usage: new Response.Usage({ inputTokens: {}, outputTokens: {} }),
  invocations: [],
  tokens: 0,
  cost: 0,
  repetition: undefined,
  ...known
})

describe("a stop condition", () => {
  const { all, any, cost, hasToolCall, not, repeatedCalls, tokens, turns } = StopCondition

  it("counts from its number on", () => {
    const cases: ReadonlyArray<readonly [StopCondition.StopCondition, CycleConfig.TurnState, boolean]> = [
      [turns(3), state({ turn: 2 }), false],
      [turns(3), state({ turn: 3 }), true],
      [tokens(100), state({ tokens: 99 }), false],
      [tokens(100), state({ tokens: 100 }), true],
      [cost(1), state({ cost: 0.99 }), false],
      [cost(1), state({ cost: 1 }), true],
      [repeatedCalls(3), state({}), false],
      [repeatedCalls(3), state({ repetition: { toolName: "look", count: 2 } }), false],
      [repeatedCalls(3), state({ repetition: { toolName: "look", count: 3 } }), true]
    ]
    for (const [condition, given, expected] of cases) assert.strictEqual(condition(given), expected)
  })

  // verifies: stop.mistake
  it("stops at once for a number that is none, and for a cost that is not known", () => {
    for (const make of [turns, tokens, cost]) assert.isTrue(make(NaN)(state({})))
    assert.isTrue(repeatedCalls(NaN)(state({ repetition: { toolName: "look", count: 1 } })))
    assert.isTrue(cost(1_000)(state({ cost: undefined })))
    for (const make of [turns, tokens, cost]) assert.isFalse(make(Infinity)(state({})))
  })

  it("looks for calls that have not failed", () => {
    const holds = (...invocations: ReadonlyArray<ToolInvocation.ToolInvocation>) =>
      hasToolCall("finish", "give_up")(state({ invocations }))
    assert.isFalse(holds())
    assert.isFalse(holds(invocation("look")))
    assert.isFalse(holds(invocation("finish", true)))
    assert.isTrue(holds(invocation("finish", true), invocation("give_up"), invocation("look")))
  })

  // verifies: stop.combined
  it("is combined with others, and with functions of one's own", () => {
    const yes = () => true
    const no = () => false
    const cases: ReadonlyArray<readonly [StopCondition.StopCondition, boolean]> = [
      [any(no, yes), true],
      [any(no, no), false],
      [any(), false],
      [all(yes, yes), true],
      [all(yes, no), false],
      // Nothing was asked for, so nothing ends.
      [all(), false],
      [not(yes), false],
      [not(any(no, all(yes, no))), true],
      [all(turns(1), ({ messages }) => messages.length === 0), true]
    ]
    for (const [condition, expected] of cases) assert.strictEqual(condition(state({})), expected)
  })
})

for (const { name, submit } of drivers) {
  describe(name, () => {
    const usage = { input: 30, output: 20 }

    // verifies: stop.conditions
    it.effect("ends with the turn in which a condition holds", () =>
      Effect.gen(function*() {
        const cases: ReadonlyArray<readonly [StopCondition.StopCondition, number]> = [
          [StopCondition.turns(3), 3],
          [StopCondition.tokens(200), 4],
          [StopCondition.cost(0.001), 2],
          [StopCondition.hasToolCall("finish"), 5],
          [StopCondition.repeatedCalls(3), 3],
          [StopCondition.any(StopCondition.turns(4), StopCondition.tokens(100)), 2],
          [StopCondition.not(({ turn }) => turn < 2), 2]
        ]
        for (const [stopWhen, turns] of cases) {
          const { check, cycle } = yield* makeCycle({
            tools: [succeed("look"), succeed("finish")],
            config: {
              stopWhen,
              pricing: Pricing.make({ currency: "EUR", models: { parrot: { input: 10, output: 15 } } })
            },
            script: (_, count) => ({ ...callsOf(count === 5 ? "finish" : "look"), usage, text: `turn ${count}` })
          }).pipe(Effect.provideService(Model.ModelName, "parrot"))
          const result = yield* submit(cycle, "go")
          assert.deepStrictEqual([result.turns, result.text, result.reason], [turns, `turn ${turns}`, "tool-calls"])
          yield* check
        }
      }))

    it.effect("counts tokens that the provider does not", () =>
      Effect.gen(function*() {
        const { cycle } = yield* makeCycle({
          tools: [succeed("look", "word ".repeat(400))],
          config: { stopWhen: StopCondition.tokens(2_000), maxTurns: 100 },
          script: () => callsOf("look")
        })
        assert.isBelow((yield* submit(cycle, "go")).turns, 10)
      }))

    // verifies: stop.repeated
    it.effect("fails when the same call has the same result in ten turns", () =>
      Effect.gen(function*() {
        const { check, cycle } = yield* makeCycle({
          tools: [succeed("look", { seen: ["a", { b: 1 }] })],
          config: { maxTurns: 100 },
          // The order of properties makes no other call.
          script: (_, count) =>
            calls({ name: "look", params: count % 2 === 0 ? { x: 1, y: { z: 2, q: 3 } } : { y: { q: 3, z: 2 }, x: 1 } })
        })
        const error = yield* Effect.flip(submit(cycle, "go"))
        assert.deepInclude(error.reason, { _tag: "RepeatedCalls", toolName: "look", count: 10 })
        assert.strictEqual(
          error.message,
          "tool \"look\" was called in 10 turns with the same arguments and the same result"
        )
        assert.strictEqual(error.turns, 10)
        assert.isTrue(error.invocations.every((each) => !each.isFailure))
        yield* check
      }))

    it.effect("finds circles of several calls, and calls that are refused again and again", () =>
      Effect.gen(function*() {
        const circle = yield* makeCycle({
          tools: [succeed("a"), succeed("b"), succeed("c")],
          config: { maxTurns: 100, repeatedCalls: 4 },
          script: (_, count) => callsOf(["a", "b", "c"][count % 3]!)
        })
        assert.strictEqual((yield* reasonOf(submit(circle.cycle, "go")))._tag, "RepeatedCalls")
        assert.lengthOf(yield* circle.requests, 12)

        const refused = yield* makeCycle({
          tools: [tool("look", () => Effect.succeed("x"), {
            inputSchema: { type: "object", required: ["path"] }
          })],
          config: { maxTurns: 100, repeatedCalls: 4 },
          script: () => callsOf("look")
        })
        assert.deepInclude(yield* reasonOf(submit(refused.cycle, "go")), { _tag: "RepeatedCalls", count: 4 })
      }))

    // verifies: stop.progress
    it.effect("lets a call be repeated that has another result, or with something new between", () =>
      Effect.gen(function*() {
        let looked = 0
        const many = 30
        const cases: ReadonlyArray<(count: number) => ScriptedModel.ScriptedTurn> = [
          // A job that is asked how far it is.
          () => callsOf("progress"),
          // Tests after each edit.
          (count) => calls(count % 2 === 0 ? { name: "test", params: {} } : { name: "edit", params: { count } }),
          // Beside something new.
          (count) => calls({ name: "test", params: {} }, { name: "edit", params: { count } })
        ]
        for (const next of cases) {
          const { cycle } = yield* makeCycle({
            tools: [
              tool("progress", () => Effect.sync(() => ++looked)),
              succeed("test", "failed"),
              succeed("edit")
            ],
            config: { maxTurns: 100 },
            script: (_, count) => count > many ? text("done") : next(count)
          })
          assert.strictEqual((yield* submit(cycle, "go")).turns, many + 1)
        }
      }))

    it.effect("counts turns, not calls beside each other", () =>
      Effect.gen(function*() {
        const { cycle } = yield* makeCycle({
          tools: [succeed("next")],
          config: { repeatedCalls: 3 },
          script: (_, count) => count > 2 ? text("done") : callsOf("next", "next", "next", "next")
        })
        assert.strictEqual((yield* submit(cycle, "go")).text, "done")
      }))

    it.effect("tells pictures apart that are shown with the same result", () =>
      Effect.gen(function*() {
        let shots = 0
        const shoot = (isNew: boolean) =>
          tool("shoot", () =>
            Effect.sync(() =>
              ToolOutput.final("ok", {
                modelOutput: [Prompt.makePart("file", {
                  mediaType: "image/png",
                  data: new Uint8Array([1, 2, isNew ? shots++ : 3])
                })]
              })
            ))
        for (const isNew of [true, false]) {
          const { cycle } = yield* makeCycle({
            tools: [shoot(isNew)],
            config: { maxTurns: 100, repeatedCalls: 4 },
            script: (_, count) => count > 8 ? text("done") : callsOf("shoot")
          })
          const tag = yield* submit(cycle, "go").pipe(
            Effect.match({ onSuccess: ({ text }) => text, onFailure: ({ reason }) => reason._tag })
          )
          assert.strictEqual(tag, isNew ? "done" : "RepeatedCalls")
        }
      }))

    it.effect("can be told how often, and never", () =>
      Effect.gen(function*() {
        const run = Effect.fnUntraced(function*(repeatedCalls: number) {
          const { cycle } = yield* makeCycle({
            tools: [succeed("look")],
            config: { maxTurns: 30, repeatedCalls },
            script: () => callsOf("look")
          })
          const error = yield* Effect.flip(submit(cycle, "go"))
          return [error.reason._tag, error.turns]
        })
        assert.deepStrictEqual(yield* run(2), ["RepeatedCalls", 2])
        assert.deepStrictEqual(yield* run(1), ["RepeatedCalls", 1])
        assert.deepStrictEqual(yield* run(Infinity), ["MaxTurnsExceeded", 30])
        assert.deepStrictEqual(yield* run(NaN), ["InvalidLimit", 0])
        assert.deepStrictEqual(yield* run(-1), ["InvalidLimit", 0])
      }))

    it.effect("stands what nests too deep to be compared", () =>
      Effect.gen(function*() {
        const deep = `${"[".repeat(1_000)}1${"]".repeat(1_000)}`
        const { cycle } = yield* makeCycle({
          tools: [succeed("look")],
          config: { maxTurns: 12, repeatedCalls: 2 },
          script: () => calls({ name: "look", params: { deep: JSON.parse(deep) } })
        })
        assert.strictEqual((yield* reasonOf(submit(cycle, "go")))._tag, "MaxTurnsExceeded")
      }))
  })
}

describe("repeated calls", () => {
  it.effect("count over an approval that comes later", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [tool("look", () => Effect.succeed("seen"), { needsApproval: true })],
        config: { repeatedCalls: 3 },
        script: () => callsOf("look")
      })
      const approve = Effect.map(cycle.pending, (pending) => pending.map((question) => Question.approve(question)))
      assert.strictEqual((yield* cycle.submitWithTools("go")).finishReason, "awaiting-input")
      assert.strictEqual((yield* cycle.resume(yield* approve)).finishReason, "awaiting-input")
      assert.strictEqual((yield* cycle.resume(yield* approve)).finishReason, "awaiting-input")
      assert.deepInclude(yield* reasonOf(cycle.resume(yield* approve)), { _tag: "RepeatedCalls", count: 3 })
    }))
})
