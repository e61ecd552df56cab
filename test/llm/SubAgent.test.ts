import { assert, describe, it } from "@effect/vitest"
import { CycleEvent, SubAgent } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Effect, Schema, Stream } from "effect"
import { subAgentSuite } from "../suites/subAgent.ts"
import { succeed } from "../tools/support.ts"
import { callsOf, describe as show, drivers, makeCycle } from "./support.ts"

for (const driver of drivers) subAgentSuite(driver)

describe("the events of a sub-agent", () => {
  // verifies: sub-agent.events
  it.effect("are nested in the stream of the cycle above, and travel as JSON", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [SubAgent.tool({ name: "helper", description: "Helps" }), succeed("look")],
        script: [
          ScriptedModel.calls({ name: "helper", params: { prompt: "?" } }),
          callsOf("look"),
          ScriptedModel.text("Here."),
          ScriptedModel.text("done")
        ]
      })
      const events = yield* Stream.runCollect(cycle.submitStreamWithTools("go"))
      const nested = events.flatMap((event) => event._tag === "SubAgentEvent" ? [event] : [])
      assert.isTrue(nested.every(({ toolName, turn }) => toolName === "helper" && turn === 1))
      assert.deepStrictEqual(
        nested.map(({ event }) => event).filter((event) => event._tag !== "ToolCallDelta").map(show),
        [
          "ToolExecutionStarted(look 0)",
          "TurnComplete(1, tool-calls)",
          "ToolExecutionCompleted(look 0)",
          "AssistantTextDelta(\"Here.\")",
          "TurnComplete(2, stop)",
          "CycleComplete(stop)"
        ]
      )
      const codec = Schema.toCodecJson(Schema.Array(CycleEvent.CycleEvent))
      const json = JSON.parse(JSON.stringify(yield* Schema.encodeEffect(codec)(events)))
      assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(codec)(json), events)
    }))
})
