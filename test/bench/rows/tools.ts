/**
 * Many tools registered, one of them called: what they cost each turn.
 */
import type { Row } from "../harness.ts"
import { plain } from "../script.ts"
import { converse, MODELS_IN_MEMORY, MODELS_OVER_HTTP } from "./conversation.ts"

const TURNS = 10

const { agcore, "agcore (parts)": parts, "ai (Vercel)": vercel, "effect/ai": effectAi, raw } = MODELS_IN_MEMORY
const CONTESTANTS = { raw, "ai (Vercel)": vercel, "effect/ai": effectAi, agcore }
const IN_MEMORY = { ...CONTESTANTS, "agcore (parts)": parts }
const OVER_HTTP = { ...CONTESTANTS, "agcore (fetch)": MODELS_OVER_HTTP["agcore (fetch)"] }

const row = (tools: number, overHttp: boolean, warmup: number, targets: Row["targets"] = {}): Row => ({
  id: `tools-${overHttp ? "http" : "memory"}-${tools}`,
  family: "Tools in a request",
  title: `${tools.toLocaleString("en")} tools in a request, ${overHttp ? "over HTTP" : "in process"}`,
  unit: "turn",
  contestants: overHttp ? OVER_HTTP : IN_MEMORY,
  prepare: (module, environment) =>
    converse(module, environment, {
      script: { ...plain, turns: TURNS, calls: 1, tools },
      kind: "plain",
      overHttp,
      units: TURNS,
      warmup,
      runs: Math.ceil(warmup / 2)
    }),
  targets
})

export const toolRows: ReadonlyArray<Row> = [
  row(10, false, 150),
  row(100, false, 100),
  // Of its own: what effect/ai takes to decode by as many tools is another matter.
  row(1_000, false, 50, { "agcore (parts)": [{ limit: 700, of: "micros" }] }),
  row(10, true, 60),
  row(100, true, 40),
  row(1_000, true, 10)
]
