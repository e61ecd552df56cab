/**
 * What every way to send requests does the same.
 */
import { assert, describe, it } from "@effect/vitest"
import { HttpTransport, OpenAiModel } from "agcore/openai"
import { Duration, Effect, Fiber, Redacted, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import * as http from "node:http"
import * as https from "node:https"
import type { AddressInfo } from "node:net"
import { bytes, end, recordings, toDocument, toolkit, verify } from "./recordings.ts"
import {
  chunk,
  event,
  events,
  generate,
  hello,
  json,
  outcome,
  pieces,
  reply,
  type Respond,
  serve,
  stream,
  summary
} from "./support.ts"

const transports: ReadonlyArray<{ readonly name: string; readonly transport: HttpTransport.HttpTransport }> = [
  { name: "fromFetch", transport: HttpTransport.fromFetch(fetch) },
  { name: "fromNode", transport: HttpTransport.fromNode({ http, https }) }
]

/** Lets the event loop come round. */
const tick = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

describe.each(transports)("$name", ({ transport }) => {
  // verifies: openai-speed.transports
  it.effect.each(recordings)("reads the stream $file", (recording) =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(pieces(recording.contentType, bytes(recording), end(recording)))
      const parts = stream({ model: "m", baseUrl, transport }, { toolkit: toolkit(recording) })
      verify(recording, yield* outcome(parts))
    }))

  it.effect("reads a document", () =>
    Effect.gen(function*() {
      const [recording] = recordings
      const { baseUrl } = yield* serve(json(toDocument(recording!)))
      const response = yield* generate({ model: "m", baseUrl, transport }, { toolkit: toolkit(recording!) })
      verify(recording!, summary(response.content))
    }))

  it.effect("sends the body in UTF-8, with its length and the headers", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(json({ choices: [{ message: { content: "hi" } }] }))
      const apiKey = Redacted.make("sk-0123456789")
      yield* generate({ model: "m", baseUrl: `${baseUrl}?v=1`, apiKey, transport }, { prompt: "grüß \u{1f600}" })
      const { body, headers, path } = yield* received
      assert.strictEqual(path, "/v1/chat/completions?v=1")
      assert.deepStrictEqual(body["messages"], [{ role: "user", content: "grüß \u{1f600}" }])
      assert.strictEqual(headers["content-type"], "application/json")
      assert.strictEqual(headers.authorization, "Bearer sk-0123456789")
      assert.match(headers["user-agent"] ?? "", /^OpenAI/)
      assert.strictEqual(headers["content-length"], String(Buffer.byteLength(JSON.stringify(body))))
    }))

  it.effect("sends many tools, again and again", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(json({ choices: [{ message: { content: "hi" } }] }))
      const many = Array.from({ length: 300 }, (_, position) =>
        Tool.make(`tool_${position}`, {
          description: `Größe ${position}`,
          parameters: Schema.Struct({ x: Schema.Finite })
        }))
      const model = yield* OpenAiModel.make({ model: "m", baseUrl, transport })
      for (const offered of [many, many, many.slice(1)]) {
        yield* model.generateText({
          prompt: "hello",
          toolkit: Toolkit.make(...offered),
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        })
        const { body } = yield* received
        assert.deepStrictEqual(
          body["tools"].map(({ function: { description, name } }: any) => [name, description]),
          offered.map(({ description, name }) => [name, description])
        )
      }
    }))

  it.effect("reads a large answer as fast as it is taken", () =>
    Effect.gen(function*() {
      const size = 200
      const text = "x".repeat(20_000)
      const { baseUrl } = yield* serve(
        events([...Array.from({ length: size }, () => chunk({ content: text })), ...hello])
      )
      let length = 0
      yield* stream({ model: "m", baseUrl, transport }).pipe(
        Stream.runForEachArray((parts) =>
          Effect.gen(function*() {
            for (const part of parts) if (part.type === "text-delta") length += part.delta.length
            yield* tick
          })
        )
      )
      assert.strictEqual(length, size * text.length + "hi".length)
    }))

  it.effect("does not follow a redirect", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve((response) => {
        response.writeHead(307, { location: "https://elsewhere.example/" }).end()
      })
      const error = yield* Effect.flip(generate({ model: "m", baseUrl, transport }))
      assert.include(error.message, "redirects to https://elsewhere.example/")
    }))

  it.effect("hands out the headers of a refusal", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(json({ error: { message: "calm" } }, 429, { "Retry-After": "7" }))
      const error = yield* Effect.flip(generate({ model: "m", baseUrl, transport }))
      assert.strictEqual(error.reason._tag, "RateLimitError")
      assert.deepStrictEqual(error.retryAfter, Duration.seconds(7))
    }))

  it.effect("says what the network said when nobody listens", () =>
    Effect.gen(function*() {
      const baseUrl = yield* unusedUrl
      const error = yield* Effect.flip(generate({ model: "m", baseUrl, transport }))
      assert.strictEqual(error.reason._tag, "NetworkError")
      assert.include(error.message, "ECONNREFUSED")
    }))

  it.effect("tells a cut from an end", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events([chunk({ content: "hi" })], "cut"))
      const got = yield* outcome(stream({ model: "m", baseUrl, transport }))
      assert.strictEqual(got.text, "hi")
      assert.include(got.error?.message, "connection cut")
    }))

  it.effect("closes the connection when interrupted before the answer begins", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(() => {})
      const fiber = yield* Effect.forkChild(generate({ model: "m", baseUrl, transport }))
      const { closed } = yield* received
      yield* Fiber.interrupt(fiber)
      yield* closed
    }))

  const endless: Respond = (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    const more = (): void => {
      if (!response.destroyed) response.write(chunk({ content: "more" }), () => setImmediate(more))
    }
    more()
  }

  it.effect("closes the connection when the consumer has enough", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(endless)
      yield* stream({ model: "m", baseUrl, transport }).pipe(Stream.take(3), Stream.runDrain)
      yield* (yield* received).closed
    }))

  it.live("closes the connection when the server is silent", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(events([chunk({ content: "hi" })], "open"))
      const got = yield* outcome(stream({ model: "m", baseUrl, transport, idleTimeout: "100 millis" }))
      assert.include(got.error?.message, "idleTimeout")
      yield* (yield* received).closed
    }))

  it.effect("uses a connection again", () =>
    Effect.gen(function*() {
      const ports = new Set<number | undefined>()
      const { baseUrl } = yield* serve((response) => {
        ports.add(response.req.socket.remotePort)
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(chunk({ content: "hi" }), () => response.end(chunk({}, "stop") + event("[DONE]")))
      })
      const model = yield* OpenAiModel.make({ model: "m", baseUrl, transport })
      for (let request = 0; request < 5; request++) {
        yield* Stream.runDrain(model.streamText({
          prompt: "hello",
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        }))
        yield* tick
      }
      assert.isBelow(ports.size, 5)
    }))
})

describe("fromNode", () => {
  it.effect("refuses an answer that is compressed unasked", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(
        reply(200, "application/json", "gibberish", { "content-encoding": "gzip" })
      )
      const transport = HttpTransport.fromNode({ http, https })
      const error = yield* Effect.flip(generate({ model: "m", baseUrl, transport }))
      assert.include(error.message, "encoded as gzip")
      const { closed, headers } = yield* received
      assert.strictEqual(headers["accept-encoding"], "identity")
      yield* closed
    }))

  it.effect("sends https with https", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      const refusing = (name: string) => ({
        request: (): never => {
          asked.push(name)
          throw new Error("no network in this test")
        }
      })
      const transport = HttpTransport.fromNode({ http: refusing("http"), https: refusing("https") })
      const error = yield* LanguageModel.generateText({ prompt: "hello" }).pipe(
        Effect.provide(OpenAiModel.layer({ model: "m", baseUrl: "https://model.test/v1", transport })),
        Effect.flip
      )
      assert.include(error.message, "no network in this test")
      assert.deepStrictEqual(asked, ["https"])
    }))
})

/** A port that was free a moment ago. */
const unusedUrl = Effect.callback<string>((resume) => {
  const server = http.createServer()
  server.listen(0, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo
    server.close(() => resume(Effect.succeed(`http://127.0.0.1:${port}/v1`)))
  })
})
