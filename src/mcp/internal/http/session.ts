/**
 * What a transport knows between its `start` and the end of its Scope, and the stream of messages a server sends unasked.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import type { McpErrorReason } from "../../McpError.ts"
import type { JsonRpcMessage } from "../jsonrpc.ts"
import type { Agreed, Exchange, TransportHandlers } from "../transport.ts"
import { versionHeaders } from "./headers.ts"
import { deliver, endsNothing, isEventStream, makePosition, readEvents } from "./sse.ts"
import type { Wire } from "./wire.ts"

export interface Session {
  readonly url: URL
  readonly handlers: TransportHandlers
  /** Everything that goes on in the background lives here. */
  readonly scope: Scope.Scope
  /** What the server called the session, if it keeps one. */
  id: string | undefined
  agreed: Agreed | undefined
  /** Present when the server speaks the transport of 2024-11-05. */
  old: Carrier | undefined
  listening: Fiber.Fiber<void> | undefined
}

/** Carries a message another way; for a request, until its answer came. */
export type Carrier = (message: JsonRpcMessage, exchange: Exchange) => Effect.Effect<void, McpErrorReason>

export const sessionHeaders = (session: Session): Record<string, string> => ({
  ...versionHeaders(session.agreed),
  ...session.id === undefined ? {} : { "mcp-session-id": session.id }
})

/** How long the end of a connection waits for the server to end the session. */
const DELETE_TIMEOUT = "2 seconds"

/** Ends the session at the server. Whether it allows that is its own affair. */
export const endSession = (wire: Wire, session: Session): Effect.Effect<void> =>
  Effect.suspend(() =>
    session.id === undefined
      ? Effect.void
      : wire.use({ method: "DELETE", url: session.url, headers: sessionHeaders(session) }, () => Effect.void).pipe(
        Effect.timeoutOption(DELETE_TIMEOUT),
        Effect.ignore
      )
  )

/** The pause before a stream is opened again, without a wish of the server, and where growing pauses stop. */
const PAUSE_MILLIS = 1000
const MAX_PAUSE_MILLIS = 30_000

/** A stream that lasted this long was a good one, also when nothing happened in it. */
const GOOD_STREAM_MILLIS = 10_000

/**
 * Reads the messages a server sends unasked, as long as the session lasts, and opens the stream again where it ended.
 *
 * A server need not offer it: whatever else it answers the first time means there is none, and is no failure. Later, an
 * answer of 4xx ends it as well, and anything else is tried again with growing pauses.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
 */
export const listen: (wire: Wire, session: Session) => Effect.Effect<void> = Effect.fnUntraced(
  function*(wire, session) {
    const { handlers } = session
    const position = makePosition()
    let offered = false
    let vainRounds = 0

    const connection = Effect.suspend(() => {
      const headers = {
        ...sessionHeaders(session),
        accept: "text/event-stream",
        ...position.lastEventId === undefined ? {} : { "last-event-id": position.lastEventId }
      }
      return wire.use({ method: "GET", url: session.url, headers }, (answer) => {
        if (!isEventStream(answer)) return Effect.succeed(offered && answer.status >= 500)
        offered = true
        return Effect.as(
          readEvents(wire, answer, position, (event) => {
            vainRounds = 0
            return deliver(event, handlers, endsNothing)
          }),
          true
        )
      })
    })

    const failed = (reason: McpErrorReason): boolean => {
      if (reason._tag === "LimitExceeded") {
        handlers.diagnostic({ kind: "limit", message: reason.message })
        // Asked for what follows the last event, a server would send the large one again.
        position.lastEventId = undefined
      }
      return offered
    }

    while (true) {
      const opened = yield* Clock.currentTimeMillis
      vainRounds++
      const again = yield* connection.pipe(Effect.catch((reason) => Effect.succeed(failed(reason))))
      if (!again) return
      if ((yield* Clock.currentTimeMillis) - opened > GOOD_STREAM_MILLIS) vainRounds = 0
      yield* Effect.sleep(
        Math.max(position.retryMillis ?? PAUSE_MILLIS, Math.min(PAUSE_MILLIS * (2 ** vainRounds - 1), MAX_PAUSE_MILLIS))
      )
    }
  }
)
