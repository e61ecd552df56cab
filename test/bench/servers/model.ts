/**
 * A scripted server of Chat Completions, in a process of its own.
 *
 * `POST /<sample>/<script>/v1/chat/completions` answers as the script in the path says, plain or streamed, with bytes that
 * are made once. The turn is found by the assistant messages of the request, whose tool results, tools and kind are
 * checked. `GET /<sample>/seen` tells what was seen and forgets it.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { add, callsOf, type Script, TOOL } from "../script.ts"
import { bodyOf, chunksOf } from "./chatCompletions.ts"
import { listen, readBody } from "./process.ts"
import { Book, note } from "./seen.ts"

interface Request {
  readonly stream?: boolean
  readonly tools?: ReadonlyArray<{ readonly function: { readonly name: string } }>
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown; readonly tool_call_id?: string }>
}

/** What is sent for a script, each turn made when it is first asked for. */
interface Prepared {
  readonly script: Script
  readonly bodies: Map<number, Buffer>
  readonly chunks: Map<number, ReadonlyArray<Buffer>>
}

const prepared = new Map<string, Prepared>()
const book = new Book()

const preparedOf = (path: string): Prepared => {
  const known = prepared.get(path)
  if (known !== undefined) return known
  const script: Script = JSON.parse(Buffer.from(path, "base64url").toString())
  const fresh = { script, bodies: new Map(), chunks: new Map() }
  prepared.set(path, fresh)
  return fresh
}

const kept = <A>(map: Map<number, A>, key: number, make: () => A): A => {
  const value = map.get(key) ?? make()
  map.set(key, value)
  return value
}

// =============================================================================
// Checks
// =============================================================================

/** A result may come as text or as parts of text; a number may come quoted. */
const numberOf = (content: unknown): number =>
  Number((typeof content === "string" ? content : JSON.stringify(content)).match(/-?\d+/)?.[0])

const problemsOf = (script: Script, { messages, tools }: Request, turn: number): ReadonlyArray<string> => {
  const calls = turn === 0 ? [] : callsOf(script, turn - 1)
  const results = messages.slice(messages.length - calls.length)
  const isAnswered = calls.every(({ arguments: args, id }, index) => {
    const result = results[index]
    return result?.role === "tool" && result.tool_call_id === id && numberOf(result.content) === add(args)
  })
  return [
    ...(turn < script.turns ? [] : [`turn ${turn + 1} of ${script.turns}`]),
    ...(isAnswered ? [] : [`turn ${turn + 1} without the right results: ${JSON.stringify(results).slice(0, 300)}`]),
    ...(script.tools === (tools?.length ?? 0) && (script.tools === 0 || tools?.[0]?.function.name === TOOL)
      ? []
      : [`${tools?.length} tools of ${script.tools}`])
  ]
}

// =============================================================================
// Answers
// =============================================================================

/** Framed here, once, as HTTP wants it: `res.write` would do it anew for each chunk. */
const framed = (chunk: string): Buffer => {
  const bytes = Buffer.from(chunk)
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")])
}

const streamedOf = (script: Script, turn: number): ReadonlyArray<Buffer> => {
  const chunks = chunksOf(script, turn).map(framed)
  return script.pace === 0 ? [Buffer.concat(chunks)] : chunks
}

const stream = (response: ServerResponse, chunks: ReadonlyArray<Buffer>, pace: number): void => {
  response.writeHead(200, { "content-type": "text/event-stream", "transfer-encoding": "chunked" })
  response.chunkedEncoding = false
  let next = 0
  let dueAt = performance.now()
  const write = (): void => {
    if (next === chunks.length) return void response.end("0\r\n\r\n")
    if (response.destroyed) return
    // Not before its time, and one in a tick: the other side's next read then finds one chunk.
    if (performance.now() >= dueAt) {
      dueAt += pace / 1_000
      response.write(chunks[next++])
    }
    setImmediate(write)
  }
  write()
}

const complete = (response: ServerResponse, key: string, path: string, text: string) => {
  const { bodies, chunks, script } = preparedOf(path)
  const request: Request = JSON.parse(text)
  const turn = request.messages.filter((message) => message.role === "assistant").length
  note(book.of(key), problemsOf(script, request, turn))
  if (request.stream === true) {
    stream(response, kept(chunks, turn, () => streamedOf(script, turn)), script.pace)
  } else {
    const body = kept(bodies, turn, () => Buffer.from(bodyOf(script, turn)))
    response.writeHead(200, { "content-type": "application/json", "content-length": body.length })
    response.end(body)
  }
}

const answer = async (request: IncomingMessage, response: ServerResponse) => {
  const [, key = "", path = ""] = request.url?.split("/") ?? []
  const body = await readBody(request)
  if (path === "seen") response.end(JSON.stringify(book.take(key)))
  else complete(response, key, path, body)
}

listen(createServer((request, response) => void answer(request, response)))
