/**
 * Several servers, their tools in one registry.
 *
 * Each server lives as long as the Layer. One that cannot be reached costs the others nothing: it is logged, and its state
 * says why.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as FileSystem from "effect/FileSystem"
import type { HttpClient } from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Scope from "effect/Scope"
import type { ToolRegistry } from "../tools/ToolRegistry.ts"
import * as McpClient from "./McpClient.ts"
import * as McpConfig from "./McpConfig.ts"
import type { McpError } from "./McpError.ts"
import * as McpTools from "./McpTools.ts"

// =============================================================================
// Service
// =============================================================================

/**
 * What became of a configured server.
 *
 * @category models
 * @since 0.1.0
 */
export type ServerState =
  | { readonly _tag: "Connected"; readonly client: McpClient.McpClient }
  | { readonly _tag: "Failed"; readonly error: McpError }
  | { readonly _tag: "Disabled" }

/**
 * The configured servers.
 *
 * **Example** (Two servers, one of them broken)
 *
 * ```ts run
 * import { NodeServices } from "@effect/platform-node"
 * import { PermissionPolicy, ToolRegistry } from "agcore"
 * import { McpServers } from "agcore/mcp"
 * import { Effect, Layer } from "effect"
 * import { FetchHttpClient } from "effect/http"
 *
 * const Servers = McpServers.layer({
 *   memory: {
 *     type: "stdio",
 *     command: "node",
 *     args: ["node_modules/@modelcontextprotocol/server-memory/dist/index.js"]
 *   },
 *   broken: { type: "stdio", command: "no-such-command" }
 * }).pipe(
 *   Layer.provideMerge(ToolRegistry.layer()),
 *   Layer.provide([PermissionPolicy.layer(), NodeServices.layer, FetchHttpClient.layer])
 * )
 *
 * const program = Effect.gen(function*() {
 *   const servers = yield* McpServers.McpServers
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   const states = Array.from(servers.states, ([name, state]) => `${name}: ${state._tag}`)
 *   return [...states, (yield* registry.list).some((tool) => tool.name === "memory__read_graph")]
 * }).pipe(Effect.provide(Servers))
 *
 * await Effect.runPromise(program) // => ["memory: Connected", "broken: Failed", true]
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export class McpServers extends Context.Service<McpServers, {
  /** What became of each server when the Layer was built, in the order of the configuration. */
  readonly states: ReadonlyMap<string, ServerState>
}>()("agcore/mcp/McpServers") {}

// =============================================================================
// Constructors
// =============================================================================

/**
 * Connects to all servers at once and registers their tools. Takes no longer than the slowest of them may.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: (
  config: McpConfig.McpConfig
) => Effect.Effect<
  McpServers["Service"],
  never,
  Scope.Scope | ToolRegistry | ChildProcessSpawner | HttpClient
> = Effect.fnUntraced(function*(config) {
  const states = yield* Effect.forEach(
    Object.entries(config),
    ([name, server]) => Effect.map(connect(name, server), (state) => [name, state] as const),
    { concurrency: "unbounded" }
  )
  return { states: new Map(states) }
})

// =============================================================================
// Layers
// =============================================================================

/**
 * Provides the servers of a value. Their tools join the registry below.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  config: McpConfig.McpConfig
): Layer.Layer<McpServers, never, ToolRegistry | ChildProcessSpawner | HttpClient> =>
  Layer.effect(McpServers, make(config))

/**
 * Provides the servers of an `mcp.json` file. Fails if the file cannot be used.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerFile = (
  file: string
): Layer.Layer<
  McpServers,
  McpConfig.McpConfigError,
  ToolRegistry | ChildProcessSpawner | HttpClient | FileSystem.FileSystem
> => Layer.effect(McpServers, Effect.flatMap(McpConfig.fromFile(file), make))

// =============================================================================
// Internals
// =============================================================================

type Connecting = Effect.Effect<
  McpClient.McpClient,
  McpError,
  Scope.Scope | ToolRegistry | ChildProcessSpawner | HttpClient
>

const connect = (
  name: string,
  server: McpConfig.Server
): Effect.Effect<ServerState, never, Effect.Services<Connecting>> => {
  if (server.disabled === true) return Effect.succeed({ _tag: "Disabled" })
  const client: Connecting = server.type === "stdio"
    ? McpClient.stdio({ name, ...server })
    : McpClient.http({ name, ...server })
  // In a scope of its own: a server whose tools cannot be listed is not left running for nobody.
  return Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.flatMap(Effect.scope, (outer) => Scope.fork(outer)), (scope) =>
      client.pipe(
        Effect.tap((client) => McpTools.register(client, server.tools)),
        Effect.map((client): ServerState => ({ _tag: "Connected", client })),
        Scope.provide(scope),
        restore,
        Effect.onExit((exit) => Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void)
      ))
  ).pipe(
    Effect.catch((error) => Effect.as(Effect.logWarning(error.message), { _tag: "Failed" as const, error }))
  )
}
