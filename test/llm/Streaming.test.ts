/*
 * What only a stream of events has: its order, its chunks, its consumer.
 */
import { assert, describe, it } from "@effect/vitest"
import { CycleEvent, History, LlmCycle, PermissionPolicy, ToolContext, ToolRegistry } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Deferred, Effect, Exit, Fiber, Queue, Schema, Stream } from "effect"
import { LanguageModel, type Response } from "effect/ai"
import { TestClock } from "effect/testing"
import { makeGate, settle, succeed, tool } from "../tools/support.ts"
import {
  aiError,
  callsOf,
  checkEvents,
  type Cycle,
  describe as shown,
  makeCycle,
  outline,
  overloaded,
  reasonOf,
  refused,
  results,
  streaming,
  untilEnd
} from "./support.ts"

const { text } = ScriptedModel

const collect = (cycle: Cycle, prompt = "go") => Stream.runCollect(cycle.submitStreamWithTools(prompt))

/** A cycle over a model of stream parts as they are. */
const cycleOf = Effect.fnUntraced(function*(
  ...responses: ReadonlyArray<Stream.Stream<Response.StreamPartEncoded>>
) {
  let next = 0
  const model = yield* LanguageModel.make({
    generateText: () => Effect.die("not asked"),
    streamText: () => responses[next++] ?? Stream.die("asked too often")
  })
  const registry = yield* ToolRegistry.make.pipe(Effect.provide(PermissionPolicy.layerAllowAll))
  yield* registry.register(succeed("look"))
  return yield* LlmCycle.make().pipe(
    Effect.provideService(LanguageModel.LanguageModel, model),
    Effect.provideService(ToolRegistry.ToolRegistry, registry)
  )
})

const delta = (delta: string): Response.StreamPartEncoded => ({ type: "text-delta", id: "t", delta })

const finish: Response.StreamPartEncoded = {
  type: "finish",
  reason: "stop",
  usage: { inputTokens: {}, outputTokens: {} },
  response: undefined
}

describe("events", () => {
  // verifies: event.order
  it.effect("streaming emits ToolExecutionCompleted after execution in the right order", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const slow = makeGate("slow")
      const { cycle } = yield* makeCycle({
        tools: [
          slow.tool,
          tool("quick", () =>
            Effect.gen(function*() {
              log.push("quick runs")
              yield* (yield* ToolContext.ToolContext).progress(0.5)
              yield* Effect.yieldNow
              log.push("quick ends")
              return "quick"
            }))
        ],
        script: [{ text: "I will look.", ...callsOf("slow", "quick") }, text("Both there.")]
      })
      const events: Array<CycleEvent.CycleEvent> = []
      yield* cycle.submitStreamWithTools("go").pipe(
        Stream.runForEach((event) => {
          events.push(event)
          log.push(shown(event))
          return event._tag === "ToolExecutionCompleted" && event.toolName === "quick" ? slow.leave : Effect.void
        })
      )
      assert.deepStrictEqual(events.map(shown), [
        "AssistantTextDelta(\"I \")",
        "AssistantTextDelta(\"will \")",
        "AssistantTextDelta(\"look.\")",
        "ToolCallDelta(\"\")",
        "ToolCallDelta(\"{}\")",
        "ToolCallDelta(\"\")",
        "ToolCallDelta(\"{}\")",
        "ToolExecutionStarted(slow 0)",
        "ToolExecutionStarted(quick 1)",
        "TurnComplete(1, tool-calls)",
        "ToolExecutionProgress(quick 1)",
        "ToolExecutionCompleted(quick 1)",
        "ToolExecutionCompleted(slow 0)",
        "AssistantTextDelta(\"Both \")",
        "AssistantTextDelta(\"there.\")",
        "TurnComplete(2, stop)",
        "CycleComplete(stop)"
      ])
      assert.isBelow(log.indexOf("quick ends"), log.indexOf("ToolExecutionCompleted(quick 1)"))
      const completed = events.filter((event) => event._tag === "ToolExecutionCompleted")
      assert.deepStrictEqual(completed.map(({ isFailure, output, turn }) => [turn, output, isFailure]), [
        [1, "quick", false],
        [1, "slow", false]
      ])
    }))

  // verifies: event.serialisable
  it.effect("survive being sent as JSON", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [succeed("good", { a: [1, null] }), tool("bad", () => Effect.die(new Error("no")))],
        policy: PermissionPolicy.layerCheck(({ toolCallId }) =>
          Effect.succeed(toolCallId === "call-1-3" ? PermissionPolicy.deny("no") : PermissionPolicy.allow)
        ),
        config: { errorPolicy: { PermissionDenied: "tell" }, maxToolResultBytes: 4 },
        script: [{
          reasoning: "Hm.",
          text: "Look.",
          usage: { input: 1, output: 2 },
          parts: [{ type: "file", mediaType: "image/png", data: "AQID" }],
          ...callsOf("good", "bad", "good")
        }, text("ok")]
      })
      const events = yield* collect(cycle)
      checkEvents(events, Exit.void)
      const codec = Schema.toCodecJson(CycleEvent.CycleEvent)
      for (const event of events) {
        const json = JSON.parse(JSON.stringify(yield* Schema.encodeEffect(codec)(event)))
        const back = yield* Schema.decodeUnknownEffect(codec)(json)
        assert.strictEqual(shown(back), shown(event))
        assert.deepStrictEqual(JSON.parse(JSON.stringify(yield* Schema.encodeEffect(codec)(back))), json)
      }
      assert.isTrue(events.some((event) => event._tag === "ModelPart" && event.part.type === "file"))
      const rejected = events.find((event) => event._tag === "ToolCallRejected")
      assert.strictEqual(rejected?.error.reason._tag, "PermissionDenied")
      const whole = events.find((event) => event._tag === "ToolExecutionCompleted" && event.toolName === "good")
      assert.deepInclude(whole, { truncated: true, output: { a: [1, null] } })
    }))

  it.effect("come in the chunks they arrive in", () =>
    Effect.gen(function*() {
      const chunks = [["a", "b", "c"], ["d"], ["e", "f"]].map((texts) => texts.map(delta))
      const cycle = yield* cycleOf(Stream.concat(
        Stream.flatMap(Stream.fromIterable(chunks), (chunk) => Stream.fromArray(chunk)),
        Stream.make(finish)
      ))
      const sizes: Array<number> = []
      yield* cycle.submitStream("go").pipe(
        Stream.runForEachArray((events) => Effect.sync(() => sizes.push(events.length)))
      )
      assert.deepStrictEqual(sizes.slice(0, 3), [3, 1, 2])
    }))

  it.effect("of pieces that were never started or ended make a whole text", () =>
    Effect.gen(function*() {
      const cycle = yield* cycleOf(Stream.make(delta("Hel"), delta("lo"), finish))
      assert.strictEqual((yield* streaming.submit(cycle, "go")).text, "Hello")
      assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:Hello"])
    }))

  it.effect("an error in the response is not made good by the finish after it", () =>
    Effect.gen(function*() {
      const cycle = yield* cycleOf(Stream.make<Array<Response.StreamPartEncoded>>(
        { type: "tool-call", id: "1", name: "look", params: {} },
        { type: "error", error: "overloaded" },
        finish
      ))
      const events: Array<CycleEvent.CycleEvent> = []
      const reason = yield* cycle.submitStreamWithTools("go").pipe(
        Stream.runForEach((event) => Effect.sync(() => events.push(event))),
        reasonOf
      )
      assert.deepInclude(reason, { _tag: "IncompleteResponse", finishReason: "error" })
      assert.deepStrictEqual(events.map(shown), [
        "ModelPart(error)",
        "ToolCallRejected(look 0)",
        "TurnComplete(1, error)"
      ])
      assert.match(String(results(yield* cycle.messages)[0]?.result), /not executed/)
    }))

  it.effect("keep reasoning that is encrypted, and drop what has no end", () =>
    Effect.gen(function*() {
      const cycle = yield* cycleOf(Stream.make<Array<Response.StreamPartEncoded>>(
        { type: "reasoning-start", id: "1", metadata: { test: { encrypted: "abc" } } },
        { type: "reasoning-end", id: "1", metadata: { test: { signature: "def" } } },
        { type: "reasoning-start", id: "2" },
        { type: "reasoning-delta", id: "2", delta: "without end" },
        delta("ok"),
        finish
      ))
      yield* streaming.submit(cycle, "go")
      const answer = (yield* cycle.messages)[1]
      assert.deepStrictEqual(
        answer?.role === "assistant" && answer.content.map((part) => [part.type, part.options]),
        [["reasoning", { test: { encrypted: "abc", signature: "def" } }], ["text", {}]]
      )
    }))

  it.effect("of calls come after the request is closed", () =>
    Effect.gen(function*() {
      let isOpen = false
      let wasOpen: boolean | undefined
      const model = yield* LanguageModel.make({
        generateText: () => Effect.die("not asked"),
        streamText: () =>
          Stream.unwrap(Effect.map(
            Effect.acquireRelease(Effect.sync(() => isOpen = true), () => Effect.sync(() => isOpen = false)),
            (): Stream.Stream<Response.StreamPartEncoded> =>
              wasOpen === undefined
                ? Stream.make({ type: "tool-call", id: "1", name: "look", params: {} }, finish)
                : Stream.make(delta("ok"), finish)
          ))
      })
      const { registry } = yield* makeCycle({
        tools: [tool("look", () => Effect.sync(() => wasOpen = isOpen))],
        script: []
      })
      const cycle = yield* LlmCycle.make().pipe(
        Effect.provideService(LanguageModel.LanguageModel, model),
        Effect.provideService(ToolRegistry.ToolRegistry, registry)
      )
      assert.strictEqual((yield* streaming.submit(cycle, "go")).text, "ok")
      assert.isFalse(wasOpen)
    }))

  it.effect("number turns on over the whole conversation", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [succeed("look")],
        script: [callsOf("look"), text("ok"), callsOf("look"), text("ok")]
      })
      const turns = (yield* Effect.forEach([1, 2], () => collect(cycle))).map((events) =>
        events.flatMap((event) => event._tag === "TurnComplete" ? [event.turn] : [])
      )
      assert.deepStrictEqual(turns, [[1, 2], [3, 4]])
    }))
})

describe("a model that fails", () => {
  it.effect("after it has begun is not asked again, and its text is kept", () =>
    Effect.gen(function*() {
      const { check, cycle, requests } = yield* makeCycle({
        script: [{ text: "so far", error: overloaded() }, text("ok")]
      })
      const reason = yield* reasonOf(streaming.submit(cycle, "go"))
      assert.strictEqual(reason._tag, "ModelFailed")
      assert.strictEqual((yield* requests).length, 1)
      assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:so far"])
      assert.strictEqual((yield* cycle.submitMessages).text, "ok")
      assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:so far", "assistant:ok"])
      yield* check
    }))

  it.effect("closes what a failed attempt had opened before the next", () =>
    Effect.gen(function*() {
      let open = 0
      let attempts = 0
      const model = yield* LanguageModel.make({
        generateText: () => Effect.die("not asked"),
        streamText: () =>
          Stream.unwrap(Effect.gen(function*() {
            assert.strictEqual(open, 0)
            yield* Effect.acquireRelease(Effect.sync(() => open++), () => Effect.sync(() => open--))
            return ++attempts < 3 ? Stream.fail(overloaded()) : Stream.make(delta("ok"), finish)
          }))
      })
      const registry = yield* ToolRegistry.make.pipe(Effect.provide(PermissionPolicy.layerAllowAll))
      const cycle = yield* LlmCycle.make().pipe(
        Effect.provideService(LanguageModel.LanguageModel, model),
        Effect.provideService(ToolRegistry.ToolRegistry, registry)
      )
      const fiber = yield* Effect.forkChild(streaming.submit(cycle, "go"))
      yield* untilEnd(fiber)
      assert.strictEqual((yield* Fiber.join(fiber)).text, "ok")
      assert.deepStrictEqual([open, attempts], [0, 3])
    }))

  it.effect("by ending without anything is incomplete", () =>
    Effect.gen(function*() {
      const cycle = yield* cycleOf(Stream.empty)
      assert.deepInclude(yield* reasonOf(streaming.submit(cycle, "go")), {
        _tag: "IncompleteResponse",
        finishReason: "unknown"
      })
    }))

  it.effect("with parts that are none fails as a model", () =>
    Effect.gen(function*() {
      // A provider in JavaScript may send anything.
      const broken = { type: "text-delta", id: "t" } as Response.StreamPartEncoded
      const cycle = yield* cycleOf(Stream.concat(Stream.make(delta("so far")), Stream.make(broken)))
      const reason = yield* reasonOf(streaming.submit(cycle, "go"))
      assert.strictEqual(reason._tag === "ModelFailed" && reason.error.reason._tag, "InvalidOutputError")
    }))

  it.effect("in a plain submit leaves what a stream before it has kept", () =>
    Effect.gen(function*() {
      const { check, cycle } = yield* makeCycle({
        script: [{ text: "so far", error: refused }, { error: aiError(refused.reason) }, text("ok")]
      })
      yield* reasonOf(streaming.submit(cycle, "go"))
      yield* reasonOf(cycle.submitMessages)
      yield* cycle.submitMessages
      assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:so far", "assistant:ok"])
      yield* check
    }))
})

describe("a consumer", () => {
  it.effect("that leaves after three events stops the request, and the text is kept", () =>
    Effect.gen(function*() {
      let isOpen = true
      const cycle = yield* cycleOf(
        Stream.make(delta("a"), delta("b"), delta("c")).pipe(
          Stream.rechunk(1),
          Stream.concat(Stream.never),
          Stream.ensuring(Effect.sync(() => isOpen = false))
        ),
        Stream.make(delta("ok"), finish)
      )
      const events = yield* Stream.runCollect(Stream.take(cycle.submitStreamWithTools("go"), 3))
      assert.strictEqual(events.length, 3)
      assert.isFalse(isOpen)
      assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:abc"])
      assert.strictEqual((yield* streaming.submit(cycle, "on")).text, "ok")
      assert.strictEqual((yield* cycle.history).turns, 2)
    }))

  // verifies: event.stop-early
  it.effect("that leaves while tools run interrupts them", () =>
    Effect.gen(function*() {
      let running = 0
      const { check, cycle } = yield* makeCycle({
        tools: [
          succeed("quick"),
          tool("hang", () =>
            Effect.suspend(() => {
              running++
              return Effect.ensuring(Effect.never, Effect.sync(() => running--))
            }))
        ],
        script: [callsOf("hang", "quick", "hang"), text("ok")]
      })
      yield* cycle.submitStreamWithTools("go").pipe(
        Stream.takeUntil((event) => event._tag === "ToolExecutionCompleted"),
        Stream.runForEach((event) =>
          Effect.sync(() => {
            if (event._tag === "ToolExecutionCompleted") assert.strictEqual(running, 2)
          })
        )
      )
      assert.strictEqual(running, 0)
      yield* check
      assert.strictEqual((yield* streaming.submit(cycle, "on")).text, "ok")
    }))

  it.effect("holds its place until it leaves", () =>
    Effect.gen(function*() {
      const events = yield* Queue.unbounded<string>()
      const leave = yield* Deferred.make<void>()
      const { cycle } = yield* makeCycle({ script: [text("a b"), text("2")] })
      const first = yield* Effect.forkChild(
        cycle.submitStream("go").pipe(
          Stream.rechunk(1),
          Stream.take(1),
          Stream.runForEach(() => Effect.andThen(Queue.offer(events, "first"), Deferred.await(leave)))
        )
      )
      yield* Queue.take(events)
      const second = yield* Effect.forkChild(streaming.submit(cycle, "on"))
      yield* settle
      assert.strictEqual(second.pollUnsafe(), undefined)
      yield* Deferred.succeed(leave, undefined)
      yield* Fiber.join(first)
      assert.strictEqual((yield* Fiber.join(second)).text, "2")
    }))

  it.effect("gives its place back when the stream ends, although the pipeline goes on", () =>
    Effect.gen(function*() {
      const { check, cycle } = yield* makeCycle({ script: [text("1"), text("2"), text("3"), text("4")] })
      const stream = cycle.submitStream("go")
      const one = yield* Stream.runCollect(Stream.concat(stream, stream))
      const two = yield* Stream.runCollect(Stream.flatMap(Stream.make(1, 2), () => stream))
      for (const events of [one, two]) {
        assert.strictEqual(events.filter((event) => event._tag === "CycleComplete").length, 2)
      }
      yield* check
    }))

  it.effect("gives its place back when the stream fails, although the pipeline goes on", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({ script: [{ error: refused }, text("2")] })
      const events = yield* cycle.submitStream("go").pipe(
        Stream.catch(() => cycle.submitStream("again")),
        Stream.runCollect
      )
      assert.strictEqual(events.at(-1)?._tag, "CycleComplete")
    }))

  it.effect("may submit when the stream is over, from the same fiber", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({ script: [text("1"), text("2"), text("3")] })
      yield* collect(cycle)
      yield* Stream.runHead(cycle.submitStream("go"))
      assert.strictEqual((yield* cycle.submit("on")).text, "3")
    }))

  // verifies: event.progress
  it.effect("that is slow does not make a tool time out, and loses progress only", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [
          tool("chatty", () =>
            Effect.gen(function*() {
              const { progress } = yield* ToolContext.ToolContext
              for (let i = 0; i < 1_000; i++) yield* progress(i)
              return "done"
            }), { timeout: "1 second" })
        ],
        script: [callsOf("chatty", "chatty"), text("ok")]
      })
      const fiber = yield* cycle.submitStreamWithTools("go").pipe(
        Stream.rechunk(1),
        Stream.tap((event) => event._tag === "TurnComplete" ? Effect.sleep("1 hour") : Effect.void),
        Stream.runCollect,
        Effect.forkChild
      )
      yield* settle
      yield* TestClock.adjust("3 hours")
      const events = yield* Fiber.join(fiber)
      checkEvents(events, Exit.void)
      const completed = events.filter((event) => event._tag === "ToolExecutionCompleted")
      assert.deepStrictEqual(completed.map(({ output }) => output), ["done", "done"])
      assert.isBelow(events.filter((event) => event._tag === "ToolExecutionProgress").length, 1_000)
    }))

  // verifies: event.backpressure
  it.effect("that is slow slows the source", () =>
    Effect.gen(function*() {
      let made = 0
      const cycle = yield* cycleOf(
        Stream.concat(
          Stream.map(Stream.rechunk(Stream.range(1, 100), 1), (n) => {
            made = n
            return delta(`${n} `)
          }),
          Stream.make(finish)
        )
      )
      const steps = yield* Queue.unbounded<void>()
      const fiber = yield* cycle.submitStream("go").pipe(
        Stream.runForEach(() => Queue.take(steps)),
        Effect.forkChild
      )
      yield* settle
      yield* Queue.offer(steps, undefined)
      yield* settle
      assert.strictEqual(made, 2)
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("sees text in the history as it arrives", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({ script: [text("one two three")] })
      const seen: Array<string> = []
      yield* cycle.submitStream("go").pipe(
        Stream.rechunk(1),
        Stream.runForEach(() =>
          Effect.map(cycle.history, (history) => seen.push(outline(History.messages(history))[1]!))
        )
      )
      assert.include(seen[0], "assistant:one ")
      assert.strictEqual(seen.at(-1), "assistant:one two three")
    }))

  it.effect("may run the same stream twice", () =>
    Effect.gen(function*() {
      const { check, cycle } = yield* makeCycle({
        tools: [succeed("look")],
        script: (_, count) => count % 2 === 1 ? callsOf("look") : text("ok")
      })
      const stream = cycle.submitStreamWithTools("go")
      const [one, two] = [yield* Stream.runCollect(stream), yield* Stream.runCollect(stream)]
      assert.strictEqual(one.length, two.length)
      yield* check
    }))

  // verifies: event.completed-once
  it.effect("with many calls and no hurry sees each completed once", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [succeed("look")],
        script: [callsOf(...Array.from({ length: 300 }, () => "look")), text("ok")]
      })
      const events = yield* collect(cycle)
      checkEvents(events, Exit.void)
      assert.strictEqual(events.filter((event) => event._tag === "ToolExecutionCompleted").length, 300)
    }))
})
