/**
 * What a streamed delta costs, from the bytes of the response to the part a program sees.
 *
 * Run with `npx node --expose-gc test/bench/own/openaiStream.ts`; without `--expose-gc` the heap figure is less exact. No
 * network is involved: `fetch` answers from memory, 1 or 16 events per read.
 */
import { Effect, Stream } from "effect"
import * as OpenAiModel from "../../../src/openai/OpenAiModel.ts"

const DELTAS = 200_000
const ROUNDS = 5

const encode = (text: string): Uint8Array => new TextEncoder().encode(text)

const chunk = (delta: unknown, finish: string | null): string =>
  `data: ${
    JSON.stringify({
      id: "chatcmpl-0123456789",
      object: "chat.completion.chunk",
      created: 1,
      model: "m",
      choices: [{ index: 0, delta, finish_reason: finish }]
    })
  }\n\n`

const word = chunk({ content: " word" }, null)
const end = encode(`${chunk({}, "stop")}data: [DONE]\n\n`)

/** A response of `DELTAS` events, `perRead` of them in each read. */
const respond = (perRead: number): Response => {
  const piece = encode(word.repeat(perRead))
  let left = DELTAS / perRead
  return new Response(
    new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left-- > 0) return controller.enqueue(piece)
        controller.enqueue(end)
        controller.close()
      }
    }),
    { headers: { "content-type": "text/event-stream" } }
  )
}

const heap = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

const measure = Effect.fnUntraced(function*(perRead: number) {
  const model = yield* OpenAiModel.make({
    model: "m",
    baseUrl: "http://bench.test/v1",
    maxResponseBytes: "1 GiB",
    fetch: () => Promise.resolve(respond(perRead))
  })
  let best = Infinity
  let growth = 0
  for (let round = 0; round < ROUNDS; round++) {
    const before = heap()
    const startedAt = performance.now()
    let parts = 0
    let peak = before
    yield* model.streamText({ prompt: "hello" }).pipe(
      Stream.runForEachArray((array) =>
        Effect.sync(() => {
          parts += array.length
          // Measured once, late: what a stream holds on to must not depend on its length.
          if (parts > DELTAS * 0.9 && peak === before) peak = heap()
        })
      )
    )
    best = Math.min(best, performance.now() - startedAt)
    growth = Math.max(growth, peak - before)
  }
  return `${perRead} per read: ${(best * 1000 / DELTAS).toFixed(2)} µs per delta (best of ${ROUNDS}), heap +${
    (growth / 2 ** 20).toFixed(1)
  } MiB near the end of ${DELTAS} deltas`
})

Effect.runPromise(Effect.forEach([1, 16], measure)).then((lines) => console.log(lines.join("\n")))
