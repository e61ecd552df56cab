/*
 * What a finish reason says of the response it ends.
 */
import type * as Response from "effect/ai/Response"

/** Whether the response is whole, so that its calls may run; many servers say `stop` where there are calls. */
export const isComplete = (reason: Response.FinishReason): boolean =>
  reason === "tool-calls" || reason === "stop" || reason === "other"
