/*
 * Long conversations and long answers: nothing overflows, nothing is lost.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { succeed } from "../tools/support.ts"
import { callsOf, checkMessages, drivers, makeCycle } from "./support.ts"

const TURNS = 1_000
const DELTAS = 200_000

describe("endurance", () => {
  for (const { name, submit } of drivers) {
    // verifies: cycle.many-turns
    it.effect(`${name} takes a thousand turns`, () =>
      Effect.gen(function*() {
        const { cycle } = yield* makeCycle({
          tools: [succeed("look")],
          // Its calls are all alike.
          config: { maxTurns: TURNS, repeatedCalls: Infinity },
          script: (_, count) => count < TURNS ? callsOf("look") : { text: "done" }
        })
        assert.strictEqual((yield* submit(cycle, "go")).turns, TURNS)
        const messages = yield* cycle.messages
        checkMessages(messages)
        assert.strictEqual(messages.length, 2 * TURNS)
      }), 60_000)

    it.effect(`${name} takes a response of ${DELTAS} words`, () =>
      Effect.gen(function*() {
        const text = "word ".repeat(DELTAS)
        const { cycle } = yield* makeCycle({ script: [{ text }] })
        assert.strictEqual((yield* submit(cycle, "go")).text, text)
      }), 60_000)
  }

  it.effect("each word comes as it is", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({ script: [{ text: "word ".repeat(DELTAS) }] })
      const count = yield* cycle.submitStream("go").pipe(
        Stream.filter((event) => event._tag === "AssistantTextDelta" && event.delta === "word "),
        Stream.runCount
      )
      assert.strictEqual(count, DELTAS)
    }), 60_000)
})
