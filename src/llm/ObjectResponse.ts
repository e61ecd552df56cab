/**
 * Answers of a shape: a submit whose final answer is decoded by a Schema, with
 * tools in the same run.
 *
 * The model gives the answer by calling one more tool, which every provider
 * with tools can do. An answer that does not fit is sent back with what is wrong
 * with it, a bounded number of times.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type { CycleResponse } from "./CycleResponse.ts"

/**
 * What shape the answer has.
 *
 * @category options
 * @since 0.1.0
 */
export interface ObjectOptions<A, RD = never> {
  /** What the answer is decoded by. */
  readonly schema: Schema.ConstraintDecoder<A, RD>
  /** The name of the tool the model answers with; no other tool may have it. Default `final_answer`. */
  readonly name?: string | undefined
  /** What the answer is, for the model. Default: that it is the final one. */
  readonly description?: string | undefined
  /** How often an answer that does not fit is sent back, at least 0. Default 2. */
  readonly repairs?: number | undefined
}

/**
 * The answer, decoded, and how it came about. Where calls wait for answers or a
 * limit has paused the submit, there is no value yet: `resumeObject` goes on.
 *
 * @category models
 * @since 0.1.0
 */
export interface ObjectResponse<A> {
  /** `undefined` if the finish reason is `awaiting-input` or `paused`. */
  readonly value: A | undefined
  readonly response: CycleResponse
}
