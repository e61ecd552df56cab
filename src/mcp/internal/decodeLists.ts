/**
 * Decoders of what servers list: tools, prompts, resources, resource templates.
 */
import { exceedsDepth } from "../../internal/depth.ts"
import type { Prompt, PromptArgument, Resource, ResourceTemplate, Tool, ToolHints } from "../McpModel.ts"
import {
  decodeItems,
  optionalBoolean,
  optionalName,
  optionalNumber,
  optionalObject,
  optionalString,
  optionalText,
  type Report,
  usableUri
} from "./decode.ts"
import { isObject, type JsonObject } from "./jsonrpc.ts"

export const decodeTools = (items: unknown, report: Report): ReadonlyArray<Tool> =>
  decodeItems("tool", items, decodeTool, (tool) => tool.name, report)

/** Nesting of a tool above which it is left out. */
const MAX_TOOL_DEPTH = 512

/** Objects and lists, and levels of them, that a quick look sees. Nearly every tool has less. */
const QUICK_LOOK_VALUES = 10_000
const QUICK_LOOK_LEVELS = 32

/** Whether a tool plainly nests little. Finding out exactly costs more than all else that is done for it. */
const isShallow = (raw: JsonObject): boolean => lookAt(raw, QUICK_LOOK_LEVELS, QUICK_LOOK_VALUES) >= 0

/** What is left of `values`; less than none when there are more, or more levels. The loops make no garbage. */
const lookAt = (value: unknown, levels: number, values: number): number => {
  if (typeof value !== "object" || value === null) return values
  if (levels === 0) return -1
  let left = values - 1
  if (Array.isArray(value)) {
    for (let at = 0; left >= 0 && at < value.length; at++) left = lookAt(value[at], levels - 1, left)
  } else if (isObject(value)) {
    for (const key in value) if (left >= 0) left = lookAt(value[key], levels - 1, left)
  }
  return left
}

const noSchema: JsonObject = { type: "object" }

const decodeTool = (raw: JsonObject, report: Report): Tool | undefined => {
  const name = optionalName(raw["name"])
  // Whoever writes it as JSON, to compare it or to show it to a model, recurses over it.
  if (name === undefined || (!isShallow(raw) && exceedsDepth(raw, MAX_TOOL_DEPTH))) return undefined
  const annotations = optionalObject(raw["annotations"])
  const { inputSchema, outputSchema } = raw
  if (!isObject(inputSchema)) {
    report({ kind: "repaired-item", message: `tool "${name}" has no input schema; any object is taken for one` })
  }
  return {
    name,
    title: optionalName(raw["title"]) ?? optionalName(annotations?.["title"]),
    description: optionalText(raw["description"]),
    inputSchema: isObject(inputSchema) ? inputSchema : noSchema,
    outputSchema: outputSchema ?? undefined,
    hints: decodeHints(annotations),
    requiresTask: optionalObject(raw["execution"])?.["taskSupport"] === "required",
    raw
  }
}

const decodeHints = (annotations: JsonObject | undefined): ToolHints => ({
  readOnly: optionalBoolean(annotations?.["readOnlyHint"]),
  destructive: optionalBoolean(annotations?.["destructiveHint"]),
  idempotent: optionalBoolean(annotations?.["idempotentHint"]),
  openWorld: optionalBoolean(annotations?.["openWorldHint"])
})

export const decodePrompts = (items: unknown, report: Report): ReadonlyArray<Prompt> =>
  decodeItems("prompt", items, decodePrompt, (prompt) => prompt.name, report)

const decodePrompt = (raw: JsonObject, report: Report): Prompt | undefined => {
  const name = optionalName(raw["name"])
  return name === undefined ? undefined : {
    name,
    title: optionalName(raw["title"]),
    description: optionalText(raw["description"]),
    arguments: decodeItems(`argument of prompt "${name}":`, raw["arguments"], decodeArgument, (a) => a.name, report),
    raw
  }
}

const decodeArgument = (raw: JsonObject): PromptArgument | undefined => {
  const name = optionalName(raw["name"])
  return name === undefined ? undefined : {
    name,
    title: optionalName(raw["title"]),
    description: optionalText(raw["description"]),
    required: raw["required"] === true
  }
}

export const decodeResources = (items: unknown, report: Report): ReadonlyArray<Resource> =>
  decodeItems("resource", items, decodeResource, (resource) => resource.uri, report)

export const decodeResource = (raw: JsonObject): Resource | undefined => {
  const uri = usableUri(raw["uri"])
  return uri === undefined ? undefined : {
    uri,
    name: optionalName(raw["name"]) ?? uri,
    title: optionalName(raw["title"]),
    description: optionalText(raw["description"]),
    mimeType: optionalString(raw["mimeType"]),
    size: optionalNumber(raw["size"]),
    raw
  }
}

export const decodeTemplates = (items: unknown, report: Report): ReadonlyArray<ResourceTemplate> =>
  decodeItems("resource template", items, decodeTemplate, (template) => template.uriTemplate, report)

const decodeTemplate = (raw: JsonObject): ResourceTemplate | undefined => {
  const uriTemplate = usableUri(raw["uriTemplate"])
  return uriTemplate === undefined ? undefined : {
    uriTemplate,
    name: optionalName(raw["name"]) ?? uriTemplate,
    title: optionalName(raw["title"]),
    description: optionalText(raw["description"]),
    mimeType: optionalString(raw["mimeType"]),
    raw
  }
}
