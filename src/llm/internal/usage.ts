/*
 * Tokens. What a provider does not tell stays unknown, and counts as none.
 */
import * as Response from "effect/ai/Response"

export const NO_USAGE: Response.Usage = new Response.Usage({ inputTokens: {}, outputTokens: {} })

/** Input and output together. */
export const totalTokens = (usage: Response.Usage): number =>
  (usage.inputTokens.total ?? 0) + (usage.outputTokens.total ?? 0)

export const addUsage = (a: Response.Usage, b: Response.Usage): Response.Usage =>
  new Response.Usage({
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
