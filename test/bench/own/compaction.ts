/**
 * What 300 tool turns with results of 20 KB cost under a window of 32,000 and of 128,000 tokens, by strategy.
 *
 * Run with `npx node test/bench/own/compaction.ts`. Tokens are those of `TokenEstimate`. "Cached" is the part of them
 * that was sent before in the same place, so that a prompt cache can have it; without a compaction nothing is lost, but
 * the small window is passed in the fourth turn.
 */
import { Effect } from "effect"
import { LanguageModel, type Prompt, type Response } from "effect/ai"
import * as Compaction from "../../../src/llm/Compaction.ts"
import * as CompactionStrategy from "../../../src/llm/CompactionStrategy.ts"
import * as LlmCycle from "../../../src/llm/LlmCycle.ts"
import * as TokenEstimate from "../../../src/llm/TokenEstimate.ts"
import * as PermissionPolicy from "../../../src/tools/PermissionPolicy.ts"
import * as Tool from "../../../src/tools/Tool.ts"
import * as ToolRegistry from "../../../src/tools/ToolRegistry.ts"

const TURNS = 300
const SETTINGS = [
  { contextWindow: 32_000, keepTurns: 1 },
  { contextWindow: 32_000, keepTurns: 2 },
  { contextWindow: 128_000, keepTurns: 2 }
]
const RESULT_BYTES = 20 * 1_024
const ROUNDS = 3

const BODY = Array.from(
  { length: 300 },
  (_, row) => JSON.stringify({ row, id: row * 7_919, name: `item ${row}`, note: "All is as it should be here." })
).join("\n")

interface Costs {
  requests: number
  summaries: number
  sent: number
  cached: number
  largest: number
}

const finish = (reason: "stop" | "tool-calls"): Response.FinishPartEncoded => ({
  type: "finish",
  reason,
  usage: { inputTokens: { total: undefined }, outputTokens: { total: undefined } },
  response: undefined
})

/** A model that calls a tool in each turn but the last, and writes short summaries. */
const makeModel = (costs: Costs) => {
  let before: ReadonlyArray<Prompt.Message> = []
  let turns = 0
  const count = (messages: ReadonlyArray<Prompt.Message>) => {
    const tokens = TokenEstimate.ofMessages(messages)
    costs.sent += tokens
    costs.largest = Math.max(costs.largest, tokens)
    return tokens
  }
  return LanguageModel.make({
    generateText: ({ prompt: { content } }) =>
      Effect.sync((): Array<Response.PartEncoded> => {
        count(content)
        if (content[0]?.role === "system") {
          costs.summaries++
          return [{ type: "text", text: "Pages were read; nothing of note was in them. ".repeat(10) }, finish("stop")]
        }
        costs.requests++
        const differs = content.findIndex((message, index) => message !== before[index])
        costs.cached += TokenEstimate.ofMessages(content.slice(0, differs === -1 ? content.length : differs))
        before = content
        turns++
        return turns <= TURNS
          ? [{ type: "tool-call", id: `c${turns}`, name: "look", params: {} }, finish("tool-calls")]
          : [{ type: "text", text: "done" }, finish("stop")]
      }),
    streamText: () => {
      throw new Error("not asked for")
    }
  })
}

const run = Effect.fnUntraced(function*(compaction: Compaction.Compaction | undefined) {
  const costs: Costs = { requests: 0, summaries: 0, sent: 0, cached: 0, largest: 0 }
  let page = 0
  const registry = yield* Effect.provide(ToolRegistry.make, PermissionPolicy.layerAllowAll)
  yield* Effect.orDie(registry.register(Tool.dynamic({
    name: "look",
    description: "Reads the next page",
    inputSchema: { type: "object" },
    handler: () => Effect.sync(() => `Page ${++page}\n${BODY}`.slice(0, RESULT_BYTES))
  })))
  const cycle = yield* LlmCycle.make({ maxTurns: TURNS + 1, compaction }).pipe(
    Effect.provideService(ToolRegistry.ToolRegistry, registry),
    Effect.provideServiceEffect(LanguageModel.LanguageModel, makeModel(costs))
  )
  const startedAt = performance.now()
  yield* cycle.submitWithTools("Read all of it")
  return { ...costs, millis: performance.now() - startedAt, left: (yield* cycle.messages).length }
})

const strategies: Record<string, CompactionStrategy.Strategy> = {
  "dropOldest": CompactionStrategy.dropOldest(),
  "clearToolResults": CompactionStrategy.clearToolResults(),
  "summarise": CompactionStrategy.summarise(),
  "clear, summarise, drop": CompactionStrategy.sequence(
    CompactionStrategy.clearToolResults(),
    CompactionStrategy.summarise(),
    CompactionStrategy.dropOldest()
  )
}

const thousands = (tokens: number): string => `${(tokens / 1_000).toFixed(0)}k`

const measure = Effect.fnUntraced(function*(row: string, compaction: Compaction.Compaction | undefined) {
  let best = yield* run(compaction)
  for (let round = 1; round < ROUNDS; round++) {
    const next = yield* run(compaction)
    if (next.millis < best.millis) best = next
  }
  const { cached, largest, left, millis, requests, sent, summaries } = best
  console.log(
    `${row} | ${(millis / requests).toFixed(2)} | ${thousands(sent)} | ${(cached / sent * 100).toFixed(0)} % | ${
      thousands(largest)
    } | ${summaries} | ${left} |`
  )
})

const program = Effect.gen(function*() {
  // The first run compiles what all of them use.
  yield* run(undefined)
  console.log("| window | keepTurns | strategy | ms a turn | sent | cached | largest | summaries | messages left |")
  console.log("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
  yield* measure("| | | none", undefined)
  for (const { contextWindow, keepTurns } of SETTINGS) {
    for (const [name, strategy] of Object.entries(strategies)) {
      yield* measure(
        `| ${thousands(contextWindow)} | ${keepTurns} | ${name}`,
        Compaction.make({ contextWindow, strategy, keepTurns })
      )
    }
  }
})

Effect.runPromise(program)
