/**
 * The HTTP transport of 2024-11-05: one event stream for everything the server says, and another URL to post to.
 *
 * https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { ConnectionFailed, type McpErrorReason, RedirectRefused } from "../../McpError.ts"
import { isObject, ownId } from "../jsonrpc.ts"
import type { TransportHandlers } from "../transport.ts"
import { encode, messageHeaders } from "./headers.ts"
import type { Carrier, Session } from "./session.ts"
import { deliver, endsNothing, isEventStream, makePosition, readEvents } from "./sse.ts"
import { publicUrl } from "./verdict.ts"
import type { Wire } from "./wire.ts"

/** How long a server may take to name the URL to post to. */
const ENDPOINT_TIMEOUT = "5 seconds"

/** The URL an `endpoint` event names. It must be of the server's own origin: headers and data go there. */
const endpointOf = (data: string, url: URL): Exit.Exit<URL, McpErrorReason> => {
  if (!URL.canParse(data, url.href)) {
    return Exit.fail(new ConnectionFailed({ cause: "the endpoint event holds no URL" }))
  }
  const endpoint = new URL(data, url)
  return endpoint.origin === url.origin
    ? Exit.succeed(endpoint)
    : Exit.fail(new RedirectRefused({ location: publicUrl(endpoint) }))
}

/**
 * Opens the event stream of an old server. It lives in the session's Scope; when it ends by itself, the connection is told
 * that nothing can arrive any more.
 */
export const openOldSse: (wire: Wire, session: Session) => Effect.Effect<Carrier, McpErrorReason> = Effect.fnUntraced(
  function*(wire, session) {
    const { handlers, url } = session
    const named = yield* Deferred.make<URL, McpErrorReason>()
    const waiting = new Map<number, Deferred.Deferred<void, McpErrorReason>>()

    const receive: TransportHandlers["receive"] = (message) => {
      handlers.receive(message)
      for (const item of Array.isArray(message) ? message : [message]) {
        if (!isObject(item) || typeof item["method"] === "string") continue
        const call = waiting.get(ownId(item["id"]) ?? 0)
        if (call !== undefined) Deferred.doneUnsafe(call, Exit.void)
      }
    }

    const reading = wire.use({ method: "GET", url, headers: { accept: "text/event-stream" } }, (answer) => {
      if (!isEventStream(answer)) return wire.refuse(answer, false)
      const events = readEvents(wire, answer, makePosition(), (event) => {
        if (event.event !== "endpoint") return deliver(event, { ...handlers, receive }, endsNothing)
        Deferred.doneUnsafe(named, endpointOf(event.data, url))
        return false
      })
      return Effect.andThen(events, Effect.fail(new ConnectionFailed({ cause: "the event stream ended" })))
    })

    const ended = (reason: McpErrorReason): void => {
      // The one who waits for the endpoint hears of it alone; there is no connection yet.
      if (Deferred.doneUnsafe(named, Exit.fail(reason))) return
      handlers.closed(reason)
      for (const call of waiting.values()) Deferred.doneUnsafe(call, Exit.fail(reason))
    }

    const reader = yield* reading.pipe(
      Effect.catch((reason) => Effect.sync(() => ended(reason))),
      Effect.forkIn(session.scope)
    )
    const endpoint = yield* Deferred.await(named).pipe(
      Effect.timeoutOption(ENDPOINT_TIMEOUT),
      Effect.flatMap(Option.match({
        onNone: () => Effect.fail(new ConnectionFailed({ cause: "the event stream names no endpoint" })),
        onSome: Effect.succeed
      })),
      Effect.onError(() => Fiber.interrupt(reader))
    )

    const post: Carrier = (message, exchange) =>
      Effect.flatMap(encode(message), (body) => {
        const headers = { ...messageHeaders(message, exchange), accept: "application/json, text/event-stream" }
        return wire.use({ method: "POST", url: endpoint, headers, body }, (answer) =>
          answer.status < 200 || answer.status >= 300
            ? wire.refuse(answer, false)
            : Effect.asVoid(wire.beginning(answer)))
      })

    return (message, exchange) => {
      if (!("method" in message && "id" in message)) return post(message, exchange)
      return Effect.gen(function*() {
        const call = yield* Deferred.make<void, McpErrorReason>()
        waiting.set(message.id, call)
        yield* post(message, exchange)
        yield* Deferred.await(call)
      }).pipe(Effect.ensuring(Effect.sync(() => waiting.delete(message.id))))
    }
  }
)
