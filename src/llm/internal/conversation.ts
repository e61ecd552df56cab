/*
 * What all submits of one conversation share, and what one submit has come to
 * so far.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type * as Schema from "effect/Schema"
import type { Question } from "../../tools/Question.ts"
import type { ToolInvocation } from "../../tools/ToolInvocation.ts"
import type { ToolRegistry, ToolView } from "../../tools/ToolRegistry.ts"
import { type CycleConfig, defaultMaxTurns, type ErrorPolicy, type Repetition, type TurnState } from "../CycleConfig.ts"
import { CycleError, type CycleErrorReason, InvalidLimit, StoreFailed } from "../CycleError.ts"
import type { CycleEvent } from "../CycleEvent.ts"
import * as History from "../History.ts"
import type { SavedCycle, SavedSubmit } from "../SavedCycle.ts"
import type { Answer } from "./answer.ts"
import * as Budget from "./budget.ts"
import type { Compactor } from "./compactor.ts"
import type { Keeper } from "./keeper.ts"
import type { Goal } from "./objectAnswer.ts"
import { makeTracker } from "./repetition.ts"
import { makeTally, type Tally } from "./usage.ts"

/** A conversation. Only the submit whose turn it is writes to it. */
export interface Conversation {
  readonly sessionId: string
  readonly config: CycleConfig
  readonly errorPolicy: ErrorPolicy
  readonly model: LanguageModel.LanguageModel
  /** What the model is called, where effect/ai's `Model` says it. */
  readonly modelName: string | undefined
  readonly registry: ToolRegistry["Service"]
  /** Its tools, narrowed. */
  readonly tools: ToolView
  /** The instructions as a message, or none. */
  readonly system: ReadonlyArray<Prompt.Message>
  readonly sharedState: Ref.Ref<ReadonlyMap<string, unknown>>
  /** Keeps it where it outlives the process; `undefined` where nothing does. */
  readonly keeper: Keeper | undefined
  /** Of one submit. */
  readonly limits: Budget.Limits | InvalidLimit
  readonly lastTurnTimeout: Duration.Duration
  /** What all submits have spent. */
  account: Budget.Account
  /** Keeps it within the window of its model; `undefined` where nothing does. */
  readonly compactor: Compactor | undefined
  history: History.History
  /** Tokens of all submits. */
  tally: Tally
  /** What calls of the last turn wait for. */
  pending: ReadonlyArray<Question>
  /** Calls of the last turn that may have begun and have no result yet, by index. */
  running: ReadonlySet<number>
  /** The submit that has not come to its end. */
  submit: Submit | undefined
}

/** One submit while it runs. */
export interface Submit {
  readonly conversation: Conversation
  /** Whether the model is offered tools and its calls are run. */
  readonly withTools: boolean
  readonly maxTurns: number
  /** The answer of a shape it is after, if it is after one. */
  goal: Goal | undefined
  /** Whether anybody hears of events; where nobody does, none are made. */
  isHeard: boolean
  /** Who hears of running tools; the streaming loop has one for each turn. */
  sink: Sink
  turns: number
  readonly tally: Tally
  readonly invocations: Array<ToolInvocation>
  /** What it has spent, and may spend. */
  readonly account: Budget.Account
  /** How the model has repeated itself until now. */
  readonly repetition: () => Repetition | undefined
  /** The last response; `undefined` before the first in this process. */
  last: LastAnswer | undefined
}

/** What is told of a response when the submit comes to rest. */
export type LastAnswer = Pick<Answer, "content" | "text" | "finishReason">

/** Where events of running tools go. */
interface Sink {
  /** May wait for room; every event arrives. */
  readonly emit: (event: CycleEvent) => Effect.Effect<void>
  /** Never waits; without room the event is dropped. */
  readonly offer: (event: CycleEvent) => void
}

const SILENCE: Sink = { emit: () => Effect.void, offer: () => {} }

export const makeSubmit = (conversation: Conversation, withTools: boolean, saved?: SavedSubmit): Submit => {
  const { config, limits } = conversation
  const invocations = [...saved?.invocations ?? []]
  return {
    conversation,
    withTools,
    // Without tools there is nothing to come back for.
    maxTurns: withTools ? config.maxTurns ?? defaultMaxTurns : 1,
    goal: undefined,
    isHeard: false,
    sink: SILENCE,
    turns: saved?.turns ?? 0,
    tally: makeTally(saved?.usage),
    invocations,
    account: Budget.makeAccount({
      // Where a limit is none, nothing is asked.
      limits: limits instanceof InvalidLimit ? Budget.NO_LIMITS : limits,
      pricing: config.pricing,
      spent: saved?.spent,
      from: saved?.budgetFrom
    }),
    repetition: makeTracker(invocations),
    last: undefined
  }
}

/** Counts tokens that were used for a submit. */
export const charge = (submit: Submit, usage: Response.Usage): void => {
  submit.tally.add(usage)
  submit.conversation.tally.add(usage)
}

export const systemMessages = (system: string | undefined): ReadonlyArray<Prompt.Message> =>
  system === undefined ? [] : [Prompt.makeMessage("system", { content: system })]

/**
 * The messages so far, which do not change any more. They stay the same objects
 * from request to request: effect/ai's `ResponseIdTracker` goes by that.
 */
export const closeHistory = (conversation: Conversation): ReadonlyArray<Prompt.Message> => {
  conversation.history = History.append(conversation.history, [])
  return conversation.history.closed
}

/** Without text that was cut off while it arrived: a provider refuses to go on from its own half answer. */
export const withoutDraft = (history: History.History): History.History =>
  history.open === undefined || "calls" in history.open ? history : { ...history, open: undefined }

/** As the application's own functions see it. */
export const turnState = (submit: Submit, turn: number): TurnState => ({
  turn,
  get messages() {
    return History.messages(submit.conversation.history)
  },
  usage: submit.tally.read(),
  invocations: submit.invocations.slice(),
  tokens: submit.account.tokens,
  cost: Budget.costOf(submit.account),
  get repetition() {
    return submit.repetition()
  }
})

/** The conversation as plain data. What tools share is checked when it is written. */
export const save = (conversation: Conversation, revision: number): Effect.Effect<SavedCycle> =>
  Effect.gen(function*() {
    const sharedState = yield* Ref.get(conversation.sharedState)
    const { pending, running, sessionId, submit, tally } = conversation
    // The submit is there to be resumed, which asks again for what was cut off.
    const history = submit === undefined ? conversation.history : withoutDraft(conversation.history)
    const spent = yield* Budget.spentOf(conversation.account)
    const spentBySubmit = submit === undefined ? undefined : yield* Budget.spentOf(submit.account)
    return {
      sessionId,
      revision,
      turns: history.turns,
      messages: History.messages(history),
      running: Array.from(running),
      pending,
      // Tools may keep anything there: what is no JSON is refused by whoever writes it.
      sharedState: Object.fromEntries(sharedState) as Record<string, Schema.Json>,
      usage: tally.read(),
      spent,
      ...(submit === undefined || spentBySubmit === undefined ? undefined : {
        submit: {
          withTools: submit.withTools,
          turns: submit.turns,
          usage: submit.tally.read(),
          invocations: submit.invocations.slice(),
          spent: spentBySubmit,
          ...(Budget.isRenewed(submit.account) ? { budgetFrom: submit.account.from } : undefined)
        }
      })
    }
  })

/** Keeps what has changed, if anything keeps it; fails if it could not. */
export const keep = (submit: Submit): Effect.Effect<void, CycleError> => {
  const { conversation } = submit
  return conversation.keeper === undefined
    ? Effect.void
    : Effect.mapError(conversation.keeper(conversation), (error) => fail(submit, new StoreFailed({ error })))
}

export const fail = (submit: Submit, reason: CycleErrorReason): CycleError =>
  new CycleError({ reason, turns: submit.turns, usage: submit.tally.read(), invocations: submit.invocations })
