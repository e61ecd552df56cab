/**
 * One connection: a transport that is opened, a protocol that is agreed on, and what is done when the other side goes away.
 *
 * A link is one life of the transport (one process). A link that breaks fails what waits; a supervised connection opens the
 * next one after a pause that grows. A session that a server forgot is negotiated anew on the same link, once for all calls
 * that find it gone, and they are sent again.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { McpError, type McpErrorReason, NoAnswer, TimedOut } from "../McpError.ts"
import type { LogLevel } from "../McpModel.ts"
import { type Calls, makeCalls } from "./calls.ts"
import { type ClientIdentity, requestMeta } from "./clientMeta.ts"
import type { Diagnostic } from "./diagnostic.ts"
import { discover, type Handshake, initialize, negotiate } from "./handshake.ts"
import { isObject, type JsonObject, type JsonRpcNotification, type JsonRpcResponse, ownId } from "./jsonrpc.ts"
import type { Agreement } from "./negotiate.ts"
import { makeReceiver } from "./receive.ts"
import { isTraced, traced } from "./tracing.ts"
import type { Agreed, Transport } from "./transport.ts"

export interface ConnectionOptions {
  /** The name in errors. */
  readonly server: string
  readonly identity: ClientIdentity
  readonly protocol: "auto" | "legacy" | "modern"
  readonly connectMillis: number
  readonly probeMillis: number
  readonly restart: RestartPolicy | undefined
}

interface RestartPolicy {
  readonly maxAttempts: number
  readonly baseMillis: number
  readonly maxMillis: number
}

/** What is there before the protocol is agreed on: a server may ask during the handshake already. */
export interface Port {
  readonly respond: (response: JsonRpcResponse) => Effect.Effect<void, McpError>
  readonly pause: Calls["pause"]
  readonly run: Calls["run"]
}

export interface ConnectionHandlers {
  readonly notification: (method: string, params: JsonObject) => void
  /** A request of the server; only in the legacy era. */
  readonly request: (id: string | number, method: string, params: JsonObject) => void
  readonly disconnected: () => void
  readonly reconnected: () => void
  readonly diagnostic: (diagnostic: Diagnostic) => void
}

export interface RequestOptions {
  readonly timeoutMillis: number
  readonly maxTotalMillis?: number | undefined
  readonly onProgress?: ((params: JsonObject) => void) | undefined
  readonly name?: string | undefined
  readonly inputSchema?: unknown
  readonly longLived?: boolean | undefined
  /** Told the id before the request leaves. */
  readonly onId?: ((id: number) => void) | undefined
}

export interface Connection extends Port {
  /** What was agreed on last; it stays readable while the server is away. */
  readonly agreement: () => Agreement
  readonly request: (method: string, params: JsonObject, options: RequestOptions) => Effect.Effect<unknown, McpError>
  readonly notify: (method: string, params: JsonObject) => Effect.Effect<void, McpError>
  readonly setLogLevel: (level: LogLevel) => void
  readonly waiting: Calls["waiting"]
}

export const makeConnection: (
  transport: Transport,
  options: ConnectionOptions,
  handlersOf: (port: Port) => ConnectionHandlers
) => Effect.Effect<Connection, McpError, Scope.Scope> = Effect.fnUntraced(function*(transport, options, handlersOf) {
  const { server } = options
  // Closed last, whenever a link was opened: first whoever uses the connection, then the calls, then the link.
  const links = yield* Scope.fork(yield* Effect.scope)
  const calls = yield* makeCalls(transport, server)
  const renewal = yield* Semaphore.make(1)
  const fail = (reason: McpErrorReason): McpError => new McpError({ server, reason })

  let agreement: Agreement | undefined
  let link: Scope.Closeable | undefined
  let establishedAt = 0
  let attempts = 0
  let established = false
  let sessions = 0
  let logLevel: LogLevel | undefined

  const current = (): Agreed => agreement ?? { era: "legacy", version: "" }

  /** What gets no answer may find no taker either: a server that reads nothing, a POST that stays open. */
  const notify = (message: JsonRpcNotification | JsonRpcResponse, protocol: Agreed): Effect.Effect<void, McpError> =>
    Effect.timeoutOrElse(transport.notify(message, { protocol }), {
      duration: options.connectMillis,
      orElse: () => {
        const method = "method" in message ? message.method : "an answer to the server"
        return Effect.fail(fail(new TimedOut({ method, afterMillis: options.connectMillis })))
      }
    })

  const port: Port = {
    respond: (response) => Effect.suspend(() => notify(response, current())),
    pause: calls.pause,
    run: calls.run
  }
  const handlers = handlersOf(port)

  const receiver = makeReceiver(calls, transport.redact ?? ((text) => text), {
    notification(method, params) {
      // Only a subscription can be ended so. https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
      if (method === "notifications/cancelled" && agreement?.era === "modern") {
        const detail = "the server ended the subscription"
        calls.fail(ownId(params["requestId"]) ?? 0, new NoAnswer({ method: "subscriptions/listen", detail }))
      }
      handlers.notification(method, params)
    },
    request(id, method, params) {
      if (agreement?.era !== "modern") return handlers.request(id, method, params)
      // https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#sending-messages
      handlers.diagnostic({ kind: "declined-request", message: "a request of the server, which this revision forbids" })
    },
    diagnostic: handlers.diagnostic
  })

  const open = Effect.gen(function*() {
    if (link !== undefined) yield* Scope.close(link, Exit.void)
    transport.agreed(undefined)
    calls.reopen()
    const own = yield* Scope.fork(links)
    link = own
    yield* Scope.provide(
      transport.start({
        receive: receiver.receive,
        oversized: receiver.oversized,
        diagnostic: handlers.diagnostic,
        closed(reason) {
          if (link !== own) return
          calls.close(reason)
          if (!established) return
          established = false
          handlers.disconnected()
          if (options.restart !== undefined) calls.run(restart(options.restart))
        }
      }),
      own
    )
  })

  const handshake: Handshake = {
    identity: options.identity,
    protocol: options.protocol,
    probeMillis: options.probeMillis,
    call: (method, params, protocol) =>
      calls.call(method, params, {
        exchange: { protocol },
        timeoutMillis: options.connectMillis,
        // https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation#behavior-requirements
        cancellable: false
      }),
    notify: (method, protocol) => notify({ jsonrpc: "2.0", method }, protocol),
    agreed: transport.agreed,
    reopen: open,
    fail
  }

  const establish = (agree: Effect.Effect<Agreement, McpError>): Effect.Effect<void, McpError> =>
    Effect.flatMap(agree, (agreed) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        agreement = agreed
        established = true
        establishedAt = now
        sessions++
      }))

  /** A server that comes back most likely speaks what it spoke. Only if that fails is it asked from the beginning. */
  const agreeAgain = (attempt: number): Effect.Effect<Agreement, McpError> =>
    Effect.suspend(() =>
      attempt > 1 ? negotiate(handshake) : agreement?.era === "modern" ? discover(handshake) : initialize(handshake, [])
    )

  /** A server that leaves as soon as it is back has not come back: its attempts go on being counted. */
  const restart = (policy: RestartPolicy): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (now - establishedAt >= policy.maxMillis) attempts = 0
      if (attempts < policy.maxAttempts) return reconnect(policy, attempts + 1)
      handlers.diagnostic({ kind: "connection", message: `given up after ${attempts} starts in a row` })
      return Effect.void
    })

  const reconnect = (policy: RestartPolicy, attempt: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      attempts = attempt
      return Effect.sleep(Math.min(policy.baseMillis * 2 ** (attempt - 1), policy.maxMillis))
    }).pipe(
      Effect.andThen(Effect.andThen(open, establish(agreeAgain(attempt)))),
      Effect.matchEffect({
        onSuccess: () => Effect.sync(handlers.reconnected),
        onFailure: (error) => {
          handlers.diagnostic({ kind: "connection", message: `start ${attempt} failed: ${error.reason.message}` })
          calls.close(error.reason)
          return attempt < policy.maxAttempts ? reconnect(policy, attempt + 1) : Effect.void
        }
      })
    )

  const renew = (expired: number): Effect.Effect<void, McpError> =>
    renewal.withPermit(Effect.suspend(() => {
      if (sessions !== expired) return Effect.void
      transport.agreed(undefined)
      return Effect.andThen(establish(initialize(handshake, [])), Effect.sync(handlers.reconnected))
    }))

  const send = (method: string, params: JsonObject, request: RequestOptions): Effect.Effect<unknown, McpError> =>
    Effect.withFiber((fiber) => {
      const protocol = current()
      return isTraced(fiber)
        ? traced(method, request.name, protocol, (trace) => carry(method, params, request, protocol, trace))
        : carry(method, params, request, protocol, undefined)
    })

  const carry = (
    method: string,
    params: JsonObject,
    request: RequestOptions,
    protocol: Agreed,
    trace: JsonObject | undefined
  ): Effect.Effect<unknown, McpError> => {
    const progress = request.onProgress !== undefined || request.maxTotalMillis !== undefined
    const isPlain = protocol.era !== "modern" && !progress && request.onId === undefined
    return calls.call(method, isPlain ? params : withMeta(params, request, protocol, progress, trace), {
      exchange: {
        protocol,
        name: request.name,
        inputSchema: request.inputSchema,
        longLived: request.longLived
      },
      timeoutMillis: request.timeoutMillis,
      maxTotalMillis: request.maxTotalMillis,
      onProgress: request.onProgress
    })
  }

  /** The parameters of a request with its `_meta`, as soon as its id is known. */
  const withMeta = (
    params: JsonObject,
    request: RequestOptions,
    protocol: Agreed,
    progress: boolean,
    trace: JsonObject | undefined
  ) => {
    const meta = protocol.era === "modern"
      ? { ...requestMeta(options.identity, protocol.version, logLevel), ...trace }
      : progress
      ? {}
      : undefined
    return (id: number): JsonObject => {
      request.onId?.(id)
      if (meta === undefined) return params
      const own = isObject(params["_meta"]) ? params["_meta"] : {}
      return { ...params, _meta: { ...own, ...meta, ...(progress ? { progressToken: id } : {}) } }
    }
  }

  const request: Connection["request"] = transport.kind !== "http" ?
    send :
    (method, params, request) =>
      Effect.suspend(() => {
        const session = sessions
        return Effect.catchIf(
          send(method, params, request),
          (error) => error.reason._tag === "SessionExpired",
          () => Effect.andThen(renew(session), send(method, params, request))
        )
      })

  yield* open
  yield* establish(negotiate(handshake))

  return {
    agreement: () => agreement ?? absurd(),
    request,
    notify: (method, params) => Effect.suspend(() => notify({ jsonrpc: "2.0", method, params }, current())),
    ...port,
    setLogLevel: (level) => {
      logLevel = level
    },
    waiting: calls.waiting
  }
})

const absurd = (): never => {
  throw new Error("agreed before the connection exists")
}
