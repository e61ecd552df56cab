import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, type Layer } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { modern, open } from "./peer.ts"
import { eventually, type Handler, legacyServer, PATIENT, serve, type Visit } from "./server.ts"

/** A server of 2024-11-05: answers come by the stream that was opened last. */
const oldServer = (options: {
  readonly endpoint?: (origin: string) => string
  readonly refusal?: Handler
  readonly post?: (visit: Visit, send: (value: unknown) => void) => boolean
} = {}): Handler & { readonly stream: () => Visit | undefined } => {
  let stream: Visit | undefined
  const send = (value: unknown): void =>
    void stream?.response.write(`event: message\ndata: ${JSON.stringify(value)}\n\n`)
  const handler: Handler = (visit) => {
    if (visit.method === "GET") {
      stream = visit
      const endpoint = options.endpoint?.(`http://${visit.headers.host}`) ?? "/messages?sessionId=abc"
      return visit.events(`event: endpoint\r\ndata: ${endpoint}\r\n\r\n`)
    }
    if (!visit.path.startsWith("/messages")) {
      return options.refusal === undefined ? visit.status(404, "Cannot POST /mcp") : options.refusal(visit)
    }
    if (options.post?.(visit, send) === true) return
    visit.status(202, "Accepted")
    if (visit.message.id === undefined) return
    const result = visit.message.method === "initialize"
      ? { protocolVersion: "2024-11-05", capabilities: {}, serverInfo: { name: "old", version: "1" } }
      : { text: "ok" }
    send({ jsonrpc: "2.0", id: visit.message.id, result })
  }
  return Object.assign(handler, { stream: () => stream })
}

const suite = (name: string, client: Layer.Layer<HttpClient.HttpClient>) =>
  describe(name, PATIENT, () => {
    it.live.each<readonly [string, Handler]>([
      ["400", (visit) => visit.status(400)],
      ["404", (visit) => visit.status(404, "<pre>Cannot POST /mcp</pre>")],
      ["405", (visit) => visit.status(405)],
      ["406", (visit) => visit.status(406)],
      ["400 with an error of its own", (visit) => visit.json({ error: { code: -32000, message: "no" } }, 400)]
    ])("is found behind a POST refused with %s", ([, refusal]) =>
      Effect.gen(function*() {
        const old = oldServer({ refusal })
        const server = yield* serve(old)
        const peer = yield* open(server.url, { headers: { "x-tenant": "acme" } })
        assert.strictEqual((yield* Effect.flip(peer.call("server/discover", { protocol: modern })))._tag, "HttpStatus")
        assert.deepStrictEqual(server.seen("GET"), [])
        yield* peer.initialize
        const ids = yield* Effect.all([peer.call("tools/list"), peer.call("tools/call")], { concurrency: "unbounded" })
        for (const id of ids) assert.deepInclude(peer.answerTo(id) as object, { result: { text: "ok" } })
        assert.strictEqual(server.seen("GET").length, 1)
        for (const visit of server.visits) assert.strictEqual(visit.headers["x-tenant"], "acme")
        const posts = server.visits.filter((visit) => visit.path === "/messages?sessionId=abc")
        assert.deepStrictEqual(posts.map((visit) => visit.message.method).slice(0, 2), [
          "initialize",
          "notifications/initialized"
        ])
        assert(posts.every((visit) => visit.headers["mcp-protocol-version"] === undefined))
        yield* peer.close
        yield* eventually(() => old.stream()?.gone === true)
        assert.deepStrictEqual(server.seen("DELETE"), [])
        assert.deepStrictEqual(peer.closed, [])
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, Handler]>([
      ["of a modern server", (visit) => visit.json({ error: { code: -32022, message: "no" } }, 400)],
      ["about a method", (visit) => visit.json({ error: { code: -32601, message: "no" } }, 404)],
      ["that is a failure", (visit) => visit.status(500)],
      ["that asks for credentials", (visit) => visit.status(401)],
      ["that forbids", (visit) => visit.status(403)]
    ])("is not looked for behind a refusal %s", ([, refusal]) =>
      Effect.gen(function*() {
        const server = yield* serve(oldServer({ refusal }))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("initialize"))
        assert.include(["HttpStatus", "Unauthorized"], reason._tag)
        assert.deepStrictEqual(server.seen("GET"), [])
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, Handler]>([
      ["405", (visit) => visit.status(405)],
      ["HTML", (visit) => visit.status(200, "<html></html>", { "content-type": "text/html" })],
      ["a stream that ends", (visit) => visit.response.end(visit.events(": hi\n\n"))],
      ["a stream that breaks", (visit) => void setTimeout(() => visit.response.destroy(), 20)],
      ["an endpoint that is no URL", (visit) => visit.events("event: endpoint\ndata: http://[\n\n")]
    ])("is given up for the refusal of the POST when its GET is answered with %s", ([, get]) =>
      Effect.gen(function*() {
        const server = yield* serve((visit) => visit.method === "GET" ? get(visit) : visit.status(404, "no such page"))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("initialize"))
        assert(reason._tag === "HttpStatus", reason.message)
        assert.deepInclude(reason, { status: 404, body: "no such page" })
        assert.deepStrictEqual(peer.closed, [])
        yield* eventually(() => server.seen("GET").every((visit) => visit.response.closed))
      }).pipe(Effect.provide(client)))

    it.effect("is given up when no endpoint is named in time", () =>
      Effect.gen(function*() {
        const server = yield* serve((visit) =>
          visit.method === "GET" ? visit.events(": hi\n\nevent: message\ndata: {}\n\n") : visit.status(405)
        )
        const peer = yield* open(server.url)
        const call = yield* Effect.forkChild(Effect.flip(peer.call("initialize")))
        yield* TestClock.withLive(eventually(() => peer.received.length === 1))
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual((yield* Fiber.join(call))._tag, "HttpStatus")
        yield* TestClock.withLive(eventually(() => server.seen("GET")[0]?.gone === true))
      }).pipe(Effect.provide(client)))

    it.live.each(["http://localhost:PORT/x", "//other.invalid/x", "https://127.0.0.1:PORT/x", "data:text/plain,x"])(
      "does not post to %s, which is another origin",
      (endpoint) =>
        Effect.gen(function*() {
          const server = yield* serve(
            oldServer({ endpoint: (origin) => endpoint.replace("PORT", new URL(origin).port) })
          )
          const peer = yield* open(server.url, { headers: { authorization: "Bearer very-secret" } })
          const reason = yield* Effect.flip(peer.call("initialize"))
          assert.strictEqual(reason._tag, "RedirectRefused", reason.message)
          assert.deepStrictEqual(server.visits.map((visit) => visit.method), ["POST", "GET"])
        }).pipe(Effect.provide(client))
    )

    it.live("takes an absolute endpoint of its own origin", () =>
      Effect.gen(function*() {
        const server = yield* serve(oldServer({ endpoint: (origin) => `${origin}/messages/7` }))
        const peer = yield* open(server.url)
        yield* peer.initialize
        assert.strictEqual(server.visits.at(-1)?.path, "/messages/7")
      }).pipe(Effect.provide(client)))

    it.live("takes an answer that overtakes the acceptance of its request", () =>
      Effect.gen(function*() {
        const server = yield* serve(oldServer({
          post(visit, send) {
            if (visit.message.method !== "tools/call") return false
            send({ jsonrpc: "2.0", id: String(visit.message.id), result: {} })
            setTimeout(() => visit.status(202), 50)
            return true
          }
        }))
        const peer = yield* open(server.url)
        yield* peer.initialize
        const id = yield* peer.call("tools/call")
        assert.isDefined(peer.received.find((message) => (message as { id?: unknown }).id === String(id)))
      }).pipe(Effect.provide(client)))

    it.live("fails a call whose message is not accepted, and only that", () =>
      Effect.gen(function*() {
        const server = yield* serve(oldServer({
          post(visit) {
            if (visit.message.method !== "tools/call") return false
            visit.status(500, "boom")
            return true
          }
        }))
        const peer = yield* open(server.url)
        yield* peer.initialize
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert(reason._tag === "HttpStatus", reason.message)
        assert.deepInclude(reason, { status: 500, body: "boom" })
        yield* peer.call("tools/list")
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, (stream: Visit) => void]>([
      ["ends", (stream) => void stream.response.end()],
      ["breaks", (stream) => void stream.response.destroy()]
    ])("is closed when its stream %s, and whoever waits hears of it", ([, end]) =>
      Effect.gen(function*() {
        const old = oldServer({
          post(visit) {
            if (visit.message.method !== "tools/call") return false
            visit.status(202)
            end(old.stream()!)
            return true
          }
        })
        const server = yield* serve(old)
        const peer = yield* open(server.url)
        yield* peer.initialize
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert.strictEqual(reason._tag, "ConnectionFailed", reason.message)
        assert.deepStrictEqual(peer.closed.map(({ _tag }) => _tag), ["ConnectionFailed"])
      }).pipe(Effect.provide(client)))

    it.live("starts afresh after it was closed", () =>
      Effect.gen(function*() {
        const old = oldServer()
        const server = yield* serve(old)
        const peer = yield* open(server.url)
        yield* peer.initialize
        old.stream()?.response.end()
        yield* eventually(() => peer.closed.length === 1)
        yield* peer.close
        const again = yield* open(server.url)
        yield* again.initialize
        yield* again.call("tools/list")
      }).pipe(Effect.provide(client)))
  })

suite("an old server by fetch", FetchHttpClient.layer)
suite("an old server by undici", NodeHttpClient.layerUndici)

describe("a server of today", () => {
  it.live("is asked with POST alone", () =>
    Effect.gen(function*() {
      const server = yield* serve(legacyServer({}))
      const peer = yield* open(server.url)
      yield* peer.initialize
      assert.strictEqual(server.visits[0]?.method, "POST")
    }).pipe(Effect.provide(FetchHttpClient.layer)))
})
