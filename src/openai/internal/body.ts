/*
 * A request and the bytes of its answer, with every wait and every size bounded.
 *
 * Whoever opens an exchange closes it: that gives up what has not arrived, and the connection with it.
 */
import type * as AiError from "effect/ai/AiError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as HttpTransport from "../HttpTransport.ts"
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

type Chunks = ReadonlyArray<Uint8Array>
type Next<A, E> = Watch.Next<A, E | AiError.AiError>

/** The waits of an exchange, to be made one after the other by `wait`; each is told what follows. */
export interface Exchange {
  readonly wait: Watch.Watch["wait"]
  /** For the answer to begin. */
  readonly head: <A, E>(then: (head: HttpTransport.Head) => Next<A, E>) => Next<A, E>
  /** For what arrives next, at least one chunk; nothing at the end. */
  readonly read: <A, E>(then: (chunks: Chunks) => Next<A, E>) => Next<A, E>
  /** The same, for what may or may not follow a finish reason: when it fails or `finishGrace` has passed, nothing. */
  readonly readRest: <A, E>(then: (chunks: Chunks) => Next<A, E>) => Next<A, E>
  /** For the whole body. */
  readonly text: <A, E>(then: (text: string) => Next<A, E>) => Next<A, E>
  /** For the beginning of a body that is no answer; when that fails, what had arrived. */
  readonly beginning: <A, E>(then: (text: string) => Next<A, E>) => Next<A, E>
  readonly close: Effect.Effect<void>
}

/** How much of a body that is not an answer is read, and for how many milliseconds, to quote it. */
const MAX_EXCERPT_BYTES = 64 * 1024
const EXCERPT_TIMEOUT = 5_000

const NOTHING: Chunks = []

/** Sends a request at once. */
export const open = (
  transport: HttpTransport.HttpTransport,
  request: HttpTransport.Request,
  limits: Limits,
  failures: Failures
): Effect.Effect<Exchange, AiError.AiError> =>
  Clock.clockWith((clock) =>
    Effect.try({
      try: () => make(transport(request), clock, limits, failures),
      catch: failures.unreachable
    })
  )

const make = (
  exchange: HttpTransport.Exchange,
  clock: Clock.Clock,
  { finishGrace, firstByteTimeout, idleTimeout, maxResponseBytes }: Limits,
  failures: Failures
): Exchange => {
  // Nobody waits for the head of a request that is interrupted first.
  exchange.head.catch(() => {})
  const watch = Watch.make(clock, Math.min(firstByteTimeout, idleTimeout, finishGrace, EXCERPT_TIMEOUT))
  const firstByteUntil = watch.now() + firstByteTimeout
  const onNoFirstByte = () => Effect.fail(failures.noFirstByte(firstByteTimeout))
  let received = 0
  let graceUntil: number | undefined

  const count = (chunks: Chunks): void => {
    for (const chunk of chunks) received += chunk.byteLength
  }
  const readUntil = (): number => received === 0 ? firstByteUntil : watch.now() + idleTimeout

  const read: Exchange["read"] = (then) =>
    Watch.waitFor(exchange.read(), {
      until: readUntil(),
      onValue: (chunks) => {
        count(chunks)
        return received > maxResponseBytes
          ? Effect.fail(failures.tooLarge("response", maxResponseBytes))
          : then(chunks)
      },
      onRejected: (cause) => Effect.fail(failures.cut(cause)),
      onLate: received === 0 ? onNoFirstByte : () => Effect.fail(failures.silent(idleTimeout))
    })

  return {
    wait: watch.wait,
    head: (then) =>
      Watch.waitFor(exchange.head, {
        until: firstByteUntil,
        onValue: then,
        onRejected: (cause) => Effect.fail(failures.unreachable(cause)),
        onLate: onNoFirstByte
      }),
    read,
    readRest(then) {
      graceUntil ??= watch.now() + finishGrace
      const onNothing = () => then(NOTHING)
      return Watch.waitFor(exchange.read(), {
        until: graceUntil,
        onValue: (chunks) => {
          count(chunks)
          return then(received > maxResponseBytes ? NOTHING : chunks)
        },
        onRejected: onNothing,
        onLate: onNothing
      })
    },
    text(then) {
      const all: Array<Uint8Array> = []
      const more = (): ReturnType<typeof then> =>
        read((chunks) => {
          if (chunks.length === 0) return then(decode(all))
          for (const chunk of chunks) all.push(chunk)
          return more()
        })
      return more()
    },
    beginning(then) {
      const all: Array<Uint8Array> = []
      const excerptUntil = watch.now() + EXCERPT_TIMEOUT
      const onNothing = () => then(decode(all))
      const more = (): ReturnType<typeof then> =>
        Watch.waitFor(exchange.read(), {
          until: Math.min(excerptUntil, readUntil()),
          onValue: (chunks) => {
            count(chunks)
            for (const chunk of chunks) all.push(chunk)
            return chunks.length === 0 || received >= MAX_EXCERPT_BYTES ? onNothing() : more()
          },
          onRejected: onNothing,
          onLate: onNothing
        })
      return more()
    },
    close: Effect.sync(() => {
      exchange.cancel()
      watch.end()
    })
  }
}

const whole = new TextDecoder()

/** All bytes of a text, which are mostly in one chunk: decoding is twice as fast where nothing can follow. */
const decode = (chunks: Chunks): string => {
  const [first] = chunks
  if (first !== undefined && chunks.length === 1) return whole.decode(first)
  const decoder = makeDecoder()
  return decoder.add(chunks) + decoder.end()
}

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
