/**
 * Tools: a definition a model can read, and an implementation a Layer provides.
 *
 * `Tool.Service` describes a tool by Schema; its implementation is a Layer, so a
 * test provides another one. `Tool.dynamic` takes JSON Schema that is known at
 * run time only. A registry accepts both.
 *
 * A handler keeps the services it was built with; of the caller it sees the
 * `ToolContext`, a `Scope` of its own, the span and the runtime's references.
 *
 * @since 0.1.0
 */
import * as AiTool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as ParametersSchema from "../internal/parametersSchema.ts"
import { type Compile, compiler } from "../internal/schemaCompiler.ts"
import { implementation } from "./internal/implementation.ts"
import type { Permission } from "./Permission.ts"
import type { ToolContext } from "./ToolContext.ts"
import type { ToolError } from "./ToolError.ts"
import type * as ToolOutput from "./ToolOutput.ts"

const TypeId = "~agcore/tools/Tool" as const

// =============================================================================
// Models
// =============================================================================

/**
 * What a tool is, without what it does: the part models, policies and people
 * see.
 *
 * @category models
 * @since 0.1.0
 */
export interface Definition<out Name extends string = string> {
  readonly name: Name
  readonly description: string
  /** JSON Schema of the arguments; its root is an object. */
  readonly inputSchema: JsonSchema.JsonSchema
  /** What the tool may do; empty means it does not say. */
  readonly permissions: ReadonlyArray<Permission>
  readonly tags: ReadonlyArray<string>
  readonly category: string | undefined
  readonly version: string | undefined
  /** Hint: changes nothing. */
  readonly readonly: boolean
  /** Hint: may destroy or overwrite. */
  readonly destructive: boolean
  /** Hint: a second equal call changes nothing more. */
  readonly idempotent: boolean
  /** Hint: reaches beyond the application's own data. */
  readonly openWorld: boolean
  /** The tool's own limit of time, before the caller's. */
  readonly timeout: Duration.Input | undefined
  /** Whether a person has to approve a call: each, none, or some, by its arguments. */
  readonly needsApproval: boolean | "by-arguments"
}

/**
 * What a tool is told when somebody has answered its question.
 *
 * @category models
 * @since 0.1.0
 */
export interface Reply<out Asked, out Answer> {
  /** What the tool gave along with its question. */
  readonly context: Asked
  readonly answer: Answer
}

/**
 * How a handler has ended: with a result, or a question.
 *
 * @category models
 * @since 0.1.0
 */
export type Outcome = ToolOutput.Final<Schema.Json> | {
  readonly _tag: "AwaitingInput"
  /** The encoded context. */
  readonly context: Schema.Json
  readonly prompt: string
  /** JSON Schema of the answer. */
  readonly answerSchema: Schema.Json
}

/**
 * An answer to a tool's question, as JSON.
 *
 * @category models
 * @since 0.1.0
 */
export type EncodedReply = Reply<Schema.Json, unknown>

/**
 * A call whose arguments were accepted, ready to run.
 *
 * @category models
 * @since 0.1.0
 */
export interface Prepared {
  /** Calls with the same key run one after the other. */
  readonly exclusivityKey: string | undefined
  /** Whether a person has to approve the call, as far as the tool says. */
  readonly needsApproval: Effect.Effect<boolean>
  /**
   * Runs the handler. `onPartial` hears of the values of a streamed result, the
   * last one included. With a reply, it goes on after its question; fails with
   * `InvalidArguments` if the reply does not fit.
   */
  readonly run: (
    onPartial: (value: Schema.Json) => Effect.Effect<void>,
    reply?: EncodedReply
  ) => Effect.Effect<Outcome, ToolError, CallServices>
  /** Why a reply cannot be taken, if it cannot; runs nothing of the handler. */
  readonly checkReply: (reply: EncodedReply) => Effect.Effect<string | undefined>
}

/**
 * What a registry runs: decodes JSON arguments, then runs the handler.
 *
 * @category models
 * @since 0.1.0
 */
export interface Implementation {
  /** Fails with `InvalidArguments` when the arguments do not fit. */
  readonly prepare: (args: unknown) => Effect.Effect<Prepared, ToolError>
  /** Why the tool cannot be offered, where only building it has shown that. Default: it can. */
  readonly schemaProblem?: string | undefined
}

/**
 * Anything a registry accepts: a definition, and an effect that yields the
 * implementation. `R` is what that effect needs.
 *
 * @category models
 * @since 0.1.0
 */
export interface Tool<out R = never> {
  readonly [TypeId]: typeof TypeId
  readonly definition: Definition
  readonly implementation: Effect.Effect<Implementation, never, R>
  /**
   * Why the tool cannot be offered, if its schema is unusable. JSON Schema is
   * compiled when the tool is built: `Implementation.schemaProblem` says the rest.
   */
  readonly schemaProblem: string | undefined
}

/**
 * What a set of tools needs to be registered.
 *
 * @category utility types
 * @since 0.1.0
 */
export type Requirements<T> = T extends Tool<infer R> ? R : never

/**
 * The function behind a tool. It gets decoded parameters, and the reply where it
 * goes on after a question of its own. It answers with the tool's success, a
 * `ToolOutput`, the tool's typed failure, or a `ToolError` of its choice.
 *
 * @category models
 * @since 0.1.0
 */
export type Handler<
  Parameters extends Schema.Constraint,
  Success extends Schema.Constraint,
  Failure extends Schema.Constraint,
  R,
  Asked extends Schema.Constraint = Schema.Never,
  Answer extends Schema.Constraint = Schema.Never
> = (
  parameters: Parameters["Type"],
  reply: Reply<Asked["Type"], Answer["Type"]> | undefined
) => Effect.Effect<
  Success["Type"] | ToolOutput.ToolOutput<Success["Type"], Failure["Type"] | ToolError, R, Asked["Type"]>,
  Failure["Type"] | ToolError,
  R
>

/**
 * What describes a tool besides its name and schemas.
 *
 * @category options
 * @since 0.1.0
 */
export interface DefinitionOptions<in Parameters = never> {
  /** What the tool does, for the model. */
  readonly description: string
  /** What the tool may do. Default: none, which policies treat as unspecified. */
  readonly permissions?: ReadonlyArray<Permission> | undefined
  /** For finding and filtering. Default: none. */
  readonly tags?: ReadonlyArray<string> | undefined
  /** For grouping. Default: none. */
  readonly category?: string | undefined
  /** For people. Default: none. */
  readonly version?: string | undefined
  /** Hint: changes nothing. Default `false`. */
  readonly readonly?: boolean | undefined
  /** Hint: may destroy or overwrite. Default `true` unless `readonly`. */
  readonly destructive?: boolean | undefined
  /** Hint: a second equal call changes nothing more. Default `false`. */
  readonly idempotent?: boolean | undefined
  /** Hint: reaches beyond the application's own data. Default `true`. */
  readonly openWorld?: boolean | undefined
  /** Limit of one run, before the caller's. Default: the caller's. */
  readonly timeout?: Duration.Input | undefined
  /** Calls of one registry whose key is equal run one after the other. Default: none. */
  readonly exclusive?: string | ((parameters: Parameters) => string) | undefined
  /**
   * Whether a person has to approve a call before it runs, whatever the policy
   * allows. A function decides by the arguments; one that fails or dies asks.
   * Default `false`.
   */
  readonly needsApproval?: boolean | ((parameters: Parameters) => boolean | Effect.Effect<boolean>) | undefined
}

/**
 * Services that each call of a handler gets of its own.
 *
 * @category utility types
 * @since 0.1.0
 */
export type CallServices = ToolContext | Scope.Scope

/**
 * Services of a handler that are captured when its tool is built.
 *
 * @category utility types
 * @since 0.1.0
 */
export type Captured<R> = Exclude<R, CallServices>

/**
 * Options of `Tool.Service`.
 *
 * @category options
 * @since 0.1.0
 */
export interface ServiceOptions<
  Parameters extends Schema.Constraint,
  Success extends Schema.Constraint,
  Failure extends Schema.Constraint,
  Asked extends Schema.Constraint = Schema.Never,
  Answer extends Schema.Constraint = Schema.Never
> extends DefinitionOptions<Parameters["Type"]> {
  /** The arguments; an object. Default: no arguments. */
  readonly parameters?: Parameters | undefined
  /** The result. Default: nothing. */
  readonly success?: Success | undefined
  /** A typed failure the model is told about. Default: the handler cannot fail. */
  readonly failure?: Failure | undefined
  /** What it may ask with `ToolOutput.awaitingInput`. Default: it cannot ask. */
  readonly asks?: {
    /** What it keeps for itself until the answer comes. */
    readonly context: Asked
    /** What it wants to know. */
    readonly answer: Answer
  } | undefined
}

/**
 * Services that a tool's schemas need to read arguments and answers and to write
 * results and questions.
 *
 * @category utility types
 * @since 0.1.0
 */
export type SchemaServices<
  Parameters extends Schema.Constraint,
  Success extends Schema.Constraint,
  Failure extends Schema.Constraint,
  Asked extends Schema.Constraint = Schema.Never,
  Answer extends Schema.Constraint = Schema.Never
> =
  | Parameters["DecodingServices"]
  | Success["EncodingServices"]
  | Failure["EncodingServices"]
  | Asked["DecodingServices"]
  | Asked["EncodingServices"]
  | Answer["DecodingServices"]

/**
 * The key of a tool's service. It holds the name, so that the types of two tools
 * differ and a Layer that lacks one of them says which; and a number, so that
 * two classes of one name are two services.
 *
 * @category utility types
 * @since 0.1.0
 */
export type ServiceKey<Name extends string> = `agcore/tools/Tool/${Name}#${number}`

/**
 * The class that `Tool.Service` makes: a service key, a tool, and the way to
 * implement it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ServiceClass<
  Self,
  Name extends string,
  Parameters extends Schema.Constraint,
  Success extends Schema.Constraint,
  Failure extends Schema.Constraint,
  Asked extends Schema.Constraint = Schema.Never,
  Answer extends Schema.Constraint = Schema.Never
> extends Context.ServiceClass<Self, ServiceKey<Name>, Implementation>, Tool<Self> {
  readonly definition: Definition<Name>
  readonly parameters: Parameters
  readonly success: Success
  readonly failure: Failure

  /** Implements the tool by a handler. */
  readonly layer: <R = never>(
    handler: Handler<Parameters, Success, Failure, R, Asked, Answer>
  ) => Layer.Layer<Self, never, Captured<R> | SchemaServices<Parameters, Success, Failure, Asked, Answer>>

  /** Implements the tool by an effect that builds the handler once. */
  readonly layerEffect: <E, RX, R = never>(
    build: Effect.Effect<Handler<Parameters, Success, Failure, R, Asked, Answer>, E, RX>
  ) => Layer.Layer<
    Self,
    E,
    Exclude<RX, Scope.Scope> | Captured<R> | SchemaServices<Parameters, Success, Failure, Asked, Answer>
  >
}

// =============================================================================
// Constructors
// =============================================================================

/**
 * Defines a tool as a service. `Self` is the class being defined; the types of
 * parameters, success and failure come from the schemas.
 *
 * Arguments and results travel as JSON through `Schema.toCodecJson`.
 *
 * **Example** (Defining and implementing a tool)
 *
 * ```ts run
 * import { Permission, PermissionPolicy, Tool, ToolRegistry } from "agcore"
 * import { Effect, Layer, Schema } from "effect"
 *
 * class Add extends Tool.Service<Add>()("add", {
 *   description: "Adds two numbers",
 *   parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
 *   success: Schema.Finite,
 *   permissions: [Permission.Read],
 *   readonly: true
 * }) {}
 *
 * const AddLive = Add.layer(({ a, b }) => Effect.succeed(a + b))
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   const invocation = yield* registry.invoke({ id: "call-1", name: "add", params: { a: 1, b: 2 } })
 *   return invocation.output
 * }).pipe(
 *   Effect.provide(ToolRegistry.layer(Add).pipe(Layer.provide([AddLive, PermissionPolicy.layer()])))
 * )
 *
 * await Effect.runPromise(program) // => 3
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const Service = <Self = never>(): <
  const Name extends string,
  Parameters extends Schema.Constraint = AiTool.EmptyParams,
  Success extends Schema.Constraint = Schema.Void,
  Failure extends Schema.Constraint = Schema.Never,
  Asked extends Schema.Constraint = Schema.Never,
  Answer extends Schema.Constraint = Schema.Never
>(
  name: Name,
  options: ServiceOptions<Parameters, Success, Failure, Asked, Answer>
) => ServiceClass<Self, Name, Parameters, Success, Failure, Asked, Answer> =>
<
  const Name extends string,
  Parameters extends Schema.Constraint = AiTool.EmptyParams,
  Success extends Schema.Constraint = Schema.Void,
  Failure extends Schema.Constraint = Schema.Never,
  Asked extends Schema.Constraint = Schema.Never,
  Answer extends Schema.Constraint = Schema.Never
>(name: Name, options: ServiceOptions<Parameters, Success, Failure, Asked, Answer>) => {
  // The defaults of the type parameters are exactly these schemas.
  const parameters = (options.parameters ?? AiTool.EmptyParams) as Parameters
  const success = (options.success ?? Schema.Void) as Success
  const failure = (options.failure ?? Schema.Never) as Failure
  const asks = (options.asks ?? { context: Schema.Never, answer: Schema.Never }) as {
    readonly context: Asked
    readonly answer: Answer
  }
  const inputSchema = ParametersSchema.fromSchema(parameters)

  const key: ServiceKey<Name> = `agcore/tools/Tool/${name}#${nextServiceId++}`
  const service = Context.Service<Self, Implementation>()(key)

  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(parameters))
  const { exclusive, needsApproval } = options
  const implement = <R>(handler: Handler<Parameters, Success, Failure, R, Asked, Answer>) =>
    implementation({ name, decode, success, failure, asks, exclusive, needsApproval, handler })

  const statics: Omit<
    ServiceClass<Self, Name, Parameters, Success, Failure, Asked, Answer>,
    keyof typeof service
  > = {
    [TypeId]: TypeId,
    definition: makeDefinition(name, inputSchema, options),
    schemaProblem: Result.isFailure(inputSchema) ? inputSchema.failure : undefined,
    implementation: service,
    parameters,
    success,
    failure,
    layer: (handler) => Layer.effect(service, implement(handler)),
    layerEffect: (build) => Layer.effect(service, Effect.flatMap(build, implement))
  }
  // The class keeps its type; what it lacks of the interface is added here.
  return Object.assign(service, statics) as ServiceClass<Self, Name, Parameters, Success, Failure, Asked, Answer>
}

/**
 * Options of `Tool.dynamic`.
 *
 * @category options
 * @since 0.1.0
 */
export interface DynamicOptions<R, Failure extends Schema.Constraint = Schema.Never>
  extends DefinitionOptions<Readonly<Record<string, unknown>>>
{
  readonly name: string
  /** JSON Schema of the arguments, 2020-12 or draft-07 by its `$schema`. */
  readonly inputSchema: JsonSchema.JsonSchema
  /** A typed failure the model is told about. Default: the handler cannot fail. */
  readonly failure?: Failure | undefined
  /**
   * What becomes of a schema that cannot be compiled: `fail` refuses the tool at
   * registration, `unchecked` passes the arguments as they come and logs why. Default `fail`.
   */
  readonly onInvalidSchema?: "fail" | "unchecked" | undefined
  /** Gets the arguments as they came, and the reply after a question of its own; answers with JSON. */
  readonly handler: Handler<
    Schema.Codec<Readonly<Record<string, unknown>>>,
    Schema.Codec<Schema.Json>,
    Failure,
    R,
    Schema.Codec<Schema.Json>,
    Schema.Codec<unknown>
  >
  /** JSON Schema of the answers to its questions; one that cannot be compiled checks nothing. Default: anything. */
  readonly answerSchema?: Schema.JsonObject | undefined
}

/**
 * Makes a tool from JSON Schema that is known at run time only.
 *
 * Arguments are validated against the schema before the handler runs.
 *
 * **Example** (A tool described by JSON Schema)
 *
 * ```ts run
 * import { PermissionPolicy, Tool, ToolRegistry } from "agcore"
 * import { Effect, Layer } from "effect"
 *
 * const echo = Tool.dynamic({
 *   name: "echo",
 *   description: "Repeats a text",
 *   inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
 *   handler: ({ text }) => Effect.succeed(String(text))
 * })
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   return yield* registry.invoke({ id: "1", name: "echo", params: { text: 1 } })
 * }).pipe(
 *   Effect.catchReason("ToolError", "InvalidArguments", (reason) => Effect.succeed(reason.issue)),
 *   Effect.provide(ToolRegistry.layer(echo).pipe(Layer.provide(PermissionPolicy.layer())))
 * )
 *
 * await Effect.runPromise(program) // => "text: must be string"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const dynamic = <R = never, Failure extends Schema.Constraint = Schema.Never>(
  options: DynamicOptions<R, Failure>
): Tool<Captured<R> | Failure["EncodingServices"]> => {
  const inputSchema = ParametersSchema.fromJsonSchema(options.inputSchema)
  return {
    [TypeId]: TypeId,
    definition: makeDefinition(options.name, inputSchema, options),
    schemaProblem: Result.isFailure(inputSchema) ? inputSchema.failure : undefined,
    // The registry asks for the implementation once, when the tool is registered.
    implementation: Effect.flatMap(compiler, (compile) => {
      const validate = Result.flatMap(inputSchema, compile)
      const problem = Result.isFailure(validate) ? validate.failure : undefined
      const unchecked = problem !== undefined && options.onInvalidSchema === "unchecked"
      const built = implementation({
        name: options.name,
        decode: (args) => {
          if (!Predicate.isObject(args)) return Effect.fail({ message: "expected an object" })
          const issue = Result.isSuccess(validate) ? validate.success(args) : unchecked ? undefined : problem
          return issue === undefined ? Effect.succeed(args) : Effect.fail({ message: issue })
        },
        success: Schema.Json,
        // The default of the type parameter is exactly this schema.
        failure: (options.failure ?? Schema.Never) as Failure,
        asks: {
          context: Schema.Json,
          answer: answerOf(options.answerSchema, compile),
          answerSchema: options.answerSchema ?? {}
        },
        exclusive: options.exclusive,
        needsApproval: options.needsApproval,
        handler: options.handler
      })
      return unchecked
        ? Effect.tap(built, Effect.logWarning(`The arguments of "${options.name}" are not checked: ${problem}`))
        : Effect.map(built, (implementation) => ({ ...implementation, schemaProblem: problem }))
    })
  }
}

/**
 * Returns whether a value is a tool that a registry accepts.
 *
 * @category guards
 * @since 0.1.0
 */
export const isTool = (u: unknown): u is Tool<unknown> => Predicate.hasProperty(u, TypeId)

// =============================================================================
// Internals
// =============================================================================

const answerOf = (answerSchema: Schema.JsonObject | undefined, compile: Compile): Schema.Codec<unknown> => {
  const validate = answerSchema === undefined ? undefined : compile(answerSchema)
  if (validate === undefined || Result.isFailure(validate)) return Schema.Unknown
  return Schema.Unknown.check(Schema.makeFilter((answer) => validate.success(answer) ?? true))
}

// Two classes of one name are two services: a test's tool never takes the slot
// of another test's.
let nextServiceId = 0

const makeDefinition = <const Name extends string>(
  name: Name,
  inputSchema: Result.Result<JsonSchema.JsonSchema, string>,
  options: DefinitionOptions
): Definition<Name> => ({
  name,
  description: options.description,
  inputSchema: Result.getOrElse(inputSchema, () => ({ type: "object" })),
  permissions: options.permissions ?? [],
  tags: options.tags ?? [],
  category: options.category,
  version: options.version,
  readonly: options.readonly ?? false,
  destructive: options.destructive ?? options.readonly !== true,
  idempotent: options.idempotent ?? false,
  openWorld: options.openWorld ?? true,
  // A limit that is none shows where it is written, not when the tool is called.
  timeout: options.timeout === undefined ? undefined : Duration.fromInputUnsafe(options.timeout),
  needsApproval: typeof options.needsApproval === "function" ? "by-arguments" : options.needsApproval ?? false
})
