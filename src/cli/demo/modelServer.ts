/*
 * Serves the scripted model over HTTP as Chat Completions do it: plain JSON, or
 * server-sent events in small pieces.
 */
import * as Http from "node:http"
import type * as Net from "node:net"
import { type ChatMessage, type ChatTool, decide, type Decision } from "./scriptedModel.ts"

interface ChatRequest {
  readonly model?: string
  readonly stream?: boolean
  readonly messages?: ReadonlyArray<ChatMessage>
  readonly tools?: ReadonlyArray<ChatTool>
}

/** A request larger than this is refused. */
const MAX_BODY_BYTES = 4 * 1024 * 1024

/** Pause between pieces, so that streaming can be seen. */
const PIECE_DELAY_MILLIS = 15

/** Listens on the loopback address; `onListen` gets the base URL to give to a client. */
export const listen = (
  options: { readonly port: number; readonly pieceDelayMillis?: number },
  onListen: (baseUrl: string) => void,
  onError: (error: Error) => void
): Http.Server => {
  const server = Http.createServer((request, response) => {
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size <= MAX_BODY_BYTES) chunks.push(chunk)
    })
    request.on("end", () => {
      if (size > MAX_BODY_BYTES) return fail(response, 413, "the request is too large")
      if (request.method === "GET" && request.url?.endsWith("/models") === true) {
        return json(response, 200, { object: "list", data: [{ id: "scripted", object: "model" }] })
      }
      if (request.method !== "POST" || request.url?.endsWith("/chat/completions") !== true) {
        return fail(response, 404, "this scripted model only serves /v1/chat/completions and /v1/models")
      }
      answer(Buffer.concat(chunks).toString("utf8"), response, options.pieceDelayMillis ?? PIECE_DELAY_MILLIS)
    })
  })
  server.on("error", onError)
  server.listen(options.port, "127.0.0.1", () => {
    // Listening on a port, the address is never a pipe's name.
    const { port } = server.address() as Net.AddressInfo
    onListen(`http://127.0.0.1:${port}/v1`)
  })
  return server
}

const answer = (body: string, response: Http.ServerResponse, delay: number) => {
  let request: ChatRequest
  try {
    request = JSON.parse(body)
  } catch {
    return fail(response, 400, "the body is not JSON")
  }
  if (!Array.isArray(request.messages)) return fail(response, 400, "messages: expected an array")
  const model = request.model ?? "scripted"
  const decision = decide(request.messages, request.tools ?? [])
  const usage = { prompt_tokens: Math.ceil(body.length / 4), completion_tokens: Math.ceil(decision.text.length / 4) }
  return request.stream === true
    ? stream(response, [...pieces(decision), { usage }], model, delay)
    : json(response, 200, {
      id: "scripted",
      object: "chat.completion",
      created: 0,
      model,
      choices: [{ index: 0, message: message(decision), finish_reason: finishReason(decision) }],
      usage
    })
}

const toolCalls = (decision: Decision) =>
  decision._tag === "Answer" ? [] : decision.calls.map(({ args, name }, index) => ({
    index,
    id: `call_${name}_${index}`,
    type: "function",
    function: { name, arguments: JSON.stringify(args) }
  }))

const finishReason = (decision: Decision) => decision._tag === "Answer" ? "stop" : "tool_calls"

const message = (decision: Decision) => ({
  role: "assistant",
  content: decision.text,
  ...(decision._tag === "Answer" ? undefined : { tool_calls: toolCalls(decision) })
})

type Piece = { readonly delta: object; readonly finish_reason: string | null } | { readonly usage: object }

const pieces = (decision: Decision): ReadonlyArray<Piece> => [
  delta({ role: "assistant", content: "" }),
  ...decision.text.split(/(?<=\s)/).filter((content) => content !== "").map((content) => delta({ content })),
  ...toolCalls(decision).flatMap(callPieces),
  { delta: {}, finish_reason: finishReason(decision) }
]

const delta = (delta: object): Piece => ({ delta, finish_reason: null })

const callPieces = ({ function: { arguments: args, name }, id, index, type }: ReturnType<typeof toolCalls>[number]) =>
  [delta({ tool_calls: [{ index, id, type, function: { name, arguments: "" } }] })].concat(
    (args.match(/.{1,12}/gsu) ?? []).map((piece) => delta({ tool_calls: [{ index, function: { arguments: piece } }] }))
  )

const stream = (response: Http.ServerResponse, all: ReadonlyArray<Piece>, model: string, delay: number) => {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" })
  let next = 0
  const timer = setInterval(() => {
    const piece = all[next++]
    if (piece === undefined) {
      clearInterval(timer)
      response.end("data: [DONE]\n\n")
      return
    }
    const chunk = "usage" in piece ? { choices: [], usage: piece.usage } : { choices: [{ index: 0, ...piece }] }
    const head = { id: "scripted", object: "chat.completion.chunk", created: 0, model }
    response.write(`data: ${JSON.stringify({ ...head, ...chunk })}\n\n`)
  }, delay)
  response.on("close", () => clearInterval(timer))
}

const json = (response: Http.ServerResponse, status: number, body: unknown) => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(body))
}

const fail = (response: Http.ServerResponse, status: number, message: string) =>
  json(response, status, { error: { message, type: "invalid_request_error" } })
