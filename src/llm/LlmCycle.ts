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
import * as Model from "effect/ai/Model"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import * as HandlerContext from "../internal/handlerContext.ts"
import type { Decision } from "../tools/PermissionPolicy.ts"
import type { Answer, Question } from "../tools/Question.ts"
import { ToolRegistry } from "../tools/ToolRegistry.ts"
import { LastTurnTimeout, type Spent } from "./Budget.ts"
import { type CycleConfig, errorPolicy, type TurnOptions } from "./CycleConfig.ts"
import {
  AwaitingAnswers,
  type CycleError,
  type CycleErrorReason,
  make as makeError,
  NothingToResume
} from "./CycleError.ts"
import type { CycleEvent } from "./CycleEvent.ts"
import type { CycleResponse } from "./CycleResponse.ts"
import { CycleStore } from "./CycleStore.ts"
import type { CycleStoreError } from "./CycleStoreError.ts"
import * as History from "./History.ts"
import * as Budget from "./internal/budget.ts"
import { compactorOf } from "./internal/compactTurn.ts"
import { type Conversation, keep, makeSubmit, save, type Submit, systemMessages } from "./internal/conversation.ts"
import { makeGate } from "./internal/gate.ts"
import { type Keeper, makeKeeper } from "./internal/keeper.ts"
import { type Goal, makeGoal } from "./internal/objectAnswer.ts"
import { plainLoop } from "./internal/plainLoop.ts"
import * as Restore from "./internal/restore.ts"
import { findInvalid } from "./internal/spending.ts"
import { streamLoop } from "./internal/streamLoop.ts"
import * as Telemetry from "./internal/telemetry.ts"
import { type Concluded, resume } from "./internal/turn.ts"
import { makeTally } from "./internal/usage.ts"
import type { ObjectOptions, ObjectResponse } from "./ObjectResponse.ts"
import type { SavedCycle } from "./SavedCycle.ts"

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
  /**
   * Adds the prompt and lets the model use tools until it has given an answer of
   * the schema's shape. Fails with `InvalidObject` when it does not come to one.
   */
  readonly submitObject: <A, RD = never>(
    prompt: Prompt.RawInput,
    options: ObjectOptions<A, RD>
  ) => Effect.Effect<ObjectResponse<A>, CycleError, RD>
  /** `submitObject` as a stream: the answer is the `value` of `CycleComplete`, as JSON. */
  readonly submitStreamObject: <A, RD = never>(
    prompt: Prompt.RawInput,
    options: ObjectOptions<A, RD>
  ) => Stream.Stream<CycleEvent, CycleError, RD>
  /** `resume`, for a submit that is after an answer of a shape. Repairs are counted anew. */
  readonly resumeObject: <A, RD = never>(
    options: ObjectOptions<A, RD>,
    answers?: ReadonlyArray<Answer>
  ) => Effect.Effect<ObjectResponse<A>, CycleError, RD>
  /** `resumeObject` as a stream. */
  readonly resumeStreamObject: <A, RD = never>(
    options: ObjectOptions<A, RD>,
    answers?: ReadonlyArray<Answer>
  ) => Stream.Stream<CycleEvent, CycleError, RD>
  /**
   * Goes on with the submit that waits for answers, is paused, or was cut off:
   * here, or, in a conversation that was kept, in another process. Questions
   * that get no answer stay open. Fails with `InvalidAnswer` before anything
   * runs, and with `NothingToResume` where no submit is left to go on with.
   */
  readonly resume: (answers?: ReadonlyArray<Answer>) => Effect.Effect<CycleResponse, CycleError>
  /** `resume` as a stream. */
  readonly resumeStream: (answers?: ReadonlyArray<Answer>) => Stream.Stream<CycleEvent, CycleError>
  /** The questions that calls wait with. While there are any, `resume` is what can be done. */
  readonly pending: Effect.Effect<ReadonlyArray<Question>>
  /** Tokens of all submits, as far as the provider tells. */
  readonly usage: Effect.Effect<Response.Usage>
  /** What all submits have spent: tokens, cost, time. What is nested in their tools counts as well. */
  readonly spent: Effect.Effect<Spent>
  /** The whole transcript, valid at every instant; without `system`. */
  readonly messages: Effect.Effect<ReadonlyArray<Prompt.Message>>
  /** The transcript with its turns. */
  readonly history: Effect.Effect<History.History>
  /** All of it as plain data, for `restore`. Its revision is 0. */
  readonly saved: Effect.Effect<SavedCycle>
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
export const make = <R = never>(
  config: CycleConfig<R> = {}
): Effect.Effect<LlmCycle["Service"], never, R | LanguageModel.LanguageModel | ToolRegistry> =>
  assemble(config, undefined, undefined)

/**
 * Goes on with a conversation from what `saved` told of it. It brings its own
 * `sessionId`, history and shared state; those of the configuration are not used.
 * Calls that were running then are answered as interrupted.
 *
 * @category constructors
 * @since 0.1.0
 */
export const restore = <R = never>(
  saved: SavedCycle,
  config: CycleConfig<R> = {}
): Effect.Effect<LlmCycle["Service"], never, R | LanguageModel.LanguageModel | ToolRegistry> =>
  assemble(config, saved, undefined)

/**
 * Opens a conversation that is kept in the `CycleStore`: the one of that id, or a
 * new one. It is saved when a prompt joins it, after each turn and after each
 * call's result, and before an answer to a question takes effect. Fails if it
 * cannot be loaded; a submit fails with `StoreFailed` if it cannot be saved.
 *
 * @category constructors
 * @since 0.1.0
 */
export const open = <R = never>(
  sessionId: string,
  config: CycleConfig<R> = {}
): Effect.Effect<
  LlmCycle["Service"],
  CycleStoreError,
  R | LanguageModel.LanguageModel | ToolRegistry | CycleStore
> =>
  Effect.gen(function*() {
    const store = yield* CycleStore
    const saved = yield* store.load(sessionId)
    return yield* assemble({ ...config, sessionId }, saved, makeKeeper(store, saved?.revision ?? 0))
  })

const assemble = Effect.fnUntraced(function*<R>(
  config: CycleConfig<R>,
  saved: SavedCycle | undefined,
  keeper: Keeper | undefined
) {
  const registry = yield* ToolRegistry
  const state = new Map<string, unknown>(Object.entries(saved?.sharedState ?? {}))
  const conversation: Conversation = {
    sessionId: saved?.sessionId ?? config.sessionId ?? (yield* randomSessionId),
    config: yield* provided(config),
    errorPolicy: errorPolicy(config),
    model: yield* LanguageModel.LanguageModel,
    modelName: Option.getOrUndefined(yield* Effect.serviceOption(Model.ModelName)),
    registry,
    tools: config.tools === undefined ? registry : registry.view(config.tools),
    system: systemMessages(config.system),
    sharedState: yield* Ref.make<ReadonlyMap<string, unknown>>(state),
    keeper,
    limits: Budget.limitsOf(config.budget),
    lastTurnTimeout: yield* LastTurnTimeout,
    account: Budget.makeAccount({ limits: Budget.NO_LIMITS, pricing: config.pricing }),
    compactor: yield* compactorOf(config),
    history: History.fromMessages(config.history ?? [], config.turns),
    tally: makeTally(),
    pending: [],
    running: new Set(),
    submit: undefined
  }
  if (saved !== undefined) Restore.restore(conversation, saved)
  const gate = makeGate()
  const attributes = Telemetry.agentAttributes(conversation.sessionId)
  const refuse = (reason: CycleErrorReason) => Effect.fail(makeError(reason))

  // The prompt joins the history when its turn comes, not when it is called.
  const begin = (withTools: boolean, prompt: Prompt.RawInput | undefined): Start =>
    Effect.suspend(() => {
      const { pending } = conversation
      if (pending.length > 0) return refuse(new AwaitingAnswers({ questions: pending }))
      const invalid = findInvalid(conversation)
      if (invalid !== undefined) return refuse(invalid)
      conversation.history = History.append(
        conversation.history,
        prompt === undefined ? [] : Prompt.make(prompt).content
      )
      const submit = makeSubmit(conversation, withTools)
      conversation.submit = submit
      return Effect.as(keep(submit), { submit })
    })

  const takeUp = (answers: ReadonlyArray<Answer> = []): Start =>
    Effect.suspend(() => {
      const { submit } = conversation
      const invalid = findInvalid(conversation)
      if (invalid !== undefined) return refuse(invalid)
      return submit === undefined
        ? refuse(new NothingToResume())
        : Effect.succeed({ submit, resumed: resume(submit, answers) })
    })

  const aim = (start: Start, goal: Goal): Start =>
    Effect.tap(start, ({ submit }) =>
      Effect.sync(() => {
        submit.goal = goal
      }))

  const span = { attributes }
  const run = (start: Start) =>
    gate.effect(
      Effect.flatMap(start, ({ resumed, submit }) =>
        Budget.working(submit.account, conversation.account, plainLoop(submit, resumed)))
    ).pipe(
      Effect.withSpan(Telemetry.AGENT_SPAN, span, { captureStackTrace: false })
    )
  const stream = (start: Start) =>
    gate.stream(
      Stream.unwrap(Effect.flatMap(start, ({ resumed, submit }) =>
        Effect.as(
          Budget.workingScoped(submit.account, conversation.account),
          Stream.provideService(streamLoop(submit, resumed), Budget.CurrentAccount, submit.account)
        )))
    ).pipe(
      Stream.withSpan(Telemetry.AGENT_SPAN, span)
    )
  const runTowards = <A, RD>(start: Start, options: ObjectOptions<A, RD>) =>
    Effect.flatMap(
      makeGoal(options),
      ({ goal, value }) =>
        Effect.map(run(aim(start, goal)), (response): ObjectResponse<A> => ({ value: value(), response }))
    )
  const streamTowards = <A, RD>(start: Start, options: ObjectOptions<A, RD>) =>
    Stream.unwrap(Effect.map(makeGoal(options), ({ goal }) => stream(aim(start, goal))))

  return LlmCycle.of({
    sessionId: conversation.sessionId,
    submit: (prompt) => run(begin(false, prompt)),
    submitMessages: run(begin(false, undefined)),
    submitWithTools: (prompt) => run(begin(true, prompt)),
    submitStream: (prompt) => stream(begin(false, prompt)),
    submitStreamWithTools: (prompt) => stream(begin(true, prompt)),
    submitObject: (prompt, options) => runTowards(begin(true, prompt), options),
    submitStreamObject: (prompt, options) => streamTowards(begin(true, prompt), options),
    resume: (answers) => run(takeUp(answers)),
    resumeStream: (answers) => stream(takeUp(answers)),
    resumeObject: (options, answers) => runTowards(takeUp(answers), options),
    resumeStreamObject: (options, answers) => streamTowards(takeUp(answers), options),
    pending: Effect.sync(() => conversation.pending),
    usage: Effect.sync(() => conversation.tally.read()),
    spent: Effect.suspend(() => Budget.spentOf(conversation.account)),
    messages: Effect.sync(() => History.messages(conversation.history)),
    history: Effect.sync(() => conversation.history),
    saved: Effect.suspend(() => save(conversation, 0))
  })
})

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

/**
 * Provides one conversation that is kept in the `CycleStore`, as `open` does.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerOpen = <R = never>(
  sessionId: string,
  config?: CycleConfig<R>
): Layer.Layer<
  LlmCycle,
  CycleStoreError,
  R | LanguageModel.LanguageModel | ToolRegistry | CycleStore
> => Layer.effect(LlmCycle, open(sessionId, config))

// =============================================================================
// Internals
// =============================================================================

/** What a run begins with: a submit, and what an earlier turn of it has left to do. */
type Start = Effect.Effect<
  { readonly submit: Submit; readonly resumed?: Effect.Effect<Concluded, CycleError> },
  CycleError
>

const randomSessionId = Effect.map(
  Effect.all([Random.nextInt, Random.nextInt]),
  (numbers) => `session-${numbers.map((number) => (number >>> 0).toString(36)).join("")}`
)

// The functions of a configuration keep the services they were made with, as
// the handlers of tools do.
const provided = <R>(
  { compaction, prepareTurn, restrict, ...rest }: CycleConfig<R>
): Effect.Effect<CycleConfig, never, R> =>
  Effect.map(Effect.context<R>(), (context) => {
    const withServices = HandlerContext.provider(context)
    return {
      ...rest,
      restrict: restrict && ((request) => withServices<Decision, never, never>(restrict(request))),
      prepareTurn: prepareTurn && ((state) => withServices<TurnOptions, never, never>(prepareTurn(state))),
      // Any other has its services already.
      compaction: typeof compaction !== "function" ?
        undefined :
        ((state) => withServices<ReadonlyArray<Prompt.Message> | undefined, never, never>(compaction(state)))
    }
  })
