/**
 * The HTTP transport: Streamable HTTP of every revision, and the HTTP+SSE of 2024-11-05 behind the same URL.
 *
 * Authorization is not decided here: a server that wants other credentials makes the request fail with `Unauthorized`, and
 * whoever has them wraps the HTTP client.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
 */
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Fiber from "effect/Fiber"
import type { HttpClient } from "effect/http/HttpClient"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { Closed, ConnectionFailed, McpError, type McpErrorReason } from "../../McpError.ts"
import { ErrorCode } from "../jsonrpc.ts"
import { redactor } from "../quote.ts"
import type { Transport, TransportHandlers } from "../transport.ts"
import { sendNotification, sendRequest } from "./exchange.ts"
import { openOldSse } from "./oldSse.ts"
import { headerProblem } from "./paramHeaders.ts"
import { endSession, listen, type Session } from "./session.ts"
import { publicUrl, type RetryPolicy } from "./verdict.ts"
import { makeWire } from "./wire.ts"

export interface HttpOptions {
  readonly url: string | URL
  /** Sent with every request. Those the protocol defines are ignored. */
  readonly headers: Readonly<Record<string, string | Redacted.Redacted<string> | undefined>>
  /** The limit of a response body and of an event. */
  readonly maxMessageBytes: number
  /** How often a request is sent again that the server put off with 429, or with 503 and `Retry-After`. */
  readonly maxRetries: number
  /** A longer `Retry-After` fails the request, which tells the time. */
  readonly maxRetryAfterMillis: number
  /** Whether the trace context goes to the server in headers. */
  readonly propagateTrace: boolean
}

/** Only the protocol says what these hold. */
const RESERVED = /^(accept|content-type|content-length|host|last-event-id|mcp-.*)$/

/** What headers can hold: a wrong one would make every request fail with words that quote it. */
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

interface Target {
  /** Without credentials and fragment. */
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly secrets: ReadonlyArray<string>
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Where requests go and with what, or why that cannot be. Credentials in the URL become a header. */
const targetOf = (options: HttpOptions): Target | { readonly problem: string } => {
  const given = options.url.toString()
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
    return { problem: "its URL is no valid http or https URL" }
  }
  const url = new URL(given)
  const headers: Record<string, string> = {}
  const secrets: Array<string> = [url.search.slice(1), ...url.searchParams.values()]
  if (url.username !== "" || url.password !== "") {
    const [user, password] = [decoded(url.username), decoded(url.password)]
    headers["authorization"] = `Basic ${Base64.encode(`${user}:${password}`)}`
    secrets.push(url.username, url.password, user, password)
    url.username = ""
    url.password = ""
  }
  url.hash = ""
  for (const [key, value] of Object.entries(options.headers)) {
    const name = key.toLowerCase()
    if (value === undefined || RESERVED.test(name)) continue
    const text = (Redacted.isRedacted(value) ? Redacted.value(value) : value).trim()
    if (!NAME.test(name) || !VALUE.test(text)) return { problem: `its header ${JSON.stringify(key)} cannot be sent` }
    headers[name] = text
  }
  // Of "Bearer abc", the token alone is a secret as well.
  for (const value of Object.values(headers)) secrets.push(value, value.slice(value.indexOf(" ") + 1))
  return { url, headers, secrets }
}

/** A server of 2024-11-05 does not know what a POST to this URL is; a modern one says what is wrong with it. */
const mayBeOld = (reason: McpErrorReason): boolean =>
  reason._tag === "HttpStatus" && reason.status >= 400 && reason.status < 500 && reason.status !== 403 &&
  reason.status !== 429 &&
  (reason.error === undefined || !MODERN_ERRORS.has(reason.error.code))

const MODERN_ERRORS: ReadonlySet<number> = new Set([
  ErrorCode.headerMismatch,
  ErrorCode.methodNotFound,
  ErrorCode.missingClientCapability,
  ErrorCode.unsupportedVersion
])

export const makeHttp: (
  options: HttpOptions,
  server: string | undefined
) => Effect.Effect<Transport, McpError, HttpClient> = Effect.fnUntraced(function*(options, server) {
  const target = targetOf(options)
  if ("problem" in target) {
    return yield* new McpError({ server: server ?? "http", reason: new ConnectionFailed({ cause: target.problem }) })
  }
  const label = publicUrl(target.url)
  const fail = (reason: McpErrorReason): McpError => new McpError({ server: server ?? label, reason })
  const wire = yield* makeWire({ ...target, ...options, headers: target.headers })
  const policy: RetryPolicy = options
  let session: Session | undefined

  const start = Effect.fnUntraced(
    function*(handlers: TransportHandlers): Effect.fn.Return<void, McpError, Scope.Scope> {
      const own: Session = {
        url: target.url,
        handlers,
        scope: yield* Effect.scope,
        id: undefined,
        agreed: undefined,
        old: undefined,
        listening: undefined
      }
      session = own
      // Runs after the background of the session ended, which started later.
      yield* Effect.addFinalizer(() => {
        if (session === own) session = undefined
        return endSession(wire, own)
      })
    }
  )

  const stopListening = (own: Session): Effect.Effect<void> => {
    const fiber = own.listening
    own.listening = undefined
    return fiber === undefined ? Effect.void : Fiber.interrupt(fiber)
  }

  const startListening = Effect.fnUntraced(function*(own: Session) {
    yield* stopListening(own)
    own.listening = yield* Effect.forkIn(listen(wire, own), own.scope)
  })

  const inSession = <A>(use: (own: Session) => Effect.Effect<A, McpErrorReason>): Effect.Effect<A, McpError> =>
    Effect.suspend(() => session === undefined ? Effect.fail(new Closed()) : use(session)).pipe(Effect.mapError(fail))

  return {
    kind: "http",
    label,
    redact: redactor(target.secrets),
    start,
    agreed(protocol) {
      if (session !== undefined) session.agreed = protocol
    },
    refuses: (inputSchema) => session?.agreed?.era === "legacy" ? undefined : headerProblem(inputSchema),

    request: (message, exchange) =>
      inSession((own) => {
        if (own.old !== undefined) return own.old(message, exchange)
        const sent = sendRequest(wire, own, policy, message, exchange)
        if (message.method !== "initialize") {
          return Effect.tapError(sent, (reason) =>
            reason._tag === "SessionExpired" && own.id === undefined ? stopListening(own) : Effect.void)
        }
        return Effect.catchIf(sent, mayBeOld, (refusal) =>
          openOldSse(wire, own).pipe(
            // What another place to post to says about the server is more than its refusal.
            Effect.mapError((reason) =>
              reason._tag === "RedirectRefused" ? reason : refusal
            ),
            Effect.flatMap((carry) => {
              own.old = carry
              return carry(message, exchange)
            })
          ))
      }),

    notify: (message, exchange) =>
      inSession((own) => {
        if (own.old !== undefined) return own.old(message, exchange)
        const method = "method" in message ? message.method : undefined
        // The modern era cancels by closing the response, which happened.
        if (exchange.protocol.era === "modern" && method === "notifications/cancelled") return Effect.void
        const sent = sendNotification(wire, own, policy, message, exchange)
        return method === "notifications/initialized" ? Effect.andThen(sent, startListening(own)) : sent
      })
  }
})
