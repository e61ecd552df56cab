/*
 * What holds of every conversation, whatever the model and the tools do and
 * whenever it is interrupted.
 */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { type CycleError, PermissionPolicy, Tool, ToolContext } from "agcore"
import type { ScriptedModel } from "agcore/testing"
import { Effect, Exit, Fiber, Option, type Scheduler, Schema } from "effect"
import type { Response } from "effect/ai"
import { settle, tool } from "../tools/support.ts"
import {
  callsOf,
  checkMessages,
  type Cycle,
  type Driver,
  drivers,
  makeCycle,
  overloaded,
  refused,
  untilEnd
} from "./support.ts"

// =============================================================================
// Conversations
// =============================================================================

const KINDS = [
  "success",
  "failure",
  "denied",
  "unknown",
  "bad_arguments",
  "no_json",
  "defect",
  "timeout",
  "leaves",
  "slow",
  "exclusive",
  "progress",
  "submits"
] as const

const Call = Schema.Struct({
  kind: Schema.Literals(KINDS),
  id: Schema.Literals(["own", "same", "other", ""])
})

const FINISHES: ReadonlyArray<Response.FinishReason | null | undefined> = [
  undefined,
  undefined,
  undefined,
  undefined,
  "stop",
  "tool-calls",
  "other",
  "length",
  "content-filter",
  "error",
  "pause",
  "unknown",
  null
]

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

const Turn = Schema.Struct({
  text: Schema.Literals(["", "Hello there."]),
  reasoning: Schema.Literals(["", "Hm."]),
  calls: Schema.Array(Call).check(Schema.isMaxLength(4)),
  finish: upTo(FINISHES.length - 1),
  /** 0: fails once and may be asked again; 1: fails for good; 2: fails after it has begun. */
  error: upTo(15)
})
type Turn = typeof Turn.Type

const Settings = Schema.Struct({
  maxTurns: Schema.Literals([1, 2, 4, 10]),
  concurrency: Schema.Literals([1, 2, "unbounded"]),
  tellsAll: Schema.Boolean,
  budget: Schema.Literals([5, 25, 1_000]),
  onExceeded: Schema.Literals(["fail", "pause", "last-turn"])
})

const Submit = Schema.Struct({
  turns: Schema.Array(Turn).check(Schema.isMaxLength(5)),
  streams: Schema.Boolean,
  withTools: upTo(5),
  /** How many steps it is given; more than that: it runs to its end. */
  interruptAt: upTo(120)
})

const MAX_STEPS = 60

const toScripted = (turn: Turn): ScriptedModel.ScriptedTurn => ({
  text: turn.text,
  reasoning: turn.reasoning,
  calls: turn.calls.map(({ id, kind }) => ({
    ...(id === "own" ? undefined : { id }),
    name: kind,
    params: kind === "no_json" ? "{\"a\":" : kind === "bad_arguments" ? { n: "text" } : { n: 1 }
  })),
  finishReason: FINISHES[turn.finish],
  usage: { input: 4, output: 3 },
  ...(turn.error === 1 ? { error: refused, text: "", reasoning: "", calls: [] } : undefined),
  ...(turn.error === 2 ? { error: refused } : undefined)
})

/** A cycle whose tools look at the transcript from inside and count what they do. */
const makeWorld = Effect.fnUntraced(function*(settings: typeof Settings.Type) {
  const violations: Array<string> = []
  const served = new Set<string>()
  let alive = 0
  let asking = 0
  let isStopped = false
  let cycle: Cycle | undefined

  const look = Effect.suspend(() =>
    Effect.map(cycle!.messages, (messages) => {
      try {
        checkMessages(messages)
      } catch (error) {
        violations.push(String(error))
      }
    })
  )

  const observed = (
    name: typeof KINDS[number],
    handler: Effect.Effect<string, string, ToolContext.ToolContext>,
    options?: Partial<Tool.DynamicOptions<never, typeof Schema.String>>
  ) =>
    Tool.dynamic({
      name,
      description: name,
      inputSchema: { type: "object", properties: { n: { type: "number" } } },
      failure: Schema.String,
      handler: () =>
        Effect.gen(function*() {
          const { idempotencyKey } = yield* ToolContext.ToolContext
          alive++
          if (served.has(idempotencyKey)) violations.push(`${idempotencyKey} is served twice`)
          served.add(idempotencyKey)
          if (isStopped) violations.push(`${name} starts after the interruption`)
          yield* look
          const answer = yield* handler
          if (isStopped) violations.push(`${name} goes on after the interruption`)
          yield* look
          return answer
        }).pipe(Effect.ensuring(Effect.sync(() => alive--))),
      ...options
    })

  let inside = 0
  const tools = [
    observed("success", Effect.succeed("ok")),
    observed("failure", Effect.fail("not today")),
    observed("denied", Effect.succeed("no")),
    observed("bad_arguments", Effect.succeed("no")),
    observed("no_json", Effect.succeed("no")),
    observed("defect", Effect.die(new Error("broken"))),
    observed("timeout", Effect.never),
    observed("leaves", Effect.interrupt),
    observed("slow", Effect.as(Effect.sleep("20 seconds"), "slow")),
    observed(
      "exclusive",
      Effect.gen(function*() {
        if (++inside > 1) violations.push("two hold the key")
        yield* Effect.yieldNow
        return "alone"
      }).pipe(Effect.ensuring(Effect.sync(() => inside--))),
      { exclusive: "key" }
    ),
    observed(
      "progress",
      Effect.gen(function*() {
        const { progress } = yield* ToolContext.ToolContext
        for (let i = 0; i < 100; i++) yield* progress(i)
        return "done"
      })
    ),
    observed(
      "submits",
      Effect.suspend(() => cycle!.submit("from inside")).pipe(
        Effect.match({ onFailure: ({ reason }) => reason._tag, onSuccess: () => "it was let in" })
      )
    )
  ]

  let turns: ReadonlyArray<Turn> = []
  let position = 0
  let hasFailed = false
  const made = yield* makeCycle({
    tools,
    policy: PermissionPolicy.layerCheck(({ tool }) =>
      Effect.succeed(tool.name === "denied" ? PermissionPolicy.deny("no") : PermissionPolicy.allow)
    ),
    config: {
      sessionId: "s",
      maxTurns: settings.maxTurns,
      toolConcurrency: settings.concurrency,
      budget: { tokens: settings.budget, onExceeded: settings.onExceeded },
      ...(settings.tellsAll ? { errorPolicy: { NotFound: "tell", PermissionDenied: "tell" } } : undefined)
    },
    script: () => {
      const turn = turns[position]
      const before = Effect.andThen(
        Effect.sync(() => asking++),
        Effect.ensuring(Effect.yieldNow, Effect.sync(() => asking--))
      )
      if (turn?.error === 0 && !hasFailed) {
        hasFailed = true
        return { error: overloaded(), before }
      }
      position++
      hasFailed = false
      return { ...(turn === undefined ? { text: "done" } : toScripted(turn)), before }
    }
  })
  cycle = made.cycle

  return {
    ...made,
    play: (all: ReadonlyArray<Turn>) => {
      turns = all
      position = 0
      hasFailed = false
      isStopped = false
    },
    stopped: () => {
      isStopped = true
    },
    /** Nothing runs, nothing was seen to break, and the conversation goes on. */
    checkAtRest: Effect.gen(function*() {
      yield* settle
      assert.deepStrictEqual(violations, [])
      assert.deepStrictEqual([alive, asking], [0, 0])
      yield* made.check
    })
  }
})

/** What a submit came to, in a form that can be compared. */
const summary = (exit: Exit.Exit<unknown, CycleError.CycleError>): unknown => {
  if (Exit.isSuccess(exit)) return exit.value
  const [reason] = exit.cause.reasons
  if (reason?._tag !== "Fail") return reason?._tag
  const { invocations, message, turns, usage } = reason.error
  return {
    message,
    turns,
    usage,
    invocations: invocations.map(({ input, result, toolCallId, toolName }) => ({ toolCallId, toolName, input, result }))
  }
}

describe("a conversation", () => {
  // verifies: cycle.stream, cycle.one-rule, event.rejected, event.last
  it.effect.prop(
    "goes the same way in both loops",
    { settings: Settings, turns: Schema.Array(Turn).check(Schema.isMaxLength(6)) },
    ({ settings, turns }) =>
      Effect.gen(function*() {
        const comparable = turns.map((turn) => turn.error === 2 ? { ...turn, error: 3 } : turn)
        const all = yield* Effect.forEach(drivers, (driver) =>
          Effect.gen(function*() {
            const world = yield* makeWorld(settings)
            world.play(comparable)
            const first = yield* untilEnd(yield* Effect.forkChild(driver.submit(world.cycle, "go")))
            const second = yield* untilEnd(yield* Effect.forkChild(driver.submit(world.cycle, "on")))
            yield* world.checkAtRest
            return {
              outcomes: [summary(first), summary(second)],
              messages: JSON.stringify(yield* world.cycle.messages),
              prompts: (yield* world.requests).map(({ prompt }) => JSON.stringify(prompt.content)),
              turns: (yield* world.cycle.history).turns
            }
          }))
        assert.deepStrictEqual(all[1], all[0])
      }),
    { arbitrary: { runs: 150 }, timeout: 300_000 }
  )

  it.effect.prop(
    // verifies: history.invariant, cycle.usable-after-failure
    "stays sound whatever happens and whenever it is interrupted, and goes on",
    {
      settings: Settings,
      submits: Schema.Array(Submit).check(Schema.isMinLength(1), Schema.isMaxLength(3))
    },
    ({ settings, submits }) =>
      Effect.gen(function*() {
        const world = yield* makeWorld(settings)
        for (const { interruptAt, streams, turns, withTools } of submits) {
          world.play(turns)
          const driver = drivers[streams ? 1 : 0]!
          const fiber = yield* Effect.forkChild(driver.submit(world.cycle, "go", { tools: withTools > 0 }))
          if (interruptAt < MAX_STEPS) {
            yield* Effect.repeat(Effect.yieldNow, { times: interruptAt })
            checkMessages(yield* world.cycle.messages)
            yield* Fiber.interrupt(fiber)
            world.stopped()
          } else {
            yield* untilEnd(fiber)
          }
          yield* world.checkAtRest
        }
        world.play([])
        const last = yield* untilEnd(yield* Effect.forkChild(drivers[1]!.submit(world.cycle, "on")))
        assert.isTrue(Exit.isSuccess(last))
        yield* world.checkAtRest
      }),
    { arbitrary: { runs: 250 }, timeout: 300_000 }
  )
})

// =============================================================================
// Every step
// =============================================================================

/** Runs one step of one fiber at a time, each no longer than one operation. */
const makeSteps = () => {
  const tasks: Array<() => void> = []
  const scheduler: Scheduler.Scheduler = {
    executionMode: "async",
    // Two go by until the operation that was put off is reached.
    shouldYield: (fiber) => fiber.currentOpCount >= 3,
    makeDispatcher: () => ({ scheduleTask: (task) => tasks.push(task), flush: () => {} })
  }
  const run = (most: number): number => {
    let done = 0
    for (; done < most; done++) {
      const task = tasks.shift()
      if (task === undefined) break
      task()
    }
    return done
  }
  const finish = <A, E>(effect: Effect.Effect<A, E>): Exit.Exit<A, E> => {
    const fiber = Effect.runFork(effect, { scheduler })
    run(Infinity)
    const exit = fiber.pollUnsafe()
    if (exit === undefined) throw new Error("it waits for something")
    return exit
  }
  return { scheduler, run, finish }
}

/** Answers whether the submit was over before it could be interrupted. */
const interruptAfter = (driver: Driver, steps: number): boolean => {
  const { finish, run, scheduler } = makeSteps()
  let alive = 0
  let started = 0
  const target: { cycle: Cycle | undefined } = { cycle: undefined }
  const look = Effect.suspend(() => Effect.map(target.cycle!.messages, checkMessages))
  const work = (name: string, options?: Partial<Tool.DynamicOptions<never>>) =>
    tool(name, () =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          alive++
          started++
        }),
        () => Effect.as(Effect.andThen(look, Effect.andThen(Effect.yieldNow, look)), name),
        () => Effect.sync(() => alive--)
      ), options)

  const { check, cycle } = Exit.getSuccess(finish(makeCycle({
    tools: [work("a"), work("b", { exclusive: "key" })],
    config: { toolConcurrency: 2, toolTimeout: Infinity, errorPolicy: { NotFound: "tell" } },
    script: (_, count) => count === 1 ? { text: "Look.", ...callsOf("b", "a", "b", "unknown") } : { text: "done" }
  }))).pipe(Option.getOrThrow)
  target.cycle = cycle

  const fiber = Effect.runFork(driver.submit(cycle, "go"), { scheduler })
  run(steps)
  Effect.runSync(check)
  if (fiber.pollUnsafe() !== undefined) return true

  fiber.interruptUnsafe()
  run(Infinity)
  const exit = fiber.pollUnsafe()
  assert.isTrue(exit !== undefined && Exit.hasInterrupts(exit), `not interrupted after ${steps} steps`)
  assert.strictEqual(alive, 0, `something runs after ${steps} steps`)
  Effect.runSync(check)
  const before = started
  run(Infinity)
  assert.strictEqual(started, before)

  const next = finish(driver.submit(cycle, "on"))
  assert.isTrue(Exit.isSuccess(next) && next.value.text === "done", `it does not go on after ${steps} steps`)
  assert.strictEqual(alive, 0)
  Effect.runSync(check)
  return false
}

describe("an interruption at every single step", () => {
  // The first tool with a JSON Schema loads what compiles it, which no scheduler steps through.
  beforeAll(() => Effect.runPromise(makeCycle({ tools: [tool("first", () => Effect.succeed("done"))], script: [] })))

  for (const driver of drivers) {
    it(`leaves a sound conversation in ${driver.name}`, () => {
      let steps = 0
      while (!interruptAfter(driver, steps)) steps++
      assert.isAbove(steps, 200)
    }, 300_000)
  }
})
