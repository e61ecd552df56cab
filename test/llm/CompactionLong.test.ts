/*
 * A conversation of 300 tool turns with 20 KB results under a window of 32k
 * tokens, and what each strategy promises to keep of its first turn.
 */
import { assert, describe, it } from "@effect/vitest"
import { Compaction, CompactionStrategy } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Effect } from "effect"
import type { Prompt } from "effect/ai"
import { tool } from "../tools/support.ts"
import { callsOf, type Driver, makeCycle, plain, streaming } from "./support.ts"

const TURNS = 300
const WINDOW = 32_000
const RESULT_BYTES = 20 * 1_024
const FACT = "The vault opens with 4711."
const QUESTION = "What opens the vault?"

/** What tools return: text, numbers, JSON. */
const BODY = Array.from(
  { length: 300 },
  (_, row) => JSON.stringify({ row, id: row * 7_919, name: `item ${row}`, note: "All is as it should be here." })
).join("\n")

const page = (turn: number): string => `${turn === 1 ? FACT : `Page ${turn}`}\n${BODY}`.slice(0, RESULT_BYTES)

/** What this provider counts: about what o200k_base does for such text, and what stands around it. */
const tokensOf = (request: ScriptedModel.ScriptedRequest): number =>
  request.prompt.content.reduce((sum, message) => sum + ofMessage(message), 0)
  + request.tools.reduce((sum, { description, name }) => sum + 20 + ofText(`${name} ${description}`), 0)

const ofText = (text: string): number => text.match(/ ?[a-zA-Z]{1,8}|\d{1,3}|[^\sa-zA-Z\d]{1,2}|\s+/g)?.length ?? 0

const counts = new WeakMap<Prompt.Message, number>()

const ofMessage = (message: Prompt.Message): number => {
  const known = counts.get(message)
  if (known !== undefined) return known
  const { content } = message
  const count = typeof content === "string"
    ? ofText(content)
    : content.reduce((sum, part) => {
      switch (part.type) {
        case "text":
          return sum + ofText(part.text)
        case "tool-call":
          return sum + 10 + ofText(JSON.stringify(part.params))
        case "tool-result":
          return sum + 10 + ofText(String(part.result))
        default:
          return sum
      }
    }, 4)
  counts.set(message, count)
  return count
}

const isSummary = ({ prompt }: ScriptedModel.ScriptedRequest) =>
  prompt.content[0]?.role === "system" && prompt.content[0].content.startsWith("You condense")

const tells = ({ prompt }: ScriptedModel.ScriptedRequest) => JSON.stringify(prompt.content).includes(FACT)

interface Case {
  readonly name: string
  readonly options: Compaction.Options
  readonly driver?: Driver
}

const CASES: ReadonlyArray<Case> = [
  {
    name: "dropping turns, with the first one pinned",
    options: {
      strategy: CompactionStrategy.dropOldest(),
      pin: (message, index, messages) =>
        CompactionStrategy.firstUserMessage(message, index, messages) || JSON.stringify(message).includes(FACT)
    }
  },
  {
    name: "clearing results down to their first line",
    options: {
      strategy: CompactionStrategy.clearToolResults({
        marker: ({ text }) => `${text.slice(0, text.indexOf("\n"))} [the rest is cleared]`
      })
    }
  },
  {
    name: "summarising, by a model that writes down the fact",
    options: { strategy: CompactionStrategy.summarise() }
  },
  {
    name: "all of them",
    options: {
      strategy: CompactionStrategy.sequence(
        CompactionStrategy.clearToolResults({ marker: ({ text }) => text.slice(0, 40) }),
        CompactionStrategy.summarise({ maxTokens: 500 }),
        CompactionStrategy.dropOldest()
      )
    },
    driver: streaming
  }
]

describe("300 tool turns with 20 KB results in a window of 32k tokens", () => {
  for (const { driver = plain, name, options } of CASES) {
    // verifies: compaction.long
    it.effect(`are possible by ${name}, and turn 1 is not forgotten`, () =>
      Effect.gen(function*() {
        let turn = 0
        let largest = 0
        let summaries = 0
        const { check, cycle, requests } = yield* makeCycle({
          tools: [tool("look", () => Effect.sync(() => page(++turn)))],
          config: {
            maxTurns: TURNS + 1,
            compaction: Compaction.make({ contextWindow: WINDOW, ...options })
          },
          script: (request) => {
            const tokens = tokensOf(request)
            largest = Math.max(largest, tokens)
            if (tokens > WINDOW) throw new Error(`${tokens} tokens in turn ${turn}`)
            const usage = { input: tokens, output: 20 }
            if (isSummary(request)) {
              summaries++
              // This model knows what counts, if it is told.
              return { text: tells(request) ? FACT : "Nothing of note.", usage }
            }
            return turn < TURNS
              ? { ...callsOf("look"), usage }
              : { text: tells(request) ? "4711" : "I do not know.", usage }
          }
        })
        const { text, turns } = yield* driver.submit(cycle, QUESTION)
        assert.strictEqual(text, "4711")
        assert.strictEqual(turns, TURNS + 1)
        assert.strictEqual((yield* cycle.history).turns, TURNS + 1)
        assert.strictEqual((yield* requests).length - summaries, TURNS + 1)
        assert.isAbove(largest, WINDOW / 3)
        // The question is still the first thing that is said.
        assert.include(JSON.stringify((yield* cycle.messages)[0]), QUESTION)
        yield* check
      }), 60_000)
  }

  it.effect("are not without a compaction", () =>
    Effect.gen(function*() {
      let turn = 0
      const { cycle } = yield* makeCycle({
        tools: [tool("look", () => Effect.sync(() => page(++turn)))],
        config: { maxTurns: TURNS + 1 },
        script: (request) => tokensOf(request) > WINDOW ? ScriptedModel.text("too long") : callsOf("look")
      })
      yield* plain.submit(cycle, QUESTION)
      assert.isBelow(turn, 6)
    }))
})
