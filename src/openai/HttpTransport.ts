/**
 * How a request reaches its server: one way in, one way out, nothing of any protocol above HTTP.
 *
 * @since 0.1.0
 */
import * as NodeExchange from "./internal/nodeExchange.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * A `POST` that is ready to be sent.
 *
 * @category models
 * @since 0.1.0
 */
export interface Request {
  readonly url: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Follow each other without anything between them. */
  readonly body: ReadonlyArray<BodyPart>
}

/**
 * A part of a body. What is the same in many requests, such as the definitions of tools, is the same object in all of
 * them, so that what is made of it can be kept.
 *
 * @category models
 * @since 0.1.0
 */
export interface BodyPart {
  /** Sent in UTF-8. */
  readonly text: string
}

/**
 * How an answer begins.
 *
 * @category models
 * @since 0.1.0
 */
export interface Head {
  /** The HTTP status code. */
  readonly status: number
  /** A header by its name in lower case; `null` where there is none. */
  readonly header: (name: string) => string | null
}

/**
 * A request under way, and its answer.
 *
 * These are promises and not effects because a stream is read tens of thousands of times a second: whoever waits here
 * bounds the wait, and turns what is thrown into an error.
 *
 * @category models
 * @since 0.1.0
 */
export interface Exchange {
  /** Waits for status and headers, whatever the status; a redirect is not followed. Rejects where none come. */
  readonly head: Promise<Head>
  /**
   * All bytes that have arrived since the last time, at least one; nothing once the answer is complete. Rejects when it
   * is cut. Called after `head`, and not again before it has settled.
   */
  readonly read: () => Promise<ReadonlyArray<Uint8Array>>
  /** Gives the exchange up, at any time and any number of times. Closes the connection unless all was read. */
  readonly cancel: () => void
}

/**
 * Sends a request at once.
 *
 * @category models
 * @since 0.1.0
 */
export type HttpTransport = (request: Request) => Exchange

/**
 * The two modules of Node that send requests, `node:http` and `node:https`, or what stands in for them: agents and
 * proxies are given to `request` by a function around it.
 *
 * @category models
 * @since 0.1.0
 */
export interface NodeModules {
  readonly http: NodeModule
  readonly https: NodeModule
}

/**
 * What is used of `node:http` and `node:https`.
 *
 * @category models
 * @since 0.1.0
 */
export interface NodeModule {
  /** Node's function of that name; `url` is absolute, `onResponse` is called once at the most. */
  readonly request: (
    url: string,
    options: { readonly method: "POST"; readonly headers: Record<string, string | number> },
    onResponse: (response: NodeResponse) => void
  ) => NodeRequest
}

/**
 * What is used of Node's `ClientRequest`.
 *
 * @category models
 * @since 0.1.0
 */
export interface NodeRequest {
  /** Listens for what goes wrong. */
  readonly on: (event: "error", listener: (cause: Error) => void) => unknown
  /** Sends a part of the body. */
  readonly write: (part: Uint8Array) => unknown
  /** The body has been sent. */
  readonly end: () => unknown
  /** Closes the connection. */
  readonly destroy: () => unknown
}

/**
 * What is used of Node's `IncomingMessage`.
 *
 * @category models
 * @since 0.1.0
 */
export interface NodeResponse {
  /** Absent only in requests, for which Node has the same class. */
  readonly statusCode?: number | undefined
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string | Array<string> | undefined>>
  /** Whether all of it was received, read or not. */
  readonly complete: boolean
  /** Listens for the body, its end, and what goes wrong. */
  readonly on: {
    (event: "data", listener: (chunk: Uint8Array) => void): unknown
    (event: "end", listener: () => void): unknown
    (event: "error", listener: (cause: Error) => void): unknown
  }
  /** Lets the body wait. */
  readonly pause: () => unknown
  /** Lets it come again. */
  readonly resume: () => unknown
}

// =============================================================================
// Constructors
// =============================================================================

/**
 * Sends requests with a `fetch`, which every runtime has.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromFetch = (fetch: typeof globalThis.fetch): HttpTransport => (request) => {
  const controller = new AbortController()
  const response = Promise.resolve().then(() =>
    fetch(request.url, {
      method: "POST",
      headers: new Headers(request.headers),
      body: request.body.map(({ text }) => text).join(""),
      // Following one would carry the key to another server.
      redirect: "manual",
      signal: controller.signal
    })
  )
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  let isComplete = false
  return {
    head: response.then(({ body, headers, status }) => {
      reader = body?.getReader()
      return { status, header: (name) => headers.get(name) }
    }),
    read: () =>
      reader === undefined ? Promise.resolve([]) : reader.read().then(({ done, value }) => {
        if (!done) return [value]
        isComplete = true
        return []
      }),
    cancel: () => {
      if (!isComplete) controller.abort()
    }
  }
}

/**
 * Sends requests with Node's HTTP client, whose share of a turn is a third of what its `fetch` takes, and which has no
 * limit of its own for how long an answer may take to begin.
 *
 * The modules are passed in, so that this package needs no Node. Unlike `fetch` it knows nothing of a dispatcher set
 * with undici, and asks for answers that are not compressed; one that is compressed nevertheless is an error.
 *
 * **Example** (On Node)
 *
 * ```ts run
 * import { Effect } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import { HttpTransport, OpenAiModel } from "agcore/openai"
 * import * as http from "node:http"
 * import * as https from "node:https"
 *
 * const Model = OpenAiModel.layer({
 *   model: "qwen3",
 *   // Nothing listens there.
 *   baseUrl: "http://127.0.0.1:9/v1",
 *   transport: HttpTransport.fromNode({ http, https })
 * })
 *
 * const program = LanguageModel.generateText({ prompt: "Say hello" }).pipe(
 *   Effect.catchReason("AiError", "NetworkError", () => Effect.succeed("no server")),
 *   Effect.provide(Model)
 * )
 *
 * await Effect.runPromise(program) // => "no server"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromNode = (modules: NodeModules): HttpTransport => NodeExchange.open(modules)
