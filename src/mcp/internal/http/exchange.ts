/**
 * One message and what the server answers to its POST.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
 */
import * as Effect from "effect/Effect"
import { type McpErrorReason, NoAnswer } from "../../McpError.ts"
import type { JsonRpcMessage, JsonRpcRequest } from "../jsonrpc.ts"
import type { Exchange } from "../transport.ts"
import type { Answer } from "./body.ts"
import { encode, mediaType, messageHeaders, sessionId } from "./headers.ts"
import { type Interrupted, resume } from "./resume.ts"
import type { Session } from "./session.ts"
import { deliver, isEventStream, type Judge, makePosition, parseJson, readEvents } from "./sse.ts"
import { answers, retryDelay, type RetryPolicy } from "./verdict.ts"
import type { Wire } from "./wire.ts"

const isInitialize = (message: JsonRpcMessage): boolean => "method" in message && message.method === "initialize"

/** Posts a message, again if it was not worked on, and uses the answer. */
const posting = <A>(
  wire: Wire,
  session: Session,
  policy: RetryPolicy,
  message: JsonRpcMessage,
  exchange: Exchange,
  use: (answer: Answer) => Effect.Effect<A, McpErrorReason>
): Effect.Effect<A, McpErrorReason> => {
  const post = Effect.flatMap(encode(message), (body) => {
    const id = exchange.protocol.era === "modern" || isInitialize(message) ? undefined : session.id
    const headers = {
      ...messageHeaders(message, exchange),
      accept: "application/json, text/event-stream",
      ...id === undefined ? {} : { "mcp-session-id": id }
    }
    return wire.use(
      { method: "POST", url: session.url, headers, body },
      (answer) =>
        answer.status >= 200 && answer.status < 300
          ? use(answer)
          : Effect.tapError(wire.refuse(answer, id !== undefined), (reason) =>
            Effect.sync(() => {
              // Another request may have found out before, and a new session may be there already.
              if (reason._tag === "SessionExpired" && session.id === id) session.id = undefined
            }))
    )
  })
  const attempt = (retries: number): Effect.Effect<A, McpErrorReason> =>
    Effect.catch(post, (reason) => {
      const delay = retryDelay(reason, retries, policy)
      return delay === undefined ? Effect.fail(reason) : Effect.delay(attempt(retries + 1), delay)
    })
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
    (answer) => isEventStream(answer) ? Effect.void : Effect.asVoid(wire.beginning(answer))
  )

/** Media types that are said to be something else than JSON, and are read no further than to quote them. */
const isOtherMedia = (type: string): boolean =>
  type !== "" && type !== "text/plain" && type !== "application/octet-stream" && !type.includes("json")

const readAnswer = (
  wire: Wire,
  session: Session,
  method: string,
  judge: Judge,
  answer: Answer
): Effect.Effect<undefined, McpErrorReason> => {
  const { status } = answer
  const type = mediaType(answer.header("content-type"))
  const unread = status === 202 || status === 204 || status === 205 || isOtherMedia(type)
  return Effect.flatMap(unread ? wire.beginning(answer) : wire.text(answer), (text) => {
    const parsed = unread ? undefined : parseJson(text)
    if (parsed !== undefined) {
      const { ends, message } = judge(parsed.value)
      session.handlers.receive(message)
      if (ends) return Effect.undefined
    }
    const what = text.trim() === ""
      ? "an empty body"
      : parsed === undefined
      ? type === "" ? "a body of no type" : `${type} that is no message`
      : "JSON that does not answer it"
    return Effect.fail(
      new NoAnswer({ method, detail: `HTTP status ${status} with ${what}`, body: wire.quote(text) })
    )
  })
}

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

  const use = (answer: Answer): Effect.Effect<Interrupted | undefined, McpErrorReason> => {
    if (isInitialize(message)) session.id = sessionId(answer.header("mcp-session-id"))
    if (!isEventStream(answer)) return readAnswer(wire, session, method, judge, answer)
    const position = makePosition()
    const interrupted = (detail: string): Interrupted => ({ _tag: "Interrupted", detail, position })
    return readEvents(wire, answer, position, (event) => deliver(event, session.handlers, judge)).pipe(
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
