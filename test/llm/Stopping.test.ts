/*
 * What stops when a submit is interrupted or a stream is left, seen from the
 * server and from the tool.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { chunk, events, type Respond } from "../openai/support.ts"
import { tool } from "../tools/support.ts"
import { inOrder, makeHttpCycle, says } from "./http.ts"
import { checkMessages, drivers, outline, results } from "./support.ts"

const silence: Respond = () => {}

/** A real wait that fails the test instead of hanging it. */
const soon = <A>(what: string, effect: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.timeoutOrElse(effect, {
    duration: "10 seconds",
    orElse: () => Effect.die(new Error(`${what}: did not happen within 10 seconds`))
  })

/** A tool that waits for good and tells when it starts and when it is stopped. */
const makeHanging = (name: string) => {
  const started = Deferred.makeUnsafe<void>()
  const stopped = Deferred.makeUnsafe<void>()
  return {
    started: soon(`${name} starts`, Deferred.await(started)),
    stopped: soon(`${name} is stopped`, Deferred.await(stopped)),
    tool: tool(name, () =>
      Deferred.succeed(started, undefined).pipe(
        Effect.andThen(Effect.never),
        Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
      ))
  }
}

describe("stopping", () => {
  for (const { name, submit } of drivers) {
    it.live(`interrupting ${name} closes the connection of a request that is not answered`, () =>
      Effect.gen(function*() {
        const { cycle, server } = yield* makeHttpCycle({ respond: inOrder(silence) })
        const fiber = yield* Effect.forkChild(submit(cycle, "go"))
        const request = yield* soon("the request", server.received)
        yield* Fiber.interrupt(fiber)
        yield* soon("the connection closes", request.closed)
        assert.strictEqual((yield* submit(cycle, "on")).text, "all is well")
        assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "user:on", "assistant:all is well"])
      }).pipe(Effect.scoped))

    it.live(`interrupting ${name} interrupts a running tool`, () =>
      Effect.gen(function*() {
        const hanging = makeHanging("hang")
        const { cycle, server } = yield* makeHttpCycle({
          tools: [hanging.tool],
          respond: inOrder(says({ text: "Wait.", calls: [{ name: "hang", arguments: "{}" }] }))
        })
        const fiber = yield* Effect.forkChild(submit(cycle, "go"))
        yield* hanging.started
        yield* Fiber.interrupt(fiber)
        yield* hanging.stopped
        yield* soon("the first request", server.received)
        const messages = yield* cycle.messages
        checkMessages(messages)
        assert.match(String(results(messages)[0]?.result), /^Interrupted while running/)
        assert.strictEqual((yield* submit(cycle, "on")).text, "all is well")
        const { body } = yield* soon("the second request", server.received)
        assert.deepStrictEqual(body["messages"].map(({ role }: { readonly role: string }) => role), [
          "user",
          "assistant",
          "tool",
          "user"
        ])
      }).pipe(Effect.scoped))

    it.live(`losing a race, as against a timeout, interrupts ${name}`, () =>
      Effect.gen(function*() {
        const hanging = makeHanging("hang")
        const { cycle } = yield* makeHttpCycle({
          tools: [hanging.tool],
          respond: inOrder(says({ calls: [{ name: "hang", arguments: "{}" }] }))
        })
        const winner = yield* Effect.raceFirst(submit(cycle, "go"), Effect.as(hanging.started, "the other"))
        assert.strictEqual(winner, "the other")
        yield* hanging.stopped
        checkMessages(yield* cycle.messages)
      }).pipe(Effect.scoped))
  }

  it.live("leaving a stream in the middle of a response closes its connection and keeps its text", () =>
    Effect.gen(function*() {
      const { cycle, server } = yield* makeHttpCycle({
        respond: inOrder(events(["One, ", "two, ", "three, "].map((content) => chunk({ content })), "open"))
      })
      const seen = yield* soon(
        "three events",
        cycle.submitStreamWithTools("go").pipe(
          Stream.filter((event) => event._tag === "AssistantTextDelta"),
          Stream.take(3),
          Stream.runCollect,
          Effect.orDie
        )
      )
      assert.deepStrictEqual(seen.map(({ delta }) => delta), ["One, ", "two, ", "three, "])
      const request = yield* soon("the request", server.received)
      yield* soon("the connection closes", request.closed)
      assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:One, two, three, "])
      assert.strictEqual((yield* cycle.submit("on")).text, "all is well")
    }).pipe(Effect.scoped))

  it.live("interrupting the consumer of a stream closes its connection", () =>
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const { cycle, server } = yield* makeHttpCycle({
        respond: inOrder(events([chunk({ content: "One, " })], "open"))
      })
      const fiber = yield* cycle.submitStreamWithTools("go").pipe(
        Stream.runForEach(() => Deferred.succeed(begun, undefined)),
        Effect.forkChild
      )
      yield* soon("the first event", Deferred.await(begun))
      yield* Fiber.interrupt(fiber)
      const request = yield* soon("the request", server.received)
      yield* soon("the connection closes", request.closed)
    }).pipe(Effect.scoped))

  it.live("leaving a stream while a tool runs interrupts the tool and asks no more", () =>
    Effect.gen(function*() {
      const hanging = makeHanging("hang")
      const { cycle, server } = yield* makeHttpCycle({
        tools: [hanging.tool],
        respond: inOrder(says({ calls: [{ name: "hang", arguments: "{}" }] }))
      })
      yield* soon(
        "the end of the turn",
        cycle.submitStreamWithTools("go").pipe(
          Stream.takeUntil((event) => event._tag === "TurnComplete"),
          Stream.runForEach((event) => event._tag === "TurnComplete" ? hanging.started : Effect.void),
          Effect.orDie
        )
      )
      yield* hanging.stopped
      yield* soon("the first request", server.received)
      checkMessages(yield* cycle.messages)
      yield* cycle.submit("on")
      // The next request is that of the next submit.
      const { body } = yield* soon("the second request", server.received)
      assert.deepInclude(body["messages"].at(-1), { role: "user" })
    }).pipe(Effect.scoped))
})
