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
 * A result that arrives in pieces. Handlers cannot answer with it yet.
 *
 * @category models
 * @since 0.1.0
 */
export interface Streamed<out A> {
  readonly [TypeId]: typeof TypeId
  readonly _tag: "Streamed"
  readonly values: Stream.Stream<A>
}

/**
 * The call waits for somebody's input. Handlers cannot answer with it yet.
 *
 * @category models
 * @since 0.1.0
 */
export interface AwaitingInput {
  readonly [TypeId]: typeof TypeId
  readonly _tag: "AwaitingInput"
  readonly question: string
}

/**
 * Every form of a tool's answer.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolOutput<A> = Final<A> | Streamed<A> | AwaitingInput

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
 * Returns whether a value is a `ToolOutput` rather than a tool's plain value.
 *
 * @category guards
 * @since 0.1.0
 */
export const isToolOutput = (u: unknown): u is ToolOutput<unknown> => Predicate.hasProperty(u, TypeId)

/**
 * Returns whether a value is a complete result with more to say than its value.
 *
 * @category guards
 * @since 0.1.0
 */
export const isFinal = (u: unknown): u is Final<unknown> => isToolOutput(u) && u._tag === "Final"
