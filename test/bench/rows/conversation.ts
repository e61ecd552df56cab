/**
 * The work of the rows with a model: conversations after a script, and what is checked of each.
 */
import { type Environment, expectEqual, load, type Work } from "../harness.ts"
import { add, type Arguments, deltasOf, MODEL, type Script } from "../script.ts"
import type { Seen } from "../servers/seen.ts"

/** What a contestant tells of a conversation while it goes on. Compared at once: what it kept would count as the contestant's. */
export class Sink {
  deltas = 0
  wrong: string | undefined
  toolRuns = 0
  readonly #expected: ReadonlyArray<string>

  constructor(expected: ReadonlyArray<string>) {
    this.#expected = expected
  }

  /** Called at the end of each delta; for the row that looks at memory. */
  onDelta: (count: number) => void = () => {}

  readonly add = (args: Arguments): number => {
    this.toolRuns++
    return add(args)
  }

  readonly delta = (piece: string): void => {
    if (piece !== this.#expected[this.deltas]) this.wrong ??= piece
    this.onDelta(++this.deltas)
  }

  reset(): void {
    this.deltas = 0
    this.wrong = undefined
    this.toolRuns = 0
  }
}

export interface Setup {
  readonly script: Script
  /** Where the server is; `undefined`: the model is in memory and follows the script. */
  readonly baseUrl: string | undefined
  readonly model: string
  readonly sink: Sink
}

/** Makes a contestant ready; what it answers with holds one conversation and returns the text of its end. */
type Start = (setup: Setup) => Promise<() => Promise<string>>

/** A contestant of the rows with a model. */
export interface ModelContestant {
  /** Whole answers. */
  readonly plain: Start
  /** Streamed answers; every delta of text goes to the sink as it comes. */
  readonly streamed: Start
}

const MODELS = {
  raw: "./contestants/raw.ts",
  openai: "./contestants/openai.ts",
  "ai (Vercel)": "./peers/vercel.ts",
  "@openai/agents": "./peers/agents.ts",
  "effect/ai": "./contestants/effectAi.ts",
  agcore: "./contestants/agcore.ts"
}

/** Where the model is in memory. */
export const MODELS_IN_MEMORY = { ...MODELS, "agcore (parts)": "./contestants/agcoreParts.ts" }

export const MODELS_OVER_HTTP = { ...MODELS, "agcore (fetch)": "./contestants/agcoreFetch.ts" }

export interface Options {
  readonly script: Script
  readonly kind: keyof ModelContestant
  readonly overHttp: boolean
  readonly units: number
  readonly warmup: number
  readonly runs: number
}

/** Conversations one after the other, each new. */
export const converse = async (
  module: string,
  { key, modelUrl }: Environment,
  { kind, overHttp, runs, script, units, warmup }: Options
): Promise<Work & { readonly sink: Sink }> => {
  const contestant = await load<ModelContestant>(module)
  const deltas = deltasOf(script)
  const sink = new Sink(deltas)
  const text = deltas.join("")
  const path = Buffer.from(JSON.stringify(script)).toString("base64url")
  const baseUrl = overHttp ? `${modelUrl}/${key}/${path}/v1` : undefined
  const hold = await contestant[kind]({ script, baseUrl, model: MODEL, sink })
  return {
    units,
    warmup,
    runs,
    sink,
    run: async () => {
      sink.reset()
      expectEqual(await hold(), text, "the text")
      expectEqual(sink.toolRuns, (script.turns - 1) * script.calls, "runs of the tool")
      if (kind === "streamed") expectEqual([sink.deltas, sink.wrong], [deltas.length, undefined], "deltas")
    },
    finish: async () => {
      if (!overHttp) return
      const seen = await (await fetch(`${modelUrl}/${key}/seen`)).json() as Seen
      expectEqual(seen, { requests: script.turns * (warmup + runs), problems: [] }, "what the server saw")
    }
  }
}
