import { assert, describe, it } from "@effect/vitest"
import { McpClient, McpElicitation, McpRoots, McpSampling } from "agcore/mcp"
import { Clock, Effect, Fiber, Layer, Schedule, type Scope, Stream } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { reasonOf, textOf } from "../support.ts"
import { eventually, type Handler, legacyServer, PATIENT, serve, type Server, type Visit } from "./server.ts"

const text = (value: string) => ({ content: [{ type: "text", text: value }] })

const echo = { name: "echo", inputSchema: { type: "object" } }

const inTurn = (...ways: ReadonlyArray<Handler>): Handler => {
  let calls = 0
  return (visit) => ways[Math.min(calls++, ways.length - 1)]!(visit)
}

const unknown: Handler = (visit) =>
  visit.json({ jsonrpc: "2.0", id: visit.message.id, error: { code: -32601, message: "not found" } }, 404)

/** A server up to 2025-11-25 with the tool `echo`, whose calls the test answers. */
const legacy = (call: Handler, options: { session?: string; get?: Handler; tools?: Handler } = {}): Handler =>
  legacyServer({
    ...options,
    call(visit) {
      switch (visit.message.method) {
        case "tools/list":
          return options.tools === undefined ? visit.result({ tools: [echo] }) : options.tools(visit)
        case "tools/call":
          return call(visit)
        default:
          return unknown(visit)
      }
    }
  })

/** A server of 2026-07-28. */
const modern =
  (handlers: Readonly<Record<string, Handler>>, capabilities: object = { tools: {} }): Handler => (visit) => {
    const { method = "" } = visit.message
    if (method === "server/discover") {
      return visit.result({ resultType: "complete", supportedVersions: ["2026-07-28"], capabilities })
    }
    return (handlers[method] ?? unknown)(visit)
  }

const complete = (visit: Visit, result: object): void => visit.result({ resultType: "complete", ...result })

const connect = (server: Server, options: Partial<McpClient.HttpOptions> = {}) =>
  McpClient.http({ name: "fixture", url: server.url, ...options })

const run = <A, E>(
  effect: Effect.Effect<A, E, Scope.Scope | HttpClient.HttpClient>
): Effect.Effect<A, E, Scope.Scope> => Effect.provide(effect, FetchHttpClient.layer)

describe("a server up to 2025-11-25", PATIENT, () => {
  it.live("is connected to, used and left", () =>
    run(Effect.gen(function*() {
      const server = yield* serve(legacy((visit) => visit.result(text("hi")), { session: "s1" }))
      yield* Effect.scoped(Effect.gen(function*() {
        const client = yield* connect(server)
        assert.strictEqual(client.protocolVersion, "2025-11-25")
        assert.deepStrictEqual((yield* client.listTools).map(({ name }) => name), ["echo"])
        assert.strictEqual(textOf(yield* client.callTool("echo")), "hi")
        yield* eventually(() => server.seen("GET").length === 1)
        assert.deepStrictEqual(yield* client.diagnostics, [])
      }))
      const order = server.visits.map(({ message, method }) => message.method ?? method)
      assert.deepStrictEqual(order.slice(0, 3), ["server/discover", "initialize", "notifications/initialized"])
      assert.strictEqual(order.at(-1), "DELETE")
    })))

  it.live("may leave every optional field null", () =>
    run(Effect.gen(function*() {
      const server = yield* serve((visit) => {
        switch (visit.message.method) {
          case "initialize":
            return visit.result({
              protocolVersion: "2025-11-25",
              capabilities: { tools: null, prompts: null, logging: null, experimental: null },
              serverInfo: { name: "nulls", version: "1", title: null, icons: null },
              instructions: null,
              _meta: null
            })
          case "tools/list":
            return visit.result({
              tools: [{
                name: "echo",
                title: null,
                description: null,
                inputSchema: { type: "object", required: null },
                _meta: null
              }],
              nextCursor: null,
              _meta: null
            })
          case "tools/call":
            return visit.json({
              jsonrpc: "2.0",
              id: visit.message.id,
              error: null,
              result: {
                content: [{ type: "text", text: "ok", annotations: null, _meta: null }],
                structuredContent: null,
                isError: null,
                _meta: null
              }
            })
          default:
            return visit.message.id === undefined ? visit.status(202) : visit.json(null, 404)
        }
      })
      const client = yield* connect(server)
      assert.strictEqual(client.serverInfo?.name, "nulls")
      assert.deepStrictEqual((yield* client.listTools).map(({ name }) => name), ["echo"])
      assert.strictEqual(textOf(yield* client.callTool("echo")), "ok")
    })))

  it.live.each<readonly [string, Handler]>([
    ["404 and an error", unknown],
    ["400 and nothing", (visit) => visit.status(400)],
    ["400 and words", (visit) => visit.status(400, "Bad Request: Unsupported protocol version")],
    [
      "400 and an error of its own",
      (visit) =>
        visit.json({ jsonrpc: "2.0", id: null, error: { code: -32000, message: "Server not initialized" } }, 400)
    ],
    [
      "200 and an error",
      (visit) => visit.json({ jsonrpc: "2.0", id: visit.message.id, error: { code: -32601, message: "no" } })
    ],
    ["an event with an error", (visit) =>
      visit.response.end(visit.events(
        `data: {"jsonrpc":"2.0","id":${visit.message.id},"error":{"code":-32601,"message":"no"}}\n\n`
      ))],
    ["202", (visit) => visit.status(202)],
    ["a refused version and older ones", (visit) =>
      visit.json({
        jsonrpc: "2.0",
        id: visit.message.id,
        error: { code: -32022, message: "no", data: { supported: ["2025-06-18"], requested: "2026-07-28" } }
      }, 400)]
  ])("may answer the question about its protocol with %s", ([, discover]) =>
    run(Effect.gen(function*() {
      const server = yield* serve((visit) =>
        visit.message.method === "server/discover" ? discover(visit) : legacy((call) => call.result(text("hi")))(visit)
      )
      const client = yield* connect(server)
      assert.strictEqual(client.protocolVersion, "2025-11-25")
      assert.strictEqual(textOf(yield* client.callTool("echo")), "hi")
    })))

  it.live("that forgets its session gets one new one for all calls, and each call again", () =>
    run(Effect.gen(function*() {
      let session = 1
      let calls = 0
      const server = yield* serve((visit) => {
        if (
          visit.method === "POST" && visit.message.method !== "initialize" && visit.message.method !== "server/discover"
        ) {
          if (visit.headers["mcp-session-id"] !== `s${session}`) return visit.status(404, "Session not found")
        }
        legacy((call) => call.result(text(`ok ${++calls}`)), { session: `s${session}` })(visit)
      })
      const client = yield* connect(server)
      yield* client.listTools
      session = 2
      const results = yield* Effect.all(Array.from({ length: 5 }, () => client.callTool("echo")), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(results.map(textOf).toSorted(), [1, 2, 3, 4, 5].map((n) => `ok ${n}`))
      assert.strictEqual(server.seen("initialize").length, 2)
      assert.strictEqual(server.seen("initialize")[1]?.headers["mcp-session-id"], undefined)
      assert.strictEqual(server.seen("notifications/initialized").length, 2)
    })))

  it.live("that forgets every session fails the call instead of going on for ever", () =>
    run(Effect.gen(function*() {
      const server = yield* serve(legacy((visit) => visit.status(404), { session: "s1" }))
      const client = yield* connect(server)
      const reason = yield* reasonOf(client.callTool("echo"))
      assert.strictEqual(reason._tag, "SessionExpired")
      assert.strictEqual(server.seen("tools/call").length, 2)
      assert.deepStrictEqual((yield* client.listTools).map(({ name }) => name), ["echo"])
    })))

  it.live.each<readonly [string, Handler]>([
    ["before an answer begins", () => {}],
    ["inside one", (visit) => visit.events(": open\n\n")]
  ])("that falls silent %s is left when the time is over, and told", ([, call]) =>
    run(Effect.gen(function*() {
      const server = yield* serve(legacy(inTurn(call, (visit) => visit.result(text("ok")))))
      const client = yield* connect(server)
      const reason = yield* reasonOf(client.callTool("echo", {}, { timeout: "100 millis" }))
      assert.strictEqual(reason._tag, "TimedOut")
      yield* eventually(() => server.seen("tools/call")[0]?.gone === true)
      yield* eventually(() => server.seen("notifications/cancelled").length === 1)
      const [cancelled] = server.seen("notifications/cancelled")
      assert.strictEqual(cancelled?.message.params?.["requestId"], server.seen("tools/call")[0]?.message.id)
      assert.strictEqual(textOf(yield* client.callTool("echo")), "ok")
    })))

  it.live("asks its questions inside the answer of a call", () =>
    run(Effect.gen(function*() {
      let open: Visit | undefined
      const answers: Array<Visit["message"]> = []
      const ask = (id: number | string, method: string, params: object = {}): string =>
        `data: ${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n\n`
      const server = yield* serve((visit) => {
        if (visit.message.method === undefined && visit.message.id !== undefined) {
          answers.push(visit.message)
          visit.status(202)
          if (answers.length === 4) open?.response.end(open.answer(text("done")))
          return
        }
        legacy((call) => {
          open = call
          call.events(
            ask("p", "ping") + ask(0, "roots/list") + ask("e", "elicitation/create", {
              message: "Sure?",
              requestedSchema: { type: "object", properties: { sure: { type: "boolean", default: true } } }
            }) + ask("s", "sampling/createMessage", { messages: [], maxTokens: 1 })
          )
        })(visit)
      })
      const client = yield* Effect.provide(
        connect(server),
        Layer.mergeAll(
          McpRoots.layer([{ uri: "file:///work" }]),
          McpElicitation.layer({ form: ({ defaults }) => Effect.succeed(McpElicitation.accept(defaults)) }),
          Layer.succeed(McpSampling.McpSampling, {
            createMessage: () => Effect.fail(new McpSampling.SamplingRefused({ detail: "no" }))
          })
        )
      )
      assert.strictEqual(textOf(yield* client.callTool("echo")), "done")
      const byId = new Map(answers.map((answer) => [answer.id, answer]))
      assert.deepStrictEqual(byId.get("p")?.result, {})
      assert.deepStrictEqual(byId.get(0)?.result, { roots: [{ uri: "file:///work" }] })
      assert.deepStrictEqual(byId.get("e")?.result, { action: "accept", content: { sure: true } })
      assert.isUndefined(byId.get("s")?.result)
    })))

  it.live("tells of changes by its stream, and the list is read again", () =>
    run(Effect.gen(function*() {
      let names = ["echo"]
      let stream: Visit | undefined
      const server = yield* serve((visit) =>
        visit.message.method === "initialize"
          ? visit.result({
            protocolVersion: "2025-11-25",
            capabilities: { tools: { listChanged: true } },
            serverInfo: { name: "x", version: "1" }
          })
          : legacy(unknown, {
            get(get) {
              stream = get
              get.events(": hi\n\n")
            },
            tools: (list) => list.result({ tools: names.map((name) => ({ ...echo, name })) })
          })(visit)
      )
      const client = yield* connect(server)
      assert.strictEqual((yield* client.listTools).length, 1)
      const changed = yield* Effect.forkChild(Stream.runHead(client.notifications), { startImmediately: true })
      yield* eventually(() => stream !== undefined)
      names = ["echo", "more"]
      stream?.response.write("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
      yield* Fiber.join(changed)
      assert.deepStrictEqual((yield* client.listTools).map(({ name }) => name), names)
    })))

  it.live("of 2024-11-05 behind the same URL works as well, and its end fails what waits", () =>
    run(Effect.gen(function*() {
      let stream: Visit | undefined
      const server = yield* serve((visit) => {
        if (visit.method === "GET") {
          stream = visit
          return visit.events("event: endpoint\ndata: /messages\n\n")
        }
        if (visit.path !== "/messages") return visit.status(404, "Cannot POST /mcp")
        visit.status(202, "Accepted")
        const { id, method } = visit.message
        if (id === undefined || method === "tools/call" && visit.message.params?.["name"] === "hang") return
        const result = method === "initialize"
          ? { protocolVersion: "2024-11-05", capabilities: { tools: {} }, serverInfo: { name: "old", version: "1" } }
          : method === "tools/list"
          ? { tools: [echo] }
          : text("old")
        stream?.response.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`)
      })
      const client = yield* connect(server)
      assert.strictEqual(client.protocolVersion, "2024-11-05")
      assert.deepStrictEqual((yield* client.listTools).map(({ name }) => name), ["echo"])
      assert.strictEqual(textOf(yield* client.callTool("echo")), "old")
      const hanging = yield* Effect.forkChild(reasonOf(client.callTool("hang")))
      yield* eventually(() => server.seen("tools/call").length === 2)
      stream?.response.end()
      assert.strictEqual((yield* Fiber.join(hanging))._tag, "ConnectionFailed")
      assert.strictEqual((yield* reasonOf(client.callTool("echo")))._tag, "ConnectionFailed")
    })))

  it.live("of 2024-11-05 is reached again after its stream ended, when that is wanted", () =>
    run(Effect.gen(function*() {
      let stream: Visit | undefined
      const server = yield* serve((visit) => {
        if (visit.method === "GET") {
          stream = visit
          return visit.events("event: endpoint\ndata: /messages\n\n")
        }
        if (visit.path !== "/messages") return visit.status(405)
        visit.status(202)
        const { id, method } = visit.message
        if (id === undefined) return
        const result = method === "initialize" ? { protocolVersion: "2024-11-05", capabilities: {} } : text("old")
        stream?.response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`)
      })
      const client = yield* connect(server, { restart: { delay: "10 millis" } })
      stream?.response.destroy()
      yield* eventually(() => server.seen("notifications/initialized").length === 2)
      const result = yield* Effect.retry(client.callTool("echo"), { times: 50, schedule: Schedule.spaced("20 millis") })
      assert.strictEqual(textOf(result), "old")
    })))
})

describe("a connection that cannot come about", PATIENT, () => {
  it.live.each<readonly [string, Handler, string]>([
    ["401", (visit) => visit.status(401, "", { "www-authenticate": "Bearer scope=\"mcp\"" }), "Unauthorized"],
    ["403", (visit) => visit.status(403), "HttpStatus"],
    ["500", (visit) => visit.status(500), "HttpStatus"],
    [
      "a redirect to another place",
      (visit) => visit.status(308, "", { location: "http://other.invalid/mcp" }),
      "RedirectRefused"
    ],
    ["a cut connection", (visit) => visit.response.destroy(), "ConnectionFailed"],
    ["HTML", (visit) => visit.status(200, "<html>", { "content-type": "text/html" }), "NoAnswer"],
    ["only newer versions", (visit) =>
      visit.json({
        jsonrpc: "2.0",
        id: visit.message.id,
        error: { code: -32022, message: "no", data: { supported: ["2099-01-01"] } }
      }, 400), "VersionMismatch"]
  ])("says why: %s", ([, handler, tag]) =>
    run(Effect.gen(function*() {
      const server = yield* serve(handler)
      const before = yield* Clock.currentTimeMillis
      const reason = yield* reasonOf(connect(server))
      assert.strictEqual(reason._tag, tag, reason.message)
      assert.isBelow((yield* Clock.currentTimeMillis) - before, 10_000)
    })))
})

describe("a server of 2026-07-28", PATIENT, () => {
  it.live("is asked without a session, each message in the words of its headers", () =>
    run(Effect.gen(function*() {
      const server = yield* serve(modern({
        "tools/list": (visit) => complete(visit, { tools: [echo] }),
        "tools/call": (visit) => complete(visit, text("modern"))
      }))
      const client = yield* connect(server)
      assert.strictEqual(client.protocolVersion, "2026-07-28")
      yield* client.listTools
      assert.strictEqual(textOf(yield* client.callTool("echo")), "modern")
      for (const { headers, message, method } of server.visits) {
        assert.strictEqual(method, "POST")
        assert.strictEqual(headers["mcp-protocol-version"], "2026-07-28")
        assert.strictEqual(headers["mcp-method"], message.method)
        assert.strictEqual(headers["mcp-name"], message.method === "tools/call" ? "echo" : undefined)
        assert.deepInclude(message.params?.["_meta"] as object, {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28"
        })
      }
    })))

  it.live("loses only the tools whose headers cannot be written", () =>
    run(Effect.gen(function*() {
      const server = yield* serve(modern({
        "tools/list": (visit) =>
          complete(visit, {
            tools: [
              {
                name: "bad",
                inputSchema: { type: "object", properties: { a: { type: "number", "x-mcp-header": "A" } } }
              },
              {
                name: "good",
                inputSchema: { type: "object", properties: { a: { type: "string", "x-mcp-header": "A" } } }
              }
            ]
          }),
        "tools/call": (visit) => complete(visit, text(String(visit.headers["mcp-param-a"])))
      }))
      const client = yield* connect(server)
      assert.deepStrictEqual((yield* client.listTools).map(({ name }) => name), ["good"])
      assert.match((yield* client.diagnostics).map(({ message }) => message).join(), /"bad".*x-mcp-header/)
      assert.strictEqual(textOf(yield* client.callTool("good", { a: "x y" })), "x y")
    })))

  it.live("that changed what belongs into headers is asked for its tools again, once", () =>
    run(Effect.gen(function*() {
      const withHeader = (name: string) => ({
        name: "echo",
        inputSchema: { type: "object", properties: { a: { type: "string", "x-mcp-header": name } } }
      })
      let wanted = "old"
      const server = yield* serve(modern({
        "tools/list": (visit) => complete(visit, { tools: [withHeader(wanted)], ttlMs: 60_000 }),
        "tools/call": (visit) =>
          visit.headers[`mcp-param-${wanted}`] === "x"
            ? complete(visit, text("ok"))
            : visit.json({ jsonrpc: "2.0", id: visit.message.id, error: { code: -32020, message: "mismatch" } }, 400)
      }))
      const client = yield* connect(server)
      yield* client.listTools
      wanted = "new"
      assert.strictEqual(textOf(yield* client.callTool("echo", { a: "x" })), "ok")
      assert.strictEqual(server.seen("tools/list").length, 2)
      assert.strictEqual(server.seen("tools/call").length, 2)
      wanted = "never"
      const reason = yield* reasonOf(client.callTool("echo", { a: "y" }))
      assert(reason._tag === "HttpStatus" && reason.error?.code === -32020, reason.message)
      assert.strictEqual(server.seen("tools/call").length, 4)
    })))

  it.live("is told to stop by the end of the response, and by nothing else", () =>
    run(Effect.gen(function*() {
      const server = yield* serve(modern({
        "tools/list": (visit) => complete(visit, { tools: [echo] }),
        "tools/call": inTurn(() => {}, (visit) => visit.events(": open\n\n"), (visit) => complete(visit, text("ok")))
      }))
      const client = yield* connect(server)
      assert.strictEqual((yield* reasonOf(client.callTool("echo", {}, { timeout: "100 millis" })))._tag, "TimedOut")
      yield* eventually(() => server.seen("tools/call")[0]?.gone === true)
      const call = yield* Effect.forkChild(client.callTool("echo"))
      yield* eventually(() => server.seen("tools/call").length === 2)
      yield* Fiber.interrupt(call)
      yield* eventually(() => server.seen("tools/call")[1]?.gone === true)
      assert.strictEqual(textOf(yield* client.callTool("echo")), "ok")
      assert.deepStrictEqual(server.seen("notifications/cancelled"), [])
    })))

  it.live(
    "is listened to by a stream that is opened again when it ends, and closed at the end",
    () =>
      run(Effect.gen(function*() {
        const streams: Array<Visit> = []
        const note = (visit: Visit, method: string): string =>
          `data: ${
            JSON.stringify({
              jsonrpc: "2.0",
              method: `notifications/${method}`,
              params: { _meta: { "io.modelcontextprotocol/subscriptionId": visit.message.id }, notifications: {} }
            })
          }\n\n`
        const server = yield* serve(modern({
          "tools/list": (visit) => complete(visit, { tools: [echo] }),
          "subscriptions/listen": (visit) => {
            streams.push(visit)
            visit.events(note(visit, "subscriptions/acknowledged"))
          }
        }, { tools: { listChanged: true } }))
        yield* Effect.scoped(Effect.gen(function*() {
          const client = yield* connect(server)
          const changed = yield* Effect.forkChild(Stream.runHead(client.notifications), { startImmediately: true })
          yield* eventually(() => streams.length === 1)
          yield* client.listTools
          streams[0]?.response.write(note(streams[0], "tools/list_changed"))
          yield* Fiber.join(changed)
          streams[0]?.response.destroy()
          yield* eventually(() => streams.length === 2)
        }))
        yield* eventually(() => streams[1]?.gone === true)
      })),
    10_000
  )
})
