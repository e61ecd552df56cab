/*
 * What a tool does with one call: decode → handler → encode, with the services
 * that were there when the tool was built.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as HandlerContext from "../../internal/handlerContext.ts"
import type { CallServices, Captured, DefinitionOptions, Handler, Implementation, Outcome, Reply } from "../Tool.ts"
import { ExecutionFailed, InvalidArguments, isToolError, ToolError } from "../ToolError.ts"
import * as ToolOutput from "../ToolOutput.ts"
import * as ToolSettings from "../ToolSettings.ts"
import { supervise } from "./supervise.ts"

interface Options<
  Parameters extends Schema.Constraint,
  Success extends Schema.Constraint,
  Failure extends Schema.Constraint,
  Asked extends Schema.Constraint,
  Answer extends Schema.Constraint,
  RD,
  R
> extends Pick<DefinitionOptions<Parameters["Type"]>, "exclusive" | "needsApproval"> {
  readonly name: string
  readonly decode: (args: unknown) => Effect.Effect<Parameters["Type"], { readonly message: string }, RD>
  readonly success: Success
  readonly failure: Failure
  readonly asks: {
    readonly context: Asked
    readonly answer: Answer
    /** Default: that of `answer`. */
    readonly answerSchema?: Schema.Json | undefined
  }
  readonly handler: Handler<Parameters, Success, Failure, R, Asked, Answer>
}

type Services<
  Success extends Schema.Constraint,
  Failure extends Schema.Constraint,
  Asked extends Schema.Constraint,
  Answer extends Schema.Constraint,
  RD,
  R
> =
  | RD
  | Captured<R>
  | Success["EncodingServices"]
  | Failure["EncodingServices"]
  | Asked["EncodingServices"]
  | Asked["DecodingServices"]
  | Answer["DecodingServices"]

type OnPartial = (value: Schema.Json) => Effect.Effect<void>

/** Captures what the tool needs, and implements it with that. */
export const implementation = <
  Parameters extends Schema.Constraint,
  Success extends Schema.Constraint,
  Failure extends Schema.Constraint,
  Asked extends Schema.Constraint,
  Answer extends Schema.Constraint,
  RD,
  R
>(
  { asks, decode, exclusive, failure, handler, name, needsApproval, success }: Options<
    Parameters,
    Success,
    Failure,
    Asked,
    Answer,
    RD,
    R
  >
): Effect.Effect<Implementation, never, Services<Success, Failure, Asked, Answer, RD, R>> =>
  Effect.map(Effect.context<Services<Success, Failure, Asked, Answer, RD, R>>(), (context) => {
    const withServices = HandlerContext.provider(context)
    const timeout = Context.get(context, ToolSettings.Timeout)
    const handle = splitServices(handler)
    const encodeSuccess = Schema.encodeUnknownEffect(Schema.toCodecJson(success))
    const encodeFailure = Schema.encodeUnknownEffect(Schema.toCodecJson(failure))
    const encodeContext = Schema.encodeUnknownEffect(Schema.toCodecJson(asks.context))
    const decodeContext = Schema.decodeUnknownEffect(Schema.toCodecJson(asks.context))
    const decodeAnswer = Schema.decodeUnknownEffect(Schema.toCodecJson(asks.answer))
    const answerSchema = asks.answerSchema ?? answerJsonSchema(asks.answer)

    const fail = (reason: ExecutionFailed | InvalidArguments) => new ToolError({ toolName: name, reason })
    const unfit = (cause: unknown) => fail(new ExecutionFailed({ origin: "result", cause }))

    const tellFailure = (error: ToolError | Failure["Type"]) =>
      isToolError(error)
        ? Effect.fail(error)
        : encodeFailure(error).pipe(
          Effect.mapError(unfit),
          Effect.flatMap((failure) => Effect.fail(fail(new ExecutionFailed({ origin: "failure", failure }))))
        )

    const encode = (value: unknown) => Effect.mapError(encodeSuccess(value), unfit)

    type Own = Services<Success, Failure, Asked, Answer, RD, R> | CallServices

    // The last value is the result; one that comes before another is partial.
    const settleStream = (
      values: Stream.Stream<unknown, ToolError | Failure["Type"], Captured<R> | CallServices>,
      onPartial: OnPartial
    ): Effect.Effect<Outcome, ToolError, Own> =>
      values.pipe(
        Stream.catch((error) => Stream.fromEffect(tellFailure(error))),
        Stream.mapEffect((value) => Effect.tap(encode(value), onPartial)),
        Stream.runLast,
        Effect.flatMap(Option.match({
          onNone: () => Effect.fail(unfit(new Error("its stream ended without a value"))),
          onSome: (json) => Effect.succeed(ToolOutput.final(json))
        }))
      )

    const settle = (answer: unknown, onPartial: OnPartial): Effect.Effect<Outcome, ToolError, Own> => {
      if (!isOutput<Captured<R> | CallServices, Failure["Type"]>(answer)) {
        return Effect.map(encode(answer), (value) => ToolOutput.final(value))
      }
      switch (answer._tag) {
        case "Final":
          return Effect.map(encode(answer.value), (value) => ({ ...answer, value }))
        case "Streamed":
          return settleStream(answer.values, onPartial)
        case "AwaitingInput":
          return Effect.mapError(
            Effect.map(encodeContext(answer.context), (context) => ({
              _tag: "AwaitingInput",
              context,
              prompt: answer.prompt,
              answerSchema
            })),
            unfit
          )
      }
    }

    const run = (
      parameters: Parameters["Type"],
      onPartial: OnPartial,
      reply: Reply<Asked["Type"], Answer["Type"]> | undefined
    ): Effect.Effect<Outcome, ToolError, Own> =>
      Effect.suspend(() => handle(parameters, reply)).pipe(
        Effect.catch(tellFailure),
        Effect.flatMap((answer) => settle(answer, onPartial))
      )

    const decodeReply = (reply: Reply<Schema.Json, unknown>) =>
      Effect.all({ context: decodeContext(reply.context), answer: decodeAnswer(reply.answer) })

    return {
      prepare: (args) =>
        withServices<Parameters["Type"], { readonly message: string }, never>(decode(args)).pipe(
          Effect.mapError(({ message }) => fail(new InvalidArguments({ issue: message, input: args }))),
          Effect.map((parameters) => ({
            exclusivityKey: typeof exclusive === "function" ? exclusive(parameters) : exclusive,
            needsApproval: isNeeded(needsApproval, parameters, timeout),
            checkReply: (reply) =>
              withServices<string | undefined, never, never>(
                Effect.match(decodeReply(reply), { onFailure: ({ message }) => message, onSuccess: () => undefined })
              ),
            run: (onPartial, reply) =>
              withServices<Outcome, ToolError, CallServices>(
                reply === undefined ? run(parameters, onPartial, undefined) : decodeReply(reply).pipe(
                  Effect.mapError(({ message }) => fail(new InvalidArguments({ issue: message, input: reply.answer }))),
                  Effect.flatMap((decoded) => run(parameters, onPartial, decoded))
                )
              )
          }))
        )
    }
  })

// What a handler says of its streams is in its type; here it is one of three tags.
const isOutput = <R, E>(u: unknown): u is ToolOutput.ToolOutput<unknown, E | ToolError, R, unknown> =>
  ToolOutput.isToolOutput(u)

// Whoever is in doubt asks.
const isNeeded = <Parameters>(
  needsApproval: DefinitionOptions<Parameters>["needsApproval"],
  parameters: Parameters,
  timeout: Duration.Duration
): Effect.Effect<boolean> =>
  typeof needsApproval !== "function"
    ? Effect.succeed(needsApproval === true)
    : Effect.suspend(() => {
      const needed = needsApproval(parameters)
      return Effect.isEffect(needed) ? inTime(needed, timeout) : Effect.succeed(needed)
    }).pipe(
      Effect.map((needed) => needed !== false),
      Effect.catchCause((cause) =>
        Effect.as(Effect.logError("A tool could not say whether it needs approval", cause), true)
      )
    )

const inTime = (needed: Effect.Effect<boolean>, timeout: Duration.Duration): Effect.Effect<boolean> =>
  Effect.flatMap(
    supervise(needed, { timeout, gracePeriod: Duration.zero, onStop: () => {}, onAbandon: () => {} }),
    (outcome) => outcome._tag === "TimedOut" ? Effect.succeed(true) : outcome.exit
  )

// A schema that has no JSON Schema is checked when the answer comes.
const answerJsonSchema = (answer: Schema.Constraint): Schema.Json => {
  try {
    const { definitions, schema } = Schema.toJsonSchemaDocument(Schema.toCodecJson(answer))
    const document = Object.keys(definitions).length === 0 ? schema : { ...schema, $defs: definitions }
    return JSON.parse(JSON.stringify(document))
  } catch {
    return {}
  }
}

// What a handler needs is what it captures and what its call brings: TypeScript
// does not see that excluding a type and adding it again changes nothing.
const splitServices = <A, Asked, Answer, B, E, R>(
  handler: (parameters: A, reply: Reply<Asked, Answer> | undefined) => Effect.Effect<B, E, R>
): (parameters: A, reply: Reply<Asked, Answer> | undefined) => Effect.Effect<B, E, Captured<R> | CallServices> =>
  handler as (
    parameters: A,
    reply: Reply<Asked, Answer> | undefined
  ) => Effect.Effect<B, E, Captured<R> | CallServices>
