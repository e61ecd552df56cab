/**
 * Tools of an effect/ai `Toolkit` in a registry. (The other way round is
 * `registry.toolkit`.)
 *
 * Each call then goes through the registry's policy, timeout and limits before
 * the toolkit handles it.
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import * as AiTool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "./Tool.ts"
import { ToolContext } from "./ToolContext.ts"
import { ExecutionFailed, InvalidArguments, isToolError, Other, ToolError } from "./ToolError.ts"
import * as ToolOutput from "./ToolOutput.ts"

/**
 * Makes registry tools of a toolkit whose handlers are in the context. Tools
 * that the provider runs itself have no handler and are left out.
 *
 * **Example** (Registering a toolkit)
 *
 * ```ts run
 * import { PermissionPolicy, ToolkitBridge, ToolRegistry } from "agcore"
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 *
 * const Numbers = Toolkit.make(
 *   Tool.make("double", {
 *     description: "Doubles a number",
 *     parameters: Schema.Struct({ value: Schema.Finite }),
 *     success: Schema.Finite
 *   })
 * )
 *
 * const NumbersLive = Numbers.toLayer({ double: ({ value }) => Effect.succeed(value * 2) })
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   yield* registry.registerAll(yield* ToolkitBridge.fromToolkit(Numbers))
 *   const invocation = yield* registry.invoke({ id: "1", name: "double", params: { value: 21 } })
 *   return invocation.output
 * }).pipe(
 *   Effect.provide([NumbersLive, ToolRegistry.layer().pipe(Layer.provide(PermissionPolicy.layer()))])
 * )
 *
 * await Effect.runPromise(program) // => 42
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromToolkit = <Tools extends Record<string, AiTool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
): Effect.Effect<
  ReadonlyArray<Tool.Tool<AiTool.HandlerServices<Tools[keyof Tools]>>>,
  never,
  AiTool.HandlersFor<Tools>
> =>
  Effect.map(toolkit, (handled) =>
    Object.values<AiTool.Any>(toolkit.tools)
      .filter((tool) => !AiTool.isProviderDefined(tool) || tool.requiresHandler)
      .map((tool) => fromAiTool(tool, handled)))

const fromAiTool = <Tools extends Record<string, AiTool.Any>>(
  tool: AiTool.Any,
  handled: Toolkit.WithHandler<Tools>
): Tool.Tool<AiTool.HandlerServices<Tools[keyof Tools]>> =>
  Tool.dynamic<ToolContext | AiTool.HandlerServices<Tools[keyof Tools]>>({
    name: tool.name,
    description: AiTool.getDescription(tool) ?? "",
    inputSchema: AiTool.getJsonSchema(tool),
    // The toolkit decodes the arguments itself, by the schema it was made with.
    onInvalidSchema: "unchecked",
    needsApproval: needsApproval(tool),
    readonly: Context.get(tool.annotations, AiTool.Readonly),
    destructive: Context.get(tool.annotations, AiTool.Destructive),
    idempotent: Context.get(tool.annotations, AiTool.Idempotent),
    openWorld: Context.get(tool.annotations, AiTool.OpenWorld),
    handler: Effect.fnUntraced(function*(args) {
      const context = yield* ToolContext
      // A toolkit names its tools by the same record it handles them by; their
      // parameters are not known here and checked by `handle`.
      const results = yield* handled.handle(tool.name as keyof Tools, args as never, context.toolCallId)
      const last = yield* results.pipe(
        Stream.tap((result) => result.preliminary ? context.progress(result.encodedResult) : Effect.void),
        Stream.filter((result) => !result.preliminary),
        Stream.runLast,
        Effect.flatMap(Effect.fromOption)
      )
      // A toolkit that returns its failures returns these too: whole, with the names of its modules.
      if (AiError.isAiError(last.result)) return yield* last.result
      return ToolOutput.final(yield* toJson(last.encodedResult), {
        isFailure: last.isFailure,
        modelOutput: last.modelOutput
      })
    }, (handled, args) => Effect.catch(handled, (error) => Effect.flatMap(toToolError(tool, args, error), Effect.fail)))
  })

// What the schema needs is in the context: the toolkit's handlers need it too.
const decodeParameters = (tool: AiTool.Any) =>
  Schema.decodeUnknownEffect(Schema.toCodecJson(tool.parametersSchema as Schema.Codec<unknown>))

// Outside of a prompt there are no messages to decide by. Arguments that do not
// fit are refused by the toolkit before anything runs.
const needsApproval = (tool: AiTool.Any): Tool.DefinitionOptions<unknown>["needsApproval"] => {
  const needed = tool.needsApproval
  if (typeof needed !== "function") return needed
  return (args) =>
    Effect.flatMap(Effect.orDie(decodeParameters(tool)(args)), (parameters) => {
      const answer = needed(parameters, { toolCallId: "", messages: [] })
      return Effect.isEffect(answer) ? answer : Effect.succeed(answer)
    })
}

const toJson = (value: unknown) => Schema.decodeUnknownEffect(Schema.Json)(value ?? null)

const toToolError = (tool: AiTool.Any, input: unknown, error: unknown): Effect.Effect<ToolError> => {
  const fail = (reason: ToolError["reason"]) => new ToolError({ toolName: tool.name, reason })
  if (isToolError(error)) return Effect.succeed(error)
  if (AiError.isAiError(error)) {
    return Effect.succeed(fail(
      error.reason._tag === "ToolParameterValidationError"
        ? new InvalidArguments({ issue: error.reason.description, input })
        : new Other({ description: "The tool could not complete the call.", cause: error })
    ))
  }
  // What the schema needs is in the context: the toolkit's handlers need it too.
  const failureSchema = tool.failureSchema as Schema.Codec<unknown>
  return Effect.match(Schema.encodeUnknownEffect(Schema.toCodecJson(failureSchema))(error), {
    onSuccess: (failure) => fail(new ExecutionFailed({ origin: "failure", failure })),
    onFailure: (cause) => fail(new ExecutionFailed({ origin: "result", cause }))
  })
}
