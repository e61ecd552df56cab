/**
 * One message and what the server answers to its POST.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
 */
import * as Effect from "effect/Effect"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import type * as Scope from "effect/Scope"
import { type McpErrorReason, NoAnswer } from "../../McpError.ts"
import type { JsonRpcMessage, JsonRpcRequest } from "../jsonrpc.ts"
import type { Exchange } from "../transport.ts"
import { encode, mediaType, messageHeaders, sessionId } from "./headers.ts"
import { type Interrupted, resume } from "./resume.ts"
import type { Session } from "./session.ts"
import { deliver, isEventStream, type Judge, makePosition, parseJson, readEvents } from "./sse.ts"
import { answers, retryDelay, type RetryPolicy } from "./verdict.ts"
import type { Wire } from "./wire.ts"

const isInitialize = (message: JsonRpcMessage): boolean => "method" in message && message.method === "initialize"

const post = (
  wire: Wire,
  session: Session,
  message: JsonRpcMessage,
  exchange: Exchange
): Effect.Effect<HttpClientResponse, McpErrorReason, Scope.Scope> =>
  Effect.gen(function*() {
    const id = exchange.protocol.era === "modern" || isInitialize(message) ? undefined : session.id
    const response = yield* wire.send({
      method: "POST",
      url: session.url,
      headers: {
        ...messageHeaders(message, exchange),
        accept: "application/json, text/event-stream",
        ...id === undefined ? {} : { "mcp-session-id": id }
      },
      body: yield* encode(message)
    })
    if (response.status >= 200 && response.status < 300) return response
    return yield* Effect.tapError(wire.refuse(response, id !== undefined), (reason) =>
      Effect.sync(() => {
        // Another request may have found out before, and a new session may be there already.
        if (reason._tag === "SessionExpired" && session.id === id) session.id = undefined
      }))
  })

/** Posts a message, again if it was not worked on, and uses the answer before its exchange is closed. */
const posting = <A>(
  wire: Wire,
  session: Session,
  policy: RetryPolicy,
  message: JsonRpcMessage,
  exchange: Exchange,
  use: (response: HttpClientResponse) => Effect.Effect<A, McpErrorReason, Scope.Scope>
): Effect.Effect<A, McpErrorReason> => {
  const attempt = (retries: number): Effect.Effect<A, McpErrorReason> =>
    post(wire, session, message, exchange).pipe(
      Effect.flatMap(use),
      Effect.scoped,
      Effect.catch((reason) => {
        const delay = retryDelay(reason, retries, policy)
        return delay === undefined ? Effect.fail(reason) : Effect.delay(attempt(retries + 1), delay)
      })
    )
  return attempt(0)
}

/** Sends a notification, or an answer to a request of the server. Whatever 2xx it gets, it arrived. */
export const sendNotification = (
  wire: Wire,
  session: Session,
  policy: RetryPolicy,
  message: JsonRpcMessage,
  exchange: Exchange
): Effect.Effect<void, McpErrorReason> =>
  posting(
    wire,
    session,
    policy,
    message,
    exchange,
    (response) => isEventStream(response) ? Effect.void : Effect.asVoid(wire.beginning(response))
  )

/** Media types that are said to be something else than JSON, and are read no further than to quote them. */
const isOtherMedia = (type: string): boolean =>
  type !== "" && type !== "text/plain" && type !== "application/octet-stream" && !type.includes("json")

const readAnswer = Effect.fnUntraced(function*(
  wire: Wire,
  session: Session,
  method: string,
  judge: Judge,
  response: HttpClientResponse
): Effect.fn.Return<void, McpErrorReason> {
  const { headers, status } = response
  const type = mediaType(headers)
  const unread = status === 202 || status === 204 || status === 205 || isOtherMedia(type)
  const text = yield* unread ? wire.beginning(response) : wire.text(response)
  const parsed = unread ? undefined : parseJson(text)
  if (parsed !== undefined) {
    const { ends, message } = judge(parsed.value)
    session.handlers.receive(message)
    if (ends) return
  }
  const what = text.trim() === ""
    ? "an empty body"
    : parsed === undefined
    ? type === "" ? "a body of no type" : `${type} that is no message`
    : "JSON that does not answer it"
  return yield* new NoAnswer({ method, detail: `HTTP status ${status} with ${what}`, body: wire.quote(text) })
})

/** Sends a request; ends when its answer was handed to the connection, or fails when none can come. */
export const sendRequest = (
  wire: Wire,
  session: Session,
  policy: RetryPolicy,
  message: JsonRpcRequest,
  exchange: Exchange
): Effect.Effect<void, McpErrorReason> => {
  const { method } = message
  const judge: Judge = (value) => answers(value, message.id)

  const use = (response: HttpClientResponse): Effect.Effect<Interrupted | undefined, McpErrorReason, Scope.Scope> => {
    if (isInitialize(message)) session.id = sessionId(response.headers)
    if (!isEventStream(response)) return Effect.as(readAnswer(wire, session, method, judge, response), undefined)
    const position = makePosition()
    const interrupted = (detail: string): Interrupted => ({ _tag: "Interrupted", detail, position })
    return readEvents(wire, response, position, (event) => deliver(event, session.handlers, judge)).pipe(
      Effect.map((answered) => answered ? undefined : interrupted("the event stream ended without it")),
      Effect.catchTag(
        "ConnectionFailed",
        (reason) => Effect.succeed(interrupted(`the event stream broke: ${String(reason.cause)}`))
      )
    )
  }

  return posting(wire, session, policy, message, exchange, use).pipe(
    Effect.flatMap((outcome) => {
      if (outcome === undefined) return Effect.void
      // https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages
      return exchange.protocol.era === "modern"
        ? Effect.fail(new NoAnswer({ method, detail: outcome.detail }))
        : resume(wire, session, method, judge, outcome)
    })
  )
}
