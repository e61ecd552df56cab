/*
 * Conversations that outgrow their model, in both loops.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  Compaction,
  CompactionStrategy,
  type CycleEvent,
  CycleStore,
  LlmCycle,
  PermissionPolicy,
  Question,
  ToolRegistry
} from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Deferred, Effect, Exit, Fiber, Schema, Stream } from "effect"
import { AiError, LanguageModel, type Prompt, Tokenizer } from "effect/ai"
import { tool } from "../tools/support.ts"
import {
  aiError,
  callsOf,
  checkEvents,
  checkMessages,
  describe as name,
  drivers,
  makeCycle,
  overloaded,
  plain,
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
            const tokens = tokensOf(request) * 2
            return tokens > 5_000
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
