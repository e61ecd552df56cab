/*
 * A cycle over a scripted model, the two ways to submit to it, and what must
 * hold of every transcript and every stream of events.
 */
import {
  type CycleConfig,
  CycleError,
  type CycleEvent,
  type CycleResponse,
  LlmCycle,
  PermissionPolicy,
  type Question,
  type Tool,
  ToolRegistry
} from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Effect, Exit, type Fiber, type Layer, Stream } from "effect"
import { AiError, LanguageModel, type Prompt, type Response } from "effect/ai"
import { TestClock } from "effect/testing"

export type Cycle = LlmCycle.LlmCycle["Service"]

/** What both loops have to say about a submit. */
interface Result {
  readonly text: string
  readonly turns: number
  readonly reason: CycleResponse.FinishReason
  readonly usage: Response.Usage
  readonly pending: ReadonlyArray<Question.Question>
}

export interface Driver {
  readonly name: string
  readonly submit: (
    cycle: Cycle,
    prompt: Prompt.RawInput,
    options?: { readonly tools?: boolean }
  ) => Effect.Effect<Result, CycleError.CycleError>
  readonly resume: (
    cycle: Cycle,
    answers?: ReadonlyArray<Question.Answer>
  ) => Effect.Effect<Result, CycleError.CycleError>
}

const fromResponse = ({ finishReason, pending, text, turns, usage }: CycleResponse.CycleResponse): Result => ({
  text,
  turns,
  reason: finishReason,
  usage,
  pending
})

export const plain: Driver = {
  name: "the plain loop",
  submit: (cycle, prompt, options) =>
    Effect.map((options?.tools === false ? cycle.submit : cycle.submitWithTools)(prompt), fromResponse),
  resume: (cycle, answers) => Effect.map(cycle.resume(answers), fromResponse)
}

/** Checks the grammar of the events of every submit, however it ends. */
const checked = (
  stream: Stream.Stream<CycleEvent.CycleEvent, CycleError.CycleError>,
  pending: ReadonlyArray<Question.Question>
): Effect.Effect<Result, CycleError.CycleError> =>
  Effect.suspend(() => {
    const events: Array<CycleEvent.CycleEvent> = []
    return stream.pipe(
      Stream.runForEach((event) => Effect.sync(() => events.push(event))),
      Effect.onExit((exit) => Effect.sync(() => checkEvents(events, exit, pending))),
      Effect.map(() => {
        const last = events.at(-1)
        if (last?._tag !== "CycleComplete") throw new Error("the stream ended without CycleComplete")
        const { pending, reason, text, turns, usage } = last
        return { reason, text, turns, usage, pending }
      })
    )
  })

export const streaming: Driver = {
  name: "the streaming loop",
  submit: (cycle, prompt, options) =>
    checked(options?.tools === false ? cycle.submitStream(prompt) : cycle.submitStreamWithTools(prompt), []),
  resume: (cycle, answers) => Effect.flatMap(cycle.pending, (pending) => checked(cycle.resumeStream(answers), pending))
}

export const drivers: ReadonlyArray<Driver> = [plain, streaming]

// =============================================================================
// A cycle
// =============================================================================

export interface Options<R> {
  readonly script: ScriptedModel.Script
  readonly tools?: ReadonlyArray<Tool.Tool<R>> | undefined
  readonly config?: CycleConfig.CycleConfig | undefined
  /** Default: everything is allowed. */
  readonly policy?: Layer.Layer<PermissionPolicy.PermissionPolicy> | undefined
}

export const makeCycle = Effect.fnUntraced(function*<R = never>({ config, policy, script, tools = [] }: Options<R>) {
  const registry = yield* ToolRegistry.make.pipe(
    Effect.tap((registry) => Effect.orDie(registry.registerAll(tools))),
    Effect.provide(policy ?? PermissionPolicy.layerAllowAll)
  )
  const { model, requests } = yield* ScriptedModel.make(script)
  const cycle = yield* LlmCycle.make(config).pipe(
    Effect.provideService(LanguageModel.LanguageModel, model),
    Effect.provideService(ToolRegistry.ToolRegistry, registry)
  )
  return {
    cycle,
    registry,
    requests,
    /** The transcript, and every prompt the model was sent, are sound. */
    check: Effect.gen(function*() {
      checkMessages(yield* cycle.messages)
      for (const { prompt } of yield* requests) checkMessages(prompt.content)
    })
  }
})

export const aiError = (reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "Test", method: "test", reason })

export const overloaded = (retryAfter?: AiError.RateLimitError["retryAfter"]): AiError.AiError =>
  aiError(new AiError.RateLimitError(retryAfter === undefined ? {} : { retryAfter }))

export const refused: AiError.AiError = aiError(new AiError.InvalidRequestError({ description: "no" }))

/** The reason a submit fails for. */
export const reasonOf = <A>(
  submit: Effect.Effect<A, CycleError.CycleError>
): Effect.Effect<CycleError.CycleErrorReason, A> => Effect.map(Effect.flip(submit), (error) => error.reason)

/** Lets time pass until a fiber has ended. */
export const untilEnd = <A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<Exit.Exit<A, E>> =>
  Effect.gen(function*() {
    for (let i = 0; i < 200; i++) {
      yield* Effect.repeat(Effect.yieldNow, { times: 10 })
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) return exit
      yield* TestClock.adjust("10 seconds")
    }
    return yield* Effect.die(new Error("the submit does not end"))
  })

// =============================================================================
// What must hold
// =============================================================================

const isCall = (part: Prompt.AssistantMessagePart): part is Prompt.ToolCallPart =>
  part.type === "tool-call" && !part.providerExecuted

/** Every call is answered in the next message, once, in order; no id is empty or repeated; nothing else answers. */
export const checkMessages = (messages: ReadonlyArray<Prompt.Message>): void => {
  const ids = new Set<string>()
  for (const [position, message] of messages.entries()) {
    if (message.role === "tool") {
      const before = messages[position - 1]
      if (before?.role !== "assistant" || !before.content.some(isCall)) throw new Error("results without calls")
    }
    if (message.role !== "assistant") continue
    if (message.content.length === 0) throw new Error("an empty response")
    if (message.content.some((part) => part.type === "tool-approval-request")) throw new Error("an approval")
    const calls = message.content.filter(isCall)
    if (calls.length === 0) continue
    for (const { id } of calls) {
      if (id === "" || ids.has(id)) throw new Error(`call id "${id}" is empty or repeated`)
      ids.add(id)
    }
    const next = messages[position + 1]
    if (next?.role !== "tool") throw new Error("calls without results")
    const answered = next.content.map((part) => part.type === "tool-result" ? `${part.id} ${part.name}` : part.type)
    const expected = calls.map((call) => `${call.id} ${call.name}`)
    if (answered.join() !== expected.join()) throw new Error(`${expected.join()} answered by ${answered.join()}`)
  }
}

/** The grammar of `CycleEvent`; `pending` are the questions that were open before. */
export const checkEvents = (
  events: ReadonlyArray<CycleEvent.CycleEvent>,
  exit: Exit.Exit<unknown, unknown>,
  pending: ReadonlyArray<Question.Question> = []
): void => {
  const running = new Set<number>()
  const waiting = new Set(pending.map(({ index }) => index))
  let turn: number | undefined = pending[0]?.turn
  let phase: "model" | "calls" | "tools" | "end" = "tools"
  let calls = 0
  for (const [position, event] of events.entries()) {
    const check = (fact: boolean, what: string): void => {
      if (!fact) throw new Error(`${what} at ${position}: ${events.map(describe).join(" ")}`)
    }
    check(phase !== "end", "event after the end")
    if (event._tag === "CycleComplete") {
      // A request that is stopped because time is up is asked again.
      const isCutOff = phase === "model" && event.reason === "paused"
      check(running.size === 0 && (phase === "tools" || isCutOff), "incomplete")
      check((waiting.size > 0) === (event.reason === "awaiting-input"), "waiting and not")
      phase = "end"
      continue
    }
    switch (event._tag) {
      case "SubAgentEvent":
      case "ToolExecutionProgress":
      case "ToolExecutionCompleted":
      case "ToolInputRequested": {
        check(phase === "tools" && event.turn === turn && running.has(event.index), "not running")
        if (event._tag === "ToolExecutionCompleted" || event._tag === "ToolInputRequested") running.delete(event.index)
        if (event._tag === "ToolInputRequested") waiting.add(event.index)
        continue
      }
      case "ToolCallRejected":
      case "ToolExecutionStarted": {
        // A response without deltas begins with its calls.
        if (phase !== "tools" || event.turn !== turn) break
        check(waiting.delete(event.index), "not waiting")
        if (event._tag === "ToolExecutionStarted") running.add(event.index)
        continue
      }
      case "ToolApprovalRequested": {
        // The call has changed since it was asked about.
        if (phase === "tools" && event.turn === turn && waiting.has(event.index)) continue
      }
    }
    // Everything else belongs to a response; the first of its events begins a turn.
    if (phase === "tools") {
      check(running.size === 0 && waiting.size === 0, "a turn before the calls of the last one ended")
      check(turn === undefined || event.turn === turn + 1, "turns out of order")
      turn = event.turn
      phase = "model"
      calls = 0
    }
    check(event.turn === turn, "another turn")
    switch (event._tag) {
      case "ToolCallRejected":
      case "ToolApprovalRequested":
      case "ToolExecutionStarted": {
        check(event.index === calls++, "calls out of order")
        phase = "calls"
        if (event._tag === "ToolApprovalRequested") waiting.add(event.index)
        if (event._tag === "ToolExecutionStarted") running.add(event.index)
        continue
      }
      case "TurnComplete": {
        phase = "tools"
        continue
      }
      default:
        check(phase === "model", "delta after calls")
    }
  }
  if (Exit.isSuccess(exit) && phase !== "end") throw new Error("a stream that ends without CycleComplete")
  if (Exit.isFailure(exit) && !exit.cause.reasons.some((reason) => reason._tag === "Interrupt")) {
    if (phase === "end" || running.size > 0) throw new Error("fails too late or too early")
    if (exit.cause.reasons.some((reason) => reason._tag === "Fail" && !CycleError.isCycleError(reason.error))) {
      throw new Error("fails with something else")
    }
  }
}

export const describe = (event: CycleEvent.CycleEvent): string => {
  switch (event._tag) {
    case "AssistantTextDelta":
    case "AssistantReasoningDelta":
    case "ToolCallDelta":
      return `${event._tag}(${JSON.stringify(event.delta)})`
    case "ModelPart":
      return `ModelPart(${event.part.type})`
    case "HistoryCompacted":
      return `HistoryCompacted(${event.turn}, ${event.strategy})`
    case "TurnComplete":
      return `TurnComplete(${event.turn}, ${event.reason})`
    case "CycleComplete":
      return `CycleComplete(${event.reason})`
    default:
      return `${event._tag}(${event.toolName} ${event.index})`
  }
}

// =============================================================================
// Reading a transcript
// =============================================================================

/** A transcript in short: `user`, `assistant:text+call`, `tool:result`. */
export const outline = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> =>
  messages.map((message) => {
    switch (message.role) {
      case "system":
        return `system:${message.content}`
      case "user":
        return `user:${message.content.map((part) => part.type === "text" ? part.text : part.type).join("+")}`
      case "assistant":
        return `assistant:${
          message.content.map((part) =>
            part.type === "text" ? part.text : part.type === "tool-call" ? `${part.name}()` : part.type
          ).join("+")
        }`
      case "tool":
        return `tool:${results([message]).map(({ isFailure, result }) => `${isFailure ? "!" : ""}${result}`).join("+")}`
    }
  })

/** All tool results of a transcript. */
export const results = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.ToolResultPart> =>
  messages.flatMap((message) =>
    message.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : []
  )

/** Calls of a tool, with labels that count. */
export const callsOf = (...names: ReadonlyArray<string>): ScriptedModel.ScriptedTurn =>
  ScriptedModel.calls(...names.map((name) => ({ name, params: {} })))
