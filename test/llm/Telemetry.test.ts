import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric, Option, Stream, Tracer } from "effect"
import { succeed, tool } from "../tools/support.ts"
import { callsOf, drivers, makeCycle } from "./support.ts"

const makeTracer = () => {
  const spans: Array<Tracer.Span> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const parentOf = (span: Tracer.Span): string | undefined => {
    const parent = Option.getOrUndefined(span.parent)
    return parent?._tag === "Span" ? parent.name : undefined
  }
  return { tracer, spans, parentOf }
}

describe("spans", () => {
  for (const { name, submit } of drivers) {
    it.effect(`of ${name} hang together`, () =>
      Effect.gen(function*() {
        const { parentOf, spans, tracer } = makeTracer()
        const { cycle } = yield* makeCycle({
          tools: [
            tool("look", () => Effect.withSpan(Effect.succeed("seen"), "inside")),
            tool("die", () => Effect.die("no"))
          ],
          config: { sessionId: "s-1" },
          script: [callsOf("look", "die"), { text: "ok" }]
        })
        yield* submit(cycle, "go").pipe(Effect.withSpan("program"), Effect.withTracer(tracer))

        const model = name === "the plain loop" ? "LanguageModel.generateText" : "LanguageModel.streamText"
        assert.deepStrictEqual(
          spans.map((span) => `${parentOf(span)} > ${span.name}`).sort(),
          [
            `invoke_agent > ${model}`,
            `invoke_agent > ${model}`,
            "invoke_agent > execute_tool die",
            "invoke_agent > execute_tool look",
            "execute_tool look > inside",
            "program > invoke_agent",
            "undefined > program"
          ].sort()
        )
        assert.isTrue(spans.every((span) => span.status._tag === "Ended"))
        const byName = (name: string) => Object.fromEntries(spans.find((span) => span.name === name)!.attributes)
        assert.deepStrictEqual(byName("invoke_agent"), {
          "gen_ai.operation.name": "invoke_agent",
          "gen_ai.conversation.id": "s-1"
        })
        assert.deepInclude(byName("execute_tool die"), {
          "gen_ai.tool.name": "die",
          "gen_ai.tool.call.id": "call-1-2",
          "error.type": "ExecutionFailed"
        })
        assert.notProperty(byName("execute_tool look"), "gen_ai.tool.call.arguments")
        assert.notProperty(byName("execute_tool look"), "gen_ai.tool.call.result")
      }))

    it.effect(`of ${name} end when it fails`, () =>
      Effect.gen(function*() {
        const { spans, tracer } = makeTracer()
        const { cycle } = yield* makeCycle({ tools: [], script: [callsOf("nothing")] })
        yield* Effect.exit(submit(cycle, "go").pipe(Effect.withTracer(tracer)))
        const span = spans.find((span) => span.name === "invoke_agent")
        assert.isTrue(span?.status._tag === "Ended" && span.status.exit._tag === "Failure")
      }))
  }

  it.effect("of a stream that is left are ended", () =>
    Effect.gen(function*() {
      const { spans, tracer } = makeTracer()
      const { cycle } = yield* makeCycle({
        tools: [tool("hang", () => Effect.never)],
        script: [{ text: "a b c", ...callsOf("hang") }]
      })
      yield* cycle.submitStreamWithTools("go").pipe(
        Stream.takeUntil((event) => event._tag === "TurnComplete"),
        Stream.runDrain,
        Effect.withTracer(tracer)
      )
      assert.includeMembers(spans.map((span) => span.name), ["invoke_agent", "execute_tool hang"])
      assert.isTrue(spans.every((span) => span.status._tag === "Ended"))
    }))
})

describe("metrics", () => {
  for (const { name, submit } of drivers) {
    // verifies: trace.metrics
    it.effect(`of ${name} count turns and tokens`, () =>
      Effect.gen(function*() {
        const { cycle } = yield* makeCycle({
          tools: [succeed("look")],
          script: [{ ...callsOf("look"), usage: { input: 10, output: 3 } }, {
            text: "ok",
            usage: { input: 20, output: 4 }
          }]
        })
        const snapshot = yield* Effect.andThen(submit(cycle, "go"), Metric.snapshot).pipe(
          Effect.provideService(Metric.MetricRegistry, new Map())
        )
        const turns = snapshot.find(({ id }) => id === "agcore.cycle.turns")
        assert.deepInclude(turns?.state, { count: 2 })
        const tokens = snapshot.filter(({ id }) => id === "gen_ai.client.token.usage")
        assert.deepStrictEqual(
          tokens.map(({ attributes, state }) => [attributes?.["gen_ai.token.type"], "sum" in state && state.sum])
            .sort(),
          [["input", 30], ["output", 7]]
        )
        assert.isTrue(snapshot.some(({ id }) => id === "agcore.tool.calls"))
      }))
  }
})
