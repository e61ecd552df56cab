/**
 * The baseline: JSON lines over a pipe, or JSON bodies over `fetch`, and a map of who waits for what.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { type Connection, echoing, type McpContestant, type Server } from "../rows/mcp.ts"
import { REVISION } from "../servers/mcp.ts"

interface Answer {
  readonly id: number
  readonly result: {
    readonly content: ReadonlyArray<{ readonly text: string }>
    readonly tools: ReadonlyArray<{ readonly name: string }>
  }
}

interface Wire {
  readonly request: (id: number, message: string) => Promise<Answer>
  readonly notify: (message: string) => Promise<void>
  readonly close: () => Promise<void>
}

const stdio = ({ args, command }: Extract<Server, { command: string }>): Wire => {
  const server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] })
  const waiting = new Map<number, (answer: Answer) => void>()
  let begun: Array<string> = []
  server.stdout.setEncoding("utf8")
  server.stdout.on("data", (chunk: string) => {
    const lines = chunk.split("\n")
    const last = lines.pop() ?? ""
    for (const line of lines) {
      const answer: Answer = JSON.parse(begun.length === 0 ? line : begun.join("") + line)
      begun = []
      waiting.get(answer.id)?.(answer)
      waiting.delete(answer.id)
    }
    if (last !== "") begun.push(last)
  })
  return {
    request: (id, message) =>
      new Promise((resolve) => {
        waiting.set(id, resolve)
        server.stdin.write(`${message}\n`)
      }),
    notify: async (message) => {
      server.stdin.write(`${message}\n`)
    },
    close: async () => {
      server.stdin.end()
      await once(server, "exit")
    }
  }
}

const http = (url: string): Wire => {
  const post = (body: string) =>
    fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": REVISION
      },
      body
    })
  return {
    request: async (_, message) => await (await post(message)).json() as Answer,
    notify: async (message) => {
      await (await post(message)).text()
    },
    close: async () => {}
  }
}

const connectionOf = async ({ close, notify, request }: Wire): Promise<Connection> => {
  let id = 0
  const ask = async (method: string, params: unknown) =>
    (await request(++id, JSON.stringify({ jsonrpc: "2.0", id, method, params }))).result
  const clientInfo = { name: "raw", version: "1.0.0" }
  await ask("initialize", { protocolVersion: REVISION, capabilities: {}, clientInfo })
  await notify(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }))
  return {
    echo: echoing(async (text) => (await ask("tools/call", { name: "echo", arguments: { text } })).content[0]?.text),
    list: async () => (await ask("tools/list", {})).tools.map((tool) => tool.name),
    close
  }
}

export const connect: McpContestant["connect"] = (server) =>
  connectionOf("url" in server ? http(server.url) : stdio(server))
