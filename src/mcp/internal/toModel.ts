/**
 * A server's answer to a call, as a tool's output: what the application gets, and what the model is shown.
 */
import * as Prompt from "effect/ai/Prompt"
import type * as Schema from "effect/Schema"
import * as ToolError from "../../tools/ToolError.ts"
import * as ToolOutput from "../../tools/ToolOutput.ts"
import type { McpError } from "../McpError.ts"
import type { ContentBlock, JsonObject, ToolResult } from "../McpModel.ts"
import { remoteError } from "./negotiate.ts"

/**
 * The value is the structured content, or the text where text is all there is, or the content as it came. A model is shown
 * blocks that are no text beside the text.
 */
export const toToolOutput = (result: ToolResult): ToolOutput.Final<Schema.Json> => {
  const texts = result.content.flatMap((block) => block.type === "text" ? [block.text] : [])
  const isText = texts.length === result.content.length
  return ToolOutput.final(
    // JSON from the wire; the type of `structuredContent` is as open as the protocol.
    (result.structuredContent ?? (isText ? texts.join("\n") : result.content.map((block) => block.raw))) as Schema.Json,
    { isFailure: result.isError, modelOutput: isText ? undefined : result.content.map(toPart) }
  )
}

const toPart = (block: ContentBlock): Prompt.ToolModelOutputPart => {
  switch (block.type) {
    case "text":
      return text(block.text)
    case "image":
    case "audio":
      return file(block.mimeType, block.data)
    case "resource": {
      const { resource } = block
      return resource.type === "text"
        ? text(`${resource.uri}\n${resource.text}`)
        : file(resource.mimeType ?? "application/octet-stream", resource.blob, resource.uri)
    }
    case "resource_link":
      return text([`${block.name}: ${block.uri}`, block.description].filter((line) => line !== undefined).join("\n"))
    case "other":
      return text(JSON.stringify(block.raw))
  }
}

const text = (content: string) => Prompt.makePart("text", { text: content })

const file = (mediaType: string, data: string, fileName?: string) =>
  Prompt.makePart("file", { mediaType, data, ...(fileName === undefined ? undefined : { fileName }) })

/** JSON-RPC's code for arguments a server refuses, which servers before 2025-11-25 answer with. */
const INVALID_PARAMS = -32602

/** What went wrong with a call, in the terms of tools. */
export const toToolReason = (error: McpError, args: JsonObject): ToolError.ToolErrorReason => {
  const { reason, server } = error
  const remote = remoteError(reason)
  if (remote?.code === INVALID_PARAMS) return new ToolError.InvalidArguments({ issue: remote.message, input: args })
  switch (reason._tag) {
    case "TimedOut":
      return new ToolError.McpTimeout({ server, timeoutMillis: reason.afterMillis })
    case "Closed":
      return new ToolError.McpNotInitialized({ server })
    default:
      return new ToolError.McpError({
        server,
        description: reason.message,
        cause: error,
        ...(remote === undefined ? undefined : { code: remote.code }),
        ...(remote?.data === undefined ? undefined : { data: remote.data })
      })
  }
}
