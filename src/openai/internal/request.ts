/*
 * The body of a request: what effect/ai asks for, in the words of Chat Completions and the habits of the server.
 * https://platform.openai.com/docs/api-reference/chat/create
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Result from "effect/Result"
import { messageOf } from "../../internal/text.ts"
import type { Parameters } from "../OpenAiModel.ts"
import type { ProviderProfile } from "../ProviderProfile.ts"
import type { Body } from "./client.ts"
import type { Json } from "./json.ts"
import * as Messages from "./messages.ts"
import * as Schemas from "./schemas.ts"

export interface Options {
  readonly model: string
  readonly profile: ProviderProfile
  readonly parameters: Parameters
  readonly codecTransformer: LanguageModel.CodecTransformer
  /** Definitions already made: tools live long, their JSON Schemas cost time. */
  readonly definitions: WeakMap<Tool.Any, Json>
}

export const make = (
  request: LanguageModel.ProviderOptions,
  options: Options,
  streamed: boolean
): Result.Result<Body, AiError.AiErrorReason> =>
  Result.gen(function*() {
    const { parameters, profile } = options
    const format = yield* responseFormat(request.responseFormat, options)
    const messages = yield* Messages.fromPrompt(request.prompt, profile)
    const tools: Array<Json> = []
    for (const tool of request.tools) tools.push(yield* definition(tool, options))
    return defined({
      model: options.model,
      messages: format.instruction === undefined
        ? messages
        : [{ role: "system", content: format.instruction }, ...messages],
      ...(streamed ? { stream: true } : undefined),
      ...(streamed && profile.streamUsage ? { stream_options: { include_usage: true } } : undefined),
      ...(tools.length > 0 ? toolFields(tools, request, options) : undefined),
      response_format: format.field,
      temperature: parameters.temperature,
      top_p: parameters.topP,
      [profile.maxTokensField]: parameters.maxTokens,
      stop: parameters.stop,
      seed: parameters.seed,
      reasoning_effort: parameters.reasoningEffort,
      ...parameters.body
    })
  })

const defined = (fields: Readonly<Record<string, Json | undefined>>): Body =>
  Object.fromEntries(Object.entries(fields).filter((field): field is [string, Json] => field[1] !== undefined))

// =============================================================================
// Tools
// =============================================================================

const toolFields = (
  tools: ReadonlyArray<Json>,
  request: LanguageModel.ProviderOptions,
  { parameters, profile }: Options
): Readonly<Record<string, Json | undefined>> => ({
  tools,
  tool_choice: toolChoice(request.toolChoice),
  parallel_tool_calls: profile.parallelToolCalls ? parameters.parallelToolCalls : undefined
})

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

const definition = (tool: Tool.Any, options: Options): Result.Result<Json, AiError.AiErrorReason> => {
  const known = options.definitions.get(tool)
  if (known !== undefined) return Result.succeed(known)
  if (Tool.isProviderDefined(tool)) {
    return Result.fail(
      new AiError.ToolConfigurationError({
        toolName: tool.name,
        description: "Chat Completions has no tools that the provider runs itself"
      })
    )
  }
  return Result.map(schemaOf(() => Tool.getJsonSchema(tool)), (schema) => {
    const dialect = Schemas.toDialect(schema, options.profile, Tool.getStrictMode(tool))
    const made: Json = {
      type: "function",
      function: defined({
        name: tool.name,
        description: Tool.getDescription(tool),
        parameters: toJson(dialect.schema),
        strict: dialect.strict ? true : undefined
      })
    }
    options.definitions.set(tool, made)
    return made
  })
}

const schemaOf = <A>(make: () => A): Result.Result<A, AiError.UnsupportedSchemaError> =>
  Result.try({
    try: make,
    catch: (cause) => new AiError.UnsupportedSchemaError({ description: messageOf(cause) })
  })

// What effect/ai gives as JSON Schema is JSON; its type says so less exactly.
const toJson = (schema: Schemas.Dialect["schema"]): Json => schema as Json

// =============================================================================
// Response format
// =============================================================================

interface Format {
  readonly field: Json | undefined
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
          field: { type: "json_object" },
          instruction: `Answer with one JSON object that fits this JSON Schema, and nothing else:\n${
            JSON.stringify(schema)
          }`
        }
      }
      const dialect = profile.strictSchemas ? { schema, strict: true } : Schemas.toDialect(schema, profile)
      return {
        field: {
          type: "json_schema",
          json_schema: defined({
            name: format.objectName.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64),
            schema: toJson(dialect.schema),
            strict: dialect.strict ? true : undefined
          })
        },
        instruction: undefined
      }
    }
  )
}
