/**
 * Reads a list page by page. A list that never ends, or goes round in circles, yields what was read, with a diagnostic.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
 */
import * as Effect from "effect/Effect"
import type { McpError } from "../McpError.ts"
import { optionalNumber, type Report } from "./decode.ts"
import type { JsonObject } from "./jsonrpc.ts"

export interface Listing {
  readonly items: ReadonlyArray<unknown>
  /** The shortest time a page may be held for fresh; `undefined` where no page says. */
  readonly ttlMillis: number | undefined
}

export interface PageLimits {
  readonly maxPages: number
  readonly maxItems: number
}

export const readPages = Effect.fnUntraced(function*(
  /** The member that holds the items, and the name in diagnostics. */
  key: string,
  page: (
    cursor: string | undefined
  ) => Effect.Effect<{ readonly result: JsonObject; readonly modern: boolean }, McpError>,
  limits: PageLimits,
  report: Report
): Effect.fn.Return<Listing, McpError> {
  const items: Array<unknown> = []
  const seen = new Set<string>()
  let ttlMillis: number | undefined
  let cursor: string | undefined
  const incomplete = (why: string): void =>
    report({ kind: "incomplete-list", message: `${key}: ${why}; ${items.length} items were read` })

  for (let pages = 1;; pages++) {
    const { modern, result } = yield* page(cursor)
    const found = result[key]
    if (Array.isArray(found)) {
      for (const item of found) {
        if (items.length >= limits.maxItems) {
          incomplete(`more than ${limits.maxItems} items`)
          return { items, ttlMillis }
        }
        items.push(item)
      }
    } else if (found !== undefined && found !== null) {
      report({ kind: "dropped-item", message: `${key}: not a list` })
    }
    const ttl = optionalNumber(result["ttlMs"])
    if (ttl !== undefined) ttlMillis = Math.min(ttlMillis ?? Number.POSITIVE_INFINITY, Math.max(ttl, 0))
    const next = result["nextCursor"]
    // The empty string is a cursor in the modern era; earlier servers end their lists with it.
    if (typeof next !== "string" || (next === "" && !modern)) return { items, ttlMillis }
    if (seen.has(next)) {
      incomplete("the server repeated a cursor")
      return { items, ttlMillis }
    }
    if (pages >= limits.maxPages) {
      incomplete(`more than ${limits.maxPages} pages`)
      return { items, ttlMillis }
    }
    seen.add(next)
    cursor = next
  }
})
