/**
 * What a tool's handler may answer with when a plain value does not say enough.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Predicate from "effect/Predicate"
import type * as Stream from "effect/Stream"

// A symbol, because JSON from elsewhere that a handler passes on cannot hold one.
const TypeId: unique symbol = Symbol.for("~agcore/tools/ToolOutput")

/**
 * A complete result.
 *
 * - `value`: what the tool's `success` schema describes
 * - `isFailure`: the model is told that the call failed, with `value` as the
 *   explanation
 * - `modelOutput`: text and files that the model sees in place of `value`
 *
 * @category models
 * @since 0.1.0
 */
export interface Final<out A> {
  readonly [TypeId]: typeof TypeId
  readonly _tag: "Final"
  readonly value: A
  readonly isFailure: boolean
  readonly modelOutput: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
}

/**
 * A result that arrives in pieces: each value is told as progress, the last one
 * is the result.
 *
 * @category models
 * @since 0.1.0
 */
export interface Streamed<out A, out E = never, out R = never> {
  readonly [TypeId]: typeof TypeId
  readonly _tag: "Streamed"
  readonly values: Stream.Stream<A, E, R>
}

/**
 * The call waits for somebody's input. The handler runs again, with the answer
 * and this `context`, when there is one.
 *
 * @category models
 * @since 0.1.0
 */
export interface AwaitingInput<out Asked = unknown> {
  readonly [TypeId]: typeof TypeId
  readonly _tag: "AwaitingInput"
  readonly context: Asked
  readonly prompt: string
}

/**
 * Every form of a tool's answer: `A` is its success, `Asked` the context of its
 * questions.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolOutput<A, E = never, R = never, Asked = never> = Final<A> | Streamed<A, E, R> | AwaitingInput<Asked>

/**
 * A complete result with more to say than its value.
 *
 * **Example** (Showing the model an image in place of the value)
 *
 * ```ts run
 * import { ToolOutput } from "agcore"
 * import { Prompt } from "effect/ai"
 *
 * const output = ToolOutput.final({ width: 1, height: 1 }, {
 *   modelOutput: [Prompt.makePart("text", { text: "one pixel" })]
 * })
 *
 * output.isFailure // => false
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const final = <A>(value: A, options?: {
  /** Whether the call failed. Default `false`. */
  readonly isFailure?: boolean | undefined
  /** What the model sees in place of the value. Default: the value as JSON. */
  readonly modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
}): Final<A> => ({
  [TypeId]: TypeId,
  _tag: "Final",
  value,
  isFailure: options?.isFailure ?? false,
  modelOutput: options?.modelOutput
})

/**
 * A result that arrives in pieces. Each is encoded by the tool's `success`, told
 * as progress, and dropped where nobody has room for it; the last one is the
 * call's result. A stream that ends without a value is a failed call.
 *
 * **Example** (Telling how far a download has come)
 *
 * ```ts run
 * import { PermissionPolicy, Tool, ToolOutput, ToolRegistry } from "agcore"
 * import { Effect, Layer, Schema, Stream } from "effect"
 *
 * class Download extends Tool.Service<Download>()("download", {
 *   description: "Downloads a file",
 *   success: Schema.Struct({ percent: Schema.Finite })
 * }) {}
 *
 * const DownloadLive = Download.layer(() =>
 *   Effect.succeed(ToolOutput.streamed(Stream.make({ percent: 50 }, { percent: 100 })))
 * )
 *
 * const seen: Array<unknown> = []
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   const invocation = yield* registry.invoke({ id: "1", name: "download", params: {} }, {
 *     onProgress: (value) => seen.push(value)
 *   })
 *   return [invocation.output, seen.length]
 * }).pipe(
 *   Effect.provide(ToolRegistry.layer(Download).pipe(Layer.provide([DownloadLive, PermissionPolicy.layer()])))
 * )
 *
 * await Effect.runPromise(program) // => [{ percent: 100 }, 2]
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const streamed = <A, E = never, R = never>(values: Stream.Stream<A, E, R>): Streamed<A, E, R> => ({
  [TypeId]: TypeId,
  _tag: "Streamed",
  values
})

/**
 * Asks back. The tool has to declare `asks`: the schemas of its `context` and of
 * the answer. Whatever the handler holds is gone when it runs again, so what it
 * needs then belongs into `context`.
 *
 * **Example** (A tool that asks which seat)
 *
 * ```ts run
 * import { PermissionPolicy, Question, Tool, ToolOutput, ToolRegistry } from "agcore"
 * import { Effect, Layer, Schema } from "effect"
 *
 * class Book extends Tool.Service<Book>()("book", {
 *   description: "Books a seat",
 *   success: Schema.String,
 *   asks: { context: Schema.Struct({ train: Schema.String }), answer: Schema.Literals(["window", "aisle"]) }
 * }) {}
 *
 * const BookLive = Book.layer((_, reply) =>
 *   Effect.succeed(
 *     reply === undefined
 *       ? ToolOutput.awaitingInput({ context: { train: "IC 5" }, prompt: "Window or aisle?" })
 *       : `${reply.context.train}, ${reply.answer}`
 *   )
 * )
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   const invocation = yield* registry.invoke({ id: "1", name: "book", params: {} })
 *   return invocation.output
 * }).pipe(
 *   Effect.provide(ToolRegistry.layer(Book).pipe(Layer.provide([BookLive, PermissionPolicy.layer()]))),
 *   Effect.provideService(PermissionPolicy.Approver, (question) => Effect.succeed(Question.reply(question, "aisle")))
 * )
 *
 * await Effect.runPromise(program) // => "IC 5, aisle"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const awaitingInput = <const Asked>(options: {
  /** What the tool needs to go on; encoded by its own schema. */
  readonly context: Asked
  /** What to ask, for a person. */
  readonly prompt: string
}): AwaitingInput<Asked> => ({ [TypeId]: TypeId, _tag: "AwaitingInput", ...options })

/**
 * Returns whether a value is a `ToolOutput` rather than a tool's plain value.
 *
 * @category guards
 * @since 0.1.0
 */
export const isToolOutput = (u: unknown): u is ToolOutput<unknown, unknown, unknown, unknown> =>
  Predicate.hasProperty(u, TypeId)
