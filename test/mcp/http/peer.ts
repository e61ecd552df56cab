/**
 * An HTTP transport without a client on top of it: what it is told to send, and what it hands over.
 */
import { Effect, Exit, Scope } from "effect"
import type { HttpClient } from "effect/http/HttpClient"
import type { Diagnostic } from "../../../src/mcp/internal/diagnostic.ts"
import { type HttpOptions, makeHttp } from "../../../src/mcp/internal/http/http.ts"
import type { Agreed, Exchange, Transport } from "../../../src/mcp/internal/transport.ts"
import type { McpErrorReason } from "../../../src/mcp/McpError.ts"

export const legacy: Agreed = { era: "legacy", version: "2025-11-25" }
export const modern: Agreed = { era: "modern", version: "2026-07-28" }

export interface Peer {
  readonly transport: Transport
  readonly received: Array<unknown>
  readonly diagnostics: Array<Diagnostic>
  readonly closed: Array<McpErrorReason>
  /** Sends a request; answers its id. */
  readonly call: (method: string, options?: CallOptions) => Effect.Effect<number, McpErrorReason>
  readonly notify: (method: string, exchange?: Partial<Exchange>) => Effect.Effect<void, McpErrorReason>
  /** What was received for an id. */
  readonly answerTo: (id: number) => unknown
  /** Agrees on a protocol as a connection does: `initialize`, `agreed` and `notifications/initialized`. */
  readonly initialize: Effect.Effect<void, McpErrorReason>
  readonly close: Effect.Effect<void>
}

interface CallOptions extends Partial<Exchange> {
  readonly params?: Record<string, unknown>
}

export const open = (
  url: string,
  options: Partial<HttpOptions> = {}
): Effect.Effect<Peer, McpErrorReason, HttpClient | Scope.Scope> =>
  Effect.gen(function*() {
    const transport = yield* Effect.mapError(
      makeHttp({
        url,
        headers: {},
        maxMessageBytes: 16 * 1024 * 1024,
        maxRetries: 2,
        maxRetryAfterMillis: 10_000,
        propagateTrace: false,
        ...options
      }, "peer"),
      (error) => error.reason
    )
    const own = yield* Scope.fork(yield* Effect.scope)
    const received: Array<unknown> = []
    const diagnostics: Array<Diagnostic> = []
    const closed: Array<McpErrorReason> = []
    let nextId = 1
    let protocol = legacy
    const start = transport.start({
      receive: (message) => void received.push(message),
      closed: (reason) => void closed.push(reason),
      diagnostic: (diagnostic) => void diagnostics.push(diagnostic),
      oversized: () => {}
    })
    yield* Effect.mapError(Scope.provide(start, own), (error) => error.reason)

    const call: Peer["call"] = (method, { params, ...exchange } = {}) =>
      Effect.suspend(() => {
        const id = nextId++
        const message = { jsonrpc: "2.0" as const, id, method, ...(params === undefined ? {} : { params }) }
        return transport.request(message, { protocol, ...exchange }).pipe(
          Effect.mapError((error) => error.reason),
          Effect.as(id)
        )
      })
    const notify: Peer["notify"] = (method, exchange = {}) =>
      Effect.suspend(() => transport.notify({ jsonrpc: "2.0", method }, { protocol, ...exchange })).pipe(
        Effect.mapError((error) => error.reason)
      )
    const answerTo: Peer["answerTo"] = (id) =>
      received.flat().find((message) => Number((message as { readonly id?: unknown } | null)?.id) === id)

    return {
      transport,
      received,
      diagnostics,
      closed,
      call,
      notify,
      answerTo,
      initialize: Effect.gen(function*() {
        transport.agreed(undefined)
        const id = yield* call("initialize")
        const version = (answerTo(id) as { readonly result: { readonly protocolVersion: string } }).result
        protocol = { era: "legacy", version: version.protocolVersion }
        transport.agreed(protocol)
        yield* notify("notifications/initialized")
      }),
      close: Scope.close(own, Exit.void)
    }
  })
