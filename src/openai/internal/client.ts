/*
 * Where requests go and what their headers are, as the `openai` package has it: it knows URLs, authentication and
 * the headers the API likes to see.
 *
 * All of that is the same for every request of a client, so it is asked for once and kept; the SDK's own way of
 * sending would do it anew each time, at 0.4 ms a request. Nothing else of the SDK is used. Its retries ignore a
 * `Retry-After` over a minute; its stream reader hides `[DONE]`, throws on keep-alives and leaves the socket open when a
 * fiber is interrupted; it reads error bodies without a limit and keeps only their `error` field; and it would take a
 * key, a base URL or a log level from the environment.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type { ProviderProfile } from "../ProviderProfile.ts"

export interface Connection {
  readonly baseUrl: string
  readonly apiKey: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly profile: ProviderProfile
  /** How long an answer is waited for, in milliseconds: the SDK tells the server. */
  readonly timeout: number
}

/** What all requests have in common. */
export interface Target {
  readonly url: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

class TargetError extends Data.TaggedError("agcore/openai/internal/client/TargetError")<{ readonly cause: unknown }> {}

export const target = (connection: Connection): Effect.Effect<Target, TargetError> =>
  Effect.tryPromise({
    try: () =>
      // Loaded with the first request: it takes as long as all of agcore and what it uses of effect.
      import("openai").then(({ OpenAI }) =>
        new OpenAI({
          baseURL: connection.baseUrl,
          // The SDK insists on a key; where there is none, or in another header, `Authorization` is removed below.
          apiKey: connection.apiKey ?? "unused",
          adminAPIKey: null,
          organization: null,
          project: null,
          webhookSecret: null,
          defaultHeaders: { ...authentication(connection), ...connection.headers },
          logLevel: "off",
          timeout: connection.timeout
          // The body decides only that the content type is JSON.
        }).buildRequest({ method: "post", path: "/chat/completions", body: {} })
      ),
    catch: (cause) => new TargetError({ cause })
  }).pipe(Effect.map(({ req, url }) => ({ url, headers: Object.fromEntries(req.headers) })))

const authentication = ({ apiKey, profile }: Connection): Readonly<Record<string, string | null>> =>
  apiKey === undefined
    ? { Authorization: null }
    : profile.apiKeyHeader === "api-key"
    ? { "Authorization": null, "api-key": apiKey }
    : {}
