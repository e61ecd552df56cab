import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { chunk, event, events, outcome, reply, serve, stream, tools } from "./support.ts"

const ask = (chunks: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const { baseUrl } = yield* serve(events(chunks))
    return yield* outcome(stream({ model: "m", baseUrl }, { toolkit: tools }))
  })

const call = (...toolCalls: ReadonlyArray<unknown>) => chunk({ tool_calls: toolCalls })
const finish = (reason = "tool_calls") => [chunk({}, reason), event("[DONE]")]
const get = (args: unknown) => ({ function: { name: "get", arguments: args } })
const put = (args: unknown) => ({ function: { name: "put", arguments: args } })

/** Each `calls` is [id, name, params]; an id of `*` is any. */
const scenarios: ReadonlyArray<{
  readonly title: string
  readonly chunks: ReadonlyArray<string>
  readonly calls: ReadonlyArray<readonly [id: string, name: string, params: unknown]>
  readonly finish?: string
  readonly text?: string
}> = [
  {
    title: "arguments as an object",
    chunks: [call({ index: 0, id: "a", ...get({ x: 1 }) }), ...finish()],
    calls: [["a", "get", { x: 1 }]]
  },
  {
    title: "calls that end with stop",
    chunks: [call({ index: 0, id: "a", ...get("{\"x\":1}") }), ...finish("stop")],
    calls: [["a", "get", { x: 1 }]]
  },
  {
    title: "calls that end with a word nobody knows",
    chunks: [call({ index: 0, id: "a", ...get("{\"x\":1}") }), ...finish("eos")],
    calls: [["a", "get", { x: 1 }]],
    finish: "other"
  },
  {
    title: "an index that starts at 1",
    chunks: [
      call({ index: 1, id: "a", ...get("{\"x\"") }),
      call({ index: 1, function: { arguments: ":1}" } }),
      ...finish()
    ],
    calls: [["a", "get", { x: 1 }]]
  },
  {
    title: "two calls with one id",
    chunks: [
      call({ index: 0, id: "a", ...get("{\"x\":1}") }),
      call({ index: 1, id: "a", ...put("{\"y\":2}") }),
      ...finish()
    ],
    calls: [["a", "get", { x: 1 }], ["a_2", "put", { y: 2 }]]
  },
  {
    title: "a placeholder without a function",
    chunks: [
      call({ index: 0, id: "a", ...get("{\"x\":1}") }),
      call({ index: 1, id: "", type: "function" }),
      ...finish()
    ],
    calls: [["a", "get", { x: 1 }]]
  },
  {
    title: "the whole call again at the end",
    chunks: [
      call({ index: 0, id: "a", ...get("{\"x\"") }),
      call({ index: 0, function: { arguments: ":1}" } }),
      call({ index: 0, id: "a", ...get("{\"x\":1}") }),
      call({ index: 0, id: "a", ...get("\"{\\\"x\\\":1}\"") }),
      ...finish()
    ],
    calls: [["a", "get", { x: 1 }]]
  },
  {
    title: "the whole call again without an id",
    chunks: [call({ index: 0, ...get("{\"x\":1}") }), call({ index: 0, ...get("{\"x\":1}") }), ...finish()],
    calls: [["*", "get", { x: 1 }]]
  },
  {
    title: "a name with every fragment, and nothing in the last",
    chunks: [
      call({ index: 0, ...get("{\"x\"") }),
      call({ index: 0, ...get(":1}") }),
      call({ index: 0, ...get("") }),
      ...finish()
    ],
    calls: [["*", "get", { x: 1 }]]
  },
  {
    title: "a name in pieces",
    chunks: [
      call({ index: 0, id: "a", function: { name: "g" } }),
      call({ index: 0, function: { name: "et", arguments: "" } }),
      call({ index: 0, function: { name: "get", arguments: "{}" } }),
      ...finish()
    ],
    calls: [["a", "get", {}]]
  },
  {
    title: "a name nobody declared, in pieces",
    chunks: [
      call({ index: 0, id: "a", function: { name: "fly_" } }),
      call({ index: 0, function: { name: "away", arguments: "{}" } }),
      ...finish()
    ],
    calls: [["a", "fly_away", {}]]
  },
  {
    title: "two calls without arguments, ids or indexes",
    chunks: [call({ function: { name: "get" } }), call({ function: { name: "put" } }), ...finish()],
    calls: [["*", "get", {}], ["*", "put", {}]]
  },
  {
    title: "an id that comes after the name",
    chunks: [
      call({ index: 0, function: { name: "g" } }),
      call({ index: 0, id: "a", function: { name: "et", arguments: "{}" } }),
      ...finish()
    ],
    calls: [["a", "get", {}]]
  },
  {
    title: "arguments that are JSON but no object",
    chunks: [call({ index: 0, id: "a", ...get("[1]") }), ...finish()],
    calls: [["a", "get", "[1]"]]
  },
  {
    title: "arguments with something after them",
    chunks: [call({ index: 0, id: "a", ...get("{\"x\":1}<|call|>") }), ...finish()],
    calls: [["a", "get", "{\"x\":1}<|call|>"]]
  },
  {
    title: "text around calls",
    chunks: [
      chunk({ content: "one " }),
      call({ index: 0, id: "a", ...get("{}") }),
      chunk({ content: "two" }),
      ...finish()
    ],
    calls: [["a", "get", {}]],
    text: "one two"
  },
  {
    title: "content as a list with thoughts in it",
    chunks: [
      chunk({
        content: [{ type: "thinking", thinking: [{ type: "text", text: "hm" }] }, { type: "text", text: "yes" }]
      }),
      ...finish("stop")
    ],
    calls: [],
    finish: "stop",
    text: "yes"
  },
  {
    title: "a refusal",
    chunks: [chunk({ refusal: "I can't" }), ...finish("stop")],
    calls: [],
    finish: "content-filter",
    text: "I can't"
  }
]

describe("assembly", () => {
  it.effect.each(scenarios)(
    "reads $title",
    ({ calls, chunks, finish = "tool-calls", text = "" }) =>
      Effect.gen(function*() {
        const got = yield* ask(chunks)
        assert.isUndefined(got.error)
        assert.deepStrictEqual(
          got.calls.map(({ id, name, params }, position) => [calls[position]?.[0] === "*" ? "*" : id, name, params]),
          calls.map((call) => Array.from<unknown>(call))
        )
        assert.strictEqual(new Set(got.calls.map((call) => call.id)).size, calls.length)
        assert.strictEqual(got.finish, finish)
        assert.strictEqual(got.text, text)
      })
  )

  it.effect("gives calls without an id different ids in different responses", () =>
    Effect.gen(function*() {
      const chunks = [call({ index: 0, ...get("{}") }), ...finish()]
      const first = yield* ask(chunks)
      const second = yield* ask(chunks)
      assert.notStrictEqual(first.calls[0]?.id, second.calls[0]?.id)
    }))

  it.effect("fails when a call that is to run has no name", () =>
    Effect.gen(function*() {
      const { calls, error } = yield* ask([call({ index: 0, id: "a", function: { arguments: "{}" } }), ...finish()])
      assert.deepStrictEqual(calls, [])
      assert.strictEqual(error?.reason._tag, "InvalidOutputError")
    }))

  it.effect("tells the parameters of a call while they come", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events([
        call({ index: 0, id: "a", ...get("{\"x\"") }),
        call({ index: 0, function: { arguments: ":1}" } }),
        ...finish()
      ]))
      const parts = yield* Stream.runCollect(stream({ model: "m", baseUrl }, { toolkit: tools }))
      assert.deepStrictEqual(
        parts.map((part) => part.type === "tool-params-delta" ? part.delta : part.type),
        ["response-metadata", "tool-params-start", "{\"x\"", ":1}", "tool-params-end", "tool-call", "finish"]
      )
    }))

  it.effect("reads comments, retry hints, named events and a byte order mark", () =>
    Effect.gen(function*() {
      const body = `\uFEFF: OPENROUTER PROCESSING\n\nretry: 10\n\nevent: ping\ndata: {"type":"ping"}\n\n` +
        `id: 7\n${chunk({ content: "hi" })}${finish("stop").join("")}`
      const { baseUrl } = yield* serve(reply(200, "text/event-stream; charset=utf-8", body))
      const got = yield* outcome(stream({ model: "m", baseUrl }))
      assert.isUndefined(got.error)
      assert.strictEqual(got.text, "hi")
    }))

  it.effect("takes the last event when its blank line is missing, and leaves it when it is cut itself", () =>
    Effect.gen(function*() {
      const whole = [chunk({ content: "hi" }), chunk({}, "stop").trimEnd()]
      assert.strictEqual((yield* ask(whole)).finish, "stop")
      const cut = [chunk({ content: "hi" }), chunk({}, "stop").slice(0, -10)]
      const got = yield* ask(cut)
      assert.isUndefined(got.error)
      assert.strictEqual(got.finish, "unknown")
    }))
})
