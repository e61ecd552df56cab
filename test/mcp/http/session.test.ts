import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, type Layer } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { legacy, modern, open } from "./peer.ts"
import { eventually, type Handler, legacyServer, PATIENT, serve, type Visit } from "./server.ts"

const works: Handler = (visit) => visit.result({})

const inTurn = (...ways: ReadonlyArray<Handler>): Handler => {
  let calls = 0
  return (visit) => ways[Math.min(calls++, ways.length - 1)]!(visit)
}

const notification = (n: number, id?: string): string =>
  `${id === undefined ? "" : `id: ${id}\n`}data: ${
    JSON.stringify({ jsonrpc: "2.0", method: "notifications/n", params: { n } })
  }\n\n`

const numbers = (received: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  received.flatMap((message) => (message as { params?: { n?: unknown } }).params?.n ?? [])

const sessionNotFound: Handler = (visit) =>
  visit.json({ jsonrpc: "2.0", id: null, error: { code: -32001, message: "Session not found" } }, 404)

const suite = (name: string, client: Layer.Layer<HttpClient.HttpClient>) =>
  describe(name, PATIENT, () => {
    describe("a session", () => {
      it.live.each<readonly [string, Handler]>([
        ["404", sessionNotFound],
        ["404 without words", (visit) => visit.status(404)],
        ["400 about the session", (visit) =>
          visit.json(
            { jsonrpc: "2.0", id: null, error: { code: -32000, message: "Bad Request: No valid session ID provided" } },
            400
          )]
      ])("is over with %s, and a new one can begin", ([, handler]) =>
        Effect.gen(function*() {
          let sessions = 0
          const calls = inTurn(handler, works)
          const server = yield* serve((visit) =>
            legacyServer({
              session: `s${visit.message.method === "initialize" ? ++sessions : sessions}`,
              call: calls
            })(visit)
          )
          const peer = yield* open(server.url)
          yield* peer.initialize
          const reason = yield* Effect.flip(peer.call("tools/call"))
          assert.strictEqual(reason._tag, "SessionExpired", reason.message)
          yield* peer.initialize
          yield* peer.call("tools/call")
          assert.deepStrictEqual(server.seen("initialize").map((visit) => visit.headers["mcp-session-id"]), [
            undefined,
            undefined
          ])
          assert.deepStrictEqual(server.seen("tools/call").map((visit) => visit.headers["mcp-session-id"]), [
            "s1",
            "s2"
          ])
        }).pipe(Effect.provide(client)))

      it.live.each<readonly [string, Handler, boolean]>([
        [
          "404 about a method",
          (visit) => visit.json({ jsonrpc: "2.0", id: visit.message.id, error: { code: -32601, message: "nf" } }, 404),
          true
        ],
        [
          "400 about something else",
          (visit) => visit.json({ jsonrpc: "2.0", id: null, error: { code: -32000, message: "no" } }, 400),
          true
        ],
        ["404 where there is none", (visit) => visit.status(404), false]
      ])("is not over with %s", ([, handler, session]) =>
        Effect.gen(function*() {
          const server = yield* serve(
            legacyServer({ call: inTurn(handler, works), ...(session ? { session: "s1" } : {}) })
          )
          const peer = yield* open(server.url)
          yield* peer.initialize
          assert.strictEqual((yield* Effect.flip(peer.call("tools/call")))._tag, "HttpStatus")
          yield* peer.call("tools/call")
          assert.strictEqual(server.seen("tools/call")[1]?.headers["mcp-session-id"], session ? "s1" : undefined)
        }).pipe(Effect.provide(client)))

      it.live("is not forgotten by the late news that the one before is over", () =>
        Effect.gen(function*() {
          let sessions = 0
          const late: Array<Visit> = []
          const calls = inTurn((visit) => void late.push(visit), works)
          const server = yield* serve((visit) =>
            legacyServer({ session: `s${visit.message.method === "initialize" ? ++sessions : sessions}`, call: calls })(
              visit
            )
          )
          const peer = yield* open(server.url)
          yield* peer.initialize
          const slow = yield* Effect.forkChild(Effect.flip(peer.call("tools/call")))
          yield* eventually(() => late.length === 1)
          yield* peer.initialize
          sessionNotFound(late[0]!)
          assert.strictEqual((yield* Fiber.join(slow))._tag, "SessionExpired")
          yield* peer.call("tools/call")
          assert.strictEqual(server.seen("tools/call")[1]?.headers["mcp-session-id"], "s2")
        }).pipe(Effect.provide(client)))

      it.live("takes its id from the answer to initialize alone, and only one that can be sent back", () =>
        Effect.gen(function*() {
          const server = yield* serve((visit) =>
            visit.message.method === "initialize"
              ? visit.result({ protocolVersion: "2025-11-25" }, { "mcp-session-id": "two words" })
              : visit.message.id === undefined
              ? visit.status(202)
              : visit.result({}, { "mcp-session-id": "late" })
          )
          const peer = yield* open(server.url)
          yield* peer.initialize
          yield* peer.call("a")
          yield* peer.call("b")
          yield* peer.close
          assert(server.visits.every((visit) => visit.headers["mcp-session-id"] === undefined))
          assert.deepStrictEqual(server.seen("DELETE"), [])
        }).pipe(Effect.provide(client)))

      it.live.each<readonly [string, Handler]>([
        ["405", (visit) => visit.status(405)],
        ["404", (visit) => visit.status(404)],
        ["a broken connection", (visit) => visit.response.destroy()],
        ["nothing", () => {}]
      ])("ends when the server answers DELETE with %s", ([, handler]) =>
        Effect.gen(function*() {
          const server = yield* serve((visit) =>
            visit.method === "DELETE" ? handler(visit) : legacyServer({ session: "s1" })(visit)
          )
          const peer = yield* open(server.url)
          yield* peer.initialize
          const before = yield* Clock.currentTimeMillis
          yield* peer.close
          assert.isBelow((yield* Clock.currentTimeMillis) - before, 10_000)
          assert.strictEqual(server.seen("DELETE")[0]?.headers["mcp-session-id"], "s1")
          assert.strictEqual((yield* Effect.flip(peer.call("tools/list")))._tag, "Closed")
        }).pipe(Effect.provide(client)))
    })

    describe("the stream of a server", () => {
      it.live("is opened once initialized, read, and closed at the end", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({ session: "s1", get: (visit) => visit.events(notification(1)) }))
          const peer = yield* open(server.url)
          yield* peer.call("server/discover", { protocol: modern })
          assert.deepStrictEqual(server.seen("GET"), [])
          yield* peer.initialize
          yield* eventually(() => numbers(peer.received).length === 1)
          const [stream] = server.seen("GET")
          assert.strictEqual(stream?.headers["accept"], "text/event-stream")
          assert.strictEqual(stream?.headers["mcp-session-id"], "s1")
          assert.strictEqual(stream?.headers["mcp-protocol-version"], "2025-11-25")
          assert.isBelow(
            server.visits.findIndex((visit) => visit.message.method === "notifications/initialized"),
            server.visits.findIndex((visit) => visit.method === "GET")
          )
          stream?.response.write("event: ping\ndata: {}\n\n: hi\n\ndata: nonsense\n\n" + notification(2))
          yield* eventually(() => numbers(peer.received).length === 2)
          yield* peer.close
          yield* eventually(() => stream?.gone === true)
          assert.deepStrictEqual(peer.closed, [])
        }).pipe(Effect.provide(client)))

      it.live.each<readonly [string, Handler]>([
        ...[400, 401, 403, 404, 405, 406, 429, 500, 501].map((status): readonly [string, Handler] => [
          String(status),
          (visit) => visit.status(status, "nope")
        ]),
        ["HTML", (visit) => visit.status(200, "<html>hi</html>", { "content-type": "text/html" })],
        ["JSON", (visit) => visit.json({})],
        ["204", (visit) => visit.status(204)],
        ["a broken connection", (visit) => visit.response.destroy()],
        ["a redirect to another place", (visit) => visit.status(307, "", { location: "http://other.invalid/" })]
      ])("is none, once and quietly, when the answer is %s", ([, get]) =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({ get }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          yield* eventually(() => server.seen("GET").length === 1)
          yield* Effect.sleep(50)
          yield* peer.call("tools/list")
          assert.strictEqual(server.seen("GET").length, 1)
          assert.deepStrictEqual(peer.diagnostics, [])
          assert.deepStrictEqual(peer.closed, [])
        }).pipe(Effect.provide(client)))

      it.live("does not hold calls up when its GET is never answered", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({ get: () => {} }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          yield* peer.call("tools/list")
          yield* peer.close
          yield* eventually(() => server.seen("GET")[0]?.gone === true)
        }).pipe(Effect.provide(client)))

      it.live("is taken up after the last event, at the server's pace", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({
            get: inTurn(
              (visit) => visit.response.end(visit.events(`retry: 100\n${notification(1, "e1")}`)),
              (visit) => {
                visit.events(notification(2, "e2"))
                setTimeout(() => visit.response.destroy(), 20)
              },
              (visit) => visit.status(502),
              (visit) => visit.events(notification(3, "e3"))
            )
          }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          yield* eventually(() => numbers(peer.received).length === 1)
          yield* eventually(() => numbers(peer.received).length === 3)
          const [first, second] = server.seen("GET")
          assert.isAtLeast(second!.at - first!.at, 98)
          assert.deepStrictEqual(server.seen("GET").map((visit) => visit.headers["last-event-id"]), [
            undefined,
            "e1",
            "e2",
            "e2"
          ])
        }).pipe(Effect.provide(client)))

      it.live("is given up when the server says later that there is none", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({
            get: inTurn(
              (visit) => visit.response.end(visit.events("retry: 1\n\n" + notification(1, "e1"))),
              (visit) => visit.status(404)
            )
          }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          yield* eventually(() => server.seen("GET").length === 2)
          yield* Effect.sleep(100)
          assert.strictEqual(server.seen("GET").length, 2)
        }).pipe(Effect.provide(client)))

      it.live("survives an event that is too large", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({
            get: inTurn(
              (visit) => visit.events(`retry: 1\nid: e1\ndata: ${"x".repeat(50_000)}\n\n`),
              (visit) => visit.events(notification(1))
            )
          }))
          const peer = yield* open(server.url, { maxMessageBytes: 10_000 })
          yield* peer.initialize
          yield* eventually(() => numbers(peer.received).length === 1)
          assert.deepStrictEqual(peer.diagnostics.map(({ kind }) => kind), ["limit"])
          assert.strictEqual(server.seen("GET")[1]?.headers["last-event-id"], undefined)
        }).pipe(Effect.provide(client)))

      it.live("is one, whatever sessions follow each other", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({ session: "s1", get: (visit) => visit.events(": hi\n\n") }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          yield* eventually(() => server.seen("GET").length === 1)
          yield* peer.initialize
          yield* eventually(() => server.seen("GET").length === 2 && server.seen("GET")[0]?.gone === true)
          assert.isFalse(server.seen("GET")[1]?.gone)
        }).pipe(Effect.provide(client)))
    })

    describe("a broken response stream", () => {
      const prime: Handler = (visit) => visit.response.end(visit.events("id: e1\nretry: 100\ndata: \n\n"))

      /** Answers the call that was made last, on another connection. */
      const answered = (calls: ReadonlyArray<Visit>, id: string): Handler => (visit) =>
        visit.response.end(visit.events(`id: ${id}\n${calls.at(-1)!.answer({ text: "late" })}`))

      // verifies: mcp.http-sessions
      it.live("is taken up with Last-Event-ID after the pause the server asked for", () =>
        Effect.gen(function*() {
          const calls: Array<Visit> = []
          const server = yield* serve(legacyServer({
            session: "s1",
            call: (visit) => {
              calls.push(visit)
              prime(visit)
            },
            get: inTurn((visit) => visit.status(405), (visit) => answered(calls, "e2")(visit))
          }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          yield* eventually(() => server.seen("GET").length === 1)
          const before = yield* Clock.currentTimeMillis
          const id = yield* peer.call("tools/call")
          const took = (yield* Clock.currentTimeMillis) - before
          assert.isAtLeast(took, 98)
          // Without the server's wish it is a second.
          assert.isBelow(took, 900)
          assert.deepInclude(peer.answerTo(id) as object, { result: { text: "late" } })
          const resumed = server.seen("GET")[1]
          assert.strictEqual(resumed?.headers["last-event-id"], "e1")
          assert.strictEqual(resumed?.headers["mcp-session-id"], "s1")
          assert.strictEqual(resumed?.headers["accept"], "text/event-stream")
        }).pipe(Effect.provide(client)))

      it.live("is taken up as often as the server ends it, and after an abort", () =>
        Effect.gen(function*() {
          const calls: Array<Visit> = []
          const server = yield* serve(legacyServer({
            call: (visit) => {
              calls.push(visit)
              visit.events("id: e1\nretry: 10\ndata:\n\n")
              setTimeout(() => visit.response.destroy(), 20)
            },
            get: inTurn(
              (visit) => visit.status(405),
              (visit) => visit.response.end(visit.events(notification(1, "e2"))),
              (visit) => visit.response.end(visit.events("")),
              (visit) => visit.status(503, "", { "retry-after": "0" }),
              (visit) => visit.response.destroy(),
              (visit) => answered(calls, "e3")(visit)
            )
          }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          yield* eventually(() => server.seen("GET").length === 1)
          const id = yield* peer.call("tools/call")
          assert.isDefined(peer.answerTo(id))
          assert.deepStrictEqual(numbers(peer.received), [1])
          assert.deepStrictEqual(server.seen("GET").slice(1).map((visit) => visit.headers["last-event-id"]), [
            "e1",
            "e2",
            "e2",
            "e2",
            "e2"
          ])
        }).pipe(Effect.provide(client)))

      it.live.each<readonly [string, Handler]>([
        ["405", (visit) => visit.status(405)],
        ["404", (visit) => visit.status(404)],
        ["400", (visit) => visit.status(400)],
        ["no stream", (visit) => visit.json({})]
      ])("fails its call at once when the server answers %s", ([, get]) =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({ session: "s1", call: inTurn(prime, works), get }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          const reason = yield* Effect.flip(peer.call("tools/call"))
          assert(reason._tag === "NoAnswer", reason.message)
          assert.match(reason.detail, /event stream ended without it, and could not be resumed: HTTP status/)
          assert.isDefined(peer.answerTo(yield* peer.call("tools/call")))
        }).pipe(Effect.provide(client)))

      it.live("fails its call when it cannot be taken up again and again", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({ call: inTurn(prime, works), get: (visit) => visit.status(502) }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          const reason = yield* Effect.flip(peer.call("tools/call"))
          assert(reason._tag === "NoAnswer", reason.message)
          assert.strictEqual(server.seen("GET").length, 1 + 3)
        }).pipe(Effect.provide(client)))

      it.live.each<readonly [string, string]>([
        ["had no id", ": hi\n\n"],
        ["took its id back", "id: e1\ndata:\n\nid:\ndata:\n\n"]
      ])("fails its call at once when it %s", ([, text]) =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({ call: (visit) => visit.response.end(visit.events(text)) }))
          const peer = yield* open(server.url)
          const reason = yield* Effect.flip(peer.call("tools/call"))
          assert.strictEqual(reason._tag, "NoAnswer", reason.message)
          assert.deepStrictEqual(server.seen("GET"), [])
        }).pipe(Effect.provide(client)))

      it.live("is never taken up in the modern era", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({ call: prime }))
          const peer = yield* open(server.url)
          const reason = yield* Effect.flip(peer.call("tools/call", { protocol: modern }))
          assert.strictEqual(reason._tag, "NoAnswer", reason.message)
          assert.deepStrictEqual(server.seen("GET"), [])
        }).pipe(Effect.provide(client)))

      it.live("stops with the interruption of its call", () =>
        Effect.gen(function*() {
          const server = yield* serve(legacyServer({
            call: prime,
            get: inTurn((visit) => visit.status(405), (visit) => visit.events(": waiting\n\n"))
          }))
          const peer = yield* open(server.url)
          yield* peer.initialize
          const call = yield* Effect.forkChild(peer.call("tools/call"))
          yield* eventually(() => server.seen("GET").length === 2)
          yield* Fiber.interrupt(call)
          yield* eventually(() => server.seen("GET")[1]?.gone === true)
        }).pipe(Effect.provide(client)))
    })

    describe("the modern era", () => {
      const inputSchema = {
        type: "object",
        properties: {
          region: { type: "string", "x-mcp-header": "Region" },
          limit: { type: "integer", "x-mcp-header": "Limit" },
          dry: { type: "boolean", "x-mcp-header": "Dry-Run" },
          none: { type: ["string", "null"], "x-mcp-header": "None" },
          at: { type: "object", properties: { city: { type: "string", "x-mcp-header": "City" } } },
          query: { type: "string" }
        }
      }

      it.live("says in headers what a message is about", () =>
        Effect.gen(function*() {
          const server = yield* serve((visit) => visit.result({}, { "mcp-session-id": "s1" }))
          const peer = yield* open(server.url)
          yield* peer.call("server/discover", { protocol: modern })
          peer.transport.agreed(modern)
          yield* peer.call("tools/call", {
            protocol: modern,
            name: "größe",
            inputSchema,
            params: {
              name: "größe",
              arguments: { region: " us", limit: 42, dry: false, none: null, at: { city: "=?base64?x?=" }, query: "q" }
            }
          })
          yield* peer.call("resources/read", { protocol: modern, name: "file:///a b" })
          const [discover, call, read] = server.visits.map((visit) => visit.headers)
          assert.strictEqual(discover?.["mcp-method"], "server/discover")
          assert.strictEqual(discover?.["mcp-name"], undefined)
          const base64 = (text: string): string => `=?base64?${Buffer.from(text).toString("base64")}?=`
          assert.deepInclude(call, {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": base64("größe"),
            "mcp-param-region": base64(" us"),
            "mcp-param-limit": "42",
            "mcp-param-dry-run": "false",
            "mcp-param-city": base64("=?base64?x?=")
          })
          assert.strictEqual(call?.["mcp-param-none"], undefined)
          assert.strictEqual(call?.["mcp-session-id"], undefined)
          assert.strictEqual(read?.["mcp-name"], "file:///a b")
          yield* peer.close
          assert.strictEqual(server.visits.length, 3)
        }).pipe(Effect.provide(client)))

      it.live("refuses tools with annotations that are not allowed, and only there", () =>
        Effect.gen(function*() {
          const peer = yield* open("http://127.0.0.1:1/")
          const wrong = { type: "object", properties: { a: { type: "number", "x-mcp-header": "A" } } }
          peer.transport.agreed(modern)
          assert.strictEqual(peer.transport.refuses?.(inputSchema), undefined)
          assert.match(peer.transport.refuses?.(wrong) ?? "", /x-mcp-header: "A"/)
          peer.transport.agreed(legacy)
          assert.strictEqual(peer.transport.refuses?.(wrong), undefined)
        }).pipe(Effect.provide(client)))

      it.live("cancels by closing the response, and says nothing", () =>
        Effect.gen(function*() {
          const server = yield* serve((visit) => visit.events(": open\n\n"))
          const peer = yield* open(server.url)
          const listening = yield* Effect.forkChild(
            peer.call("subscriptions/listen", { protocol: modern, longLived: true })
          )
          yield* eventually(() => server.visits.length === 1)
          server.visits[0]?.response.write(notification(1))
          yield* eventually(() => peer.received.length === 1)
          yield* Fiber.interrupt(listening)
          yield* peer.notify("notifications/cancelled", { protocol: modern })
          yield* eventually(() => server.visits[0]?.gone === true)
          assert.strictEqual(server.visits.length, 1)
        }).pipe(Effect.provide(client)))
    })
  })

suite("a connection by fetch", FetchHttpClient.layer)
suite("a connection by undici", NodeHttpClient.layerUndici)
