/*
 * Cuts what a model is told of a result to a number of bytes. The model learns
 * how much is missing; the whole value stays with the invocation.
 */
import * as Prompt from "effect/ai/Prompt"
import type * as Schema from "effect/Schema"
import { cutBytes, isSurelyWithin } from "../../internal/text.ts"

export interface Limited {
  readonly result: Schema.Json
  readonly modelOutput: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
  readonly truncated: boolean
}

/** The limit as it counts: whole bytes, none where it makes no sense. */
export const toBytes = (maxResultBytes: number): number => maxResultBytes > 0 ? Math.floor(maxResultBytes) : 0

/** Files are not cut: half a file is none. */
export const limit = (
  value: Schema.Json,
  modelOutput: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined,
  maxResultBytes: number
): Limited => {
  const maxBytes = toBytes(maxResultBytes)
  const text = textOf(value)
  if (modelOutput === undefined && isSurelyWithin(text, maxBytes)) {
    return { result: value, modelOutput, truncated: false }
  }
  const { kept, missingBytes } = cutBytes(text, maxBytes)
  const parts = modelOutput === undefined ? undefined : limitParts(modelOutput, maxBytes)
  return {
    result: missingBytes === 0 ? value : mark(kept, missingBytes),
    modelOutput: parts?.parts,
    truncated: parts === undefined ? missingBytes > 0 : parts.truncated
  }
}

/** A value as a model reads it. */
export const textOf = (value: Schema.Json): string => typeof value === "string" ? value : JSON.stringify(value)

const limitParts = (parts: ReadonlyArray<Prompt.ToolModelOutputPart>, maxBytes: number) => {
  let left = maxBytes
  let truncated = false
  const limited = parts.map((part) => {
    if (part.type !== "text") return part
    const { kept, keptBytes, missingBytes } = cutBytes(part.text, left)
    left -= keptBytes
    if (missingBytes === 0) return part
    truncated = true
    left = 0
    return Prompt.makePart("text", { text: mark(kept, missingBytes), options: part.options })
  })
  return { parts: limited, truncated }
}

const mark = (kept: string, missingBytes: number): string => `${kept}\n[truncated: ${missingBytes} more bytes]`
