/**
 * A language model that answers by a script, for tests.
 *
 * It is a real effect/ai `LanguageModel`, plain and streaming. A request the
 * script does not provide for is a defect: a test that asks too often fails.
 *
 * @since 0.1.0
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

// =============================================================================
// Models
// =============================================================================

/**
 * A call the model makes.
 *
 * @category models
 * @since 0.1.0
 */
export interface ScriptedCall {
  /** Default: `call-<request>-<position>`, counted from 1. */
  readonly id?: string | undefined
  readonly name: string
  /** JSON arguments, or any text where a model sends what is no JSON. */
  readonly params: unknown
}

/**
 * One response of the model.
 *
 * @category models
 * @since 0.1.0
 */
export interface ScriptedTurn {
  /** Streams in pieces of a word. Default: none. */
  readonly reasoning?: string | undefined
  /** Streams in pieces of a word. Default: none. */
  readonly text?: string | undefined
  /** Default: none. */
  readonly calls?: ReadonlyArray<ScriptedCall> | undefined
  /** `null`: the response ends without saying why. Default: `tool-calls` where there are calls, else `stop`. */
  readonly finishReason?: Response.FinishReason | null | undefined
  /** What the provider says it has counted. Default: it does not say. */
  readonly usage?: {
    /** Tokens of the request. */
    readonly input: number
    /** Tokens of the response. */
    readonly output: number
    /** How many tokens of `input` were read from a cache. Default: not told. */
    readonly cacheRead?: number | undefined
    /** How many tokens of `input` were written to a cache. Default: not told. */
    readonly cacheWrite?: number | undefined
    /** How many tokens of `output` are reasoning. Default: not told. */
    readonly reasoning?: number | undefined
  } | undefined
  /** Further parts, before the end. Default: none. */
  readonly parts?: ReadonlyArray<Response.PartEncoded & Response.StreamPartEncoded> | undefined
  /** Fails with this after everything above. Default: it succeeds. */
  readonly error?: AiError.AiError | undefined
  /** Runs before the response begins; interrupting the request interrupts it. Default: nothing. */
  readonly before?: Effect.Effect<unknown> | undefined
}

/**
 * What the model is asked.
 *
 * @category models
 * @since 0.1.0
 */
export type ScriptedRequest = LanguageModel.ProviderOptions

/**
 * The script: responses in order, each of them fixed or made from the request,
 * or one function for all of them.
 *
 * @category models
 * @since 0.1.0
 */
export type Script =
  | ReadonlyArray<ScriptedTurn | ((request: ScriptedRequest) => ScriptedTurn)>
  | ((request: ScriptedRequest, count: number) => ScriptedTurn)

// =============================================================================
// Constructors
// =============================================================================

/**
 * A response of text alone.
 *
 * @category constructors
 * @since 0.1.0
 */
export const text = (text: string): ScriptedTurn => ({ text })

/**
 * A response of calls alone.
 *
 * @category constructors
 * @since 0.1.0
 */
export const calls = (...calls: ReadonlyArray<ScriptedCall>): ScriptedTurn => ({ calls })

/**
 * A model and the requests it got.
 *
 * **Example** (Looking at what the model was asked)
 *
 * ```ts run
 * import { ScriptedModel } from "agcore/testing"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const { model, requests } = yield* ScriptedModel.make([ScriptedModel.text("Hello!")])
 *   const response = yield* model.generateText({ prompt: "Hi" })
 *   return [response.text, (yield* requests).length]
 * })
 *
 * await Effect.runPromise(program) // => ["Hello!", 1]
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: (script: Script) => Effect.Effect<{
  readonly model: LanguageModel.LanguageModel
  readonly requests: Effect.Effect<ReadonlyArray<ScriptedRequest>>
}> = Effect.fnUntraced(function*(script) {
  const requests: Array<ScriptedRequest> = []

  const next = (request: ScriptedRequest): Effect.Effect<CompleteTurn> =>
    Effect.suspend(() => {
      const count = requests.push(request)
      const step = typeof script === "function" ? script(request, count) : script[count - 1]
      if (step === undefined) {
        return Effect.die(new Error(`the script has no response for request ${count}`))
      }
      return Effect.succeed(complete(typeof step === "function" ? step(request) : step, count))
    })

  const model = yield* LanguageModel.make({
    generateText: (request) =>
      Effect.flatMap(next(request), (turn) =>
        Effect.andThen(
          turn.before,
          turn.error === undefined ? Effect.succeed(wholeParts(turn)) : Effect.fail(turn.error)
        )),
    streamText: (request) =>
      Stream.unwrap(Effect.map(next(request), (turn) =>
        Stream.fromEffectDrain(turn.before).pipe(
          Stream.concat(Stream.fromIterable(streamParts(turn))),
          Stream.concat(turn.error === undefined ? Stream.empty : Stream.fail(turn.error))
        )))
  })
  return { model, requests: Effect.sync(() => requests.slice()) }
})

// =============================================================================
// Layers
// =============================================================================

/**
 * Provides a scripted model.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (script: Script): Layer.Layer<LanguageModel.LanguageModel> =>
  Layer.effect(LanguageModel.LanguageModel, Effect.map(make(script), ({ model }) => model))

// =============================================================================
// Internals
// =============================================================================

/** A turn with its defaults. */
interface CompleteTurn {
  readonly reasoning: string
  readonly text: string
  readonly calls: ReadonlyArray<ScriptedCall & { readonly id: string }>
  readonly parts: ReadonlyArray<Response.PartEncoded & Response.StreamPartEncoded>
  readonly finish: ReadonlyArray<Response.FinishPartEncoded>
  readonly error: AiError.AiError | undefined
  readonly before: Effect.Effect<unknown>
}

const complete = (turn: ScriptedTurn, count: number): CompleteTurn => {
  const calls = (turn.calls ?? []).map(({ id, name, params }, index) => ({
    id: id ?? `call-${count}-${index + 1}`,
    name,
    params
  }))
  const reason = turn.finishReason === undefined ? (calls.length > 0 ? "tool-calls" : "stop") : turn.finishReason
  return {
    reasoning: turn.reasoning ?? "",
    text: turn.text ?? "",
    calls,
    parts: turn.parts ?? [],
    finish: reason === null || turn.error !== undefined ? [] : [{
      type: "finish",
      reason,
      usage: {
        inputTokens: {
          total: turn.usage?.input,
          cacheRead: turn.usage?.cacheRead,
          cacheWrite: turn.usage?.cacheWrite
        },
        outputTokens: { total: turn.usage?.output, reasoning: turn.usage?.reasoning }
      },
      response: undefined
    }],
    error: turn.error,
    before: turn.before ?? Effect.void
  }
}

const wholeParts = (turn: CompleteTurn): Array<Response.PartEncoded> => [
  ...(turn.reasoning === "" ? [] : [{ type: "reasoning", text: turn.reasoning } as const]),
  ...(turn.text === "" ? [] : [{ type: "text", text: turn.text } as const]),
  ...turn.parts,
  ...turn.calls.map(({ id, name, params }) => ({ type: "tool-call", id, name, params } as const)),
  ...turn.finish
]

const streamParts = (turn: CompleteTurn): Array<Response.StreamPartEncoded> => [
  ...pieces("reasoning", turn.reasoning),
  ...pieces("text", turn.text),
  ...turn.parts,
  ...turn.calls.flatMap(({ id, name, params }): Array<Response.StreamPartEncoded> => [
    { type: "tool-params-start", id, name },
    { type: "tool-params-delta", id, delta: typeof params === "string" ? params : JSON.stringify(params) },
    { type: "tool-params-end", id },
    { type: "tool-call", id, name, params }
  ]),
  ...turn.finish
]

const pieces = (type: "text" | "reasoning", whole: string): Array<Response.StreamPartEncoded> =>
  whole === "" ? [] : [
    { type: `${type}-start`, id: type },
    ...whole.split(/(?<=\s)/).map((delta) => ({ type: `${type}-delta`, id: type, delta } as const)),
    { type: `${type}-end`, id: type }
  ]
