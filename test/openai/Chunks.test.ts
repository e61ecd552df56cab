/**
 * Chunks that differ in little from the one before, and text that comes in pieces.
 */
import { assert, describe, it } from "@effect/vitest"
import type { HttpTransport } from "agcore/openai"
import { Effect, Schema } from "effect"
import { event, outcome, stream, tools } from "./support.ts"

/** A server in memory: what each read of its answer gives. */
const answering = (pieces: ReadonlyArray<string>): HttpTransport.HttpTransport => () => {
  let next = 0
  return {
    head: Promise.resolve({ status: 200, header: () => "text/event-stream" }),
    read: () => Promise.resolve(pieces.slice(next, ++next).map((piece) => new TextEncoder().encode(piece))),
    cancel: () => {}
  }
}

const ask = (pieces: ReadonlyArray<string>) =>
  outcome(stream({ model: "m", baseUrl: "http://model.test/v1", transport: answering(pieces) }, { toolkit: tools }))

const finished = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) + event("[DONE]")

describe("chunks", () => {
  /** Text that a reader who looks for what surrounds it could stumble over. */
  const awkward = Schema.Literals([
    "",
    "\"",
    "\\",
    "\\\"",
    "\u0000",
    "\u2028",
    "\ud83d",
    "\n\n",
    "data: {}",
    ",\"content\":\"",
    "\"content\":\"x\"",
    "\"},\"finish_reason\":null}]}",
    "{\"choices\":[]}"
  ])
  const Piece = Schema.Union([awkward, Schema.String])

  const shapes: ReadonlyArray<(content: string) => unknown> = [
    (content) => ({ id: "c", choices: [{ index: 0, delta: { content }, finish_reason: null }] }),
    (content) => ({ id: "c", choices: [{ index: 0, delta: { role: "assistant", content, reasoning: null } }] }),
    (content) => ({ choices: [{ delta: { content, tool_calls: null } }], usage: { content: "content" } }),
    (content) => ({ choices: [{ delta: { content }, logprobs: { content } }], content: "\u0000" }),
    (content) => ({ choices: [{ delta: { content: [{ type: "text", text: content }] } }] })
  ]
  const Shape = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: shapes.length - 1 }))
  const Space = Schema.Literals([0, 1])

  // verifies: openai-speed.chunks
  it.effect.prop(
    "give their text, whatever it is and whatever is around it",
    { all: Schema.Array(Schema.Tuple([Piece, Shape, Space])) },
    ({ all }) =>
      Effect.gen(function*() {
        // Several of a kind in a row, as streams are.
        const texts = all.flatMap(([piece, shape, space]) =>
          [piece, "a", `${piece}b`, piece].map((content) => ({ content, shape, space }))
        )
        const chunks = texts.map(({ content, shape, space }) =>
          `data: ${JSON.stringify(shapes[shape]!(content), null, space).replaceAll("\n", "\ndata: ")}\n\n`
        )
        const got = yield* ask([...chunks, finished])
        assert.strictEqual(got.text, texts.map(({ content }) => content).join(""))
        assert.isUndefined(texts.some(({ content }) => content !== "") ? got.error : undefined)
      }),
    { arbitrary: { runs: 300 } }
  )

  it.effect.prop(
    "give the arguments of calls that take turns",
    { pieces: Schema.Array(Schema.Tuple([Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1 })), Piece])) },
    ({ pieces }) =>
      Effect.gen(function*() {
        const chunk = (index: number, call: object) =>
          event({ choices: [{ index: 0, delta: { tool_calls: [{ index, ...call }] } }] })
        const expected = ["", ""]
        const chunks = pieces.flatMap(([index, piece]) =>
          [`${piece}.`, "_"].map((part) => {
            expected[index] += part
            return chunk(index, { function: { arguments: part } })
          })
        )
        const got = yield* ask([
          chunk(0, { id: "a", function: { name: "get", arguments: "<" } }),
          chunk(1, { id: "b", function: { name: "put", arguments: "<" } }),
          ...chunks,
          finished
        ])
        assert.deepStrictEqual(
          got.calls.map(({ id, params }) => [id, params]),
          [["a", `<${expected[0]}`], ["b", `<${expected[1]}`]]
        )
      }),
    { arbitrary: { runs: 200 } }
  )

  it.effect("are no JSON for having the ends of JSON", () =>
    Effect.gen(function*() {
      const [before, after] = ["{\"choices\":[{\"delta\":{\"content\":", "}}]}"]
      const hi = event(`${before}"hi"${after}`)
      for (const between of ["\"a\" \"b\"", "\"a", "a", "\"\n\"", "\"\\q\"", ""]) {
        const got = yield* ask([hi, hi, `data: ${before}${between.replace("\n", "\ndata: ")}${after}\n\n`])
        assert.include(got.error?.message, "bad-json")
        assert.strictEqual(got.text, "hihi")
      }
    }))

  it.effect("may hold other than text where text was", () =>
    Effect.gen(function*() {
      const chunk = (content: unknown) => event({ choices: [{ delta: { content } }] })
      const got = yield* ask([
        chunk("a"),
        chunk("b"),
        chunk(null),
        chunk("c"),
        chunk([{ type: "text", text: "d" }]),
        chunk(1),
        chunk("e"),
        chunk("f"),
        finished
      ])
      assert.strictEqual(got.text, "abcdef")
    }))
})

describe("events", () => {
  it.effect.prop(
    "end in any line break, wherever the text is cut",
    {
      lineBreak: Schema.Literals(["\n", "\r\n", "\r"]),
      size: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 9 }))
    },
    ({ lineBreak, size }) =>
      Effect.gen(function*() {
        const lines = [
          ": comment",
          "id: 1",
          "event: message",
          "data: {\"choices\": [{\"delta\":",
          "data:{\"content\":\"hi\"}}]}",
          "",
          "data",
          "",
          "data: {\"choices\":[{\"delta\":{\"content\":\"!\"},\"finish_reason\":\"stop\"}]}",
          "",
          "data: [DONE]",
          ""
        ]
        const text = lines.map((line) => line + lineBreak).join("")
        const pieces = Array.from(
          { length: Math.ceil(text.length / size) },
          (_, position) => text.slice(position * size, (position + 1) * size)
        )
        const got = yield* ask(pieces)
        assert.isUndefined(got.error)
        assert.strictEqual(got.text, "hi!")
      }),
    { arbitrary: { runs: 200 } }
  )
})
