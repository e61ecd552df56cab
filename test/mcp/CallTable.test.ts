/** What cannot be seen through public names: that no call stays in the table. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { makeCalls } from "../../src/mcp/internal/calls.ts"
import type { Transport } from "../../src/mcp/internal/transport.ts"

const exchange = { protocol: { era: "legacy", version: "2025-11-25" } } as const

const transport = (sent: Array<number>, room: () => boolean): Transport => ({
  kind: "memory",
  label: "test",
  start: () => Effect.void,
  request: () => Effect.never,
  notify: () => Effect.void,
  agreed: () => {},
  offer(message) {
    if (!room()) return false
    if ("id" in message && typeof message.id === "number") sent.push(message.id)
    return true
  }
})

/** What becomes of a call. */
const Fate = Schema.Literals(["answered", "interrupted", "timed out", "no room", "twice"])

describe("the table of calls", () => {
  it.effect.prop(
    "is empty when every call has met its fate, and each met its own",
    { fates: Schema.Array(Fate) },
    ({ fates }) =>
      Effect.gen(function*() {
        const sent: Array<number> = []
        let room = true
        const calls = yield* makeCalls(transport(sent, () => room), "test")
        const waiting = yield* Effect.forEach(fates, (fate) => {
          room = fate !== "no room"
          return Effect.forkChild(
            Effect.exit(calls.call("m", {}, { exchange, timeoutMillis: fate === "timed out" ? 10 : 1_000 })),
            { startImmediately: true }
          )
        })
        const ids = calls.waiting()
        assert.strictEqual(ids.length, fates.length)
        for (const [index, fate] of fates.entries()) {
          const id = ids[index] ?? -1
          if (fate === "answered" || fate === "twice") assert.isTrue(calls.answer(id, index))
          if (fate === "twice") assert.isFalse(calls.answer(id, "again"))
          if (fate === "interrupted") yield* Fiber.interrupt(waiting[index]!)
        }
        yield* TestClock.adjust(10)
        for (const [index, fate] of fates.entries()) {
          const exit = waiting[index]!.pollUnsafe()
          if (fate === "answered" || fate === "twice") assert.strictEqual(exit?._tag, "Success")
          if (fate === "timed out") assert.strictEqual(exit?._tag, "Success")
        }
        yield* TestClock.adjust(1_000)
        assert.deepStrictEqual(calls.waiting(), [])
      }).pipe(Effect.scoped)
  )

  it.effect("does not keep a call whose arguments JSON cannot hold", () =>
    Effect.gen(function*() {
      const calls = yield* makeCalls(
        { ...transport([], () => true), offer: (message) => JSON.stringify(message) !== "" },
        "test"
      )
      const exit = yield* Effect.exit(calls.call("m", { big: 1n }, { exchange, timeoutMillis: 1_000 }))
      assert.strictEqual(exit._tag, "Failure")
      assert.deepStrictEqual(calls.waiting(), [])
    }).pipe(Effect.scoped))
})
