/*
 * The `openai` package as a transport: it knows URLs, authentication and headers, and hands out the raw response.
 *
 * Everything else it would do is turned off. Its retries ignore a `Retry-After` over a minute; its stream reader hides
 * `[DONE]`, throws on keep-alives and leaves the socket open when a fiber is interrupted; it reads error bodies without
 * a limit and keeps only their `error` field; and it would take a key, a base URL or a log level from the environment.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import OpenAI from "openai"
import type { ProviderProfile } from "../ProviderProfile.ts"
import type { Json } from "./json.ts"

type Fetch = typeof globalThis.fetch

export interface Connection {
  readonly baseUrl: string
  readonly apiKey: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly profile: ProviderProfile
  readonly fetch: Fetch
  /** The SDK's own limit, in milliseconds; must be longer than the caller's. */
  readonly timeout: number
}

/** The body of a request. Vendors have fields the SDK's type does not know. */
export type Body = Readonly<Record<string, Json>>

export interface Client {
  /**
   * Posts a body; answers when the headers have arrived, whatever the status. Fails with what `fetch` or the SDK threw.
   * `signal` ends the request and its response.
   */
  readonly post: (body: Body, signal: AbortSignal) => Effect.Effect<Response, TransportError>
}

class TransportError
  extends Data.TaggedError("agcore/openai/internal/client/TransportError")<{ readonly cause: unknown }>
{}

/** Carries a response that is not a success past the SDK, which would read it. */
class Unsuccessful
  extends Data.TaggedError("agcore/openai/internal/client/Unsuccessful")<{ readonly response: Response }>
{}

export const make = (connection: Connection): Client => {
  const client = new OpenAI({
    baseURL: connection.baseUrl,
    // The SDK insists on a key; where there is none, or in another header, `Authorization` is removed below.
    apiKey: connection.apiKey ?? "unused",
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    defaultHeaders: { ...authentication(connection), ...connection.headers },
    logLevel: "off",
    maxRetries: 0,
    timeout: connection.timeout,
    fetch: onlySuccessful(connection.fetch)
  })
  return {
    post: (body, signal) =>
      Effect.tryPromise({
        try: () =>
          client.chat.completions.create(
            // The SDK sends the body as it is; its type lists OpenAI's own fields only.
            body as unknown as OpenAI.ChatCompletionCreateParams,
            { signal }
          ).asResponse(),
        catch: (cause) => new TransportError({ cause })
      }).pipe(
        Effect.catch((error) => {
          const cause = error.cause instanceof Error ? error.cause.cause : undefined
          return cause instanceof Unsuccessful ? Effect.succeed(cause.response) : Effect.fail(error)
        })
      )
  }
}

const authentication = ({ apiKey, profile }: Connection): Readonly<Record<string, string | null>> =>
  apiKey === undefined
    ? { Authorization: null }
    : profile.apiKeyHeader === "api-key"
    ? { "Authorization": null, "api-key": apiKey }
    : {}

/** A redirect is not a success either: following it would carry the key to another server. */
const onlySuccessful = (fetch: Fetch): Fetch => (input, init) =>
  fetch(input, { ...init, redirect: "manual" }).then((response) => {
    if (!response.ok) throw new Unsuccessful({ response })
    return response
  })
