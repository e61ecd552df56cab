/**
 * Decoders of results: tool results, prompts, resource contents, completions. Each content block stands for itself: a broken
 * one is left out, an unknown one stays as it came.
 */
import type {
  Completion,
  ContentBlock,
  PromptMessage,
  PromptResult,
  ResourceContents,
  ToolResult
} from "../McpModel.ts"
import { optionalNumber, optionalString, optionalText, type Report } from "./decode.ts"
import { decodeResource } from "./decodeLists.ts"
import { isObject, type JsonObject } from "./jsonrpc.ts"

const broken = (what: string, report: Report): undefined => {
  report({ kind: "dropped-item", message: `${what} lacks what it is made of` })
}

export const decodeBlock = (raw: JsonObject, report: Report): ContentBlock | undefined => {
  const { type } = raw
  switch (type) {
    case "text": {
      const text = optionalString(raw["text"])
      return text === undefined ? broken("a text block", report) : { type, text, raw }
    }
    case "image":
    case "audio": {
      const data = optionalString(raw["data"])
      const mimeType = optionalString(raw["mimeType"])
      return data === undefined || mimeType === undefined
        ? broken(`an ${type} block`, report)
        : { type, data, mimeType, raw }
    }
    case "resource": {
      const resource = isObject(raw["resource"]) ? decodeContents(raw["resource"]) : undefined
      return resource === undefined ? broken("a resource block", report) : { type, resource, raw }
    }
    case "resource_link": {
      const resource = decodeResource(raw)
      return resource === undefined ? broken("a resource link", report) : { ...resource, type }
    }
    default:
      return typeof type === "string" ? { type: "other", kind: type, raw } : broken("a content block", report)
  }
}

/** A list of blocks; a lone block or a bare string in its place is taken for what it is meant to be. */
export const decodeBlocks = (value: unknown, report: Report): ReadonlyArray<ContentBlock> => {
  if (value === undefined || value === null) return []
  if (typeof value === "string") return [{ type: "text", text: value, raw: { type: "text", text: value } }]
  const items: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value]
  const blocks: Array<ContentBlock> = []
  for (const item of items) {
    const block = isObject(item) ? decodeBlock(item, report) : broken("a content block", report)
    if (block !== undefined) blocks.push(block)
  }
  return blocks
}

export const decodeToolResult = (raw: JsonObject, report: Report): ToolResult => ({
  content: decodeBlocks(raw["content"], report),
  structuredContent: raw["structuredContent"],
  isError: raw["isError"] === true,
  raw
})

const decodeContents = (raw: JsonObject): ResourceContents | undefined => {
  const uri = optionalString(raw["uri"]) ?? ""
  const mimeType = optionalString(raw["mimeType"])
  const text = optionalString(raw["text"])
  if (text !== undefined) return { type: "text", uri, mimeType, text, raw }
  const blob = optionalString(raw["blob"])
  return blob === undefined ? undefined : { type: "blob", uri, mimeType, blob, raw }
}

export const decodeResourceResult = (raw: JsonObject, report: Report): ReadonlyArray<ResourceContents> => {
  const { contents } = raw
  const items: ReadonlyArray<unknown> = Array.isArray(contents) ? contents : isObject(contents) ? [contents] : []
  return items.flatMap((item) => {
    const decoded = isObject(item) ? decodeContents(item) : undefined
    return decoded === undefined ? broken("a part of a resource", report) ?? [] : [decoded]
  })
}

export const decodePromptResult = (raw: JsonObject, report: Report): PromptResult => {
  const { messages } = raw
  const items: ReadonlyArray<unknown> = Array.isArray(messages) ? messages : []
  return {
    description: optionalText(raw["description"]),
    messages: items.flatMap((item): ReadonlyArray<PromptMessage> => {
      if (!isObject(item)) return broken("a prompt message", report) ?? []
      const { role } = item
      if (role !== "user" && role !== "assistant") return broken("a prompt message", report) ?? []
      return decodeBlocks(item["content"], report).map((content) => ({ role, content }))
    }),
    raw
  }
}

export const decodeCompletion = (raw: JsonObject): Completion => {
  const completion = isObject(raw["completion"]) ? raw["completion"] : {}
  const values: ReadonlyArray<unknown> = Array.isArray(completion["values"]) ? completion["values"] : []
  return {
    values: values.flatMap((value) => optionalText(value) ?? []),
    total: optionalNumber(completion["total"]),
    hasMore: completion["hasMore"] === true
  }
}
