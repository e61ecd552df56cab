/*
 * What a submit spends as it goes, and where its budget ends.
 */
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { NotExecuted } from "../../tools/ToolError.ts"
import { failed, type ToolInvocation } from "../../tools/ToolInvocation.ts"
import type { Accepted, RunOptions } from "../../tools/ToolSnapshot.ts"
import type { OnExceeded } from "../Budget.ts"
import { defaultRepeatedCalls } from "../CycleConfig.ts"
import { InvalidLimit, RepeatedCalls } from "../CycleError.ts"
import * as History from "../History.ts"
import * as TokenEstimate from "../TokenEstimate.ts"
import type { Answer } from "./answer.ts"
import * as Budget from "./budget.ts"
import type { Conversation, Submit } from "./conversation.ts"
import { type Border, border as decideBorder } from "./decide.ts"
import type { Request } from "./request.ts"
import * as Usage from "./usage.ts"

// -----------------------------------------------------------------------------
// Limits
// -----------------------------------------------------------------------------

/** What is none of the others fails. */
export const onExceeded = ({ conversation }: Submit): OnExceeded => {
  const chosen = conversation.config.budget?.onExceeded
  return chosen === "pause" || chosen === "last-turn" ? chosen : "fail"
}

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

/** Counts what a response has used. */
export const charge = (submit: Submit, request: Request, answer: Answer): void =>
  spend(submit, answer.usage, namesOf(answer.model, request.modelName), {
    input: () => requestTokens(request),
    output: () => contentTokens(answer.content)
  })

/** Counts a request that was stopped before the provider said what it has used. */
export const chargeStopped = (
  submit: Submit,
  request: Request,
  content: ReadonlyArray<Prompt.AssistantMessagePart>
): void =>
  spend(submit, Usage.NO_USAGE, namesOf(request.modelName), {
    input: () => requestTokens(request),
    output: () => contentTokens(content)
  })

/** Counts what a summary of the transcript has used. */
export const chargeSummary = (submit: Submit, usage: Response.Usage): void =>
  spend(submit, usage, namesOf(submit.conversation.modelName), {
    // It was made of less than that.
    input: () => TokenEstimate.ofMessages(History.messages(submit.conversation.history)),
    output: () => 0
  })

/** What a provider does not tell is estimated, where anything depends on it. */
const spend = (
  { account, conversation }: Submit,
  usage: Response.Usage,
  models: ReadonlyArray<string>,
  estimate: { readonly input: () => number; readonly output: () => number }
): void => {
  const { input, output } = Usage.tokensOf(usage)
  const tokens = { ...NO_INPUT, ...NO_OUTPUT, ...input, ...output }
  if (Budget.isCounted(account) || conversation.config.stopWhen !== undefined) {
    // No request is empty: a provider that says so does not count.
    const isTold = input !== undefined && Usage.sumOf({ ...input, ...NO_OUTPUT }) > 0
    if (!isTold) tokens.uncached = estimate.input()
    if (output === undefined || (!isTold && Usage.sumOf(tokens) === tokens.uncached)) tokens.text = estimate.output()
  }
  Budget.spend(account, tokens, models)
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
  return Effect.suspend(() => {
    const why = new NotExecuted({ why: "budget" })
    const until = Budget.timeIsUp(submit.account)
    let isStarted = false
    const run = accepted.run({
      ...options,
      until,
      refuse: Effect.map(Budget.isTimeUp(submit.account), (isUp) => isUp ? why : undefined),
      onStart: () => {
        isStarted = true
        options.onStart()
      }
    })
    // What waits for its turn ends here, what runs by its own limit.
    const waiting = Effect.suspend(() => isStarted ? Effect.never : Effect.succeed(failed(accepted.call, why)))
    return Effect.raceFirst(run, Effect.andThen(until, waiting))
  })
}

const isTimed = ({ account }: Submit): boolean => Number.isFinite(account.limits.millis)
