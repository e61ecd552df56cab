/*
 * The MCP servers of `--mcp`: shown before they start, connected to a registry,
 * and complained about where they cannot be reached.
 */
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { secretArguments } from "../internal/secretArguments.ts"
import { shown, shownName } from "../internal/shown.ts"
import * as McpConfig from "../mcp/McpConfig.ts"
import * as McpServers from "../mcp/McpServers.ts"
import * as McpTools from "../mcp/McpTools.ts"
import type { Permission } from "../tools/Permission.ts"
import { failed, usage } from "./failure.ts"
import { style, write } from "./output.ts"

/** Reads the file; what is wrong with it is told with its line. */
export const read = (file: string) => Effect.mapError(McpConfig.fromFile(file), (error) => usage(error.message))

/** Naming a server's file is leave to use the server; what its tools do beyond that needs leave of its own. */
export const permissions = (config: McpConfig.McpConfig): ReadonlyArray<Permission> =>
  Object.keys(config).map(McpTools.permission)

/** Connects the servers to the registry below. One that is broken costs the others nothing, but one has to work. */
export const layer = (config: McpConfig.McpConfig) =>
  Layer.effectDiscard(
    Effect.gen(function*() {
      const paint = style(process.stderr)
      const tell = (line: string) => Effect.ignore(write(process.stderr, `${line}\n`))
      for (const [name, server] of Object.entries(config)) {
        if (server.disabled !== true) yield* tell(paint.dim(`${shownName(name)}: ${describe(server)}`))
      }
      const states = Array.from((yield* McpServers.make(config)).states.values())
      for (const state of states) {
        if (state._tag === "Failed") yield* tell(`${paint.red("✗")} ${shown(state.error.message)}`)
      }
      const tried = states.filter((state) => state._tag !== "Disabled")
      if (tried.length > 0 && tried.every((state) => state._tag === "Failed")) {
        return yield* failed("no MCP server could be reached")
      }
    })
  ).pipe(Layer.provide(FetchHttpClient.layer))

/** What will run, or be talked to. Values from the environment and secrets stay hidden. */
const describe = (server: McpConfig.Server): string => {
  if (server.type === "http") return shownName(String(server.url).replace(/[?#].*/, ""))
  const args = (server.args ?? []).map((arg) => Redacted.isRedacted(arg) ? "<from the environment>" : arg)
  const secrets = secretArguments(args)
  const shownArgs = args.map((arg) => secrets.reduce((text, secret) => text.replaceAll(secret, "<redacted>"), arg))
  return shownName([server.command, ...shownArgs].join(" "))
}
