/*
 * Encoded parts as effect/ai's Schema would decode them.
 */
import * as Response from "effect/ai/Response"
import * as DateTime from "effect/DateTime"

/** What marks a part as one; the type of each part has it. */
const PART = "~effect/ai/Response/Part"

type Encoded = Response.StreamPartEncoded | Response.PartEncoded

export const toPart = (part: Encoded): Response.AnyPart => {
  switch (part.type) {
    case "response-metadata": {
      const { timestamp, ...rest } = part
      return Response.makePart("response-metadata", {
        ...rest,
        timestamp: timestamp === undefined ? undefined : DateTime.makeUnsafe(timestamp)
      })
    }
    case "finish":
      return Response.makePart("finish", { ...part, usage: new Response.Usage(part.usage) })
    case "tool-params-start":
      return Response.makePart("tool-params-start", { ...part, providerExecuted: false })
    case "tool-call":
      return Response.makePart("tool-call", { ...part, providerExecuted: false })
    // Written out: made of another object, as below, it takes a tenth of what a delta costs.
    case "text-delta":
      return { [PART]: PART, type: "text-delta", id: part.id, delta: part.delta, metadata: {} }
    default:
      return Response.makePart(part.type, part)
  }
}
