/** What the tests of the MCP client share. */
import { NodeServices } from "@effect/platform-node"
import type { McpError } from "agcore/mcp"
import { McpClient } from "agcore/mcp"
import { Effect, type Scope } from "effect"
import { fileURLToPath } from "node:url"

export const SERVER = fileURLToPath(new URL("fixtures/server.mjs", import.meta.url))

/** Processes start slowly on a busy machine. */
export const SLOW = { timeout: 60_000 }

export type Script = Readonly<Record<string, unknown>>

/** Connects to the scripted server in `fixtures/server.mjs`. */
export const connect = (script: Script = {}, options: Partial<McpClient.StdioOptions> = {}) =>
  McpClient.stdio({
    name: "scripted",
    command: process.execPath,
    args: [SERVER, JSON.stringify(script)],
    closeGrace: "2 seconds",
    ...options
  })

/** Runs a test that starts processes, in a scope, on the real clock. */
export const scoped = <A, E>(
  effect: Effect.Effect<A, E, Scope.Scope | NodeServices.NodeServices>
): Effect.Effect<A, E> => effect.pipe(Effect.scoped, Effect.provide(NodeServices.layer))

export const textOf = (result: { readonly content: ReadonlyArray<{ readonly type: string }> }): string =>
  result.content.flatMap((block) => "text" in block && typeof block.text === "string" ? [block.text] : []).join("\n")

/** The reason an effect fails with. */
export const reasonOf = <A, R>(
  effect: Effect.Effect<A, McpError.McpError, R>
): Effect.Effect<McpError.McpErrorReason, A, R> => Effect.map(Effect.flip(effect), (error) => error.reason)

/** The messages a scripted server received so far, by its own account. */
export const receivedBy = (client: McpClient.McpClient) =>
  Effect.map(
    client.callTool("received"),
    (result) => JSON.parse(textOf(result)) as ReadonlyArray<{ method?: string; id?: unknown; params?: unknown }>
  )
