/*
 * The bytes of a response, with every wait and every size bounded.
 *
 * Interrupting the reader, leaving the stream or passing a limit closes the connection: the scope cancels the body.
 */
import type * as AiError from "effect/ai/AiError"
import * as ByteSize from "effect/ByteSize"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Failures } from "./failures.ts"

export interface Limits {
  readonly firstByteTimeout: Duration.Duration
  readonly idleTimeout: Duration.Duration
  readonly finishGrace: Duration.Duration
  readonly maxEventBytes: ByteSize.ByteSize
  readonly maxResponseBytes: ByteSize.ByteSize
}

/** How much of a body that is not an answer is read, and for how long, to quote it. */
const MAX_EXCERPT_BYTES = 64 * 1024
const EXCERPT_TIMEOUT = Duration.seconds(5)

/** Reads a body; `startedAt` is when the request was sent, in milliseconds, for the time to the first byte. */
export const bytes = (
  response: Response,
  limits: Limits,
  startedAt: number,
  failures: Failures
): Stream.Stream<Uint8Array, AiError.AiError> => {
  const { body } = response
  if (body === null) return Stream.empty
  const source = Stream.fromReadableStream<Uint8Array, AiError.AiError>({
    evaluate: () => body,
    onError: failures.cut
  })
  return Stream.transformPull(source, (pull) =>
    Effect.sync(() => {
      const limit = ByteSize.toNumberUnsafe(limits.maxResponseBytes)
      let received = 0

      const first = Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.timeoutOrElse(pull, {
          duration: Duration.subtract(limits.firstByteTimeout, Duration.millis(now - startedAt)),
          orElse: () => Effect.fail(failures.noFirstByte(limits.firstByteTimeout))
        }))
      const next = Effect.timeoutOrElse(pull, {
        duration: limits.idleTimeout,
        orElse: () => Effect.fail(failures.silent(limits.idleTimeout))
      })

      return Effect.suspend(() => received === 0 ? first : next).pipe(
        Effect.tap((chunks) => {
          for (const chunk of chunks) received += chunk.byteLength
          return received > limit
            ? Effect.fail(failures.tooLarge("response", ByteSize.format(limits.maxResponseBytes)))
            : Effect.void
        })
      )
    }))
}

/** The whole body as text. */
export const text = (source: Stream.Stream<Uint8Array, AiError.AiError>): Effect.Effect<string, AiError.AiError> =>
  Stream.mkString(Stream.decodeText(source))

/** The beginning of a body as text; what arrived before a failure, if it fails. */
export const beginning = (source: Stream.Stream<Uint8Array, AiError.AiError>): Effect.Effect<string> =>
  Effect.suspend(() => {
    let received = 0
    return source.pipe(
      Stream.takeUntil((chunk) => (received += chunk.byteLength) >= MAX_EXCERPT_BYTES),
      Stream.interruptWhen(Effect.sleep(EXCERPT_TIMEOUT)),
      Stream.catch(() => Stream.empty),
      Stream.decodeText(),
      Stream.mkString
    )
  })
