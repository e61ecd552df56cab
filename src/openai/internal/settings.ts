/*
 * The options of a model with their defaults, and the client they make.
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import type * as Tool from "effect/ai/Tool"
import * as ByteSize from "effect/ByteSize"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Options } from "../OpenAiModel.ts"
import * as ProviderProfile from "../ProviderProfile.ts"
import type { Limits } from "./body.ts"
import * as Client from "./client.ts"
import type { Failures } from "./failures.ts"
import type { Json } from "./json.ts"

const DEFAULT_BASE_URL = "https://api.openai.com/v1"

/** How much longer the SDK waits than this layer: its own limit is only there because it can't be turned off. */
const SDK_PATIENCE = Duration.minutes(1)

/** The longest a JavaScript timer runs, in milliseconds. */
const MAX_TIMER = 2 ** 31 - 1

/** Anything shorter is a placeholder such as `ollama`, and taking it out of an error would only make it unreadable. */
const SHORTEST_SECRET = 8

export interface Settings {
  readonly model: string
  readonly baseUrl: string
  readonly apiKey: string | undefined
  readonly profile: ProviderProfile.ProviderProfile
  readonly limits: Limits
  readonly secrets: ReadonlyArray<string>
  readonly codecTransformer: LanguageModel.CodecTransformer
  readonly definitions: WeakMap<Tool.Any, Json>
  /** Fails where what is configured cannot work; made with the first request. */
  readonly client: (failures: Failures) => Effect.Effect<Client.Client, AiError.AiError>
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
    firstByteTimeout: Duration.fromInputUnsafe(options.firstByteTimeout ?? "5 minutes"),
    idleTimeout: Duration.fromInputUnsafe(options.idleTimeout ?? "2 minutes"),
    finishGrace: Duration.fromInputUnsafe(options.finishGrace ?? "2 seconds"),
    maxEventBytes: size(options.maxEventBytes, ByteSize.mebibytes(4)),
    maxResponseBytes: size(options.maxResponseBytes, ByteSize.mebibytes(64))
  }

  let client: Client.Client | undefined
  return {
    model: options.model,
    baseUrl,
    apiKey,
    profile,
    limits,
    secrets: [apiKey ?? "", ...secretHeaders, ...queryValues(baseUrl)].filter((text) => text.length >= SHORTEST_SECRET),
    codecTransformer: profile.strictSchemas
      ? OpenAiStructuredOutput.toCodecOpenAI
      : LanguageModel.defaultCodecTransformer,
    definitions: new WeakMap(),
    client: (failures) =>
      Effect.suspend(() => {
        if (client !== undefined) return Effect.succeed(client)
        if (!isBaseUrl(baseUrl)) return Effect.fail(failures.invalidBaseUrl())
        if (apiKey === undefined && profile.requiresApiKey) return Effect.fail(failures.missingKey(profile.name))
        if (apiKey !== undefined && !isHeaderValue(apiKey)) return Effect.fail(failures.unusableHeader("API key"))
        const unusable = headers.find(([, value]) => !isHeaderValue(value))
        if (unusable !== undefined) return Effect.fail(failures.unusableHeader(unusable[0]))
        client = Client.make({
          baseUrl,
          apiKey,
          headers: Object.fromEntries(headers),
          profile,
          fetch,
          timeout: Math.min(Duration.toMillis(Duration.sum(limits.firstByteTimeout, SDK_PATIENCE)), MAX_TIMER)
        })
        return Effect.succeed(client)
      })
  }
}

const size = (input: ByteSize.Input | undefined, otherwise: ByteSize.ByteSize): ByteSize.ByteSize =>
  input === undefined ? otherwise : ByteSize.fromInputUnsafe(input)

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
