/**
 * agcore's MCP client, with the HTTP client that its documentation names for Node.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { McpClient } from "agcore/mcp"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import type * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import type { McpContestant } from "../rows/mcp.ts"
import { scoped } from "./scoped.ts"

export const over = (http: Layer.Layer<HttpClient.HttpClient>): McpContestant["connect"] => async (server) => {
  const [client, close] = await ("url" in server
    ? scoped(ManagedRuntime.make(http), McpClient.http(server))
    : scoped(ManagedRuntime.make(NodeServices.layer), McpClient.stdio(server)))
  const call = (text: string) =>
    Effect.map(
      client.callTool("echo", { text }),
      ({ content: [block] }) => block?.type === "text" ? block.text : undefined
    )
  return {
    echo: (texts, width) => Effect.runPromise(Effect.forEach(texts, call, { concurrency: width })),
    list: () => Effect.runPromise(Effect.map(client.refreshTools, (tools) => tools.map((tool) => tool.name))),
    close
  }
}

export const connect = over(NodeHttpClient.layerUndici)
