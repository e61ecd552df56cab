/*
 * Gathers the parts of one response, whole or in pieces, into what a turn is
 * made of.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import type { Draft } from "../History.ts"
import { NO_USAGE } from "./usage.ts"

/** A response that has ended. */
export interface Answer {
  readonly content: ReadonlyArray<Prompt.AssistantMessagePart>
  readonly text: string
  /** `unknown` where the response did not say. */
  readonly finishReason: Response.FinishReason
  readonly usage: Response.Usage
  /** The model, as the provider calls it; `undefined` where it does not say. */
  readonly model: string | undefined
}

/** A response that is arriving. Its draft is the text so far. */
export interface Gathering extends Draft {
  readonly add: (part: Response.AnyPart) => void
  readonly end: () => Answer
}

/** A text or reasoning that arrives in pieces. */
interface Block {
  readonly type: "text" | "reasoning"
  readonly text: TextBuffer
  metadata: Response.ProviderMetadata
  ended: boolean
}

export const gather = (): Gathering => {
  const parts: Array<Response.AnyPart | Block> = []
  const blocks = new Map<string, Block>()
  let finishReason: Response.FinishReason = "unknown"
  let usage = NO_USAGE
  let model: string | undefined

  const open = (type: Block["type"], id: string): Block => {
    const block: Block = { type, text: makeTextBuffer(), metadata: {}, ended: false }
    blocks.set(`${type}:${id}`, block)
    parts.push(block)
    return block
  }
  // Some providers send pieces of what they never started.
  const find = (type: Block["type"], id: string): Block => blocks.get(`${type}:${id}`) ?? open(type, id)
  const annotate = (block: Block, metadata: Response.ProviderMetadata) => {
    block.metadata = mergeMetadata(block.metadata, metadata)
    return block
  }

  return {
    add: (part) => {
      switch (part.type) {
        case "text-start":
          return void annotate(open("text", part.id), part.metadata)
        case "reasoning-start":
          return void annotate(open("reasoning", part.id), part.metadata)
        case "text-delta":
          return annotate(find("text", part.id), part.metadata).text.add(part.delta)
        case "reasoning-delta":
          return annotate(find("reasoning", part.id), part.metadata).text.add(part.delta)
        case "text-end":
        case "reasoning-end": {
          const type = part.type === "text-end" ? "text" : "reasoning"
          annotate(find(type, part.id), part.metadata).ended = true
          blocks.delete(`${type}:${part.id}`)
          return
        }
        // The first reason counts: an error is not made good by a finish after it.
        case "finish": {
          if (finishReason === "unknown") finishReason = part.reason
          usage = part.usage
          return
        }
        case "response-metadata": {
          model = part.modelId ?? model
          return
        }
        case "error": {
          if (finishReason === "unknown") finishReason = "error"
          return
        }
        case "text":
        case "reasoning":
          return void (saysSomething(part.type, part.text.length, part.metadata) && parts.push(part))
        case "file":
        case "tool-call":
        case "tool-result":
          return void parts.push(part)
      }
    },
    content: () =>
      parts.flatMap((part) => {
        if ("ended" in part) return toPart(part)
        return part.type === "text" ? Prompt.makePart("text", { text: part.text, options: part.metadata }) : []
      }),
    end: () => {
      const whole = parts.flatMap((part) => "ended" in part ? toResponsePart(part) : part)
      const content = Prompt.fromResponseParts(whole).content.flatMap((message) =>
        message.role === "assistant" ? message.content : []
      )
      return {
        content,
        text: content.map((part) => part.type === "text" ? part.text : "").join(""),
        finishReason,
        usage,
        model
      }
    }
  }
}

// Reasoning may be encrypted: then all of it is in its metadata.
const saysSomething = (type: Block["type"], length: number, metadata: Response.ProviderMetadata): boolean =>
  length > 0 || (type === "reasoning" && Object.keys(metadata).length > 0)

// Reasoning without its end may lack the signature that providers want with it.
const isKept = (block: Block) =>
  (block.type === "text" || block.ended) && saysSomething(block.type, block.text.length, block.metadata)

const toPart = (block: Block): ReadonlyArray<Prompt.TextPart | Prompt.ReasoningPart> =>
  isKept(block) ? [Prompt.makePart(block.type, { text: block.text.read(), options: block.metadata })] : []

const toResponsePart = (block: Block): ReadonlyArray<Response.AnyPart> =>
  isKept(block) ? [Response.makePart(block.type, { text: block.text.read(), metadata: block.metadata })] : []

const mergeMetadata = (
  before: Response.ProviderMetadata,
  after: Response.ProviderMetadata
): Response.ProviderMetadata => {
  const providers = Object.entries(after)
  if (providers.length === 0) return before
  const merged = { ...before }
  for (const [provider, metadata] of providers) {
    const known = merged[provider]
    merged[provider] = isRecord(known) && isRecord(metadata) ? { ...known, ...metadata } : metadata
  }
  return merged
}

const isRecord = (value: unknown): value is Record<string, never> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

interface TextBuffer {
  readonly add: (piece: string) => void
  readonly read: () => string
  readonly length: number
}

/** Pieces are joined when there are this many, so that memory follows the text and not their number. */
const MAX_PIECES = 1_024

const makeTextBuffer = (): TextBuffer => {
  let text = ""
  let pieces: Array<string> = []
  let length = 0
  const read = () => {
    text += pieces.join("")
    pieces = []
    return text
  }
  return {
    add: (piece) => {
      length += piece.length
      if (pieces.push(piece) >= MAX_PIECES) read()
    },
    read,
    get length() {
      return length
    }
  }
}
