/**
 * How fast tool calls over stdio are, beside a loop that does nothing but write JSON lines and match the answers.
 *
 *     node --expose-gc test/bench/own/mcpCalls.ts [calls] [width]
 */
/* oxlint-disable no-await-in-loop -- one after the other is what is measured */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import * as McpClient from "../../../src/mcp/McpClient.ts"

const SERVER = fileURLToPath(new URL("../../mcp/fixtures/server.mjs", import.meta.url))
const calls = Number(process.argv[2] ?? 20_000)
const width = Number(process.argv[3] ?? 64)

/** Calls per second of a piece of work that makes `calls` calls. */
const rate = (startedAt: number): number => Math.round(calls / ((performance.now() - startedAt) / 1_000))

const raw = async (width: number): Promise<number> => {
  const server = spawn(process.execPath, [SERVER, "{}"], { stdio: ["pipe", "pipe", "inherit"] })
  const pending = new Map<number, (value: unknown) => void>()
  let begun = ""
  server.stdout.setEncoding("utf8")
  server.stdout.on("data", (chunk: string) => {
    const lines = (begun + chunk).split("\n")
    begun = lines.pop() ?? ""
    for (const line of lines) {
      const message = JSON.parse(line) as { readonly id: number; readonly result: unknown }
      pending.get(message.id)?.(message.result)
      pending.delete(message.id)
    }
  })
  let id = 0
  const call = (text: string) =>
    new Promise((resolve) => {
      pending.set(++id, resolve)
      const params = { name: "echo", arguments: { text } }
      server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params })}\n`)
    })
  const lane = async (n: number) => {
    for (; n < calls; n += width) await call(`call ${n}`)
  }
  await call("warm up")
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: width }, (_, n) => lane(n)))
  const result = rate(startedAt)
  server.stdin.end()
  return result
}

/** What is in use once the garbage is gone; needs `--expose-gc` to mean something. */
const heapMiB = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed / 2 ** 20
}

/** MiB that the last run of the client left behind. */
let grown = 0

const client = (width: number): Promise<number> =>
  Effect.gen(function*() {
    const client = yield* McpClient.stdio({ command: process.execPath, args: [SERVER, "{}"] })
    yield* client.callTool("echo", { text: "warm up" })
    const lane = Effect.fnUntraced(function*(n: number) {
      for (; n < calls; n += width) yield* client.callTool("echo", { text: `call ${n}` })
    })
    const before = heapMiB()
    const startedAt = performance.now()
    yield* Effect.forEach(Array.from({ length: width }, (_, n) => n), lane, { concurrency: width, discard: true })
    const result = rate(startedAt)
    grown = heapMiB() - before
    return result
  }).pipe(Effect.scoped, Effect.provide(NodeServices.layer), Effect.runPromise)

for (const lanes of [1, width]) {
  // Alternating, so that neither has the quieter machine.
  const rounds: Array<{ readonly raw: number; readonly client: number }> = []
  for (let round = 0; round < 3; round++) rounds.push({ raw: await raw(lanes), client: await client(lanes) })
  const best = (key: "raw" | "client") => Math.max(...rounds.map((round) => round[key]))
  console.log(
    `${lanes} at a time: raw ${best("raw")}/s, client ${best("client")}/s, ${
      (best("raw") / best("client")).toFixed(2)
    } times; ${calls} calls left ${grown.toFixed(1)} MiB`
  )
}
