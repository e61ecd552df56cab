/*
 * One submit at a time, and what interruption leaves, whichever loop takes the
 * turns.
 */
import { assert, describe, it } from "@effect/vitest"
import { PermissionPolicy } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Deferred, Effect, Exit, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { callsOf, type Cycle, type Driver, makeCycle, outline, plain, reasonOf, results } from "../llm/support.ts"
import { settle, succeed, tool } from "../tools/support.ts"

const { text } = ScriptedModel

/** A response that begins when it is let go. */
const makeHold = (turn: ScriptedModel.ScriptedTurn) => {
  const entered = Deferred.makeUnsafe<void>()
  const leave = Deferred.makeUnsafe<void>()
  let isInterrupted = false
  return {
    entered: Deferred.await(entered),
    leave: Deferred.succeed(leave, undefined),
    isInterrupted: () => isInterrupted,
    turn: {
      ...turn,
      before: Deferred.succeed(entered, undefined).pipe(
        Effect.andThen(Deferred.await(leave)),
        Effect.onInterrupt(() => Effect.sync(() => isInterrupted = true))
      )
    }
  }
}

/** A tool that submits to a cycle that is made after it, and says why that failed. */
const makeCaller = (name: string, driver: Driver) => {
  const target: { cycle: Cycle | undefined } = { cycle: undefined }
  return {
    target,
    tool: tool(name, () =>
      Effect.suspend(() => driver.submit(target.cycle!, `from ${name}`)).pipe(
        Effect.match({ onFailure: ({ reason }) => reason._tag, onSuccess: (result) => result.text })
      ))
  }
}

export const placeSuite = (driver: Driver): void => {
  const { name, submit } = driver

  describe(name, () => {
    // verifies: cycle.queue
    it.effect("takes submits in the order they came", () =>
      Effect.gen(function*() {
        const first = makeHold(text("1"))
        const { check, cycle, requests } = yield* makeCycle({ script: [first.turn, text("2"), text("3"), text("4")] })
        const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
        for (const [prompt, each] of [["a", driver], ["b", plain], ["c", driver], ["d", plain]] as const) {
          fibers.push(yield* Effect.forkChild(each.submit(cycle, prompt)))
          yield* settle
        }
        yield* first.entered
        // What waits has not said anything yet.
        assert.deepStrictEqual(outline(yield* cycle.messages), ["user:a"])
        yield* first.leave
        yield* Effect.forEach(fibers, Fiber.join)
        assert.deepStrictEqual(outline(yield* cycle.messages), [
          "user:a",
          "assistant:1",
          "user:b",
          "assistant:2",
          "user:c",
          "assistant:3",
          "user:d",
          "assistant:4"
        ])
        assert.strictEqual((yield* requests).length, 4)
        yield* check
      }))

    it.effect("leaves nothing of a submit that was interrupted while it waited", () =>
      Effect.gen(function*() {
        const first = makeHold(text("1"))
        const { cycle } = yield* makeCycle({ script: [first.turn, text("2")] })
        const fiber = yield* Effect.forkChild(submit(cycle, "a"))
        yield* first.entered
        const waiting = yield* Effect.forkChild(submit(cycle, "b"))
        yield* settle
        yield* Fiber.interrupt(waiting)
        yield* first.leave
        yield* Fiber.join(fiber)
        assert.strictEqual((yield* submit(cycle, "c")).text, "2")
        assert.deepStrictEqual(outline(yield* cycle.messages), ["user:a", "assistant:1", "user:c", "assistant:2"])
      }))

    for (const inner of [plain, driver]) {
      it.effect(`is busy for a tool that submits to it with ${inner.name}`, () =>
        Effect.gen(function*() {
          const caller = makeCaller("call", inner)
          const { check, cycle } = yield* makeCycle({
            tools: [caller.tool],
            script: [callsOf("call"), text("ok"), text("free")]
          })
          caller.target.cycle = cycle
          yield* submit(cycle, "go")
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), ["Busy"])
          assert.strictEqual((yield* submit(cycle, "on")).text, "free")
          yield* check
        }))

      it.effect(`is busy for a tool of another cycle that it has asked itself, with ${inner.name}`, () =>
        Effect.gen(function*() {
          const toB = makeCaller("b", inner)
          const toA = makeCaller("a", inner)
          const a = yield* makeCycle({ tools: [toB.tool], script: [callsOf("b"), text("ok")] })
          const b = yield* makeCycle({ tools: [toA.tool], script: [callsOf("a"), text("from B")] })
          toA.target.cycle = a.cycle
          toB.target.cycle = b.cycle
          yield* submit(a.cycle, "go")
          assert.deepStrictEqual(results(yield* a.cycle.messages).map(({ result }) => result), ["from B"])
          assert.deepStrictEqual(results(yield* b.cycle.messages).map(({ result }) => result), ["Busy"])
          yield* a.check
          yield* b.check
        }))
    }

    it.effect("is busy for a fiber that a tool has started, but no longer when the submit is over", () =>
      Effect.gen(function*() {
        const target: { cycle: Cycle | undefined } = { cycle: undefined }
        const late = yield* Deferred.make<void>()
        const answers: Array<string> = []
        const again = Effect.suspend(() => submit(target.cycle!, "again")).pipe(
          Effect.match({ onFailure: ({ reason }) => reason._tag, onSuccess: (result) => result.text }),
          Effect.map((answer) => answers.push(answer))
        )
        const { cycle } = yield* makeCycle({
          tools: [
            tool("start", () =>
              Effect.gen(function*() {
                yield* Fiber.join(yield* Effect.forkChild(again))
                yield* Effect.forkDetach(Effect.andThen(Deferred.await(late), again))
                return "started"
              }))
          ],
          script: [callsOf("start"), text("ok"), text("welcome")]
        })
        target.cycle = cycle
        yield* submit(cycle, "go")
        yield* Deferred.succeed(late, undefined)
        yield* settle
        yield* settle
        assert.deepStrictEqual(answers, ["Busy", "welcome"])
      }))

    it.effect("interrupts the request of the model", () =>
      Effect.gen(function*() {
        const first = makeHold(text("1"))
        const { check, cycle } = yield* makeCycle({ script: [first.turn, text("2")] })
        const fiber = yield* Effect.forkChild(submit(cycle, "a"))
        yield* first.entered
        yield* Fiber.interrupt(fiber)
        assert.isTrue(first.isInterrupted())
        assert.strictEqual((yield* submit(cycle, "b")).text, "2")
        assert.deepStrictEqual(outline(yield* cycle.messages), ["user:a", "user:b", "assistant:2"])
        yield* check
      }))

    // verifies: history.interruption
    it.effect("interrupts running tools, starts no other, and keeps what has settled", () =>
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
          config: { toolConcurrency: 2 },
          script: [callsOf("quick", "hang", "hang", "hang"), text("ok")]
        })
        const fiber = yield* Effect.forkChild(submit(cycle, "go"))
        yield* settle
        assert.strictEqual(running, 2)
        const exit = yield* Effect.andThen(Fiber.interrupt(fiber), Fiber.await(fiber))
        assert.isTrue(Exit.hasInterrupts(exit))
        yield* settle
        assert.strictEqual(running, 0)
        const interrupted = "Interrupted while running: whether it took effect is unknown."
        assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), [
          "quick",
          interrupted,
          interrupted,
          "Error: not executed: the conversation was interrupted before it ran"
        ])
        yield* check
        assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
      }))

    it.effect("starts nothing after an interruption while the policy is asked", () =>
      Effect.gen(function*() {
        let runs = 0
        const asked = yield* Deferred.make<void>()
        const { check, cycle } = yield* makeCycle({
          tools: [tool("work", () => Effect.sync(() => ++runs))],
          policy: PermissionPolicy.layerCheck(({ toolCallId }) =>
            toolCallId === "call-1-1"
              ? Effect.succeed(PermissionPolicy.allow)
              : Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
          ),
          script: [callsOf("work", "work"), text("ok")]
        })
        const fiber = yield* Effect.forkChild(submit(cycle, "go"))
        yield* Deferred.await(asked)
        yield* Fiber.interrupt(fiber)
        yield* settle
        assert.strictEqual(runs, 0)
        assert.deepStrictEqual(results(yield* cycle.messages).map(({ isFailure }) => isFailure), [true, true])
        yield* check
        assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
      }))

    it.effect("does not wait for a tool that does not stop longer than its grace period", () =>
      Effect.gen(function*() {
        const end = yield* Deferred.make<void>()
        const { check, cycle } = yield* makeCycle({
          tools: [tool("stubborn", () => Effect.as(Effect.uninterruptible(Deferred.await(end)), "late"))],
          script: [callsOf("stubborn"), callsOf("nothing"), text("ok")],
          config: { errorPolicy: { NotFound: "tell" } }
        })
        const fiber = yield* Effect.forkChild(submit(cycle, "go"))
        yield* settle
        const interrupted = yield* Effect.forkChild(Fiber.interrupt(fiber))
        yield* settle
        assert.strictEqual(fiber.pollUnsafe(), undefined)
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(interrupted)
        const next = yield* Effect.forkChild(submit(cycle, "on"))
        // What it comes to in the end is nobody's answer any more.
        yield* Deferred.succeed(end, undefined)
        assert.strictEqual((yield* Fiber.join(next)).text, "ok")
        assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), [
          "Interrupted while running: whether it took effect is unknown.",
          "Error: not found; available: stubborn"
        ])
        yield* check
      }))

    it.effect("goes on after a function of its configuration has died", () =>
      Effect.gen(function*() {
        const dying: Array<string> = []
        const die = (name: string) => {
          if (!dying.includes(name)) throw new Error(dying[dying.push(name) - 1])
        }
        const { check, cycle } = yield* makeCycle({
          tools: [succeed("look")],
          config: {
            compaction: () => Effect.sync(() => die("compaction") as undefined),
            prepareTurn: () => Effect.sync(() => ({ system: String(die("prepareTurn")) })),
            stopWhen: () => die("stopWhen") !== undefined
          },
          script: (_, count) => count === 1 ? callsOf("look") : text("ok")
        })
        for (const name of ["compaction", "prepareTurn", "stopWhen"]) {
          const exit = yield* Effect.exit(submit(cycle, name))
          assert.isTrue(Exit.isFailure(exit) && exit.cause.reasons.every((reason) => reason._tag === "Die"))
          assert.strictEqual(dying.at(-1), name)
          yield* check
        }
        assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
        yield* check
      }))

    it.effect("can be run again and again: a submit is a value", () =>
      Effect.gen(function*() {
        const { check, cycle } = yield* makeCycle({
          tools: [succeed("look")],
          script: (_, count) => count % 2 === 1 ? callsOf("look") : text("ok")
        })
        yield* Effect.repeat(submit(cycle, "go"), { times: 4 })
        assert.strictEqual((yield* cycle.messages).length, 20)
        yield* check
      }))

    it.effect("does not wait for another conversation over the same model and tools", () =>
      Effect.gen(function*() {
        const first = makeHold(text("1"))
        const a = yield* makeCycle({ script: [first.turn] })
        const b = yield* makeCycle({ script: [text("2")] })
        const fiber = yield* Effect.forkChild(submit(a.cycle, "go"))
        yield* first.entered
        assert.strictEqual((yield* submit(b.cycle, "go")).text, "2")
        yield* first.leave
        yield* Fiber.join(fiber)
      }))

    // verifies: cycle.busy
    it.effect("says busy as a typed error before anything else", () =>
      Effect.gen(function*() {
        const { cycle } = yield* makeCycle({ script: [text("1")] })
        const reason = yield* cycle.submitStream("go").pipe(
          Stream.runForEach(() => Effect.asVoid(submit(cycle, "inside"))),
          reasonOf
        )
        assert.strictEqual(reason._tag, "Busy")
      }))
  })
}
