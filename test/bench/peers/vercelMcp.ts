/**
 * `@ai-sdk/mcp`.
 */
import { createMCPClient } from "@ai-sdk/mcp"
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio"
import { echoing, type McpContestant } from "../rows/mcp.ts"

export const connect: McpContestant["connect"] = async (server) => {
  const client = await createMCPClient({
    transport: "url" in server
      ? { type: "http", url: server.url }
      : new StdioTransport({ command: server.command, args: [...server.args] })
  })
  return {
    echo: echoing(async (text) => {
      const { content } = await client.callTool({ name: "echo", arguments: { text } })
      // The type leaves room for results of 2024 without content, which this server has not.
      const [block] = content as ReadonlyArray<{ readonly text?: string }>
      return block?.text
    }),
    list: async () => (await client.listTools()).tools.map((tool) => tool.name),
    close: () => client.close()
  }
}
