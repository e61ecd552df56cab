/*
 * Brings the calls of a turn to their outcomes, or to the questions they wait
 * with. The transcript, the events and what is kept follow each step.
 */
import * as Effect from "effect/Effect"
import type * as Semaphore from "effect/Semaphore"
import { makePermits } from "../../internal/permits.ts"
import type * as Question from "../../tools/Question.ts"
import type { Definition } from "../../tools/Tool.ts"
import { type AwaitingAnswer, NotExecuted, ToolError, type ToolErrorReason } from "../../tools/ToolError.ts"
import { failed, type ToolCall, type ToolInvocation } from "../../tools/ToolInvocation.ts"
import type { Accepted, Admission, InvokeOptions, Rejected, ToolSnapshot } from "../../tools/ToolSnapshot.ts"
import {
  type CycleEvent,
  ToolApprovalRequested,
  ToolCallRejected,
  ToolExecutionCompleted,
  ToolExecutionProgress,
  ToolExecutionStarted,
  ToolInputRequested
} from "../CycleEvent.ts"
import * as History from "../History.ts"
import * as Budget from "./budget.ts"
import { charge, type Conversation, keep, type Submit } from "./conversation.ts"
import { CurrentParent, type Parent } from "./parent.ts"
import * as Spending from "./spending.ts"

/** Runs what was admitted, side by side. */
export const runAll = Effect.fnUntraced(function*(
  submit: Submit,
  tools: ToolSnapshot,
  admissions: ReadonlyArray<Admission>
) {
  const permits = yield* makePermits(submit.conversation.config.toolConcurrency)
  return yield* Effect.forEach(
    admissions,
    (admission) =>
      admission._tag === "Rejected" && waitingFor(admission) === undefined
        ? Effect.succeed(admission.invocation)
        : runOne(submit, tools, admission, permits),
    // One alone needs no fiber of its own.
    { concurrency: admissions.length }
  )
})

/** Brings one call to its outcome, or to the question it waits with. */
const runOne = Effect.fnUntraced(function*(
  submit: Submit,
  tools: ToolSnapshot,
  admission: Admission,
  permits: Semaphore.Semaphore | undefined
) {
  const { conversation } = submit
  const about = describe(admission.call)
  let isStarted = admission._tag === "Accepted"
  let isAnswered = false

  const invocation = yield* tools.settle(admission, invokeOptions(submit), {
    // An answer holds once: that it is used is kept before the call runs.
    run: (accepted) => {
      const run = Effect.flatMap(CurrentParent, (above) =>
        Effect.provideService(
          runAccepted(submit, accepted, permits),
          CurrentParent,
          asParent(submit, tools, above)
        ))
      return isAnswered
        ? Effect.matchEffect(keep(submit), {
          onFailure: () => Effect.succeed(failed(accepted.call, new NotExecuted({ why: "unsaved" }))),
          onSuccess: () => run
        })
        : run
    },
    onQuestion: (question) => {
      isStarted = false
      // An approval was asked for when the response was complete.
      if (conversation.pending.some(({ id }) => id === question.id)) return Effect.void
      wait(conversation, question)
      return Effect.andThen(keepIfPossible(submit), submit.sink.emit(requested(question)))
    },
    onAnswered: (again) => {
      isStarted = again._tag === "Accepted"
      isAnswered = true
      conversation.pending = conversation.pending.filter(({ index }) => index !== about.index)
      if (again._tag === "Accepted") {
        conversation.running = new Set([...conversation.running, about.index])
        noLongerWaits(conversation, again)
      }
      return submit.sink.emit(admitted(again))
    },
    whileAsking: (wait) => Budget.waitingForPeople(submit.account, wait)
  })
  if (invocation.error?.reason._tag === "AwaitingAnswer") return invocation
  settleCall(conversation, invocation)
  if (isStarted && submit.isHeard) yield* submit.sink.emit(completed(invocation))
  yield* keepIfPossible(submit)
  return invocation
})

// Siblings go on: whether it could be kept is decided when all have settled.
const keepIfPossible = (submit: Submit): Effect.Effect<void> =>
  submit.conversation.keeper === undefined ? Effect.void : Effect.ignore(keep(submit))

const wait = (conversation: Conversation, question: Question.Question) => {
  conversation.history = History.settle(conversation.history, question.index, WAITING)
  // A call waits with one question: to answer two of them would run it twice.
  conversation.pending = [...conversation.pending.filter(({ index }) => index !== question.index), question]
  conversation.running = new Set(Array.from(conversation.running).filter((index) => index !== question.index))
}

const asParent = (submit: Submit, tools: ToolSnapshot, above: Parent | undefined): Parent => {
  const { config, model, registry, sessionId } = submit.conversation
  return {
    sessionId,
    model,
    registry,
    // Few tools ask.
    get toolNames() {
      return tools.entries.map(({ name }) => name)
    },
    restrict: config.restrict,
    isStreaming: submit.isHeard,
    emit: (event) => submit.sink.emit(event),
    offer: (event) => submit.sink.offer(event),
    charge: (usage) => {
      charge(submit, usage)
      above?.charge(usage)
    },
    depth: (above?.depth ?? 0) + 1
  }
}

const runAccepted = Effect.fnUntraced(function*(
  submit: Submit,
  accepted: Accepted,
  permits: Semaphore.Semaphore | undefined
) {
  const { conversation } = submit
  const { index } = describe(accepted.call)
  const run = Spending.runInTime(submit, accepted, {
    permits,
    onStart: () => {
      conversation.history = History.settle(conversation.history, index, INTERRUPTED)
    }
  })
  const first = yield* run
  return mayRepeat(accepted.definition) && first.error?.reason._tag === "McpTimeout" ? yield* run : first
})

const completed = (invocation: ToolInvocation): CycleEvent =>
  new ToolExecutionCompleted({
    turn: invocation.turn,
    index: invocation.index,
    toolCallId: invocation.toolCallId,
    toolName: invocation.toolName,
    ...(invocation.output === undefined ? undefined : { output: invocation.output }),
    ...(invocation.error === undefined ? undefined : { error: invocation.error }),
    isFailure: invocation.isFailure,
    durationMillis: invocation.durationMillis,
    truncated: invocation.truncated
  })

// The one case in which a tool runs twice: a server that did not answer, and a
// call that cannot do harm a second time.
const mayRepeat = (definition: Definition): boolean => definition.readonly || definition.idempotent

/** Puts the outcome of a call into the transcript. */
export const settleCall = (conversation: Conversation, invocation: ToolInvocation) => {
  const { index } = invocation
  conversation.history = History.settle(conversation.history, index, toAnswer(invocation))
  conversation.running = new Set(Array.from(conversation.running).filter((other) => other !== index))
}

const toAnswer = ({ isFailure, modelOutput, result }: ToolInvocation): History.Answer => ({
  isFailure,
  result,
  modelOutput
})

export const invokeOptions = (submit: Submit): InvokeOptions => {
  const { config, sessionId, sharedState } = submit.conversation
  return {
    sessionId,
    sharedState,
    timeout: config.toolTimeout,
    maxResultBytes: config.maxToolResultBytes,
    restrict: config.restrict,
    actor: config.actor,
    onProgress: (value, call) => submit.sink.offer(new ToolExecutionProgress({ ...describe(call), value }))
  }
}

const describe = (call: ToolCall) => ({
  turn: call.turn ?? 0,
  index: call.index ?? 0,
  toolCallId: call.id,
  toolName: call.name
})

// -----------------------------------------------------------------------------
// Admissions
// -----------------------------------------------------------------------------

/** What a call waits for, if it waits. */
export const waitingFor = (admission: Admission): AwaitingAnswer | undefined =>
  admission._tag === "Rejected" && admission.error.reason._tag === "AwaitingAnswer"
    ? admission.error.reason
    : undefined

export const requested = (question: Question.Question): CycleEvent => {
  const { index, toolCallId, toolName, turn } = question
  const about = { turn, index, toolCallId, toolName }
  return question._tag === "Approval"
    ? new ToolApprovalRequested({ ...about, question })
    : new ToolInputRequested({ ...about, question })
}

export const admitted = (admission: Admission): CycleEvent => {
  const { call } = admission
  const about = { ...describe(call), input: call.params }
  return admission._tag === "Accepted"
    ? new ToolExecutionStarted(about)
    : new ToolCallRejected({ ...about, error: admission.error })
}

export const reject = (call: ToolCall, reason: ToolErrorReason): Rejected => ({
  _tag: "Rejected",
  call,
  error: new ToolError({ toolName: call.name, reason }),
  invocation: failed(call, reason)
})

// -----------------------------------------------------------------------------
// Answers
// -----------------------------------------------------------------------------

/** What a call is answered with until it starts; it stays the answer if the submit is interrupted before. */
export const NOT_STARTED: History.Answer = {
  isFailure: true,
  result: "Error: not executed: the conversation was interrupted before it ran"
}

/** Says of a call that may run what is said of any that has not started. */
export const noLongerWaits = (conversation: Conversation, { call }: Accepted): void => {
  conversation.history = History.settle(conversation.history, call.index ?? 0, NOT_STARTED)
}

/** What a call is answered with once it has started, until it settles. */
export const INTERRUPTED: History.Answer = {
  isFailure: true,
  result: "Interrupted while running: whether it took effect is unknown."
}

/** What a call is answered with while it waits. */
export const WAITING: History.Answer = {
  isFailure: true,
  result: "Not executed: it waits for an answer from the user."
}
