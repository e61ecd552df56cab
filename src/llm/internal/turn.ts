/*
 * One turn: prepare → ask → conclude → settle. Asking differs between the plain
 * and the streaming loop; everything else is here, once.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Semaphore from "effect/Semaphore"
import { makePermits } from "../../internal/permits.ts"
import type { Definition } from "../../tools/Tool.ts"
import { NotExecuted, NotFound, ToolError, type ToolErrorReason } from "../../tools/ToolError.ts"
import { failed, type ToolCall, type ToolInvocation } from "../../tools/ToolInvocation.ts"
import type {
  Accepted,
  Admission,
  InvokeOptions,
  Rejected,
  ToolFilter,
  ToolSnapshot
} from "../../tools/ToolSnapshot.ts"
import { type ErrorPolicy, isFatal, type ToolChoice, type TurnOptions } from "../CycleConfig.ts"
import { type CycleError, type CycleErrorReason, ToolFailed } from "../CycleError.ts"
import {
  type CycleEvent,
  ToolCallRejected,
  ToolExecutionCompleted,
  ToolExecutionProgress,
  ToolExecutionStarted,
  TurnComplete
} from "../CycleEvent.ts"
import { CycleResponse } from "../CycleResponse.ts"
import * as History from "../History.ts"
import type { Answer } from "./answer.ts"
import { closeHistory, type Conversation, fail, type Submit, systemMessages, turnState } from "./conversation.ts"
import { decide, type Decision } from "./decide.ts"
import * as Telemetry from "./telemetry.ts"
import { addUsage, totalTokens } from "./usage.ts"

/** What the model is asked in one turn. */
export interface Request {
  readonly prompt: Prompt.Prompt
  readonly toolChoice: ToolChoice
  /** The tools it may call; `undefined` where it is offered none. */
  readonly tools: ToolSnapshot | undefined
  readonly model: LanguageModel.LanguageModel
  readonly context: Context.Context<never>
}

/** How a submit goes on after a turn. */
export type Next =
  | { readonly _tag: "Again" }
  | { readonly _tag: "Done"; readonly response: CycleResponse }
  | { readonly _tag: "Fail"; readonly error: CycleError }

/** A response that is in the history, with its calls admitted or refused. */
interface Concluded {
  readonly events: ReadonlyArray<CycleEvent>
  /** Runs what was admitted, if anything, and says how to go on. */
  readonly settle: Effect.Effect<Next>
}

const AGAIN: Next = { _tag: "Again" }

// -----------------------------------------------------------------------------
// Prepare
// -----------------------------------------------------------------------------

export const prepare = Effect.fnUntraced(function*(submit: Submit): Effect.fn.Return<Request> {
  const { config, model, tools } = submit.conversation
  const turn = submit.turns + 1
  if (config.compaction !== undefined) {
    const compacted = yield* config.compaction(turnState(submit, turn))
    if (compacted !== undefined) {
      submit.conversation.history = History.fromMessages(compacted, submit.conversation.history.turns)
    }
  }
  const options: TurnOptions = config.prepareTurn === undefined
    ? {}
    : yield* config.prepareTurn(turnState(submit, turn))
  const toolChoice = options.toolChoice ?? (turn === 1 ? config.toolChoice : relax(config.toolChoice)) ?? "auto"
  const system = options.system === undefined ? submit.conversation.system : systemMessages(options.system)
  return {
    prompt: Prompt.fromMessages([...system, ...closeHistory(submit.conversation)]),
    toolChoice,
    tools: submit.withTools ? offered(yield* tools.snapshot, options.tools, toolChoice) : undefined,
    model: options.model ?? model,
    context: options.context ?? Context.empty()
  }
})

const offered = (
  snapshot: ToolSnapshot,
  filter: ToolFilter | undefined,
  toolChoice: ToolChoice
): ToolSnapshot | undefined => {
  const narrowed = filter === undefined ? snapshot : snapshot.filter(filter)
  const chosen = typeof toolChoice === "object" && "oneOf" in toolChoice
    ? narrowed.filter({ names: toolChoice.oneOf })
    : narrowed
  return chosen.entries.length === 0 ? undefined : chosen
}

// A model that must call a tool in every turn never comes to an answer.
const relax = (choice: ToolChoice | undefined): ToolChoice | undefined => {
  if (typeof choice !== "object") return choice === "required" ? "auto" : choice
  if ("tool" in choice) return "auto"
  return choice.mode === "required" ? { ...choice, mode: "auto" } : choice
}

// -----------------------------------------------------------------------------
// Conclude
// -----------------------------------------------------------------------------

/** Puts a response into the history and decides about its calls; none runs yet. */
export const conclude = Effect.fnUntraced(function*(
  submit: Submit,
  request: Request,
  answer: Answer
): Effect.fn.Return<Concluded> {
  const { conversation } = submit
  conversation.history = History.respond(conversation.history, answer.content, notExecuted)
  submit.turns++
  submit.usage = addUsage(submit.usage, answer.usage)
  yield* Telemetry.recordTurn(answer.usage)

  const turn = conversation.history.turns
  const calls = History.openCalls(conversation.history).map(
    ({ call: { id, name, params } }, index): ToolCall => ({ id, name, params, turn, index })
  )
  const decision = decide({
    hasCalls: calls.length > 0,
    finishReason: answer.finishReason,
    turn: submit.turns,
    maxTurns: submit.maxTurns,
    usedTokens: totalTokens(submit.usage),
    budget: conversation.config.budget
  })
  const { admissions, next } = yield* verdict(submit, request, answer, calls, decision)

  const events = admissions.map((admission) => {
    const { call } = admission
    const about = { ...describe(call), input: call.params }
    if (admission._tag === "Accepted") return new ToolExecutionStarted(about)
    settleCall(conversation, admission.invocation)
    return new ToolCallRejected({ ...about, error: admission.error })
  })
  return {
    events: [...events, new TurnComplete({ turn, reason: answer.finishReason, usage: answer.usage })],
    settle: Effect.map(runAll(submit, admissions), (invocations) => {
      submit.invocations.push(...invocations)
      return next(invocations)
    })
  }
})

// What a call is answered with until it starts; it stays the answer if the submit is interrupted before.
const notExecuted = (call: ToolCall): History.Answer => toAnswer(failed(call, new NotExecuted({ why: "interrupted" })))

const INTERRUPTED: History.Answer = {
  isFailure: true,
  result: "Interrupted while running: whether it took effect is unknown."
}

interface Verdict {
  readonly admissions: ReadonlyArray<Admission>
  /** How to go on when all calls have settled. */
  readonly next: (invocations: ReadonlyArray<ToolInvocation>) => Next
}

const verdict = Effect.fnUntraced(function*(
  submit: Submit,
  request: Request,
  answer: Answer,
  calls: ReadonlyArray<ToolCall>,
  decision: Decision
): Effect.fn.Return<Verdict> {
  const { config, errorPolicy } = submit.conversation
  const failing = (reason: CycleErrorReason) => (): Next => ({ _tag: "Fail", error: fail(submit, reason) })
  const done = (): Next => ({ _tag: "Done", response: respond(submit, answer) })

  switch (decision._tag) {
    case "Done":
      return { admissions: [], next: done }
    case "AskAgain":
      return { admissions: [], next: () => AGAIN }
    case "Fail": {
      const why = new NotExecuted({ why: decision.why })
      return { admissions: calls.map((call) => reject(call, why)), next: failing(decision.reason) }
    }
    case "RunCalls": {
      const admissions = yield* Effect.forEach(calls, (call) => admit(submit, request, call))
      const fatal = findFatal(errorPolicy, admissions.flatMap((it) => it._tag === "Rejected" ? [it.invocation] : []))
      if (fatal !== undefined) {
        const why = new NotExecuted({ why: "sibling" })
        return {
          admissions: admissions.map((it) => it._tag === "Rejected" ? it : reject(it.call, why)),
          next: failing(new ToolFailed({ error: fatal }))
        }
      }
      return {
        admissions,
        next: (invocations) => {
          const error = findFatal(errorPolicy, invocations)
          if (error !== undefined) return failing(new ToolFailed({ error }))()
          return config.stopWhen?.(turnState(submit, submit.turns)) === true ? done() : AGAIN
        }
      }
    }
  }
})

const findFatal = (policy: ErrorPolicy, invocations: ReadonlyArray<ToolInvocation>): ToolError | undefined =>
  invocations.find(({ error }) => error !== undefined && isFatal(policy, error))?.error

const reject = (call: ToolCall, reason: ToolErrorReason): Rejected => ({
  _tag: "Rejected",
  call,
  error: new ToolError({ toolName: call.name, reason }),
  invocation: failed(call, reason)
})

// A call nobody asked for is unknown, whatever its name.
const admit = (submit: Submit, { toolChoice, tools }: Request, call: ToolCall): Effect.Effect<Admission> =>
  tools === undefined || toolChoice === "none"
    ? Effect.succeed(reject(call, new NotFound({ available: [] })))
    : tools.admit(call, invokeOptions(submit))

const respond = (submit: Submit, answer: Answer): CycleResponse =>
  new CycleResponse({
    text: answer.text,
    content: answer.content,
    finishReason: answer.finishReason,
    usage: submit.usage,
    turns: submit.turns,
    invocations: submit.invocations
  })

// -----------------------------------------------------------------------------
// Settle
// -----------------------------------------------------------------------------

const runAll = Effect.fnUntraced(function*(submit: Submit, admissions: ReadonlyArray<Admission>) {
  const permits = yield* makePermits(submit.conversation.config.toolConcurrency)
  return yield* Effect.forEach(
    admissions,
    (admission) =>
      admission._tag === "Rejected" ? Effect.succeed(admission.invocation) : runOne(submit, admission, permits),
    { concurrency: "unbounded" }
  )
})

const runOne = Effect.fnUntraced(function*(
  submit: Submit,
  accepted: Accepted,
  permits: Semaphore.Semaphore | undefined
) {
  const { conversation } = submit
  const { call, definition } = accepted
  const about = describe(call)
  const run = accepted.run({
    permits,
    onStart: () => {
      conversation.history = History.settle(conversation.history, about.index, INTERRUPTED)
    }
  })
  const first = yield* run
  const invocation = mayRepeat(definition) && first.error?.reason._tag === "McpTimeout" ? yield* run : first
  settleCall(conversation, invocation)
  yield* submit.sink.emit(
    new ToolExecutionCompleted({
      ...about,
      ...(invocation.output === undefined ? undefined : { output: invocation.output }),
      ...(invocation.error === undefined ? undefined : { error: invocation.error }),
      isFailure: invocation.isFailure,
      durationMillis: invocation.durationMillis,
      truncated: invocation.truncated
    })
  )
  return invocation
})

// The one case in which a tool runs twice: a server that did not answer, and a
// call that cannot do harm a second time.
const mayRepeat = (definition: Definition): boolean => definition.readonly || definition.idempotent

const settleCall = (conversation: Conversation, invocation: ToolInvocation) => {
  conversation.history = History.settle(conversation.history, invocation.index, toAnswer(invocation))
}

const toAnswer = ({ isFailure, modelOutput, result }: ToolInvocation): History.Answer => ({
  isFailure,
  result,
  modelOutput
})

const invokeOptions = (submit: Submit): InvokeOptions => {
  const { config, sessionId, sharedState } = submit.conversation
  return {
    sessionId,
    sharedState,
    timeout: config.toolTimeout,
    maxResultBytes: config.maxToolResultBytes,
    onProgress: (value, call) => submit.sink.offer(new ToolExecutionProgress({ ...describe(call), value }))
  }
}

const describe = (call: ToolCall) => ({
  turn: call.turn ?? 0,
  index: call.index ?? 0,
  toolCallId: call.id,
  toolName: call.name
})
