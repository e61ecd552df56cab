/**
 * MCP: echoes of three sizes, one at a time and many, and a long list of tools.
 */
import { type Environment, expectEqual, load, type Row, type Target, warmUp, type Work } from "../harness.ts"
import { TELL } from "../servers/mcp.ts"
import type { Seen } from "../servers/seen.ts"

/** How a server is reached. */
export type Server =
  | { readonly command: string; readonly args: ReadonlyArray<string> }
  | { readonly url: string }

/** A connection of a contestant. */
export interface Connection {
  /** Says each text to `echo`, so many at a time, and answers what came back, in order. */
  readonly echo: (texts: ReadonlyArray<string>, width: number) => Promise<ReadonlyArray<string | undefined>>
  /** Asks for the tools anew, whatever is kept, and answers their names. */
  readonly list: () => Promise<ReadonlyArray<string>>
  readonly close: () => Promise<void>
}

/** A contestant of the rows with MCP. */
export interface McpContestant {
  readonly connect: (server: Server) => Promise<Connection>
}

/** `echo` for those whose calls are promises. */
export const echoing =
  (call: (text: string) => Promise<string | undefined>): Connection["echo"] => async (texts, width) => {
    const answers = Array.from<string | undefined>({ length: texts.length })
    let next = 0
    const lane = async () => {
      while (next < texts.length) {
        const index = next++
        answers[index] = await call(texts[index]!)
      }
    }
    await Promise.all(Array.from({ length: width }, lane))
    return answers
  }

const CONTESTANTS = {
  raw: "./contestants/rawMcp.ts",
  client: "./peers/mcpClient.ts",
  sdk: "./peers/mcpSdk.ts",
  "@ai-sdk/mcp": "./peers/vercelMcp.ts",
  "effect McpClient": "./contestants/effectMcp.ts",
  agcore: "./contestants/agcoreMcp.ts"
}

const CONTESTANTS_OVER_HTTP = { ...CONTESTANTS, "agcore (fetch)": "./contestants/agcoreMcpFetch.ts" }

const contestantsOf = (transport: Transport) => transport === "http" ? CONTESTANTS_OVER_HTTP : CONTESTANTS

type Transport = "stdio" | "http"

const serverOf = (transport: Transport, tools: number, { key, mcpUrl }: Environment): Server =>
  transport === "http"
    ? { url: `${mcpUrl}/${key}/${tools}/mcp` }
    : { command: process.execPath, args: [new URL("../servers/mcpStdio.ts", import.meta.url).pathname, String(tools)] }

// =============================================================================
// Echo
// =============================================================================

interface Echo {
  readonly transport: Transport
  readonly size: number
  readonly width: number
  readonly calls: number
  /** Calls before the measured ones. */
  readonly warmup: number
}

/** Texts of one size, each another. */
const textsOf = (count: number, size: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) => `${index} `.padEnd(size, "echo "))

const echo = async (module: string, environment: Environment, options: Echo): Promise<Work> => {
  const { calls, size, transport, warmup, width } = options
  const { connect } = await load<McpContestant>(module)
  const connection = await connect(serverOf(transport, 1, environment))
  // Some check results by what the tool was listed with; all have listed it before.
  expectEqual(await connection.list(), ["echo"], "the tools")
  const texts = textsOf(calls, size)
  await warmUp(warmup, (from, to) => connection.echo(texts.slice(from, to), width))
  return {
    units: calls,
    warmup: "done",
    runs: 1,
    run: async () => {
      const answers = await connection.echo(texts, width)
      if (answers.length !== calls || answers.some((answer, index) => answer !== texts[index])) {
        throw new Error("what was echoed is not what was said")
      }
    },
    finish: async () => {
      const [told] = await connection.echo([TELL], 1)
      const seen: Seen = JSON.parse(told ?? "")
      expectEqual(seen, { requests: calls + warmup, problems: [] }, "what the server saw")
      await connection.close()
    }
  }
}

const echoRow = (options: Echo, size: string, targets: ReadonlyArray<Target>): Row => ({
  id: `mcp-${options.transport}-${size.replaceAll(" ", "").toLowerCase()}-${options.width}`,
  family: `MCP over ${NAMES[options.transport]}`,
  title: `MCP ${NAMES[options.transport]}, echo ${size}, ${
    options.width === 1 ? "sequential" : `${options.width} wide`
  }`,
  unit: "call",
  contestants: contestantsOf(options.transport),
  prepare: (module, environment) => echo(module, environment, options),
  targets: { agcore: targets }
})

const NAMES = { stdio: "stdio", http: "HTTP" }

// =============================================================================
// List
// =============================================================================

const TOOLS = 2_000

const listRow = (transport: Transport, targets: ReadonlyArray<Target>): Row => ({
  id: `mcp-${transport}-tools`,
  family: `MCP over ${NAMES[transport]}`,
  title: `MCP ${NAMES[transport]}, ${TOOLS.toLocaleString("en")} tools listed`,
  unit: "list",
  contestants: contestantsOf(transport),
  prepare: async (module, environment) => {
    const { connect } = await load<McpContestant>(module)
    const connection = await connect(serverOf(transport, TOOLS, environment))
    return {
      units: 1,
      warmup: 4,
      runs: 8,
      run: async () => {
        const names = await connection.list()
        expectEqual([names.length, names.at(-1)], [TOOLS, `tool_${TOOLS - 1}`], "the list")
      },
      finish: connection.close
    }
  },
  targets: { agcore: targets }
})

// =============================================================================
// Rows
// =============================================================================

/** A call over HTTP costs many times one over a pipe. */
const callsOf = (transport: Transport, count: number) => {
  const calls = transport === "stdio" ? count : count / 4
  return { calls, warmup: calls }
}

const ratio = (limit: number): ReadonlyArray<Target> => [{ limit, of: "ratio" }]

const rowsOf = (
  transport: Transport,
  targets: Record<"small" | "smallWide" | "large" | "list", ReadonlyArray<Target>>
): ReadonlyArray<Row> => [
  echoRow({ transport, size: 20, width: 1, ...callsOf(transport, 2_000) }, "20 B", targets.small),
  echoRow({ transport, size: 20, width: 64, ...callsOf(transport, 6_000) }, "20 B", targets.smallWide),
  echoRow({ transport, size: 10_000, width: 1, ...callsOf(transport, 800) }, "10 KB", []),
  echoRow({ transport, size: 10_000, width: 64, ...callsOf(transport, 1_000) }, "10 KB", []),
  echoRow({ transport, size: 1_000_000, width: 1, calls: 10, warmup: 4 }, "1 MB", targets.large),
  echoRow({ transport, size: 1_000_000, width: 64, calls: 64, warmup: 8 }, "1 MB", targets.large),
  listRow(transport, targets.list)
]

export const mcpRows: ReadonlyArray<Row> = [
  ...rowsOf("stdio", { small: ratio(1.4), smallWide: ratio(2.2), large: ratio(1.6), list: ratio(1.4) }),
  ...rowsOf("http", { small: ratio(1.1), smallWide: ratio(1.1), large: [], list: [] })
]
