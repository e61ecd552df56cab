/**
 * The MCP client of effect/ai, with the HTTP client that agcore's has.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as McpClient from "effect/ai/McpClient"
import type { McpClientError } from "effect/ai/McpClientError"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type * as Scope from "effect/Scope"
import type { McpContestant } from "../rows/mcp.ts"
import { scoped } from "./scoped.ts"

export const connect: McpContestant["connect"] = async (server) => {
  const runtime = ManagedRuntime.make(Layer.mergeAll(NodeServices.layer, NodeHttpClient.layerUndici))
  const protocol = McpProtocol.v2025_11_25
  const transport: Effect.Effect<
    McpClient.Transport,
    McpClientError,
    ChildProcessSpawner | HttpClient.HttpClient | Scope.Scope
  > = "url" in server
    ? McpClient.http({ url: server.url, protocol })
    : McpClient.stdio({ command: ChildProcess.make(server.command, server.args), protocol })
  const make = McpClient.make({ name: "effect", version: "1.0.0" })
  const [client, close] = await scoped(runtime, Effect.provideServiceEffect(make, McpClient.Transport, transport))
  const [tool] = await runtime.runPromise(client.listTools())
  const call = (text: string) =>
    Effect.map(
      client.callTool({ tool: tool!, arguments: { text } }),
      ({ content: [block] }) => block?.type === "text" ? block.text : undefined
    )
  return {
    echo: (texts, width) => runtime.runPromise(Effect.forEach(texts, call, { concurrency: width })),
    list: () => runtime.runPromise(Effect.map(client.listTools(), (tools) => tools.map((tool) => tool.name))),
    close
  }
}
