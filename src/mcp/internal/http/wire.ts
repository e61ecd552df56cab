/**
 * One HTTP request to the server, and how bodies are read: redirects, what never leaves with a request, and limits.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Headers from "effect/http/Headers"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import * as UrlParams from "effect/http/UrlParams"
import * as Pull from "effect/Pull"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ConnectionFailed, LimitExceeded, type McpErrorReason, RedirectRefused } from "../../McpError.ts"
import { excerpt, redactor } from "../quote.ts"
import { failureReason, redirectOf } from "./verdict.ts"

/** How requests reach one server. */
export interface Wire {
  /** Sends one request. The exchange is aborted when its Scope closes. An answer of any status is a success here. */
  readonly send: (request: WireRequest) => Effect.Effect<HttpClientResponse, McpErrorReason, Scope.Scope>
  /** Fails with the reason for an answer that is not a success. */
  readonly refuse: (response: HttpClientResponse, inSession: boolean) => Effect.Effect<never, McpErrorReason>
  /** The text of a body, piece by piece as it comes. */
  readonly pieces: (response: HttpClientResponse) => Effect.Effect<Pieces, never, Scope.Scope>
  /** The whole text of a body; fails when it is larger than a message may be. */
  readonly text: (response: HttpClientResponse) => Effect.Effect<string, McpErrorReason>
  /** The beginning of a body, as far as it comes within a short time. Nothing is left to read for a short body. */
  readonly beginning: (response: HttpClientResponse) => Effect.Effect<string>
  /** Makes a text of the server fit to be quoted. */
  readonly quote: (text: string) => string
  /** The limit of a body and of an event. */
  readonly maxMessageBytes: number
}

interface WireRequest {
  readonly method: "GET" | "POST" | "DELETE"
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** Answers the next pieces, or `undefined` when the body ended. */
type Pieces = Effect.Effect<ReadonlyArray<string> | undefined, McpErrorReason>

export interface WireOptions {
  /** Headers of every request. Those of the protocol win. */
  readonly headers: Readonly<Record<string, string>>
  /** What must not appear in an error. */
  readonly secrets: ReadonlyArray<string>
  readonly maxMessageBytes: number
  /** Whether the trace context goes out with requests: a server of someone else learns of it. */
  readonly propagateTrace: boolean
}

/** Of a body that is only quoted, or searched for an error, no more is read, and no longer. */
const BEGINNING_CHARACTERS = 64 * 1024
const BEGINNING_TIMEOUT = "2 seconds"

/**
 * The fetch options the application chose for its client, a proxy's dispatcher for instance. The client's layer holds them,
 * so they are looked up inside of a request, which ends before it is sent.
 */
const chosenFetchOptions = (client: HttpClient.HttpClient): Effect.Effect<globalThis.RequestInit> =>
  Effect.suspend(() => {
    let chosen: globalThis.RequestInit = {}
    const lookUp = Effect.contextWith((context: Context.Context<never>) => {
      chosen = Context.getOrUndefined(context, FetchHttpClient.RequestInit) ?? {}
      return Effect.interrupt
    })
    return HttpClient.mapRequestEffect(client, () => lookUp).execute(HttpClientRequest.empty).pipe(
      Effect.exit,
      Effect.map(() => chosen)
    )
  })

/** The words of the innermost cause: "fetch failed" alone helps nobody. */
const wordsOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof AggregateError && error.message === "") return error.errors.map(wordsOf).join("; ")
  return error.cause === undefined ? error.message : wordsOf(error.cause)
}

export const makeWire: (options: WireOptions) => Effect.Effect<Wire, never, HttpClient.HttpClient> = Effect.fnUntraced(
  function*(options) {
    const client = yield* HttpClient.HttpClient
    const scoped = HttpClient.withScope(client)
    const context = Context.make(FetchHttpClient.RequestInit, {
      ...yield* chosenFetchOptions(client),
      redirect: "manual"
    }).pipe(
      Context.add(HttpClient.TracerPropagationEnabled, options.propagateTrace),
      // For an application that records headers and URLs in its spans.
      Context.add(UrlParams.CurrentRedactedNames, [/^/]),
      Context.add(Headers.CurrentRedactedNames, [
        ...yield* Headers.CurrentRedactedNames,
        ...Object.keys(options.headers),
        "mcp-session-id"
      ])
    )
    const redact = redactor(options.secrets)
    const quote = (text: string): string => excerpt(redact(text))

    // What failed holds the request with its headers, so only its words are kept.
    const broken = (error: unknown): McpErrorReason => new ConnectionFailed({ cause: quote(wordsOf(error)) })

    const send: Wire["send"] = Effect.fnUntraced(function*({ body, headers, method, url }) {
      let target = url
      for (let followed = 0;; followed++) {
        const request = HttpClientRequest.make(method)(target, { headers: { ...options.headers, ...headers } })
        const response = yield* scoped.execute(
          body === undefined ? request : HttpClientRequest.bodyText(request, body, "application/json")
        ).pipe(
          // A client that takes only 2xx for a success holds the answer in its failure.
          Effect.catch((error) =>
            error.response === undefined ? Effect.fail(broken(error)) : Effect.succeed(error.response)
          ),
          Effect.provideContext(context)
        )
        const redirect = redirectOf(response.status, response.headers["location"], target, method, followed)
        if (redirect._tag === "None") return response
        if (redirect._tag === "Refuse") return yield* new RedirectRefused({ location: quote(redirect.location) })
        target = redirect.url
      }
    })

    const pieces: Wire["pieces"] = (response) =>
      Effect.map(Stream.toPull(response.stream), (pull) => {
        const decoder = new TextDecoder()
        return pull.pipe(
          Effect.map((chunks) => chunks.map((chunk) => decoder.decode(chunk, { stream: true }))),
          Pull.catchDone(() => Effect.undefined),
          Effect.mapError(broken)
        )
      })

    const tooLarge = new LimitExceeded({ limit: "maxMessageBytes", max: options.maxMessageBytes })

    const text: Wire["text"] = Effect.fnUntraced(function*(response) {
      if (Number(response.headers["content-length"]) > options.maxMessageBytes) return yield* tooLarge
      let bytes = 0
      const decoder = new TextDecoder()
      const texts: Array<string> = []
      yield* Stream.runForEachWhile(response.stream, (chunk) => {
        bytes += chunk.length
        if (bytes <= options.maxMessageBytes) texts.push(decoder.decode(chunk, { stream: true }))
        return Effect.succeed(bytes <= options.maxMessageBytes)
      }).pipe(Effect.mapError(broken))
      return bytes > options.maxMessageBytes ? yield* tooLarge : texts.join("")
    })

    const beginning: Wire["beginning"] = Effect.fnUntraced(function*(response) {
      let text = ""
      const decoder = new TextDecoder()
      yield* Stream.runForEachWhile(response.stream, (chunk) => {
        text += decoder.decode(chunk, { stream: true })
        return Effect.succeed(text.length < BEGINNING_CHARACTERS)
      }).pipe(Effect.timeoutOption(BEGINNING_TIMEOUT), Effect.ignore)
      return text
    })

    return {
      send,
      pieces,
      text,
      beginning,
      quote,
      maxMessageBytes: options.maxMessageBytes,
      refuse: Effect.fnUntraced(function*(response, inSession) {
        const now = yield* Clock.currentTimeMillis
        const body = yield* beginning(response)
        const { headers, status } = response
        return yield* failureReason({ status, headers, body, inSession, now, quote })
      })
    }
  }
)
