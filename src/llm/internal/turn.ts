/*
 * One turn: prepare → ask → conclude → settle. Asking differs between the plain
 * and the streaming loop; everything else is here, once.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Semaphore from "effect/Semaphore"
import { makePermits } from "../../internal/permits.ts"
import type * as Question from "../../tools/Question.ts"
import type { Definition } from "../../tools/Tool.ts"
import { AwaitingAnswer, NotExecuted, NotFound, ToolError, type ToolErrorReason } from "../../tools/ToolError.ts"
import { failed, type ToolCall, type ToolInvocation } from "../../tools/ToolInvocation.ts"
import type {
  Accepted,
  Admission,
  InvokeOptions,
  RegistryToolkit,
  Rejected,
  ToolFilter,
  ToolSnapshot
} from "../../tools/ToolSnapshot.ts"
import { type ErrorPolicy, isFatal, type ToolChoice, type TurnOptions } from "../CycleConfig.ts"
import {
  BudgetExceeded,
  type CycleError,
  type CycleErrorReason,
  InvalidAnswer,
  InvalidObject,
  MaxTurnsExceeded,
  ToolFailed
} from "../CycleError.ts"
import {
  type CycleEvent,
  ToolApprovalRequested,
  ToolCallRejected,
  ToolExecutionCompleted,
  ToolExecutionProgress,
  ToolExecutionStarted,
  ToolInputRequested,
  TurnComplete
} from "../CycleEvent.ts"
import { CycleResponse, type FinishReason } from "../CycleResponse.ts"
import * as History from "../History.ts"
import type { Answer } from "./answer.ts"
import * as Budget from "./budget.ts"
import * as Compacting from "./compactTurn.ts"
import {
  charge,
  closeHistory,
  type Conversation,
  fail,
  keep,
  type LastAnswer,
  SILENCE,
  type Submit,
  systemMessages,
  turnState
} from "./conversation.ts"
import { decide, type Decision } from "./decide.ts"
import { type Goal, judge } from "./objectAnswer.ts"
import { CurrentParent, type Parent } from "./parent.ts"
import * as Spending from "./spending.ts"
import * as Telemetry from "./telemetry.ts"

/** What the model is asked in one turn. */
export interface Request {
  /** What has happened before it is sent. */
  readonly events: ReadonlyArray<CycleEvent>
  readonly prompt: Prompt.Prompt
  /** What of the prompt precedes the transcript. */
  readonly system: ReadonlyArray<Prompt.Message>
  readonly toolChoice: ToolChoice
  /** The tools it may call; `undefined` where it is offered none. */
  readonly tools: ToolSnapshot | undefined
  /** What it is told of them, and of the way to answer where that has a shape. */
  readonly toolkit: RegistryToolkit | undefined
  readonly model: LanguageModel.LanguageModel
  /** What the model is called, where that is known. */
  readonly modelName: string | undefined
  readonly context: Context.Context<never>
  /** The limit that makes it the last one, to conclude. */
  readonly concludes: BudgetExceeded | undefined
}

/** How a submit goes on after a turn. */
export type Next =
  | { readonly _tag: "Again" }
  | { readonly _tag: "Done"; readonly response: CycleResponse }
  | { readonly _tag: "Fail"; readonly error: CycleError }

/** How it comes to its end, or to rest. */
type End = Exclude<Next, { readonly _tag: "Again" }>

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

const failWith = (submit: Submit, reason: CycleErrorReason): End => ({ _tag: "Fail", error: fail(submit, reason) })

const prepareRequest = Effect.fnUntraced(function*(
  submit: Submit,
  concludes: BudgetExceeded | undefined
): Effect.fn.Return<Request> {
  const { config, model, modelName, tools } = submit.conversation
  const turn = submit.turns + 1
  const events = yield* Compacting.replace(submit, turn)
  const options: TurnOptions = config.prepareTurn === undefined
    ? {}
    : yield* config.prepareTurn(turnState(submit, turn))
  const choice = options.toolChoice ?? (turn === 1 ? config.toolChoice : relax(config.toolChoice))
  const context = options.context ?? Context.empty()
  const system = concludes !== undefined
    ? systemMessages(conclusion(options.system ?? config.system))
    : options.system === undefined
    ? submit.conversation.system
    : systemMessages(options.system)
  const isOffered = submit.withTools && concludes === undefined
  return yield* Compacting.fit(submit, {
    events,
    prompt: Prompt.fromMessages([...system, ...closeHistory(submit.conversation)]),
    system,
    ...offer(submit.goal, isOffered ? yield* tools.snapshot : undefined, options.tools, choice),
    model: options.model ?? model,
    // Another model has another name, which its turn has to say.
    modelName: Option.getOrElse(nameIn(context), () => options.model === undefined ? modelName : undefined),
    context,
    concludes
  })
})

// A turn's context may hold anything.
const nameIn = (context: Context.Context<never>): Option.Option<string> => Context.getOption(context, Model.ModelName)

// One message: some servers refuse a second one.
const conclusion = (system: string | undefined): string =>
  [...(system === undefined ? [] : [system]), CONCLUDE].join("\n\n")

const CONCLUDE =
  "The budget of this conversation is used up. Answer now, with what you have: no more tools can be called. Say what is missing."

const offer = (
  goal: Goal | undefined,
  snapshot: ToolSnapshot | undefined,
  filter: ToolFilter | undefined,
  choice: ToolChoice | undefined
): Pick<Request, "toolChoice" | "tools" | "toolkit"> => {
  const tools = snapshot === undefined ? undefined : offered(snapshot, filter, choice)
  if (goal === undefined) return { toolChoice: choice ?? "auto", tools, toolkit: tools?.toolkit }
  const toolkit = goal.offer(tools?.toolkit)
  if (tools === undefined || choice === "none") return { toolChoice: { tool: goal.name }, tools, toolkit }
  const toolChoice = typeof choice === "object" && "oneOf" in choice
    ? { ...choice, oneOf: [...choice.oneOf, goal.name] }
    // Each turn leads to the answer: by a tool, or by giving it.
    : choice === undefined || choice === "auto"
    ? "required"
    : choice
  return { toolChoice, tools, toolkit }
}

const offered = (
  snapshot: ToolSnapshot,
  filter: ToolFilter | undefined,
  toolChoice: ToolChoice | undefined
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
): Effect.fn.Return<Concluded, CycleError> {
  const { conversation } = submit
  conversation.history = History.respond(conversation.history, answer.content, notExecuted)
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
    events: [...events, new TurnComplete({ turn, reason: answer.finishReason, usage: answer.usage })],
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
    if (question !== undefined) return known.some(({ id }) => id === question.id) ? [] : [requested(question)]
    if (admission._tag === "Rejected") settleCall(conversation, admission.invocation)
    return [admitted(admission)]
  })
  for (const { index } of questions) {
    conversation.history = History.settle(conversation.history, index, WAITING)
  }
  conversation.pending = questions
  conversation.running = new Set(
    admissions.flatMap((admission) => admission._tag === "Accepted" ? admission.call.index ?? 0 : [])
  )
  // What is not kept does not run: its questions stay open.
  yield* Effect.tapError(keep(submit), () =>
    Effect.sync(() => {
      conversation.pending = [...known, ...questions.filter(({ id }) => !known.some((it) => it.id === id))]
      conversation.running = new Set()
    }))
  return {
    events,
    settle: Effect.flatMap(runAll(submit, tools, admissions), (invocations) => {
      submit.invocations.push(...invocations.filter((it) => it.error?.reason._tag !== "AwaitingAnswer"))
      submit.invocations.sort(byPlace)
      return rest(submit, next(invocations))
    })
  }
})

/** What has come to its end is over; what waits or is paused goes on when it is resumed. */
const rest = <N extends Next>(submit: Submit, next: N): Effect.Effect<N, CycleError> => {
  const { conversation } = submit
  if (next._tag === "Again") return Effect.as(keep(submit), next)
  const isSuspended = next._tag === "Done" && isResumable(next.response.finishReason)
  if (!isSuspended) {
    // A submit that fails leaves nobody to answer to.
    for (const { index } of conversation.pending) {
      conversation.history = History.settle(conversation.history, index, SIBLING)
    }
    conversation.pending = []
    conversation.submit = undefined
  }
  return Effect.as(keep(submit), next)
}

const isResumable = (reason: FinishReason): boolean => reason === "awaiting-input" || reason === "paused"

const byPlace = (a: ToolInvocation, b: ToolInvocation): number => a.turn - b.turn || a.index - b.index

const openCalls = ({ history }: Conversation): ReadonlyArray<ToolCall> =>
  History.openCalls(history).map(({ call: { id, name, params } }, index) => ({
    id,
    name,
    params,
    turn: history.turns,
    index
  }))

/** The response whose calls are open, as far as the transcript tells. */
const lastAnswer = ({ history }: Conversation): LastAnswer => {
  const content = history.open !== undefined && "calls" in history.open ? history.open.content : []
  return {
    content,
    text: content.map((part) => part.type === "text" ? part.text : "").join(""),
    finishReason: "tool-calls"
  }
}

const waitingFor = (admission: Admission): AwaitingAnswer | undefined =>
  admission._tag === "Rejected" && admission.error.reason._tag === "AwaitingAnswer"
    ? admission.error.reason
    : undefined

const requested = (question: Question.Question): CycleEvent => {
  const { index, toolCallId, toolName, turn } = question
  const about = { turn, index, toolCallId, toolName }
  return question._tag === "Approval"
    ? new ToolApprovalRequested({ ...about, question })
    : new ToolInputRequested({ ...about, question })
}

const admitted = (admission: Admission): CycleEvent => {
  const { call } = admission
  const about = { ...describe(call), input: call.params }
  return admission._tag === "Accepted"
    ? new ToolExecutionStarted(about)
    : new ToolCallRejected({ ...about, error: admission.error })
}

// What a call is answered with until it starts; it stays the answer if the submit is interrupted before.
const notExecuted = (call: ToolCall): History.Answer => toAnswer(failed(call, new NotExecuted({ why: "interrupted" })))

/** What a call is answered with once it has started, until it settles. */
export const INTERRUPTED: History.Answer = {
  isFailure: true,
  result: "Interrupted while running: whether it took effect is unknown."
}

const WAITING: History.Answer = {
  isFailure: true,
  result: "Not executed: it waits for an answer from the user."
}

const SIBLING: History.Answer = {
  isFailure: true,
  result: "Not executed: another call of the same turn was refused or failed."
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
    case "None":
      return yield* verdict(submit, request, answer, calls, decision)
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
        next: () => ({ _tag: "Fail", error: fail(submit, reason) })
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
  const failing = (reason: CycleErrorReason) => (): Next => ({ _tag: "Fail", error: fail(submit, reason) })

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

const respond = (
  submit: Submit,
  answer: LastAnswer,
  finishReason: FinishReason = answer.finishReason,
  exceeded?: BudgetExceeded
): CycleResponse => {
  const cost = Budget.costOf(submit.account)
  return new CycleResponse({
    text: answer.text,
    content: answer.content,
    finishReason,
    pending: submit.conversation.pending,
    usage: submit.usage,
    turns: submit.turns,
    invocations: submit.invocations,
    ...(submit.goal?.given === undefined ? undefined : { value: submit.goal.given }),
    ...(cost === undefined ? undefined : { cost }),
    ...(exceeded === undefined ? undefined : { exceeded })
  })
}

// -----------------------------------------------------------------------------
// Settle
// -----------------------------------------------------------------------------

const runAll = Effect.fnUntraced(function*(
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
    { concurrency: "unbounded" }
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
    run: (accepted) =>
      Effect.matchEffect(isAnswered ? keep(submit) : Effect.void, {
        onFailure: () => Effect.succeed(failed(accepted.call, new NotExecuted({ why: "unsaved" }))),
        onSuccess: () =>
          Effect.provideServiceEffect(
            runAccepted(submit, accepted, permits),
            CurrentParent,
            Effect.map(CurrentParent, (above) => asParent(submit, tools, above))
          )
      }),
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
      if (isStarted) conversation.running = new Set([...conversation.running, about.index])
      return submit.sink.emit(admitted(again))
    },
    whileAsking: (wait) => Budget.waitingForPeople(submit.account, wait)
  })
  if (invocation.error?.reason._tag === "AwaitingAnswer") return invocation
  settleCall(conversation, invocation)
  if (isStarted) yield* submit.sink.emit(completed(invocation))
  yield* keepIfPossible(submit)
  return invocation
})

// Siblings go on: whether it could be kept is decided when all have settled.
const keepIfPossible = (submit: Submit): Effect.Effect<void> => Effect.ignore(keep(submit))

const wait = (conversation: Conversation, question: Question.Question) => {
  conversation.history = History.settle(conversation.history, question.index, WAITING)
  conversation.pending = [...conversation.pending, question]
  conversation.running = new Set(Array.from(conversation.running).filter((index) => index !== question.index))
}

const asParent = (submit: Submit, tools: ToolSnapshot, above: Parent | undefined): Parent => {
  const { config, model, registry, sessionId } = submit.conversation
  return {
    sessionId,
    model,
    registry,
    toolNames: tools.entries.map(({ name }) => name),
    restrict: config.restrict,
    isStreaming: submit.sink !== SILENCE,
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

const settleCall = (conversation: Conversation, invocation: ToolInvocation) => {
  const { index } = invocation
  conversation.history = History.settle(conversation.history, index, toAnswer(invocation))
  conversation.running = new Set(Array.from(conversation.running).filter((other) => other !== index))
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
    restrict: config.restrict,
    onProgress: (value, call) => submit.sink.offer(new ToolExecutionProgress({ ...describe(call), value }))
  }
}

const describe = (call: ToolCall) => ({
  turn: call.turn ?? 0,
  index: call.index ?? 0,
  toolCallId: call.id,
  toolName: call.name
})
