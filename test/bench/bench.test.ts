/*
 * That the benches find who does less, and how they count. They themselves are run by hand: `npm run bench`.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Fs from "node:fs"
import { afterAll } from "vitest"
import { type Row, type Sample, take } from "./harness.ts"
import { endAll, startServer } from "./processes.ts"
import { asTable } from "./report/text.ts"
import { resultsOf } from "./results.ts"
import { rows } from "./rows/index.ts"
import { plain, type Script } from "./script.ts"
import { answering, TELL } from "./servers/mcp.ts"
import type { Seen } from "./servers/seen.ts"

const sample = (cpu: number): Sample => ({ cpu, wall: cpu * 2, rss: 100, heapGrowth: undefined })

const row: Row = {
  id: "sample",
  family: "Sample",
  title: "sample",
  unit: "call",
  contestants: { raw: "./raw.ts", other: "./other.ts", agcore: "./agcore.ts" },
  prepare: () => Promise.reject(new Error("never prepared")),
  targets: { agcore: [{ limit: 1.5, of: "ratio" }, { limit: 0.5, of: { ratioTo: "other" } }] }
}

const takenOf = (contestant: string, results: ReadonlyArray<Sample | string>) =>
  results.map((result) => ({ row, contestant, result }))

describe("results", () => {
  const results = resultsOf([row], [
    ...takenOf("raw", [sample(10), sample(12), sample(11)]),
    ...takenOf("other", [sample(40), "Error: the text", sample(20)]),
    ...takenOf("agcore", [sample(22)])
  ])

  it("are medians, beside the baseline of the row", () => {
    assert.deepStrictEqual(results.map(({ median }) => median?.cpu), [11, 30, 22])
    assert.deepStrictEqual(results.map(({ ratio }) => ratio?.toFixed(2)), ["1.00", "2.73", "2.00"])
    assert.strictEqual(results[1]?.spread, 20 / 30)
  })

  it("say which targets are missed", () => {
    assert.deepStrictEqual(results.map(({ verdicts }) => verdicts.map(({ isMet }) => isMet)), [[], [], [false, false]])
  })

  it("say who was wrong, and how", () => {
    assert.deepStrictEqual(results.map(({ failures }) => failures.length), [0, 1, 0])
    assert.include(asTable(results, import.meta.dirname), "WRONG: Error: the text")
  })
})

describe("a sample", () => {
  it("runs the warm-up, the work and the check of it, and counts only the work", async () => {
    const done: Array<string> = []
    const { cpu, wall } = await take({
      units: 4,
      warmup: 1,
      runs: 2,
      run: async () => void done.push("run"),
      finish: async () => void done.push("finish")
    })
    assert.deepStrictEqual(done, ["run", "run", "run", "finish"])
    assert.isAtLeast(cpu, 0)
    assert.isAbove(wall, 0)
  })
})

describe("the model's server", () => {
  afterAll(endAll)

  it("finds a conversation that left something out", async () => {
    const url = await startServer("./servers/model.ts")
    const script: Script = { ...plain, turns: 2, calls: 2 }
    const path = Buffer.from(JSON.stringify(script)).toString("base64url")
    const post = async (key: string, messages: ReadonlyArray<unknown>, tools = 1) => {
      const body = JSON.stringify({
        messages,
        tools: Array.from({ length: tools }, () => ({ function: { name: "add" } }))
      })
      await (await fetch(`${url}/${key}/${path}/v1/chat/completions`, { method: "POST", body })).text()
    }
    const seen = async (key: string): Promise<Seen> => await (await fetch(`${url}/${key}/seen`)).json() as Seen
    const result = (index: number, content: string) => ({ role: "tool", tool_call_id: `call_0_${index}`, content })
    const before = [{ role: "user", content: "go" }, { role: "assistant", content: null }]

    await post("right", [before[0]])
    await post("right", [...before, result(0, "20"), result(1, "21")])
    assert.deepStrictEqual(await seen("right"), { requests: 2, problems: [] })

    await post("fewer", [...before, result(0, "20")])
    await post("other", [...before, result(0, "20"), result(1, "22")])
    await post("tools", [before[0]], 3)
    for (const key of ["fewer", "other", "tools"]) assert.lengthOf((await seen(key)).problems, 1)
  })
})

describe("the MCP servers", () => {
  it("count the calls, and tell of those that are none", () => {
    const seen: Seen = { requests: 0, problems: [] }
    const answer = answering(3, () => seen)
    const call = (name: string, text: unknown) =>
      JSON.parse(
        answer(JSON.stringify({ id: 1, method: "tools/call", params: { name, arguments: { text } } })) ?? "null"
      ).result.content[0].text
    assert.strictEqual(call("echo", "hello"), "hello")
    call("other", "hello")
    const told: Seen = JSON.parse(call("echo", TELL))
    assert.strictEqual(told.requests, 2)
    assert.lengthOf(told.problems, 1)
  })
})

describe("rows", () => {
  it("have ids of their own, and contestants that exist", () => {
    assert.lengthOf(new Set(rows.map(({ id }) => id)), rows.length)
    const modules = rows.flatMap(({ contestants }) => Object.values(contestants)).filter((module) =>
      module.startsWith("./")
    )
    assert.isNotEmpty(modules)
    for (const module of modules) assert.isTrue(Fs.existsSync(new URL(module, import.meta.url)), module)
  })
})
