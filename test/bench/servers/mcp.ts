/**
 * What an MCP server of the benches answers, whatever it is reached by: `echo`, and lists of any length.
 *
 * Only the handshake of 2025-11-25 is spoken, the newest that every contestant knows.
 */
import { note, type Seen } from "./seen.ts"

interface Request {
  readonly id?: number | string
  readonly method: string
  readonly params?: { readonly name?: string; readonly arguments?: { readonly text?: unknown } }
}

export const REVISION = "2025-11-25"

/** Said to `echo`, it answers what the server saw so far: the one way that is open to every client on every transport. */
export const TELL = "What did you see?"

const stringField = (description: string) => ({ type: "string", description })

/** `echo`, then others of the size that tools have. */
const toolsOf = (count: number) =>
  Array.from({ length: count }, (_, index) =>
    index === 0
      ? {
        name: "echo",
        description: "Says what it is told",
        inputSchema: { type: "object", properties: { text: stringField("What to say") }, required: ["text"] }
      }
      : {
        name: `tool_${index}`,
        title: `Tool ${index}`,
        description: `Looks up record ${index} of the archive and tells what it holds`,
        inputSchema: {
          type: "object",
          properties: {
            key: stringField("The key of the record, as the index lists it"),
            limit: { type: "integer", description: "How many lines to return at most", minimum: 1 },
            format: { ...stringField("How to lay the lines out"), enum: ["plain", "table", "json"] }
          },
          required: ["key"]
        },
        annotations: { readOnlyHint: true, openWorldHint: false }
      })

/** A function that answers a message with the line to send, or nothing if it is a notification. */
export const answering = (tools: number, seen: () => Seen) => {
  const list = JSON.stringify({ tools: toolsOf(tools) })
  return (line: string): string | undefined => {
    const { id, method, params }: Request = JSON.parse(line)
    if (id === undefined) return undefined
    const answer = (member: string) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${member}}`
    switch (method) {
      case "initialize":
        return answer(`"result":${
          JSON.stringify({
            protocolVersion: REVISION,
            capabilities: { tools: {} },
            serverInfo: { name: "bench", version: "1.0.0" }
          })
        }`)
      case "ping":
        return answer("\"result\":{}")
      case "tools/list":
        return answer(`"result":${list}`)
      case "tools/call": {
        const said = params?.arguments?.text
        const isFit = params?.name === "echo" && typeof said === "string"
        if (said !== TELL) note(seen(), isFit ? [] : [line.slice(0, 300)])
        const text = said === TELL ? JSON.stringify(seen()) : said
        return answer(`"result":{"content":[{"type":"text","text":${JSON.stringify(text)}}]}`)
      }
      default:
        return answer("\"error\":{\"code\":-32601,\"message\":\"Method not found\"}")
    }
  }
}
