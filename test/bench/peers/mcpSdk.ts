/**
 * `@modelcontextprotocol/sdk`, the first version of the official client.
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js"
import { echoing, type McpContestant } from "../rows/mcp.ts"

export const connect: McpContestant["connect"] = async (server) => {
  const client = new Client({ name: "sdk", version: "1.0.0" })
  await client.connect(
    "url" in server
      ? new StreamableHTTPClientTransport(new URL(server.url))
      : new StdioClientTransport({ command: server.command, args: [...server.args] })
  )
  return {
    echo: echoing(async (text) => {
      const result = await client.callTool({ name: "echo", arguments: { text } }, CallToolResultSchema)
      const [block] = CallToolResultSchema.parse(result).content
      return block?.type === "text" ? block.text : undefined
    }),
    list: async () => (await client.listTools()).tools.map((tool) => tool.name),
    close: () => client.close()
  }
}
