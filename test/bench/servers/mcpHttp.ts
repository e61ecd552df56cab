/**
 * The echo server over Streamable HTTP, without sessions and with JSON answers, in a process of its own.
 *
 * Its path is `/<sample>/<tools>/mcp`, so that each sample has a record of its own.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { answering } from "./mcp.ts"
import { listen, readBody } from "./process.ts"
import { Book } from "./seen.ts"

const book = new Book()
const answers = new Map<string, (text: string) => string | undefined>()

const answerOf = (key: string, tools: string) => {
  const path = `${key}/${tools}`
  const known = answers.get(path)
  if (known !== undefined) return known
  const fresh = answering(Number(tools), () => book.of(key))
  answers.set(path, fresh)
  return fresh
}

const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const [, key = "", tools = ""] = request.url?.split("/") ?? []
  const body = await readBody(request)
  const answer = request.method === "POST" ? answerOf(key, tools)(body) : undefined
  if (answer === undefined) {
    // A notification, or a request for the stream or the end of a session, which this server has not.
    response.writeHead(request.method === "POST" ? 202 : 405)
    response.end()
    return
  }
  const bytes = Buffer.from(answer)
  response.writeHead(200, { "content-type": "application/json", "content-length": bytes.length })
  response.end(bytes)
}

listen(createServer((request, response) => void handle(request, response)))
