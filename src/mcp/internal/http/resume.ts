/**
 * Taking up a broken response stream where it ended, as the revisions 2025-03-26 to 2025-11-25 allow.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
 */
import * as Effect from "effect/Effect"
import { type McpErrorReason, NoAnswer } from "../../McpError.ts"
import { type Session, sessionHeaders } from "./session.ts"
import { deliver, isEventStream, type Judge, type Position, readEvents } from "./sse.ts"
import type { Wire } from "./wire.ts"

/** A stream that ended before the answer. */
export interface Interrupted {
  readonly _tag: "Interrupted"
  readonly detail: string
  readonly position: Position
}

/** The pause before a connection when the server names none, and where growing pauses stop. */
const PAUSE_MILLIS = 1000
const MAX_PAUSE_MILLIS = 30_000

/** Connections in a row that may fail. A server that answers, and ends the stream again, is polled as long as it likes. */
const MAX_FAILURES = 3

type Attempt =
  | { readonly _tag: "Answered" }
  | { readonly _tag: "Ended" }
  | { readonly _tag: "Failed"; readonly detail: string; readonly afterMillis: number }
  | { readonly _tag: "Refused"; readonly detail: string }

const attemptOf = (reason: McpErrorReason): Attempt => {
  if (reason._tag === "HttpStatus") {
    const detail = `HTTP status ${reason.status}`
    return reason.status === 429 || reason.status >= 500
      ? { _tag: "Failed", detail, afterMillis: reason.retryAfterMillis ?? 0 }
      : { _tag: "Refused", detail }
  }
  return reason._tag === "ConnectionFailed"
    ? { _tag: "Failed", detail: reason.message, afterMillis: 0 }
    // A session that ended shows at the next request. This one may have been worked on, so it is not sent again.
    : { _tag: "Refused", detail: reason.message }
}

/** Reads on until the answer to the request came. The pauses count against the deadline of the request. */
export const resume: (
  wire: Wire,
  session: Session,
  method: string,
  judge: Judge,
  interrupted: Interrupted
) => Effect.Effect<void, McpErrorReason> = Effect.fnUntraced(
  function*(wire, session, method, judge, { detail, position }) {
    const { handlers } = session
    let failures = 0
    let vainRounds = 0
    let afterMillis = 0

    while (position.lastEventId !== undefined) {
      yield* Effect.sleep(Math.max(
        position.retryMillis ?? PAUSE_MILLIS,
        afterMillis,
        // Polling goes at the server's pace, unless nothing comes of it.
        vainRounds === 0 ? 0 : Math.min(100 * 2 ** vainRounds, MAX_PAUSE_MILLIS)
      ))
      vainRounds++
      const headers = { ...sessionHeaders(session), accept: "text/event-stream", "last-event-id": position.lastEventId }
      const attempt: Attempt = yield* wire.use({ method: "GET", url: session.url, headers }, (answer) => {
        if (!isEventStream(answer)) return Effect.flip(wire.refuse(answer, false)).pipe(Effect.map(attemptOf))
        failures = 0
        return readEvents(wire, answer, position, (event) => {
          vainRounds = 0
          return deliver(event, handlers, judge)
        }).pipe(Effect.map((answered): Attempt => ({ _tag: answered ? "Answered" : "Ended" })))
      }).pipe(Effect.catch((reason) => Effect.succeed(attemptOf(reason))))
      if (attempt._tag === "Answered") return
      if (attempt._tag === "Ended") continue
      failures++
      if (attempt._tag === "Refused" || failures >= MAX_FAILURES) {
        return yield* new NoAnswer({ method, detail: `${detail}, and could not be resumed: ${attempt.detail}` })
      }
      afterMillis = attempt.afterMillis
    }
    return yield* new NoAnswer({ method, detail })
  }
)
