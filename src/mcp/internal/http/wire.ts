/**
 * One HTTP request to the server and its answer: redirects, what never leaves with a request, and limits.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Headers from "effect/http/Headers"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as UrlParams from "effect/http/UrlParams"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import { ConnectionFailed, type McpErrorReason, RedirectRefused } from "../../McpError.ts"
import { excerpt, redactor } from "../quote.ts"
import { type Answer, answerOf, type Bodies, makeBodies } from "./body.ts"
import { failureReason, redirectOf } from "./verdict.ts"

/** How requests reach one server, and how answers are read. */
export interface Wire extends Bodies {
  /**
   * Sends one request and uses its answer, which can have any status. What is not read of it is aborted afterwards.
   */
  readonly use: <A>(
    request: WireRequest,
    use: (answer: Answer) => Effect.Effect<A, McpErrorReason>
  ) => Effect.Effect<A, McpErrorReason>
  /** Fails with the reason for an answer that is not a success. */
  readonly refuse: (answer: Answer, inSession: boolean) => Effect.Effect<never, McpErrorReason>
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

export interface WireOptions {
  /** Headers of every request. Those of the protocol win. */
  readonly headers: Readonly<Record<string, string>>
  /** What must not appear in an error. */
  readonly secrets: ReadonlyArray<string>
  readonly maxMessageBytes: number
  /** Whether the trace context goes out with requests: a server of someone else learns of it. */
  readonly propagateTrace: boolean
}

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

/** Remembers the last answer. All requests of a connection are sent in one context, and merging two is dear. */
const memoized = <A extends object, B>(f: (input: A) => B): (input: A) => B => {
  let last: { readonly input: A; readonly output: B } | undefined
  return (input) => (last?.input === input ? last : (last = { input, output: f(input) })).output
}

export const makeWire: (options: WireOptions) => Effect.Effect<Wire, never, HttpClient.HttpClient> = Effect.fnUntraced(
  function*(options) {
    const client = yield* HttpClient.HttpClient
    const scoped = HttpClient.withScope(client)
    const own = Context.make(FetchHttpClient.RequestInit, {
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
    const contextOf = memoized((caller: Context.Context<never>) =>
      Context.merge(
        caller,
        // Without a tracer, a span of a request would be made for nobody.
        Context.get(caller, Tracer.Tracer) === Tracer.nativeTracer && !options.propagateTrace
          ? Context.add(own, HttpClient.TracerDisabledWhen, () => true)
          : own
      )
    )
    const redact = redactor(options.secrets)
    const quote = (text: string): string => excerpt(redact(text))

    // What failed holds the request with its headers, so only its words are kept.
    const broken = (error: unknown): McpErrorReason => new ConnectionFailed({ cause: quote(wordsOf(error)) })

    const execute = (request: HttpClientRequest.HttpClientRequest, scope: Scope.Scope) =>
      scoped.execute(request).pipe(
        // A client that takes only 2xx for a success holds the answer in its failure.
        Effect.catch((error) =>
          error.response === undefined ? Effect.fail(broken(error)) : Effect.succeed(error.response)
        ),
        Effect.updateContext<never, Scope.Scope>((caller) => Context.add(contextOf(caller), Scope.Scope, scope))
      )

    /** Aborting costs as much as half of a small exchange, so one that is over is let be. */
    const exchange = <A>(
      request: HttpClientRequest.HttpClientRequest,
      use: (answer: Answer) => Effect.Effect<A, McpErrorReason>
    ): Effect.Effect<A, McpErrorReason> =>
      Effect.suspend(() => {
        const scope = Scope.makeUnsafe()
        let answer: Answer | undefined
        return Effect.onExit(
          Effect.flatMap(execute(request, scope), (response) => use(answer = answerOf(response))),
          () => {
            if (answer?.isRead === true) return Effect.void
            void answer?.reader?.cancel().catch(() => {})
            return Scope.close(scope, Exit.void)
          }
        )
      })

    const requests = new WeakMap<URL, HttpClientRequest.HttpClientRequest>()

    /** A request without its own headers and body. All but the method is read out of a URL once. */
    const requestTo = (url: URL): HttpClientRequest.HttpClientRequest => {
      const known = requests.get(url)
      if (known !== undefined) return known
      const request = HttpClientRequest.post(url, { headers: options.headers })
      requests.set(url, request)
      return request
    }

    const hop = <A>(
      request: WireRequest,
      target: URL,
      followed: number,
      use: (answer: Answer) => Effect.Effect<A, McpErrorReason>
    ): Effect.Effect<A, McpErrorReason> => {
      const { body, headers, method } = request
      const posted = HttpClientRequest.setHeaders(requestTo(target), headers)
      return exchange(
        body === undefined
          ? HttpClientRequest.setMethod(posted, method)
          : HttpClientRequest.bodyText(posted, body, "application/json"),
        (answer) => {
          const redirect = redirectOf(answer.status, answer.header("location"), target, method, followed)
          if (redirect._tag === "None") return use(answer)
          return redirect._tag === "Refuse"
            ? Effect.fail(new RedirectRefused({ location: quote(redirect.location) }))
            : hop(request, redirect.url, followed + 1, use)
        }
      )
    }

    const bodies = makeBodies(options.maxMessageBytes, broken)

    return {
      ...bodies,
      use: (request, use) => hop(request, request.url, 0, use),
      quote,
      maxMessageBytes: options.maxMessageBytes,
      refuse: Effect.fnUntraced(function*(answer, inSession) {
        const now = yield* Clock.currentTimeMillis
        const body = yield* bodies.beginning(answer)
        const { response, status } = answer
        return yield* failureReason({ status, headers: response.headers, body, inSession, now, quote })
      })
    }
  }
)
