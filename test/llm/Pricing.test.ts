/*
 * What tokens cost: by the table, by what they were used for, and never nothing.
 */
import { assert, describe, it } from "@effect/vitest"
import { Pricing } from "agcore"
import { Result, Schema } from "effect"
import { Response } from "effect/ai"

const table = Pricing.make({
  currency: "EUR",
  models: {
    parrot: { input: 4, cacheRead: 1, cacheWrite: 5, output: 20, reasoning: 10 },
    finch: { input: 4, output: 20 }
  }
})

const usage = (
  inputTokens: typeof Response.Usage.Type.inputTokens,
  outputTokens: typeof Response.Usage.Type.outputTokens
) => new Response.Usage({ inputTokens, outputTokens })

const million = 1_000_000

describe("a price table", () => {
  // verifies: budget.price-table
  it("refuses prices that are negative or no numbers, and a currency without a name", () => {
    const price = { input: 1, output: 1 }
    for (const wrong of [-1, NaN, Infinity, "1", null]) {
      assert.throws(() => Pricing.make({ currency: "EUR", models: { m: { ...price, input: wrong as number } } }))
      assert.throws(() => Pricing.make({ currency: "EUR", models: { m: { ...price, cacheRead: wrong as number } } }))
      assert.throws(() => Pricing.make({ currency: "EUR", models: {}, default: { ...price, output: wrong as number } }))
    }
    assert.throws(() => Pricing.make({ currency: "", models: {} }))
  })

  it("is read from JSON as it was written", () => {
    const codec = Schema.toCodecJson(Pricing.PriceTable)
    assert.deepStrictEqual(Schema.decodeSync(codec)(Schema.encodeSync(codec)(table)), table)
  })

  it("finds a price by the first name it lists, and by no name it only inherits", () => {
    assert.strictEqual(Pricing.find(table, "parrot-2030-01-01", "parrot"), table.models["parrot"])
    assert.strictEqual(Pricing.find(table), undefined)
    for (const name of ["constructor", "__proto__", "toString"]) assert.isUndefined(Pricing.find(table, name))
    const withDefault = Pricing.make({ currency: "EUR", models: {}, default: { input: 1, output: 1 } })
    assert.strictEqual(Pricing.find(withDefault, "constructor"), withDefault.default)
  })
})

describe("the cost of tokens", () => {
  const costOf = (model: string, tokens: Response.Usage) => Result.getOrThrow(Pricing.cost(table, model, tokens))

  // verifies: budget.price-parts
  it("is that of what they were used for", () => {
    const tokens = usage(
      { total: 10 * million, cacheRead: 2 * million, cacheWrite: 3 * million },
      { total: 5 * million, reasoning: million }
    )
    assert.strictEqual(costOf("parrot", tokens), 5 * 4 + 2 * 1 + 3 * 5 + 4 * 20 + 1 * 10)
    assert.strictEqual(costOf("finch", tokens), 10 * 4 + 5 * 20)
  })

  it("needs totals only, or only the parts that make them up", () => {
    assert.strictEqual(costOf("parrot", usage({ total: million }, { total: million })), 24)
    assert.strictEqual(
      costOf("parrot", usage({ uncached: million, cacheRead: million }, { text: million, reasoning: million })),
      4 + 1 + 20 + 10
    )
    assert.strictEqual(costOf("parrot", usage({ total: 0 }, { total: 0 })), 0)
  })

  it("is rather too high than too low where the numbers contradict each other", () => {
    // More was cached than there was.
    assert.strictEqual(costOf("parrot", usage({ total: million, cacheRead: 2 * million }, { total: 0 })), 4 + 2)
    assert.strictEqual(costOf("parrot", usage({ total: 0 }, { total: million, reasoning: 2 * million })), 20 + 20)
    // Nobody is paid for asking.
    assert.strictEqual(costOf("parrot", usage({ total: million, cacheRead: -million }, { total: 0 })), 4)
  })

  // verifies: budget.never-free
  it("is an error for a model without a price, and for tokens that nobody counted", () => {
    const failure = (model: string, tokens: Response.Usage) =>
      Result.match(Pricing.cost(table, model, tokens), {
        onSuccess: (amount) => `${amount}`,
        onFailure: ({ message, reason }) => `${reason._tag}: ${message}`
      })
    const known = usage({ total: 1 }, { total: 1 })
    assert.strictEqual(
      failure("owl", known),
      "ModelUnpriced: the price table has neither the model \"owl\" nor a default"
    )
    for (
      const unknown of [
        usage({}, {}),
        usage({ total: 1 }, {}),
        usage({ cacheRead: 1 }, { total: 1 }),
        usage({ total: -1 }, { total: 1 })
      ]
    ) {
      assert.strictEqual(
        failure("parrot", unknown),
        "UsageUnknown: the provider did not say how many tokens were used"
      )
    }
  })
})
