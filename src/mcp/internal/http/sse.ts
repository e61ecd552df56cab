/**
 * Reading an event stream: JSON-RPC messages, the position in it, and where its exchange is over.
 *
 * https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import { LimitExceeded, type McpErrorReason } from "../../McpError.ts"
import type { TransportHandlers } from "../transport.ts"
import type { Answer } from "./body.ts"
import { mediaType } from "./headers.ts"
import type { Wire } from "./wire.ts"

/** Where a stream stands, kept over its connections. */
export interface Position {
  lastEventId: string | undefined
  /** The pause the server asked for before the next connection. */
  retryMillis: number | undefined
}

export const makePosition = (): Position => ({ lastEventId: undefined, retryMillis: undefined })

/** How long the rest of a stream may take after the answer, so that its connection can be used again. */
const REST_TIMEOUT = "1 second"

/**
 * Reads events until `onEvent` answers `true`, and then the rest of a stream that is about to end. Answers whether that
 * happened before the end.
 */
export const readEvents = (
  wire: Wire,
  answer: Answer,
  position: Position,
  onEvent: (event: Sse.Event) => boolean
): Effect.Effect<boolean, McpErrorReason> =>
  wire.pieces(
    answer,
    Effect.fnUntraced(function*(next) {
      let over = false
      let tooLarge = false
      const parser = Sse.makeParser((event) => {
        const id = event._tag === "Retry" ? event.lastEventId : event.id
        if (id !== undefined) position.lastEventId = id === "" ? undefined : id
        if (event._tag === "Retry") position.retryMillis = Duration.toMillis(event.duration)
        // The parser looks at what is unfinished between chunks; this one came in a single chunk.
        else if (event.data.length > wire.maxMessageBytes) tooLarge = true
        else if (onEvent(event)) over = true
      }, { maxEventSize: wire.maxMessageBytes })

      while (true) {
        const texts = yield* next
        // A last event without its blank line counts: what it says is complete, or it is no JSON.
        for (const text of texts ?? ["\n\n"]) {
          if (parser.feed(text) !== undefined) tooLarge = true
          if (tooLarge && !over) {
            return yield* new LimitExceeded({ limit: "maxMessageBytes", max: wire.maxMessageBytes })
          }
        }
        if (texts === undefined) return over
        if (over) break
      }
      const rest = Effect.gen(function*() {
        for (let texts = yield* next; texts !== undefined; texts = yield* next) texts.forEach(parser.feed)
      })
      yield* rest.pipe(Effect.timeoutOption(REST_TIMEOUT), Effect.ignore)
      return true
    })
  )

/** Whether an answer is an event stream. */
export const isEventStream = (answer: Answer): boolean =>
  answer.status >= 200 && answer.status < 300 && mediaType(answer.header("content-type")) === "text/event-stream"

/** A JSON value in a text. */
export const parseJson = (text: string): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** What a value means for the exchange it came in, and how the connection should see it. */
export type Judge = (value: unknown) => { readonly ends: boolean; readonly message: unknown }

/** For a stream that belongs to no request. */
export const endsNothing: Judge = (value) => ({ ends: false, message: value })

/**
 * Hands the message of an event to the connection; answers whether it ends the exchange. Events of other names are not
 * messages, and an empty one only tells its id.
 */
export const deliver = (event: Sse.Event, handlers: TransportHandlers, judge: Judge): boolean => {
  if (event.event !== "message" || event.data === "") return false
  const parsed = parseJson(event.data)
  if (parsed === undefined) {
    handlers.diagnostic({ kind: "noise", message: `an event that is no JSON, ${event.data.length} characters long` })
    return false
  }
  const { ends, message } = judge(parsed.value)
  handlers.receive(message)
  return ends
}
