/*
 * The options of a model with their defaults, and the client they make.
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as ByteSize from "effect/ByteSize"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as HttpTransport from "../HttpTransport.ts"
import type { Options } from "../OpenAiModel.ts"
import * as ProviderProfile from "../ProviderProfile.ts"
import type { Limits } from "./body.ts"
import * as Client from "./client.ts"
import * as Failures from "./failures.ts"
import * as Request from "./request.ts"

const DEFAULT_BASE_URL = "https://api.openai.com/v1"

/** The longest time the SDK tells a server of, in milliseconds. */
const MAX_TIMEOUT = 2 ** 31 - 1

/** Anything shorter is a placeholder such as `ollama`, and taking it out of an error would only make it unreadable. */
const SHORTEST_SECRET = 8

export interface Settings {
  readonly model: string
  readonly baseUrl: string
  readonly apiKey: string | undefined
  readonly profile: ProviderProfile.ProviderProfile
  readonly limits: Limits
  readonly codecTransformer: LanguageModel.CodecTransformer
  readonly memory: Request.Memory
  readonly transport: HttpTransport.HttpTransport
  /** How the requests of each method fail. */
  readonly failures: Readonly<Record<Failures.Request["method"], Failures.Failures>>
  /** Fails where what is configured cannot work; found with the first request. */
  readonly target: (failures: Failures.Failures) => Effect.Effect<Client.Target, AiError.AiError>
}

export const resolve = (options: Options, fetch: typeof globalThis.fetch): Settings => {
  const baseUrl = options.baseUrl ?? DEFAULT_BASE_URL
  const profile = options.profile ?? ProviderProfile.fromBaseUrl(baseUrl)
  // A key read from a file often ends with a line break.
  const apiKey = options.apiKey === undefined ? undefined : Redacted.value(options.apiKey).trim() || undefined
  const headers = Object.entries(options.headers ?? {}).map(([name, value]) =>
    [name, typeof value === "string" ? value : Redacted.value(value)] as const
  )
  const secretHeaders = Object.values(options.headers ?? {}).flatMap((value) =>
    typeof value === "string" ? [] : [Redacted.value(value)]
  )
  const limits: Limits = {
    firstByteTimeout: millis(options.firstByteTimeout ?? "5 minutes"),
    idleTimeout: millis(options.idleTimeout ?? "2 minutes"),
    finishGrace: millis(options.finishGrace ?? "2 seconds"),
    maxEventBytes: bytes(options.maxEventBytes, ByteSize.mebibytes(4)),
    maxResponseBytes: bytes(options.maxResponseBytes, ByteSize.mebibytes(64))
  }

  const secrets = [apiKey ?? "", ...secretHeaders, ...queryValues(baseUrl)].filter((text) =>
    text.length >= SHORTEST_SECRET
  )
  const failuresOf = (method: Failures.Request["method"]): Failures.Failures =>
    Failures.make({ method, model: options.model, baseUrl, hasKey: apiKey !== undefined, secrets })

  let target: Client.Target | undefined
  return {
    model: options.model,
    baseUrl,
    apiKey,
    profile,
    limits,
    failures: { generateText: failuresOf("generateText"), streamText: failuresOf("streamText") },
    codecTransformer: profile.strictSchemas
      ? OpenAiStructuredOutput.toCodecOpenAI
      : LanguageModel.defaultCodecTransformer,
    memory: Request.makeMemory(),
    transport: options.transport ?? HttpTransport.fromFetch(fetch),
    target: (failures) =>
      Effect.suspend(() => {
        if (target !== undefined) return Effect.succeed(target)
        if (!isBaseUrl(baseUrl)) return Effect.fail(failures.invalidBaseUrl())
        if (apiKey === undefined && profile.requiresApiKey) return Effect.fail(failures.missingKey(profile.name))
        if (apiKey !== undefined && !isHeaderValue(apiKey)) return Effect.fail(failures.unusableHeader("API key"))
        const unusable = headers.find(([, value]) => !isHeaderValue(value))
        if (unusable !== undefined) return Effect.fail(failures.unusableHeader(unusable[0]))
        return Client.target({
          baseUrl,
          apiKey,
          headers: Object.fromEntries(headers),
          profile,
          timeout: Math.min(Math.ceil(limits.firstByteTimeout), MAX_TIMEOUT)
        }).pipe(
          Effect.mapError(({ cause }) => failures.unreachable(cause)),
          Effect.tap((made) => Effect.sync(() => void (target = made)))
        )
      })
  }
}

const millis = (input: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(input))

const bytes = (input: ByteSize.Input | undefined, otherwise: ByteSize.ByteSize): number =>
  ByteSize.toNumberUnsafe(input === undefined ? otherwise : ByteSize.fromInputUnsafe(input))

/** `fetch` refuses a URL with credentials, and quotes it. */
const isBaseUrl = (text: string): boolean => {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return false
  const { password, username } = new URL(text)
  return username === "" && password === ""
}

/** Some gateways take their key in the query. */
const queryValues = (baseUrl: string): ReadonlyArray<string> =>
  URL.canParse(baseUrl) ? Array.from(new URL(baseUrl).searchParams.values()) : []

const isHeaderValue = (text: string): boolean => /^[\x20-\x7e\x80-\xff]*$/.test(text)
