/*
 * The body of a request: what effect/ai asks for, in the words of Chat Completions and the habits of the server.
 * https://platform.openai.com/docs/api-reference/chat/create
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Result from "effect/Result"
import { messageOf } from "../../internal/text.ts"
import type { BodyPart } from "../HttpTransport.ts"
import type { Parameters } from "../OpenAiModel.ts"
import type { ProviderProfile } from "../ProviderProfile.ts"
import type { Json } from "./json.ts"
import * as Messages from "./messages.ts"
import * as Schemas from "./schemas.ts"

export interface Options {
  readonly model: string
  readonly profile: ProviderProfile
  readonly parameters: Parameters
  readonly codecTransformer: LanguageModel.CodecTransformer
  readonly memory: Memory
}

/** What was written for earlier requests of a model and holds for the next ones. */
export interface Memory {
  readonly messages: Messages.Memory
  /** Tools live long, and their JSON Schemas cost time. */
  readonly definitions: WeakMap<Tool.Any, string>
  /** The list of the last request: turns of a conversation offer the same tools. */
  last: Offer | undefined
}

/** Tools as they are offered: `text` is a JSON array. */
interface Offer extends BodyPart {
  readonly tools: ReadonlyArray<Tool.Any>
  readonly names: ReadonlySet<string>
}

export const makeMemory = (): Memory => ({
  messages: Messages.makeMemory(),
  definitions: new WeakMap(),
  last: undefined
})

export interface Request {
  readonly body: ReadonlyArray<BodyPart>
  /** The tools that are offered. */
  readonly names: ReadonlySet<string>
}

/**
 * The body is put together of texts and not written as a whole: its messages and tools were mostly in the last request
 * already, and stringifying a thousand tools takes five times as long as sending their text.
 */
export const make = (
  request: LanguageModel.ProviderOptions,
  options: Options,
  streamed: boolean
): Result.Result<Request, AiError.AiErrorReason> => {
  const { memory, model, parameters, profile } = options
  const format = responseFormat(request.responseFormat, options)
  if (Result.isFailure(format)) return Result.fail(format.failure)
  const messages = Messages.fromPrompt(request.prompt, profile, memory.messages)
  if (Result.isFailure(messages)) return Result.fail(messages.failure)
  const offered = offer(request.tools, options)
  if (Result.isFailure(offered)) return Result.fail(offered.failure)

  const { field, instruction } = format.success
  const body = makeBody()
  body.set("model", model)
  body.setJson(
    "messages",
    `[${(instruction === undefined ? messages.success : [system(instruction), ...messages.success]).join(",")}]`
  )
  if (streamed) body.set("stream", true)
  if (streamed && profile.streamUsage) body.set("stream_options", { include_usage: true })
  if (request.tools.length > 0) {
    body.setJson("tools", offered.success)
    body.set("tool_choice", toolChoice(request.toolChoice))
    if (profile.parallelToolCalls) body.set("parallel_tool_calls", parameters.parallelToolCalls)
  }
  if (field !== undefined) body.setJson("response_format", field)
  body.set("temperature", parameters.temperature)
  body.set("top_p", parameters.topP)
  body.set(profile.maxTokensField, parameters.maxTokens)
  body.set("stop", parameters.stop)
  body.set("seed", parameters.seed)
  body.set("reasoning_effort", parameters.reasoningEffort)
  for (const [name, value] of Object.entries(parameters.body ?? {})) body.set(name, value)
  return Result.succeed({ body: body.toParts(), names: offered.success.names })
}

const system = (content: string): string => JSON.stringify({ role: "system", content })

interface Body {
  /** The last value of a field counts; what JSON can't say is not said. */
  readonly set: (name: string, value: Json | undefined) => void
  readonly setJson: (name: string, json: string | BodyPart) => void
  readonly toParts: () => ReadonlyArray<BodyPart>
}

const makeBody = (): Body => {
  const fields = new Map<string, string | BodyPart>()
  return {
    set(name, value) {
      // Its type leaves out that there may be nothing to say.
      const json = JSON.stringify(value) as string | undefined
      if (json === undefined) fields.delete(name)
      else fields.set(name, json)
    },
    setJson: (name, json) => void fields.set(name, json),
    toParts() {
      const parts: Array<BodyPart> = []
      let text = "{"
      let separator = ""
      for (const [name, json] of fields) {
        text += `${separator}${JSON.stringify(name)}:`
        separator = ","
        if (typeof json === "string") {
          text += json
        } else {
          parts.push({ text }, json)
          text = ""
        }
      }
      parts.push({ text: `${text}}` })
      return parts
    }
  }
}

// =============================================================================
// Tools
// =============================================================================

const offer = (
  tools: ReadonlyArray<Tool.Any>,
  { memory, profile }: Options
): Result.Result<Offer, AiError.AiErrorReason> => {
  const { last } = memory
  if (last?.tools === tools) return Result.succeed(last)
  if (last?.tools.length === tools.length && last.tools.every((tool, position) => tool === tools[position])) {
    return Result.succeed(last)
  }
  const texts: Array<string> = []
  for (const tool of tools) {
    const text = memory.definitions.get(tool)
    const made = text === undefined ? definition(tool, profile) : Result.succeed(text)
    if (Result.isFailure(made)) return Result.fail(made.failure)
    memory.definitions.set(tool, made.success)
    texts.push(made.success)
  }
  const offer = { tools, names: new Set(tools.map((tool) => tool.name)), text: `[${texts.join(",")}]` }
  memory.last = offer
  return Result.succeed(offer)
}

const definition = (tool: Tool.Any, profile: ProviderProfile): Result.Result<string, AiError.AiErrorReason> => {
  if (Tool.isProviderDefined(tool)) {
    return Result.fail(
      new AiError.ToolConfigurationError({
        toolName: tool.name,
        description: "Chat Completions has no tools that the provider runs itself"
      })
    )
  }
  return Result.map(schemaOf(() => Tool.getJsonSchema(tool)), (schema) => {
    const dialect = Schemas.toDialect(schema, profile, Tool.getStrictMode(tool))
    return JSON.stringify({
      type: "function",
      function: {
        name: tool.name,
        description: Tool.getDescription(tool),
        parameters: dialect.schema,
        strict: dialect.strict ? true : undefined
      }
    })
  })
}

/** Leaving it out means `auto`. Of `oneOf`, only the named tools are offered in the first place. */
const toolChoice = (choice: LanguageModel.ToolChoice<string>): Json | undefined => {
  if (choice === "auto") return undefined
  if (typeof choice === "string") return choice
  if ("tool" in choice) return named(choice.tool)
  if (choice.mode !== "required") return undefined
  const [only, ...others] = choice.oneOf
  return only !== undefined && others.length === 0 ? named(only) : "required"
}

const named = (name: string): Json => ({ type: "function", function: { name } })

const schemaOf = <A>(make: () => A): Result.Result<A, AiError.UnsupportedSchemaError> =>
  Result.try({
    try: make,
    catch: (cause) => new AiError.UnsupportedSchemaError({ description: messageOf(cause) })
  })

// =============================================================================
// Response format
// =============================================================================

interface Format {
  /** `response_format` as JSON text. */
  readonly field: string | undefined
  /** What has to be said to the model where the API can't. */
  readonly instruction: string | undefined
}

const responseFormat = (
  format: LanguageModel.ProviderOptions["responseFormat"],
  { codecTransformer, profile }: Options
): Result.Result<Format, AiError.UnsupportedSchemaError> => {
  if (format.type === "text") return Result.succeed({ field: undefined, instruction: undefined })
  return Result.map(
    schemaOf(() => Tool.getJsonSchemaFromSchema(format.schema, { transformer: codecTransformer })),
    (schema): Format => {
      if (profile.structuredOutput === "json-object") {
        return {
          field: JSON.stringify({ type: "json_object" }),
          instruction: `Answer with one JSON object that fits this JSON Schema, and nothing else:\n${
            JSON.stringify(schema)
          }`
        }
      }
      const dialect = profile.strictSchemas ? { schema, strict: true } : Schemas.toDialect(schema, profile)
      return {
        field: JSON.stringify({
          type: "json_schema",
          json_schema: {
            name: format.objectName.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64),
            schema: dialect.schema,
            strict: dialect.strict ? true : undefined
          }
        }),
        instruction: undefined
      }
    }
  )
}
