/**
 * A real HTTP server that plays a model, and the questions the tests ask it.
 */
import { OpenAiModel } from "agcore/openai"
import { Effect, Predicate, Queue, Schema, type Scope, Stream } from "effect"
import { type AiError, type LanguageModel, type Prompt, type Response, Tool, Toolkit } from "effect/ai"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

// =============================================================================
// Server
// =============================================================================

/** A request as the server received it. */
interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Record<string, any>
  /** Succeeds when the connection of the response is closed. */
  readonly closed: Effect.Effect<void>
}

export interface ModelServer {
  /** Ends in `/v1`. */
  readonly baseUrl: string
  /** The requests in the order they came; waits for the next one. */
  readonly received: Effect.Effect<Received>
}

export type Respond = (response: ServerResponse, received: Received) => void

export const serve = (respond: Respond): Effect.Effect<ModelServer, never, Scope.Scope> =>
  Effect.gen(function*() {
    const requests = yield* Queue.unbounded<Received>()
    const server = createServer((request, response) => {
      const pieces: Array<Buffer> = []
      const closed = new Promise<void>((resolve) => response.on("close", resolve))
      request.on("data", (piece: Buffer) => pieces.push(piece))
      request.on("end", () => {
        const received: Received = {
          path: request.url ?? "",
          headers: request.headers,
          body: JSON.parse(Buffer.concat(pieces).toString("utf8")),
          closed: Effect.promise(() => closed)
        }
        Queue.offerUnsafe(requests, received)
        respond(response, received)
      })
    })
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    return {
      baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
      received: Queue.take(requests)
    }
  })

/** Answers with a status, a content type and a body. */
export const reply =
  (status: number, contentType: string | undefined, body: string, headers: Record<string, string> = {}): Respond =>
  (response) => {
    response.writeHead(status, contentType === undefined ? headers : { "content-type": contentType, ...headers })
    response.end(body)
  }

export const json = (body: unknown, status = 200, headers: Record<string, string> = {}): Respond =>
  reply(status, "application/json", JSON.stringify(body), headers)

/** Writes pieces one by one, each in a turn of its own, so that they arrive apart. */
export const pieces =
  (contentType: string, all: ReadonlyArray<Uint8Array | string>, end: "end" | "cut" | "open" = "end"): Respond =>
  (response) => {
    response.writeHead(200, { "content-type": contentType })
    response.socket?.setNoDelay(true)
    const write = (position: number): void => {
      const piece = all[position]
      if (piece !== undefined) {
        response.write(piece, () => setImmediate(write, position + 1))
      } else if (end === "end") {
        response.end()
      } else if (end === "cut") {
        response.socket?.destroy()
      }
    }
    write(0)
  }

export const event = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`

/** A chunk with one choice. */
export const chunk = (delta: unknown, finish: string | null = null): string =>
  event({ id: "c1", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })

export const events = (all: ReadonlyArray<string>, end: "end" | "cut" | "open" = "end"): Respond =>
  pieces("text/event-stream", all, end)

/** An answer that says something and stops. */
export const hello: ReadonlyArray<string> = [chunk({ content: "hi" }), chunk({}, "stop"), event("[DONE]")]

// =============================================================================
// Questions
// =============================================================================

export const Get = Tool.make("get", { description: "Gets", parameters: Schema.Struct({ x: Schema.Finite }) })
export const Put = Tool.make("put", { description: "Puts", parameters: Schema.Struct({ y: Schema.Finite }) })
export const tools = Toolkit.make(Get, Put)

export interface Question {
  readonly prompt?: Prompt.RawInput
  readonly toolkit?: Toolkit.Any | undefined
  readonly toolChoice?: LanguageModel.ToolChoice<string>
  readonly validation?: "strict" | "deferred"
}

// The toolkits of the tests have no handlers and need no services, which the types of one call can't say of any toolkit.
const options = ({ prompt = "hello", toolChoice = "auto", toolkit, validation = "deferred" }: Question) => ({
  prompt,
  toolkit: (toolkit ?? Toolkit.empty) as typeof tools,
  toolChoice: toolChoice as "auto",
  disableToolCallResolution: true as const,
  toolCallValidation: validation as "deferred"
})

export type Part = Response.StreamPart<typeof tools.tools, "deferred">

/** The model of a server, asked for a stream. */
export const stream = (model: OpenAiModel.Options, question: Question = {}): Stream.Stream<Part, AiError.AiError> =>
  Stream.unwrap(Effect.map(OpenAiModel.make(model), (service) => service.streamText(options(question))))

export const generate = (
  model: OpenAiModel.Options,
  question: Question = {}
): Effect.Effect<LanguageModel.GenerateTextResponse<typeof tools.tools, "deferred">, AiError.AiError> =>
  Effect.flatMap(OpenAiModel.make(model), (service) => service.generateText(options(question)))

// =============================================================================
// What came out
// =============================================================================

/** A response in short. */
export interface Outcome {
  readonly text: string
  readonly reasoning: string
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly params: unknown }>
  readonly finish: Response.FinishReason | undefined
  readonly usage: Response.Usage | undefined
  readonly error: AiError.AiError | undefined
}

/** Reads a stream to its end or failure, and checks that its parts are well-formed on the way. */
export const outcome = (parts: Stream.Stream<Part, AiError.AiError>): Effect.Effect<Outcome> =>
  Effect.gen(function*() {
    const all: Array<Part> = []
    const error = yield* parts.pipe(
      Stream.runForEach((part) => Effect.sync(() => all.push(part))),
      Effect.match({ onFailure: (error) => error, onSuccess: () => undefined })
    )
    checkGrammar(all, error === undefined)
    return summary(all, error)
  })

export const summary = (
  all: ReadonlyArray<Part | Response.Part<typeof tools.tools, "deferred">>,
  error?: AiError.AiError
): Outcome => {
  const finish = all.find((part) => part.type === "finish")
  return {
    text: all.map((part) => part.type === "text-delta" ? part.delta : part.type === "text" ? part.text : "").join(""),
    reasoning: all.map((part) =>
      part.type === "reasoning-delta" ? part.delta : part.type === "reasoning" ? part.text : ""
    ).join(""),
    calls: all.flatMap((part) =>
      part.type === "tool-call" ? [{ id: part.id, name: part.name, params: part.params }] : []
    ),
    finish: finish?.reason,
    usage: finish?.usage,
    error
  }
}

/** Blocks open once, are closed if the stream succeeds, and what is said of a call's parameters is what it has. */
const checkGrammar = (all: ReadonlyArray<Part>, complete: boolean): void => {
  const open = new Map<string, string>()
  const said = new Map<string, string>()
  const seen = new Set<string>()
  const check = (fact: boolean, part: Part): void => {
    if (!fact) throw new Error(`out of place: ${JSON.stringify(part)}`)
  }
  for (const [position, part] of all.entries()) {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
      case "tool-params-start":
        check(!seen.has(part.id), part)
        seen.add(part.id)
        open.set(part.id, part.type)
        said.set(part.id, "")
        break
      case "text-delta":
      case "reasoning-delta":
      case "tool-params-delta":
        check(open.get(part.id) === part.type.replace("delta", "start") && part.delta !== "", part)
        said.set(part.id, said.get(part.id) + part.delta)
        break
      case "text-end":
      case "reasoning-end":
      case "tool-params-end":
        check(open.delete(part.id), part)
        break
      case "tool-call": {
        const text = said.get(part.id)
        check(text !== undefined && !open.has(part.id), part)
        if (Predicate.isString(part.params)) check(part.params === text, part)
        break
      }
      case "finish":
        check(position === all.length - 1 && open.size === 0, part)
    }
  }
  if (complete && all.at(-1)?.type !== "finish") throw new Error("no finish part")
}
