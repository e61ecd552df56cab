/**
 * What a submit may spend, and what happens when that is spent.
 *
 * A budget is for one submit with all of its turns, also where it is resumed
 * after a person has answered. What a conversation nested in one of its tools
 * spends counts as well.
 *
 * The provider's count decides, and it comes with the response: a submit goes
 * over its budget by one request at the most, and by a last turn where that is
 * what you want. Where a provider does not count, agcore estimates: a budget is
 * never ignored.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

/**
 * Limits of one submit, each of them optional. A limit that is reached is spent:
 * with 0 nothing may be asked. `Infinity` is no limit. What is negative or no
 * number fails the submit before its first request.
 *
 * **Example** (Ending with what there is)
 *
 * ```ts run
 * import { LlmCycle, PermissionPolicy, Tool, ToolRegistry } from "agcore"
 * import { ScriptedModel } from "agcore/testing"
 * import { Effect, Layer } from "effect"
 *
 * const look = Tool.dynamic({
 *   name: "look",
 *   description: "Looks",
 *   inputSchema: { type: "object" },
 *   handler: () => Effect.succeed("a hat")
 * })
 *
 * const Live = LlmCycle.layer({ budget: { tokens: 1_000, onExceeded: "last-turn" } }).pipe(
 *   Layer.provide(ToolRegistry.layer(look).pipe(Layer.provide(PermissionPolicy.layer()))),
 *   Layer.provide(ScriptedModel.layer((request) => ({
 *     usage: { input: 600, output: 10 },
 *     // Calls a tool as long as it is offered one.
 *     ...(request.tools.length > 0 ? ScriptedModel.calls({ name: "look", params: {} }) : ScriptedModel.text("A hat."))
 *   })))
 * )
 *
 * const program = LlmCycle.LlmCycle.use((cycle) => cycle.submitWithTools("What is there?")).pipe(
 *   Effect.map((response) => [response.text, response.turns]),
 *   Effect.provide(Live)
 * )
 *
 * await Effect.runPromise(program) // => ["A hat.", 3]
 * ```
 *
 * @category models
 * @since 0.1.0
 */
export interface Budget {
  /** Tokens, input and output. Default: no limit. */
  readonly tokens?: number | undefined
  /** Money, in the currency of the cycle's `pricing`. Default: no limit. */
  readonly cost?: number | undefined
  /** Time the submit works; what it waits for people does not count. Default: no limit. */
  readonly duration?: Duration.Input | undefined
  /** What happens at a limit. Default `fail`. */
  readonly onExceeded?: OnExceeded | undefined
}

/**
 * What happens at a limit.
 *
 * `fail`: the submit fails with `BudgetExceeded`. Calls of the response that
 * reached the limit do not run.
 *
 * `pause`: those calls run, then the submit ends with `paused`, before it asks
 * the model again. A `resume` goes on, with the whole budget anew.
 *
 * `last-turn`: those calls run, then the model is asked once more without tools,
 * to conclude with what it has. It has `LastTurnTimeout` for that.
 *
 * Time that is up does not wait for calls: running tools are stopped, and calls
 * that have not begun do not run.
 *
 * @category models
 * @since 0.1.0
 */
export type OnExceeded = "fail" | "pause" | "last-turn"

/**
 * How long a last turn may take when time is up. Default 60 seconds.
 *
 * @category references
 * @since 0.1.0
 */
export const LastTurnTimeout: Context.Reference<Duration.Duration> = Context.Reference<Duration.Duration>(
  "agcore/llm/Budget/LastTurnTimeout",
  { defaultValue: () => Duration.seconds(60) }
)

/**
 * What a submit has spent of its budget. Tokens that a provider did not count
 * are estimated.
 *
 * @category models
 * @since 0.1.0
 */
export class Spent extends Schema.Class<Spent>("agcore/llm/Budget/Spent")({
  /** Input and output. */
  tokens: Schema.Finite,
  /** In the currency of `pricing`; absent where something had no price. */
  cost: Schema.optionalKey(Schema.Finite),
  /** Time it worked. */
  millis: Schema.Finite
}) {}
