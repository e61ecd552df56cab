import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { bytes, end, recordings, toDocument, toolkit, verify } from "./recordings.ts"
import { generate, json, outcome, pieces, type Respond, serve, stream, summary } from "./support.ts"

const ask = (respond: Respond, recording: typeof recordings[number]) =>
  Effect.gen(function*() {
    const { baseUrl } = yield* serve(respond)
    return yield* outcome(stream({ model: "m", baseUrl }, { toolkit: toolkit(recording) }))
  })

const plain = recordings.filter(({ expect }) => expect.outcome !== "error")

/** The same bytes, cut at the given fractions of their length. */
const cutAt = (whole: Buffer, fractions: ReadonlyArray<number>): ReadonlyArray<Buffer> => {
  const borders = [0, ...fractions.map((fraction) => Math.floor(fraction * whole.length)), whole.length]
    .sort((a, b) => a - b)
  return borders.slice(1).map((border, position) => whole.subarray(borders[position], border)).filter((piece) =>
    piece.length > 0
  )
}

describe("recordings", () => {
  it("are all there", () => {
    assert.strictEqual(recordings.length, 54)
  })

  describe("streamed", () => {
    it.effect.each(recordings)("reads $file as recorded", (recording) =>
      Effect.gen(function*() {
        verify(recording, yield* ask(pieces(recording.contentType, bytes(recording), end(recording)), recording))
      }))

    it.effect.each(recordings)("reads $file byte by byte", (recording) =>
      Effect.gen(function*() {
        const whole = Buffer.concat(bytes(recording))
        const single = Array.from(whole, (byte) => Buffer.of(byte))
        verify(recording, yield* ask(pieces(recording.contentType, single, end(recording)), recording))
      }))

    it.effect.each(recordings)("reads $file in one piece", (recording) =>
      Effect.gen(function*() {
        const whole = Buffer.concat(bytes(recording))
        verify(recording, yield* ask(pieces(recording.contentType, [whole], end(recording)), recording))
      }))

    // verifies: openai.recordings
    it.effect.prop(
      "reads any recording with its borders moved anywhere",
      {
        position: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: recordings.length - 1 })),
        fractions: Schema.Array(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))).check(
          Schema.isMaxLength(12)
        )
      },
      ({ fractions, position }) =>
        Effect.gen(function*() {
          const recording = recordings[position]!
          const moved = cutAt(Buffer.concat(bytes(recording)), fractions)
          verify(recording, yield* ask(pieces(recording.contentType, moved, end(recording)), recording))
        }).pipe(Effect.scoped),
      { arbitrary: { runs: 200 }, timeout: 60_000 }
    )
  })

  // verifies: openai.plain
  describe("not streamed", () => {
    it.effect.each(plain)("reads the document of $file, asked for at once", (recording) =>
      Effect.gen(function*() {
        const { baseUrl, received } = yield* serve(json(toDocument(recording)))
        const response = yield* generate({ model: "m", baseUrl }, { toolkit: toolkit(recording) })
        verify(recording, summary(response.content))
        assert.notProperty((yield* received).body, "stream")
      }))

    it.effect.each(plain)("reads the document of $file, asked for as a stream", (recording) =>
      Effect.gen(function*() {
        verify(recording, yield* ask(json(toDocument(recording)), recording))
      }))
  })
})
