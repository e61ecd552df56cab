/**
 * What tokens cost, by a table that is yours: agcore knows no prices.
 *
 * Prices are per million tokens, in one currency. A model that is not in the
 * table, and tokens that a provider did not count, have no cost; they are never
 * free.
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Usage from "./internal/usage.ts"

const TypeId = "~agcore/llm/Pricing" as const

// =============================================================================
// Models
// =============================================================================

const PerMillion = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * What a million tokens of one model cost.
 *
 * @category models
 * @since 0.1.0
 */
export class Price extends Schema.Class<Price>("agcore/llm/Pricing/Price")({
  /** A million tokens of a request that no cache knew. */
  input: PerMillion,
  /** A million tokens of a response. */
  output: PerMillion,
  /** A million tokens of a request that were read from a cache. Default: as `input`. */
  cacheRead: Schema.optionalKey(PerMillion),
  /** A million tokens of a request that were written to a cache. Default: as `input`. */
  cacheWrite: Schema.optionalKey(PerMillion),
  /** A million tokens of reasoning. Default: as `output`. */
  reasoning: Schema.optionalKey(PerMillion)
}) {}

/**
 * Prices of models, by the names that providers use. A Schema as well, for a
 * table that is read from a file.
 *
 * @category models
 * @since 0.1.0
 */
export class PriceTable extends Schema.Class<PriceTable>("agcore/llm/Pricing/PriceTable")({
  /** What all prices are in: a label, such as a code of ISO 4217. */
  currency: Schema.NonEmptyString,
  models: Schema.Record(Schema.String, Price),
  /** Of every model that is not listed, and of one whose name is not known. Default: such a model has no price. */
  default: Schema.optionalKey(Price)
}) {
  readonly [TypeId] = TypeId
}

// =============================================================================
// Errors
// =============================================================================

/**
 * The table has no price for a model, and none for others.
 *
 * `model` is absent where its name is not known before it is asked: effect/ai's
 * `Model.make` says it, or `Model.ModelName` in the context.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ModelUnpriced extends Schema.TaggedError<ModelUnpriced>("agcore/llm/Pricing/ModelUnpriced")(
  "ModelUnpriced",
  { model: Schema.optionalKey(Schema.String) }
) {
  override get message(): string {
    return this.model === undefined
      ? "the model's name is not known, and the price table has no default: name it with Model.ModelName of effect/ai"
      : `the price table has neither the model "${this.model}" nor a default`
  }
}

/**
 * The provider did not say how many tokens it has counted, at least not all.
 *
 * @category reasons
 * @since 0.1.0
 */
export class UsageUnknown
  extends Schema.TaggedError<UsageUnknown>("agcore/llm/Pricing/UsageUnknown")("UsageUnknown", {})
{
  override get message(): string {
    return "the provider did not say how many tokens were used"
  }
}

/**
 * Why tokens have no cost.
 *
 * @category errors
 * @since 0.1.0
 */
export class PricingError extends Schema.TaggedError<PricingError>("agcore/llm/Pricing/PricingError")("PricingError", {
  reason: Schema.Union([ModelUnpriced, UsageUnknown])
}) {
  override readonly cause = this.reason

  override get message(): string {
    return this.reason.message
  }
}

// =============================================================================
// Constructors
// =============================================================================

/**
 * Makes a price table. A price that is negative or no number is a defect; decode
 * with `PriceTable` what comes from outside.
 *
 * **Example** (A table, and one that is read from a file)
 *
 * ```ts run
 * import { Pricing } from "agcore"
 * import { Schema } from "effect"
 *
 * const table = Pricing.make({
 *   currency: "EUR",
 *   models: { "parrot-1": { input: 2, cacheRead: 0.5, output: 10 } }
 * })
 *
 * const read = Schema.decodeUnknownSync(Pricing.PriceTable)(JSON.parse(JSON.stringify(table)))
 *
 * read.models["parrot-1"]?.output // => 10
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: typeof PriceTable.Encoded): PriceTable => Schema.decodeSync(PriceTable)(options)

// =============================================================================
// Destructors
// =============================================================================

/**
 * The price of the first of these names that the table lists, else its default.
 *
 * @category destructors
 * @since 0.1.0
 */
export const find = (table: PriceTable, ...names: ReadonlyArray<string>): Price | undefined => {
  const name = names.find((name) => Object.hasOwn(table.models, name))
  return name === undefined ? table.default : table.models[name]
}

/**
 * What tokens of a model cost, in the table's currency. Fails with a
 * `PricingError` where the model has no price or the tokens are not known.
 *
 * **Example** (Cached tokens cost less)
 *
 * ```ts run
 * import { Pricing } from "agcore"
 * import { Result } from "effect"
 * import { Response } from "effect/ai"
 *
 * const table = Pricing.make({
 *   currency: "EUR",
 *   models: { "parrot-1": { input: 2, cacheRead: 0.5, output: 10 } }
 * })
 * const usage = new Response.Usage({
 *   inputTokens: { total: 1_000_000, cacheRead: 600_000 },
 *   outputTokens: { total: 100_000 }
 * })
 *
 * // 400,000 at 2, 600,000 at 0.5 and 100,000 at 10 for a million.
 * Pricing.cost(table, "parrot-1", usage) // => Result.succeed(2.1)
 * Result.isFailure(Pricing.cost(table, "parrot-2", usage)) // => true
 * ```
 *
 * @category destructors
 * @since 0.1.0
 */
export const cost = (
  table: PriceTable,
  model: string,
  usage: Response.Usage
): Result.Result<number, PricingError> => {
  const price = find(table, model)
  if (price === undefined) return Result.fail(new PricingError({ reason: new ModelUnpriced({ model }) }))
  const tokens = Usage.tokensOf(usage)
  if (tokens.input === undefined || tokens.output === undefined) {
    return Result.fail(new PricingError({ reason: new UsageUnknown() }))
  }
  return Result.succeed(Usage.costOf(price, { ...tokens.input, ...tokens.output }))
}
