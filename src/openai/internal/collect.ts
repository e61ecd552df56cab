/*
 * Streamed parts as the whole parts `generateText` answers with.
 */
import type * as AiError from "effect/ai/AiError"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import type { Answer } from "./answer.ts"
import type { StreamPart, WholePart } from "./part.ts"

/** Reads an answer to its end. */
export const whole = (answer: Answer): Effect.Effect<Array<WholePart>, AiError.AiError> =>
  Effect.suspend(() => {
    const collector = make()
    const all: Effect.Effect<Array<WholePart>, AiError.AiError> = Pull.matchEffect(answer.pull, {
      onSuccess: (parts) => {
        parts.forEach(collector.add)
        return answer.isOver() ? Effect.succeed(collector.parts) : all
      },
      onFailure: Effect.failCause,
      onDone: () => Effect.succeed(collector.parts)
    })
    return all
  })

interface Collector {
  readonly add: (part: StreamPart) => void
  readonly parts: Array<WholePart>
}

const make = (): Collector => {
  const parts: Array<WholePart> = []
  let text: Array<string> = []
  return {
    parts,
    add(part) {
      switch (part.type) {
        case "text-delta":
        case "reasoning-delta":
          text.push(part.delta)
          break
        case "text-end":
          parts.push({ type: "text", text: text.join("") })
          text = []
          break
        case "reasoning-end":
          parts.push({ type: "reasoning", text: text.join(""), metadata: part.metadata })
          text = []
          break
        case "response-metadata":
        case "tool-call":
        case "finish":
          parts.push(part)
      }
    }
  }
}
