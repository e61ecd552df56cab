/*
 * A request and the bytes of its answer, with every wait and every size bounded.
 *
 * Interrupting the reader, leaving the stream or passing a limit closes the connection: the scope cancels the exchange.
 */
import type * as AiError from "effect/ai/AiError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Head, HttpTransport, Request } from "../HttpTransport.ts"
import type { Failures } from "./failures.ts"
import * as Watch from "./watch.ts"

/** Times are in milliseconds. */
export interface Limits {
  readonly firstByteTimeout: number
  readonly idleTimeout: number
  readonly finishGrace: number
  readonly maxEventBytes: number
  readonly maxResponseBytes: number
}

export interface Answer {
  readonly head: Head
  /** What has arrived since the last time, at least one chunk; nothing at the end. */
  readonly read: Effect.Effect<ReadonlyArray<Uint8Array>, AiError.AiError>
  /** The same, for what may or may not follow a finish reason: nothing as well when `finishGrace` has passed. */
  readonly readRest: Effect.Effect<ReadonlyArray<Uint8Array>, AiError.AiError>
}

/** How much of a body that is not an answer is read, and for how long, to quote it. */
const MAX_EXCERPT_BYTES = 64 * 1024
const EXCERPT_TIMEOUT = Duration.seconds(5)

const NOTHING: ReadonlyArray<Uint8Array> = []

/** Sends a request and waits for its answer to begin. */
export const open: (
  transport: HttpTransport,
  request: Request,
  limits: Limits,
  failures: Failures
) => Effect.Effect<Answer, AiError.AiError, Scope.Scope> = Effect.fnUntraced(
  function*(transport, request, limits, failures) {
    const { finishGrace, firstByteTimeout, idleTimeout, maxResponseBytes } = limits
    const watch = yield* Watch.make(Math.min(firstByteTimeout, idleTimeout, finishGrace))
    const exchange = yield* Effect.acquireRelease(
      Effect.try({
        try: () => {
          const exchange = transport(request)
          // Nobody waits for the head of a request that is interrupted first.
          exchange.head.catch(() => {})
          return exchange
        },
        catch: failures.unreachable
      }),
      (exchange) => Effect.sync(exchange.cancel)
    )

    const firstByteUntil = watch.now() + firstByteTimeout
    const onNoFirstByte = () => Effect.fail(failures.noFirstByte(firstByteTimeout))
    const head = yield* watch.wait(exchange.head, {
      until: firstByteUntil,
      onValue: Effect.succeed<Head>,
      onRejected: (cause) => Effect.fail(failures.unreachable(cause)),
      onLate: onNoFirstByte
    })

    let received = 0
    const onValue = (chunks: ReadonlyArray<Uint8Array>): Effect.Effect<typeof chunks, AiError.AiError> => {
      for (const chunk of chunks) received += chunk.byteLength
      return received > maxResponseBytes
        ? Effect.fail(failures.tooLarge("response", maxResponseBytes))
        : Effect.succeed(chunks)
    }
    const onRejected = (cause: unknown) => Effect.fail(failures.cut(cause))

    const onSilence = () => Effect.fail(failures.silent(idleTimeout))
    const read = Effect.suspend(() =>
      received === 0
        ? watch.wait(exchange.read(), { until: firstByteUntil, onValue, onRejected, onLate: onNoFirstByte })
        : watch.wait(exchange.read(), { until: watch.now() + idleTimeout, onValue, onRejected, onLate: onSilence })
    )

    const onGraceOver = () => Effect.succeed(NOTHING)
    let graceUntil: number | undefined
    const readRest = Effect.suspend(() => {
      graceUntil ??= watch.now() + finishGrace
      return watch.wait(exchange.read(), { until: graceUntil, onValue, onRejected, onLate: onGraceOver })
    })
    return { head, read, readRest }
  }
)

/** The whole body as text. */
export const text = ({ read }: Answer): Effect.Effect<string, AiError.AiError> =>
  Effect.suspend(() => {
    const decoder = makeDecoder()
    let all = ""
    const rest: Effect.Effect<string, AiError.AiError> = Effect.flatMap(read, (chunks) => {
      if (chunks.length === 0) return Effect.succeed(all + decoder.end())
      all += decoder.add(chunks)
      return rest
    })
    return rest
  })

/** The beginning of a body as text; what arrived before a failure, if it fails. */
export const beginning = ({ read }: Answer): Effect.Effect<string> =>
  Effect.suspend(() => {
    const decoder = makeDecoder()
    let received = 0
    let all = ""
    const more: Effect.Effect<void, AiError.AiError> = Effect.flatMap(read, (chunks) => {
      for (const chunk of chunks) received += chunk.byteLength
      all += decoder.add(chunks)
      return chunks.length === 0 || received >= MAX_EXCERPT_BYTES ? Effect.void : more
    })
    return more.pipe(
      Effect.timeoutOption(EXCERPT_TIMEOUT),
      Effect.ignore,
      Effect.map(() => all + decoder.end())
    )
  })

export interface Decoder {
  /** The next chunks as text; a character that is cut waits for its rest. */
  readonly add: (chunks: ReadonlyArray<Uint8Array>) => string
  /** What was waiting. */
  readonly end: () => string
}

export const makeDecoder = (): Decoder => {
  const decoder = new TextDecoder()
  const options = { stream: true }
  return {
    add(chunks) {
      let text = ""
      for (const chunk of chunks) text += decoder.decode(chunk, options)
      return text
    },
    end: () => decoder.decode()
  }
}
