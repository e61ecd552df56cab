/*
 * What the model is asked in one turn.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { RegistryToolkit, ToolFilter, ToolSnapshot } from "../../tools/ToolSnapshot.ts"
import type { ToolChoice, TurnOptions } from "../CycleConfig.ts"
import type { BudgetExceeded } from "../CycleError.ts"
import type { CycleEvent } from "../CycleEvent.ts"
import * as Compacting from "./compactTurn.ts"
import { closeHistory, type Submit, systemMessages, turnState } from "./conversation.ts"
import type { Goal } from "./objectAnswer.ts"

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

/** Puts the request together; the history may be shortened for it. */
export const prepareRequest = Effect.fnUntraced(function*(
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
    ? systemMessages(conclusion(options.system ?? config.system, submit.goal))
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
const conclusion = (system: string | undefined, goal: Goal | undefined): string => {
  const offered = goal === undefined
    ? "no more tools can be called"
    : `no tool can be called any more but "${goal.name}"`
  const note =
    `The budget of this conversation is used up. Answer now, with what you have: ${offered}. Say what is missing.`
  return system === undefined ? note : `${system}\n\n${note}`
}

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
