import { assert, describe, it } from "@effect/vitest"
import { ToolContext, ToolError, type ToolRegistry, ToolSettings } from "agcore"
import { Context, Deferred, Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { after, call, registryOf, settle, tool } from "./support.ts"

const timedOut = (timeoutMillis: number, stopped: boolean) => new ToolError.TimedOut({ timeoutMillis, stopped })

const reason = (registry: ToolRegistry.ToolRegistry["Service"], ...args: Parameters<typeof registry.invoke>) =>
  Effect.map(Effect.flip(registry.invoke(...args)), (error) => error.reason)

/** Work that notices nothing; it tells when it ends. */
const makeStubborn = () => {
  const go = Deferred.makeUnsafe<void>()
  const ended = Deferred.makeUnsafe<void>()
  return {
    end: Effect.andThen(Deferred.succeed(go, undefined), Deferred.await(ended)),
    work: Deferred.await(go).pipe(
      Effect.as("late"),
      Effect.ensuring(Deferred.succeed(ended, undefined)),
      Effect.uninterruptible
    )
  }
}

describe("timeout", () => {
  // verifies: invoke.timeout
  it.effect("stops the work and says so", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const registry = yield* registryOf(
        tool("slow", () =>
          Effect.never.pipe(
            Effect.onInterrupt(() => Effect.sync(() => log.push("interrupted"))),
            Effect.ensuring(Effect.sync(() => log.push("cleaned up")))
          ))
      )
      const fiber = yield* Effect.forkChild(reason(registry, call("slow"), { timeout: "5 seconds" }))
      yield* settle
      yield* TestClock.adjust("4999 millis")
      assert.deepStrictEqual(log, [])
      assert.deepStrictEqual(yield* after(fiber, "1 millis"), timedOut(5000, true))
      assert.deepStrictEqual(log, ["interrupted", "cleaned up"])
    }))

  it.effect("closes the scope of the call", () =>
    Effect.gen(function*() {
      let open = 0
      const registry = yield* registryOf(
        tool("slow", () =>
          Effect.acquireRelease(Effect.sync(() => ++open), () => Effect.sync(() => --open)).pipe(
            Effect.andThen(Effect.never)
          ))
      )
      const fiber = yield* Effect.forkChild(reason(registry, call("slow")))
      yield* settle
      assert.strictEqual(open, 1)
      assert.deepStrictEqual(yield* after(fiber, "60 seconds"), timedOut(60_000, true))
      assert.strictEqual(open, 0)
    }))

  it.effect("waits for cleaning up within the grace period", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(
        tool("slow", () => Effect.onInterrupt(Effect.never, () => Effect.sleep("900 millis")))
      )
      const fiber = yield* Effect.forkChild(reason(registry, call("slow"), { timeout: 1000 }))
      yield* settle
      yield* TestClock.adjust("1899 millis")
      assert.isUndefined(fiber.pollUnsafe())
      assert.deepStrictEqual(yield* after(fiber, "1 millis"), timedOut(1000, true))
    }))

  // verifies: invoke.timeout-still-running
  it.effect("answers after the grace period that the work is still running", () =>
    Effect.gen(function*() {
      const { end, work } = makeStubborn()
      const registry = yield* registryOf(tool("stubborn", () => work))
      const fiber = yield* Effect.forkChild(reason(registry, call("stubborn"), { timeout: 1000 }))
      const answer = yield* after(fiber, "2 seconds")
      assert.deepStrictEqual(answer, timedOut(1000, false))
      assert.isTrue(answer.isRecoverable)
      assert.include(answer.message, "still running")
      yield* end
      assert.strictEqual((yield* registry.stats).get("stubborn")?.calls, 1)
    }))

  // verifies: tool.signal
  it.effect("does not wait for a Promise that ignores its signal, and aborts the signal at once", () =>
    Effect.gen(function*() {
      let signal: AbortSignal | undefined
      let finish: (value: string) => void = () => {}
      const registry = yield* registryOf(
        tool("promise", () =>
          Effect.flatMap(ToolContext.ToolContext, (context) => {
            signal = context.signal
            return Effect.uninterruptible(Effect.promise(() =>
              new Promise<string>((resolve) => {
                finish = resolve
              })
            ))
          }))
      )
      const fiber = yield* Effect.forkChild(reason(registry, call("promise"), { timeout: 1000 }))
      yield* settle
      yield* TestClock.adjust("1 second")
      yield* settle
      assert.isTrue(signal?.aborted)
      assert.isUndefined(fiber.pollUnsafe())
      assert.deepStrictEqual(yield* after(fiber, "1 second"), timedOut(1000, false))
      finish("too late")
    }))

  it.effect("lets a Promise that heeds the signal clean up", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const registry = yield* registryOf(
        tool("promise", () =>
          Effect.flatMap(ToolContext.ToolContext, ({ signal }) =>
            Effect.uninterruptible(Effect.promise(() =>
              new Promise<string>((resolve) => {
                signal.addEventListener("abort", () => {
                  log.push("aborted")
                  resolve("partly")
                })
              })
            ))))
      )
      const fiber = yield* Effect.forkChild(reason(registry, call("promise"), { timeout: 1000 }))
      assert.deepStrictEqual(yield* after(fiber, "1 second"), timedOut(1000, true))
      assert.deepStrictEqual(log, ["aborted"])
    }))

  it.effect("answers in time although the handler swallows its interruption", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(
        tool("swallows", () =>
          Effect.uninterruptibleMask((restore) =>
            Effect.catchCause(restore(Effect.never), () =>
              Effect.succeed("as if nothing had happened"))
          ))
      )
      const fiber = yield* Effect.forkChild(reason(registry, call("swallows"), { timeout: 1000 }))
      assert.deepStrictEqual(yield* after(fiber, "1 second"), timedOut(1000, true))
    }))

  it.effect("holds in a caller that cannot be interrupted", () =>
    Effect.gen(function*() {
      const { end, work } = makeStubborn()
      const registry = yield* registryOf(tool("slow", () => Effect.never), tool("stubborn", () => work))
      const fiber = yield* registry.invokeAll([call("slow"), call("stubborn")], { timeout: 1000 }).pipe(
        Effect.uninterruptible,
        Effect.forkChild
      )
      const invocations = yield* after(fiber, "2 seconds")
      assert.deepStrictEqual(invocations.map(({ error }) => error?.reason), [
        timedOut(1000, true),
        timedOut(1000, false)
      ])
      yield* end
    }))

  // verifies: invoke.timeout-default
  it.effect("is the tool's own before the caller's before the default", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(
        tool("own", () => Effect.never, { timeout: "2 seconds" }),
        tool("other", () => Effect.never)
      ).pipe(Effect.provideService(ToolSettings.Timeout, Duration.seconds(4)))
      const all = yield* Effect.forkChild(Effect.all([
        reason(registry, call("own"), { timeout: "3 seconds" }),
        reason(registry, call("other"), { timeout: "3 seconds" }),
        reason(registry, call("other"))
      ], { concurrency: "unbounded" }))
      assert.deepStrictEqual(yield* after(all, "4 seconds"), [
        timedOut(2000, true),
        timedOut(3000, true),
        timedOut(4000, true)
      ])
    }))

  for (const timeout of [0, -5, Number.NaN, -Infinity]) {
    it.effect(`of ${timeout} leaves no time, and fails nothing else`, () =>
      Effect.gen(function*() {
        const registry = yield* registryOf(tool("slow", () => Effect.never), tool("quick", () => Effect.succeed("now")))
        const fiber = yield* Effect.forkChild(reason(registry, call("slow"), { timeout }))
        assert.deepStrictEqual(yield* after(fiber, 0), timedOut(0, true))
        assert.strictEqual((yield* registry.invoke(call("quick"))).output, "now")
      }))
  }

  for (const timeout of [Infinity, Duration.infinity, "1000 weeks"] as const) {
    it.effect(`of ${timeout} is as good as none`, () =>
      Effect.gen(function*() {
        const registry = yield* registryOf(tool("slow", () => Effect.as(Effect.sleep("900 weeks"), "done")))
        const fiber = yield* Effect.forkChild(registry.invoke(call("slow"), { timeout }))
        assert.strictEqual((yield* after(fiber, "900 weeks")).output, "done")
      }))
  }

  it("that is none shows where the tool is written", () => {
    assert.throws(() => tool("bad", () => Effect.succeed(1), { timeout: "soon" as never }))
  })

  // verifies: invoke.timeout-excludes-waiting
  it.effect("counts neither the wait for a key nor that for a permit", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(
        tool("first", () => Effect.as(Effect.sleep("900 millis"), 1), { exclusive: "key" }),
        tool("second", () => Effect.as(Effect.sleep("900 millis"), 2), { exclusive: "key" }),
        tool("third", () => Effect.as(Effect.sleep("900 millis"), 3))
      )
      const fiber = yield* Effect.forkChild(
        registry.invokeAll([call("first"), call("second"), call("third")], { timeout: 1000, concurrency: 1 })
      )
      yield* settle
      for (let i = 0; i < 3; i++) {
        yield* TestClock.adjust("900 millis")
        yield* settle
      }
      const invocations = yield* Fiber.join(fiber)
      assert.deepStrictEqual(invocations.map((one) => one.output), [1, 2, 3])
      assert.deepStrictEqual(invocations.map((one) => one.durationMillis), [900, 900, 900])
    }))

  it.effect("keeps progress of work that nobody waits for to itself", () =>
    Effect.gen(function*() {
      const { end, work } = makeStubborn()
      const heard: Array<unknown> = []
      const registry = yield* registryOf(tool("stubborn", () =>
        Effect.flatMap(ToolContext.ToolContext, (context) =>
          context.progress("early").pipe(
            Effect.andThen(Effect.ensuring(work, context.progress("late"))),
            Effect.uninterruptible
          ))))
      const fiber = yield* registry.invoke(call("stubborn"), {
        timeout: 1000,
        onProgress: (value) =>
          void heard.push(value)
      }).pipe(Effect.flip, Effect.forkChild)
      yield* after(fiber, "2 seconds")
      yield* end
      yield* settle
      assert.deepStrictEqual(heard, ["early"])
    }))

  it.effect("has a grace period that can be set", () =>
    Effect.gen(function*() {
      const { end, work } = makeStubborn()
      const registry = yield* registryOf(tool("stubborn", () => work)).pipe(
        Effect.provideContext(
          Context.make(ToolSettings.GracePeriod, Duration.zero).pipe(
            Context.add(ToolSettings.Timeout, Duration.seconds(1))
          )
        )
      )
      const fiber = yield* Effect.forkChild(reason(registry, call("stubborn")))
      assert.deepStrictEqual(yield* after(fiber, "1 second"), timedOut(1000, false))
      yield* end
    }))
})

describe("interruption", () => {
  // verifies: invoke.interruption
  it.effect("ends all tools of a batch and waits for them", () =>
    Effect.gen(function*() {
      const ended: Array<string> = []
      const names = ["a", "b", "c"]
      const registry = yield* registryOf(
        ...names.map((name) => tool(name, () => Effect.ensuring(Effect.never, Effect.sync(() => ended.push(name)))))
      )
      const fiber = yield* Effect.forkChild(registry.invokeAll(names.map((name) => call(name))))
      yield* settle
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(ended.sort(), names)
    }))

  it.effect("ends fibers that a handler left over", () =>
    Effect.gen(function*() {
      const ended = yield* Deferred.make<void>()
      const registry = yield* registryOf(
        tool("forks", () =>
          Effect.as(
            Effect.forkChild(Effect.ensuring(Effect.never, Deferred.succeed(ended, undefined)), {
              startImmediately: true
            }),
            "done"
          ))
      )
      assert.strictEqual((yield* registry.invoke(call("forks"))).output, "done")
      yield* Deferred.await(ended)
    }))

  it.effect("is answered in bounded time although the work goes on", () =>
    Effect.gen(function*() {
      const { end, work } = makeStubborn()
      const registry = yield* registryOf(tool("stubborn", () => work))
      const fiber = yield* Effect.forkChild(registry.invoke(call("stubborn")))
      yield* settle
      const interrupted = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* after(interrupted, "1 second")
      yield* end
    }))

  // verifies: tool.self-interruption
  it.effect("of a handler by itself is a failure of the tool, not of its caller", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(tool("quits", () => Effect.interrupt))
      const error = yield* Effect.flip(registry.invoke(call("quits")))
      assert.strictEqual(error.reason._tag, "ExecutionFailed")
    }))
})
