/*
 * What a tool does with one call: decode → handler → encode, with the services
 * that were there when the tool was built.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as HandlerContext from "../../internal/handlerContext.ts"
import type { CallServices, Captured, Implementation } from "../Tool.ts"
import { ExecutionFailed, InvalidArguments, isToolError, ToolError } from "../ToolError.ts"
import * as ToolOutput from "../ToolOutput.ts"

interface Options<A, Success extends Schema.Constraint, Failure extends Schema.Constraint, RD, R> {
  readonly name: string
  readonly decode: (args: unknown) => Effect.Effect<A, { readonly message: string }, RD>
  readonly success: Success
  readonly failure: Failure
  readonly exclusive: string | ((parameters: A) => string) | undefined
  readonly handler: (
    parameters: A
  ) => Effect.Effect<Success["Type"] | ToolOutput.Final<Success["Type"]>, Failure["Type"] | ToolError, R>
}

type Services<Success extends Schema.Constraint, Failure extends Schema.Constraint, RD, R> =
  | RD
  | Captured<R>
  | Success["EncodingServices"]
  | Failure["EncodingServices"]

/** Captures what the tool needs, and implements it with that. */
export const implementation = <A, Success extends Schema.Constraint, Failure extends Schema.Constraint, RD, R>(
  { decode, exclusive, failure, handler, name, success }: Options<A, Success, Failure, RD, R>
): Effect.Effect<Implementation, never, Services<Success, Failure, RD, R>> =>
  Effect.map(Effect.context<Services<Success, Failure, RD, R>>(), (context) => {
    const withServices = HandlerContext.provider(context)
    const handle = splitServices(handler)
    const encodeSuccess = Schema.encodeUnknownEffect(Schema.toCodecJson(success))
    const encodeFailure = Schema.encodeUnknownEffect(Schema.toCodecJson(failure))

    const fail = (reason: ExecutionFailed | InvalidArguments) => new ToolError({ toolName: name, reason })
    const unfit = (cause: unknown) => fail(new ExecutionFailed({ origin: "result", cause }))

    const tellFailure = (error: ToolError | Failure["Type"]) =>
      isToolError(error)
        ? Effect.fail(error)
        : encodeFailure(error).pipe(
          Effect.mapError(unfit),
          Effect.flatMap((failure) => Effect.fail(fail(new ExecutionFailed({ origin: "failure", failure }))))
        )

    const run = (parameters: A) =>
      Effect.suspend(() => handle(parameters)).pipe(
        Effect.catch(tellFailure),
        Effect.flatMap((answer) => {
          const output: ToolOutput.Final<unknown> = ToolOutput.isFinal(answer) ? answer : ToolOutput.final(answer)
          return encodeSuccess(output.value).pipe(
            Effect.map((value) => ({ ...output, value })),
            Effect.mapError(unfit)
          )
        })
      )

    return {
      prepare: (args) =>
        withServices<A, { readonly message: string }, never>(decode(args)).pipe(
          Effect.mapError(({ message }) => fail(new InvalidArguments({ issue: message, input: args }))),
          Effect.map((parameters) => ({
            exclusivityKey: typeof exclusive === "function" ? exclusive(parameters) : exclusive,
            run: withServices<ToolOutput.Final<Schema.Json>, ToolError, CallServices>(run(parameters))
          }))
        )
    }
  })

// What a handler needs is what it captures and what its call brings: TypeScript
// does not see that excluding a type and adding it again changes nothing.
const splitServices = <A, B, E, R>(
  handler: (parameters: A) => Effect.Effect<B, E, R>
): (parameters: A) => Effect.Effect<B, E, Captured<R> | CallServices> =>
  handler as (parameters: A) => Effect.Effect<B, E, Captured<R> | CallServices>
