/**
 * Sampling in the words of `effect/ai`, and the decoding of a server's request.
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as AiTool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type { ContentBlock } from "../McpModel.ts"
import type { SamplingAnswer, SamplingBlock, SamplingMessage, SamplingRequest } from "../McpSampling.ts"
import { optionalNumber, optionalObject, optionalString, optionalText, type Report } from "./decode.ts"
import { decodeBlock, decodeBlocks } from "./decodeContent.ts"
import { decodeTools } from "./decodeLists.ts"
import { isObject, type JsonObject } from "./jsonrpc.ts"
import { normaliseSchema } from "./schemaNormalise.ts"

// ---------------------------------------------------------------------------
// From the wire
// ---------------------------------------------------------------------------

export const decodeSamplingRequest = (server: string, raw: JsonObject, report: Report): SamplingRequest => {
  const messages: ReadonlyArray<unknown> = Array.isArray(raw["messages"]) ? raw["messages"] : []
  const mode = optionalObject(raw["toolChoice"])?.["mode"]
  return {
    server,
    messages: messages.flatMap((message) => decodeMessage(message, report)),
    systemPrompt: optionalText(raw["systemPrompt"]),
    maxTokens: optionalNumber(raw["maxTokens"]),
    temperature: optionalNumber(raw["temperature"]),
    stopSequences: Array.isArray(raw["stopSequences"])
      ? raw["stopSequences"].filter((sequence) => typeof sequence === "string")
      : [],
    tools: decodeTools(raw["tools"], report),
    toolChoice: mode === "required" || mode === "none" ? mode : "auto",
    raw
  }
}

const decodeMessage = (message: unknown, report: Report): ReadonlyArray<SamplingMessage> => {
  if (!isObject(message)) return []
  const role = message["role"] === "assistant" ? "assistant" : "user"
  const items: ReadonlyArray<unknown> = Array.isArray(message["content"]) ? message["content"] : [message["content"]]
  return [{
    role,
    content: items.flatMap((item): ReadonlyArray<SamplingBlock> => {
      if (!isObject(item)) return []
      const block = decodeToolBlock(item, report) ?? decodeBlock(item, report)
      return block === undefined ? [] : [block]
    })
  }]
}

const decodeToolBlock = (raw: JsonObject, report: Report): SamplingBlock | undefined => {
  const { type } = raw
  if (type === "tool_use") {
    const id = optionalString(raw["id"])
    const name = optionalString(raw["name"])
    return id === undefined || name === undefined
      ? undefined
      : { type, id, name, input: optionalObject(raw["input"]) ?? {} }
  }
  if (type === "tool_result") {
    const toolUseId = optionalString(raw["toolUseId"])
    return toolUseId === undefined ? undefined : {
      type,
      toolUseId,
      content: decodeBlocks(raw["content"], report),
      structuredContent: raw["structuredContent"],
      isError: raw["isError"] === true
    }
  }
  return undefined
}

// ---------------------------------------------------------------------------
// To the wire
// ---------------------------------------------------------------------------

export const encodeSamplingAnswer = (answer: SamplingAnswer): JsonObject => {
  const [only, ...others] = answer.content
  return {
    role: "assistant",
    // Before 2025-11-25 there is exactly one block, and it is no list.
    content: only !== undefined && others.length === 0 ? only : answer.content,
    model: answer.model,
    ...(answer.stopReason === undefined ? {} : { stopReason: answer.stopReason })
  }
}

// ---------------------------------------------------------------------------
// The model
// ---------------------------------------------------------------------------

export const askLanguageModel = Effect.fnUntraced(function*(
  request: SamplingRequest
): Effect.fn.Return<SamplingAnswer, AiError.AiError, LanguageModel.LanguageModel> {
  const prompt = toPrompt(request)
  const names = request.tools.map((tool) => tool.name)
  const response = names.length === 0
    ? yield* LanguageModel.generateText({ prompt })
    : yield* LanguageModel.generateText({
      prompt,
      toolkit: yield* declare(request),
      toolChoice: request.toolChoice,
      // The server runs them.
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    })
  const parts: ReadonlyArray<Response.AnyPart> = response.content
  const calls = parts.flatMap((part) =>
    part.type === "tool-call"
      ? [{ type: "tool_use", id: part.id, name: part.name, input: optionalObject(part.params) ?? {} } as const]
      : []
  )
  const text = response.text === "" && calls.length > 0 ? [] : [{ type: "text", text: response.text } as const]
  return {
    content: [...text, ...calls],
    model: parts.flatMap((part) => part.type === "response-metadata" ? part.modelId ?? [] : [])[0] ?? "unknown",
    stopReason: calls.length > 0 ? "toolUse" : response.finishReason === "length" ? "maxTokens" : "endTurn"
  }
})

/** The server's tools as a toolkit whose handlers never run. */
const declare = Effect.fnUntraced(function*(request: SamplingRequest) {
  const tools = request.tools.map((tool) =>
    AiTool.dynamic(tool.name, {
      ...(tool.description === undefined ? {} : { description: tool.description }),
      parameters: normaliseSchema(tool.inputSchema)
    })
  )
  const toolkit = Toolkit.make(...tools)
  const never = Object.fromEntries(request.tools.map((tool) => [tool.name, () => Effect.never]))
  return yield* toolkit.pipe(Effect.provideContext(yield* toolkit.toHandlers(never)))
})

const toPrompt = (request: SamplingRequest): Prompt.Prompt => {
  const names = new Map<string, string>()
  const messages: Array<Prompt.Message> = []
  if (request.systemPrompt !== undefined) {
    messages.push(Prompt.makeMessage("system", { content: request.systemPrompt }))
  }
  for (const { content, role } of request.messages) {
    for (const block of content) if (block.type === "tool_use") names.set(block.id, block.name)
    const results = content.filter((block) => block.type === "tool_result")
    if (results.length > 0) {
      messages.push(Prompt.makeMessage("tool", {
        content: results.map((block) =>
          Prompt.makePart("tool-result", {
            id: block.toolUseId,
            name: names.get(block.toolUseId) ?? "unknown",
            isFailure: block.isError,
            result: block.structuredContent ?? block.content.map(asText).join("\n"),
            providerExecuted: false
          })
        )
      }))
    }
    if (role === "user") {
      const parts = content.flatMap(toUserPart)
      if (parts.length > 0) messages.push(Prompt.makeMessage("user", { content: parts }))
    } else {
      const parts = content.flatMap(toAssistantPart)
      if (parts.length > 0) messages.push(Prompt.makeMessage("assistant", { content: parts }))
    }
  }
  return Prompt.fromMessages(messages)
}

const toAssistantPart = (block: SamplingBlock): ReadonlyArray<Prompt.AssistantMessagePart> => {
  switch (block.type) {
    case "tool_use":
      return [
        Prompt.makePart("tool-call", { id: block.id, name: block.name, params: block.input, providerExecuted: false })
      ]
    case "tool_result":
      return []
    default:
      return [Prompt.makePart("text", { text: asText(block) })]
  }
}

const toUserPart = (block: SamplingBlock): ReadonlyArray<Prompt.UserMessagePart> => {
  switch (block.type) {
    case "tool_use":
    case "tool_result":
      return []
    case "image":
    case "audio": {
      const data = Result.getOrUndefined(Base64.decode(block.data))
      return data === undefined ? [] : [Prompt.makePart("file", { mediaType: block.mimeType, data })]
    }
    default:
      return [Prompt.makePart("text", { text: asText(block) })]
  }
}

const asText = (block: ContentBlock): string => {
  switch (block.type) {
    case "text":
      return block.text
    case "resource":
      return block.resource.type === "text" ? block.resource.text : `[${block.resource.uri}]`
    case "resource_link":
      return `[${block.name}](${block.uri})`
    case "image":
    case "audio":
      return `[${block.type}: ${block.mimeType}]`
    case "other":
      return JSON.stringify(block.raw)
  }
}
