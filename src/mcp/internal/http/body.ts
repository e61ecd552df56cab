/**
 * Reading the body of an answer: as it comes, as a whole, or only its beginning.
 */
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Option from "effect/Option"
import * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import { LimitExceeded, type McpErrorReason } from "../../McpError.ts"
import { concat } from "../bytes.ts"

/** What a server answers, whatever the status. */
export interface Answer {
  readonly status: number
  /** A header, by its name in lower case. The headers of the response itself are put together anew at each access. */
  readonly header: (name: string) => string | undefined
  readonly response: HttpClientResponse.HttpClientResponse
  /** What reads the body, if it is one of fetch. */
  readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  /** Whether the body was read to its end: the exchange is over, and nothing is left to be aborted. */
  isRead: boolean
}

/** An answer that is about to be read. One of fetch is read without Stream, which would cost a third of a small exchange. */
export const answerOf = (response: HttpClientResponse.HttpClientResponse): Answer => {
  const web = Option.getOrUndefined(HttpClientResponse.toWeb(response))
  let headers: Headers.Headers | undefined
  return {
    status: response.status,
    header: web === undefined
      ? (name) => (headers ??= response.headers)[name]
      : (name) => web.headers.get(name) ?? undefined,
    response,
    reader: web?.body?.getReader(),
    isRead: false
  }
}

/** Ways to read a body. */
export interface Bodies {
  /** The text of a body, piece by piece as it comes. */
  readonly pieces: <A>(
    answer: Answer,
    use: (next: Next<string>) => Effect.Effect<A, McpErrorReason>
  ) => Effect.Effect<A, McpErrorReason>
  /** The whole text of a body; fails when it is larger than a message may be. */
  readonly text: (answer: Answer) => Effect.Effect<string, McpErrorReason>
  /** The beginning of a body, as far as it comes within a short time. Nothing is left to read for a short body. */
  readonly beginning: (answer: Answer) => Effect.Effect<string>
}

/** Answers the next parts, or `undefined` when the body ended. */
type Next<A> = Effect.Effect<ReadonlyArray<A> | undefined, McpErrorReason>

/** Of a body that is only quoted, or searched for an error, no more is read, and no longer. */
const BEGINNING_CHARACTERS = 64 * 1024
const BEGINNING_TIMEOUT = "2 seconds"

export const makeBodies = (
  maxMessageBytes: number,
  /** The reason for a body that cannot be read on. */
  broken: (cause: unknown) => McpErrorReason
): Bodies => {
  const ended = (answer: Answer): undefined => {
    answer.isRead = true
  }

  const chunks = <A>(
    answer: Answer,
    use: (next: Next<Uint8Array>) => Effect.Effect<A, McpErrorReason>
  ): Effect.Effect<A, McpErrorReason> => {
    const { reader } = answer
    return reader !== undefined
      ? use(Effect.map(
        Effect.tryPromise({ try: () => reader.read(), catch: broken }),
        ({ done, value }) => done ? ended(answer) : [value]
      ))
      : Effect.scoped(Effect.flatMap(Stream.toPull(answer.response.stream), (pull) =>
        use(pull.pipe(
          Pull.catchDone(() => Effect.sync(() => ended(answer))),
          Effect.mapError(broken)
        ))))
  }

  const pieces: Bodies["pieces"] = (answer, use) =>
    chunks(answer, (next) => {
      const decoder = new TextDecoder()
      return use(Effect.map(next, (parts) => parts?.map((part) => decoder.decode(part, { stream: true }))))
    })

  const tooLarge = new LimitExceeded({ limit: "maxMessageBytes", max: maxMessageBytes })
  const decoder = new TextDecoder()

  const text: Bodies["text"] = (answer) =>
    Effect.suspend(() => {
      const length = Number(answer.header("content-length"))
      if (length > maxMessageBytes) return Effect.fail(tooLarge)
      const { reader } = answer
      // HTTP holds a body to the length it announces, so there is nothing to count on the way. A quarter of a small exchange.
      if (reader === undefined && length > 0 && answer.header("content-encoding") === undefined) {
        return Effect.flatMap(Effect.mapError(answer.response.arrayBuffer, broken), (body) => {
          answer.isRead = true
          // A client that unpacks without saying so has more than was announced.
          return body.byteLength > maxMessageBytes ? Effect.fail(tooLarge) : Effect.succeed(decoder.decode(body))
        })
      }
      const parts: Array<Uint8Array> = []
      let bytes = 0
      const add = (part: Uint8Array): boolean => {
        bytes += part.length
        parts.push(part)
        return bytes <= maxMessageBytes
      }
      const all = reader !== undefined
        ? Effect.tryPromise({ try: () => readAll(reader, add), catch: broken })
        : Effect.mapError(streamAll(answer.response, add), broken)
      return Effect.flatMap(all, () => {
        if (bytes > maxMessageBytes) return Effect.fail(tooLarge)
        answer.isRead = true
        return Effect.succeed(decoder.decode(concat(parts, bytes)))
      })
    })

  const beginning: Bodies["beginning"] = (answer) =>
    Effect.suspend(() => {
      let text = ""
      const reading = pieces(
        answer,
        Effect.fnUntraced(function*(next) {
          for (let parts = yield* next; parts !== undefined; parts = yield* next) {
            text += parts.join("")
            if (text.length >= BEGINNING_CHARACTERS) return
          }
        })
      )
      return Effect.map(Effect.ignore(Effect.timeoutOption(reading, BEGINNING_TIMEOUT)), () => text)
    })

  return { pieces, text, beginning }
}

/** One Promise for all parts: a body mostly comes in one, and so the fiber is put to rest once instead of twice. */
const readAll = (
  reader: ReadableStreamDefaultReader<Uint8Array>,
  add: (part: Uint8Array) => boolean
): Promise<void> => reader.read().then((part) => part.done || !add(part.value) ? undefined : readAll(reader, add))

const streamAll = (response: HttpClientResponse.HttpClientResponse, add: (part: Uint8Array) => boolean) =>
  Stream.runForEachWhile(response.stream, (part) => Effect.sync(() => add(part)))
