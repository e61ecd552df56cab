/*
 * effect/ai's model service over a provider whose answers are pulled.
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Answering } from "./answer.ts"
import * as Collect from "./collect.ts"
import type { Request } from "./failures.ts"

export interface Provider {
  readonly codecTransformer: LanguageModel.CodecTransformer
  /** Makes a request; its answer can be read as long as the scope lives. */
  readonly ask: (
    request: LanguageModel.ProviderOptions,
    method: Request["method"]
  ) => Effect.Effect<{ readonly parts: Answering }, AiError.AiError, Scope.Scope>
}

export const make = ({ ask, codecTransformer }: Provider): Effect.Effect<LanguageModel.LanguageModel> =>
  LanguageModel.make({
    codecTransformer,
    supportsSystemMessagesInHistory: Effect.succeed(true),
    generateText: (request) =>
      ask(request, "generateText").pipe(
        Effect.flatMap(({ parts }) => Collect.whole(parts)),
        Effect.scoped
      ),
    streamText: (request) =>
      Stream.unwrap(Effect.map(ask(request, "streamText"), ({ parts }) => Stream.fromPull(Effect.succeed(parts))))
  })
