/*
 * One turn: prepare → ask → conclude → settle. Asking differs between the plain
 * and the streaming loop; everything else is here, once.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import type * as Question from "../../tools/Question.ts"
import { AwaitingAnswer, NotExecuted, NotFound, type ToolError } from "../../tools/ToolError.ts"
import type { ToolCall, ToolInvocation } from "../../tools/ToolInvocation.ts"
import type { Admission, ToolSnapshot } from "../../tools/ToolSnapshot.ts"
import { type ErrorPolicy, isFatal } from "../CycleConfig.ts"
import {
  type BudgetExceeded,
  type CycleError,
  type CycleErrorReason,
  IncompleteResponse,
  InvalidAnswer,
  InvalidObject,
  MaxTurnsExceeded,
  ToolFailed
} from "../CycleError.ts"
import { type CycleEvent, TurnComplete } from "../CycleEvent.ts"
import * as History from "../History.ts"
import type { Answer } from "./answer.ts"
import * as Budget from "./budget.ts"
import {
  charge,
  type Conversation,
  fail,
  keep,
  type LastAnswer,
  type Submit,
  turnState,
  withoutDraft
} from "./conversation.ts"
import { decide, type Decision } from "./decide.ts"
import { type End, failWith, lastAnswer, type Next, respond, rest } from "./end.ts"
import { type Goal, judge } from "./objectAnswer.ts"
import { CurrentParent } from "./parent.ts"
import { prepareRequest, type Request } from "./request.ts"
import {
  admitted,
  invokeOptions,
  noLongerWaits,
  NOT_STARTED,
  reject,
  requested,
  runAll,
  settleCall,
  WAITING,
  waitingFor
} from "./running.ts"
import * as Spending from "./spending.ts"
import * as Telemetry from "./telemetry.ts"

/** A response that is in the history, with its calls admitted or refused. */
export interface Concluded {
  readonly events: ReadonlyArray<CycleEvent>
  /** Runs what was admitted, if anything, and says how to go on. */
  readonly settle: Effect.Effect<Next, CycleError>
}

const AGAIN: Next = { _tag: "Again" }

// -----------------------------------------------------------------------------
// Prepare
// -----------------------------------------------------------------------------

type Prepared = { readonly _tag: "Ask"; readonly request: Request } | End

/** What to ask, or why nothing is asked any more. */
export const prepare = (submit: Submit): Effect.Effect<Prepared, CycleError> =>
  Effect.flatMap(Spending.border(submit), (border) => {
    switch (border._tag) {
      case "Fail":
        return rest(submit, failWith(submit, border.exceeded))
      case "Pause":
        return pause(submit, border.exceeded)
      case "Ask":
      case "Conclude": {
        const concludes = border._tag === "Conclude" ? border.exceeded : undefined
        const { config, modelName } = submit.conversation
        // Compaction may ask it first.
        const known = config.prepareTurn === undefined ? Budget.findUnpriced(submit.account, modelName) : undefined
        if (known !== undefined) return rest(submit, failWith(submit, known))
        return Effect.flatMap(
          Spending.inTime(submit, prepareRequest(submit, concludes)),
          (request): Effect.Effect<Prepared, CycleError> => {
            if (request === undefined) return outOfTime(submit, undefined, [])
            const unpriced = Budget.findUnpriced(submit.account, request.modelName)
            return unpriced === undefined
              ? Effect.succeed({ _tag: "Ask", request })
              : rest(submit, failWith(submit, unpriced))
          }
        )
      }
    }
  })

/** Goes on where the time was up before the model had answered; `content` is what it had said. */
export const outOfTime = Effect.fnUntraced(function*(
  submit: Submit,
  request: Request | undefined,
  content: ReadonlyArray<Prompt.AssistantMessagePart>
): Effect.fn.Return<End, CycleError> {
  const exceeded = yield* Budget.timeExceeded(submit.account)
  if (request !== undefined) Spending.chargeStopped(submit, request, content)
  return yield* Spending.onExceeded(submit) === "pause"
    ? pause(submit, exceeded)
    : rest(submit, failWith(submit, exceeded))
})

/** The whole budget is there again when the submit is resumed. */
const pause = (submit: Submit, exceeded: BudgetExceeded): Effect.Effect<End, CycleError> =>
  Effect.flatMap(Budget.renew(submit.account), () => {
    const response = respond(submit, submit.last ?? lastAnswer(submit.conversation), "paused", exceeded)
    return rest(submit, { _tag: "Done", response })
  })

// -----------------------------------------------------------------------------
// Conclude
// -----------------------------------------------------------------------------

/** Puts a response into the history and decides about its calls; none runs yet. */
export const conclude = Effect.fnUntraced(function*(
  submit: Submit,
  request: Request,
  answer: Answer
): Effect.fn.Return<Concluded, CycleError> {
  const { conversation } = submit
  conversation.history = History.respond(conversation.history, answer.content, () => NOT_STARTED)
  submit.turns++
  charge(submit, answer.usage)
  submit.last = answer
  Spending.charge(submit, request, answer)
  // What a sub-agent uses is used by the cycle above too.
  const parent = yield* CurrentParent
  parent?.charge(answer.usage)
  conversation.compactor?.learn(answer.usage.inputTokens.total)
  yield* Telemetry.recordTurn(answer.usage)

  const turn = conversation.history.turns
  const calls = openCalls(conversation)
  const decision = decide({
    hasCalls: calls.length > 0,
    finishReason: answer.finishReason,
    turn: submit.turns,
    maxTurns: submit.maxTurns,
    exceeded: yield* Budget.exceeded(submit.account),
    onExceeded: Spending.onExceeded(submit),
    concludes: request.concludes
  })
  const { events, settle } = yield* begin(
    submit,
    request.tools ?? (yield* conversation.tools.snapshot),
    submit.goal === undefined
      ? yield* verdict(submit, request, answer, calls, decision)
      : yield* towards(submit.goal, submit, request, answer, calls, decision)
  )
  return {
    events: submit.isHeard
      ? [...events, new TurnComplete({ turn, reason: answer.finishReason, usage: answer.usage })]
      : events,
    settle
  }
})

/** Takes answers to the questions of the last turn; what was answered runs, the rest waits on. */
export const resume = Effect.fnUntraced(function*(
  submit: Submit,
  answers: ReadonlyArray<Question.Answer>
): Effect.fn.Return<Concluded, CycleError> {
  const { conversation } = submit
  const invalid = (questionId: string, problem: string) => fail(submit, new InvalidAnswer({ questionId, problem }))

  const byId = new Map<string, Question.Answer>()
  for (const answer of answers) {
    if (!conversation.pending.some(({ id }) => id === answer.questionId)) {
      return yield* invalid(answer.questionId, "no such question is open")
    }
    if (byId.has(answer.questionId)) return yield* invalid(answer.questionId, "it is answered twice")
    byId.set(answer.questionId, answer)
  }
  // What was cut off is asked again, and does not stand there twice.
  conversation.history = withoutDraft(conversation.history)
  const tools = yield* conversation.tools.snapshot
  const calls = openCalls(conversation)
  const admissions: Array<Admission> = []
  for (const question of conversation.pending) {
    const call = calls[question.index]
    if (call === undefined) continue
    const answer = byId.get(question.id)
    const admission = answer === undefined
      ? reject(call, new AwaitingAnswer({ question }))
      : yield* tools.admit(call, { ...invokeOptions(submit), answered: { question, answer } })
    const problem = waitingFor(admission)?.problem
    if (problem !== undefined) return yield* invalid(question.id, problem)
    admissions.push(admission)
  }
  return yield* begin(submit, tools, weigh(submit, lastAnswer(conversation), admissions))
})

/** Announces what becomes of calls, and keeps it, before any of them runs. */
const begin = Effect.fnUntraced(function*(
  submit: Submit,
  tools: ToolSnapshot,
  { admissions, next }: Verdict
): Effect.fn.Return<Concluded, CycleError> {
  const { conversation } = submit
  const known = conversation.pending
  const questions = admissions.flatMap((admission) => waitingFor(admission)?.question ?? [])
  const events = admissions.flatMap((admission): ReadonlyArray<CycleEvent> => {
    const question = waitingFor(admission)?.question
    if (question !== undefined) {
      return !submit.isHeard || known.some(({ id }) => id === question.id) ? [] : [requested(question)]
    }
    if (admission._tag === "Rejected") settleCall(conversation, admission.invocation)
    return submit.isHeard ? [admitted(admission)] : []
  })
  for (const { index } of questions) {
    conversation.history = History.settle(conversation.history, index, WAITING)
  }
  conversation.pending = questions
  conversation.running = new Set(
    admissions.flatMap((admission) => admission._tag === "Accepted" ? admission.call.index ?? 0 : [])
  )
  // What is not kept does not run: its questions stay open. Without calls the turn is kept as it comes to rest.
  if (admissions.length > 0 && conversation.keeper !== undefined) {
    yield* Effect.onError(keep(submit), () =>
      Effect.sync(() => {
        const others = known.filter(({ index }) => !questions.some((it) => it.index === index))
        conversation.pending = [...questions, ...others].toSorted((a, b) => a.index - b.index)
        conversation.running = new Set()
      }))
  }
  // Of a call that has never waited nothing else was said.
  for (const admission of known.length === 0 ? [] : admissions) {
    if (admission._tag === "Accepted") noLongerWaits(conversation, admission)
  }
  return {
    events,
    settle: Effect.flatMap(runAll(submit, tools, admissions), (invocations) => {
      submit.invocations.push(...invocations.filter((it) => it.error?.reason._tag !== "AwaitingAnswer"))
      // Those that had to wait come after others that have not.
      if (known.length > 0) submit.invocations.sort(byPlace)
      return rest(submit, next(invocations))
    })
  }
})

const byPlace = (a: ToolInvocation, b: ToolInvocation): number => a.turn - b.turn || a.index - b.index

const openCalls = ({ history }: Conversation): ReadonlyArray<ToolCall> =>
  History.openCalls(history).map(({ call: { id, name, params } }, index) => ({
    id,
    name,
    params,
    turn: history.turns,
    index
  }))

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
  const failing = (reason: CycleErrorReason) => (): Next => failWith(submit, reason)
  const done = (): Next => ({ _tag: "Done", response: respond(submit, answer, undefined, request.concludes) })

  switch (decision._tag) {
    case "Done":
      return { admissions: [], next: done }
    case "AskAgain":
      return { admissions: [], next: () => AGAIN }
    case "Fail": {
      const why = new NotExecuted({ why: decision.why })
      return { admissions: calls.map((call) => reject(call, why)), next: failing(decision.reason) }
    }
    case "SkipCalls": {
      const why = new NotExecuted({ why: decision.why })
      return { admissions: calls.map((call) => reject(call, why)), next: () => AGAIN }
    }
    case "RunCalls":
      return weigh(submit, answer, yield* Effect.forEach(calls, (call) => admit(submit, request, call)))
  }
})

/** As `verdict`, for a submit that is after an answer of a shape. */
const towards = Effect.fnUntraced(function*(
  goal: Goal,
  submit: Submit,
  request: Request,
  answer: Answer,
  calls: ReadonlyArray<ToolCall>,
  decision: Decision
): Effect.fn.Return<Verdict> {
  const { conversation } = submit
  const judgement = yield* judge(goal, answer, calls)
  const others = calls.filter((call) => call.name !== goal.name)
  const tell = (isFailure: boolean, result: string) => {
    for (const { index = 0, name } of calls) {
      if (name === goal.name) conversation.history = History.settle(conversation.history, index, { isFailure, result })
    }
  }
  switch (judgement._tag) {
    case "None": {
      // As text it may do, but not as an answer of a shape.
      const reason = new IncompleteResponse({ finishReason: answer.finishReason })
      return decision._tag === "Done"
        ? { admissions: [], next: () => failWith(submit, reason) }
        : yield* verdict(submit, request, answer, calls, decision)
    }
    case "Given":
      tell(false, "Accepted.")
      return {
        admissions: [],
        next: () => ({ _tag: "Done", response: respond(submit, answer, undefined, request.concludes) })
      }
    case "Early":
      tell(true, `Not accepted: call "${goal.name}" alone, when the other results are there.`)
      return yield* verdict(submit, request, answer, others, decision)
    case "Unfit": {
      const { issue } = judgement
      tell(true, `Error: invalid arguments: ${issue}`)
      const failing = (reason: CycleErrorReason): Verdict => ({
        admissions: [],
        next: () => failWith(submit, reason)
      })
      if (decision._tag === "Fail") return failing(decision.reason)
      if (submit.turns >= submit.maxTurns) return failing(new MaxTurnsExceeded({ maxTurns: submit.maxTurns }))
      if (goal.repairs-- <= 0) return failing(new InvalidObject({ issue }))
      if (calls.length === 0) {
        const content = `Give the answer by calling the tool "${goal.name}": ${issue}`
        conversation.history = History.append(conversation.history, Prompt.make(content).content)
      }
      return { admissions: [], next: () => AGAIN }
    }
  }
})

/** A call that is refused fatally stops its siblings; otherwise what is admitted runs. */
const weigh = (
  submit: Submit,
  answer: LastAnswer,
  admissions: ReadonlyArray<Admission>
): Verdict => {
  const { config, errorPolicy } = submit.conversation
  const failing = (reason: CycleErrorReason) => (): Next => failWith(submit, reason)

  const fatal = findFatal(errorPolicy, admissions.flatMap((it) => it._tag === "Rejected" ? [it.invocation] : []))
  if (fatal !== undefined) {
    const why = new NotExecuted({ why: "sibling" })
    return {
      admissions: admissions.map((it) =>
        it._tag === "Rejected" && waitingFor(it) === undefined ? it : reject(it.call, why)
      ),
      next: failing(new ToolFailed({ error: fatal }))
    }
  }
  return {
    admissions,
    next: (invocations) => {
      const error = findFatal(errorPolicy, invocations)
      if (error !== undefined) return failing(new ToolFailed({ error }))()
      if (submit.conversation.pending.length > 0) {
        return { _tag: "Done", response: respond(submit, answer, "awaiting-input") }
      }
      if (config.stopWhen?.(turnState(submit, submit.turns)) === true) {
        return { _tag: "Done", response: respond(submit, answer) }
      }
      const repeated = Spending.findRepeated(submit)
      return repeated === undefined ? AGAIN : failWith(submit, repeated)
    }
  }
}

const findFatal = (policy: ErrorPolicy, invocations: ReadonlyArray<ToolInvocation>): ToolError | undefined =>
  invocations.find(({ error }) => error !== undefined && isFatal(policy, error))?.error

// A call nobody asked for is unknown, whatever its name.
const admit = (submit: Submit, { toolChoice, tools }: Request, call: ToolCall): Effect.Effect<Admission> =>
  tools === undefined || toolChoice === "none"
    ? Effect.succeed(reject(call, new NotFound({ available: [] })))
    : tools.admit(call, invokeOptions(submit))
