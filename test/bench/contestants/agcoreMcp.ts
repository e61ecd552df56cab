/**
 * agcore's MCP client, with the HTTP client that its documentation names for Node.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { McpClient } from "agcore/mcp"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import type { McpContestant } from "../rows/mcp.ts"
import { scoped } from "./scoped.ts"

export const connect: McpContestant["connect"] = async (server) => {
  const runtime = ManagedRuntime.make(Layer.mergeAll(NodeServices.layer, NodeHttpClient.layerUndici))
  const [client, close] = await scoped(runtime, "url" in server ? McpClient.http(server) : McpClient.stdio(server))
  const call = (text: string) =>
    Effect.map(
      client.callTool("echo", { text }),
      ({ content: [block] }) => block?.type === "text" ? block.text : undefined
    )
  return {
    echo: (texts, width) => runtime.runPromise(Effect.forEach(texts, call, { concurrency: width })),
    list: () => runtime.runPromise(Effect.map(client.refreshTools, (tools) => tools.map((tool) => tool.name))),
    close
  }
}
