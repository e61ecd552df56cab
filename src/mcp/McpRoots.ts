/**
 * The directories and files a server may know to be the subject of the work.
 *
 * A client whose context has `McpRoots` offers them to its server; without it no server can ask.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

/**
 * A place the server may look at, as a `file:` URI.
 *
 * @category models
 * @since 0.1.0
 */
export interface Root {
  readonly uri: string
  /** For people. Default: none. */
  readonly name?: string | undefined
}

/**
 * The roots in force, and a signal for each time they change.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/client/roots
 *
 * @category services
 * @since 0.1.0
 */
export class McpRoots extends Context.Service<McpRoots, {
  readonly list: Effect.Effect<ReadonlyArray<Root>>
  readonly changes: Stream.Stream<void>
}>()("agcore/mcp/McpRoots") {}

/**
 * Roots that stay the same.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (roots: ReadonlyArray<Root>): Layer.Layer<McpRoots> =>
  Layer.succeed(McpRoots, { list: Effect.succeed(roots), changes: Stream.empty })
