/*
 * What all submits of one conversation share, and what one submit has come to
 * so far.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type * as Schema from "effect/Schema"
import type { Question } from "../../tools/Question.ts"
import type { ToolInvocation } from "../../tools/ToolInvocation.ts"
import type { ToolView } from "../../tools/ToolRegistry.ts"
import { type CycleConfig, defaultMaxTurns, type ErrorPolicy, type TurnState } from "../CycleConfig.ts"
import { CycleError, type CycleErrorReason, StoreFailed } from "../CycleError.ts"
import type { CycleEvent } from "../CycleEvent.ts"
import * as History from "../History.ts"
import type { SavedCycle, SavedSubmit } from "../SavedCycle.ts"
import type { Keeper } from "./keeper.ts"
import type { Goal } from "./objectAnswer.ts"
import { NO_USAGE } from "./usage.ts"

/** A conversation. Only the submit whose turn it is writes to it. */
export interface Conversation {
  readonly sessionId: string
  readonly config: CycleConfig
  readonly errorPolicy: ErrorPolicy
  readonly model: LanguageModel.LanguageModel
  readonly tools: ToolView
  /** The instructions as a message, or none. */
  readonly system: ReadonlyArray<Prompt.Message>
  readonly sharedState: Ref.Ref<ReadonlyMap<string, unknown>>
  /** Keeps it where it outlives the process; `undefined` where nothing does. */
  readonly keeper: Keeper | undefined
  history: History.History
  /** Tokens of all submits. */
  usage: Response.Usage
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
  /** Who hears of running tools; the streaming loop has one for each turn. */
  sink: Sink
  turns: number
  usage: Response.Usage
  readonly invocations: Array<ToolInvocation>
}

/** Where events of running tools go. */
interface Sink {
  /** May wait for room; every event arrives. */
  readonly emit: (event: CycleEvent) => Effect.Effect<void>
  /** Never waits; without room the event is dropped. */
  readonly offer: (event: CycleEvent) => void
}

const SILENCE: Sink = { emit: () => Effect.void, offer: () => {} }

export const makeSubmit = (conversation: Conversation, withTools: boolean, saved?: SavedSubmit): Submit => ({
  conversation,
  withTools,
  // Without tools there is nothing to come back for.
  maxTurns: withTools ? conversation.config.maxTurns ?? defaultMaxTurns : 1,
  goal: undefined,
  sink: SILENCE,
  turns: saved?.turns ?? 0,
  usage: saved?.usage ?? NO_USAGE,
  invocations: [...saved?.invocations ?? []]
})

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

/** As the application's own functions see it. */
export const turnState = (submit: Submit, turn: number): TurnState => ({
  turn,
  get messages() {
    return History.messages(submit.conversation.history)
  },
  usage: submit.usage,
  invocations: submit.invocations.slice()
})

/** The conversation as plain data. What tools share is checked when it is written. */
export const save = (conversation: Conversation, revision: number): Effect.Effect<SavedCycle> =>
  Effect.map(Ref.get(conversation.sharedState), (sharedState) => {
    const { history, pending, running, sessionId, submit, usage } = conversation
    return {
      sessionId,
      revision,
      turns: history.turns,
      messages: History.messages(history),
      running: Array.from(running),
      pending,
      // Tools may keep anything there: what is no JSON is refused by whoever writes it.
      sharedState: Object.fromEntries(sharedState) as Record<string, Schema.Json>,
      usage,
      ...(submit === undefined ? undefined : {
        submit: {
          withTools: submit.withTools,
          turns: submit.turns,
          usage: submit.usage,
          invocations: submit.invocations.slice()
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
  new CycleError({ reason, turns: submit.turns, usage: submit.usage, invocations: submit.invocations })
