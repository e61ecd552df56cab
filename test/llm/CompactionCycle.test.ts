/*
 * Conversations that outgrow their model, in both loops.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  Compaction,
  CompactionStrategy,
  type CycleConfig,
  CycleEvent,
  CycleStore,
  LlmCycle,
  PermissionPolicy,
  Question,
  SavedCycle,
  TokenEstimate,
  ToolRegistry
} from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Deferred, Effect, Exit, Fiber, Schema, Stream } from "effect"
import { AiError, LanguageModel, type Prompt, Tokenizer } from "effect/ai"
import { json, type Respond } from "../openai/support.ts"
import { tool } from "../tools/support.ts"
import { makeHttpCycle, says } from "./http.ts"
import {
  aiError,
  callsOf,
  checkEvents,
  checkMessages,
  describe as name,
  drivers,
  makeCycle,
  reasonOf,
  refused,
  results
} from "./support.ts"

// =============================================================================
// A provider with a window
// =============================================================================

/** What a provider would count; by another rule than the estimate, and more. */
const tokensOf = (request: ScriptedModel.ScriptedRequest): number => {
  const text = JSON.stringify([
    request.prompt.content.map(({ content, role }) => ({ role, content })),
    request.tools.map(({ description, name }) => ({ name, description }))
  ])
  return text.match(/[a-zA-Z]{1,5}|\d{1,3}|[^\sa-zA-Z\d]/g)?.length ?? 0
}

const tooLong = (used?: number, limit?: number): AiError.AiError =>
  aiError(
    new AiError.InvalidRequestError({
      description: used === undefined
        ? "Please reduce the length of the messages."
        : `prompt is too long: ${used} tokens > ${limit} maximum`,
      metadata: { test: { code: "context_length_exceeded" } }
    })
  )

/** Refuses what is too long, as providers do, and says what it has counted. */
const within =
  (contextWindow: number, answer: (request: ScriptedModel.ScriptedRequest) => ScriptedModel.ScriptedTurn) =>
  (request: ScriptedModel.ScriptedRequest): ScriptedModel.ScriptedTurn => {
    const tokens = tokensOf(request)
    return tokens > contextWindow
      ? { error: tooLong(tokens, contextWindow) }
      : { usage: { input: tokens, output: 20 }, ...answer(request) }
  }

const words = (count: number) => "word ".repeat(count)

const textOf = (messages: ReadonlyArray<Prompt.Message>): string => JSON.stringify(messages)

const page = (size: number) => {
  let count = 0
  return tool("look", () => Effect.sync(() => `page ${++count}: ${words(size)}`))
}

const isSummary = (request: ScriptedModel.ScriptedRequest) => textOf(request.prompt.content).includes("You condense")

/** Calls a tool in so many requests, then answers. */
const looks = (turns: number) => (_: unknown, count: number) =>
  count <= turns ? callsOf("look") : ScriptedModel.text("ok")

for (const { name: loop, submit } of drivers) {
  describe(loop, () => {
    // verifies: compaction.trigger, compaction.turns
    it.effect("compacts before the window is reached", () =>
      Effect.gen(function*() {
        const { check, cycle, requests } = yield* makeCycle({
          tools: [page(200)],
          config: { maxTurns: 40, compaction: Compaction.make({ contextWindow: 2_000, reserve: 200 }) },
          script: (request, count) => within(2_000, () => looks(30)(request, count))(request)
        })
        const response = yield* submit(cycle, "go")
        assert.strictEqual(response.turns, 31)
        assert.lengthOf(yield* requests, 31)
        assert.strictEqual((yield* cycle.history).turns, 31)
        assert.isBelow((yield* cycle.messages).length, 40)
        yield* check
      }))

    // verifies: compaction.identity
    it.effect("sends what it keeps as the same objects, compacted or not", () =>
      Effect.gen(function*() {
        const { cycle, requests } = yield* makeCycle({
          tools: [page(200)],
          config: { maxTurns: 20, compaction: Compaction.make({ contextWindow: 3_000, reserve: 200, target: 0.3 }) },
          script: looks(12)
        })
        yield* submit(cycle, "go")
        const prompts = (yield* requests).map(({ prompt }) => prompt.content)
        let grown = 0
        prompts.slice(1).forEach((prompt, index) => {
          const before = prompts[index]!
          const isLonger = before.every((message, at) => prompt[at] === message)
          if (isLonger) grown++
          // A compaction keeps the last turn, at least.
          else assert.include(prompt, before.at(-1))
        })
        assert.isAbove(grown, 6)
      }))

    // verifies: compaction.overflow
    it.effect("asks once more, shorter, when the provider refuses the length", () =>
      Effect.gen(function*() {
        for (const error of [tooLong(5_000, 1_200), tooLong()]) {
          const { check, cycle, requests } = yield* makeCycle({
            tools: [page(200)],
            config: { compaction: Compaction.make({ contextWindow: 100_000 }) },
            script: [callsOf("look"), callsOf("look"), callsOf("look"), { error }, ScriptedModel.text("ok")]
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "ok")
          const sizes = (yield* requests).map(tokensOf)
          assert.isBelow(sizes[4]!, sizes[3]! * 0.7)
          assert.strictEqual((yield* cycle.history).turns, 4)
          yield* check
        }
      }))

    it.effect("asks no third time, and for no other reason", () =>
      Effect.gen(function*() {
        const run = (...errors: ReadonlyArray<AiError.AiError>) =>
          Effect.gen(function*() {
            const { check, cycle, requests } = yield* makeCycle({
              tools: [page(200)],
              config: { compaction: Compaction.make({ contextWindow: 100_000 }) },
              script: [callsOf("look"), callsOf("look"), callsOf("look"), ...errors.map((error) => ({ error }))]
            })
            const reason = yield* reasonOf(submit(cycle, "go"))
            yield* check
            return [reason._tag, (yield* requests).length - 3]
          })
        assert.deepStrictEqual(yield* run(tooLong(), tooLong()), ["ModelFailed", 2])
        assert.deepStrictEqual(yield* run(tooLong(), refused), ["ModelFailed", 2])
        assert.deepStrictEqual(yield* run(refused), ["ModelFailed", 1])
      }))

    it.effect("leaves a refusal alone without a compaction, and does not wait to repeat it", () =>
      Effect.gen(function*() {
        const error = aiError(
          new AiError.InternalProviderError({ description: "the request exceeds the available context size" })
        )
        const { cycle, requests } = yield* makeCycle({ script: [{ error }] })
        const reason = yield* reasonOf(submit(cycle, "go"))
        assert.strictEqual(reason._tag === "ModelFailed" ? reason.error : undefined, error)
        assert.lengthOf(yield* requests, 1)
      }))

    it.effect("learns the window from a refusal", () =>
      Effect.gen(function*() {
        let refusals = 0
        const { cycle } = yield* makeCycle({
          tools: [page(200)],
          // Not known beforehand.
          config: { maxTurns: 60, compaction: Compaction.make() },
          script: (request, count) => {
            const turn = within(2_500, () => looks(45)(request, count))(request)
            if (turn.error !== undefined) refusals++
            return turn
          }
        })
        yield* submit(cycle, "go")
        assert.strictEqual(refusals, 1)
      }))

    // verifies: compaction.exceeded
    it.effect("says so when what has to stay is more than the window", () =>
      Effect.gen(function*() {
        const { check, cycle, requests } = yield* makeCycle({
          tools: [page(3_000)],
          config: { compaction: Compaction.make({ contextWindow: 2_000 }) },
          script: (request) => within(2_000, () => callsOf("look"))(request)
        })
        const reason = yield* reasonOf(submit(cycle, "go"))
        if (reason._tag !== "ContextExceeded") return assert.fail(reason._tag)
        assert.strictEqual(reason.contextWindow, 2_000)
        assert.isAbove(reason.tokens, 2_000)
        assert.match(reason.message, /prompt is too long/)
        // It was tried, since an estimate may be wrong, and not again.
        assert.lengthOf(yield* requests, 2)
        assert.lengthOf(yield* cycle.messages, 3)
        yield* check
      }))

    // verifies: compaction.failure
    it.effect("tries the request as it is when a strategy fails", () =>
      Effect.gen(function*() {
        const strategies = [
          CompactionStrategy.custom("fails", () => Effect.fail("no")),
          CompactionStrategy.custom("dies", () => Effect.die("broken")),
          CompactionStrategy.custom("throws", () => {
            throw new Error("broken")
          }),
          CompactionStrategy.custom("loses", () => Effect.succeed([])),
          CompactionStrategy.custom("nothing", () => Effect.undefined)
        ]
        for (const strategy of strategies) {
          const { check, cycle } = yield* makeCycle({
            tools: [page(300)],
            config: { compaction: Compaction.make({ contextWindow: 1_000, strategy }) },
            script: looks(6)
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "ok")
          assert.lengthOf(yield* cycle.messages, 14)
          yield* check
        }
      }))

    it.effect("counts what a summary costs", () =>
      Effect.gen(function*() {
        let summaries = 0
        const { cycle } = yield* makeCycle({
          tools: [page(300)],
          config: {
            maxTurns: 20,
            compaction: Compaction.make({ contextWindow: 3_000, strategy: CompactionStrategy.summarise() })
          },
          script: (request) => {
            if (!isSummary(request)) {
              return {
                ...results(request.prompt.content).length > 0 && summaries > 1
                  ? ScriptedModel.text("ok")
                  : callsOf("look"),
                usage: { input: 0, output: 1 }
              }
            }
            summaries++
            return { text: "All is well.", usage: { input: 1_000, output: 100 } }
          }
        })
        const { turns, usage } = yield* submit(cycle, "go")
        assert.strictEqual(summaries, 2)
        assert.deepStrictEqual([usage.inputTokens.total, usage.outputTokens.total], [2_000, 200 + turns])
        assert.strictEqual((yield* cycle.usage).inputTokens.total, 2_000)
      }))

    // verifies: compaction.calibration
    it.effect("goes by what the provider has counted", () =>
      Effect.gen(function*() {
        // Far more than is estimated: without reports the window would be passed.
        const { cycle, requests } = yield* makeCycle({
          tools: [page(200)],
          config: { maxTurns: 30, compaction: Compaction.make({ contextWindow: 5_000, reserve: 500 }) },
          script: (request, count) => {
            const tokens = Math.ceil(TokenEstimate.ofMessages(request.prompt.content) * 2.5)
            return tokens > 4_500
              ? { error: refused }
              : { ...looks(20)(request, count), usage: { input: tokens, output: 1 } }
          }
        })
        yield* submit(cycle, "go")
        assert.lengthOf(yield* requests, 21)
      }))

    // verifies: compaction.pending
    it.effect("touches nothing while somebody is asked", () =>
      Effect.gen(function*() {
        const { check, cycle, requests } = yield* makeCycle({
          tools: [
            page(300),
            tool("ask", () => Effect.succeed(`asked ${words(300)}`), { needsApproval: true })
          ],
          config: { maxTurns: 20, compaction: Compaction.make({ contextWindow: 1_300, reserve: 100, keepTurns: 1 }) },
          script: (_, count) =>
            count === 4 ? callsOf("look", "ask", "look") : count < 8 ? callsOf("look") : ScriptedModel.text("ok")
        })
        const suspended = yield* cycle.submitWithTools("go")
        assert.strictEqual(suspended.finishReason, "awaiting-input")
        yield* check
        const before = yield* cycle.messages
        const [question] = suspended.pending
        const response = yield* cycle.resume([Question.approve(question!)])
        assert.strictEqual(response.text, "ok")
        const [, , , , after] = yield* requests
        // The turn that waited is there, whole, with the answer.
        const turn = after!.prompt.content.slice(-2)
        assert.deepStrictEqual(turn[0], before.at(-2))
        assert.deepStrictEqual(results(turn).map(({ result }) => String(result).slice(0, 5)), [
          "page ",
          "asked",
          "page "
        ])
        yield* check
      }))

    // verifies: compaction.service
    it.effect("takes its compaction from the context, unless the configuration has one", () =>
      Effect.gen(function*() {
        const used: Array<string> = []
        const spy = (name: string) =>
          Compaction.make({
            contextWindow: 500,
            strategy: CompactionStrategy.custom(name, () =>
              Effect.sync(() => {
                used.push(name)
                return undefined
              }))
          })
        const run = (compaction?: Compaction.Compaction) =>
          Effect.flatMap(
            makeCycle({ tools: [page(300)], script: looks(3), config: { compaction } }),
            ({ cycle }) => submit(cycle, "go")
          )
        yield* run().pipe(Effect.provideService(Compaction.Current, spy("current")))
        assert.isNotEmpty(used)
        assert.deepStrictEqual(used, used.map(() => "current"))
        used.length = 0
        yield* run(spy("own")).pipe(Effect.provideService(Compaction.Current, spy("current")))
        assert.deepStrictEqual(used, used.map(() => "own"))
        used.length = 0
        yield* run()
        assert.isEmpty(used)
      }))

    it.effect("asks a tokenizer where there is one", () =>
      Effect.gen(function*() {
        let asked = 0
        const tokenizer = Tokenizer.make({
          tokenize: ({ content }) =>
            Effect.sync(() => {
              asked += content.length
              return Array.from({ length: content.length * 10 }, () => 0)
            })
        })
        const { cycle } = yield* makeCycle({
          tools: [page(300)],
          config: { compaction: Compaction.make({ contextWindow: 1_000 }) },
          script: looks(6)
        }).pipe(Effect.provideService(Tokenizer.Tokenizer, tokenizer))
        yield* submit(cycle, "go")
        // By the estimate it would have been compacted.
        assert.lengthOf(yield* cycle.messages, 14)
        assert.strictEqual(asked, 13)
      }))

    it.effect("can be interrupted while it summarises, and goes on", () =>
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        let isFirst = true
        const { check, cycle } = yield* makeCycle({
          tools: [page(300)],
          config: {
            compaction: Compaction.make({ contextWindow: 1_500, strategy: CompactionStrategy.summarise() })
          },
          script: (request) => {
            if (!isSummary(request)) return isFirst ? callsOf("look") : ScriptedModel.text("ok")
            if (!isFirst) return ScriptedModel.text("Much was read.")
            isFirst = false
            return { before: Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) }
          }
        })
        const fiber = yield* Effect.forkChild(submit(cycle, "go"))
        yield* Deferred.await(begun)
        const before = yield* cycle.messages
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(yield* cycle.messages, before)
        yield* check
        assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
        assert.match(textOf(yield* cycle.messages), /Much was read/)
        yield* check
      }))
  })
}

// =============================================================================
// What a stream tells
// =============================================================================

const eventsOf = (stream: Stream.Stream<CycleEvent.CycleEvent, unknown>) =>
  Effect.gen(function*() {
    const events: Array<CycleEvent.CycleEvent> = []
    const exit = yield* Effect.exit(Stream.runForEach(stream, (event) => Effect.sync(() => events.push(event))))
    return { events, exit }
  })

describe("the stream", () => {
  // verifies: compaction.event
  it.effect("tells of a compaction before anything of its turn", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [page(200)],
        config: { maxTurns: 20, compaction: Compaction.make({ contextWindow: 2_000, reserve: 200 }) },
        script: looks(12)
      })
      const { events, exit } = yield* eventsOf(cycle.submitStreamWithTools("go"))
      checkEvents(events, exit)
      const compactions = events.flatMap((event, index) => event._tag === "HistoryCompacted" ? [{ event, index }] : [])
      assert.isAbove(compactions.length, 1)
      for (const { event, index } of compactions) {
        assert.isBelow(event.messagesAfter, event.messagesBefore + 1)
        assert.isBelow(event.tokensAfter, event.tokensBefore)
        assert.isFalse(event.isRefused)
        assert.match(event.strategy, /^(clearToolResults|dropOldest|clearToolResults, dropOldest)$/)
        const [before, after] = [events[index - 1]!, events[index + 1]!]
        assert.strictEqual(before._tag, "ToolExecutionCompleted")
        assert.strictEqual("turn" in after ? after.turn : 0, event.turn)
        assert.strictEqual("turn" in before ? before.turn : 0, event.turn - 1)
      }
    }))

  it.effect("tells of the second try, and of a function", () =>
    Effect.gen(function*() {
      const refusing = yield* makeCycle({
        tools: [page(200)],
        config: { compaction: Compaction.make() },
        script: [callsOf("look"), callsOf("look"), callsOf("look"), { error: tooLong() }, ScriptedModel.text("ok")]
      })
      const { events, exit } = yield* eventsOf(refusing.cycle.submitStreamWithTools("go"))
      checkEvents(events, exit)
      assert.deepStrictEqual(events.slice(-4).map(name), [
        "HistoryCompacted(4, clearToolResults, dropOldest)",
        "AssistantTextDelta(\"ok\")",
        "TurnComplete(4, stop)",
        "CycleComplete(stop)"
      ])
      const replacing = yield* makeCycle({
        config: { compaction: ({ messages, turn }) => Effect.succeed(turn === 1 ? messages.slice(-1) : messages) },
        script: () => ScriptedModel.text("ok")
      })
      yield* replacing.cycle.submit("one")
      const replaced = yield* eventsOf(replacing.cycle.submitStream("two"))
      assert.strictEqual(name(replaced.events[0]!), "HistoryCompacted(2, function)")
    }))

  it.effect("asks no second time once it has told of an answer", () =>
    Effect.gen(function*() {
      const { cycle, requests } = yield* makeCycle({
        config: { compaction: Compaction.make() },
        script: [{ text: "It is", error: tooLong() }]
      })
      const { events, exit } = yield* eventsOf(cycle.submitStream("go"))
      assert.isTrue(Exit.isFailure(exit))
      assert.deepStrictEqual(events.map(name), ["AssistantTextDelta(\"It \")", "AssistantTextDelta(\"is\")"])
      assert.lengthOf(yield* requests, 1)
    }))

  it.effect("stores and sends a compaction as JSON", () =>
    Effect.gen(function*() {
      const { cycle } = yield* makeCycle({
        tools: [page(200)],
        config: { maxTurns: 20, compaction: Compaction.make({ contextWindow: 2_000, reserve: 200 }) },
        script: looks(12)
      })
      const { events } = yield* eventsOf(cycle.submitStreamWithTools("go"))
      const compaction = events.find((event) => event._tag === "HistoryCompacted")!
      const codec = Schema.toCodecJson(CycleEvent.CycleEvent)
      const json = yield* Schema.encodeEffect(codec)(compaction)
      assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(codec)(JSON.parse(JSON.stringify(json))), compaction)
    }))
})

// =============================================================================
// Properties
// =============================================================================

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

const Turns = Schema.Array(
  Schema.Struct({ calls: upTo(3), words: upTo(400), asks: Schema.Boolean })
).check(Schema.isMinLength(3), Schema.isMaxLength(12))

const STRATEGIES = [
  CompactionStrategy.dropOldest(),
  CompactionStrategy.clearToolResults(),
  CompactionStrategy.summarise({ maxTokens: 60 }),
  CompactionStrategy.sequence(CompactionStrategy.clearToolResults(), CompactionStrategy.dropOldest()),
  CompactionStrategy.custom("keepsTheEnd", ({ messages }) => Effect.succeed(messages.slice(-1)))
]

describe("a conversation under a small window", () => {
  // verifies: compaction.cycle
  it.effect.prop(
    "stays sound, whatever is refused, asked, answered, interrupted or lost with its process",
    {
      turns: Turns,
      strategy: upTo(STRATEGIES.length - 1),
      /** What the provider takes; what was configured is more or less, or (0) not known. */
      window: Schema.Literals([600, 1_500, 4_000]),
      configured: Schema.Literals([0, 500, 1_500, 6_000]),
      streams: Schema.Boolean,
      interruptAt: upTo(80),
      crashes: Schema.Boolean
    },
    ({ configured, crashes, interruptAt, streams, strategy, turns, window }) =>
      Effect.gen(function*() {
        let position = 0
        const registry = yield* Effect.provide(ToolRegistry.make, PermissionPolicy.layerAllowAll)
        yield* Effect.orDie(registry.registerAll([
          tool("read", () => Effect.sync(() => `page ${words(turns[position - 1]?.words ?? 1)}`)),
          tool("ask", () => Effect.succeed("answered"), { needsApproval: true })
        ]))
        const { model, requests } = yield* ScriptedModel.make((request) => {
          if (isSummary(request)) return ScriptedModel.text("All of it.")
          if (tokensOf(request) > window) return { error: tooLong() }
          const turn = turns[position]
          position++
          return turn === undefined || turn.calls === 0
            ? { text: "done", usage: { input: tokensOf(request), output: 1 } }
            : callsOf(...Array.from({ length: turn.calls }, (_, at) => turn.asks && at === 1 ? "ask" : "read"))
        })
        const config: CycleConfig.CycleConfig = {
          maxTurns: 30,
          system: "Be brief.",
          compaction: Compaction.make({ contextWindow: configured, strategy: STRATEGIES[strategy]! })
        }
        const start = (saved?: SavedCycle.SavedCycle) =>
          (saved === undefined ? LlmCycle.make(config) : LlmCycle.restore(saved, config)).pipe(
            Effect.provideService(LanguageModel.LanguageModel, model),
            Effect.provideService(ToolRegistry.ToolRegistry, registry)
          )
        let cycle = yield* start()
        const codec = Schema.toCodecJson(SavedCycle.SavedCycle)

        /** Runs to its end, or until it is interrupted, or the process is gone and another one goes on. */
        const run = Effect.fnUntraced(function*(effect: Effect.Effect<unknown, unknown>) {
          const fiber = yield* Effect.forkChild(effect)
          for (let step = 0; step < interruptAt && fiber.pollUnsafe() === undefined; step++) yield* Effect.yieldNow
          const kept = yield* cycle.saved
          if (interruptAt < 40) yield* Fiber.interrupt(fiber)
          yield* Fiber.await(fiber)
          checkMessages(yield* cycle.messages)
          if (!crashes || interruptAt >= 40) return
          const json = JSON.stringify(yield* Schema.encodeEffect(codec)(kept))
          cycle = yield* start(yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json)))
          checkMessages(yield* cycle.messages)
        })
        for (let submit = 0; submit < 3; submit++) {
          const prompt = `question ${submit}`
          yield* run(streams ? Stream.runDrain(cycle.submitStreamWithTools(prompt)) : cycle.submitWithTools(prompt))
          for (let round = 0; round < 5; round++) {
            const pending = yield* cycle.pending
            if (pending.length === 0) break
            const before = (yield* cycle.messages).slice(-2)
            assert.isFalse(before.some((message) => textOf([message]).includes("cleared to make room")))
            const answers = pending.map((question) => Question.approve(question))
            yield* run(streams ? Stream.runDrain(cycle.resumeStream(answers)) : cycle.resume(answers))
          }
        }
        for (const { prompt } of yield* requests) {
          checkMessages(prompt.content)
          if (textOf(prompt.content).includes("You condense")) continue
          assert.strictEqual(prompt.content[0]?.role, "system")
          // What a person asked first and last is there.
          const texts = prompt.content.flatMap((message) => message.role === "user" ? [textOf([message])] : [])
          assert.match(texts[0]!, /question/)
          assert.match(texts.at(-1)!, /question|All of it/)
        }
        assert.isAtLeast(
          (yield* cycle.history).turns,
          (yield* cycle.messages).filter((it) => it.role === "assistant").length
        )
      }),
    { arbitrary: { runs: 80 } }
  )
})

// =============================================================================
// Over a real server
// =============================================================================

describe("over the OpenAI layer", () => {
  for (const { name: loop, submit } of drivers) {
    it.effect(`a refusal is known in ${loop}, and the shorter request goes through`, () =>
      Effect.gen(function*() {
        const sizes: Array<number> = []
        const refusals: ReadonlyArray<Respond> = [
          // OpenAI, vLLM, llama.cpp
          json({
            error: {
              message: "This model's maximum context length is 1000 tokens.",
              type: "invalid_request_error",
              param: "messages",
              code: "context_length_exceeded"
            }
          }, 400),
          json({
            object: "error",
            message: "This model's maximum context length is 1000 tokens. However, you requested 1616 tokens.",
            type: "BadRequestError",
            code: 400
          }, 400),
          json({
            error: {
              code: 500,
              message: "the request exceeds the available context size. try increasing the context size",
              type: "exceed_context_size_error",
              n_prompt_tokens: 1_407,
              n_ctx: 1_000
            }
          }, 500)
        ]
        for (const refusal of refusals) {
          const look = says({ calls: [{ name: "look", arguments: "{}" }] })
          const answers = [look, look, look, refusal, says({ text: "ok" })]
          let count = 0
          const { cycle } = yield* makeHttpCycle({
            tools: [page(300)],
            config: { compaction: Compaction.make({ contextWindow: 100_000 }) },
            respond: (response, received) => {
              sizes.push(JSON.stringify(received.body).length)
              answers[count++]!(response, received)
            }
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "ok")
          assert.strictEqual(count, 5)
          assert.isBelow(sizes.at(-1)!, sizes.at(-2)! * 0.7)
        }
      }))
  }
})

// =============================================================================
// Beyond one process
// =============================================================================

describe("a conversation that is kept", () => {
  it.effect("goes on compacted in another process, with its turns", () =>
    Effect.gen(function*() {
      const registry = yield* Effect.provide(ToolRegistry.make, PermissionPolicy.layerAllowAll)
      yield* Effect.orDie(registry.registerAll([page(200)]))
      const run = Effect.fnUntraced(function*(script: ScriptedModel.Script) {
        const { model, requests } = yield* ScriptedModel.make(script)
        const cycle = yield* LlmCycle.open("s", {
          maxTurns: 40,
          compaction: Compaction.make({ contextWindow: 2_000, reserve: 200, strategy: CompactionStrategy.summarise() })
        }).pipe(
          Effect.provideService(LanguageModel.LanguageModel, model),
          Effect.provideService(ToolRegistry.ToolRegistry, registry)
        )
        yield* cycle.submitWithTools("go")
        checkMessages(yield* cycle.messages)
        return { cycle, requests: yield* requests }
      })
      let looked = 0
      const script: ScriptedModel.Script = (request) =>
        isSummary(request)
          ? ScriptedModel.text("The code is 4711.")
          : ++looked % 9 === 0
          ? ScriptedModel.text("ok")
          : callsOf("look")
      const first = yield* run(script)
      const turns = (yield* first.cycle.history).turns
      const second = yield* run(script)
      assert.strictEqual((yield* second.cycle.history).turns, turns + 9)
      // A summary from before the restart is known for what it is, and taken over.
      const records = second.requests.filter(isSummary).map(({ prompt }) => textOf(prompt.content))
      assert.isNotEmpty(records)
      for (const record of records) assert.match(record, /## Earlier summary.*4711/)
      const summaries = (yield* second.cycle.messages).filter((message) =>
        /A summary of earlier/.test(textOf([message]))
      )
      assert.lengthOf(summaries, 1)
    }).pipe(Effect.provide(CycleStore.layerMemory)))
})
