/**
 * A server's tools in a registry, under the same policy, limits and events as any other.
 *
 * They are named after the server, follow its list while a conversation runs, and fail with a typed error while the server is
 * away. What a server says about itself widens no permission.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Names from "../internal/names.ts"
import type { Permission } from "../tools/Permission.ts"
import * as Tool from "../tools/Tool.ts"
import { ToolContext } from "../tools/ToolContext.ts"
import { ToolError } from "../tools/ToolError.ts"
import { type ToolGroup, ToolRegistry } from "../tools/ToolRegistry.ts"
import { normaliseSchema } from "./internal/schemaNormalise.ts"
import { toToolOutput, toToolReason } from "./internal/toModel.ts"
import type { McpClient } from "./McpClient.ts"
import type { McpError } from "./McpError.ts"
import type * as McpModel from "./McpModel.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * How a server's tools are registered.
 *
 * @category options
 * @since 0.1.0
 */
export interface RegisterOptions {
  /** What their names begin with, before `__`; `false` leaves them as they are. Default: the client's name. */
  readonly prefix?: string | false | undefined
  /** Which tools are registered. Default: all the client can run. */
  readonly filter?: ((tool: McpModel.Tool) => boolean) | undefined
  /** What they may do, beside `custom:mcp/<server>`, which each of them declares. Default: nothing more. */
  readonly permissions?:
    | ReadonlyArray<Permission>
    | ((tool: McpModel.Tool) => ReadonlyArray<Permission>)
    | undefined
  /**
   * Whether the server's own hints are believed: `readOnlyHint` adds `read`, `destructiveHint` `delete` and `openWorldHint`
   * `network` to the permissions, and the hints are the tool's. Default `false`.
   */
  readonly trustHints?: boolean | undefined
  /** What becomes of the tools while the server is away: `keep` lets their calls fail, `remove` takes them out. Default `keep`. */
  readonly onDisconnect?: "keep" | "remove" | undefined
  /** How long one call may take. Default: the client's time, inside the registry's. */
  readonly timeout?: Duration.Input | undefined
}

// =============================================================================
// Constructors
// =============================================================================

/**
 * The permission that every tool of a server declares, `custom:mcp/<server>`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const permission = (server: string): Permission => `custom:mcp/${server}`

/**
 * Registers a server's tools until the Scope closes, and follows the list of the server.
 *
 * Fails when the tools cannot be listed now. A tool whose name is taken is left out and logged; so is a list that cannot be
 * had later: the tools before it stay.
 *
 * **Example** (Tools of a server in the same process)
 *
 * ```ts run
 * import { PermissionPolicy, ToolRegistry } from "agcore"
 * import { McpTools } from "agcore/mcp"
 * import { McpPeer } from "agcore/testing"
 * import { Effect, Layer } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const peer = yield* McpPeer.make({
 *     tools: [{ definition: { name: "shout" }, call: ({ text }) => Effect.succeed(String(text).toUpperCase()) }]
 *   })
 *   yield* McpTools.register(yield* peer.connect({ name: "loud" }))
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   const invocation = yield* registry.invoke({ id: "1", name: "loud__shout", params: { text: "hey" } })
 *   return invocation.output
 * }).pipe(
 *   Effect.scoped,
 *   Effect.provide(ToolRegistry.layer().pipe(Layer.provide(PermissionPolicy.layer({ allowed: ["custom:mcp/loud"] }))))
 * )
 *
 * await Effect.runPromise(program) // => "HEY"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const register: (
  client: McpClient,
  options?: RegisterOptions
) => Effect.Effect<void, McpError, Scope.Scope | ToolRegistry> = Effect.fnUntraced(function*(client, options = {}) {
  const registry = yield* ToolRegistry
  const group = yield* registry.group
  const made = new Map<string, Made>()
  const show = (tools: ReadonlyArray<McpModel.Tool>) => replace(group, client, tools, options, made)

  const follow = (notification: McpModel.Notification): Effect.Effect<void> => {
    switch (notification._tag) {
      case "ToolsChanged":
      case "Reconnected":
        return Effect.flatMap(client.listTools, show).pipe(
          Effect.catch((error) => Effect.logWarning(`The tools of "${client.name}" stay as they were`, error))
        )
      case "Disconnected":
        return options.onDisconnect === "remove" ? show([]) : Effect.void
      default:
        return Effect.void
    }
  }

  // Listening begins before the list is read, so that no change falls between.
  yield* Effect.forkScoped(Stream.runForEach(client.notifications, follow), { startImmediately: true })
  yield* Effect.flatMap(client.listTools, show)
})

// =============================================================================
// Internals
// =============================================================================

/** A tool, and what the server said of it. */
interface Made {
  readonly listed: string
  readonly tool: Tool.Tool
}

const replace = Effect.fnUntraced(function*(
  group: ToolGroup,
  client: McpClient,
  listed: ReadonlyArray<McpModel.Tool>,
  options: RegisterOptions,
  made: Map<string, Made>
) {
  const known = new Map(made)
  made.clear()
  const tools = listed.filter((tool) => !tool.requiresTask && (options.filter?.(tool) ?? true)).map((tool) => {
    // What did not change stays the tool it was: its schema is not compiled again.
    const text = JSON.stringify(tool.raw)
    const before = known.get(tool.name)
    const now = before?.listed === text ? before : { listed: text, tool: toTool(client, tool, options) }
    made.set(tool.name, now)
    return now.tool
  })
  const refused = yield* group.set(tools, { names: "map" })
  for (const error of refused) yield* Effect.logWarning(error.message)
})

const toTool = (client: McpClient, tool: McpModel.Tool, options: RegisterOptions): Tool.Tool => {
  const prefix = options.prefix ?? client.name
  const { timeout } = options
  const hints = options.trustHints === true ? tool.hints : undefined
  return Tool.dynamic({
    name: prefix === false ? tool.name : Names.qualify(prefix, tool.name),
    description: tool.description ?? tool.title ?? "",
    inputSchema: normaliseSchema(tool.inputSchema),
    // A server's mistake in a schema is no reason to lose the tool: the server checks its arguments itself.
    onInvalidSchema: "unchecked",
    permissions: permissionsOf(client, tool, options),
    tags: ["mcp"],
    category: `mcp/${client.name}`,
    readonly: hints?.readOnly,
    destructive: hints?.destructive,
    idempotent: hints?.idempotent,
    openWorld: hints?.openWorld,
    // The client gives up first, and tells the server.
    timeout: timeout === undefined ? undefined : Duration.sum(Duration.fromInputUnsafe(timeout), MARGIN),
    handler: Effect.fnUntraced(function*(args) {
      const context = yield* ToolContext
      const result = yield* Effect.mapError(
        client.callTool(tool.name, args, { timeout, onProgress: (progress) => context.progress(progress) }),
        (error) => new ToolError({ toolName: tool.name, reason: toToolReason(error, args) })
      )
      return toToolOutput(result)
    })
  })
}

/** What a call may take beyond the client's time, to end in order. */
const MARGIN = Duration.seconds(5)

const permissionsOf = (
  client: McpClient,
  tool: McpModel.Tool,
  { permissions = [], trustHints }: RegisterOptions
): ReadonlyArray<Permission> => {
  const hinted: ReadonlyArray<Permission> = trustHints !== true ? [] : [
    ...(tool.hints.readOnly === true ? ["read" as const] : []),
    ...(tool.hints.destructive === true ? ["delete" as const] : []),
    ...(tool.hints.openWorld === true ? ["network" as const] : [])
  ]
  const configured = typeof permissions === "function" ? permissions(tool) : permissions
  return Array.from(new Set<Permission>([permission(client.name), ...configured, ...hinted]))
}
