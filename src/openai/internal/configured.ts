/*
 * The options of a model from the environment. Only who wants them so loads effect's configuration.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { Options } from "../OpenAiModel.ts"

export const configured = Effect.fnUntraced(function*(
  defaults: Partial<Options> | undefined
): Effect.fn.Return<Options, Config.ConfigError> {
  const apiKey = yield* optional("OPENAI_API_KEY")
  const baseUrl = yield* optional("OPENAI_BASE_URL")
  const model = yield* optional("OPENAI_MODEL")
  return {
    ...defaults,
    model: model ?? defaults?.model ?? (yield* Config.NonEmptyString("OPENAI_MODEL")),
    apiKey: apiKey === undefined ? defaults?.apiKey : Redacted.make(apiKey),
    baseUrl: baseUrl ?? defaults?.baseUrl
  }
})

/** An empty variable counts as absent. */
const optional = (name: string): Effect.Effect<string | undefined, Config.ConfigError> =>
  Effect.map(Config.option(Config.String(name)), (value) => {
    const text = Option.getOrElse(value, () => "").trim()
    return text === "" ? undefined : text
  })
