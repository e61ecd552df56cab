/**
 * The seam between a connection (`connection.ts`: ids, deadlines, negotiation, meaning) and a way to carry its messages.
 *
 * Who does what:
 *
 * - A transport moves JSON values. It never looks at an id except to know when an exchange is over, and it decides no
 *   deadline of a request: the connection interrupts `request` when the deadline passes.
 * - An error answer inside an HTTP failure (400 with a JSON-RPC body) is not handed to `receive`: `request` fails with
 *   `HttpStatus`, whose `error` holds it. The connection reads `-32020`, `-32022` and the like from there.
 * - HTTP 401, and 403 with a challenge, fail with `Unauthorized` whatever the body says.
 * - A 404 to a request that carried a session: the transport forgets the session and fails with `SessionExpired`. The
 *   connection initializes again, once for all callers, and sends the request again under a new id.
 * - The fallback to the old HTTP+SSE transport (2024-11-05) happens inside the HTTP transport and only while it carries
 *   `initialize`: a POST answered with 4xx, other than about credentials or rates, makes it open the event stream with GET,
 *   and when an `endpoint` event comes, it carries this and every later message the old way. If that fails as well, the
 *   error of the POST counts.
 * - The optional GET stream of the legacy era is opened by the HTTP transport by itself, once `agreed` told it the version
 *   and `notifications/initialized` went out. `agreed` is called again after a new session was negotiated.
 * - The DELETE of a session is the HTTP transport's finalizer.
 */
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { McpError, McpErrorReason } from "../McpError.ts"
import type { Diagnostic } from "./diagnostic.ts"
import type { JsonRpcNotification, JsonRpcRequest, JsonRpcResponse } from "./jsonrpc.ts"

/** One way to carry JSON-RPC messages to and from a server. */
export interface Transport {
  readonly kind: "stdio" | "http" | "memory"

  /** What is shown in errors when the server has no configured name: the command line or the URL, secrets redacted. */
  readonly label: string

  /**
   * Opens the way and starts reading. Everything it holds is released with the Scope. It may be called again with a new
   * Scope after `closed` was called or the old Scope ended (a restart); it then starts afresh.
   */
  readonly start: (handlers: TransportHandlers) => Effect.Effect<void, McpError, Scope.Scope>

  /**
   * Carries one request. Succeeds when nothing more is to be done for it: the answer went to `receive`, or (stdio) the
   * bytes were handed over and the answer comes by the common channel. Fails at once when no answer can come: an HTTP
   * status, a stream that ended without the answer, a 202. Interrupting it abandons the exchange; HTTP closes its
   * response, which is how the modern era cancels.
   */
  readonly request: (message: JsonRpcRequest, exchange: Exchange) => Effect.Effect<void, McpError>

  /** Carries a notification, or the answer to a request of the server. */
  readonly notify: (
    message: JsonRpcNotification | JsonRpcResponse,
    exchange: Exchange
  ) => Effect.Effect<void, McpError>

  /**
   * Takes a message at once, without a fiber, when there is room for it. Only transports whose `request` ends with handing
   * over have it. `false` means that `request` or `notify` must be used, which wait.
   */
  readonly offer?: (message: JsonRpcRequest | JsonRpcNotification | JsonRpcResponse) => boolean

  /** Why a tool cannot be called over this transport, judged by its input schema (`x-mcp-header`); `undefined`: it can. */
  readonly refuses?: (inputSchema: unknown) => string | undefined

  /** Takes the secrets this transport was given out of a text the server sent. Absent: it was given none. */
  readonly redact?: (text: string) => string

  /** What the connection agreed on; `undefined` while it negotiates (again). Headers depend on it. */
  readonly agreed: (protocol: Agreed | undefined) => void
}

/** The protocol a connection speaks. */
export interface Agreed {
  /** `legacy`: `initialize` and a session. `modern`: no state, `_meta` on every request. */
  readonly era: "legacy" | "modern"
  readonly version: string
}

export interface TransportHandlers {
  /** Gets every incoming JSON value, a batch (array) as one value. Runs synchronously and never throws. */
  readonly receive: (message: unknown) => void
  /** Called once, when nothing can arrive any more. Not called when the Scope ends the transport. */
  readonly closed: (reason: McpErrorReason) => void
  readonly diagnostic: (diagnostic: Diagnostic) => void
  /**
   * A message over the size limit was passed over; `id` is the request it answered, where that could be read. HTTP fails the
   * request itself and has no need of it.
   */
  readonly oversized: (id: number | undefined, maxBytes: number) => void
}

/** What a transport needs to know about a message beside the message. stdio ignores all of it. */
export interface Exchange {
  /**
   * The protocol the message is written in. Not always what was `agreed`: while negotiating, `server/discover` is modern
   * and `initialize` legacy. The `MCP-Protocol-Version` header is `version`, and is left out on `initialize` and before
   * 2025-06-18.
   */
  readonly protocol: Agreed
  /** `Mcp-Name` of the modern era: the tool or prompt named, or the resource's URI. */
  readonly name?: string | undefined
  /** The input schema of the tool called, as the server listed it: `Mcp-Param-*` come from its `x-mcp-header`. */
  readonly inputSchema?: unknown
  /** A response stream that is meant to stay open (`subscriptions/listen`): no idle limit applies. */
  readonly longLived?: boolean | undefined
}
