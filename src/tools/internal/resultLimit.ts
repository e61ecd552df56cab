/*
 * Cuts what a model is told of a result to a number of bytes. The model learns
 * how much is missing; the whole value stays with the invocation.
 */
import * as Prompt from "effect/ai/Prompt"
import type * as Schema from "effect/Schema"
import { cutBytes, fitsBytes } from "../../internal/text.ts"

export interface Limited {
  readonly result: Schema.Json
  readonly modelOutput: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
  readonly truncated: boolean
}

/** Files are not cut: half a file is none. */
export const limit = (
  value: Schema.Json,
  modelOutput: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined,
  maxResultBytes: number
): Limited => {
  const maxBytes = maxResultBytes > 0 ? Math.floor(maxResultBytes) : 0
  const text = typeof value === "string" ? value : JSON.stringify(value)
  const whole = fitsBytes(text, maxBytes)
  const parts = modelOutput === undefined ? undefined : limitParts(modelOutput, maxBytes)
  return {
    result: whole ? value : cut(text, maxBytes),
    modelOutput: parts?.parts,
    truncated: parts === undefined ? !whole : parts.truncated
  }
}

const cut = (text: string, maxBytes: number): string => {
  const { kept, missingBytes } = cutBytes(text, maxBytes)
  return `${kept}\n[truncated: ${missingBytes} more bytes]`
}

const limitParts = (parts: ReadonlyArray<Prompt.ToolModelOutputPart>, maxBytes: number) => {
  let left = maxBytes
  let truncated = false
  return {
    parts: parts.map((part) => {
      if (part.type !== "text") return part
      const room = Math.max(0, left)
      if (fitsBytes(part.text, room)) {
        left -= new TextEncoder().encode(part.text).length
        return part
      }
      truncated = true
      left = 0
      return Prompt.makePart("text", { text: cut(part.text, room), options: part.options })
    }),
    get truncated() {
      return truncated
    }
  }
}
