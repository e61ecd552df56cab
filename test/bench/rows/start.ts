/**
 * What a program pays before it does anything: the time its imports take, and what is installed for them.
 */
import type { Row, Target } from "../harness.ts"
import { installedOf } from "../installed.ts"

/** What is imported, by contestant; the ones with a space import several. */
const IMPORTS = {
  openai: "openai",
  "ai (Vercel)": "ai @ai-sdk/openai-compatible",
  "@openai/agents": "@openai/agents",
  "effect/ai": "effect/Effect effect/ai/Chat effect/ai/LanguageModel effect/ai/Toolkit",
  agcore: "agcore",
  "agcore + openai": "agcore agcore/openai"
}

const MCP_IMPORTS = {
  client: "@modelcontextprotocol/client @modelcontextprotocol/client/stdio",
  sdk: "@modelcontextprotocol/sdk/client/index.js @modelcontextprotocol/sdk/client/stdio.js",
  "@ai-sdk/mcp": "@ai-sdk/mcp @ai-sdk/mcp/mcp-stdio",
  "effect McpClient": "effect/Effect effect/ai/McpClient @effect/platform-node/NodeServices",
  agcore: "agcore/mcp @effect/platform-node/NodeServices"
}

const row = (
  id: string,
  title: string,
  contestants: Readonly<Record<string, string>>,
  targets: Readonly<Record<string, ReadonlyArray<Target>>>
): Row => ({
  id,
  family: title,
  title,
  unit: "start",
  contestants,
  prepare: async (module) => ({
    units: 1,
    warmup: 0,
    runs: 1,
    run: async () => {
      for (const specifier of module.split(" ")) await import(specifier)
    },
    finish: async () => {}
  }),
  facts: (contestant) => installedOf(contestants[contestant]!.split(" ")),
  targets
})

export const starts: ReadonlyArray<Row> = [
  row("start", "Start of a loop", IMPORTS, {
    agcore: [{ limit: 200_000, of: "micros" }, { limit: 16, of: "packages" }],
    "agcore + openai": [{ limit: 330_000, of: "micros" }]
  }),
  row("start-mcp", "Start of an MCP client", MCP_IMPORTS, {})
]
