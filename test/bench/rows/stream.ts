/**
 * Streamed answers: many deltas of text, and arguments in many fragments.
 */
import type { Row, Target, Work } from "../harness.ts"
import { plain, type Script } from "../script.ts"
import { converse, MODELS_OVER_HTTP, type Options } from "./conversation.ts"

const row = (
  id: string,
  title: string,
  unit: string,
  options: Omit<Options, "kind" | "overHttp">,
  targets: ReadonlyArray<Target>
): Row => ({
  id,
  family: "Stream",
  title,
  unit,
  contestants: MODELS_OVER_HTTP,
  prepare: (module, environment) => converse(module, environment, { ...options, kind: "streamed", overHttp: true }),
  targets: { agcore: targets }
})

const DELTAS = 20_000
const MANY = 200_000
const LATE = MANY * 0.9

const text = (perChunk: number, pace = 0): Script => ({ ...plain, tools: 0, deltas: DELTAS, perChunk, pace })

const heap = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed / 2 ** 20
}

/** Looks at the heap when the text begins and once near its end: only the text itself may have been kept. */
const watched = ({ sink, ...work }: Awaited<ReturnType<typeof converse>>): Work => {
  let before = 0
  let growth = 0
  sink.onDelta = (count) => {
    if (count === 1) before = heap()
    if (count === LATE) growth = Math.max(growth, heap() - before)
  }
  return { ...work, heapGrowth: () => growth }
}

export const streams: ReadonlyArray<Row> = [
  row(
    "stream-1",
    "stream, 20,000 deltas, one a chunk",
    "delta",
    { script: text(1), units: DELTAS, warmup: 1, runs: 2 },
    [{ limit: 4, of: "ratio" }]
  ),
  row(
    "stream-64",
    "stream, 20,000 deltas, 64 a chunk",
    "delta",
    { script: text(64), units: DELTAS, warmup: 1, runs: 2 },
    [{ limit: 3.2, of: "ratio" }]
  ),
  row(
    "stream-reads",
    "stream, 20,000 deltas, each in a read of its own",
    "delta",
    { script: text(1, 40), units: DELTAS, warmup: 1, runs: 1 },
    []
  ),
  row(
    "stream-tools",
    "stream with tools, 5 turns, arguments in 200 fragments",
    "turn",
    {
      script: { ...plain, turns: 5, calls: 1, note: 970, fragments: 200, deltas: 20 },
      units: 5,
      warmup: 15,
      runs: 15
    },
    [{ limit: 3, of: "ratio" }]
  ),
  {
    id: "stream-memory",
    maxSamples: 1,
    family: "Stream",
    title: "stream, 200,000 deltas, 64 a chunk",
    unit: "delta",
    contestants: MODELS_OVER_HTTP,
    prepare: async (module, environment) =>
      watched(
        await converse(module, environment, {
          script: { ...text(64), deltas: MANY },
          kind: "streamed",
          overHttp: true,
          units: MANY,
          warmup: 0,
          runs: 1
        })
      ),
    targets: { agcore: [{ limit: 8, of: "heapGrowth" }] }
  }
]
