/*
 * Response parts as events, chunk by chunk.
 */
import type * as Response from "effect/ai/Response"
import {
  AssistantReasoningDelta,
  AssistantTextDelta,
  type CycleEvent,
  ModelPart,
  ToolCallDelta
} from "../CycleEvent.ts"

/** Makes the events of one turn; it remembers which call a piece of arguments belongs to. */
export const deltas = (turn: number): (parts: ReadonlyArray<Response.AnyPart>) => ReadonlyArray<CycleEvent> => {
  const toolNames = new Map<string, string>()

  const toEvent = (part: Response.AnyPart): CycleEvent | undefined => {
    switch (part.type) {
      case "text-delta":
        return part.delta === "" ? undefined : new AssistantTextDelta({ turn, delta: part.delta })
      case "text":
        return part.text === "" ? undefined : new AssistantTextDelta({ turn, delta: part.text })
      case "reasoning-delta":
        return part.delta === "" ? undefined : new AssistantReasoningDelta({ turn, delta: part.delta })
      case "reasoning":
        return part.text === "" ? undefined : new AssistantReasoningDelta({ turn, delta: part.text })
      case "tool-params-start": {
        toolNames.set(part.id, part.name)
        return new ToolCallDelta({ turn, id: part.id, toolName: part.name, delta: "" })
      }
      case "tool-params-delta":
        return new ToolCallDelta({ turn, id: part.id, toolName: toolNames.get(part.id) ?? "", delta: part.delta })
      case "file":
      case "source":
      case "response-metadata":
        return new ModelPart({ turn, part })
      case "tool-call":
      case "tool-result":
        return part.providerExecuted === true ? asItCame(turn, part) : undefined
      case "error":
        return asItCame(turn, part)
      default:
        return undefined
    }
  }

  return (parts) =>
    parts.flatMap((part) => {
      const event = toEvent(part)
      return event === undefined ? [] : [event]
    })
}

// What a provider does with its own tools, and what it says went wrong.
const asItCame = (turn: number, { type, ...value }: Response.AnyPart): ModelPart =>
  new ModelPart({ turn, part: { type, value } })
