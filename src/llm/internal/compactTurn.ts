/*
 * Keeps the requests of a conversation within the window of its model: before
 * each is sent, and once more when the provider has refused it.
 */
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tokenizer from "effect/ai/Tokenizer"
import * as Effect from "effect/Effect"
import * as HashSet from "effect/HashSet"
import * as Compaction from "../Compaction.ts"
import type { CycleConfig } from "../CycleConfig.ts"
import { ContextExceeded, type CycleError, ModelFailed } from "../CycleError.ts"
import { HistoryCompacted } from "../CycleEvent.ts"
import * as History from "../History.ts"
import { ofMessages } from "../TokenEstimate.ts"
import { type Compactor, makeCompactor, type Outcome } from "./compactor.ts"
import { readOverflow } from "./compactOverflow.ts"
import { charge, closeHistory, fail, type Submit, turnState } from "./conversation.ts"
import { CurrentParent } from "./parent.ts"
import type { Request } from "./request.ts"
import * as Spending from "./spending.ts"

/** What a cycle is compacted by, if anything; a function of the configuration does without. */
export const compactorOf = Effect.fnUntraced(function*<R>(
  { compaction }: Pick<CycleConfig<R>, "compaction">
): Effect.fn.Return<Compactor | undefined, never, R> {
  if (typeof compaction === "function") return undefined
  const chosen = compaction === undefined ? yield* Compaction.Current : yield* Compaction.provided(compaction)
  return chosen === undefined
    ? undefined
    : makeCompactor(chosen, yield* Effect.serviceOption(Tokenizer.Tokenizer))
})

/** Lets the function of the configuration replace the transcript. */
export const replace = (submit: Submit, turn: number): Effect.Effect<ReadonlyArray<HistoryCompacted>> => {
  const { compaction } = submit.conversation.config
  return typeof compaction === "function" ? replaceBy(submit, turn, compaction) : NOTHING
}

const NOTHING: Effect.Effect<ReadonlyArray<HistoryCompacted>> = Effect.succeed([])

const replaceBy = Effect.fnUntraced(function*(
  submit: Submit,
  turn: number,
  compaction: Extract<CycleConfig["compaction"], (state: never) => unknown>
): Effect.fn.Return<ReadonlyArray<HistoryCompacted>> {
  const { conversation } = submit
  const messages = yield* compaction(turnState(submit, turn))
  if (messages === undefined) return []
  const before = closeHistory(conversation)
  conversation.history = History.fromMessages(messages, conversation.history.turns)
  const after = conversation.history.closed
  return before.length === after.length && before.every((message, index) => message === after[index])
    ? []
    : [compacted(submit, before, after, {
      strategy: "function",
      tokensBefore: ofMessages(before),
      tokensAfter: ofMessages(after),
      isRefused: false
    })]
})

/** The request, with a shorter transcript where that is due. */
export const fit = (submit: Submit, request: Request): Effect.Effect<Request> => {
  const { compactor, pending } = submit.conversation
  // Nothing of a turn that somebody has to answer for is touched.
  return compactor === undefined || pending.length > 0
    ? Effect.succeed(request)
    : fitBy(submit, request, compactor)
}

const fitBy = Effect.fnUntraced(function*(
  submit: Submit,
  request: Request,
  compactor: Compactor
): Effect.fn.Return<Request> {
  const outcome = yield* compactor.prepare(outgoing(submit, request), { spend: yield* spending(submit) })
  return outcome._tag === "Compacted" ? yield* shorten(submit, request, outcome, false) : request
})

/** A shorter request after one that was refused for its length; fails with why it was refused where there is none. */
export const refit = Effect.fnUntraced(function*(
  submit: Submit,
  request: Request,
  error: AiError.AiError
): Effect.fn.Return<Request, CycleError> {
  const { compactor, pending } = submit.conversation
  const refusal = readOverflow(error)
  if (compactor !== undefined && refusal !== undefined && pending.length === 0) {
    const how = { spend: yield* spending(submit), refusal }
    const outcome = yield* compactor.prepare(outgoing(submit, request), how)
    if (outcome._tag === "Compacted") {
      // What came before the first try was told then.
      return yield* shorten(submit, { ...request, events: [] }, outcome, true)
    }
    if (outcome._tag === "Exceeded") {
      const { contextWindow, tokens } = outcome
      return yield* fail(submit, new ContextExceeded({ contextWindow, tokens, error }))
    }
  }
  return yield* fail(submit, new ModelFailed({ error }))
})

const outgoing = (submit: Submit, { model, system, tools }: Request) => ({
  messages: closeHistory(submit.conversation),
  system,
  tools: tools?.definitions ?? [],
  model
})

// What a summary costs is a cost of the submit, and of the cycle above it.
const spending = (submit: Submit) =>
  Effect.map(CurrentParent, (parent) => (usage: Response.Usage) => {
    charge(submit, usage)
    Spending.chargeSummary(submit, usage)
    parent?.charge(usage)
  })

const shorten = Effect.fnUntraced(function*(
  submit: Submit,
  request: Request,
  outcome: Extract<Outcome, { readonly _tag: "Compacted" }>,
  isRefused: boolean
): Effect.fn.Return<Request> {
  const { conversation } = submit
  const before = closeHistory(conversation)
  const { callIds, turns } = conversation.history
  const after = History.fromMessages(outcome.messages, turns)
  // Turns and ids of calls are not given out again, whatever is left of them.
  conversation.history = { ...after, callIds: HashSet.union(callIds, after.callIds) }
  yield* Effect.logDebug(
    `The conversation was compacted (${outcome.strategy}): ${outcome.tokensBefore} tokens became ${outcome.tokensAfter}`
  )
  return {
    ...request,
    prompt: Prompt.fromMessages([...request.system, ...after.closed]),
    events: [...request.events, compacted(submit, before, after.closed, { ...outcome, isRefused })]
  }
})

const compacted = (
  { conversation }: Submit,
  before: ReadonlyArray<Prompt.Message>,
  after: ReadonlyArray<Prompt.Message>,
  about: Pick<HistoryCompacted, "strategy" | "tokensBefore" | "tokensAfter" | "isRefused">
): HistoryCompacted =>
  new HistoryCompacted({
    turn: conversation.history.turns + 1,
    strategy: about.strategy,
    messagesBefore: before.length,
    messagesAfter: after.length,
    tokensBefore: about.tokensBefore,
    tokensAfter: about.tokensAfter,
    isRefused: about.isRefused
  })
