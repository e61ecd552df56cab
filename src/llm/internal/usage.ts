/*
 * Tokens. What a provider does not tell stays unknown, and counts as none.
 */
import * as Response from "effect/ai/Response"

export const NO_USAGE: Response.Usage = new Response.Usage({ inputTokens: {}, outputTokens: {} })

/** A sum that grows, and is made a usage when somebody reads it: that takes longer than to add all of a turn. */
export interface Tally {
  readonly add: (usage: Response.Usage) => void
  readonly read: () => Response.Usage
}

export const makeTally = (from: Response.Usage = NO_USAGE): Tally => {
  let sum: Counts = from
  let usage: Response.Usage | undefined = from
  return {
    // Sums of counts are counts.
    add: (other) => {
      sum = plus(sum, other)
      usage = undefined
    },
    read: () => usage ??= new Response.Usage(sum, { disableChecks: true })
  }
}

type Counts = Pick<Response.Usage, "inputTokens" | "outputTokens">

const plus = (a: Counts, b: Counts): Counts => ({
  inputTokens: {
    uncached: add(a.inputTokens.uncached, b.inputTokens.uncached),
    total: add(a.inputTokens.total, b.inputTokens.total),
    cacheRead: add(a.inputTokens.cacheRead, b.inputTokens.cacheRead),
    cacheWrite: add(a.inputTokens.cacheWrite, b.inputTokens.cacheWrite)
  },
  outputTokens: {
    total: add(a.outputTokens.total, b.outputTokens.total),
    text: add(a.outputTokens.text, b.outputTokens.text),
    reasoning: add(a.outputTokens.reasoning, b.outputTokens.reasoning)
  }
})

const add = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : a + b

// -----------------------------------------------------------------------------
// Tokens by what they cost
// -----------------------------------------------------------------------------

/** Tokens of a request: no token is in two of them. */
export interface InputTokens {
  readonly uncached: number
  readonly cacheRead: number
  readonly cacheWrite: number
}

/** Tokens of a response: no token is in two of them. */
export interface OutputTokens {
  readonly text: number
  readonly reasoning: number
}

export type Tokens = InputTokens & OutputTokens

/**
 * Parts each token of a usage by what it costs; `undefined` where neither the
 * total nor what makes up most of it is told. Totals of effect/ai include what
 * was cached and reasoned. Where a provider's numbers contradict each other,
 * more is counted rather than less.
 */
export const tokensOf = (
  { inputTokens, outputTokens }: Response.Usage
): { readonly input: InputTokens | undefined; readonly output: OutputTokens | undefined } => {
  const cacheRead = known(inputTokens.cacheRead) ?? 0
  const cacheWrite = known(inputTokens.cacheWrite) ?? 0
  const reasoning = known(outputTokens.reasoning) ?? 0
  const uncached = rest(known(inputTokens.total), cacheRead + cacheWrite, known(inputTokens.uncached))
  const text = rest(known(outputTokens.total), reasoning, known(outputTokens.text))
  return {
    input: uncached === undefined ? undefined : { uncached, cacheRead, cacheWrite },
    output: text === undefined ? undefined : { text, reasoning }
  }
}

// Nobody is paid for asking.
const known = (count: number | undefined): number | undefined =>
  count !== undefined && Number.isFinite(count) && count >= 0 ? count : undefined

const rest = (total: number | undefined, parts: number, told: number | undefined): number | undefined =>
  total === undefined ? told : total >= parts ? total - parts : told ?? total

export const sumOf = (tokens: Tokens): number =>
  tokens.uncached + tokens.cacheRead + tokens.cacheWrite + tokens.text + tokens.reasoning

/** Prices of a million tokens each; see `Pricing.Price`. */
interface Prices {
  readonly input: number
  readonly output: number
  readonly cacheRead?: number
  readonly cacheWrite?: number
  readonly reasoning?: number
}

export const costOf = (price: Prices, tokens: Tokens): number =>
  (
    tokens.uncached * price.input +
    tokens.cacheRead * (price.cacheRead ?? price.input) +
    tokens.cacheWrite * (price.cacheWrite ?? price.input) +
    tokens.text * price.output +
    tokens.reasoning * (price.reasoning ?? price.output)
  ) / 1_000_000
