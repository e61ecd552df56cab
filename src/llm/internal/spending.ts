/*
 * What a submit spends as it goes, and where its budget ends.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { NotExecuted } from "../../tools/ToolError.ts"
import { failed, type ToolInvocation } from "../../tools/ToolInvocation.ts"
import type { Accepted, RunOptions } from "../../tools/ToolSnapshot.ts"
import type { OnExceeded } from "../Budget.ts"
import { defaultRepeatedCalls } from "../CycleConfig.ts"
import { InvalidLimit, RepeatedCalls } from "../CycleError.ts"
import * as TokenEstimate from "../TokenEstimate.ts"
import type { Answer } from "./answer.ts"
import * as Budget from "./budget.ts"
import type { Conversation, Submit } from "./conversation.ts"
import { type Border, border as decideBorder } from "./decide.ts"
import type { Request } from "./turn.ts"
import * as Usage from "./usage.ts"

// -----------------------------------------------------------------------------
// Limits
// -----------------------------------------------------------------------------

export const onExceeded = ({ conversation }: Submit): OnExceeded => conversation.config.budget?.onExceeded ?? "fail"

/** A limit that cannot be kept, since it is none. */
export const findInvalid = ({ config, limits }: Conversation): InvalidLimit | undefined => {
  if (limits instanceof InvalidLimit) return limits
  const { repeatedCalls = defaultRepeatedCalls } = config
  return Budget.isLimit(repeatedCalls)
    ? undefined
    : new InvalidLimit({ limit: "repeatedCalls", value: String(repeatedCalls) })
}

/** What the budget says before the model is asked. */
export const border = (submit: Submit): Effect.Effect<Border> =>
  Effect.map(Budget.exceeded(submit.account), (exceeded) => decideBorder(exceeded, onExceeded(submit)))

/** Whether the model has repeated itself too often. */
export const findRepeated = (submit: Submit): RepeatedCalls | undefined => {
  const { repeatedCalls = defaultRepeatedCalls } = submit.conversation.config
  // It takes as many turns, so most submits never look.
  if (submit.turns < repeatedCalls) return undefined
  const repetition = submit.repetition()
  return repetition !== undefined && repetition.count >= repeatedCalls ? new RepeatedCalls(repetition) : undefined
}

// -----------------------------------------------------------------------------
// Tokens
// -----------------------------------------------------------------------------

/** Counts what a response has used, estimated where the provider does not say. */
export const charge = (submit: Submit, request: Request, answer: Answer): void => {
  const { input, output } = Usage.tokensOf(answer.usage)
  const isNeeded = Budget.isCounted(submit.account) || submit.conversation.config.stopWhen !== undefined
  // No request is empty: a provider that says so does not count.
  const told = input === undefined || Usage.sumOf({ ...input, ...NO_OUTPUT }) === 0 ? undefined : input
  const said = output === undefined || output.text + output.reasoning === 0 ? undefined : output
  Budget.spend(
    submit.account,
    {
      ...(told ?? (isNeeded ? { ...NO_INPUT, uncached: requestTokens(request) } : NO_INPUT)),
      ...(said ?? (isNeeded ? { ...NO_OUTPUT, text: contentTokens(answer.content) } : NO_OUTPUT))
    },
    namesOf(answer.model, request.modelName)
  )
}

/** Counts a request that was stopped before the provider said what it has used. */
export const chargeStopped = (
  submit: Submit,
  request: Request,
  content: ReadonlyArray<Prompt.AssistantMessagePart>
): void => {
  if (!Budget.isCounted(submit.account)) return
  Budget.spend(
    submit.account,
    { ...NO_INPUT, ...NO_OUTPUT, uncached: requestTokens(request), text: contentTokens(content) },
    namesOf(request.modelName)
  )
}

const NO_INPUT: Usage.InputTokens = { uncached: 0, cacheRead: 0, cacheWrite: 0 }

const NO_OUTPUT: Usage.OutputTokens = { text: 0, reasoning: 0 }

const namesOf = (...names: ReadonlyArray<string | undefined>): ReadonlyArray<string> =>
  names.filter((name) => name !== undefined)

const requestTokens = ({ prompt, tools }: Request): number =>
  TokenEstimate.ofMessages(prompt.content) +
  TokenEstimate.ofTools((tools?.entries ?? []).map(({ definition }) => definition))

const contentTokens = (content: ReadonlyArray<Prompt.AssistantMessagePart>): number =>
  content.length === 0 ? 0 : TokenEstimate.ofMessage(Prompt.makeMessage("assistant", { content }))

// -----------------------------------------------------------------------------
// Time
// -----------------------------------------------------------------------------

/** Asks the model, for as long as there is time; `undefined` where it is up. */
export const inTime = <A, E, R>(submit: Submit, ask: Effect.Effect<A, E, R>): Effect.Effect<A | undefined, E, R> => {
  const { account, conversation } = submit
  if (!isTimed(submit)) return ask
  const grace = onExceeded(submit) === "last-turn" ? Duration.toMillis(conversation.lastTurnTimeout) : 0
  return Effect.raceFirst(ask, Effect.as(Budget.timeIsUp(account, grace), undefined))
}

/** Runs a call, for as long as there is time. */
export const runInTime = (
  submit: Submit,
  accepted: Accepted,
  options: RunOptions & { readonly onStart: () => void }
): Effect.Effect<ToolInvocation> => {
  if (!isTimed(submit)) return accepted.run(options)
  const until = Budget.timeIsUp(submit.account)
  const notExecuted = Effect.sync(() => failed(accepted.call, new NotExecuted({ why: "budget" })))
  return Effect.flatMap(Budget.isTimeUp(submit.account), (isUp) => {
    if (isUp) return notExecuted
    let isStarted = false
    const onStart = () => {
      isStarted = true
      options.onStart()
    }
    // A call that waits for its turn ends here, one that runs by its own end.
    return Effect.raceFirst(
      accepted.run({ ...options, onStart, until }),
      Effect.andThen(until, Effect.suspend(() => isStarted ? Effect.never : notExecuted))
    )
  })
}

const isTimed = ({ account }: Submit): boolean => Number.isFinite(account.limits.millis)
