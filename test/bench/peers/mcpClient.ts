/**
 * `@modelcontextprotocol/client`, the second version of the official client.
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import { echoing, type McpContestant } from "../rows/mcp.ts"

export const connect: McpContestant["connect"] = async (server) => {
  const client = new Client({ name: "client", version: "1.0.0" })
  await client.connect(
    "url" in server
      ? new StreamableHTTPClientTransport(new URL(server.url))
      : new StdioClientTransport({ command: server.command, args: [...server.args] })
  )
  return {
    echo: echoing(async (text) => {
      const { content: [block] } = await client.callTool({ name: "echo", arguments: { text } })
      return block?.type === "text" ? block.text : undefined
    }),
    list: async () => (await client.listTools(undefined, { cacheMode: "refresh" })).tools.map((tool) => tool.name),
    close: () => client.close()
  }
}
