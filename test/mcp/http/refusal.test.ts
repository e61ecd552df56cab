import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Redacted, Tracer } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { open } from "./peer.ts"
import { type Handler, legacyServer, PATIENT, serve } from "./server.ts"

const works: Handler = (visit) => visit.result({})

const answering = (...ways: ReadonlyArray<Handler>): Handler => {
  let calls = 0
  return legacyServer({ call: (visit) => ways[Math.min(calls++, ways.length - 1)]!(visit) })
}

const suite = (name: string, client: Layer.Layer<HttpClient.HttpClient>) =>
  describe(name, PATIENT, () => {
    // verifies: mcp.http-refusals
    it.live("holds the status and a short beginning of the body", () =>
      Effect.gen(function*() {
        const server = yield* serve(answering(
          (visit) => visit.status(500, `\u001b[31mInternal ${"z".repeat(200_000)}`, { "content-type": "text/plain" }),
          works
        ))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert(reason._tag === "HttpStatus", reason.message)
        assert.strictEqual(reason.status, 500)
        assert.match(reason.body, /^Internal zzz/)
        assert.isBelow(reason.body.length, 600)
        assert.isDefined(peer.answerTo(yield* peer.call("tools/call")))
      }).pipe(Effect.provide(client)))

    it.live("does not wait for the end of a body that only tells a failure", () =>
      Effect.gen(function*() {
        const server = yield* serve(answering((visit) => {
          visit.response.writeHead(502)
          visit.response.write("bad gateway")
        }))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert(reason._tag === "HttpStatus", reason.message)
        assert.strictEqual(reason.body, "bad gateway")
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, unknown, object | undefined]>([
      ["with an id", { jsonrpc: "2.0", id: 1, error: { code: -32602, message: "bad", data: { at: "x" } } }, {
        code: -32602,
        message: "bad",
        data: { at: "x" }
      }],
      ["with a null id and null data", {
        jsonrpc: "2.0",
        id: null,
        error: { code: -32020, message: "bad", data: null }
      }, {
        code: -32020,
        message: "bad"
      }],
      ["with a null message", { error: { code: -32020, message: null } }, { code: -32020, message: "" }],
      ["in a batch", [{ error: { code: -32020, message: "bad" } }], { code: -32020, message: "bad" }],
      ["that is null", { error: null }, undefined],
      ["of words", { error: "bad" }, undefined],
      ["without a code", { error: { message: "bad" } }, undefined]
    ])("finds a JSON-RPC error in the body of a failure: %s", ([, body, expected]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering((visit) => visit.json(body, 400)))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert(reason._tag === "HttpStatus", reason.message)
        assert.deepStrictEqual(reason.error, expected as never)
        assert.deepStrictEqual(peer.received, [])
      }).pipe(Effect.provide(client)))

    it.live("tells what a 401 asks for, and fetches nothing", () =>
      Effect.gen(function*() {
        const canary = yield* serve(works)
        const server = yield* serve((visit) =>
          visit.status(401, "who are you?", {
            "www-authenticate": `Bearer realm="mcp", scope="a b", resource_metadata="${canary.origin}/latest"`
          })
        )
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("initialize"))
        assert(reason._tag === "Unauthorized", reason.message)
        assert.deepInclude(reason, { status: 401, body: "who are you?" })
        assert.deepStrictEqual(reason.challenges, [{
          scheme: "bearer",
          params: { realm: "mcp", scope: "a b", resource_metadata: `${canary.origin}/latest` }
        }])
        assert.deepStrictEqual(canary.visits, [])
        assert.strictEqual(server.visits.length, 1)
      }).pipe(Effect.provide(client)))

    it.live("tells a 403 that asks for more scope from one that is final", () =>
      Effect.gen(function*() {
        const server = yield* serve(answering(
          (visit) =>
            visit.status(403, "", { "www-authenticate": "Bearer error=\"insufficient_scope\", scope=\"write\"" }),
          (visit) => visit.status(403, "go away")
        ))
        const peer = yield* open(server.url)
        const first = yield* Effect.flip(peer.call("tools/call"))
        assert(first._tag === "Unauthorized", first.message)
        assert.strictEqual(first.challenges[0]?.params["scope"], "write")
        assert.match(first.message, /insufficient_scope/)
        const second = yield* Effect.flip(peer.call("tools/call"))
        assert(second._tag === "HttpStatus", second.message)
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, Handler, number]>([
      ["429 with Retry-After", (visit) => visit.status(429, "slow", { "retry-after": "0.05" }), 50],
      ["429 without", (visit) => visit.status(429), 500],
      ["503 with Retry-After", (visit) => visit.status(503, "later", { "retry-after": "0" }), 0]
    ])("sends a request again after %s", ([, handler, atLeast]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler, works))
        const peer = yield* open(server.url)
        const before = yield* Clock.currentTimeMillis
        assert.isDefined(peer.answerTo(yield* peer.call("tools/call")))
        assert.isAtLeast((yield* Clock.currentTimeMillis) - before, atLeast - 2)
        assert.strictEqual(server.seen("tools/call").length, 2)
      }).pipe(Effect.provide(client)))

    it.live.each<readonly [string, Handler, object, number]>([
      ["503 that names no time", (visit) => visit.status(503), { status: 503 }, 1],
      ["a time that is too long", (visit) => visit.status(429, "", { "retry-after": "3600" }), {
        status: 429,
        retryAfterMillis: 3_600_000
      }, 1],
      ["a server that goes on refusing", (visit) => visit.status(429, "", { "retry-after": "0" }), {
        status: 429,
        retryAfterMillis: 0
      }, 3],
      ["500", (visit) => visit.status(500, "", { "retry-after": "0" }), { status: 500, retryAfterMillis: 0 }, 1]
    ])("leaves %s to the caller", ([, handler, facts, visits]) =>
      Effect.gen(function*() {
        const server = yield* serve(answering(handler))
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert.strictEqual(reason._tag, "HttpStatus", reason.message)
        assert.deepInclude(reason, facts as never)
        assert.strictEqual(server.seen("tools/call").length, visits)
      }).pipe(Effect.provide(client)))

    it.live("reads a Retry-After that is a date", () =>
      Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        const server = yield* serve(
          answering((visit) => visit.status(503, "", { "retry-after": new Date(now + 60_000).toUTCString() }))
        )
        const peer = yield* open(server.url)
        const reason = yield* Effect.flip(peer.call("tools/call"))
        assert(reason._tag === "HttpStatus" && reason.retryAfterMillis !== undefined, reason.message)
        assert.isAbove(reason.retryAfterMillis, 50_000)
        assert.isAtMost(reason.retryAfterMillis, 60_000)
      }).pipe(Effect.provide(client)))

    describe("a redirect", () => {
      it.live("to another origin is refused, and nothing reaches it", () =>
        Effect.gen(function*() {
          const other = yield* serve(works)
          const server = yield* serve((visit) => visit.status(307, "", { location: `${other.url}/steal?token=abc#x` }))
          const peer = yield* open(server.url, { headers: { authorization: "Bearer very-secret" } })
          for (const method of ["server/discover", "initialize", "tools/call"]) {
            const reason = yield* Effect.flip(peer.call(method))
            assert(reason._tag === "RedirectRefused", reason.message)
            assert.strictEqual(reason.location, `${other.url}/steal`)
          }
          assert.strictEqual((yield* Effect.flip(peer.notify("notifications/progress")))._tag, "RedirectRefused")
          assert.deepStrictEqual(other.visits, [])
        }).pipe(Effect.provide(client)))

      it.live.each([
        "http://localhost:PORT/mcp",
        "https://127.0.0.1:PORT/mcp",
        "//example.invalid/mcp",
        "ftp://127.0.0.1/",
        "javascript:alert(1)",
        "http://user:pass@other.invalid/"
      ])("to %s is one to another origin", (location) =>
        Effect.gen(function*() {
          const server = yield* serve((visit) =>
            visit.status(307, "", { location: location.replace("PORT", String(server.port)) })
          )
          const peer = yield* open(server.url)
          const reason = yield* Effect.flip(peer.call("initialize"))
          assert.strictEqual(reason._tag, "RedirectRefused", reason.message)
          assert.notInclude(reason.message, "pass@")
          assert.strictEqual(server.visits.length, 1)
        }).pipe(Effect.provide(client)))

      it.live.each([301, 302, 307, 308])("of status %i inside the origin keeps method, headers and body", (status) =>
        Effect.gen(function*() {
          const server = yield* serve((visit) =>
            visit.path === "/mcp" ? visit.status(status, "", { location: "/mcp/?v=1" }) : legacyServer({})(visit)
          )
          const peer = yield* open(server.url, { headers: { "x-tenant": "acme" } })
          yield* peer.call("tools/call", { params: { name: "echo" } })
          const visit = server.visits.at(-1)
          assert.strictEqual(visit?.path, "/mcp/?v=1")
          assert.strictEqual(visit?.method, "POST")
          assert.strictEqual(visit?.headers["x-tenant"], "acme")
          assert.deepStrictEqual(visit?.message.params, { name: "echo" })
        }).pipe(Effect.provide(client)))

      it.live.each<readonly [string, Handler, number]>([
        ["that turns in a circle", (visit) =>
          visit.status(307, "", { location: "/mcp" }), 6],
        ["that asks for a GET", (visit) =>
          visit.status(303, "", { location: "/other" }), 1],
        ["without a place", (visit) => visit.status(307), 1],
        ["to no URL", (visit) => visit.status(307, "", { location: "http://[" }), 1]
      ])("%s is a failed request", ([, handler, visits]) =>
        Effect.gen(function*() {
          const server = yield* serve(handler)
          const peer = yield* open(server.url)
          const reason = yield* Effect.flip(peer.call("tools/call"))
          assert.strictEqual(reason._tag, "HttpStatus", reason.message)
          assert.strictEqual(server.visits.length, visits)
        }).pipe(Effect.provide(client)))
    })

    describe("a secret", () => {
      const secrets = ["s3cret-token", "pa55word!", "query-k3y", "us3r-name"]
      const withSecrets = (origin: string): string =>
        `${origin.replace("//", "//us3r-name:pa55word%21@")}/mcp?api_key=query-k3y#fragment`
      const headers = { authorization: Redacted.make("Bearer s3cret-token") }

      it.live("goes where it belongs, and into no error", () =>
        Effect.gen(function*() {
          const server = yield* serve((visit) =>
            visit.status(418, `you sent ${visit.headers["authorization"]} to ${visit.path}`)
          )
          const peer = yield* open(withSecrets(server.origin), { headers })
          const error = yield* Effect.flip(
            peer.transport.request({ jsonrpc: "2.0", id: 1, method: "ping" }, {
              protocol: { era: "legacy", version: "x" }
            })
          )
          assert.strictEqual(server.visits[0]?.headers["authorization"], "Bearer s3cret-token")
          assert.strictEqual(server.visits[0]?.path, "/mcp?api_key=query-k3y")
          const shown = [error.message, JSON.stringify(error), String(error.stack), peer.transport.label].join("\n")
          assert.include(shown, "<redacted>")
          for (const secret of secrets) assert.notInclude(shown, secret)
        }).pipe(Effect.provide(client)))

      it.live("of the URL becomes a header", () =>
        Effect.gen(function*() {
          const server = yield* serve(works)
          const peer = yield* open(withSecrets(server.origin))
          yield* peer.call("ping")
          assert.strictEqual(
            server.visits[0]?.headers["authorization"],
            `Basic ${Buffer.from("us3r-name:pa55word!").toString("base64")}`
          )
        }).pipe(Effect.provide(client)))

      it.live("is in no error of a server that cannot be reached", () =>
        Effect.gen(function*() {
          const { origin } = yield* Effect.scoped(serve(works))
          const peer = yield* open(withSecrets(origin), { headers })
          const reason = yield* Effect.flip(peer.call("ping"))
          const shown = `${reason.message}${JSON.stringify(reason)}${String(reason.stack)}`
          for (const secret of secrets) assert.notInclude(shown, secret)
        }).pipe(Effect.provide(client)))

      it.live("is in no span, and the trace does not leave unless asked for", () =>
        Effect.gen(function*() {
          const spans: Array<Tracer.Span> = []
          const tracer = Tracer.make({
            span(options) {
              const span = new Tracer.NativeSpan(options)
              spans.push(span)
              return span
            }
          })
          const server = yield* serve(works)
          for (const propagateTrace of [false, true]) {
            const peer = yield* open(withSecrets(server.origin), {
              headers: { ...headers, "x-own": "query-k3y" },
              propagateTrace
            })
            yield* peer.call("ping").pipe(
              Effect.withSpan("parent"),
              Effect.withTracer(tracer),
              Effect.provideService(HttpClient.TracerHeaderFilter, () => true)
            )
          }
          const shown = JSON.stringify(spans.map((span) => [span.name, [...span.attributes]]))
          assert.include(shown, "/mcp")
          assert.include(shown, "http.request.header.x-own")
          for (const secret of secrets) assert.notInclude(shown, secret)
          assert.strictEqual(server.visits[0]?.headers["traceparent"], undefined)
          assert.isDefined(server.visits[1]?.headers["traceparent"])
        }).pipe(Effect.provide(client)))
    })

    it.live.each<readonly [string, string, Record<string, string>]>([
      ["no URL", "not a url s3cret", {}],
      ["another scheme", "file:///s3cret", {}],
      ["a header name that is none", "http://127.0.0.1/", { "x y": "s3cret" }],
      ["a header value that is none", "http://127.0.0.1/", { "x-key": "s3cret\nx-other: 1" }]
    ])("a configuration with %s fails before anything is sent", ([, url, headers]) =>
      Effect.gen(function*() {
        const reason = yield* Effect.flip(open(url, { headers }))
        assert.strictEqual(reason._tag, "ConnectionFailed")
        assert.notInclude(reason.message, "s3cret")
      }).pipe(Effect.provide(client)))
  })

suite("a refusal by fetch", FetchHttpClient.layer)
suite("a refusal by undici", NodeHttpClient.layerUndici)

describe("the fetch options of the application", () => {
  it.live("stay in force beside the redirect rule", () =>
    Effect.gen(function*() {
      const other = yield* serve(works)
      const server = yield* serve((visit) => visit.status(307, "", { location: other.url }))
      const layer = FetchHttpClient.layer.pipe(
        Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, { redirect: "follow", headers: { "x-proxy": "yes" } }))
      )
      const peer = yield* Effect.provide(open(server.url), layer)
      assert.strictEqual((yield* Effect.flip(peer.call("ping")))._tag, "RedirectRefused")
      assert.strictEqual(server.visits[0]?.headers["x-proxy"], "yes")
      assert.deepStrictEqual(other.visits, [])
    }))
})
