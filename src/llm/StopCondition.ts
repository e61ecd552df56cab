/**
 * When a submit is to end before the model says so.
 *
 * A condition is a function of where the submit stands. It is asked each time
 * the calls of a turn have settled, and where it holds, the submit ends with that
 * turn. Any function of your own is one; those here are values to combine.
 *
 * A condition that counts holds from its number on. With `NaN` it holds at once:
 * a mistake stops a submit rather than let it go on.
 *
 * @since 0.1.0
 */
import type { TurnState } from "./CycleConfig.ts"

/**
 * Whether a submit is to end.
 *
 * **Example** (Ending with a call, a price or a number of turns)
 *
 * ```ts run
 * import { CycleConfig, Pricing, StopCondition } from "agcore"
 *
 * const config: CycleConfig.CycleConfig = {
 *   maxTurns: 100,
 *   pricing: Pricing.make({ currency: "EUR", models: {}, default: { input: 2, output: 10 } }),
 *   stopWhen: StopCondition.any(
 *     StopCondition.hasToolCall("finish"),
 *     StopCondition.cost(0.5),
 *     StopCondition.all(StopCondition.turns(5), ({ invocations }) => invocations.some((call) => call.isFailure))
 *   )
 * }
 *
 * config.maxTurns // => 100
 * ```
 *
 * @category models
 * @since 0.1.0
 */
export type StopCondition = (state: TurnState) => boolean

// =============================================================================
// Constructors
// =============================================================================

/**
 * Holds when the model has been asked so often in this submit.
 *
 * @category constructors
 * @since 0.1.0
 */
export const turns = (count: number): StopCondition => ({ turn }) => reaches(turn, count)

/**
 * Holds when one of these tools has been called, has run and has not failed. A
 * call that fails is told to the model, which may mend it.
 *
 * @category constructors
 * @since 0.1.0
 */
export const hasToolCall =
  (...names: readonly [string, ...ReadonlyArray<string>]): StopCondition => ({ invocations }) =>
    invocations.some(({ isFailure, toolName }) => !isFailure && names.includes(toolName))

/**
 * Holds when the submit has used so many tokens, input and output; what the
 * provider does not count is estimated.
 *
 * @category constructors
 * @since 0.1.0
 */
export const tokens = (count: number): StopCondition => (state) => reaches(state.tokens, count)

/**
 * Holds when the submit has cost so much, in the currency of the cycle's
 * `pricing`; and where it is not known what it has cost.
 *
 * @category constructors
 * @since 0.1.0
 */
export const cost = (amount: number): StopCondition => (state) =>
  state.cost === undefined || reaches(state.cost, amount)

/**
 * Holds when the same call, tool and arguments, was made with the same result in
 * so many turns, and nothing new between them.
 *
 * A cycle fails with `RepeatedCalls` for its own limit, `repeatedCalls`; a lower
 * number here ends the submit with a response.
 *
 * @category constructors
 * @since 0.1.0
 */
export const repeatedCalls = (count: number): StopCondition => ({ repetition }) =>
  repetition !== undefined && reaches(repetition.count, count)

// =============================================================================
// Combinators
// =============================================================================

/**
 * Holds when at least one of them does.
 *
 * @category combinators
 * @since 0.1.0
 */
export const any = (...conditions: ReadonlyArray<StopCondition>): StopCondition => (state) =>
  conditions.some((condition) => condition(state))

/**
 * Holds when each of them does; without any it never holds.
 *
 * @category combinators
 * @since 0.1.0
 */
export const all = (...conditions: ReadonlyArray<StopCondition>): StopCondition => (state) =>
  conditions.length > 0 && conditions.every((condition) => condition(state))

/**
 * Holds when the other does not.
 *
 * @category combinators
 * @since 0.1.0
 */
export const not = (condition: StopCondition): StopCondition => (state) => !condition(state)

// =============================================================================
// Internals
// =============================================================================

// True for what cannot be compared.
const reaches = (value: number, limit: number): boolean => !(value < limit)
