/*
 * Asks the model, whole or in a stream, again where that may help.
 *
 * Only the request is ever repeated, and only while nothing of its answer has
 * been seen.
 */
import type * as AiError from "effect/ai/AiError"
import type * as Response from "effect/ai/Response"
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Channel from "effect/Channel"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Pull from "effect/Pull"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type CycleConfig, defaultRetry, maxRetryAfter } from "../CycleConfig.ts"
import { type Answer, gather } from "./answer.ts"
import { isContextLengthError } from "./compactOverflow.ts"
import type { Request } from "./request.ts"

type Parts = NonEmptyReadonlyArray<Response.AnyPart>

/** One request, one answer. */
export const whole = (request: Request, config: CycleConfig): Effect.Effect<Answer, AiError.AiError> =>
  Effect.map(
    again(provideTo(generateText(request), request), config),
    ({ content }) => {
      const gathering = gather()
      for (const part of content) gathering.add(part)
      return gathering.end()
    }
  )

/**
 * Opens a stream in a scope and waits for its first parts; `undefined` where
 * there are none. What a failed attempt had opened is closed before the next.
 */
export const open = (
  request: Request,
  config: CycleConfig,
  scope: Scope.Scope
): Effect.Effect<
  { readonly first: Parts | undefined; readonly rest: Pull.Pull<Parts, AiError.AiError> },
  AiError.AiError
> => {
  const stream = Stream.provideContext(streamText(request), request.context)
  const attempt = Effect.flatMap(Scope.fork(scope), (own) =>
    Channel.toPullScoped(Stream.toChannel(stream), own).pipe(
      Effect.flatMap((rest) =>
        rest.pipe(
          Effect.map((first): Parts | undefined => first),
          Pull.catchDone(() => Effect.undefined),
          Effect.map((first) => ({ first, rest }))
        )
      ),
      Effect.onError((cause) => Scope.close(own, Exit.failCause(cause)))
    ))
  return again(attempt, config)
}

// Calls come back unchecked, to be admitted here; effect/ai never runs one.
const provideTo = <A>(
  ask: Effect.Effect<A, AiError.AiError>,
  { context }: Request
): Effect.Effect<A, AiError.AiError> => context === NO_CONTEXT ? ask : Effect.provideContext(ask, context)

const NO_CONTEXT = Context.empty()

const options = (request: Request) => ({
  prompt: request.prompt,
  disableToolCallResolution: true as const,
  toolCallValidation: "deferred" as const
})

// A server may refuse an empty list of tools, so none is sent.
const generateText = (
  request: Request
): Effect.Effect<{ readonly content: ReadonlyArray<Response.AnyPart> }, AiError.AiError> =>
  request.toolkit === undefined
    ? request.model.generateText(options(request))
    : request.model.generateText({
      ...options(request),
      toolkit: request.toolkit,
      toolChoice: request.toolChoice
    })

const streamText = (request: Request): Stream.Stream<Response.AnyPart, AiError.AiError> =>
  request.toolkit === undefined
    ? request.model.streamText(options(request))
    : request.model.streamText({
      ...options(request),
      toolkit: request.toolkit,
      toolChoice: request.toolChoice
    })

const again = <A>(
  ask: Effect.Effect<A, AiError.AiError>,
  config: CycleConfig
): Effect.Effect<A, AiError.AiError> =>
  // Most requests succeed, so the schedule is put together for those that do not.
  Effect.catch(ask, (error) => {
    let failure: AiError.AiError | undefined = error
    const next = Effect.suspend(() => {
      const first = failure
      failure = undefined
      return first === undefined ? ask : Effect.fail(first)
    })
    return Effect.retry(next, {
      schedule: Schedule.modifyDelay(config.retry ?? defaultRetry, ({ duration, input }) =>
        Effect.succeed(Duration.max(duration, input.retryAfter ?? Duration.zero))),
      // A request that is too long does not become shorter by waiting.
      while: (error) =>
        error.isRetryable && !isContextLengthError(error) &&
        (error.retryAfter === undefined || Duration.isLessThanOrEqualTo(error.retryAfter, maxRetryAfter))
    })
  })
