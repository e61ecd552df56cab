/*
 * What all submits of one conversation share, and what one submit has come to
 * so far.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import type * as Ref from "effect/Ref"
import type { ToolInvocation } from "../../tools/ToolInvocation.ts"
import type { ToolView } from "../../tools/ToolRegistry.ts"
import { type CycleConfig, defaultMaxTurns, type ErrorPolicy, type TurnState } from "../CycleConfig.ts"
import { CycleError, type CycleErrorReason } from "../CycleError.ts"
import type { CycleEvent } from "../CycleEvent.ts"
import * as History from "../History.ts"
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
  history: History.History
}

/** One submit while it runs. */
export interface Submit {
  readonly conversation: Conversation
  /** Whether the model is offered tools and its calls are run. */
  readonly withTools: boolean
  readonly maxTurns: number
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

export const makeSubmit = (conversation: Conversation, withTools: boolean): Submit => ({
  conversation,
  withTools,
  // Without tools there is nothing to come back for.
  maxTurns: withTools ? conversation.config.maxTurns ?? defaultMaxTurns : 1,
  sink: SILENCE,
  turns: 0,
  usage: NO_USAGE,
  invocations: []
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

export const fail = (submit: Submit, reason: CycleErrorReason): CycleError =>
  new CycleError({ reason, turns: submit.turns, usage: submit.usage, invocations: submit.invocations })
