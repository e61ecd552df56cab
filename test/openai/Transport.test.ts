import { assert, describe, it } from "@effect/vitest"
import { HttpTransport, OpenAiModel } from "agcore/openai"
import { ConfigProvider, Deferred, Effect, Exit, Fiber, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { FetchHttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import * as http from "node:http"
import * as https from "node:https"
import { chunk, event, events, generate, hello, json, outcome, type Respond, serve, stream } from "./support.ts"

const usage = (completion: number): string =>
  event({ id: "c1", choices: [], usage: { prompt_tokens: 1, completion_tokens: completion } })

/** Answers nothing at all. */
const mute: Respond = () => {}

/** Answers with headers and nothing more. */
const headersOnly: Respond = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders()
}

/** Writes without end, as fast as the client reads. */
const endless = (piece: string): Respond => (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  const more = (): void => {
    if (!response.destroyed) response.write(piece, () => setImmediate(more))
  }
  more()
}

describe("leaving", () => {
  it.effect("closes the connection when interrupted before the answer begins", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(mute)
      const fiber = yield* Effect.forkChild(Stream.runDrain(stream({ model: "m", baseUrl })))
      const request = yield* received
      yield* Fiber.interrupt(fiber)
      yield* request.closed
    }))

  // verifies: openai.interruption
  it.effect("closes the connection when interrupted in the middle of a stream", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(events([chunk({ content: "hi" })], "open"))
      const begun = yield* Deferred.make<void>()
      const fiber = yield* Effect.forkChild(
        Stream.runForEach(stream({ model: "m", baseUrl }), () => Deferred.succeed(begun, undefined))
      )
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      yield* (yield* received).closed
    }))

  it.effect("closes the connection when a plain request is interrupted", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve((response) => {
        response.writeHead(200, { "content-type": "application/json" }).write("{\"choices\":")
      })
      const fiber = yield* Effect.forkChild(generate({ model: "m", baseUrl }))
      const request = yield* received
      yield* Fiber.interrupt(fiber)
      yield* request.closed
    }))

  it.effect("closes the connection when the consumer has enough", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(endless(chunk({ content: "more" })))
      const parts = yield* stream({ model: "m", baseUrl }).pipe(Stream.take(3), Stream.runCollect)
      assert.deepStrictEqual(parts.map((part) => part.type), ["response-metadata", "text-start", "text-delta"])
      yield* (yield* received).closed
    }))

  it.effect("closes the connection when the consumer fails", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(endless(chunk({ content: "more" })))
      const exit = yield* stream({ model: "m", baseUrl }).pipe(
        Stream.runForEach((part) => part.type === "text-delta" ? Effect.fail("enough") : Effect.void),
        Effect.exit
      )
      assert.isTrue(Exit.isFailure(exit))
      yield* (yield* received).closed
    }))
})

describe("the end of a stream", () => {
  it.effect("is [DONE], whatever the server still sends", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve((response, request) => {
        events(hello, "open")(response, request)
        const more = (): void => {
          if (!response.destroyed) response.write(chunk({ content: " LATE" }), () => setImmediate(more))
        }
        setImmediate(more)
      })
      const got = yield* outcome(stream({ model: "m", baseUrl }))
      assert.strictEqual(got.finish, "stop")
      yield* (yield* received).closed
    }))

  it.live("comes soon after the finish reason, when the server leaves the connection open", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(
        events([chunk({ content: "hi" }), chunk({}, "stop") + usage(4)], "open")
      )
      const got = yield* outcome(stream({ model: "m", baseUrl, finishGrace: "100 millis" }))
      assert.isUndefined(got.error)
      assert.strictEqual(got.finish, "stop")
      assert.strictEqual(got.usage?.outputTokens.total, 4)
      yield* (yield* received).closed
    }))

  it.live("is not waited for where there is no time, and what then fails is nobody's failure", () =>
    Effect.gen(function*() {
      const rejected: Array<unknown> = []
      const listen = (reason: unknown) => rejected.push(reason)
      process.on("unhandledRejection", listen)
      yield* Effect.addFinalizer(() => Effect.sync(() => process.off("unhandledRejection", listen)))
      for (const transport of [HttpTransport.fromFetch(fetch), HttpTransport.fromNode({ http, https })]) {
        const { baseUrl, received } = yield* serve(events([chunk({ content: "hi" }, "stop")], "open"))
        const got = yield* outcome(stream({ model: "m", baseUrl, transport, finishGrace: 0 }))
        assert.strictEqual(got.finish, "stop")
        yield* (yield* received).closed
      }
      // Rejections are told of after what was queued.
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      assert.deepStrictEqual(rejected, [])
    }))

  it.live("does not wait longer because the server says it is alive", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(chunk({ content: "hi" }, "stop"))
        const more = (): void => {
          if (!response.destroyed) response.write(": alive\n\n", () => setTimeout(more, 5))
        }
        more()
      })
      const got = yield* outcome(stream({ model: "m", baseUrl, finishGrace: "50 millis" }))
      assert.strictEqual(got.finish, "stop")
      yield* (yield* received).closed
    }))

  it.effect("may be a cut, after the finish reason", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events([chunk({ content: "hi" }, "stop")], "cut"))
      const got = yield* outcome(stream({ model: "m", baseUrl }))
      assert.isUndefined(got.error)
      assert.strictEqual(got.finish, "stop")
    }))

  // verifies: openai.usage
  it.effect("takes the usage that came last", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events([usage(1), ...hello.slice(0, 2), usage(2), usage(3), event("[DONE]")]))
      const got = yield* outcome(stream({ model: "m", baseUrl }))
      assert.strictEqual(got.usage?.outputTokens.total, 3)
    }))
})

describe("silence", () => {
  const cases = [
    { title: "before the headers", respond: mute, limit: "firstByteTimeout" },
    { title: "before the first byte", respond: headersOnly, limit: "firstByteTimeout" },
    { title: "in the middle", respond: events([chunk({ content: "hi" })], "open"), limit: "idleTimeout" }
  ]

  // verifies: openai.timeouts
  it.live.each(cases)(
    "$title fails with a timeout that may be retried, and closes the connection",
    (silent) =>
      Effect.gen(function*() {
        const { baseUrl, received } = yield* serve(silent.respond)
        const got = yield* outcome(
          stream({ model: "m", baseUrl, [silent.limit]: "100 millis" })
        )
        assert.strictEqual(got.error?.reason._tag, "NetworkError")
        assert.isTrue(got.error?.isRetryable)
        assert.include(got.error?.message, silent.limit)
        yield* (yield* received).closed
      })
  )

  /** A `fetch` whose answer is in the hands of the test, so that only the test's clock runs. */
  const scripted = (body: ReadonlyArray<string>) => {
    const asked = Deferred.makeUnsafe<void>()
    const bytes = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const text of body) controller.enqueue(new TextEncoder().encode(text))
      },
      pull: () => void Deferred.doneUnsafe(asked, Effect.void)
    }, { highWaterMark: 0 })
    const response = new Response(bytes, { headers: { "content-type": "text/event-stream" } })
    return { asked: Deferred.await(asked), fetch: () => Promise.resolve(response) }
  }

  it.effect("is allowed for 5 minutes first and for 2 minutes later, by default", () =>
    Effect.gen(function*() {
      for (const [body, limit] of [[[], "5 minutes"], [[chunk({ content: "hi" })], "2 minutes"]] as const) {
        const { asked, fetch } = scripted(body)
        const fiber = yield* Effect.forkChild(
          outcome(stream({ model: "m", baseUrl: "http://model.test/v1", fetch }))
        )
        yield* asked
        yield* TestClock.adjust(limit)
        const got = yield* Fiber.join(fiber)
        assert.include(got.error?.message, limit.replace(" minutes", "m"))
      }
    }))

  // verifies: openai.keep-alive
  it.effect("is no timeout while keep-alives come", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events([
        ": waiting\n\n",
        ": waiting\n\n",
        chunk({ content: "hi" }),
        ": waiting\n\n",
        ...hello.slice(1)
      ]))
      assert.isUndefined((yield* outcome(stream({ model: "m", baseUrl }))).error)
    }))
})

describe("shapes", () => {
  it.effect("are taken as they come: a stream for a plain request", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events(hello))
      const response = yield* generate({ model: "m", baseUrl })
      assert.strictEqual(response.text, "hi")
      assert.strictEqual(response.finishReason, "stop")
    }))
})

describe("chunks", () => {
  it.effect("stay whole: what arrived together is told together", () =>
    Effect.gen(function*() {
      const text = Array.from({ length: 50 }, (_, i) => chunk({ content: String(i) })).join("") +
        hello.slice(1).join("")
      const { baseUrl } = yield* serve(events([text]))
      const sizes: Array<number> = []
      yield* stream({ model: "m", baseUrl }).pipe(
        Stream.runForEachArray((parts) => Effect.sync(() => sizes.push(parts.length)))
      )
      assert.deepStrictEqual(sizes, [54])
    }))
})

describe("a model without a fetch of its own", () => {
  it.effect("uses that of effect's client", () =>
    Effect.gen(function*() {
      const urls: Array<string> = []
      const fetch: typeof globalThis.fetch = (input) => {
        urls.push(String(input))
        return Promise.resolve(Response.json({ choices: [{ message: { content: "hi" } }] }))
      }
      yield* generate({ model: "m", baseUrl: "http://localhost:9/v1" }).pipe(
        Effect.provideService(FetchHttpClient.Fetch, fetch)
      )
      assert.deepStrictEqual(urls, ["http://localhost:9/v1/chat/completions"])
    }))
})

describe("layerConfig", () => {
  const ask = (env: Record<string, string>, options?: Partial<OpenAiModel.Options>) =>
    LanguageModel.generateText({ prompt: "hello" }).pipe(
      Effect.provide(OpenAiModel.layerConfig(options)),
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
    )

  it.effect("reads key, base URL and model", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(json({ choices: [{ message: { content: "hi" } }] }))
      yield* ask({ OPENAI_API_KEY: "sk-0123456789", OPENAI_BASE_URL: baseUrl, OPENAI_MODEL: "env-model" })
      const { body, headers, path } = yield* received
      assert.strictEqual(headers.authorization, "Bearer sk-0123456789")
      assert.strictEqual(body["model"], "env-model")
      assert.strictEqual(path, "/v1/chat/completions")
    }))

  it.effect("takes an empty variable for an absent one, and options for absent ones", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(json({ choices: [{ message: { content: "hi" } }] }))
      yield* ask({ OPENAI_API_KEY: "", OPENAI_BASE_URL: " ", OPENAI_MODEL: "" }, { model: "option-model", baseUrl })
      const { body, headers } = yield* received
      assert.isUndefined(headers.authorization)
      assert.strictEqual(body["model"], "option-model")
    }))

  it.effect("fails when nobody names a model", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(ask({}))
      assert.strictEqual(error._tag, "ConfigError")
    }))
})
