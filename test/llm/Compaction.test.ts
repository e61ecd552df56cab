/*
 * What holds of every compaction, whatever the conversation and the strategy.
 */
import { assert, describe, it } from "@effect/vitest"
import { Compaction, CompactionError, CompactionStrategy, History, TokenEstimate, Tool } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Context, Deferred, Effect, Fiber, Layer, Schema } from "effect"
import { AiError, LanguageModel, Prompt, Tokenizer } from "effect/ai"
import { TestClock } from "effect/testing"
import { aiError, checkMessages, overloaded, refused } from "./support.ts"

// =============================================================================
// Conversations
// =============================================================================

const text = (value: string) => Prompt.makePart("text", { text: value })
const system = (value: string) => Prompt.makeMessage("system", { content: value })
const user = (value: string) => Prompt.makeMessage("user", { content: [text(value)] })
const says = (value: string) => Prompt.makeMessage("assistant", { content: [text(value)] })

const words = (count: number) => "word ".repeat(count)

let ids = 0
/** A response that calls a tool once for each result, and the results. */
const turn = (...results: ReadonlyArray<string>): ReadonlyArray<Prompt.Message> => {
  const calls = results.map((result) => ({ id: `c${++ids}`, result }))
  return [
    Prompt.makeMessage("assistant", {
      content: calls.map(({ id }) =>
        Prompt.makePart("tool-call", { id, name: "look", params: { n: 1 }, providerExecuted: false })
      )
    }),
    Prompt.makeMessage("tool", {
      content: calls.map(({ id, result }) =>
        Prompt.makePart("tool-result", { id, name: "look", result, isFailure: false, providerExecuted: false })
      )
    })
  ]
}

const compact = <R = never>(
  options: Compaction.Options<R>,
  messages: ReadonlyArray<Prompt.Message>,
  script: ScriptedModel.Script = []
) =>
  Compaction.compact(Compaction.make({ keepTurns: 1, ...options }), { messages }).pipe(
    Effect.provide(ScriptedModel.layer(script))
  )

const resultsIn = (messages: ReadonlyArray<Prompt.Message>) =>
  messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => part.type === "tool-result" ? [String(part.result)] : [])
      : []
  )

const textsIn = (messages: ReadonlyArray<Prompt.Message>) =>
  messages.flatMap((message) =>
    message.role === "user" ? message.content.flatMap((part) => part.type === "text" ? [part.text] : []) : []
  )

// =============================================================================
// Properties
// =============================================================================

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

const Step = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("system"), words: upTo(20) }),
  Schema.Struct({ kind: Schema.Literal("user"), words: upTo(300) }),
  Schema.Struct({ kind: Schema.Literal("text"), words: upTo(300) }),
  Schema.Struct({ kind: Schema.Literal("calls"), results: Schema.Array(upTo(600)).check(Schema.isMaxLength(3)) })
])

const build = (steps: ReadonlyArray<typeof Step.Type>): ReadonlyArray<Prompt.Message> =>
  steps.flatMap((step, index): ReadonlyArray<Prompt.Message> => {
    switch (step.kind) {
      case "system":
        return [system(`S${index} ${words(step.words)}`)]
      case "user":
        return [user(`U${index} ${words(step.words)}`)]
      case "text":
        return [says(`A${index} ${words(step.words)}`)]
      case "calls":
        return step.results.length === 0 ? [says("none")] : turn(...step.results.map((count) => words(count + 1)))
    }
  })

/** What must be there afterwards, counted in another way than the module does. */
const mustStay = (messages: ReadonlyArray<Prompt.Message>, keepTurns: number): ReadonlyArray<Prompt.Message> => {
  const starts = messages.flatMap((message, index) => message.role === "assistant" ? [index] : [])
  const suffix = starts.length === 0 ? messages.length : starts.at(-keepTurns) ?? starts[0]!
  const fromUser = messages.filter((message) => message.role === "user")
  return messages.filter((message, index) =>
    message.role === "system" || index >= suffix || message === fromUser[0] || message === fromUser.at(-1)
  )
}

const isSubsequence = (some: ReadonlyArray<unknown>, all: ReadonlyArray<unknown>): boolean => {
  let position = 0
  for (const each of some) {
    position = all.indexOf(each, position) + 1
    if (position === 0) return false
  }
  return true
}

const evil = (name: string, change: (state: CompactionStrategy.CompactionState) => ReadonlyArray<Prompt.Message>) =>
  CompactionStrategy.custom(name, (state) => Effect.sync(() => change(state)))

const strategies: ReadonlyArray<CompactionStrategy.Strategy> = [
  CompactionStrategy.dropOldest(),
  CompactionStrategy.clearToolResults(),
  CompactionStrategy.clearToolResults({ keepLast: 2, marker: () => "gone" }),
  CompactionStrategy.summarise({ maxTokens: 50 }),
  CompactionStrategy.sequence(
    CompactionStrategy.clearToolResults(),
    CompactionStrategy.summarise({ maxTokens: 50 }),
    CompactionStrategy.dropOldest()
  ),
  evil("keepsNothing", () => []),
  evil("keepsTheEnd", ({ messages }) => messages.slice(-1)),
  evil("turnsAround", ({ messages }) => messages.toReversed()),
  evil("dropsResults", ({ messages }) => messages.filter((message) => message.role !== "tool")),
  evil(
    "dropsCalls",
    ({ units }) =>
      units.flatMap((unit) =>
        unit.isKept ? unit.messages : unit.messages.filter((message) => message.role !== "assistant")
      )
  ),
  evil(
    "dropsSomeResults",
    ({ units }) =>
      units.flatMap((unit) => unit.isKept ? unit.messages : unit.messages.filter((message) => message.role !== "tool"))
  ),
  evil("repeats", ({ messages }) => [...messages, ...messages]),
  evil("dies", () => {
    throw new Error("broken")
  })
]

const BUILT_IN = 5

describe("every compaction", () => {
  // verifies: compaction.valid, compaction.keeps, compaction.identity, compaction.idempotent
  it.effect.prop(
    "leaves a sound conversation, with what must stay",
    {
      steps: Schema.Array(Step).check(Schema.isMinLength(6), Schema.isMaxLength(16)),
      strategy: upTo(strategies.length - 1),
      keepTurns: Schema.Literals([1, 2, 3]),
      /** Which part of the conversation fits. */
      part: Schema.Literals([0.3, 0.6, 0.9]),
      speaks: Schema.Boolean,
      force: Schema.Boolean
    },
    ({ force, keepTurns, part, speaks, steps, strategy: index }) =>
      Effect.gen(function*() {
        const messages = build(steps)
        const strategy = strategies[index]!
        const contextWindow = Math.ceil(TokenEstimate.ofMessages(messages) * part)
        const compaction = Compaction.make({ contextWindow, keepTurns, strategy })
        const model = ScriptedModel.layer(() =>
          speaks ? ScriptedModel.text("A summary.") : { text: "", error: refused }
        )
        const run = (messages: ReadonlyArray<Prompt.Message>, force: boolean) =>
          Effect.provide(Compaction.compact(compaction, { messages, force }), model)

        const shortened = yield* run(messages, force)
        if (shortened === undefined) return
        checkMessages(shortened.messages)
        const stay = mustStay(messages, keepTurns)
        assert.isTrue(isSubsequence(stay, shortened.messages), "what must stay is there, as the same objects")
        // What is not new was there before, in this order; what is new says so.
        const old = shortened.messages.filter((message) => messages.includes(message))
        if (index < BUILT_IN) assert.isTrue(isSubsequence(old, messages))
        for (const message of shortened.messages) {
          if (messages.includes(message)) continue
          assert.include(["user", "tool", "assistant"], message.role)
        }
        assert.deepStrictEqual(
          History.messages(History.fromMessages(shortened.messages)),
          shortened.messages,
          "nothing needs a repair"
        )
        const first = (all: ReadonlyArray<Prompt.Message>) => all.find((message) => message.role !== "system")?.role
        if (first(messages) === "user") assert.strictEqual(first(shortened.messages), "user")
        assert.isBelow(shortened.tokensAfter, shortened.tokensBefore)
        assert.isAtMost(shortened.tokensAfter, contextWindow)

        // Once it fits, it stays.
        const again = yield* run(shortened.messages, false)
        const twice = again === undefined ? undefined : yield* run(again.messages, false)
        if (again !== undefined && twice !== undefined) assert.isBelow(twice.tokensAfter, again.tokensAfter)
        if (shortened.tokensAfter <= contextWindow * 0.75 * 0.5) assert.isUndefined(again)
      }),
    { arbitrary: { runs: 300 } }
  )
})

// =============================================================================
// What stays
// =============================================================================

const many = (count: number) => Array.from({ length: count }, (_, index) => turn(`${index} ${words(200)}`)).flat()

describe("what has to stay", () => {
  // verifies: compaction.pin
  it.effect("is what is pinned, with the turn it belongs to", () =>
    Effect.gen(function*() {
      const fact = turn("the code is 4711")
      const messages = [user("go"), ...many(3), ...fact, ...many(5)]
      const pin: CompactionStrategy.Pin = (message) => message === fact[1]
      const shortened = yield* compact({ contextWindow: 1_000, pin }, messages)
      assert.includeMembers([...shortened!.messages], [...fact])
      assert.isBelow(shortened!.messages.length, messages.length)
    }))

  it.effect("is the first thing a person said, and the last, whatever is said of pins", () =>
    Effect.gen(function*() {
      const messages = [user("first"), ...many(3), user("second"), ...many(3), user("third"), ...many(3)]
      assert.deepStrictEqual(
        textsIn((yield* compact({ contextWindow: 900 }, messages))!.messages),
        ["first", "third"]
      )
      assert.deepStrictEqual(
        textsIn((yield* compact({ contextWindow: 900, pin: () => false }, messages))!.messages),
        ["third"]
      )
    }))

  it.effect("is the question before the turns that stay whole", () =>
    Effect.gen(function*() {
      const messages = [user("first"), ...many(4), user("second"), says("answer"), user("third"), says("answer")]
      const { messages: left } = (yield* compact({ contextWindow: 700, keepTurns: 2 }, messages))!
      assert.deepStrictEqual(textsIn(left), ["first", "second", "third"])
    }))

  it.effect("leads to no compaction where it is all there is", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* compact({ contextWindow: 100, keepTurns: 3 }, [user("go"), ...many(3)]))
    }))

  it.effect("is asked of a pin that dies: then nothing happens", () =>
    Effect.gen(function*() {
      const pin = () => {
        throw new Error("broken")
      }
      assert.isUndefined(yield* compact({ contextWindow: 500, pin }, [user("go"), ...many(9)]))
    }))
})

// =============================================================================
// When
// =============================================================================

describe("a compaction", () => {
  // verifies: compaction.trigger
  it.effect("is due at its trigger, and leads to its target", () =>
    Effect.gen(function*() {
      const messages = [user("go"), ...many(20)]
      const size = TokenEstimate.ofMessages(messages)
      const options = { reserve: 0, strategy: CompactionStrategy.dropOldest() }
      assert.isUndefined(yield* compact({ ...options, contextWindow: Math.ceil(size / 0.84) }, messages))
      const due = (yield* compact({ ...options, contextWindow: Math.floor(size / 0.86) }, messages))!
      assert.approximately(due.tokensAfter / (size / 0.86), 0.5, 0.06)
      const early = (yield* compact(
        { ...options, contextWindow: size * 2, trigger: 0.4, target: 0.1 },
        messages
      ))!
      assert.approximately(early.tokensAfter / (size * 2), 0.1, 0.06)
    }))

  it.effect("leaves room for the answer, and for tools", () =>
    Effect.gen(function*() {
      const messages = [user("go"), ...many(10)]
      const size = TokenEstimate.ofMessages(messages)
      const contextWindow = Math.ceil(size * 1.5)
      assert.isUndefined(yield* compact({ contextWindow, reserve: 0 }, messages))
      assert.isDefined(yield* compact({ contextWindow, reserve: size / 2 }, messages))
      const tool = Tool.dynamic({
        name: "large",
        description: words(size / 2),
        inputSchema: { type: "object" },
        handler: () => Effect.succeed(null)
      })
      const compaction = Compaction.make({ contextWindow, reserve: 0, keepTurns: 1 })
      const shortened = yield* Compaction.compact(compaction, { messages, tools: [tool.definition] }).pipe(
        Effect.provide(ScriptedModel.layer([]))
      )
      assert.isAtLeast(shortened!.tokensBefore, size * 1.4)
    }))

  it.effect("takes settings that are none as not given, and others to the end of their range", () =>
    Effect.gen(function*() {
      const { reserve, target, ...made } = Compaction.make({
        contextWindow: NaN,
        reserve: -5,
        trigger: 7,
        target: NaN,
        keepTurns: 0
      })
      assert.deepStrictEqual([made.contextWindow, reserve, made.trigger, target, made.keepTurns], [
        Infinity,
        0,
        1,
        0.5,
        1
      ])
      assert.strictEqual(Compaction.make({ contextWindow: 1_000, reserve: 5_000 }).reserve, 500)
      assert.strictEqual(Compaction.make({ contextWindow: 1_000_000 }).reserve, 8_192)
      assert.strictEqual(Compaction.make({ target: 0.9, trigger: 0.6 }).target, 0.6)
      // An unknown window is never reached.
      assert.isUndefined(yield* compact({}, many(50)))
    }))

  it.effect("can be had at any time, whatever the window", () =>
    Effect.gen(function*() {
      const messages = [user("go"), ...many(10)]
      const size = TokenEstimate.ofMessages(messages)
      for (const contextWindow of [undefined, size * 10, size / 2]) {
        const compaction = Compaction.make({ contextWindow, keepTurns: 1 })
        const shortened = yield* Compaction.compact(compaction, { messages, force: true }).pipe(
          Effect.provide(ScriptedModel.layer([]))
        )
        assert.isBelow(shortened!.tokensAfter, size * 0.5)
      }
    }))

  it.effect("can be provided, with the services of its strategy", () =>
    Effect.gen(function*() {
      class Archive extends Context.Service<Archive, { readonly name: string }>()("test/OwnArchive") {}
      const strategy = CompactionStrategy.custom("archive", ({ messages }) =>
        Effect.map(Archive, ({ name }) => [user(name), ...messages.slice(-2)]))
      const Live = Layer.provide(
        Compaction.layer({ contextWindow: 800, keepTurns: 1, strategy }),
        Layer.succeed(Archive, { name: "in the cellar" })
      )
      const shortened = yield* Effect.gen(function*() {
        const current = yield* Compaction.Current
        return yield* Compaction.compact(current!, { messages: [system("rules"), ...many(9)] })
      }).pipe(Effect.provide([Live, ScriptedModel.layer([])]))
      // It lost the rules, so it is not used.
      assert.isUndefined(shortened)
      const kept = yield* Effect.gen(function*() {
        const current = yield* Compaction.Current
        return yield* Compaction.compact(current!, { messages: many(9) })
      }).pipe(Effect.provide([Live, ScriptedModel.layer([])]))
      assert.deepStrictEqual(textsIn(kept!.messages), ["in the cellar"])
    }))

  // verifies: compaction.failure
  it.effect("that takes too long is given up", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(
        compact(
          { contextWindow: 500, strategy: CompactionStrategy.custom("slow", () => Effect.never), timeout: "5 seconds" },
          many(9)
        )
      )
      yield* TestClock.adjust("5 seconds")
      assert.isUndefined(yield* Fiber.join(fiber))
    }))

  it.effect("can be interrupted", () =>
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      let isStopped = false
      const strategy = CompactionStrategy.custom("slow", () =>
        Effect.andThen(Deferred.succeed(begun, undefined), Effect.never).pipe(
          Effect.onInterrupt(() =>
            Effect.sync(() => (isStopped = true))
          )
        ))
      const fiber = yield* Effect.forkChild(compact({ contextWindow: 500, strategy }, many(9)))
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(isStopped)
    }))
})

// =============================================================================
// Strategies
// =============================================================================

describe("dropOldest", () => {
  it.effect("puts a note where a response would come first, one and the same", () =>
    Effect.gen(function*() {
      const options = { contextWindow: 900, pin: () => false, strategy: CompactionStrategy.dropOldest() }
      const start = [system("rules"), ...many(9)]
      const first = (yield* compact(options, start))!.messages
      assert.deepStrictEqual(first.slice(0, 3).map(({ role }) => role), ["system", "user", "assistant"])
      assert.match(textsIn(first)[0]!, /left out/)
      const second = (yield* compact(options, [...first, ...many(9)]))!.messages
      assert.strictEqual(second[1], first[1])
      assert.lengthOf(textsIn(second), 1)
    }))

  it.effect("lets a summary go last", () =>
    Effect.gen(function*() {
      const summarised = (yield* compact(
        { contextWindow: 1_500, strategy: CompactionStrategy.summarise() },
        [user("go"), ...many(9)],
        [ScriptedModel.text("The code is 4711.")]
      ))!.messages
      const more = [...summarised, ...many(9)]
      const dropped = (yield* compact({ contextWindow: 1_500, strategy: CompactionStrategy.dropOldest() }, more))!
      assert.match(textsIn(dropped.messages).join(), /4711/)
    }))
})

describe("clearToolResults", () => {
  it.effect("clears the oldest results and keeps every call", () =>
    Effect.gen(function*() {
      const messages = [user("go"), ...turn("small"), ...many(8)]
      const { messages: left, strategy } = (yield* compact({
        contextWindow: 1_900,
        strategy: CompactionStrategy.clearToolResults()
      }, messages))!
      assert.strictEqual(strategy, "clearToolResults")
      assert.strictEqual(left.length, messages.length)
      const results = resultsIn(left)
      assert.strictEqual(results[0], "small")
      assert.match(results[1]!, /^\[A result of 1002 characters was cleared/)
      assert.match(results.at(-1)!, /^7 word/)
      // Calls and untouched results are the same objects.
      left.forEach((message, index) => {
        if (message.role === "tool" && /cleared/.test(resultsIn([message]).join())) return
        assert.strictEqual(message, messages[index])
      })
    }))

  it.effect("names the handle of a stored result, and how a failure began", () =>
    Effect.gen(function*() {
      const handle = "res_0123456789abcdef01234567"
      const failing = Prompt.makeMessage("tool", {
        content: [Prompt.makePart("tool-result", {
          id: "f",
          name: "look",
          result: `no such file ${words(300)}`,
          isFailure: true,
          providerExecuted: false
        })]
      })
      const call = Prompt.makeMessage("assistant", {
        content: [Prompt.makePart("tool-call", { id: "f", name: "look", params: {}, providerExecuted: false })]
      })
      const { messages } = (yield* compact(
        { contextWindow: 1_000, strategy: CompactionStrategy.clearToolResults(), target: 0 },
        [user("go"), ...turn(`${words(300)} the rest is stored as ${handle}`), call, failing, ...many(3)]
      ))!
      assert.match(resultsIn(messages)[0]!, new RegExp(`stored as ${handle}`))
      assert.match(resultsIn(messages)[1]!, /It was a failure: no such file word/)
      assert.isBelow(resultsIn(messages)[1]!.length, 400)
    }))

  it.effect("leaves the newest, the small ones, and those of tools that are spared", () =>
    Effect.gen(function*() {
      const run = (options: CompactionStrategy.ClearToolResultsOptions) =>
        Effect.map(
          compact(
            { contextWindow: 1_300, target: 0, strategy: CompactionStrategy.clearToolResults(options) },
            [user("go"), ...many(6)]
          ),
          (shortened) =>
            shortened === undefined
              ? "nothing"
              : resultsIn(shortened.messages).map((result) => result.startsWith("[") ? "-" : "+").join("")
        )
      assert.strictEqual(yield* run({}), "-----+")
      assert.strictEqual(yield* run({ keepLast: 2 }), "---+++")
      assert.strictEqual(yield* run({ except: ["look"] }), "nothing")
      assert.strictEqual(yield* run({ only: ["other"] }), "nothing")
    }))
})

describe("summarise", () => {
  const strategy = CompactionStrategy.summarise()

  // verifies: compaction.summary
  it.effect("puts a summary in place of what it tells of, and the next one takes it over", () =>
    Effect.gen(function*() {
      const records: Array<string> = []
      const script: ScriptedModel.Script = (request, count) => {
        records.push(textsIn(request.prompt.content).join())
        return { text: `Summary ${count}: the code is 4711.`, usage: { input: 100, output: 10 } }
      }
      const { model } = yield* ScriptedModel.make(script)
      const run = (messages: ReadonlyArray<Prompt.Message>) =>
        Compaction.compact(Compaction.make({ contextWindow: 2_500, strategy, keepTurns: 1 }), { messages }).pipe(
          Effect.provideService(LanguageModel.LanguageModel, model)
        )
      const first = (yield* run([user("go"), ...turn("the code is 4711"), ...many(9)]))!
      assert.deepStrictEqual(first.messages.map(({ role }) => role), ["user", "user", "assistant", "tool"])
      assert.match(textsIn(first.messages)[1]!, /^\[A summary of earlier messages.*4711/s)
      assert.deepStrictEqual([first.usage.inputTokens.total, first.usage.outputTokens.total], [100, 10])
      const second = (yield* run([...first.messages, ...many(9)]))!
      assert.lengthOf(textsIn(second.messages), 2)
      assert.match(textsIn(second.messages)[1]!, /Summary 2/)
      assert.match(records[0]!, /## Result of look\nthe code is 4711/)
      assert.match(records[1]!, /^## Earlier summary\n.*Summary 1: the code is 4711/s)
      assert.notMatch(records[1]!, /## Person/)
    }))

  it.effect("asks within the window, however long the record is", () =>
    Effect.gen(function*() {
      const sizes: Array<number> = []
      const shortened = yield* compact(
        { contextWindow: 4_000, strategy },
        [user("go"), ...turn(words(20_000)), ...many(60), ...turn(words(9_000)), ...many(1)],
        (request) => {
          sizes.push(TokenEstimate.ofMessages(request.prompt.content))
          return ScriptedModel.text("Much was done.")
        }
      )
      assert.lengthOf(sizes, 1)
      assert.isAtMost(sizes[0]!, 3_000)
      assert.isAtLeast(sizes[0]!, 2_000)
      assert.isAtMost(shortened!.tokensAfter, 3_000)
    }))

  it.effect("cuts an answer that is much longer than it was to be", () =>
    Effect.gen(function*() {
      const shortened = yield* compact(
        { contextWindow: 3_000, strategy: CompactionStrategy.summarise({ maxTokens: 100 }) },
        [user("go"), ...many(12)],
        [ScriptedModel.text(words(5_000))]
      )
      assert.isBelow(shortened!.tokensAfter, 600)
    }))

  it.effect("has room for a summary, however little there is", () =>
    Effect.gen(function*() {
      const shortened = yield* compact(
        { contextWindow: 1_000, target: 0, keepTurns: 2, strategy },
        [user("go"), ...many(9)],
        [ScriptedModel.text("The code of the vault is 4711, and the door is on the left.")]
      )
      assert.match(textsIn(shortened!.messages).join(), /4711, and the door is on the left/)
    }))

  for (
    const [name, turns] of Object.entries<Array<ScriptedModel.ScriptedTurn>>({
      "fails": [{ error: refused }],
      "says nothing": [ScriptedModel.text("  ")],
      "is stopped by a filter": [{ text: "I", finishReason: "content-filter" }],
      "is no more there": []
    })
  ) {
    it.effect(`goes back to dropping when the model ${name}`, () =>
      Effect.gen(function*() {
        const shortened = yield* compact({ contextWindow: 1_500, strategy }, [user("go"), ...many(9)], turns)
        assert.strictEqual(shortened!.strategy, "dropOldest")
      }))
  }

  it.effect("goes back to dropping when the model takes too long", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(
        compact({ contextWindow: 1_500, strategy }, [user("go"), ...many(9)], () => ({
          text: "late",
          before: Effect.never
        }))
      )
      yield* TestClock.adjust("60 seconds")
      assert.strictEqual((yield* Fiber.join(fiber))!.strategy, "dropOldest")
    }))

  it.effect("asks again where that may help", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(
        compact({ contextWindow: 1_500, strategy }, [user("go"), ...many(9)], [
          { error: overloaded() },
          ScriptedModel.text("Done.")
        ])
      )
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(fiber))!.strategy, "summarise")
    }))

  it.effect("can have a model of its own", () =>
    Effect.gen(function*() {
      const { model, requests } = yield* ScriptedModel.make([ScriptedModel.text("Short.")])
      const own = CompactionStrategy.summarise({ model, instructions: "Be brief." })
      yield* compact({ contextWindow: 1_500, strategy: own }, [user("go"), ...many(9)])
      const [request] = yield* requests
      assert.match(String(request!.prompt.content[0]!.content), /^Be brief\./)
      assert.lengthOf(request!.tools, 0)
    }))
})

describe("strategies", () => {
  it.effect("in a sequence go on until it fits, and one that fails is passed over", () =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      const spy = (name: string) =>
        CompactionStrategy.custom(name, () =>
          Effect.sync(() => {
            seen.push(name)
            return undefined
          }))
      const broken = CompactionStrategy.custom("broken", () => Effect.fail("no"))
      const strategy = CompactionStrategy.sequence(
        broken,
        spy("before"),
        CompactionStrategy.clearToolResults(),
        CompactionStrategy.dropOldest(),
        spy("after")
      )
      assert.strictEqual(strategy.name, "broken, before, clearToolResults, dropOldest, after")
      const shortened = yield* compact({ contextWindow: 900, strategy }, [user("go"), ...many(40)])
      assert.strictEqual(shortened!.strategy, "clearToolResults, dropOldest")
      assert.deepStrictEqual(seen, ["before"])
    }))

  it.effect("have the services they were made with", () =>
    Effect.gen(function*() {
      class Archive extends Context.Service<Archive, { readonly name: string }>()("test/Archive") {}
      const seen: Array<string> = []
      const strategy = CompactionStrategy.custom("archive", () =>
        Effect.map(Archive, ({ name }) => {
          seen.push(name)
          return undefined
        }))
      const run = compact({ contextWindow: 500, strategy }, many(9))
      yield* Effect.provideService(run, Archive, { name: "cellar" })
      assert.deepStrictEqual(seen, ["cellar"])
    }))

  it.effect("fail with an error that names them", () =>
    Effect.gen(function*() {
      const strategy = CompactionStrategy.custom("archive", () => Effect.fail({ message: "closed" }))
      // A strategy reads its state only when it is run by a compaction.
      const error = yield* Effect.flip(strategy.compact({} as CompactionStrategy.CompactionState))
      assert.isTrue(CompactionError.isCompactionError(error))
      assert.match(error.message, /^archive: /)
    }))
})

// =============================================================================
// Counting
// =============================================================================

/** Counted with o200k_base, by gpt-tokenizer 4.0. */
const SAMPLES: ReadonlyArray<readonly [text: string, tokens: number]> = [
  ["The model calls tools, gets their results and thinks again until it has an answer.", 17],
  [
    "export const ofMessage = (message: Prompt.Message): number => {\n  const known = messageTokens.get(message)\n  if (known !== undefined) return known\n}",
    34
  ],
  [
    "[{\"id\":1047,\"name\":\"user1\",\"active\":false,\"score\":88.98876333560322,\"created\":\"2025-03-11T10:00:00Z\"},{\"id\":2094,\"name\":\"user2\",\"active\":true,\"score\":125.84911600801969,\"created\":\"2025-03-11T10:00:00Z\"},{\"id\":3141,\"name\":\"user3\",\"active\":false,\"score\":154.13305939998725,\"created\":\"2025-03-11T10:00:00Z\"}]",
    123
  ],
  [
    "2025-11-30T12:01:07.3Z INFO [worker-3] request id=9f86d081884c7d659a2feaa0c55ad015 status=200 duration=12ms path=/api/v1/items/7",
    58
  ],
  ["-rw-r--r-- 1 root root  3596 Dec  1 10:42 brief.md\ndrwxr-xr-x 3 root root  4096 Dec  1 10:45 bench\n", 49],
  ["id,name,amount\n1047,Anna,12.50\n2094,Bert,7.25\n3141,Carl,99.99\n", 32],
  ["H0D8ktokFpR1CXnubPWC8tXX0o4YM13gWrxU0FYOD1MChgxlK/CNVgJSql50IQVG82n7u86MEs/HlXsmUv6adQ==", 58],
  ["ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", 33],
  ["<div class=\"row\"><a href=\"https://example.com/users/7\">Anna</a><span>anna@example.com</span></div>", 30],
  ["Das Modell ruft Werkzeuge auf, bekommt die Ergebnisse zurück und überlegt noch einmal.", 18],
  ["工具系统的自动循环会调用模型，并把结果返回给模型。", 15],
  ["Модель вызывает инструменты и снова думает над ответом.", 13]
]

describe("the estimate", () => {
  // verifies: compaction.estimate
  it("is near what encodings give, for what tools return", () => {
    for (const [sample, tokens] of SAMPLES) {
      const ratio = TokenEstimate.ofText(sample) / tokens
      assert.isTrue(ratio > 0.7 && ratio < 1.5, `${ratio.toFixed(2)} for ${sample.slice(0, 40)}`)
    }
  })

  it.prop("of any text is no more than its characters", { text: Schema.String }, ({ text }) => {
    const tokens = TokenEstimate.ofText(text)
    assert.isTrue(tokens >= 0 && tokens <= text.length)
  })

  it("takes images flat, and everything a request carries", () => {
    const file = (mediaType: string, data: string | URL | Uint8Array) =>
      TokenEstimate.ofMessage(Prompt.makeMessage("user", { content: [Prompt.makePart("file", { mediaType, data })] }))
    assert.strictEqual(file("image/png", new Uint8Array(5_000_000)), TokenEstimate.tokensPerImage + 4)
    assert.strictEqual(file("image/png", "A".repeat(5_000)), TokenEstimate.tokensPerImage + 4)
    assert.strictEqual(file("application/pdf", new URL("https://example.com/a.pdf")), TokenEstimate.tokensPerImage + 4)
    assert.isAbove(file("application/pdf", new Uint8Array(5_000_000)), 50_000)
    assert.strictEqual(file("text/plain", new Uint8Array(4_000)), 1_004)
    const cyclic: Record<string, unknown> = {}
    cyclic["self"] = cyclic
    const call = Prompt.makeMessage("assistant", {
      content: [Prompt.makePart("tool-call", { id: "1", name: "a", params: cyclic, providerExecuted: false })]
    })
    assert.isAbove(TokenEstimate.ofMessage(call), 0)
  })

  // verifies: compaction.calibration
  it("learns from reports: up at once, down slowly, and not from nonsense", () => {
    const learn = (...reports: ReadonlyArray<number>) =>
      reports.reduce(
        (calibration, reported) => TokenEstimate.calibrate(calibration, { estimated: 1_000, reported }),
        TokenEstimate.uncalibrated
      ).ratio
    assert.strictEqual(learn(800), 0.8)
    assert.strictEqual(learn(800, 1_500), 1.5)
    assert.approximately(learn(1_500, 1_000), 1.35, 0.001)
    assert.strictEqual(learn(1_000_000), 3)
    // A server that cuts the prompt by itself reports little; the estimate must not follow it down for good.
    assert.isAtLeast(learn(10, 10, 10, 10, 10, 10), 0.5)
    assert.strictEqual(learn(NaN, -1, 0, Infinity), 1)
    const { calibrate, uncalibrated } = TokenEstimate
    assert.strictEqual(calibrate(uncalibrated, { estimated: 20, reported: 400 }).ratio, 1)
  })

  // verifies: compaction.tokenizer
  it.effect("gives way to a tokenizer, which is asked once for each message", () =>
    Effect.gen(function*() {
      let asked = 0
      const tokenizer = Tokenizer.make({
        tokenize: ({ content }) =>
          Effect.sync(() => {
            asked += content.length
            return Array.from({ length: 100 * content.length }, (_, index) => index)
          })
      })
      const messages = [user("go"), ...many(9)]
      const strategy = CompactionStrategy.dropOldest()
      const shortened = yield* compact({ contextWindow: 1_500, reserve: 0, strategy }, messages).pipe(
        Effect.provideService(Tokenizer.Tokenizer, tokenizer)
      )
      assert.strictEqual(shortened!.tokensBefore, 1_900)
      assert.strictEqual(shortened!.tokensAfter, 700)
      assert.strictEqual(asked, 19)
    }))

  it.effect("takes the place of a tokenizer that fails", () =>
    Effect.gen(function*() {
      const tokenizer = Tokenizer.make({ tokenize: () => Effect.fail(refused) })
      const messages = [user("go"), ...many(9)]
      const shortened = yield* compact({ contextWindow: 1_500 }, messages).pipe(
        Effect.provideService(Tokenizer.Tokenizer, tokenizer)
      )
      assert.strictEqual(shortened!.tokensBefore, TokenEstimate.ofMessages(messages))
    }))
})

// =============================================================================
// Refusals
// =============================================================================

describe("a refusal for length", () => {
  const invalid = (description: string, metadata: AiError.ProviderMetadata = {}) =>
    aiError(new AiError.InvalidRequestError({ description, metadata }))

  // verifies: compaction.overflow-detection
  it("is known by the words of each provider", () => {
    const said: ReadonlyArray<string> = [
      // OpenAI and what speaks like it
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 202868 tokens.",
      "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens",
      "Your input exceeds the context window of this model. Please adjust your input and try again.",
      // Anthropic
      "prompt is too long: 208656 tokens > 200000 maximum",
      "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
      // Gemini
      "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
      // Bedrock, Mistral, xAI, Cohere, Moonshot
      "Input is too long for requested model.",
      "Prompt contains 159202 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
      "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
      "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354.",
      "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
      // Groq, Cerebras
      "Please reduce the length of the messages or completion.",
      "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
      "Request too large for model `llama` in organization `o` on tokens per minute (TPM): Limit 12000, Requested 14137",
      // vLLM, SGLang, llama.cpp, LM Studio, Ollama, TGI
      "This model's maximum context length is 16384 tokens and your request has 20000 input tokens",
      "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
      "the request exceeds the available context size. try increasing the context size or enable context shift",
      "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context"
      + " length of only 4096 tokens, which is not enough.",
      "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096)",
      "the input length exceeds the context length",
      "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1244 `inputs` tokens"
    ]
    for (const sentence of said) assert.isTrue(Compaction.isContextLengthError(invalid(sentence)), sentence)
  })

  it("is known by a code, wherever a provider puts it", () => {
    const is = Compaction.isContextLengthError
    assert.isTrue(is(invalid("no", { openai: { code: "context_length_exceeded" } })))
    assert.isTrue(is(invalid("no", { openai: { errorCode: "context_length_exceeded", errorType: null } })))
    assert.isTrue(
      is(aiError(new AiError.UnknownError({ metadata: { anthropic: { errorType: "request_too_large" } } })))
    )
    assert.isTrue(
      is(aiError(
        new AiError.InternalProviderError({
          description: "HTTP 500",
          http: { body: "{\"error\":{\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":1407,\"n_ctx\":256}}" }
        })
      ))
    )
    assert.isTrue(
      is(aiError(
        new AiError.RateLimitError({
          metadata: {
            openai: {
              message:
                "Request too large for gpt-4o in organization o on tokens per min (TPM): Limit 30000, Requested 61337."
            }
          }
        })
      ))
    )
  })

  it("is not seen in other failures", () => {
    const others = [
      invalid("max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
      invalid("Invalid 'tools[0].function.name': string does not match pattern"),
      aiError(
        new AiError.RateLimitError({
          metadata: { openai: { message: "Rate limit reached for gpt-4o: Limit 30000, Used 28000, Requested 8000." } }
        })
      ),
      aiError(new AiError.ContentPolicyError({ description: "prompt is too long: 2 tokens > 1 maximum" })),
      aiError(new AiError.AuthenticationError({ kind: "InvalidKey" })),
      aiError(new AiError.QuotaExhaustedError({})),
      overloaded(),
      refused
    ]
    for (const error of others) assert.isFalse(Compaction.isContextLengthError(error), error.message)
  })

  it("is looked for at the start of a text only, so that it takes bounded time", () => {
    assert.isTrue(Compaction.isContextLengthError(invalid(`${"x".repeat(3_000)} prompt is too long`)))
    assert.isFalse(Compaction.isContextLengthError(invalid(`${"x".repeat(5_000)} prompt is too long`)))
  })
})
