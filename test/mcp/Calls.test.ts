import { assert, describe, it } from "@effect/vitest"
import { McpPeer } from "agcore/testing"
import { Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { connect, reasonOf, receivedBy, scoped, SLOW, textOf } from "./support.ts"

const started = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })

/** A peer whose tools answer at once, late, never, and with progress each second. */
const peer = McpPeer.make({
  tools: [
    { definition: { name: "now" }, call: ({ text }) => Effect.succeed(String(text ?? "now")) },
    { definition: { name: "never" }, call: () => Effect.never },
    { definition: { name: "late" }, call: () => Effect.delay(Effect.succeed("late"), "45 seconds") },
    {
      definition: { name: "steady" },
      call: ({ seconds }, { progress }) =>
        Effect.gen(function*() {
          for (let step = 1; step <= Number(seconds); step++) {
            yield* Effect.sleep("1 second")
            yield* progress(step, Number(seconds), `step ${step}`)
          }
          return "done"
        })
    }
  ]
})

const cancelled = (peer: McpPeer.McpPeer) =>
  Effect.map(
    peer.received,
    (messages) =>
      messages.flatMap(({ method, params }) => method === "notifications/cancelled" ? [params?.["requestId"]] : [])
  )

const idOf = (peer: McpPeer.McpPeer, tool: string) =>
  Effect.map(
    peer.received,
    (messages) => messages.find(({ method, params }) => method === "tools/call" && params?.["name"] === tool)?.id
  )

describe("a deadline", () => {
  // verifies: mcp.deadline
  it.effect("fails its call, tells the server, and leaves the connection alone", () =>
    Effect.gen(function*() {
      const server = yield* peer
      const client = yield* server.connect()
      const call = yield* started(reasonOf(client.callTool("never")))
      yield* TestClock.adjust("29999 millis")
      assert.isUndefined(call.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const reason = yield* Fiber.join(call)
      assert.deepStrictEqual(
        reason._tag === "TimedOut" && { method: reason.method, afterMillis: reason.afterMillis },
        { method: "tools/call", afterMillis: 30_000 }
      )
      assert.deepStrictEqual(yield* cancelled(server), [yield* idOf(server, "never")])
      assert.strictEqual(textOf(yield* client.callTool("now")), "now")
    }))

  it.effect("is each call's own, whatever order they end in", () =>
    Effect.gen(function*() {
      const server = yield* peer
      const client = yield* server.connect({ timeout: "20 seconds", toolTimeouts: { never: "10 seconds" } })
      const calls = yield* Effect.forEach(
        [undefined, "5 seconds", "15 seconds", "1 second"] as const,
        (timeout) => started(reasonOf(client.callTool("never", {}, timeout === undefined ? undefined : { timeout })))
      )
      const done = () => calls.map((call) => call.pollUnsafe() !== undefined)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(done(), [false, false, false, true])
      yield* TestClock.adjust("4 seconds")
      assert.deepStrictEqual(done(), [false, true, false, true])
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(done(), [true, true, false, true])
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(done(), [true, true, true, true])
    }))

  it.effect("drops the answer that comes after it", () =>
    Effect.gen(function*() {
      const server = yield* peer
      const client = yield* server.connect()
      const call = yield* started(reasonOf(client.callTool("late")))
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* Fiber.join(call))._tag, "TimedOut")
      yield* TestClock.adjust("20 seconds")
      assert.deepStrictEqual((yield* client.diagnostics).map(({ kind }) => kind), ["unexpected-answer"])
      assert.strictEqual(textOf(yield* client.callTool("now")), "now")
    }))

  for (const [title, options] of [["", {}], ["of the client", { resetTimeoutOnProgress: false }]] as const) {
    it.effect(`is not moved by progress by default ${title}`, () =>
      Effect.gen(function*() {
        const client = yield* (yield* peer).connect({ timeout: "5 seconds", ...options })
        const call = yield* started(
          reasonOf(client.callTool("steady", { seconds: 60 }, { onProgress: () => Effect.void }))
        )
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual((yield* Fiber.join(call))._tag, "TimedOut")
      }))
  }

  it.effect("is moved by progress where that is wanted, without anybody listening to it", () =>
    Effect.gen(function*() {
      const client = yield* (yield* peer).connect({ timeout: "5 seconds", resetTimeoutOnProgress: true })
      const call = yield* started(client.callTool("steady", { seconds: 60 }))
      yield* TestClock.adjust("61 seconds")
      assert.strictEqual(textOf(yield* Fiber.join(call)), "done")
    }))

  it.effect("is moved no further than the longest time", () =>
    Effect.gen(function*() {
      const client = yield* (yield* peer).connect({
        timeout: "5 seconds",
        resetTimeoutOnProgress: true,
        maxTotalTimeout: "20 seconds"
      })
      const call = yield* started(reasonOf(client.callTool("steady", { seconds: 60 })))
      yield* TestClock.adjust("19 seconds")
      assert.isUndefined(call.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Fiber.join(call))._tag, "TimedOut")
    }))
})

describe("progress", () => {
  it.effect("is told in order, and all of it before the call is over", () =>
    Effect.gen(function*() {
      const client = yield* (yield* peer).connect()
      const seen: Array<unknown> = []
      const call = yield* started(client.callTool("steady", { seconds: 3 }, {
        onProgress: (progress) => Effect.andThen(Effect.yieldNow, Effect.sync(() => seen.push(progress)))
      }))
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(call)
      assert.deepStrictEqual(
        seen,
        [1, 2, 3].map((progress) => ({ progress, total: 3, message: `step ${progress}` }))
      )
    }))

  it.effect("is not asked for where nobody listens", () =>
    Effect.gen(function*() {
      const server = yield* peer
      const client = yield* server.connect()
      yield* client.callTool("now")
      const call = (yield* server.received).find(({ method }) => method === "tools/call")
      assert.deepStrictEqual(call?.params, { name: "now", arguments: {} })
    }))

  it.effect("never holds up the answer when its handler hangs", () =>
    Effect.gen(function*() {
      const client = yield* (yield* peer).connect()
      const call = yield* started(client.callTool("steady", { seconds: 3 }, { onProgress: () => Effect.never }))
      yield* TestClock.adjust("4 seconds")
      assert.strictEqual(textOf(yield* Fiber.join(call)), "done")
    }))
})

describe("interruption", () => {
  // verifies: mcp.cancel
  it.effect("of a call tells the server, once, and disturbs no other", () =>
    Effect.gen(function*() {
      const server = yield* peer
      const client = yield* server.connect()
      const other = yield* started(client.callTool("steady", { seconds: 2 }))
      const call = yield* started(client.callTool("never"))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(call)
      assert.deepStrictEqual(yield* cancelled(server), [yield* idOf(server, "never")])
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(textOf(yield* Fiber.join(other)), "done")
      assert.deepStrictEqual(yield* cancelled(server), [yield* idOf(server, "never")])
    }))

  it.effect("of the handshake says nothing: that is no request to be taken back", () =>
    Effect.gen(function*() {
      const server = yield* McpPeer.make({ handlers: { initialize: () => Effect.never } })
      const connecting = yield* started(Effect.scoped(server.connect()))
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      yield* Fiber.interrupt(connecting)
      assert.deepStrictEqual(yield* cancelled(server), [])
    }))
})

describe("the end of a connection", () => {
  it.effect("fails what waits with its reason", () =>
    Effect.gen(function*() {
      const server = yield* peer
      const client = yield* server.connect()
      const calls = yield* Effect.forEach([1, 2, 3], () => started(reasonOf(client.callTool("never"))))
      yield* server.disconnect()
      for (const call of calls) assert.strictEqual((yield* Fiber.join(call))._tag, "Closed")
      assert.strictEqual((yield* reasonOf(client.callTool("now")))._tag, "Closed")
    }))

  it.effect("of its scope fails what waits elsewhere", () =>
    Effect.gen(function*() {
      const server = yield* peer
      const call = yield* Effect.scoped(Effect.gen(function*() {
        const client = yield* server.connect()
        return yield* Effect.forkDetach(reasonOf(client.callTool("never")), { startImmediately: true })
      }))
      assert.strictEqual((yield* Fiber.join(call))._tag, "Closed")
    }))
})

describe("many calls", SLOW, () => {
  // verifies: mcp.many-calls
  it.live("one after the other, 10,000 of them, each get their own answer", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect()
      for (let n = 0; n < 10_000; n++) {
        const text = `call ${n}`
        const result = yield* client.callTool("echo", { text })
        if (textOf(result) !== text) assert.fail(`${text} got ${textOf(result)}`)
      }
      assert.deepStrictEqual(yield* client.diagnostics, [])
    })))

  it.live("64 at a time each get their own answer, though some are given up", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect()
      let interrupted = 0
      yield* Effect.forEach(
        Array.from({ length: 10_000 }, (_, n) => n),
        Effect.fnUntraced(function*(n) {
          const text = `call ${n}`
          if (n % 7 !== 3) {
            return assert.strictEqual(textOf(yield* client.callTool("echo", { text })), text)
          }
          // Some before they are sent, some while they wait, some after the answer.
          const call = yield* Effect.forkChild(client.callTool("wait", { millis: n % 5, text }), {
            startImmediately: n % 2 === 0
          })
          yield* Effect.sleep(n % 9)
          yield* Fiber.interrupt(call)
          const exit = yield* Fiber.await(call)
          if (Exit.isSuccess(exit)) assert.strictEqual(textOf(exit.value), text)
          else interrupted++
        }),
        { concurrency: 64, discard: true }
      )
      assert.isAbove(interrupted, 0)
      const messages = yield* receivedBy(client)
      const taken = messages.filter(({ method }) => method === "notifications/cancelled")
      assert.isAtLeast(interrupted, taken.length)
      assert.isAbove(taken.length, 0)
    })))
})
