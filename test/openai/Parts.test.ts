/**
 * What a caller gets is the same whether effect/ai decodes the parts or this layer makes them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Stream, Tracer } from "effect"
import { type Prompt, ResponseIdTracker, Telemetry } from "effect/ai"
import { bytes, end, recordings, toDocument, toolkit } from "./recordings.ts"
import { events, generate, hello, json, pieces, serve, stream, tools } from "./support.ts"

/** Makes effect/ai decode: it shows what it has decoded to a transformer of spans. */
const decoded = Effect.provideService(Telemetry.CurrentSpanTransformer, () => {})

/** All of a stream, and how it failed if it did. */
const all = <A, E>(parts: Stream.Stream<A, E>) =>
  Effect.gen(function*() {
    const seen: Array<A> = []
    const failure = yield* parts.pipe(
      Stream.runForEach((part) => Effect.sync(() => seen.push(part))),
      Effect.match({ onFailure: String, onSuccess: () => undefined })
    )
    return { seen, failure }
  })

/** Ids that were made differ from one request to the next. */
const MADE_ID = /id_[A-Za-z0-9]{16}_\d+/g
const withoutMadeIds = (value: unknown): unknown => {
  const text = JSON.stringify(value)
  return MADE_ID.test(text) ? JSON.parse(text.replace(MADE_ID, "made")) : value
}

describe("parts", () => {
  // verifies: openai-speed.parts
  it.effect.each(recordings)("of the stream $file are what effect/ai decodes", (recording) =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(pieces(recording.contentType, bytes(recording), end(recording)))
      const parts = all(stream({ model: "m", baseUrl }, { toolkit: toolkit(recording) }))
      assert.deepStrictEqual(withoutMadeIds(yield* parts), withoutMadeIds(yield* decoded(parts)))
    }))

  it.effect.each(recordings.filter(({ expect }) => expect.outcome !== "error"))(
    "of the document $file are what effect/ai decodes",
    (recording) =>
      Effect.gen(function*() {
        const { baseUrl } = yield* serve(json(toDocument(recording)))
        const response = generate({ model: "m", baseUrl }, { toolkit: toolkit(recording) })
        assert.deepStrictEqual(withoutMadeIds(yield* response), withoutMadeIds(yield* decoded(response)))
      })
  )
})

describe("spans", () => {
  it.effect("say the same", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve((response, received) =>
        received.body["stream"] === true
          ? events(hello)(response, received)
          : json({ choices: [{ message: { content: "hi" } }] })(response, received)
      )
      const spans = (context: Context.Context<never>) =>
        Effect.gen(function*() {
          const seen: Array<Tracer.NativeSpan> = []
          const tracer = Tracer.make({
            span(options) {
              const span = new Tracer.NativeSpan(options)
              seen.push(span)
              return span
            }
          })
          const question = { toolkit: tools, toolChoice: { oneOf: ["get"] } } as const
          yield* generate({ model: "m", baseUrl }, question).pipe(
            Effect.andThen(Stream.runDrain(stream({ model: "m", baseUrl }, question))),
            Effect.provideContext(context),
            Effect.withTracer(tracer)
          )
          return seen.map(({ attributes, kind, name, parent, status }) => ({
            name,
            kind,
            parent: parent._tag,
            status: status._tag,
            attributes: Object.fromEntries(attributes)
          }))
        })
      const tracker = Context.make(ResponseIdTracker.ResponseIdTracker, yield* ResponseIdTracker.make)
      const made = yield* spans(Context.empty())
      assert.lengthOf(made, 2)
      assert.strictEqual(made[0]?.attributes["effect.ai.tool_choice"], "{\"oneOf\":[\"get\"]}")
      assert.deepStrictEqual(made, yield* spans(tracker))
    }))
})

describe("what needs more of effect/ai", () => {
  it.effect("gets it: approvals in the prompt", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events(hello))
      const prompt: ReadonlyArray<Prompt.MessageEncoded> = [
        { role: "user", content: "hello" },
        {
          role: "assistant",
          content: [
            { type: "tool-call", id: "a", name: "get", params: { x: 1 } },
            { type: "tool-approval-request", approvalId: "1", toolCallId: "a" }
          ]
        },
        { role: "tool", content: [{ type: "tool-approval-response", approvalId: "1", approved: true }] }
      ]
      for (
        const ask of [generate({ model: "m", baseUrl }, { prompt }), all(stream({ model: "m", baseUrl }, { prompt }))]
      ) {
        const outcome = yield* Effect.match(ask, { onFailure: String, onSuccess: JSON.stringify })
        assert.include(outcome, "Toolkit required")
      }
    }))

  it.effect("gets it: a tracker of responses", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(events(hello))
      const tracker = yield* ResponseIdTracker.make
      const marked: Array<string> = []
      const watching = { ...tracker, markParts: (_: object, id: string) => void marked.push(id) }
      yield* Effect.provideService(
        Stream.runDrain(stream({ model: "m", baseUrl })),
        ResponseIdTracker.ResponseIdTracker,
        watching
      )
      assert.deepStrictEqual(marked, ["c1"])
    }))
})
