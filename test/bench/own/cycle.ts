/**
 * What a turn and a delta cost in the cycle, over a model that answers at once.
 *
 * Run with `npx node --expose-gc test/bench/own/cycle.ts`; without `--expose-gc` the heap figure is less exact. The ratio
 * says what a turn of a conversation of 1,000 costs beside one of 10: it should stay below 5.
 */
import { Effect, Stream } from "effect"
import { LanguageModel, type Response } from "effect/ai"
import * as LlmCycle from "../../../src/llm/LlmCycle.ts"
import * as PermissionPolicy from "../../../src/tools/PermissionPolicy.ts"
import * as Tool from "../../../src/tools/Tool.ts"
import * as ToolRegistry from "../../../src/tools/ToolRegistry.ts"

const ROUNDS = 5
const DELTAS = 200_000

const add = Tool.dynamic({
  name: "add",
  description: "Adds",
  inputSchema: { type: "object", properties: { a: { type: "number" } }, required: ["a"] },
  handler: ({ a }) => Effect.succeed(Number(a) + 1)
})

const finish = (reason: "stop" | "tool-calls"): Response.FinishPartEncoded => ({
  type: "finish",
  reason,
  usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
  response: undefined
})

/** A model that calls a tool in each turn but the last, each with a few deltas. */
const caller = (turns: number) => {
  let count = 0
  const call = (): Response.ToolCallPartEncoded => ({
    type: "tool-call",
    id: `c${count}`,
    name: "add",
    params: { a: 1 }
  })
  return LanguageModel.make({
    generateText: () =>
      Effect.sync(() =>
        ++count % turns === 0
          ? [{ type: "text", text: "done" }, finish("stop")]
          : [call(), finish("tool-calls")]
      ),
    streamText: () =>
      Stream.suspend(() =>
        Stream.fromArray<Response.StreamPartEncoded>(
          ++count % turns === 0
            ? [{ type: "text-delta", id: "t", delta: "done" }, finish("stop")]
            : [call(), finish("tool-calls")]
        )
      )
  })
}

const talker = (perChunk: number) =>
  LanguageModel.make({
    generateText: () => Effect.succeed([]),
    streamText: () =>
      Stream.concat(
        Stream.map(
          Stream.rechunk(Stream.range(1, DELTAS), perChunk),
          (): Response.StreamPartEncoded => ({ type: "text-delta", id: "t", delta: "word " })
        ),
        Stream.make(finish("stop"))
      )
  })

const cycleOf = (model: Effect.Effect<LanguageModel.LanguageModel>, maxTurns: number) =>
  Effect.gen(function*() {
    const registry = yield* Effect.provide(ToolRegistry.make, PermissionPolicy.layerAllowAll)
    yield* Effect.orDie(registry.register(add))
    return yield* LlmCycle.make({ maxTurns, repeatedCalls: Infinity }).pipe(
      Effect.provideService(ToolRegistry.ToolRegistry, registry),
      Effect.provideServiceEffect(LanguageModel.LanguageModel, model)
    )
  })

const heap = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

const micros = (effect: Effect.Effect<unknown, unknown>) =>
  Effect.gen(function*() {
    const startedAt = performance.now()
    yield* effect
    return (performance.now() - startedAt) * 1000
  })

const turns = Effect.fnUntraced(function*(name: string, stream: boolean) {
  const costs: Array<number> = []
  for (const count of [10, 100, 1_000]) {
    let best = Infinity
    for (let round = 0; round < (count === 10 ? 100 : ROUNDS); round++) {
      const cycle = yield* cycleOf(caller(count), count)
      const submit = stream ? Stream.runDrain(cycle.submitStreamWithTools("go")) : cycle.submitWithTools("go")
      best = Math.min(best, (yield* micros(submit)) / count)
    }
    costs.push(best)
  }
  const [ten, hundred, thousand] = costs.map((cost) => cost.toFixed(0))
  return `${name}: ${ten} / ${hundred} / ${thousand} µs per turn for 10 / 100 / 1,000 turns, ratio ${
    (costs[2]! / costs[0]!).toFixed(2)
  }`
})

const deltas = Effect.fnUntraced(function*(perChunk: number) {
  let best = Infinity
  let growth = 0
  for (let round = 0; round < ROUNDS; round++) {
    const cycle = yield* cycleOf(talker(perChunk), 1)
    const before = heap()
    let seen = 0
    let late = before
    best = Math.min(
      best,
      yield* micros(Stream.runForEachArray(cycle.submitStream("go"), (events) =>
        Effect.sync(() => {
          seen += events.length
          // Measured once, near the end: only the text itself may have been kept.
          if (seen > DELTAS * 0.9 && late === before) late = heap()
        })))
    )
    growth = Math.max(growth, late - before)
  }
  return `${perChunk} per chunk: ${(best / DELTAS).toFixed(2)} µs per delta, heap +${
    (growth / 2 ** 20).toFixed(1)
  } MiB near the end of ${DELTAS} deltas`
})

const report = (effect: Effect.Effect<string, unknown>) =>
  Effect.tap(effect, (line) => Effect.sync(() => console.log(line)))

Effect.runPromise(Effect.gen(function*() {
  yield* report(turns("plain", false))
  yield* report(turns("streaming", true))
  yield* report(deltas(1))
  yield* report(deltas(16))
}))
