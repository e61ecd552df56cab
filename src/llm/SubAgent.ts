/**
 * A cycle as a tool: the model hands a task to another conversation, with fewer
 * tools, its own instructions and its own limits, and is told the answer.
 *
 * A sub-agent can do no more than the cycle that calls it: its tools are among
 * those that were offered there, the registry's policy and the restrictions of
 * every cycle above decide about its calls, and what it spends is counted in
 * their budgets. Its events are `SubAgentEvent`s in the stream of the cycle
 * above. When its calls wait for a person, so does the call of the sub-agent.
 *
 * @since 0.1.0
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as PermissionPolicy from "../tools/PermissionPolicy.ts"
import * as Question from "../tools/Question.ts"
import * as Tool from "../tools/Tool.ts"
import { ToolContext } from "../tools/ToolContext.ts"
import { Other, ToolError } from "../tools/ToolError.ts"
import * as ToolOutput from "../tools/ToolOutput.ts"
import { ToolRegistry } from "../tools/ToolRegistry.ts"
import type { CycleConfig } from "./CycleConfig.ts"
import type { BudgetExceeded, CycleError } from "./CycleError.ts"
import { type CycleEvent, SubAgentEvent } from "./CycleEvent.ts"
import { CurrentParent, type Parent } from "./internal/parent.ts"
import * as LlmCycle from "./LlmCycle.ts"
import { SavedCycle } from "./SavedCycle.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * How a sub-agent is described and run. `R` is what the functions of its
 * configuration require.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<R = never> extends Omit<Tool.DefinitionOptions<Readonly<Record<string, unknown>>>, "timeout"> {
  readonly name: string
  /** Its own settings: instructions, tools, turns, budget. Its `sessionId` and `history` are made for each call. */
  readonly config?: Omit<CycleConfig<R>, "sessionId" | "history" | "turns"> | undefined
  /** Default: that of the cycle that calls it. */
  readonly model?: LanguageModel.LanguageModel | undefined
  /** How long one call may take, at the most. Default 10 minutes. */
  readonly timeout?: Duration.Input | undefined
}

/** How many cycles may run inside each other. */
const MAX_DEPTH = 8

const DEFAULT_TIMEOUT: Duration.Input = "10 minutes"

// =============================================================================
// Constructors
// =============================================================================

/**
 * Makes a sub-agent a tool. Its argument is the prompt, its result the text of
 * the answer. It runs inside of a cycle; anywhere else its call fails.
 *
 * **Example** (A researcher that may only read)
 *
 * ```ts run
 * import { LlmCycle, Permission, PermissionPolicy, SubAgent, Tool, ToolRegistry } from "agcore"
 * import { ScriptedModel } from "agcore/testing"
 * import { Effect, Layer, Schema } from "effect"
 *
 * class Read extends Tool.Service<Read>()("read", {
 *   description: "Reads a page",
 *   success: Schema.String,
 *   permissions: [Permission.Read]
 * }) {}
 *
 * const researcher = SubAgent.tool({
 *   name: "researcher",
 *   description: "Finds things out",
 *   config: { system: "You find things out.", tools: { names: ["read"] } }
 * })
 *
 * const Live = LlmCycle.layer().pipe(
 *   Layer.provide(ToolRegistry.layer(Read, researcher)),
 *   Layer.provide([
 *     Read.layer(() => Effect.succeed("It was 1969.")),
 *     PermissionPolicy.layer(),
 *     ScriptedModel.layer([
 *       ScriptedModel.calls({ name: "researcher", params: { prompt: "When was it?" } }),
 *       ScriptedModel.calls({ name: "read", params: {} }),
 *       ScriptedModel.text("In 1969."),
 *       ScriptedModel.text("My researcher says: in 1969.")
 *     ])
 *   ])
 * )
 *
 * const program = LlmCycle.LlmCycle.pipe(
 *   Effect.flatMap((cycle) => cycle.submitWithTools("When?")),
 *   Effect.map((response) => [response.text, response.invocations[0]?.output]),
 *   Effect.provide(Live)
 * )
 *
 * await Effect.runPromise(program) // => ["My researcher says: in 1969.", "In 1969."]
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const tool = <R = never>(
  options: Options<R>
): Tool.Tool<Tool.Captured<Exclude<Exclude<R, ToolRegistry>, LanguageModel.LanguageModel>>> => {
  const { config = {}, model, name, timeout, ...definition } = options
  const fail = (description: string, cause?: unknown) =>
    new ToolError({
      toolName: name,
      reason: new Other({ description, ...(cause === undefined ? undefined : { cause }) })
    })

  const handler = Effect.fnUntraced(function*(
    args: Readonly<Record<string, unknown>>,
    reply: Tool.Reply<Schema.Json, unknown> | undefined
  ) {
    const call = yield* ToolContext
    const parent = yield* CurrentParent
    if (parent === undefined) return yield* fail("a sub-agent runs inside of a cycle only")
    if (parent.depth >= MAX_DEPTH) return yield* fail(`sub-agents run ${MAX_DEPTH} deep at the most`)

    const kept = reply === undefined ? undefined : yield* codecs().decodeKept(reply.context).pipe(
      Effect.mapError((cause) => fail("what was kept of the sub-agent cannot be read", cause))
    )
    // What its own turn did not offer stays out of reach when it goes on in another.
    const toolNames = parent.toolNames.filter((each) => kept === undefined || kept.tools.includes(each))
    const own = narrowed(name, { ...parent, toolNames }, config)
    const sessionId = `${call.sessionId}/${call.turn}.${call.index}`
    const begun = kept === undefined ? LlmCycle.make({ ...own, sessionId }) : LlmCycle.restore(kept.cycle, own)
    const cycle = yield* begun.pipe(
      Effect.provideService(ToolRegistry, parent.registry),
      Effect.provideService(LanguageModel.LanguageModel, model ?? parent.model)
    )
    const told = reply === undefined ? String(args["prompt"]) : yield* codecs().decodeAnswers(reply.answer).pipe(
      Effect.mapError((cause) => fail("the answers cannot be read", cause))
    )
    const about = { turn: call.turn, index: call.index, toolCallId: call.toolCallId, toolName: name }
    const end = yield* run(cycle, told, parent, (event) => new SubAgentEvent({ ...about, event })).pipe(
      // An answer that cannot be taken loses nothing: its question is asked again.
      Effect.catchReason(
        "CycleError",
        "InvalidAnswer",
        (reason) =>
          Effect.map(cycle.pending, (pending): End => ({ text: reason.message, pending, problem: reason.message }))
      ),
      Effect.mapError((error) => fail(error.message, error))
    )
    if (end.isPaused) return yield* fail(`it was paused before it had an answer: ${end.exceeded?.message}`)
    if (end.pending.length === 0) return end.text
    return ToolOutput.awaitingInput({
      context: yield* Effect.orDie(
        Effect.flatMap(cycle.saved, (cycle) => codecs().encodeKept({ cycle, tools: toolNames }))
      ),
      prompt: [
        ...(end.problem === undefined ? [] : [end.problem]),
        ...end.pending.map(({ prompt, toolName }) => `${toolName}: ${prompt}`)
      ].join("\n")
    })
  })

  return Tool.dynamic({
    ...definition,
    name,
    timeout: timeout ?? DEFAULT_TIMEOUT,
    inputSchema: INPUT_SCHEMA,
    answerSchema: ANSWERS_SCHEMA,
    handler
  })
}

// =============================================================================
// Questions
// =============================================================================

/**
 * What the calls of a sub-agent wait for, where a question is a sub-agent's:
 * its own calls' questions. Empty for any other question.
 *
 * @category destructors
 * @since 0.1.0
 */
export const questions = (question: Question.Question): Effect.Effect<ReadonlyArray<Question.Question>> =>
  question._tag === "Approval" ? Effect.succeed([]) : Effect.match(codecs().decodeKept(question.context), {
    onFailure: () => [],
    onSuccess: ({ cycle }) => cycle.pending
  })

/**
 * Answers the question of a sub-agent: with the answers to `questions` of it.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reply = (question: Question.Question, answers: ReadonlyArray<Question.Answer>): Question.Answer =>
  Question.reply(question, codecs().encodeAnswers(answers))

// =============================================================================
// Internals
// =============================================================================

/** How a run of a sub-agent has ended, or what it waits for. */
interface End {
  readonly text: string
  readonly pending: ReadonlyArray<Question.Question>
  readonly problem?: string
  /** Whether a limit has stopped it before it had an answer. */
  readonly isPaused?: boolean
  readonly exceeded?: BudgetExceeded
}

const INPUT_SCHEMA = {
  type: "object",
  properties: { prompt: { type: "string", description: "The task, with everything needed to do it" } },
  required: ["prompt"],
  additionalProperties: false
}

const ANSWERS_SCHEMA = { type: "array", items: { type: "object" } }

const makeCodecs = () => {
  // What is kept while it waits; `tools` are the names of those that it was offered.
  const kept = Schema.toCodecJson(Schema.Struct({ cycle: SavedCycle, tools: Schema.Array(Schema.String) }))
  const answers = Schema.toCodecJson(Schema.Array(Question.Answer))
  return {
    decodeKept: Schema.decodeUnknownEffect(kept),
    encodeKept: Schema.encodeEffect(kept),
    decodeAnswers: Schema.decodeUnknownEffect(answers),
    encodeAnswers: Schema.encodeSync(answers)
  }
}

let made: ReturnType<typeof makeCodecs> | undefined

/** Made with the first question of a sub-agent: making them takes milliseconds. */
const codecs = () => made ??= makeCodecs()

// Its tools are among those of the call's turn, and never itself; what restricts
// the cycle above restricts it.
const narrowed = <R>(name: string, parent: Parent, config: CycleConfig<R>): CycleConfig<R> => {
  const { restrict, tools } = config
  const above = parent.restrict
  return {
    ...config,
    tools: {
      ...tools,
      where: (definition) =>
        definition.name !== name && parent.toolNames.includes(definition.name) && (tools?.where?.(definition) ?? true)
    },
    restrict: above === undefined || restrict === undefined
      ? above ?? restrict
      : (request) => Effect.zipWith(above(request), restrict(request), PermissionPolicy.strictest)
  }
}

const run = (
  cycle: LlmCycle.LlmCycle["Service"],
  told: string | ReadonlyArray<Question.Answer>,
  parent: Parent,
  nest: (event: CycleEvent) => CycleEvent
): Effect.Effect<End, CycleError> => {
  if (!parent.isStreaming) {
    const response = typeof told === "string" ? cycle.submitWithTools(told) : cycle.resume(told)
    return Effect.map(response, (end) => ({ ...end, isPaused: end.finishReason === "paused" }))
  }
  const events = typeof told === "string" ? cycle.submitStreamWithTools(told) : cycle.resumeStream(told)
  let end: End = { text: "", pending: [] }
  return events.pipe(
    Stream.runForEach((event) => {
      if (event._tag === "CycleComplete") end = { ...event, isPaused: event.reason === "paused" }
      return isDelta(event) ? Effect.sync(() => parent.offer(nest(event))) : parent.emit(nest(event))
    }),
    Effect.map(() => end)
  )
}

// As with progress: whoever is behind misses some, and the sub-agent does not wait.
const isDelta = (event: CycleEvent): boolean =>
  event._tag === "AssistantTextDelta" ||
  event._tag === "AssistantReasoningDelta" ||
  event._tag === "ToolCallDelta" ||
  event._tag === "ToolExecutionProgress" ||
  (event._tag === "SubAgentEvent" && isDelta(event.event))
