/*
 * Misconfigured programs, faulty servers and models that make things up: each
 * gives an error that says what to do, and the conversation goes on after it.
 */
import { assert, describe, it } from "@effect/vitest"
import type { CycleConfig } from "agcore"
import { OpenAiModel, ProviderProfile } from "agcore/openai"
import { Duration, Effect, Redacted, Schedule } from "effect"
import type { AiError } from "effect/ai"
import { json, reply, type Respond } from "../openai/support.ts"
import { succeed, tool } from "../tools/support.ts"
import { inOrder, makeHttpCycle, says } from "./http.ts"
import { checkMessages, drivers, reasonOf, results } from "./support.ts"

interface Case {
  readonly name: string
  readonly respond?: Respond
  readonly model?: Partial<OpenAiModel.Options>
  readonly expect: {
    readonly reason: AiError.AiErrorReason["_tag"]
    readonly message: RegExp
    readonly retryable: boolean
    readonly retryAfter?: Duration.Duration
  }
}

const report = (message: string, code: string) => ({ error: { message, type: "error", code } })

const CASES: ReadonlyArray<Case> = [
  {
    name: "no API key",
    model: { profile: ProviderProfile.openai },
    expect: { reason: "AuthenticationError", message: /needs an API key.*OPENAI_API_KEY/, retryable: false }
  },
  {
    name: "a base URL that is none",
    model: { baseUrl: "localhost:1234" },
    expect: { reason: "NetworkError", message: /base URL must be an http\(s\) URL/, retryable: false }
  },
  {
    name: "a refused connection",
    // Nobody listens on the port of the discard protocol.
    model: { baseUrl: "http://127.0.0.1:9/v1" },
    expect: { reason: "NetworkError", message: /cannot reach http:\/\/127\.0\.0\.1:9\/v1/, retryable: true }
  },
  {
    name: "401",
    model: { apiKey: Redacted.make("sk-secret-0123456789") },
    respond: json(report("Incorrect API key provided", "invalid_api_key"), 401),
    expect: { reason: "AuthenticationError", message: /Incorrect API key provided/, retryable: false }
  },
  {
    name: "404 for the model",
    respond: json(report("The model `m` does not exist", "model_not_found"), 404),
    expect: { reason: "InvalidRequestError", message: /check the model's name/, retryable: false }
  },
  {
    name: "429 without Retry-After",
    respond: json(report("Slow down", "rate_limit_exceeded"), 429),
    expect: { reason: "RateLimitError", message: /[Rr]ate limit/, retryable: true }
  },
  {
    name: "429 with a Retry-After of an hour",
    respond: json(report("Slow down", "rate_limit_exceeded"), 429, { "retry-after": "3600" }),
    expect: {
      reason: "RateLimitError",
      message: /[Rr]ate limit/,
      retryable: true,
      retryAfter: Duration.hours(1)
    }
  },
  {
    name: "500",
    respond: json(report("Oops", "server_error"), 500),
    expect: { reason: "InternalProviderError", message: /HTTP 500: Oops/, retryable: true }
  },
  {
    name: "HTML in place of JSON",
    respond: reply(200, "text/html", "<html><body>Please log in</body></html>"),
    expect: { reason: "InvalidResponseError", message: /text\/html.*Please log in/s, retryable: false }
  },
  {
    name: "a server that never answers",
    model: { firstByteTimeout: "1 second" },
    respond: () => {},
    expect: { reason: "NetworkError", message: /no answer began within 1s/, retryable: true }
  },
  {
    name: "a response that never goes on",
    model: { idleTimeout: "1 second" },
    respond: (response, received) => {
      response.writeHead(200, {
        "content-type": received.body["stream"] === true ? "text/event-stream" : "application/json"
      })
      response.write(received.body["stream"] === true ? ": wait\n\n" : "{")
    },
    expect: { reason: "NetworkError", message: /sent nothing for 1s/, retryable: true }
  }
]

const once: CycleConfig.CycleConfig = { retry: Schedule.recurs(0) }

describe("bad input", () => {
  for (const { name: loop, submit } of drivers) {
    describe(loop, () => {
      for (const { expect, model, name, respond } of CASES) {
        it.live(`${name} is a typed error`, () =>
          Effect.gen(function*() {
            const good = yield* makeHttpCycle({ respond: inOrder() })
            let isMended = false
            const { cycle } = yield* makeHttpCycle({
              respond: inOrder(...(respond === undefined ? [] : [respond])),
              ...(model === undefined ? undefined : { model }),
              config: {
                ...once,
                // A model that cannot be reached is replaced; the others answer now.
                prepareTurn: () =>
                  isMended && respond === undefined
                    ? Effect.map(
                      OpenAiModel.make({ model: "m", baseUrl: good.server.baseUrl }),
                      (model) => ({ model })
                    )
                    : Effect.succeed({})
              }
            })
            const reason = yield* reasonOf(submit(cycle, "go"))
            assert(reason._tag === "ModelFailed")
            assert.strictEqual(reason.error.reason._tag, expect.reason)
            assert.match(reason.message, expect.message)
            assert.notInclude(JSON.stringify(reason), "sk-secret")
            assert.strictEqual(reason.error.isRetryable, expect.retryable)
            assert.deepStrictEqual(reason.error.retryAfter, expect.retryAfter)
            isMended = true
            assert.strictEqual((yield* submit(cycle, "on")).text, "all is well")
            checkMessages(yield* cycle.messages)
          }).pipe(Effect.scoped))
      }

      it.live("429 with a short Retry-After is asked again then", () =>
        Effect.gen(function*() {
          const { cycle, server } = yield* makeHttpCycle({
            respond: inOrder(json(report("Slow down", "rate_limit_exceeded"), 429, { "retry-after-ms": "100" })),
            config: { retry: Schedule.recurs(1) }
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "all is well")
          yield* server.received
          yield* server.received
        }).pipe(Effect.scoped))

      it.live("an unknown tool ends the submit with what there is", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeHttpCycle({
            tools: [succeed("look")],
            respond: inOrder(says({ calls: [{ name: "peek", arguments: "{}" }] }))
          })
          const reason = yield* reasonOf(submit(cycle, "go"))
          assert.strictEqual(reason.message, "Tool \"peek\": not found; available: look")
          assert.strictEqual((yield* submit(cycle, "on")).text, "all is well")
          checkMessages(yield* cycle.messages)
        }).pipe(Effect.scoped))

      for (const text of ["{\"a\": 1", "no JSON at all", "[1]", "null"]) {
        it.live(`arguments ${text} are told to the model, and nothing runs`, () =>
          Effect.gen(function*() {
            const { cycle, server } = yield* makeHttpCycle({
              tools: [tool("look", () => Effect.die("it ran"))],
              respond: inOrder(says({ calls: [{ name: "look", arguments: text }] }))
            })
            assert.strictEqual((yield* submit(cycle, "go")).text, "all is well")
            assert.match(String(results(yield* cycle.messages)[0]?.result), /^Error: invalid arguments/)
            yield* server.received
            const { body } = yield* server.received
            assert.match(body["messages"].at(-1).content, /^Error: invalid arguments/)
          }).pipe(Effect.scoped))
      }

      it.live("a tool that dies is told to the model in few words", () =>
        Effect.gen(function*() {
          const { cycle, server } = yield* makeHttpCycle({
            tools: [tool("look", () => Effect.die(new Error("/home/me/secret.txt")))],
            respond: inOrder(says({ calls: [{ name: "look", arguments: "{}" }] }))
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "all is well")
          yield* server.received
          const { body } = yield* server.received
          assert.strictEqual(body["messages"].at(-1).content, "The tool failed unexpectedly.")
        }).pipe(Effect.scoped))

      it.live("calls that a limit of tokens cut off do not run", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeHttpCycle({
            tools: [tool("look", () => Effect.die("it ran"))],
            respond: inOrder(says({ calls: [{ name: "look", arguments: "{\"a\":" }], finish: "length" }))
          })
          assert.deepInclude(yield* reasonOf(submit(cycle, "go")), {
            _tag: "IncompleteResponse",
            finishReason: "length"
          })
          assert.strictEqual((yield* submit(cycle, "on")).text, "all is well")
          checkMessages(yield* cycle.messages)
        }).pipe(Effect.scoped))
    })
  }
})
