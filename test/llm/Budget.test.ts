/*
 * What a submit may spend of tokens, money and time, and what happens then.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  type Budget,
  type CycleError,
  type CycleEvent,
  LlmCycle,
  PermissionPolicy,
  Pricing,
  Question,
  SavedCycle,
  ToolRegistry
} from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Deferred, Effect, Exit, Fiber, Schema, Stream } from "effect"
import { LanguageModel, Model, type Response } from "effect/ai"
import { TestClock } from "effect/testing"
import { settle, succeed, tool } from "../tools/support.ts"
import { callsOf, type Cycle, type Driver, drivers, makeCycle, type Options, outline, reasonOf } from "./support.ts"

const { text } = ScriptedModel

const used = (input: number, output: number) => ({ usage: { input, output } })

const table = Pricing.make({
  currency: "EUR",
  models: {
    parrot: { input: 10, cacheRead: 1, cacheWrite: 20, output: 100, reasoning: 50 },
    finch: { input: 1, output: 1 }
  }
})

const named = (name: string) => Effect.provideService(Model.ModelName, name)

const million = 1_000_000

/** Ends by calling a tool as long as it is offered one. */
const eager = (usage: ScriptedModel.ScriptedTurn["usage"]) => (request: ScriptedModel.ScriptedRequest) => ({
  ...(request.tools.length > 0 ? callsOf("look") : text("concluded")),
  usage
})

const makeEager = (
  budget: Budget.Budget,
  usage: ScriptedModel.ScriptedTurn["usage"],
  options?: Partial<Options<never>>
) => makeCycle({ tools: [succeed("look")], script: eager(usage), ...options, config: { ...options?.config, budget } })

/** A call, by a provider that does not count what it sends. */
const parts: Array<Response.PartEncoded & Response.StreamPartEncoded> = [
  { type: "tool-call", id: "1", name: "look", params: { text: "word ".repeat(60) } },
  {
    type: "finish",
    reason: "tool-calls",
    usage: { inputTokens: { total: 50 }, outputTokens: {} },
    response: undefined
  }
]

/** A person who lets everything pass when told to. Hashes of questions take real time, so it tells when it is asked. */
const makePerson = Effect.gen(function*() {
  const asked = yield* Deferred.make<void>()
  const answer = yield* Deferred.make<void>()
  const approver = (question: Question.Question) =>
    Deferred.succeed(asked, undefined).pipe(
      Effect.andThen(Deferred.await(answer)),
      Effect.as(Question.approve(question))
    )
  return {
    asked: Deferred.await(asked),
    answer: Deferred.succeed(answer, undefined),
    provide: Effect.provideService(PermissionPolicy.Approver, approver)
  }
})

const suite = ({ name, submit }: Driver) =>
  describe(name, () => {
    describe("a budget of tokens", () => {
      // verifies: cycle.budget, budget.fail
      it.effect("fails before calls are run, and says what was used of what", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeEager({ tokens: 100 }, { input: 60, output: 10 })
          const error = yield* Effect.flip(submit(cycle, "go"))
          assert.deepInclude(error.reason, { _tag: "BudgetExceeded", limit: "tokens", budget: 100, used: 140 })
          assert.strictEqual(error.message, "140 tokens used of a budget of 100")
          assert.deepStrictEqual(error.invocations.map(({ error }) => error?.reason.message), [
            undefined,
            "not executed: the budget is used up"
          ])
          yield* check
        }))

      it.effect("is that of one submit: the next has it all", () =>
        Effect.gen(function*() {
          const usage = used(80, 10)
          const { cycle } = yield* makeCycle({
            tools: [succeed("look")],
            config: { budget: { tokens: 100 } },
            script: [{ ...callsOf("look"), ...usage }, { ...text("a"), ...usage }, { ...callsOf("look"), ...usage }, {
              ...text("b"),
              ...usage
            }]
          })
          assert.strictEqual((yield* submit(cycle, "one")).text, "a")
          assert.strictEqual((yield* submit(cycle, "two")).text, "b")
          assert.strictEqual((yield* cycle.spent).tokens, 360)
        }))

      it.effect("does not take an answer back that has come", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            config: { budget: { tokens: 1 } },
            script: [{ ...text("dear"), ...used(1_000, 1_000) }]
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "dear")
        }))

      // verifies: budget.zero
      it.effect("of nothing asks nothing", () =>
        Effect.gen(function*() {
          for (const budget of [{ tokens: 0 }, { cost: 0 }, { duration: 0 }]) {
            const { cycle, requests } = yield* makeCycle({
              config: { budget, pricing: table },
              script: []
            }).pipe(named("parrot"))
            assert.deepInclude(yield* reasonOf(submit(cycle, "go")), { _tag: "BudgetExceeded", budget: 0, used: 0 })
            assert.lengthOf(yield* requests, 0)
          }
        }))

      it.effect("without end is none", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeEager(
            { tokens: Infinity, cost: Infinity, duration: "Infinity" },
            { input: million, output: million },
            { config: { maxTurns: 3 } }
          )
          assert.strictEqual((yield* reasonOf(submit(cycle, "go")))._tag, "MaxTurnsExceeded")
        }))

      for (
        const [what, usage] of [["does not count", undefined], ["counts nothing", { input: 0, output: 0 }]] as const
      ) {
        // verifies: budget.estimate
        it.effect(`is held with a provider that ${what}`, () =>
          Effect.gen(function*() {
            const long = "word ".repeat(400)
            const { cycle } = yield* makeCycle({
              tools: [succeed("look", long)],
              config: { budget: { tokens: 2_000 }, maxTurns: 100 },
              script: () => ({ ...callsOf("look"), ...(usage === undefined ? undefined : { usage }) })
            })
            const reason = yield* reasonOf(submit(cycle, "go"))
            assert.deepInclude(reason, { _tag: "BudgetExceeded", limit: "tokens", budget: 2_000 })
            if (reason._tag === "BudgetExceeded") assert.isBelow(reason.used, 6_000)
          }))
      }

      it.effect("is held with a provider that counts only what it is sent", () =>
        Effect.gen(function*() {
          const model = yield* LanguageModel.make({
            generateText: () => Effect.succeed(parts),
            streamText: () =>
              Stream.fromIterable<Response.StreamPartEncoded>([
                { type: "tool-params-start", id: "1", name: "look" },
                { type: "tool-params-end", id: "1" },
                ...parts
              ])
          })
          const { registry } = yield* makeCycle({ tools: [succeed("look")], script: [] })
          const cycle = yield* LlmCycle.make({ budget: { tokens: 200 }, maxTurns: 100 }).pipe(
            Effect.provideService(LanguageModel.LanguageModel, model),
            Effect.provideService(ToolRegistry.ToolRegistry, registry)
          )
          const error = yield* Effect.flip(submit(cycle, "go"))
          assert.deepInclude(error.reason, { _tag: "BudgetExceeded", limit: "tokens" })
          assert.strictEqual(error.turns, 2)
          assert.isUndefined(error.usage.outputTokens.total)
        }))
    })

    describe("a budget of money", () => {
      // verifies: budget.cost
      it.effect("counts what tokens cost: cached, written, reasoned", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeEager(
            { cost: 200 },
            { input: 3 * million, output: million, cacheRead: million, cacheWrite: million, reasoning: million / 2 },
            { config: { pricing: table } }
          ).pipe(named("parrot"))
          const error = yield* Effect.flip(submit(cycle, "go"))
          assert.deepInclude(error.reason, { _tag: "BudgetExceeded", limit: "cost", budget: 200, used: 212 })
          assert.strictEqual(error.message, "212 spent of a budget of 200")
          assert.strictEqual((yield* cycle.spent).cost, 212)
          assert.strictEqual(error.usage.inputTokens.cacheWrite, 2 * million)
          assert.strictEqual(error.usage.outputTokens.reasoning, million)
        }))

      // verifies: budget.model-name
      it.effect("goes by the name the provider gives, else by the one that was asked", () =>
        Effect.gen(function*() {
          const metadata = (modelId: string): ScriptedModel.ScriptedTurn["parts"] => [{
            type: "response-metadata",
            modelId
          }]
          const turn = { ...text("ok"), usage: { input: million, output: 0 } }
          const { cycle } = yield* makeCycle({
            config: { budget: { cost: 1_000 }, pricing: table },
            script: [turn, { ...turn, parts: metadata("finch") }, { ...turn, parts: metadata("parrot-2030-01-01") }]
          }).pipe(named("parrot"))
          const costs = yield* Effect.forEach(
            ["a", "b", "c"],
            (prompt) => Effect.map(Effect.andThen(submit(cycle, prompt), cycle.spent), ({ cost }) => cost)
          )
          assert.deepStrictEqual(costs, [10, 11, 21])
        }))

      // verifies: budget.unpriced
      it.effect("asks no model that has no price", () =>
        Effect.gen(function*() {
          const config = { budget: { cost: 1 }, pricing: table }
          const unknown = yield* makeCycle({ config, script: [] })
          const reason = yield* reasonOf(submit(unknown.cycle, "go"))
          assert.strictEqual(reason._tag, "ModelUnpriced")
          assert.match(reason.message, /name is not known.*Model\.ModelName/)

          const unlisted = yield* makeCycle({ config, script: [] }).pipe(named("owl"))
          assert.deepInclude(yield* reasonOf(submit(unlisted.cycle, "go")), { _tag: "ModelUnpriced", model: "owl" })

          const untabled = yield* makeCycle({ config: { budget: { cost: 1 } }, script: [] }).pipe(named("parrot"))
          assert.strictEqual((yield* reasonOf(submit(untabled.cycle, "go")))._tag, "ModelUnpriced")

          // Another model for a turn has to say its name as well.
          const { model } = yield* ScriptedModel.make([])
          const other = yield* makeCycle({
            config: { ...config, prepareTurn: () => Effect.succeed({ model }) },
            script: []
          }).pipe(named("parrot"))
          assert.strictEqual((yield* reasonOf(submit(other.cycle, "go")))._tag, "ModelUnpriced")
          for (const { requests } of [unknown, unlisted, untabled, other]) assert.lengthOf(yield* requests, 0)
        }))

      it.effect("takes the name of a turn's model from its context, and the default for the rest", () =>
        Effect.gen(function*() {
          const { model } = yield* ScriptedModel.make([{ ...text("ok"), usage: { input: million, output: 0 } }])
          const { cycle } = yield* makeCycle({
            config: {
              budget: { cost: 5 },
              pricing: table,
              prepareTurn: () => Effect.succeed({ model, context: Model.ModelName.context("finch") })
            },
            script: []
          })
          yield* submit(cycle, "go")
          assert.strictEqual((yield* cycle.spent).cost, 1)

          const byDefault = yield* makeCycle({
            config: {
              budget: { cost: 5 },
              pricing: Pricing.make({ currency: "EUR", models: {}, default: { input: 3, output: 3 } })
            },
            script: [{ ...text("ok"), usage: { input: million, output: 0 } }]
          })
          yield* submit(byDefault.cycle, "go")
          assert.strictEqual((yield* byDefault.cycle.spent).cost, 3)
        }))

      it.effect("is held with a provider that does not count", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeEager({ cost: 0.01 }, undefined, {
            tools: [succeed("look", "word ".repeat(400))],
            config: { pricing: table, maxTurns: 100 }
          }).pipe(named("parrot"))
          assert.deepInclude(yield* reasonOf(submit(cycle, "go")), { _tag: "BudgetExceeded", limit: "cost" })
        }))
    })

    describe("what is no limit", () => {
      // verifies: budget.invalid
      it.effect("is an error before anything is asked, and leaves the history as it is", () =>
        Effect.gen(function*() {
          const cases: ReadonlyArray<readonly [string, string, Budget.Budget]> = [
            ["tokens", "NaN", { tokens: NaN }],
            ["tokens", "-1", { tokens: -1 }],
            ["tokens", "5", { tokens: "5" as unknown as number }],
            ["cost", "NaN", { cost: NaN }],
            ["cost", "-0.5", { cost: -0.5 }],
            ["duration", "NaN", { duration: NaN }],
            ["duration", "-1 second", { duration: "-1 second" }],
            ["duration", "soon", { duration: "soon" as "1 second" }]
          ]
          for (const [limit, value, budget] of cases) {
            const { cycle, requests } = yield* makeCycle({ config: { budget, pricing: table }, script: [] })
            const reason = yield* reasonOf(submit(cycle, "go"))
            assert.deepInclude<unknown>(reason, { _tag: "InvalidLimit", limit, value })
            assert.strictEqual(reason.message, `the limit of ${limit} must be 0 or more, not ${value}`)
            assert.lengthOf(yield* requests, 0)
            assert.lengthOf(yield* cycle.messages, 0)
          }
        }))
    })

    describe("a last turn", () => {
      // verifies: budget.last-turn
      it.effect("concludes without tools, after the calls of the turn before have run", () =>
        Effect.gen(function*() {
          const { check, cycle, requests } = yield* makeEager(
            { tokens: 100, onExceeded: "last-turn" },
            { input: 60, output: 0 },
            { config: { system: "Be brief." } }
          )
          const result = yield* submit(cycle, "go")
          assert.deepStrictEqual([result.text, result.turns, result.reason], ["concluded", 3, "stop"])
          const prompts = yield* requests
          assert.deepStrictEqual(prompts.map(({ tools }) => tools.length), [1, 1, 0])
          // It is told in the one system message, and nothing of it stays.
          const [system, ...rest] = outline(prompts[2]!.prompt.content)
          assert.match(system!, /^system:Be brief\.\n\nThe budget of this conversation is used up\./)
          assert.deepStrictEqual(rest, ["user:go", "assistant:look()", "tool:look", "assistant:look()", "tool:look"])
          assert.isFalse((yield* cycle.messages).some((message) => message.role === "system"))
          yield* check
        }))

      it.effect("does not run what is called all the same", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({
            tools: [succeed("look")],
            config: { budget: { tokens: 100, onExceeded: "last-turn" } },
            script: () => ({ ...callsOf("look"), usage: { input: 60, output: 0 } })
          })
          const error = yield* Effect.flip(submit(cycle, "go"))
          // It says which limit made it the last.
          assert.deepInclude(error.reason, { _tag: "BudgetExceeded", used: 120 })
          assert.deepStrictEqual(error.invocations.map(({ isFailure, result }) => isFailure ? result : "ran"), [
            "ran",
            "ran",
            "Error: not executed: the budget is used up"
          ])
          yield* check
        }))

      it.effect("is within the turns that are allowed", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeEager({ tokens: 100, onExceeded: "last-turn" }, { input: 60, output: 0 }, {
            config: { maxTurns: 2 }
          })
          assert.strictEqual((yield* reasonOf(submit(cycle, "go")))._tag, "MaxTurnsExceeded")
        }))

      it.effect("is the only one where there is nothing to spend", () =>
        Effect.gen(function*() {
          const { cycle, requests } = yield* makeEager({ tokens: 0, onExceeded: "last-turn" }, { input: 1, output: 1 })
          assert.strictEqual((yield* submit(cycle, "go")).text, "concluded")
          assert.lengthOf(yield* requests, 1)
        }))
    })

    describe("a budget of time", () => {
      const slow = (before: Effect.Effect<unknown>, turn: ScriptedModel.ScriptedTurn): ScriptedModel.ScriptedTurn => ({
        ...turn,
        before
      })

      // verifies: budget.duration
      it.effect("stops a request that runs on", () =>
        Effect.gen(function*() {
          let stopped = 0
          const { check, cycle } = yield* makeCycle({
            config: { budget: { duration: "10 seconds" } },
            script: [
              slow(Effect.onInterrupt(Effect.never, () => Effect.sync(() => stopped++)), text("late")),
              text("on")
            ]
          })
          const fiber = yield* Effect.forkChild(Effect.flip(submit(cycle, "go")))
          yield* settle
          yield* TestClock.adjust("9999 millis")
          yield* settle
          assert.isUndefined(fiber.pollUnsafe())
          yield* TestClock.adjust("1 millis")
          const error = yield* Fiber.join(fiber)
          assert.deepInclude(error.reason, { _tag: "BudgetExceeded", limit: "duration", budget: 10_000, used: 10_000 })
          assert.strictEqual(error.message, "10000 ms taken of a budget of 10000")
          assert.strictEqual(stopped, 1)
          yield* check
          assert.strictEqual((yield* submit(cycle, "go on")).text, "on")
        }))

      // verifies: budget.duration-tools
      it.effect("stops tools that run on, and starts none that waits", () =>
        Effect.gen(function*() {
          let stopped = 0
          const slowTool = tool("slow", () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => stopped++)))
          const { check, cycle } = yield* makeCycle({
            tools: [slowTool, succeed("look"), tool("dig", () => Effect.die(new Error("it ran")))],
            config: { budget: { duration: "10 seconds" }, toolConcurrency: 2 },
            script: [callsOf("slow", "slow", "dig"), text("on")]
          })
          const fiber = yield* Effect.forkChild(Effect.flip(submit(cycle, "go")))
          yield* settle
          yield* TestClock.adjust("3 seconds")
          yield* settle
          yield* TestClock.adjust("7 seconds")
          const error = yield* Fiber.join(fiber)
          assert.deepInclude(error.reason, { _tag: "BudgetExceeded", limit: "duration" })
          assert.strictEqual(stopped, 2)
          assert.deepStrictEqual(error.invocations.map(({ error }) => error?.reason.message), [
            "timed out after 10000 ms; its work was stopped",
            "timed out after 10000 ms; its work was stopped",
            "not executed: the budget is used up"
          ])
          yield* check
        }))

      it.effect("is not held up by a tool that does not stop", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({
            tools: [tool("deaf", () => Effect.as(Effect.uninterruptible(Effect.sleep("1 hour")), "slept"))],
            config: { budget: { duration: "10 seconds" } },
            script: [callsOf("deaf")]
          })
          const fiber = yield* Effect.forkChild(Effect.flip(submit(cycle, "go")))
          yield* settle
          yield* TestClock.adjust("10 seconds")
          yield* settle
          // The tool's grace period.
          yield* TestClock.adjust("1 second")
          const error = yield* Fiber.join(fiber)
          assert.deepInclude(error.reason, { _tag: "BudgetExceeded", limit: "duration" })
          assert.match(error.invocations[0]!.error!.message, /still running/)
          yield* check
        }))

      it.effect("counts all turns, and the wait between attempts", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [tool("look", () => Effect.as(Effect.sleep("4 seconds"), "seen"))],
            config: { budget: { duration: "10 seconds" }, maxTurns: 100 },
            script: () => callsOf("look")
          })
          const fiber = yield* Effect.forkChild(Effect.flip(submit(cycle, "go")))
          for (let i = 0; i < 10; i++) {
            yield* settle
            yield* TestClock.adjust("1 second")
          }
          const error = yield* Fiber.join(fiber)
          assert.strictEqual(error.turns, 3)
        }))

      // verifies: budget.duration-last-turn
      it.effect("lets a request end and the model conclude, for a while", () =>
        Effect.gen(function*() {
          const { check, cycle, requests } = yield* makeCycle({
            tools: [tool("look", () => Effect.die(new Error("it ran")))],
            config: { budget: { duration: "10 seconds", onExceeded: "last-turn" } },
            script: [slow(Effect.sleep("15 seconds"), callsOf("look")), text("concluded")]
          })
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          yield* settle
          yield* TestClock.adjust("15 seconds")
          const result = yield* Fiber.join(fiber)
          assert.deepStrictEqual([result.text, result.turns], ["concluded", 2])
          assert.deepStrictEqual(outline(yield* cycle.messages), [
            "user:go",
            "assistant:look()",
            "tool:!Error: not executed: the budget is used up",
            "assistant:concluded"
          ])
          assert.lengthOf((yield* requests)[1]!.tools, 0)
          yield* check
        }))

      it.effect("is over when the last turn takes too long as well", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [tool("look", () => Effect.never)],
            config: { budget: { duration: "10 seconds", onExceeded: "last-turn" } },
            script: [callsOf("look"), slow(Effect.never, text("late"))]
          })
          const fiber = yield* Effect.forkChild(Effect.flip(submit(cycle, "go")))
          yield* settle
          yield* TestClock.adjust("10 seconds")
          yield* settle
          yield* TestClock.adjust("59 seconds")
          yield* settle
          assert.isUndefined(fiber.pollUnsafe())
          yield* TestClock.adjust("1 second")
          assert.deepInclude((yield* Fiber.join(fiber)).reason, {
            _tag: "BudgetExceeded",
            limit: "duration",
            budget: 10_000,
            used: 70_000
          })
        }))
    })
  })

// =============================================================================
// Pauses
// =============================================================================

/** The end of a stream, for those who want its events. */
const eventsOf = (stream: Stream.Stream<CycleEvent.CycleEvent, CycleError.CycleError>) =>
  Effect.map(Stream.runCollect(stream), (events) => Array.from(events))

const completeOf = (events: ReadonlyArray<CycleEvent.CycleEvent>): CycleEvent.CycleComplete => {
  const last = events.at(-1)
  if (last?._tag !== "CycleComplete") throw new Error("no end")
  return last
}

interface PauseDriver {
  readonly name: string
  readonly submit: (cycle: Cycle) => Effect.Effect<Paused, CycleError.CycleError>
  readonly resume: (cycle: Cycle) => Effect.Effect<Paused, CycleError.CycleError>
}

interface Paused {
  readonly text: string
  readonly reason: string
  readonly exceeded: CycleError.BudgetExceeded | undefined
  readonly cost: number | undefined
  readonly turns: number
}

const ofEvents = (events: ReadonlyArray<CycleEvent.CycleEvent>): Paused => {
  const { cost, exceeded, reason, text, turns } = completeOf(events)
  return { text, reason, exceeded, cost, turns }
}

const pauseDrivers: ReadonlyArray<PauseDriver> = [
  {
    name: "the plain loop",
    submit: (cycle) =>
      Effect.map(
        cycle.submitWithTools("go"),
        ({ cost, exceeded, finishReason, text, turns }) => ({ text, reason: finishReason, exceeded, cost, turns })
      ),
    resume: (cycle) =>
      Effect.map(
        cycle.resume(),
        ({ cost, exceeded, finishReason, text, turns }) => ({ text, reason: finishReason, exceeded, cost, turns })
      )
  },
  {
    name: "the streaming loop",
    submit: (cycle) => Effect.map(eventsOf(cycle.submitStreamWithTools("go")), ofEvents),
    resume: (cycle) => Effect.map(eventsOf(cycle.resumeStream()), ofEvents)
  }
]

const pauses = ({ name, resume, submit }: PauseDriver) =>
  describe(name, () => {
    // verifies: budget.pause
    it.effect("pauses when the calls have run, and goes on with the whole budget anew", () =>
      Effect.gen(function*() {
        const usage = used(60, 0)
        const { check, cycle, requests } = yield* makeCycle({
          tools: [succeed("look")],
          config: { budget: { tokens: 100, onExceeded: "pause" }, pricing: table },
          script: [
            { ...callsOf("look"), ...usage },
            { text: "So far.", ...callsOf("look"), ...usage },
            { ...callsOf("look"), ...usage },
            { ...callsOf("look"), ...usage },
            { ...text("done"), ...usage }
          ]
        }).pipe(named("parrot"))
        const first = yield* submit(cycle)
        assert.deepStrictEqual([first.text, first.reason, first.turns], ["So far.", "paused", 2])
        assert.deepInclude(first.exceeded, { limit: "tokens", budget: 100, used: 120 })
        assert.lengthOf(yield* requests, 2)
        assert.deepStrictEqual(outline(yield* cycle.messages).slice(-1), ["tool:look"])
        yield* check

        const second = yield* resume(cycle)
        assert.deepStrictEqual([second.reason, second.turns], ["paused", 4])
        assert.deepInclude(second.exceeded, { used: 120 })
        const third = yield* resume(cycle)
        assert.deepStrictEqual([third.text, third.reason, third.turns], ["done", "stop", 5])
        assert.isUndefined(third.exceeded)
        // The cost is that of the whole submit.
        assert.strictEqual(third.cost?.toFixed(6), "0.003000")
        assert.strictEqual((yield* reasonOf(resume(cycle)))._tag, "NothingToResume")
      }))

    // verifies: budget.pause-kept
    it.effect("goes on in another process, and knows what was spent", () =>
      Effect.gen(function*() {
        const config = { budget: { tokens: 100, onExceeded: "pause" as const }, pricing: table }
        const usage = used(60, 0)
        const { cycle, registry } = yield* makeCycle({
          tools: [succeed("look")],
          config,
          script: () => ({ ...callsOf("look"), ...usage })
        }).pipe(named("parrot"))
        yield* submit(cycle)
        const codec = Schema.toCodecJson(SavedCycle.SavedCycle)
        const json = JSON.stringify(yield* Schema.encodeEffect(codec)(yield* cycle.saved))
        const saved = yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json))
        const { model } = yield* ScriptedModel.make([{ ...callsOf("look"), ...usage }, { ...text("done"), ...usage }])
        const again = yield* LlmCycle.restore(saved, config).pipe(
          Effect.provideService(LanguageModel.LanguageModel, model),
          Effect.provideService(ToolRegistry.ToolRegistry, registry),
          named("parrot")
        )
        const end = yield* resume(again)
        assert.deepStrictEqual([end.text, end.turns, end.cost?.toFixed(6)], ["done", 4, "0.002400"])
        const spent = yield* again.spent
        assert.strictEqual(spent.tokens, 240)
      }))

    // verifies: budget.people
    it.effect("goes on with what is left after a person has answered", () =>
      Effect.gen(function*() {
        const usage = used(60, 0)
        const { cycle } = yield* makeCycle({
          tools: [tool("look", () => Effect.succeed("seen"), { needsApproval: true })],
          config: { budget: { tokens: 100, duration: "1 minute" } },
          script: () => ({ ...callsOf("look"), ...usage })
        })
        assert.strictEqual((yield* submit(cycle)).reason, "awaiting-input")
        yield* TestClock.adjust("1 day")
        const [question] = yield* cycle.pending
        assert.deepInclude(yield* reasonOf(cycle.resume([Question.approve(question!)])), {
          _tag: "BudgetExceeded",
          limit: "tokens",
          used: 120
        })
      }))

    // verifies: budget.people
    it.effect("does not count the wait for a person", () =>
      Effect.gen(function*() {
        const person = yield* makePerson
        const entered = yield* Deferred.make<void>()
        const { cycle } = yield* makeCycle({
          tools: [
            tool(
              "look",
              () => Effect.as(Effect.andThen(Deferred.succeed(entered, undefined), Effect.sleep("4 seconds")), "seen"),
              { needsApproval: true }
            )
          ],
          config: { budget: { duration: "10 seconds" } },
          script: [callsOf("look"), { ...text("ok"), before: Effect.sleep("5 seconds") }]
        }).pipe(person.provide)
        const fiber = yield* Effect.forkChild(submit(cycle))
        yield* person.asked
        yield* TestClock.adjust("2 minutes")
        yield* person.answer
        yield* Deferred.await(entered)
        for (let i = 0; i < 9; i++) {
          yield* settle
          yield* TestClock.adjust("1 second")
        }
        assert.strictEqual((yield* Fiber.join(fiber)).text, "ok")
        assert.strictEqual((yield* cycle.spent).millis, 9_000)
      }))

    it.effect("pauses a request that takes too long, and asks it again", () =>
      Effect.gen(function*() {
        const { check, cycle, requests } = yield* makeCycle({
          tools: [succeed("look")],
          config: { budget: { duration: "10 seconds", onExceeded: "pause" } },
          script: [
            { text: "First.", ...callsOf("look") },
            { text: "late", before: Effect.never },
            { ...text("done"), before: Effect.sleep("9 seconds") }
          ]
        })
        const fiber = yield* Effect.forkChild(submit(cycle))
        yield* settle
        yield* TestClock.adjust("10 seconds")
        const paused = yield* Fiber.join(fiber)
        assert.deepStrictEqual([paused.text, paused.reason, paused.turns], ["First.", "paused", 1])
        assert.deepInclude(paused.exceeded, { limit: "duration", budget: 10_000, used: 10_000 })
        yield* TestClock.adjust("1 hour")
        const resumed = yield* Effect.forkChild(resume(cycle))
        yield* settle
        yield* TestClock.adjust("9 seconds")
        assert.strictEqual((yield* Fiber.join(resumed)).text, "done")
        const [, second, third] = yield* requests
        assert.deepStrictEqual(outline(third!.prompt.content), outline(second!.prompt.content))
        yield* check
      }))

    it.effect("pauses after tools that were stopped, which are told so", () =>
      Effect.gen(function*() {
        const { check, cycle } = yield* makeCycle({
          tools: [tool("slow", () => Effect.never)],
          config: { budget: { duration: "10 seconds", onExceeded: "pause" } },
          script: [callsOf("slow"), text("done")]
        })
        const fiber = yield* Effect.forkChild(submit(cycle))
        yield* settle
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual((yield* Fiber.join(fiber)).reason, "paused")
        assert.match(outline(yield* cycle.messages).at(-1)!, /^tool:!.*timed out after 10000 ms/)
        yield* check
        assert.strictEqual((yield* resume(cycle)).text, "done")
      }))
  })

// =============================================================================
// Accounts
// =============================================================================

describe("a budget", () => {
  for (const driver of drivers) suite(driver)
  describe("that pauses", () => {
    for (const driver of pauseDrivers) pauses(driver)
  })

  it.effect("drops what a stopped response had said when it is paused, and keeps it when it fails", () =>
    Effect.gen(function*() {
      for (const onExceeded of ["pause", "fail"] as const) {
        const model = yield* LanguageModel.make({
          generateText: () => Effect.die(new Error("it streams")),
          streamText: () =>
            Stream.concat(
              Stream.fromIterable<Response.StreamPartEncoded>([
                { type: "text-start", id: "1" },
                { type: "text-delta", id: "1", delta: "Half of" }
              ]),
              Stream.never
            )
        })
        const { registry } = yield* makeCycle({ script: [] })
        const cycle = yield* LlmCycle.make({ budget: { duration: "10 seconds", onExceeded } }).pipe(
          Effect.provideService(LanguageModel.LanguageModel, model),
          Effect.provideService(ToolRegistry.ToolRegistry, registry)
        )
        const fiber = yield* Effect.forkChild(Effect.exit(eventsOf(cycle.submitStream("go"))))
        yield* settle
        yield* TestClock.adjust("10 seconds")
        const exit = yield* Fiber.join(fiber)
        assert.strictEqual(Exit.isSuccess(exit), onExceeded === "pause")
        assert.deepStrictEqual(
          outline(yield* cycle.messages),
          onExceeded === "pause" ? ["user:go"] : ["user:go", "assistant:Half of"]
        )
      }
    }))

  // verifies: budget.nested
  it.effect("counts what cycles inside of its tools spend, and holds them to it", () =>
    Effect.gen(function*() {
      const inner = yield* makeCycle({
        tools: [succeed("look")],
        config: {
          maxTurns: 100,
          pricing: Pricing.make({ currency: "JPY", models: { finch: { input: 7, output: 7 } } })
        },
        script: () => ({ ...callsOf("look"), usage: { input: million, output: 0 } })
      }).pipe(named("finch"))
      const outer = yield* makeCycle({
        tools: [
          tool("delegate", () =>
            Effect.map(Effect.orDie(reasonOf(inner.cycle.submitWithTools("go"))), ({ message }) => message))
        ],
        config: { budget: { cost: 13.5 }, pricing: table },
        script: () => ({ ...callsOf("delegate"), usage: { input: million, output: 0 } })
      }).pipe(named("parrot"))
      const error = yield* Effect.flip(outer.cycle.submitWithTools("go"))
      // 10 of its own, then 1 for each turn inside, by its own prices.
      assert.deepInclude(error.reason, { _tag: "BudgetExceeded", limit: "cost", used: 14 })
      assert.strictEqual(error.invocations[0]?.output, "14 spent of a budget of 13.5")
      assert.strictEqual((yield* inner.requests).length, 4)
      assert.strictEqual((yield* inner.cycle.spent).cost, 28)
      assert.strictEqual((yield* outer.cycle.spent).cost, 14)
      // On its own again, it is held to nothing.
      assert.strictEqual((yield* reasonOf(inner.cycle.submitWithTools("go")))._tag, "RepeatedCalls")
      assert.strictEqual((yield* outer.cycle.spent).cost, 14)
    }))

  it.effect("does not hold what outlives it", () =>
    Effect.gen(function*() {
      const inner = yield* makeCycle({ script: () => ({ ...text("inside"), ...used(100, 0) }) })
      const go = yield* Deferred.make<void>()
      let later: Fiber.Fiber<unknown, unknown> | undefined
      const outer = yield* makeCycle({
        tools: [
          tool("start", () =>
            Deferred.await(go).pipe(
              Effect.andThen(inner.cycle.submit("go")),
              Effect.forkDetach,
              Effect.map((fiber) => {
                later = fiber
                return "started"
              })
            ))
        ],
        config: { budget: { tokens: 50 } },
        script: [{ ...callsOf("start"), ...used(10, 0) }, { ...text("ok"), ...used(100, 0) }]
      })
      yield* outer.cycle.submitWithTools("go")
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(later!)
      assert.strictEqual((yield* inner.cycle.spent).tokens, 100)
    }))

  it.effect("is held to by what takes an unchecked table and an unknown choice", () =>
    Effect.gen(function*() {
      // A program without types.
      const pricing = {
        currency: "EUR",
        models: { parrot: { input: NaN, output: 1 } }
      } as unknown as Pricing.PriceTable
      const { cycle } = yield* makeEager({ cost: 1 }, { input: 10, output: 10 }, { config: { pricing } }).pipe(
        named("parrot")
      )
      assert.deepInclude(yield* reasonOf(cycle.submitWithTools("go")), { _tag: "BudgetExceeded", limit: "cost" })
      const bogus = yield* makeEager({ tokens: 15, onExceeded: "later" as "fail" }, { input: 10, output: 0 })
      assert.deepInclude(yield* reasonOf(bogus.cycle.submitWithTools("go")), { _tag: "BudgetExceeded", used: 20 })
    }))

  it.effect("lets an answer of a shape be given in the last turn, and after a pause", () =>
    Effect.gen(function*() {
      const schema = Schema.Struct({ hats: Schema.Finite })
      const script = (request: ScriptedModel.ScriptedRequest) => {
        const answer = request.tools.find(({ name }) => name !== "look")
        const isLast = request.tools.length === 1
        return {
          ...(isLast ? ScriptedModel.calls({ name: answer!.name, params: { hats: 2 } }) : callsOf("look")),
          ...used(60, 0)
        }
      }
      const concluding = yield* makeCycle({
        tools: [succeed("look")],
        config: { budget: { tokens: 100, onExceeded: "last-turn" } },
        script
      })
      const { response, value } = yield* concluding.cycle.submitObject("How many?", { schema })
      assert.deepStrictEqual([value, response.turns], [{ hats: 2 }, 3])
      assert.deepInclude(response.exceeded, { limit: "tokens", used: 120 })
      const last = (yield* concluding.requests)[2]!
      assert.match(outline(last.prompt.content)[0]!, /no tool can be called any more but "final_answer"/)

      const pausing = yield* makeCycle({
        tools: [succeed("look")],
        config: { budget: { tokens: 100, onExceeded: "pause" } },
        script: (request, count) =>
          count === 3
            ? script({ ...request, tools: request.tools.filter(({ name }) => name !== "look") })
            : script(request)
      })
      const paused = yield* pausing.cycle.submitObject("How many?", { schema })
      assert.deepStrictEqual([paused.value, paused.response.finishReason], [undefined, "paused"])
      assert.deepStrictEqual((yield* pausing.cycle.resumeObject({ schema })).value, { hats: 2 })
    }))

  it.effect("lets no model be asked inside of its tools that it has no price for", () =>
    Effect.gen(function*() {
      const inner = yield* makeCycle({ script: [] }).pipe(named("owl"))
      const outer = yield* makeCycle({
        tools: [
          tool("delegate", () => Effect.map(Effect.orDie(reasonOf(inner.cycle.submit("go"))), ({ _tag }) => _tag))
        ],
        config: { budget: { cost: 100 }, pricing: table },
        script: [callsOf("delegate"), text("ok")]
      }).pipe(named("parrot"))
      const response = yield* outer.cycle.submitWithTools("go")
      assert.strictEqual(response.invocations[0]?.output, "ModelUnpriced")
    }))

  it.effect("counts the time of people inside of its tools no more than its own", () =>
    Effect.gen(function*() {
      const person = yield* makePerson
      const inner = yield* makeCycle({
        tools: [tool("look", () => Effect.succeed("seen"), { needsApproval: true })],
        script: [callsOf("look"), text("inside")]
      }).pipe(person.provide)
      const outer = yield* makeCycle({
        tools: [
          tool("delegate", () => Effect.map(Effect.orDie(inner.cycle.submitWithTools("go")), ({ text }) => text), {
            timeout: "1 hour"
          })
        ],
        config: { budget: { duration: "10 seconds" } },
        script: [callsOf("delegate"), text("ok")]
      })
      const fiber = yield* Effect.forkChild(outer.cycle.submitWithTools("go"))
      yield* person.asked
      yield* TestClock.adjust("1 minute")
      yield* person.answer
      assert.strictEqual((yield* Fiber.join(fiber)).text, "ok")
    }))

  // verifies: budget.totals
  it.effect("is reported for a submit and for the conversation, unknown costs as unknown", () =>
    Effect.gen(function*() {
      const turn = { ...text("ok"), usage: { input: million, output: 0 } }
      const { cycle } = yield* makeCycle({
        config: { pricing: table },
        script: [turn, { ...turn, parts: [{ type: "response-metadata", modelId: "owl" }] }, turn]
      })
      const priced = yield* makeCycle({ config: { pricing: table }, script: [turn, turn] }).pipe(named("finch"))
      assert.strictEqual((yield* priced.cycle.submit("a")).cost, 1)
      assert.strictEqual((yield* priced.cycle.submit("b")).cost, 1)
      assert.deepInclude(yield* priced.cycle.spent, { tokens: 2 * million, cost: 2 })
      assert.strictEqual((yield* priced.cycle.usage).inputTokens.total, 2 * million)
      // Nothing is free: without a price there is no sum.
      assert.isUndefined((yield* cycle.submit("a")).cost)
      assert.isUndefined((yield* cycle.spent).cost)
    }))

  it.effect("adds cached and reasoned tokens up over submits", () =>
    Effect.gen(function*() {
      const usage = { input: 100, output: 50, cacheRead: 60, cacheWrite: 10, reasoning: 20 }
      const { cycle } = yield* makeCycle({ script: () => ({ ...text("ok"), usage }) })
      yield* cycle.submit("a")
      yield* cycle.submit("b")
      const { inputTokens, outputTokens } = yield* cycle.usage
      assert.deepStrictEqual(
        [inputTokens.total, inputTokens.cacheRead, inputTokens.cacheWrite, inputTokens.uncached],
        [200, 120, 20, undefined]
      )
      assert.deepStrictEqual([outputTokens.total, outputTokens.reasoning], [100, 40])
    }))

  it.effect("of time goes on after a submit that was interrupted", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        config: { budget: { duration: "10 seconds" } },
        script: [{ ...text("a"), before: Effect.never }, { ...text("b"), before: Effect.never }]
      })
      const first = yield* Effect.forkChild(cycle.submit("go"))
      yield* settle
      yield* TestClock.adjust("6 seconds")
      yield* Fiber.interrupt(first)
      yield* TestClock.adjust("1 hour")
      const second = yield* Effect.forkChild(Effect.flip(cycle.resume()))
      yield* settle
      yield* TestClock.adjust("4 seconds")
      assert.deepInclude((yield* Fiber.join(second)).reason, { limit: "duration", used: 10_000 })
    }))
})

// =============================================================================
// Whatever happens
// =============================================================================

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

/** Seconds that a request, and each of its calls, takes; 13 or more: it would never end. */
const Timed = Schema.Struct({ ask: upTo(14), calls: Schema.Array(upTo(14)).check(Schema.isMaxLength(3)) })

describe("time that is up", () => {
  it.effect.prop(
    "leaves a sound conversation, runs no call twice, and is kept to",
    {
      limit: upTo(25),
      onExceeded: Schema.Literals(["fail", "pause", "last-turn"]),
      toolConcurrency: Schema.Literals([1, 2, "unbounded"]),
      streams: Schema.Boolean,
      turns: Schema.Array(Timed).check(Schema.isMaxLength(5))
    },
    ({ limit, onExceeded, streams, toolConcurrency, turns }) =>
      Effect.gen(function*() {
        const seconds = (n: number) => n >= 13 ? Effect.never : Effect.sleep(n * 1_000)
        const begun: Array<string> = []
        let position = 0
        let alive = 0
        const { check, cycle } = yield* makeCycle({
          tools: [
            tool("work", ({ id, takes }) =>
              Effect.suspend(() => {
                begun.push(String(id))
                alive++
                return Effect.as(seconds(Number(takes)), "worked")
              }).pipe(Effect.ensuring(Effect.sync(() => alive--))))
          ],
          config: { maxTurns: 100, toolConcurrency, budget: { duration: limit * 1_000, onExceeded } },
          script: () => {
            const turn = turns[position]
            if (turn === undefined) return text("done")
            const asked = position
            return {
              // A request that is stopped is asked again.
              before: Effect.tap(seconds(turn.ask), () => Effect.sync(() => position++)),
              ...(turn.calls.length === 0
                ? text("ok")
                : ScriptedModel.calls(...turn.calls.map((takes, index) => ({
                  name: "work",
                  params: { id: `${asked}.${index}`, takes }
                }))))
            }
          }
        })
        const run = (first: boolean) =>
          streams
            ? Effect.asVoid(eventsOf(first ? cycle.submitStreamWithTools("go") : cycle.resumeStream()))
            : Effect.asVoid(first ? cycle.submitWithTools("go") : cycle.resume())
        let legs = 0
        let isPaused = true
        while (isPaused && legs++ < 8) {
          const before = (yield* cycle.spent).millis
          const fiber = yield* Effect.forkChild(run(legs === 1))
          for (let second = 0; fiber.pollUnsafe() === undefined; second++) {
            if (second > 100) return yield* Effect.die(new Error("it goes on and on"))
            yield* settle
            yield* check
            if (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
          }
          const exit = fiber.pollUnsafe()
          const taken = (yield* cycle.spent).millis - before
          assert.isAtMost(taken, (limit + (onExceeded === "last-turn" ? 60 : 0)) * 1_000)
          if (exit !== undefined && Exit.isFailure(exit)) {
            assert.deepStrictEqual(
              exit.cause.reasons.map((reason) => reason._tag === "Fail" ? reason.error.reason._tag : reason._tag),
              ["BudgetExceeded"]
            )
          }
          assert.strictEqual(alive, 0)
          yield* check
          isPaused = (yield* cycle.saved).submit !== undefined
          if (isPaused) assert.strictEqual(onExceeded, "pause")
        }
        assert.deepStrictEqual(begun, Array.from(new Set(begun)))
      }),
    { arbitrary: { runs: 100 }, timeout: 120_000 }
  )
})
