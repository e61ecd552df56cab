import { assert, describe, it } from "@effect/vitest"
import { PermissionPolicy, ToolRegistry } from "agcore"
import { McpClient, McpTools } from "agcore/mcp"
import { Effect, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import { eventually, legacyServer, PATIENT, serve } from "./http/server.ts"
import { connect, reasonOf, scoped, SLOW, textOf } from "./support.ts"

const works = (client: McpClient.McpClient) =>
  Effect.map(
    client.callTool("echo", { text: "still here" }),
    (result) => assert.strictEqual(textOf(result), "still here")
  )

const nested = (open: string, close: string, depth: number): string => open.repeat(depth) + close.repeat(depth)

describe("a message that breaks whoever converts it", SLOW, () => {
  const unconvertible = { toString: 1, valueOf: 1 }
  for (
    const [title, method, params] of [
      ["a progress token that is no primitive", "notifications/progress", { progressToken: unconvertible }],
      ["a cancelled id that is no primitive", "notifications/cancelled", { requestId: unconvertible }],
      ["an acknowledged id that is no primitive", "notifications/subscriptions/acknowledged", {
        _meta: { "io.modelcontextprotocol/subscriptionId": unconvertible }
      }]
    ] as const
  ) {
    for (const revision of ["2025-11-25", "2026-07-28"]) {
      it.live(`is passed over: ${title}, ${revision}`, () =>
        scoped(Effect.gen(function*() {
          const client = yield* connect({ revision })
          yield* client.callTool("notify", { method, params })
          yield* works(client)
        })))
    }
  }

  it.live("is passed over: lists and objects that nest too deep to be written", () =>
    scoped(Effect.gen(function*() {
      const stray = `${nested("[", "]", 10_000)}\n${nested("{\"a\":[", "]}", 6_000)}\n`
      yield* works(yield* connect({ say: { stdout: stray } }))
    })))

  it.live("costs no secret where it is JSON and no message", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect({ say: { stdout: "{\"level\":\"info\",\"token\":\"hunter2-hunter2\"}\n" } }, {
        env: { TOKEN: "hunter2-hunter2" }
      })
      yield* works(client)
      const told = JSON.stringify(yield* client.diagnostics)
      assert.include(told, "level, token")
      assert.notInclude(told, "hunter2")
    })))
})

describe("what a server repeats of a secret", SLOW, () => {
  const secret = "hunter2-hunter2"

  it.live("is left out of its errors", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect({
        errors: { "tools/list": { code: -32000, message: `no access with ${secret}`, data: { used: [secret] } } }
      }, { env: { TOKEN: secret } })
      const reason = yield* reasonOf(client.listTools)
      assert.deepInclude(reason, { _tag: "Refused", detail: "no access with <redacted>" })
      assert.notInclude(JSON.stringify(reason), secret)
    })))

  it.live("is left out of the end of standard error, where its beginning was cut off", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect({ say: { stderr: `${secret}\n${`${secret} `.repeat(1_000)}\nready\n` } }, {
        env: { TOKEN: secret }
      })
      const reason = yield* reasonOf(client.callTool("die", { code: 1, say: "the end" }))
      const stderr = reason._tag === "ProcessExited" ? reason.stderr : ""
      assert.include(stderr, "the end")
      assert.notMatch(stderr, /hunter|unter2/)
    })))
})

describe("an answer that also names a method", SLOW, () => {
  it.live("is an answer", () =>
    scoped(Effect.gen(function*() {
      yield* works(yield* connect({ wire: { also: { method: "tools/call" } } }))
    })))
})

describe("a tool that nests too deep", SLOW, () => {
  it.live("is left out, and its neighbours are registered", () =>
    scoped(
      Effect.gen(function*() {
        let deep: unknown = {}
        for (let depth = 0; depth < 3_000; depth++) deep = { not: deep }
        const client = yield* connect({
          answers: { "tools/list": { tools: [{ name: "deep", inputSchema: deep }, { name: "echo" }] } }
        })
        yield* McpTools.register(client)
        const registry = yield* ToolRegistry.ToolRegistry
        assert.deepStrictEqual((yield* registry.list).map((tool) => tool.name), ["scripted__echo"])
      }).pipe(Effect.provide(ToolRegistry.layer().pipe(Layer.provide(PermissionPolicy.layer()))))
    ))
})

describe("an HTTP server", PATIENT, () => {
  it.live("that never takes `initialized` fails the connection in time", () =>
    Effect.gen(function*() {
      const server = yield* serve((visit) =>
        visit.message.method === "notifications/initialized" ? undefined : legacyServer({})(visit)
      )
      const reason = yield* reasonOf(
        McpClient.http({ url: server.url, protocol: "legacy", connectTimeout: "200 millis" })
      )
      assert.strictEqual(reason._tag, "TimedOut")
    }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer)))

  it.live("may ask as often as it likes, one request after the other", () =>
    Effect.gen(function*() {
      const answered: Array<unknown> = []
      let ask: (id: number) => void = () => {}
      const legacy = legacyServer({
        get: (visit) => {
          visit.events(": open\n\n")
          ask = (id) => visit.response.write(`data: {"jsonrpc":"2.0","id":${id},"method":"ping"}\n\n`)
          ask(0)
        }
      })
      const server = yield* serve((visit) => {
        if (visit.method !== "POST" || visit.message.method !== undefined) return legacy(visit)
        answered.push(visit.message.result)
        visit.status(202)
        if (answered.length < 100) ask(answered.length)
      })
      yield* McpClient.http({ url: server.url, protocol: "legacy" })
      yield* eventually(() => answered.length === 100)
      assert(answered.every((result) => result !== undefined))
    }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer)))

  it.live("that does not take an answer does not stop the clock of calls", () =>
    Effect.gen(function*() {
      const legacy = legacyServer({
        call: (visit) => visit.events("data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n\n")
      })
      const server = yield* serve((visit) =>
        visit.method === "POST" && visit.message.method === undefined ? undefined : legacy(visit)
      )
      const client = yield* McpClient.http({ url: server.url, protocol: "legacy", timeout: "300 millis" })
      assert.strictEqual((yield* reasonOf(client.callTool("echo")))._tag, "TimedOut")
    }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer)))
})
