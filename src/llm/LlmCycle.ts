/**
 * One conversation with a model that may call tools.
 *
 * A submit asks the model, runs what it calls, feeds the results back and asks
 * again, until there is an answer. It comes plain, as one Effect, or as a Stream
 * of events; both take the same turns by the same rules.
 *
 * Submits queue up: each sees the history the one before has left. Whatever
 * happens, interruption included, the history stays valid.
 *
 * @since 0.1.0
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import * as HandlerContext from "../internal/handlerContext.ts"
import { ToolRegistry } from "../tools/ToolRegistry.ts"
import { type CycleConfig, errorPolicy, type TurnOptions } from "./CycleConfig.ts"
import type { CycleError } from "./CycleError.ts"
import type { CycleEvent } from "./CycleEvent.ts"
import type { CycleResponse } from "./CycleResponse.ts"
import * as History from "./History.ts"
import { type Conversation, makeSubmit, systemMessages } from "./internal/conversation.ts"
import { makeGate } from "./internal/gate.ts"
import { plainLoop } from "./internal/plainLoop.ts"
import { streamLoop } from "./internal/streamLoop.ts"
import * as Telemetry from "./internal/telemetry.ts"

// =============================================================================
// Service
// =============================================================================

/**
 * A conversation.
 *
 * Prompts are whatever effect/ai takes: a text, messages, or a `Prompt`. Every
 * submit fails with a `CycleError`; interrupting it stops the model's request
 * and every running tool.
 *
 * **Example** (A tool conversation with a scripted model)
 *
 * ```ts run
 * import { LlmCycle, PermissionPolicy, Tool, ToolRegistry } from "agcore"
 * import { ScriptedModel } from "agcore/testing"
 * import { Effect, Layer, Schema } from "effect"
 *
 * class Clock extends Tool.Service<Clock>()("clock", {
 *   description: "Tells the time",
 *   success: Schema.String
 * }) {}
 *
 * const Live = LlmCycle.layer().pipe(
 *   Layer.provide(ToolRegistry.layer(Clock)),
 *   Layer.provide([
 *     Clock.layer(() => Effect.succeed("12:00")),
 *     PermissionPolicy.layer(),
 *     ScriptedModel.layer([
 *       ScriptedModel.calls({ name: "clock", params: {} }),
 *       ScriptedModel.text("It is noon.")
 *     ])
 *   ])
 * )
 *
 * const program = Effect.gen(function*() {
 *   const cycle = yield* LlmCycle.LlmCycle
 *   const response = yield* cycle.submitWithTools("What time is it?")
 *   return [response.text, response.turns, response.invocations[0]?.output]
 * }).pipe(Effect.provide(Live))
 *
 * await Effect.runPromise(program) // => ["It is noon.", 2, "12:00"]
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export class LlmCycle extends Context.Service<LlmCycle, {
  /** Names the conversation for tools, policies and traces. */
  readonly sessionId: string
  /** Adds the prompt and asks for an answer without tools. */
  readonly submit: (prompt: Prompt.RawInput) => Effect.Effect<CycleResponse, CycleError>
  /** Asks for an answer to what is already in the history, without tools. */
  readonly submitMessages: Effect.Effect<CycleResponse, CycleError>
  /** Adds the prompt and lets the model use tools until it has an answer. */
  readonly submitWithTools: (prompt: Prompt.RawInput) => Effect.Effect<CycleResponse, CycleError>
  /** `submit` as a stream. Leaving it early stops the request. */
  readonly submitStream: (prompt: Prompt.RawInput) => Stream.Stream<CycleEvent, CycleError>
  /** `submitWithTools` as a stream. Leaving it early stops the request and every running tool. */
  readonly submitStreamWithTools: (prompt: Prompt.RawInput) => Stream.Stream<CycleEvent, CycleError>
  /** The whole transcript, valid at every instant; without `system`. */
  readonly messages: Effect.Effect<ReadonlyArray<Prompt.Message>>
  /** The transcript with its turns. */
  readonly history: Effect.Effect<History.History>
}>()("agcore/llm/LlmCycle") {}

// =============================================================================
// Constructors
// =============================================================================

/**
 * Starts a conversation. Several can share a model and a registry.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: <R = never>(
  config?: CycleConfig<R>
) => Effect.Effect<LlmCycle["Service"], never, R | LanguageModel.LanguageModel | ToolRegistry> = Effect.fnUntraced(
  function*<R>(config: CycleConfig<R> = {}) {
    const registry = yield* ToolRegistry
    const conversation: Conversation = {
      sessionId: config.sessionId ?? (yield* randomSessionId),
      config: yield* provided(config),
      errorPolicy: errorPolicy(config),
      model: yield* LanguageModel.LanguageModel,
      tools: config.tools === undefined ? registry : registry.view(config.tools),
      system: systemMessages(config.system),
      sharedState: yield* Ref.make<ReadonlyMap<string, unknown>>(new Map()),
      history: History.fromMessages(config.history ?? [], config.turns)
    }
    const gate = makeGate()
    const attributes = Telemetry.agentAttributes(conversation.sessionId)

    // The prompt joins the history when its turn comes, not when it is called.
    const begin = (withTools: boolean, prompt: Prompt.RawInput | undefined) =>
      Effect.sync(() => {
        conversation.history = History.append(
          conversation.history,
          prompt === undefined ? [] : Prompt.make(prompt).content
        )
        return makeSubmit(conversation, withTools)
      })

    const run = (withTools: boolean, prompt?: Prompt.RawInput) =>
      gate.effect(Effect.flatMap(begin(withTools, prompt), plainLoop)).pipe(
        Effect.withSpan(Telemetry.AGENT_SPAN, { attributes }, { captureStackTrace: false })
      )

    const stream = (withTools: boolean, prompt: Prompt.RawInput) =>
      gate.stream(Stream.unwrap(Effect.map(begin(withTools, prompt), streamLoop))).pipe(
        Stream.withSpan(Telemetry.AGENT_SPAN, { attributes })
      )

    return LlmCycle.of({
      sessionId: conversation.sessionId,
      submit: (prompt) => run(false, prompt),
      submitMessages: run(false),
      submitWithTools: (prompt) => run(true, prompt),
      submitStream: (prompt) => stream(false, prompt),
      submitStreamWithTools: (prompt) => stream(true, prompt),
      messages: Effect.sync(() => History.messages(conversation.history)),
      history: Effect.sync(() => conversation.history)
    })
  }
)

// =============================================================================
// Layers
// =============================================================================

/**
 * Provides one conversation.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <R = never>(
  config?: CycleConfig<R>
): Layer.Layer<LlmCycle, never, R | LanguageModel.LanguageModel | ToolRegistry> => Layer.effect(LlmCycle, make(config))

// =============================================================================
// Internals
// =============================================================================

const randomSessionId = Effect.map(
  Effect.all([Random.nextInt, Random.nextInt]),
  (numbers) => `session-${numbers.map((number) => (number >>> 0).toString(36)).join("")}`
)

// The functions of a configuration keep the services they were made with, as
// the handlers of tools do.
const provided = <R>(
  { compaction, prepareTurn, ...rest }: CycleConfig<R>
): Effect.Effect<CycleConfig, never, R> =>
  Effect.map(Effect.context<R>(), (context) => {
    const withServices = HandlerContext.provider(context)
    return {
      ...rest,
      prepareTurn: prepareTurn && ((state) => withServices<TurnOptions, never, never>(prepareTurn(state))),
      compaction: compaction &&
        ((state) => withServices<ReadonlyArray<Prompt.Message> | undefined, never, never>(compaction(state)))
    }
  })
