/*
 * OpenRouter's structured reasoning, which has to go back as it came.
 *
 * A detail is streamed in pieces that share `index` and `type`; their strings are joined, other fields come once.
 * https://openrouter.ai/docs/use-cases/reasoning-tokens
 */
import * as Json from "./json.ts"

const joined = new Set(["text", "summary", "data", "signature"])

/** Adds the pieces of one chunk to the details so far. */
export const append = (details: Array<Json.JsonObject>, pieces: ReadonlyArray<Json.Json>): void => {
  for (const piece of pieces) {
    if (!Json.isObject(piece) || !Json.isShallow(piece)) continue
    const last = details.at(-1)
    if (last !== undefined && piece["index"] === last["index"] && piece["type"] === last["type"]) {
      details[details.length - 1] = join(last, piece)
    } else {
      details.push(piece)
    }
  }
}

const join = (detail: Json.JsonObject, piece: Json.JsonObject): Json.JsonObject => {
  const both: Record<string, Json.Json> = { ...detail }
  for (const [key, value] of Object.entries(piece)) {
    const before = detail[key]
    if (joined.has(key) && typeof before === "string" && typeof value === "string") both[key] = before + value
    else if (value !== null) both[key] = value
  }
  return both
}
