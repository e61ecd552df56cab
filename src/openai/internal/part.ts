/*
 * Parts as the assembler makes them, and what callers and effect/ai take them for.
 */
import * as Response from "effect/ai/Response"
import * as DateTime from "effect/DateTime"

/** effect/ai's encoded form, save that a time is not written yet. */
type Made<Part> = Part extends { readonly type: "response-metadata" } ? MadeMetadata : Part

interface MadeMetadata {
  readonly type: "response-metadata"
  readonly id: string | undefined
  readonly modelId: string | undefined
  readonly timestamp: DateTime.Utc | undefined
}

export type StreamPart = Made<Response.StreamPartEncoded>
export type WholePart = Made<Response.PartEncoded>

/** For effect/ai to decode. */
export const toEncoded = <Part extends { readonly type: string }>(
  part: Part | MadeMetadata
): Part | Response.ResponseMetadataPartEncoded =>
  isMetadata(part)
    ? { ...part, timestamp: part.timestamp === undefined ? undefined : DateTime.formatIso(part.timestamp) }
    : part

const isMetadata = (part: { readonly type: string }): part is MadeMetadata => part.type === "response-metadata"

/** What marks a part as one; the type of each part has it. */
const PART = "~effect/ai/Response/Part"

/** What effect/ai would decode. */
export const toPart = (part: StreamPart | WholePart): Response.AnyPart => {
  switch (part.type) {
    // Written out: made of another object, as below, it takes a tenth of what a delta costs.
    case "text-delta":
      return { [PART]: PART, type: "text-delta", id: part.id, delta: part.delta, metadata: {} }
    case "tool-params-start":
      return Response.makePart("tool-params-start", { ...part, providerExecuted: false })
    case "tool-call":
      return Response.makePart("tool-call", { ...part, providerExecuted: false })
    case "finish":
      // Of counts only, as the assembler reads them.
      return Response.makePart("finish", { ...part, usage: new Response.Usage(part.usage, { disableChecks: true }) })
    default:
      return Response.makePart(part.type, part)
  }
}
