import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import * as Zlib from "node:zlib"
import { legacy, modern, open } from "./peer.ts"
import { eventually, type Handler, legacyServer, PATIENT, serve, type Visit } from "./server.ts"

/** A server whose tool calls are answered in the given ways, one after the other; the last one stays. */
const answering = (...ways: ReadonlyArray<Handler>): Handler => {
  let calls = 0
  return legacyServer({ call: (visit) => ways[Math.min(calls++, ways.length - 1)]!(visit) })
}

const works: Handler = (visit) => visit.result({ text: "ok" })

/** Ends a response after its first bytes left. */
const abort = (visit: Visit): void => void setTimeout(() => visit.response.destroy(), 20)

const text = "世界🙂é line\nnext"

const sse: ReadonlyArray<readonly [name: string, handler: Handler]> = [
  ["LF", (visit) => visit.response.end(visit.events(visit.answer({ text })))],
  ["CRLF", (visit) => visit.response.end(visit.events(visit.answer({ text }).replaceAll("\n", "\r\n")))],
  ["CR", (visit) => visit.response.end(visit.events(visit.answer({ text }).replaceAll("\n", "\r")))],
  ["no space", (visit) => visit.response.end(visit.events(visit.answer({ text }).replace("data: ", "data:")))],
  ["a byte order mark", (visit) => visit.response.end(visit.events(`\uFEFF${visit.answer({ text })}`))],
  [
    "a charset",
    (visit) =>
      visit.response.end(visit.events(visit.answer({ text }), { "content-type": "Text/Event-Stream; charset=utf-8" }))
  ],
  ["several data lines", (visit) => {
    const lines = JSON.stringify({ jsonrpc: "2.0", id: visit.message.id, result: { text } }, null, 2).split("\n")
    visit.response.end(visit.events(`${lines.map((line) => `data: ${line}`).join("\n")}\n\n`))
  }],
  ["comments and other events", (visit) =>
    visit.response.end(visit.events(
      `: ping\n\n:\n\nevent: ping\ndata: {}\n\nevent: error\ndata: {"jsonrpc":"2.0","id":${visit.message.id},"error":null}\n\n${
        visit.answer({ text })
      }`
    ))],
  [
    "fields nobody knows",
    (visit) => visit.response.end(visit.events(`foo: bar\nid\nretry: soon\n${visit.answer({ text })}`))
  ],
  [
    "data that is no JSON before",
    (visit) => visit.response.end(visit.events(`data: [DONE\n\n${visit.answer({ text })}`))
  ],
  [
    "an answer to another request before",
    (visit) =>
      visit.response.end(visit.events(`data: {"jsonrpc":"2.0","id":9999,"result":{}}\n\n${visit.answer({ text })}`))
  ],
  ["no blank line at the end", (visit) => visit.response.end(visit.events(visit.answer({ text }).trimEnd()))],
  ["a stream that stays open", (visit) => visit.events(visit.answer({ text }))],
  [
    "an id as text",
    (visit) =>
      visit.response.end(
        visit.events(`data: ${JSON.stringify({ id: String(visit.message.id), result: { text } })}\n\n`)
      )
  ],
  ["a batch", (visit) =>
    visit.response.end(visit.events(
      `data: ${
        JSON.stringify([
          { jsonrpc: "2.0", method: "notifications/message", params: {} },
          { jsonrpc: "2.0", id: visit.message.id, result: { text } }
        ])
      }\n\n`
    ))],
  ...[1, 2, 3, 5, 7].map((size): readonly [string, Handler] => [`pieces of ${size} bytes`, (visit) => {
    const bytes = Buffer.from(visit.answer({ text }).replace("\n\n", "\r\n\r\n"))
    visit.events("")
    const write = (at: number): void => {
      visit.response.write(bytes.subarray(at, at + size))
      if (at + size < bytes.length) setImmediate(write, at + size)
      else visit.response.end()
    }
    write(0)
  }])
]

const json: ReadonlyArray<readonly [name: string, handler: Handler]> = [
  ["plain", (visit) => visit.result({ text })],
  ["a charset", (visit) => visit.result({ text }, { "content-type": "application/json; charset=utf-8" })],
  ["a vendor's type", (visit) => visit.result({ text }, { "content-type": "application/vnd.acme+json" })],
  ["no type", (visit) => visit.status(200, JSON.stringify({ jsonrpc: "2.0", id: visit.message.id, result: { text } }))],
  ["a text type", (visit) => visit.result({ text }, { "content-type": "text/plain" })],
  [
    "a byte order mark",
    (visit) =>
      visit.status(200, `\uFEFF${JSON.stringify({ id: visit.message.id, result: { text } })}`, {
        "content-type": "application/json"
      })
  ],
  ["an id as text", (visit) => visit.json({ jsonrpc: "2.0", id: String(visit.message.id), result: { text } })],
  ["null beside the result", (visit) => visit.json({ id: visit.message.id, error: null, result: { text } })],
  ["a batch", (visit) => visit.json([{ jsonrpc: "2.0", id: visit.message.id, result: { text } }])],
  ["another success status", (visit) => visit.json({ jsonrpc: "2.0", id: visit.message.id, result: { text } }, 201)]
]

/** What cannot be an answer, and the words that must say so. */
const noAnswer: ReadonlyArray<readonly [name: string, handler: Handler, detail: RegExp]> = [
  ["202", (visit) => visit.status(202), /HTTP status 202 with an empty body/],
  ["202 with words", (visit) => visit.status(202, "Accepted"), /HTTP status 202/],
  ["204", (visit) => visit.status(204), /HTTP status 204/],
  ["an empty body", (visit) => visit.status(200, "", { "content-type": "application/json" }), /200 with an empty body/],
  ["HTML", (visit) => visit.status(200, "<html>login</html>", { "content-type": "text/html" }), /text\/html/],
  ["an image", (visit) => visit.status(200, Buffer.of(0x89, 0x50), { "content-type": "image/png" }), /image\/png/],
  ["half a JSON", (visit) => visit.status(200, "{\"jsonrpc\":", { "content-type": "application/json" }), /no message/],
  ["JSON null", (visit) => visit.json(null), /JSON that does not answer it/],
  ["an empty batch", (visit) => visit.json([]), /JSON that does not answer it/],
  ["another id", (visit) => visit.json({ jsonrpc: "2.0", id: 9999, result: {} }), /JSON that does not answer it/],
  ["a null id", (visit) => visit.json({ jsonrpc: "2.0", id: null, result: {} }), /JSON that does not answer it/],
  ["its own request", (visit) => visit.json(visit.message), /JSON that does not answer it/],
  ["an empty stream", (visit) => visit.response.end(visit.events("")), /event stream ended/],
  ["a stream without it", (visit) => visit.response.end(visit.events(": hi\n\n")), /event stream ended/],
  ["a stream that breaks", (visit) => abort((visit.events(": hi\n\n"), visit)), /event stream broke/],
  ["half an event", (visit) => visit.response.end(visit.events(visit.answer({}).slice(0, 20))), /event stream ended/]
]

const suite = (name: string, client: Layer.Layer<HttpClient.HttpClient>) =>
  describe(name, PATIENT, () => {
    it.live("writes what the protocol asks for, and nothing before it is known", () =>
      Effect.gen(function*() {
        const server = yield* serve(legacyServer({ session: "s-1" }))
        const peer = yield* open(server.url, { headers: { "x-tenant": "acme", "Mcp-Session-Id": "forged" } })
        yield* peer.initialize
        yield* peer.call("tools/list")
        yield* peer.transport.notify({ jsonrpc: "2.0", id: "r1", result: {} }, { protocol: legacy })
        yield* peer.close

        const [first] = server.seen("initialize")
        assert.strictEqual(first?.headers["mcp-session-id"], undefined)
        assert.strictEqual(first?.headers["mcp-protocol-version"], undefined)
        yield* eventually(() => server.seen("GET").length === 1)
        for (const visit of server.visits) {
          assert.strictEqual(visit.headers["x-tenant"], "acme")
          assert.strictEqual(visit.headers["traceparent"], undefined)
          assert.strictEqual(visit.headers["b3"], undefined)
          if (visit === first) continue
          assert.strictEqual(visit.headers["mcp-session-id"], "s-1", visit.method)
          assert.strictEqual(visit.headers["mcp-protocol-version"], "2025-11-25", visit.method)
        }
        for (const visit of server.seen("POST")) {
          assert.strictEqual(visit.headers["accept"], "application/json, text/event-stream")
          assert.match(visit.headers["content-type"] ?? "", /^application\/json/)
          assert.strictEqual(visit.headers["mcp-method"], undefined)
        }
        assert.strictEqual(server.seen("DELETE").length, 1)
      }).pipe(Effect.provide(client)))

    it.live.each(["2025-06-18", "2025-03-26", "2024-11-05"])("names %s only where it was defined", (version) =>
      Effect.gen(function*() {
        const server = yield* serve(legacyServer({ version }))
        const peer = yield* open(server.url)
        yield* peer.initialize
        yield* peer.call("tools/list")
        const expected = version === "2025-06-18" ? version : undefined
        assert.strictEqual(server.seen("tools/list")[0]?.headers["mcp-protocol-version"], expected)
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, Handler]>([
      ["202", (visit) =>
        visit.status(202)],
      ["200 with JSON", (visit) =>
        visit.json({})],
      ["204", (visit) => visit.status(204)],
      ["an event stream that stays open", (visit) => visit.events(": hi\n\n")]
    ])("takes %s for a notification received", ([, handler]) =>
      Effect.gen(function*() {
        const server = yield* serve(handler)
        const peer = yield* open(server.url)
        yield* peer.notify("notifications/progress")
        assert.deepStrictEqual(peer.received, [])
      }).pipe(Effect.provide(client)))

    it.live.each(json)("reads a JSON answer with %s", ([, handler]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler))
        const peer = yield* open(server.url)
        const id = yield* peer.call("tools/call")
        assert.deepInclude(peer.answerTo(id) as object, { result: { text } })
      }).pipe(Effect.provide(client)))

    it.live.each(sse)("reads an event stream with %s", ([, handler]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler))
        const peer = yield* open(server.url)
        const id = yield* peer.call("tools/call")
        assert.deepInclude(peer.answerTo(id) as object, { result: { text } })
      }).pipe(Effect.provide(client)))

    it.live("hands over what comes before the answer, in order", () =>
      Effect.gen(function*() {
        const server = yield* serve(answering((visit) =>
          visit.response.end(visit.events(
            `data: {"jsonrpc":"2.0","id":"p1","method":"ping"}\n\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\n\n${
              visit.answer({})
            }`
          ))
        ))
        const peer = yield* open(server.url)
        const id = yield* peer.call("tools/call")
        assert.deepStrictEqual(
          peer.received.map((message) => (message as { readonly id?: unknown }).id),
          ["p1", undefined, id]
        )
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, Handler]>([
      ["JSON", (visit) => visit.json({ jsonrpc: "2.0", id: null, error: { code: -32000, message: "no" } })],
      ["JSON without the member", (visit) => visit.json({ error: { code: -32000, message: "no" } })],
      ["an event", (visit) =>
        visit.response.end(visit.events("data: {\"id\":null,\"error\":{\"code\":-32000,\"message\":\"no\"}}\n\n"))]
    ])("takes an error without an id for the answer of its exchange: %s", ([, handler]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler))
        const peer = yield* open(server.url)
        const id = yield* peer.call("tools/call")
        assert.deepInclude(peer.answerTo(id) as object, { error: { code: -32000, message: "no" } })
      }).pipe(Effect.provide(client)))

    it.live.each(noAnswer)("fails at once when %s comes instead of an answer", ([, handler, detail]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler, works))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert(reason._tag === "NoAnswer", reason.message)
        assert.match(reason.detail, detail)
        assert.strictEqual(reason.method, "tools/call")
        assert.isDefined(peer.answerTo(yield* peer.call("tools/call")))
        assert.strictEqual(server.seen("tools/call").length, 2)
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, Handler]>([
      ["before its headers", (visit) =>
        visit.response.destroy()],
      ["inside its body", (visit) => {
        visit.response.writeHead(200, { "content-type": "application/json", "content-length": "100" })
        visit.response.write("{")
        abort(visit)
      }],
      ["with a header that is none", (visit) =>
        visit.response.socket?.end("HTTP/1.1 200 OK\r\n: :\r\n\r\n")],
      ["with another protocol", (visit) =>
        visit.response.socket?.end("220 mail.example ESMTP\r\n")]
    ])("fails at once when the answer breaks %s", ([, handler]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler, works))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert.strictEqual(reason._tag, "ConnectionFailed", reason.message)
        assert.isDefined(peer.answerTo(yield* peer.call("tools/call")))
      }).pipe(Effect.provide(client)))

    it.live("says why a server cannot be reached", () =>
      Effect.gen(function*() {
        const { url } = yield* Effect.scoped(serve(works))
        const peer = yield* open(url)
        const reason = yield* Effect.flip(peer.call("initialize"))
        assert.strictEqual(reason._tag, "ConnectionFailed")
        assert.match(reason.message, /ECONNREFUSED/)
      }).pipe(Effect.provide(client)))

    it.live("closes the exchange of an interrupted request, before and inside its answer", () =>
      Effect.gen(function*() {
        const server = yield* serve(answering(() => {}, (visit) =>
          visit.events(": open\n\n"), works))
        const peer = yield* open(server.url)
        for (const [at, protocol] of [legacy, modern].entries()) {
          const fiber = yield* Effect.forkChild(peer.call("tools/call", { protocol }))
          yield* eventually(() =>
            server.seen("tools/call").length === at + 1
          )
          yield* Effect.sleep(20)
          yield* Fiber.interrupt(fiber)
          yield* eventually(() => server.seen("tools/call")[at]?.gone === true)
        }
        assert.isDefined(peer.answerTo(yield* peer.call("tools/call")))
      }).pipe(Effect.provide(client)))

    it.live("keeps its connections from one call to the next", () =>
      Effect.gen(function*() {
        const server = yield* serve(answering(
          (visit) => visit.response.end(visit.events(visit.answer({}))),
          works,
          // The end of the stream comes a little later than the answer.
          (visit) => {
            visit.events(visit.answer({}))
            setTimeout(() => visit.response.end(), 20)
          }
        ))
        const peer = yield* open(server.url)
        for (let call = 0; call < 10; call++) {
          yield* peer.call("tools/call")
          yield* peer.notify("notifications/progress")
        }
        // The client opens another one when the first is not free yet.
        assert.isBelow(server.connections(), 10)
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, Handler]>([
      ["JSON", (visit) => visit.result({ text: "x".repeat(8 * 1024 * 1024) })],
      ["an event", (visit) => visit.response.end(visit.events(visit.answer({ text: "x".repeat(8 * 1024 * 1024) })))]
    ])("carries a result of 8 MiB as %s", ([, handler]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler))
        const peer = yield* open(server.url)
        const id = yield* peer.call("tools/call")
        const answer = peer.answerTo(id) as { readonly result: { readonly text: string } }
        assert.strictEqual(answer.result.text.length, 8 * 1024 * 1024)
      }).pipe(Effect.provide(client)))

    const large = "x".repeat(200_000)
    it.live.each<readonly [string, Handler]>([
      ["a body that says its length", (visit) => visit.result({ large })],
      ["a body that does not", (visit) => {
        visit.response.writeHead(200, { "content-type": "application/json" })
        visit.response.write(`{"jsonrpc":"2.0","id":${visit.message.id},"result":"`)
        visit.response.end(`${large}"}`)
      }],
      ["an endless line", (visit) => {
        visit.events("data: ")
        const more = (): void => {
          if (!visit.gone && visit.response.writable) visit.response.write(large, () => setImmediate(more))
        }
        more()
      }],
      ["an endless event", (visit) => {
        visit.events("")
        const more = (): void => {
          if (!visit.gone && visit.response.writable) {
            visit.response.write("data: x\n".repeat(5000), () => setImmediate(more))
          }
        }
        more()
      }]
    ])("fails a call over the size limit, and only that: %s", ([, handler]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler, works))
        const peer = yield* open(server.url, { maxMessageBytes: 100_000 })
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert(reason._tag === "LimitExceeded", reason.message)
        assert.deepInclude(reason, { limit: "maxMessageBytes", max: 100_000 })
        yield* eventually(() => server.seen("tools/call")[0]?.response.closed === true)
        assert.isDefined(peer.answerTo(yield* peer.call("tools/call")))
      }).pipe(Effect.provide(client)))

    it.live("fails a message JSON cannot hold", () =>
      Effect.gen(function*() {
        const server = yield* serve(answering(works))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("tools/call", { params: { big: 1n } }))
        assert.match(reason.message, /cannot be written as JSON/)
        assert.strictEqual(server.visits.length, 0)
      }).pipe(Effect.provide(client)))
  })

/** A client that unpacks bodies and leaves their headers as they came, or one that is lied to. */
const unpacking = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(
    HttpClient.HttpClient,
    (client) =>
      HttpClient.transformResponse(
        client,
        (response) =>
          Effect.map(response, (response) =>
            Object.create(response, { headers: { value: { ...response.headers, "content-length": "50" } } }))
      )
  )
).pipe(Layer.provide(NodeHttpClient.layerUndici))

it.live("an exchange by a client that says less than it has fails over the size limit", () =>
  Effect.gen(function*() {
    const server = yield* serve(answering((visit) => visit.result({ text: "x".repeat(200_000) })))
    const peer = yield* open(server.url, { maxMessageBytes: 100_000 })
    const reason = yield* Effect.flip(peer.call("tools/call"))
    assert.strictEqual(reason._tag, "LimitExceeded", reason.message)
  }).pipe(Effect.provide(unpacking)))

suite("an exchange by fetch", FetchHttpClient.layer)
suite("an exchange by undici", NodeHttpClient.layerUndici)

describe("an exchange by fetch", PATIENT, () => {
  it.live("reads a compressed answer, and holds it to the limit as it unfolds", () =>
    Effect.gen(function*() {
      const zipped = (size: number): Handler => (visit) => {
        const answer = { jsonrpc: "2.0", id: visit.message.id, result: { text: "x".repeat(size) } }
        visit.status(200, Zlib.gzipSync(JSON.stringify(answer)), {
          "content-type": "application/json",
          "content-encoding": "gzip"
        })
      }
      const server = yield* serve(answering(zipped(1000), zipped(50_000_000)))
      const peer = yield* open(server.url, { maxMessageBytes: 1_000_000 })
      assert.isDefined(peer.answerTo(yield* peer.call("tools/call")))
      const reason = yield* Effect.flip(peer.call("tools/call"))
      assert.strictEqual(reason._tag, "LimitExceeded")
    }).pipe(Effect.provide(FetchHttpClient.layer)))
})
