/*
 * Streamed parts as the whole parts `generateText` answers with.
 */
import type * as Response from "effect/ai/Response"

export const whole = (parts: ReadonlyArray<Response.StreamPartEncoded>): Array<Response.PartEncoded> => {
  const out: Array<Response.PartEncoded> = []
  let text: Array<string> = []
  for (const part of parts) {
    switch (part.type) {
      case "text-delta":
      case "reasoning-delta":
        text.push(part.delta)
        break
      case "text-end":
        out.push({ type: "text", text: text.join("") })
        text = []
        break
      case "reasoning-end":
        out.push({ type: "reasoning", text: text.join(""), metadata: part.metadata })
        text = []
        break
      case "response-metadata":
      case "tool-call":
      case "finish":
        out.push(part)
    }
  }
  return out
}
