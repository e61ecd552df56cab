import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { McpClient, McpElicitation, McpRoots, McpSampling } from "agcore/mcp"
import { Effect, Layer, Ref, Schedule, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { ChildProcess } from "effect/process"
import { createRequire } from "node:module"
import { type AddressInfo, createServer } from "node:net"
import { textOf } from "../support.ts"

const require = createRequire(import.meta.url)

const freePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo
    server.close(() => resume(Effect.succeed(port)))
  })
})

/** Starts server-everything; answers its port once it listens. */
const everything = Effect.fnUntraced(function*(mode: "streamableHttp" | "sse") {
  const port = yield* freePort
  const main = require.resolve("@modelcontextprotocol/server-everything/dist/index.js")
  const server = yield* ChildProcess.make(process.execPath, [main, mode], {
    env: { PORT: String(port) },
    forceKillAfter: "1 second"
  })
  const listens = Stream.takeUntil(
    Stream.splitLines(Stream.decodeText(server.all)),
    (line) => /port|running/i.test(line)
  )
  yield* Stream.runDrain(listens)
  return port
})

const handlers = Layer.mergeAll(
  McpRoots.layer([{ uri: "file:///work", name: "Work" }]),
  McpElicitation.layer({ form: ({ defaults }) => Effect.succeed(McpElicitation.accept({ ...defaults, name: "Ada" })) }),
  Layer.succeed(McpSampling.McpSampling, {
    createMessage: () =>
      Effect.succeed({ content: [{ type: "text", text: "a thought" }], model: "scripted", stopReason: "endTurn" })
  }),
  FetchHttpClient.layer,
  NodeServices.layer
)

const options = { name: "everything", timeout: "30 seconds", connectTimeout: "30 seconds" } as const

describe.each([["streamableHttp", "mcp"], ["sse", "sse"]] as const)("server-everything in mode %s", (mode, path) => {
  it.live("is listed, called, asks back and tells how far it is", () =>
    Effect.gen(function*() {
      const port = yield* everything(mode)
      const client = yield* McpClient.http({ ...options, url: `http://127.0.0.1:${port}/${path}` })
      assert.strictEqual(client.protocolVersion, "2025-11-25")
      // It adds tools for what the client can do once the handshake is over.
      const tools = yield* Effect.repeat(client.refreshTools, {
        until: (tools) => tools.some(({ name }) => name === "get-roots-list"),
        schedule: Schedule.spaced("50 millis")
      })
      assert.isAtLeast(tools.length, 15)
      assert.strictEqual(textOf(yield* client.callTool("echo", { message: "hi" })), "Echo: hi")
      assert.include(textOf(yield* client.callTool("get-roots-list")), "file:///work")
      assert.include(textOf(yield* client.callTool("trigger-elicitation-request")), "Ada")
      assert.include(
        textOf(yield* client.callTool("trigger-sampling-request", { prompt: "?", maxTokens: 9 })),
        "a thought"
      )

      const steps = yield* Ref.make<ReadonlyArray<number>>([])
      yield* client.callTool("trigger-long-running-operation", { duration: 0.3, steps: 3 }, {
        onProgress: ({ progress }) => Ref.update(steps, (all) => [...all, progress])
      })
      assert.deepStrictEqual(yield* Ref.get(steps), [1, 2, 3])
      assert.isAbove((yield* client.listResources).length, 0)
      assert.isAbove((yield* client.listPrompts).length, 0)
      assert.deepStrictEqual((yield* client.diagnostics).filter(({ kind }) => kind !== "connection"), [])
    }).pipe(Effect.provide(handlers)), 60_000)
})

describe("server-everything in mode streamableHttp", () => {
  it.live("gets a new session when it lost the one before", () =>
    Effect.gen(function*() {
      const port = yield* everything("streamableHttp")
      const url = `http://127.0.0.1:${port}/mcp`
      const sessions: Array<string> = []
      const watching: typeof fetch = (...args) =>
        fetch(...args).then((response) => {
          const session = response.headers.get("mcp-session-id")
          if (session !== null && sessions.at(-1) !== session) sessions.push(session)
          return response
        })
      const client = yield* McpClient.http({ ...options, url }).pipe(
        Effect.provideService(FetchHttpClient.Fetch, watching)
      )
      assert.strictEqual(textOf(yield* client.callTool("echo", { message: "1" })), "Echo: 1")
      assert.strictEqual(sessions.length, 1)
      yield* Effect.promise(() => fetch(url, { method: "DELETE", headers: { "mcp-session-id": sessions[0]! } }))
      assert.strictEqual(textOf(yield* client.callTool("echo", { message: "2" })), "Echo: 2")
      assert.strictEqual(sessions.length, 2)
    }).pipe(Effect.provide(handlers)), 60_000)
})
