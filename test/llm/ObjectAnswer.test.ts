import { assert, describe, it } from "@effect/vitest"
import { CycleError, type ObjectResponse, Question } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Cause, Context, Effect, Exit, Schema, SchemaGetter, Stream } from "effect"
import type { Prompt } from "effect/ai"
import { succeed, tool } from "../tools/support.ts"
import { callsOf, type Cycle, makeCycle, outline, reasonOf } from "./support.ts"

const { calls, text } = ScriptedModel

const Weather = Schema.Struct({ at: Schema.Date, degrees: Schema.Finite })

const answer = (params: unknown, name = "final_answer") => calls({ name, params })

const GOOD = { at: "1970-01-01T00:00:00.000Z", degrees: 4 }
const DECODED = { at: new Date(0), degrees: 4 }

type Run = <A, RD = never>(
  cycle: Cycle,
  prompt: Prompt.RawInput,
  options: ObjectResponse.ObjectOptions<A, RD>
) => Effect.Effect<unknown, CycleError.CycleError | Schema.SchemaError, RD>

const loops: Record<string, Run> = {
  "the plain loop": (cycle, prompt, options) => Effect.map(cycle.submitObject(prompt, options), ({ value }) => value),
  "the streaming loop": (cycle, prompt, options) =>
    cycle.submitStreamObject(prompt, options).pipe(
      Stream.runLast,
      Effect.flatMap(Effect.fromOption),
      Effect.orDie,
      Effect.flatMap((last) =>
        last._tag === "CycleComplete"
          ? Schema.decodeUnknownEffect(Schema.toCodecJson(options.schema))(last.value)
          : Effect.die(last)
      )
    )
}

for (const [name, run] of Object.entries(loops)) {
  describe(`an answer of a shape, ${name}`, () => {
    // verifies: object.decoded
    it.effect("is decoded, with tools in the same run", () =>
      Effect.gen(function*() {
        const { check, cycle, requests } = yield* makeCycle({
          tools: [succeed("look", 4)],
          script: [callsOf("look"), answer(GOOD)]
        })
        assert.deepStrictEqual(yield* run(cycle, "go", { schema: Weather }), DECODED)
        const [first] = yield* requests
        assert.deepStrictEqual(first?.tools.map((each) => each.name), ["look", "final_answer"])
        assert.strictEqual(first?.toolChoice, "required")
        assert.deepStrictEqual(outline(yield* cycle.messages).slice(-2), ["assistant:final_answer()", "tool:Accepted."])
        yield* check
      }))

    it.effect("may be no object, may be text, and may have a name of its own", () =>
      Effect.gen(function*() {
        const { cycle, requests } = yield* makeCycle({
          script: [answer({ value: [1, 2] }, "report"), text("[3]"), text("{\"value\":[4]}")]
        })
        const options = { schema: Schema.Array(Schema.Finite), name: "report", description: "Reports" }
        assert.deepStrictEqual(yield* run(cycle, "go", options), [1, 2])
        assert.deepStrictEqual(yield* run(cycle, "go", options), [3])
        assert.deepStrictEqual(yield* run(cycle, "go", options), [4])
        assert.deepStrictEqual((yield* requests)[0]?.toolChoice, { tool: "report" })
      }))

    it.effect("is decoded with the services of the caller", () =>
      Effect.gen(function*() {
        class Unit extends Context.Service<Unit, string>()("test/Unit") {}
        const Degrees = Schema.Finite.pipe(Schema.decodeTo(Schema.String, {
          decode: SchemaGetter.transformEffect((degrees: number) => Unit.useSync((unit) => `${degrees}${unit}`)),
          encode: SchemaGetter.transform((degrees: string) => Number.parseFloat(degrees))
        }))
        const { cycle } = yield* makeCycle({ script: [answer({ value: 4 })] })
        const value = yield* run(cycle, "go", { schema: Degrees }).pipe(Effect.provideService(Unit, "°C"))
        assert.strictEqual(value, "4°C")
      }))

    // verifies: object.repaired
    it.effect("is sent back where it does not fit, however it was given", () =>
      Effect.gen(function*() {
        const { check, cycle } = yield* makeCycle({
          script: [text("It is cold."), answer({ degrees: "cold" }), answer(GOOD)]
        })
        assert.deepStrictEqual(yield* run(cycle, "go", { schema: Weather }), DECODED)
        const told = outline(yield* cycle.messages)
        assert.match(told[2]!, /^user:Give the answer by calling the tool "final_answer": /)
        assert.match(told[4]!, /^tool:!Error: invalid arguments: /)
        yield* check
      }))

    it.effect("fails when its repairs or turns are used up, and the conversation goes on", () =>
      Effect.gen(function*() {
        for (
          const [options, config, reason, turns] of [
            [{}, {}, "InvalidObject", 3],
            [{ repairs: 0 }, {}, "InvalidObject", 1],
            [{ repairs: -1 }, {}, "InvalidObject", 1],
            [{ repairs: 9 }, { maxTurns: 2 }, "MaxTurnsExceeded", 2]
          ] as const
        ) {
          const { check, cycle, requests } = yield* makeCycle({
            config,
            script: (_, count) => count > turns ? text("Hello.") : answer({ degrees: "cold" })
          })
          const error = yield* Effect.flip(cycle.submitObject("go", { schema: Weather, ...options }))
          assert.strictEqual(error.reason._tag, reason)
          assert.strictEqual((yield* requests).length, turns)
          yield* check
          assert.strictEqual((yield* cycle.submit("Hi")).text, "Hello.")
        }
      }))

    // verifies: object.early
    it.effect("is not taken beside other calls, or twice in one response", () =>
      Effect.gen(function*() {
        let ran = 0
        const { check, cycle } = yield* makeCycle({
          tools: [tool("look", () => Effect.sync(() => ++ran))],
          script: [
            calls({ name: "look", params: {} }, { name: "final_answer", params: { ...GOOD, degrees: 9 } }),
            calls({ name: "final_answer", params: GOOD }, { name: "final_answer", params: GOOD }),
            answer(GOOD)
          ]
        })
        assert.deepStrictEqual(yield* run(cycle, "go", { schema: Weather }), DECODED)
        assert.strictEqual(ran, 1)
        yield* check
      }))

    it.effect("is taken from text whatever a whole response ends with, and from none that was cut short", () =>
      Effect.gen(function*() {
        for (const finishReason of ["stop", "other", "tool-calls"] as const) {
          const { cycle } = yield* makeCycle({ script: [{ text: JSON.stringify(GOOD), finishReason }] })
          assert.deepStrictEqual(yield* run(cycle, "go", { schema: Weather }), DECODED)
        }
        for (const finishReason of ["length", "content-filter"] as const) {
          const { cycle } = yield* makeCycle({ script: [{ text: JSON.stringify(GOOD), finishReason }] })
          const exit = yield* Effect.exit(run(cycle, "go", { schema: Weather }))
          const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
          assert.strictEqual(CycleError.isCycleError(error) && error.reason._tag, "IncompleteResponse")
        }
      }))

    it.effect("is not taken from a response that was cut off", () =>
      Effect.gen(function*() {
        const { check, cycle } = yield* makeCycle({ script: [{ ...answer(GOOD), finishReason: "length" }] })
        assert.strictEqual(
          (yield* reasonOf(cycle.submitObject("go", { schema: Weather })))._tag,
          "IncompleteResponse"
        )
        yield* check
      }))
  })
}

describe("an answer of a shape", () => {
  // verifies: object.resumed
  it.effect("is come to when calls have waited for a person", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [tool("pay", () => Effect.succeed("paid"), { needsApproval: true })],
        script: [callsOf("pay"), answer(GOOD)]
      })
      const waiting = yield* cycle.submitObject("go", { schema: Weather })
      assert.isUndefined(waiting.value)
      assert.strictEqual(waiting.response.finishReason, "awaiting-input")
      const answers = waiting.response.pending.map((question) => Question.approve(question))
      const done = yield* cycle.resumeObject({ schema: Weather }, answers)
      assert.deepStrictEqual(done.value, DECODED)
      assert.deepStrictEqual(done.response.value, GOOD)
    }))
})
