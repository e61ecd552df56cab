import { assert, describe, it } from "@effect/vitest"
import type { ToolRegistry } from "agcore"
import { Deferred, Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { after, call, makeGate, registryOf, settle, tool } from "./support.ts"

const output = (registry: ToolRegistry.ToolRegistry["Service"], name: string) =>
  Effect.map(registry.invoke(call(name)), (invocation) => invocation.output)

describe("exclusivity key", () => {
  // verifies: invoke.exclusive
  it.effect("runs calls one after the other, in call order, from different conversations", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const registry = yield* registryOf(tool("write", ({ who }) =>
        Effect.gen(function*() {
          log.push(`${who} in`)
          yield* settle
          log.push(`${who} out`)
          return null
        }), { exclusive: "file" }))
      yield* Effect.forEach(
        ["a", "b"],
        (sessionId) => registry.invokeAll([1, 2].map((n) => call("write", { who: `${sessionId}${n}` })), { sessionId }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        log,
        ["a1", "a2", "b1", "b2"].flatMap((who) => [`${who} in`, `${who} out`])
      )
    }))

  it.effect("comes from the parameters where it is a function; other keys are free", () =>
    Effect.gen(function*() {
      let inside = 0
      let most = 0
      const registry = yield* registryOf(tool("write", () =>
        Effect.gen(function*() {
          most = Math.max(most, ++inside)
          yield* settle
          inside--
          return null
        }), { exclusive: ({ path }) => String(path) }))
      const write = (...paths: ReadonlyArray<string>) =>
        registry.invokeAll(paths.map((path) => call("write", { path })))
      yield* write("x", "x", "x")
      assert.strictEqual(most, 1)
      yield* write("x", "y", "__proto__")
      assert.strictEqual(most, 3)
    }))

  // verifies: invoke.exclusive-first
  it.effect("is taken before a permit", () =>
    Effect.gen(function*() {
      const first = makeGate("first", { exclusive: "key" })
      const registry = yield* registryOf(
        first.tool,
        tool("second", () => Effect.succeed("second"), { exclusive: "key" }),
        tool("free", () => Effect.succeed("free"))
      )
      const holder = yield* Effect.forkChild(registry.invoke(call("first")))
      yield* first.entered
      const done: Array<string> = []
      const waiting = yield* registry.invokeAll([call("second"), call("free")], { concurrency: 1 }).pipe(
        Effect.ensuring(Effect.sync(() => done.push("batch"))),
        Effect.forkChild
      )
      yield* settle
      assert.strictEqual((yield* registry.stats).get("free")?.calls, 1)
      yield* first.leave
      yield* Fiber.join(holder)
      assert.deepStrictEqual((yield* Fiber.join(waiting)).map((one) => one.output), ["second", "free"])
    }))

  // verifies: invoke.exclusive-reentrant
  it.effect("lets a tool that holds it call back with it, not another one meanwhile", () =>
    Effect.gen(function*() {
      const inside = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      const registry: ToolRegistry.ToolRegistry["Service"] = yield* registryOf()
      yield* registry.registerAll([
        tool("inner", () => Effect.succeed("inner"), { exclusive: "key" }),
        tool("outer", () =>
          Effect.gen(function*() {
            yield* Deferred.succeed(inside, undefined)
            yield* Deferred.await(goOn)
            const { output } = yield* Effect.orDie(registry.invoke(call("inner")))
            return `outer ${output}`
          }), { exclusive: "key" })
      ])
      const outer = yield* Effect.forkChild(output(registry, "outer"))
      yield* Deferred.await(inside)
      const stranger = yield* Effect.forkChild(output(registry, "inner"))
      yield* settle
      assert.isUndefined(stranger.pollUnsafe())
      yield* Deferred.succeed(goOn, undefined)
      assert.strictEqual(yield* Fiber.join(outer), "outer inner")
      assert.strictEqual(yield* Fiber.join(stranger), "inner")
    }))

  it.effect("is not passed on to work that outlives its call", () =>
    Effect.gen(function*() {
      const goOn = yield* Deferred.make<void>()
      const leftOver = yield* Deferred.make<Fiber.Fiber<Schema.Json | undefined, unknown>>()
      const gate = makeGate("gate", { exclusive: "key" })
      const registry: ToolRegistry.ToolRegistry["Service"] = yield* registryOf(
        gate.tool,
        tool("inner", () => Effect.succeed("inner"), { exclusive: "key" })
      )
      yield* registry.register(tool("outer", () =>
        Deferred.await(goOn).pipe(
          Effect.andThen(output(registry, "inner")),
          Effect.forkDetach,
          Effect.andThen((fiber) => Deferred.succeed(leftOver, fiber)),
          Effect.as(null)
        ), { exclusive: "key" }))
      yield* registry.invoke(call("outer"))
      const holder = yield* Effect.forkChild(registry.invoke(call("gate")))
      yield* gate.entered
      yield* Deferred.succeed(goOn, undefined)
      yield* settle
      const fiber = yield* Deferred.await(leftOver)
      assert.isUndefined(fiber.pollUnsafe())
      yield* gate.leave
      yield* Fiber.join(holder)
      assert.strictEqual(yield* Fiber.join(fiber), "inner")
    }))

  it.effect("of one registry says nothing about another's", () =>
    Effect.gen(function*() {
      const gate = makeGate("gate", { exclusive: "key" })
      const other = yield* registryOf(gate.tool, tool("inner", () => Effect.succeed("inner"), { exclusive: "key" }))
      const own = yield* registryOf(
        tool("outer", () => Effect.orDie(Effect.map(output(other, "inner"), String)), { exclusive: "key" })
      )
      const holder = yield* Effect.forkChild(other.invoke(call("gate")))
      yield* gate.entered
      const outer = yield* Effect.forkChild(output(own, "outer"))
      yield* settle
      assert.isUndefined(outer.pollUnsafe())
      yield* gate.leave
      yield* Fiber.join(holder)
      assert.strictEqual(yield* Fiber.join(outer), "inner")
    }))

  describe("held by abandoned work", () => {
    const setUp = Effect.gen(function*() {
      const goOn = yield* Deferred.make<void>()
      const registry = yield* registryOf(
        tool("stubborn", () => Effect.as(Effect.uninterruptible(Deferred.await(goOn)), null), { exclusive: "key" }),
        tool("next", () => Effect.succeed("next"), { exclusive: "key" })
      )
      const holder = yield* registry.invoke(call("stubborn"), { timeout: 1000 }).pipe(Effect.flip, Effect.forkChild)
      yield* settle
      return { goOn, holder, registry }
    })
    const why = (registry: ToolRegistry.ToolRegistry["Service"]) =>
      Effect.map(
        Effect.flip(registry.invoke(call("next"))),
        ({ reason }) => reason._tag === "NotExecuted" ? reason.why : reason._tag
      )

    it.effect("answers those who wait and those who come, until it ends", () =>
      Effect.gen(function*() {
        const { goOn, holder, registry } = yield* setUp
        const waiting = yield* Effect.forkChild(Effect.all([why(registry), why(registry)], {
          concurrency: "unbounded"
        }))
        yield* settle
        assert.isUndefined(waiting.pollUnsafe())
        const error = yield* after(holder, "2 seconds")
        assert.strictEqual(error.reason._tag, "TimedOut")
        assert.deepStrictEqual(yield* Fiber.join(waiting), ["busy", "busy"])
        assert.strictEqual(yield* why(registry), "busy")
        yield* Deferred.succeed(goOn, undefined)
        yield* settle
        assert.strictEqual(yield* output(registry, "next"), "next")
      }))

    it.effect("also where the caller was interrupted", () =>
      Effect.gen(function*() {
        const { goOn, holder, registry } = yield* setUp
        const interrupted = yield* Effect.forkChild(Fiber.interrupt(holder))
        yield* after(interrupted, "2 seconds")
        assert.strictEqual(yield* why(registry), "busy")
        yield* Deferred.succeed(goOn, undefined)
        yield* settle
        assert.strictEqual(yield* output(registry, "next"), "next")
      }))

    it.effect("also where it was started under the key of its caller", () =>
      Effect.gen(function*() {
        const { goOn, holder, registry } = yield* setUp
        yield* Deferred.succeed(goOn, undefined)
        yield* settle
        yield* Fiber.await(holder)

        const end = yield* Deferred.make<void>()
        yield* registry.registerAll([
          tool("inner", () => Effect.as(Effect.uninterruptible(Deferred.await(end)), null), {
            exclusive: "key",
            timeout: 1000
          }),
          tool("outer", () => Effect.as(Effect.ignore(registry.invoke(call("inner"))), "outer"), { exclusive: "key" })
        ])
        const outer = yield* Effect.forkChild(output(registry, "outer"))
        assert.strictEqual(yield* after(outer, "2 seconds"), "outer")
        assert.strictEqual(yield* why(registry), "busy")
        yield* Deferred.succeed(end, undefined)
        yield* settle
        assert.strictEqual(yield* output(registry, "next"), "next")
      }))
  })

  it.effect("is passed through two thousand calls", () =>
    Effect.gen(function*() {
      let runs = 0
      const registry = yield* registryOf(tool("count", () => Effect.sync(() => ++runs), { exclusive: "key" }))
      yield* registry.invokeAll(Array.from({ length: 2_000 }, () => call("count")), { timeout: Infinity })
      assert.strictEqual(runs, 2_000)
    }), 30_000)

  it.effect.prop(
    "is free again wherever its callers were interrupted",
    {
      interruptAt: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40 }))).check(
        Schema.isMinLength(1),
        Schema.isMaxLength(6)
      ),
      concurrency: Schema.Literals([1, 2, "unbounded"])
    },
    ({ concurrency, interruptAt }) =>
      Effect.gen(function*() {
        let inside = 0
        const registry = yield* registryOf(
          tool("work", () =>
            Effect.gen(function*() {
              assert.strictEqual(++inside, 1)
              yield* Effect.yieldNow
              yield* Effect.yieldNow
              return null
            }).pipe(Effect.ensuring(Effect.sync(() => inside--))), { exclusive: "key" }),
          tool("busy", () => Effect.as(settle, null))
        )
        const fibers = yield* Effect.forEach(interruptAt, (yields) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.forkDetach(
              registry.invokeAll([call("busy"), call("work"), call("work")], { concurrency, timeout: Infinity })
            )
            yield* Effect.repeat(Effect.yieldNow, { times: yields })
            return fiber
          }))
        yield* Effect.forEach(fibers, (fiber) => Fiber.interrupt(fiber))
        assert.strictEqual(yield* output(registry, "work"), null)
        assert.strictEqual(inside, 0)
      }),
    { arbitrary: { runs: 50 }, timeout: 30_000 }
  )

  it.effect("is given back when a wait for a permit is interrupted", () =>
    Effect.gen(function*() {
      const gate = makeGate("gate")
      const registry = yield* registryOf(
        gate.tool,
        tool("work", () => Effect.succeed("work"), { exclusive: "key" })
      )
      const batch = yield* Effect.forkChild(registry.invokeAll([call("gate"), call("work")], { concurrency: 1 }))
      yield* gate.entered
      yield* settle
      yield* Fiber.interrupt(batch)
      assert.strictEqual(yield* output(registry, "work"), "work")
      yield* TestClock.adjust(0)
    }))
})
