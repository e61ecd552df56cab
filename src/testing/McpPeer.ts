/**
 * An MCP server in the same process, for tests of code that uses MCP clients.
 *
 * The peer speaks the protocol with real JSON (every message is written and parsed), answers what its options say, keeps
 * what the client sent, and does on demand what servers do by themselves: notifications, requests, nonsense, going away.
 *
 * @since 0.1.0
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import type * as Scope from "effect/Scope"
import * as McpClient from "../mcp/McpClient.ts"
import { Closed, type McpError, type McpErrorReason } from "../mcp/McpError.ts"
import type { JsonObject } from "../mcp/McpModel.ts"
import type { JsonRpcErrorObject, Transport, TransportHandlers } from "../mcp/McpTransport.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * A message the client sent, as parsed JSON.
 *
 * @category models
 * @since 0.1.0
 */
export interface Received {
  /** Of a request or an answer; absent from notifications. */
  readonly id?: string | number
  /** Absent from answers. */
  readonly method?: string
  /** Absent where the message has none. */
  readonly params?: JsonObject
  /** Of an answer that succeeded. */
  readonly result?: unknown
  /** Of an answer that failed. */
  readonly error?: JsonRpcErrorObject
}

/**
 * A tool of the peer.
 *
 * @category models
 * @since 0.1.0
 */
export interface PeerTool {
  /** The tool as it is listed; `inputSchema` is any object unless given. */
  readonly definition: JsonObject & { readonly name: string }
  /** The result of a call: a string is text content, anything else the whole result. */
  readonly call: (args: JsonObject, call: PeerCall) => Effect.Effect<unknown, JsonRpcErrorObject>
}

/**
 * The request a handler answers.
 *
 * @category models
 * @since 0.1.0
 */
export interface PeerCall {
  readonly id: string | number
  readonly params: JsonObject
  /** Reports progress, if the client asked for it. */
  readonly progress: (progress: number, total?: number, message?: string) => Effect.Effect<void>
}

/**
 * What a peer is.
 *
 * @category options
 * @since 0.1.0
 */
export interface PeerOptions {
  /** The revision it speaks: up to "2025-11-25" by handshake, from "2026-07-28" on without. Default: "2025-11-25". */
  readonly protocolVersion?: string | undefined
  /** Default: tools with list changes. */
  readonly capabilities?: JsonObject | undefined
  /** How the server wants to be used. Default: it does not say. */
  readonly instructions?: string | undefined
  /** Default: none. */
  readonly tools?: ReadonlyArray<PeerTool> | undefined
  /** Answers requests of other methods, or of these methods in another way. An answer that fails is an error answer. */
  readonly handlers?:
    | Readonly<Record<string, (params: JsonObject, call: PeerCall) => Effect.Effect<unknown, JsonRpcErrorObject>>>
    | undefined
}

/**
 * A server under the control of a test.
 *
 * @category models
 * @since 0.1.0
 */
export interface McpPeer {
  /** Reaches the peer. It has one connection at a time: a new one closes the one before. */
  readonly transport: Transport
  /** Connects a client to the peer, and closes the connection before. */
  readonly connect: (options?: McpClient.ClientOptions) => Effect.Effect<McpClient.McpClient, McpError, Scope.Scope>
  /** What clients sent so far. */
  readonly received: Effect.Effect<ReadonlyArray<Received>>
  /** Replaces the tools, without telling anybody. */
  readonly setTools: (tools: ReadonlyArray<PeerTool>) => Effect.Effect<void>
  /** Sends a notification to the client. */
  readonly notify: (method: string, params?: JsonObject) => Effect.Effect<void>
  /** Sends a request to the client and waits for its answer. */
  readonly request: (method: string, params?: JsonObject) => Effect.Effect<unknown, JsonRpcErrorObject>
  /** Sends any JSON value. */
  readonly send: (message: unknown) => Effect.Effect<void>
  /** Goes away. Default reason: `Closed`. */
  readonly disconnect: (reason?: McpErrorReason) => Effect.Effect<void>
}

// =============================================================================
// Constructors
// =============================================================================

/**
 * Makes a peer that lives as long as the Scope.
 *
 * **Example** (A client and a server in one test)
 *
 * ```ts run
 * import { McpPeer } from "agcore/testing"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const peer = yield* McpPeer.make({
 *     tools: [{ definition: { name: "shout" }, call: ({ text }) => Effect.succeed(String(text).toUpperCase()) }]
 *   })
 *   const client = yield* peer.connect()
 *   return yield* client.callTool("shout", { text: "hey" })
 * }).pipe(Effect.scoped)
 *
 * const result = await Effect.runPromise(program)
 * result.content.map((block) => block.type === "text" && block.text) // => ["HEY"]
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: (options?: PeerOptions) => Effect.Effect<McpPeer, never, Scope.Scope> = Effect.fnUntraced(
  function*(options: PeerOptions = {}) {
    const run = yield* FiberSet.makeRuntime<never, void, never>()
    const version = options.protocolVersion ?? "2025-11-25"
    const modern = version >= "2026-07-28"
    const capabilities = options.capabilities ?? { tools: { listChanged: true } }
    const serverInfo = { name: "peer", version: "0.0.0" }
    const received: Array<Received> = []
    const asked = new Map<number, Deferred.Deferred<unknown, JsonRpcErrorObject>>()
    let tools = options.tools ?? []
    let handlers: TransportHandlers | undefined
    let nextId = 1

    const send = (message: unknown): void => handlers?.receive(JSON.parse(JSON.stringify(message)))

    const complete = (result: unknown): unknown => {
      const whole = typeof result === "string" ? { content: [{ type: "text", text: result }] } : result
      return modern && isObject(whole) ? { resultType: "complete", ...whole } : whole
    }

    const unknownMethod = (method: string): Effect.Effect<never, JsonRpcErrorObject> =>
      Effect.fail({ code: -32601, message: `Method not found: ${method}` })

    const answer = (method: string, params: JsonObject, call: PeerCall): Effect.Effect<unknown, JsonRpcErrorObject> => {
      const own = options.handlers?.[method]
      if (own !== undefined) return own(params, call)
      switch (method) {
        case "initialize":
          return modern
            ? unknownMethod(method)
            : Effect.succeed({ protocolVersion: version, capabilities, serverInfo, instructions: options.instructions })
        case "server/discover":
          return modern
            ? Effect.succeed({
              supportedVersions: [version],
              capabilities,
              instructions: options.instructions,
              _meta: { "io.modelcontextprotocol/serverInfo": serverInfo }
            })
            : unknownMethod(method)
        case "ping":
          return Effect.succeed({})
        case "tools/list":
          return Effect.succeed({
            tools: tools.map(({ definition }) => ({ inputSchema: { type: "object" }, ...definition }))
          })
        case "tools/call": {
          const tool = tools.find(({ definition }) => definition.name === params["name"])
          const args = isObject(params["arguments"]) ? params["arguments"] : {}
          return tool === undefined
            ? Effect.fail({ code: -32602, message: `Unknown tool: ${String(params["name"])}` })
            : Effect.map(tool.call(args, call), (result) => typeof result === "string" ? complete(result) : result)
        }
        default:
          return unknownMethod(method)
      }
    }

    const callOf = (id: string | number, params: JsonObject): PeerCall => ({
      id,
      params,
      progress: (progress, total, message) =>
        Effect.sync(() => {
          const progressToken = isObject(params["_meta"]) ? params["_meta"]["progressToken"] : undefined
          if (progressToken === undefined) return
          send({
            jsonrpc: "2.0",
            method: "notifications/progress",
            params: { progressToken, progress, total, message }
          })
        })
    })

    const take = (message: Received): void => {
      const { error, id, method, params = {} } = message
      if (method === undefined) {
        const waiting = typeof id === "number" ? asked.get(id) : undefined
        if (waiting !== undefined) {
          Deferred.doneUnsafe(waiting, error === undefined ? Effect.succeed(message.result) : Effect.fail(error))
        }
        return
      }
      if (id === undefined) return
      run(Effect.match(Effect.suspend(() => answer(method, params, callOf(id, params))), {
        onSuccess: (result) => send({ jsonrpc: "2.0", id, result: complete(result) }),
        onFailure: (error) => send({ jsonrpc: "2.0", id, error })
      }))
    }

    const offer = (message: unknown): boolean => {
      const copy: Received = JSON.parse(JSON.stringify(message))
      if (handlers === undefined) return true
      received.push(copy)
      // Not in the turn of whoever sends: as over a wire.
      run(Effect.andThen(Effect.yieldNow, Effect.sync(() => take(copy))))
      return true
    }

    const transport: Transport = {
      kind: "memory",
      label: "peer",
      start: (given) =>
        Effect.acquireRelease(
          Effect.sync(() => {
            const before = handlers
            handlers = given
            before?.closed(new Closed())
          }),
          () =>
            Effect.sync(() => {
              if (handlers === given) handlers = undefined
            })
        ),
      request: (message) => Effect.sync(() => void offer(message)),
      notify: (message) => Effect.sync(() => void offer(message)),
      offer,
      agreed: () => {}
    }

    return {
      transport,
      connect: (options) => McpClient.make(transport, { name: "peer", ...options }),
      received: Effect.sync(() => [...received]),
      setTools: (next) =>
        Effect.sync(() => {
          tools = next
        }),
      notify: (method, params) => Effect.sync(() => send({ jsonrpc: "2.0", method, params })),
      request: (method, params) =>
        Effect.suspend(() => {
          const id = nextId++
          const answered = Deferred.makeUnsafe<unknown, JsonRpcErrorObject>()
          asked.set(id, answered)
          send({ jsonrpc: "2.0", id, method, params })
          return Effect.ensuring(Deferred.await(answered), Effect.sync(() => asked.delete(id)))
        }),
      send: (message) => Effect.sync(() => send(message)),
      disconnect: (reason) =>
        Effect.sync(() => {
          const current = handlers
          handlers = undefined
          current?.closed(reason ?? new Closed())
        })
    }
  }
)

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
