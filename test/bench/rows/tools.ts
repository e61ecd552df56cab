/**
 * Many tools registered, one of them called: what they cost each turn.
 */
import type { Row, Target } from "../harness.ts"
import { plain } from "../script.ts"
import { converse, MODELS_OVER_HTTP } from "./conversation.ts"

const TURNS = 10

const { agcore, "agcore (fetch)": overFetch, "ai (Vercel)": vercel, "effect/ai": effectAi, raw } = MODELS_OVER_HTTP
const CONTESTANTS = { raw, "ai (Vercel)": vercel, "effect/ai": effectAi, agcore }
const CONTESTANTS_OVER_HTTP = { ...CONTESTANTS, "agcore (fetch)": overFetch }

const row = (tools: number, overHttp: boolean, warmup: number, targets: ReadonlyArray<Target> = []): Row => ({
  id: `tools-${overHttp ? "http" : "memory"}-${tools}`,
  family: "Tools in a request",
  title: `${tools.toLocaleString("en")} tools in a request, ${overHttp ? "over HTTP" : "in process"}`,
  unit: "turn",
  contestants: overHttp ? CONTESTANTS_OVER_HTTP : CONTESTANTS,
  prepare: (module, environment) =>
    converse(module, environment, {
      script: { ...plain, turns: TURNS, calls: 1, tools },
      kind: "plain",
      overHttp,
      units: TURNS,
      warmup,
      runs: Math.ceil(warmup / 2)
    }),
  targets: { agcore: targets }
})

export const toolRows: ReadonlyArray<Row> = [
  row(10, false, 150),
  row(100, false, 100),
  row(1_000, false, 50, [{ limit: 700, of: "micros" }]),
  row(10, true, 60),
  row(100, true, 40),
  row(1_000, true, 10)
]
