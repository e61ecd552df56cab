/*
 * The answer of a shape that a submit is after: the tool the model gives it by,
 * and what a response comes to as an answer.
 */
import * as AiTool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isComplete } from "../../internal/finishReason.ts"
import * as HandlerContext from "../../internal/handlerContext.ts"
import * as ParametersSchema from "../../internal/parametersSchema.ts"
import type { ToolCall } from "../../tools/ToolInvocation.ts"
import type { RegistryToolkit } from "../../tools/ToolSnapshot.ts"
import type { ObjectOptions } from "../ObjectResponse.ts"
import type { Answer } from "./answer.ts"

/** What a submit is after. */
export interface Goal {
  readonly name: string
  /** The tools of a turn, and the one to answer with. The same tools give the same object. */
  readonly offer: (tools: RegistryToolkit | undefined) => RegistryToolkit
  /** Takes an answer, or says why it cannot be one. */
  readonly accept: (input: unknown) => Effect.Effect<string | undefined>
  /** How often an answer may still be sent back. */
  repairs: number
  /** The answer, as the model gave it. */
  given: Schema.Json | undefined
}

const DEFAULT_NAME = "final_answer"
const DEFAULT_DESCRIPTION = "Gives the final answer and ends the conversation. Call it alone, with the whole answer."
const DEFAULT_REPAIRS = 2

/** A goal, and the value it was reached with. */
export const makeGoal = <A, RD>(
  options: ObjectOptions<A, RD>
): Effect.Effect<{ readonly goal: Goal; readonly value: () => A | undefined }, never, RD> =>
  Effect.map(Effect.context<RD>(), (context) => {
    const withServices = HandlerContext.provider(context)
    const { inputSchema, unwrap } = describe(options.schema)
    const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(options.schema))
    const name = options.name ?? DEFAULT_NAME
    const own: RegistryToolkit = {
      tools: {
        [name]: AiTool.dynamic(name, {
          description: options.description ?? DEFAULT_DESCRIPTION,
          parameters: inputSchema,
          success: Schema.Json,
          failure: Schema.Json,
          failureMode: "return"
        }).annotate(AiTool.Strict, false)
      },
      // Its calls are answered here; nobody runs it.
      handle: () => Effect.die(new Error(`"${name}" is no tool to run`))
    }
    const offers = new WeakMap<RegistryToolkit, RegistryToolkit>()
    let value: A | undefined

    const goal: Goal = {
      name,
      offer: (tools) => {
        if (tools === undefined) return own
        const known = offers.get(tools)
        if (known !== undefined) return known
        const offer: RegistryToolkit = { ...tools, tools: { ...tools.tools, ...own.tools } }
        offers.set(tools, offer)
        return offer
      },
      accept: (input) =>
        withServices<A, { readonly message: string }, never>(decode(unwrap(input))).pipe(
          Effect.map((decoded) => {
            value = decoded
            // It has just been decoded from JSON.
            goal.given = unwrap(input) as Schema.Json
            return undefined
          }),
          Effect.catch(({ message }) => Effect.succeed(message))
        ),
      repairs: Math.max(0, options.repairs ?? DEFAULT_REPAIRS),
      given: undefined
    }
    return { goal, value: () => value }
  })

// Arguments are an object; an answer that is none travels in one.
const describe = (schema: Schema.Constraint) => {
  const inputSchema = ParametersSchema.fromSchema(schema)
  if (Result.isSuccess(inputSchema)) return { inputSchema: inputSchema.success, unwrap: (input: unknown) => input }
  const wrapped = ParametersSchema.fromSchema(Schema.Struct({ value: schema }))
  return {
    inputSchema: Result.getOrElse(wrapped, () => ({ type: "object" })),
    unwrap: (input: unknown): unknown =>
      typeof input === "object" && input !== null && "value" in input ? input.value : input
  }
}

/** What a response comes to as an answer. */
export type Judgement =
  /** It is none, and does not pretend to be. */
  | { readonly _tag: "None" }
  | { readonly _tag: "Given" }
  | { readonly _tag: "Unfit"; readonly issue: string }
  /** It comes with calls whose results are not there yet. */
  | { readonly _tag: "Early" }

export const judge = (goal: Goal, answer: Answer, calls: ReadonlyArray<ToolCall>): Effect.Effect<Judgement> => {
  const own = calls.filter((call) => call.name === goal.name)
  if (!isComplete(answer.finishReason) || (calls.length > 0 && own.length === 0)) {
    return Effect.succeed({ _tag: "None" })
  }
  if (calls.length > own.length) return Effect.succeed({ _tag: "Early" })
  const [call, another] = own
  if (another !== undefined) return Effect.succeed({ _tag: "Unfit", issue: "give one answer, not several" })
  const candidate = call === undefined ? parsed(answer.text) : call.params
  return Effect.map(
    goal.accept(candidate),
    (issue): Judgement => issue === undefined ? { _tag: "Given" } : { _tag: "Unfit", issue }
  )
}

// Some models write the object instead of calling the tool.
const parsed = (text: string): unknown => Result.getOrElse(Result.try((): unknown => JSON.parse(text)), () => text)
