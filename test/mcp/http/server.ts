/**
 * An HTTP server on the loopback whose answers a test writes, and what it saw.
 */
import { Effect, type Scope } from "effect"
import * as Http from "node:http"
import type { AddressInfo } from "node:net"

/** A JSON-RPC message as it came. */
interface Message {
  readonly id?: number | string
  readonly method?: string
  readonly params?: Record<string, unknown>
  readonly result?: unknown
}

/** Sockets and a busy machine take their time; nothing waits that long when all is well. */
export const PATIENT = { timeout: 30_000 }

/** One request, and the means to answer it. */
export interface Visit {
  /** When it came, in milliseconds. */
  readonly at: number
  readonly method: string
  readonly path: string
  readonly headers: Http.IncomingHttpHeaders
  readonly message: Message
  /** Whether the client went away before the answer was complete. */
  gone: boolean
  readonly response: Http.ServerResponse
  readonly status: (status: number, body?: string | Buffer, headers?: Record<string, string>) => void
  readonly json: (value: unknown, status?: number, headers?: Record<string, string>) => void
  /** Answers the request of this visit. */
  readonly result: (result: unknown, headers?: Record<string, string>) => void
  /** Begins an event stream and sends its first text. */
  readonly events: (text: string, headers?: Record<string, string>) => void
  /** The text of an event that answers the request of this visit. */
  readonly answer: (result: unknown) => string
}

export interface Server {
  readonly origin: string
  readonly url: string
  readonly port: number
  readonly visits: Array<Visit>
  /** The visits of one kind: "GET", or the method of a message. */
  readonly seen: (kind: string) => ReadonlyArray<Visit>
  /** Cuts every connection. */
  readonly cut: () => void
  /** Connections the server accepted so far. */
  readonly connections: () => number
}

export type Handler = (visit: Visit) => void

const visitOf = (request: Http.IncomingMessage, response: Http.ServerResponse, body: string): Visit => {
  let message: Message = {}
  try {
    message = JSON.parse(body) as Message
  } catch {
    // Not every request has a body.
  }
  const status: Visit["status"] = (code, text, headers = {}) => {
    response.writeHead(code, headers)
    response.end(text)
  }
  const json: Visit["json"] = (value, code = 200, headers = {}) =>
    status(code, JSON.stringify(value), { "content-type": "application/json", ...headers })
  const visit: Visit = {
    at: performance.now(),
    method: request.method ?? "",
    path: request.url ?? "",
    headers: request.headers,
    message,
    gone: false,
    response,
    status,
    json,
    result: (result, headers) => json({ jsonrpc: "2.0", id: message.id, result }, 200, headers),
    events: (text, headers = {}) => {
      response.writeHead(200, { "content-type": "text/event-stream", ...headers })
      response.write(text)
    },
    answer: (result) => `data: ${JSON.stringify({ jsonrpc: "2.0", id: message.id, result })}\n\n`
  }
  response.on("close", () => {
    visit.gone = !response.writableFinished
  })
  return visit
}

/** Serves at `/mcp` (the handler may look at other paths) until the Scope ends. */
export const serve = (handler: Handler): Effect.Effect<Server, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<{ readonly http: Http.Server; readonly server: Server }>((resume) => {
      const visits: Array<Visit> = []
      let connections = 0
      const http = Http.createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const visit = visitOf(request, response, Buffer.concat(chunks).toString())
          visits.push(visit)
          handler(visit)
        })
      })
      http.on("connection", () => connections++)
      http.listen(0, "127.0.0.1", () => {
        const { port } = http.address() as AddressInfo
        const origin = `http://127.0.0.1:${port}`
        resume(Effect.succeed({
          http,
          server: {
            origin,
            url: `${origin}/mcp`,
            port,
            visits,
            seen: (kind) => visits.filter((visit) => visit.method === kind || visit.message.method === kind),
            cut: () => http.closeAllConnections(),
            connections: () => connections
          }
        }))
      })
    }),
    ({ http }) =>
      Effect.callback<void>((resume) => {
        http.close(() => resume(Effect.void))
        http.closeAllConnections()
      })
  ).pipe(Effect.map(({ server }) => server))

/** Waits until something is so, looking often; the test's own time limit ends it. */
export const eventually = (holds: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => holds() ? Effect.void : Effect.delay(eventually(holds), 5))

/** A server of the legacy era: the handshake is done, the rest is the test's. */
export const legacyServer = (options: {
  readonly call?: Handler
  readonly get?: Handler
  readonly session?: string
  readonly version?: string
}): Handler =>
(visit) => {
  const { message } = visit
  if (visit.method === "DELETE") return visit.status(200)
  if (visit.method === "GET") return options.get === undefined ? visit.status(405) : options.get(visit)
  if (message.method === "initialize") {
    return visit.result(
      {
        protocolVersion: options.version ?? "2025-11-25",
        capabilities: { tools: {} },
        serverInfo: { name: "fixture", version: "1" }
      },
      options.session === undefined ? {} : { "mcp-session-id": options.session }
    )
  }
  if (message.id === undefined) return visit.status(202)
  if (options.call === undefined) return visit.result({})
  return options.call(visit)
}
