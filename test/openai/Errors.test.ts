import { assert, describe, it } from "@effect/vitest"
import { OpenAiModel, ProviderProfile } from "agcore/openai"
import { Cause, DateTime, Duration, Effect, Exit, Layer, Redacted, Stream, Tracer } from "effect"
import { type AiError, LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { inspect } from "node:util"
import { chunk, event, events, generate, json, outcome, reply, type Respond, serve, stream, tools } from "./support.ts"

/** The error a server's answer gives, which is the same whether the request was streamed. */
const errorOf = (
  respond: Respond,
  options: { readonly apiKey?: string; readonly headers?: Record<string, string> } = {}
) =>
  Effect.gen(function*() {
    const { baseUrl } = yield* serve(respond)
    const model = {
      model: "some-model",
      baseUrl,
      headers: options.headers ?? {},
      apiKey: options.apiKey === undefined ? undefined : Redacted.make(options.apiKey)
    }
    const streamed = yield* Effect.flip(Stream.runDrain(stream(model)))
    const plain = yield* Effect.flip(generate(model))
    assert.strictEqual(plain.reason._tag, streamed.reason._tag)
    return { error: streamed, plain, baseUrl }
  })

const refusal = (status: number, error: unknown, headers: Record<string, string> = {}) =>
  errorOf(json(error, status, headers))

const message = (text: string, rest: object = {}) => ({ error: { message: text, ...rest } })

// verifies: openai.errors
describe("HTTP errors", () => {
  const statuses: ReadonlyArray<{
    readonly status: number
    readonly body: unknown
    readonly reason: AiError.AiErrorReason["_tag"]
    readonly isRetryable: boolean
    readonly says?: string
  }> = [
    { status: 400, body: message("bad shape"), reason: "InvalidRequestError", isRetryable: false, says: "bad shape" },
    {
      status: 400,
      body: message("filtered", { code: "content_filter" }),
      reason: "ContentPolicyError",
      isRetryable: false,
      says: "filtered"
    },
    { status: 401, body: message("who?"), reason: "AuthenticationError", isRetryable: false, says: "who?" },
    { status: 402, body: message("pay"), reason: "QuotaExhaustedError", isRetryable: false },
    { status: 403, body: message("not you"), reason: "AuthenticationError", isRetryable: false, says: "not you" },
    { status: 408, body: message("slow"), reason: "InternalProviderError", isRetryable: true, says: "slow" },
    { status: 409, body: message("busy"), reason: "InternalProviderError", isRetryable: true, says: "busy" },
    {
      status: 422,
      body: { detail: [{ loc: ["body", "tools"], msg: "field required" }] },
      reason: "InvalidRequestError",
      isRetryable: false,
      says: "field required"
    },
    {
      status: 400,
      body: [message("listed", { status: "INVALID_ARGUMENT" })],
      reason: "InvalidRequestError",
      isRetryable: false,
      says: "listed"
    },
    { status: 429, body: message("calm down"), reason: "RateLimitError", isRetryable: true },
    {
      status: 429,
      body: message("no money", { code: "insufficient_quota" }),
      reason: "QuotaExhaustedError",
      isRetryable: false
    },
    { status: 500, body: message("oops"), reason: "InternalProviderError", isRetryable: true, says: "oops" },
    { status: 503, body: { message: "later" }, reason: "InternalProviderError", isRetryable: true, says: "later" },
    {
      status: 529,
      body: { error: "overloaded" },
      reason: "InternalProviderError",
      isRetryable: true,
      says: "overloaded"
    }
  ]

  it.effect.each(statuses)(
    "gives $reason for $status $body",
    ({ body, isRetryable, reason, says, status }) =>
      Effect.gen(function*() {
        const { error } = yield* refusal(status, body)
        assert.strictEqual(error.reason._tag, reason)
        assert.strictEqual(error.isRetryable, isRetryable)
        if (says !== undefined) assert.include(error.message, says)
      })
  )

  // verifies: openai.retries
  it.effect("asks once: whether to ask again is the caller's to decide", () =>
    Effect.gen(function*() {
      let requests = 0
      yield* errorOf((response, received) => {
        requests++
        json(message("overloaded"), 503)(response, received)
      })
      // Once whole and once in a stream.
      assert.strictEqual(requests, 2)
    }))

  it.effect("says whether a key was sent when it was refused", () =>
    Effect.gen(function*() {
      const missing = yield* errorOf(json(message("no"), 401))
      assert.strictEqual((missing.error.reason as AiError.AuthenticationError).kind, "MissingKey")
      const invalid = yield* errorOf(json(message("no"), 401), { apiKey: "sk-0123456789" })
      assert.strictEqual((invalid.error.reason as AiError.AuthenticationError).kind, "InvalidKey")
    }))

  it.effect("names the model and the base URL for 404", () =>
    Effect.gen(function*() {
      const { baseUrl, error } = yield* refusal(404, message("model not found, try pulling it first"))
      assert.strictEqual(error.reason._tag, "InvalidRequestError")
      for (const fact of ["some-model", baseUrl, "try pulling it first"]) assert.include(error.message, fact)
      const html = yield* errorOf(reply(404, "text/html", "<h1>Not Found</h1>"))
      assert.include(html.error.message, "/v1")
    }))

  it.effect("does not follow a redirect, and says where it leads", () =>
    Effect.gen(function*() {
      const { error } = yield* errorOf((response) => {
        response.writeHead(307, { location: "https://elsewhere.example/v1/chat/completions?token=t" }).end()
      })
      assert.strictEqual(error.reason._tag, "InvalidRequestError")
      assert.include(error.message, "https://elsewhere.example/v1/chat/completions;")
      assert.notInclude(error.message, "token")
    }))

  it.effect("reads little of an endless error body, and closes the connection", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve((response) => {
        response.writeHead(500, { "content-type": "text/plain" })
        const more = (): void => {
          if (!response.destroyed) response.write("x".repeat(4096), () => setImmediate(more))
        }
        more()
      })
      const error = yield* Effect.flip(Stream.runDrain(stream({ model: "m", baseUrl })))
      assert.strictEqual(error.reason._tag, "InternalProviderError")
      assert.isBelow(error.message.length, 1000)
      yield* (yield* received).closed
    }))
})

describe("Retry-After", () => {
  const after = (headers: Record<string, string>) =>
    Effect.map(refusal(429, message("calm down"), headers), ({ error }) => error.retryAfter)

  it.effect("is absent when the server sends none or nonsense", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* after({}))
      assert.isUndefined(yield* after({ "retry-after": "soon" }))
    }))

  it.effect("is kept in seconds, over a minute too", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* after({ "retry-after": "7" }), Duration.seconds(7))
      assert.deepStrictEqual(yield* after({ "retry-after": "120" }), Duration.seconds(120))
    }))

  it.effect("is the time until an HTTP date", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(DateTime.toEpochMillis(DateTime.makeUnsafe("2026-12-01T10:00:00Z")))
      assert.deepStrictEqual(yield* after({ "retry-after": "Tue, 01 Dec 2026 10:01:30 GMT" }), Duration.seconds(90))
      assert.deepStrictEqual(yield* after({ "retry-after": "Tue, 01 Dec 2026 09:00:00 GMT" }), Duration.zero)
    }))

  it.effect("is kept for a server that is overloaded", () =>
    Effect.gen(function*() {
      const { error } = yield* refusal(503, message("loading"), { "retry-after": "9" })
      assert.isTrue(error.isRetryable)
      assert.deepStrictEqual(error.retryAfter, Duration.seconds(9))
    }))

  it.effect("is read in milliseconds where OpenAI says so", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* after({ "retry-after-ms": "250", "retry-after": "1" }), Duration.millis(250))
    }))
})

describe("answers that are none", () => {
  it.effect("names the URL nothing listens at", () =>
    Effect.gen(function*() {
      const baseUrl = yield* unusedUrl
      const error = yield* Effect.flip(Stream.runDrain(stream({ model: "m", baseUrl })))
      assert.strictEqual(error.reason._tag, "NetworkError")
      assert.isTrue(error.isRetryable)
      assert.include(error.message, `cannot reach ${baseUrl}/chat/completions`)
      assert.include(error.message, "ECONNREFUSED")
    }))

  it.effect.each(["", "localhost:1234", "not a url", "ftp://host/v1", "http://user:hunter22@host/v1"])(
    "refuses %j as a base URL",
    (baseUrl) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(Stream.runDrain(stream({ model: "m", baseUrl })))
        assert.strictEqual(error.reason._tag, "NetworkError")
        assert.isFalse(error.isRetryable)
        assert.notInclude(error.message, "hunter22")
      })
  )

  it.effect("quotes the beginning of a page, and asks about the base URL", () =>
    Effect.gen(function*() {
      const { baseUrl, error, plain } = yield* errorOf(
        reply(200, "text/html", `<html>proxy login ${"x".repeat(100_000)}</html>`)
      )
      assert.strictEqual(error.reason._tag, "InvalidResponseError")
      for (const fact of ["not an event stream", "text/html", "proxy login", baseUrl]) {
        assert.include(error.message, fact)
      }
      assert.include(plain.message, "not JSON")
      assert.isBelow(error.message.length, 1500)
    }))

  it.effect("takes an answer without a content type as what was asked for", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(reply(200, undefined, chunk({ content: "hi" }, "stop")))
      assert.strictEqual((yield* outcome(stream({ model: "m", baseUrl }))).text, "hi")
    }))

  it.effect("refuses a body that is not JSON", () =>
    Effect.gen(function*() {
      const { error } = yield* errorOf(reply(200, "application/json", "{\"choices\":["))
      assert.strictEqual(error.reason._tag, "InvalidResponseError")
    }))

  it.effect.each(["", "{}", "{\"choices\":null}", "{\"choices\":[]}"])(
    "refuses %j as an answer",
    (body) =>
      Effect.gen(function*() {
        const { error } = yield* errorOf(reply(200, "application/json", body))
        assert.strictEqual(error.reason._tag, "InternalProviderError")
        const { baseUrl } = yield* serve(events(body === "" ? [] : [event(body), event("[DONE]")]))
        const streamed = yield* outcome(stream({ model: "m", baseUrl }))
        assert.strictEqual(streamed.error?.reason._tag, "InternalProviderError")
      })
  )

  it.effect("gives the reason of an error inside a success", () =>
    Effect.gen(function*() {
      const limited = yield* errorOf(json(message("calm", { code: 429 })))
      assert.strictEqual(limited.error.reason._tag, "RateLimitError")
      const quota = yield* errorOf(json(message("pay", { type: "insufficient_quota" })))
      assert.strictEqual(quota.error.reason._tag, "QuotaExhaustedError")
      const tagged = yield* errorOf(json({ object: "error", message: "bad", type: "BadRequestError", code: 400 }))
      assert.strictEqual(tagged.error.reason._tag, "InvalidRequestError")
      const unknown = yield* errorOf(json({ error: { text: "?" } }))
      assert.strictEqual(unknown.error.reason._tag, "InternalProviderError")
    }))

  it.effect("tells what came before an error in the same piece", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(
        reply(200, "text/event-stream", chunk({ content: "hi" }) + event({ error: { message: "boom" } }))
      )
      const got = yield* outcome(stream({ model: "m", baseUrl }))
      assert.strictEqual(got.text, "hi")
      assert.include(got.error?.message, "boom")
    }))

  it.effect("survives JSON that is nested too deep to walk", () =>
    Effect.gen(function*() {
      const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`
      const { baseUrl } = yield* serve(events([
        `data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"get","arguments":"{}"},"x":${deep}}]}}]}\n\n`,
        `data: {"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"put","arguments":${deep}}}]}}]}\n\n`,
        chunk({}, "stop")
      ]))
      const got = yield* outcome(stream({ model: "m", baseUrl }, { toolkit: tools }))
      assert.deepStrictEqual(got.calls, [
        { id: "a", name: "get", params: {} },
        { id: "b", name: "put", params: "(nested too deep)" }
      ])
    }))
})

describe("limits", () => {
  it.effect("refuses an event larger than maxEventBytes, ended or not", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events([`data: ${"x".repeat(5000)}`], "open"))
      const got = yield* outcome(stream({ model: "m", baseUrl, maxEventBytes: "4 KiB" }))
      assert.strictEqual(got.error?.reason._tag, "InvalidResponseError")
      assert.include(got.error?.message, "4 KiB")
    }))

  it.effect("refuses an answer larger than maxResponseBytes, streamed or not", () =>
    Effect.gen(function*() {
      const long = chunk({ content: "x".repeat(400) })
      const streaming = yield* serve(events(Array.from({ length: 20 }, () => long)))
      const got = yield* outcome(stream({ model: "m", baseUrl: streaming.baseUrl, maxResponseBytes: "4 KiB" }))
      assert.strictEqual(got.error?.reason._tag, "InvalidResponseError")
      const whole = yield* serve(json({ choices: [{ message: { content: "x".repeat(5000) } }] }))
      const error = yield* Effect.flip(generate({ model: "m", baseUrl: whole.baseUrl, maxResponseBytes: "4 KiB" }))
      assert.strictEqual(error.reason._tag, "InvalidResponseError")
    }))
})

describe("tools nobody declared", () => {
  const body = [chunk({ tool_calls: [{ id: "a", function: { name: "fly" } }] }, "tool_calls")]

  it.effect("are told as they are when validation is deferred", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events(body))
      const got = yield* outcome(stream({ model: "m", baseUrl }, { toolkit: tools }))
      assert.deepStrictEqual(got.calls, [{ id: "a", name: "fly", params: {} }])
    }))

  it.effect("fail otherwise", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events(body))
      const got = yield* outcome(stream({ model: "m", baseUrl }, { toolkit: tools, validation: "strict" }))
      assert.strictEqual(got.error?.reason._tag, "ToolNotFoundError")
    }))
})

describe("tools that effect/ai runs itself", () => {
  const run = (args: string) =>
    Effect.gen(function*() {
      const ran: Array<unknown> = []
      const { baseUrl } = yield* serve(json({
        choices: [{ message: { tool_calls: [{ id: "a", function: { name: "get", arguments: args } }] } }]
      }))
      const profile = { ...ProviderProfile.tolerant, missingFinish: "stop" as const }
      const handle = (params: unknown) => Effect.sync(() => void ran.push(params))
      const result = yield* LanguageModel.generateText({ prompt: "hello", toolkit: tools }).pipe(
        Effect.provide(Layer.merge(
          OpenAiModel.layer({ model: "m", baseUrl, profile }),
          tools.toLayer({ get: handle, put: handle })
        )),
        Effect.result
      )
      return { ran, result }
    })

  it.effect("get the arguments of the model", () =>
    Effect.gen(function*() {
      const { ran } = yield* run("{\"x\":1}")
      assert.deepStrictEqual(ran, [{ x: 1 }])
    }))

  // verifies: openai.bad-arguments
  it.effect("are not run with arguments that can't be read", () =>
    Effect.gen(function*() {
      const { ran, result } = yield* run("{\"x\":1")
      assert.deepStrictEqual(ran, [])
      assert.strictEqual(result._tag, "Failure")
    }))
})

describe("secrets", () => {
  const key = "sk-live-0123456789abcdef"

  /** All a program could print of what happened. */
  const traces = (respond: Respond, apiKey = key) =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(respond)
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span(options) {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const model = {
        model: "m",
        baseUrl: `${baseUrl}?key=hidden-query-value`,
        apiKey: Redacted.make(apiKey),
        headers: { "x-secret": Redacted.make("hidden-header-value") }
      }
      const exit = yield* Effect.exit(Effect.withTracer(generate(model), tracer))
      const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
      return [
        JSON.stringify(exit),
        Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "",
        String(error),
        JSON.stringify(error),
        ...spans.map((span) => inspect([span.attributes, span.events, span.status], { depth: null }))
      ].join("\n")
    })

  it.effect("never appear, even if a server says them", () =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      for (
        const respond of [
          json(message(`the key ${key}, hidden-header-value and hidden-query-value are wrong`), 401),
          json(message(`${"x".repeat(480)}${key}`), 400, { "x-request-id": key }),
          reply(200, "text/html", key),
          reply(200, "application/json", key),
          json({ error: key })
        ] satisfies ReadonlyArray<Respond>
      ) seen.push(yield* traces(respond))
      seen.push(yield* traces(json({}), `${key}\nx: y`))
      for (const text of seen) {
        assert.notInclude(text, key.slice(0, 12))
        assert.notInclude(text, "hidden-header-value")
        assert.notInclude(text, "hidden-query-value")
      }
      assert.include(seen[0], "<redacted>")
    }))

  it.effect("in the environment are sent to nobody", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(json(message("no"), 400))
      yield* Effect.acquireUseRelease(
        Effect.sync(() => Object.assign(process.env, { OPENAI_API_KEY: key, OPENAI_ORG_ID: key })),
        () => Effect.exit(generate({ model: "m", baseUrl })),
        () =>
          Effect.sync(() => {
            delete process.env["OPENAI_API_KEY"]
            delete process.env["OPENAI_ORG_ID"]
          })
      )
      assert.notInclude(JSON.stringify((yield* received).headers), key)
    }))

  it.effect("are asked for before a request that needs one", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Stream.runDrain(stream({ model: "gpt-5-mini" })))
      assert.strictEqual((error.reason as AiError.AuthenticationError).kind, "MissingKey")
      for (const fact of ["api.openai.com", "apiKey", "OPENAI_API_KEY"]) assert.include(error.message, fact)
    }))
})

/** A port that was free a moment ago. */
const unusedUrl = Effect.callback<string>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo
    server.close(() => resume(Effect.succeed(`http://127.0.0.1:${port}/v1`)))
  })
})
