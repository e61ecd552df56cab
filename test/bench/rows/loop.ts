/**
 * The tool loop: ten turns, each but the last with one call or eight.
 */
import type { Row, Target } from "../harness.ts"
import { plain, type Script } from "../script.ts"
import { converse, MODELS_IN_MEMORY, MODELS_OVER_HTTP } from "./conversation.ts"

const TURNS = 10

const loop = (calls: number, overHttp: boolean, targets: ReadonlyArray<Target>): Row => {
  // Cost per turn goes on falling for hundreds of turns while code is compiled; the more code, the longer.
  const warmup = (overHttp ? 80 : 200) / (calls === 1 ? 1 : 2)
  const script: Script = { ...plain, turns: TURNS, calls }
  return {
    id: `loop-${overHttp ? "http" : "memory"}-10x${calls}`,
    family: "Loop",
    title: `loop ${overHttp ? "over HTTP" : "in process"}, ${TURNS} turns x ${calls}`,
    unit: "turn",
    contestants: overHttp ? MODELS_OVER_HTTP : MODELS_IN_MEMORY,
    prepare: (module, environment) =>
      converse(module, environment, { script, kind: "plain", overHttp, units: TURNS, warmup, runs: warmup / 2 }),
    targets: { agcore: targets }
  }
}

export const loops: ReadonlyArray<Row> = [
  loop(1, false, [{ limit: 0.5, of: { ratioTo: "ai (Vercel)" } }]),
  loop(8, false, [{ limit: 0.5, of: { ratioTo: "ai (Vercel)" } }]),
  loop(1, true, [{ limit: 1.6, of: "ratio" }]),
  loop(8, true, [{ limit: 1.9, of: "ratio" }])
]
