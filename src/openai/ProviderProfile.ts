/**
 * What differs between servers that speak OpenAI's Chat Completions.
 *
 * A profile is plain data. Start from the preset that is nearest and change what is different:
 * `{ ...ProviderProfile.vllm, structuredOutput: "json-object" }`.
 *
 * @since 0.1.0
 */

// =============================================================================
// Models
// =============================================================================

/**
 * The habits of one server: what it must be sent, what it rejects, and how its answers end.
 *
 * @category models
 * @since 0.1.0
 */
export interface ProviderProfile {
  /** `gen_ai.provider.name` of the spans, and the name used in errors. */
  readonly name: string
  /** Whether a request without an API key fails before it is sent. */
  readonly requiresApiKey: boolean
  /** The header the key travels in: `Authorization: Bearer …` or `api-key: …`. */
  readonly apiKeyHeader: "authorization" | "api-key"
  /** The body field that limits the length of an answer. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens"
  /** Whether a streamed request may ask for usage with `stream_options`; Mistral answers 422 to it. */
  readonly streamUsage: boolean
  /** Whether a request that offers tools may be streamed. Otherwise its answer arrives at once, as the same parts. */
  readonly streamTools: boolean
  /** Whether `parallel_tool_calls` is known. */
  readonly parallelToolCalls: boolean
  /**
   * Whether schemas may be sent with `strict: true`. A tool whose schema strict mode can't express (optional
   * properties, open objects, unsupported keywords) is sent without it.
   */
  readonly strictSchemas: boolean
  /** `"gemini"` rewrites schemas into the subset Gemini reads: no references, `const`, type lists or `oneOf`. */
  readonly schemaDialect: "json-schema" | "gemini"
  /** How a JSON answer is asked for; `"json-object"` also puts the schema into the prompt. */
  readonly structuredOutput: "json-schema" | "json-object"
  /** The `content` of an assistant message that only calls tools. */
  readonly emptyContent: "null" | "empty" | "omit"
  /**
   * The tool call ids the server accepts. Others are rewritten, the same way in the call and in its result: `"short"`
   * allows 40 characters of `A-Z a-z 0-9 _ -`, `"nine-alphanumerics"` is Mistral's rule.
   */
  readonly callIds: "any" | "short" | "nine-alphanumerics"
  /**
   * How arguments that are not a JSON object are replayed in the history: as the model wrote them, or inside
   * `{"invalid_arguments": "…"}` for servers that parse them and would reject the whole conversation.
   */
  readonly invalidArguments: "verbatim" | "wrapped"
  /**
   * When reasoning is sent back: never, in the messages since the last user message (the tool loop in progress), or in
   * every message. Some servers reject a tool loop without it, others reject the field.
   */
  readonly reasoningReplay: "never" | "tool-loop" | "always"
  /** The message field reasoning is sent back in; the field it came in if absent. */
  readonly reasoningField?: "reasoning_content" | "reasoning"
  /** Whether fields of a tool call that no specification names (Gemini's thought signature) are sent back. */
  readonly unknownFields: boolean
  /** Images in tool results: in a user message after the results, or left out with a note. */
  readonly toolImages: "user-message" | "omit"
  /** What a stream that ends with `[DONE]` but no finish reason is: cut off, or complete. */
  readonly missingFinish: "incomplete" | "stop"
}

// =============================================================================
// Presets
// =============================================================================

/**
 * The default for a server nobody described: asks for nothing unusual and sends nothing a strict parser rejects.
 *
 * @category presets
 * @since 0.1.0
 */
export const tolerant: ProviderProfile = {
  name: "openai-compatible",
  requiresApiKey: false,
  apiKeyHeader: "authorization",
  maxTokensField: "max_tokens",
  streamUsage: true,
  streamTools: true,
  parallelToolCalls: true,
  strictSchemas: false,
  schemaDialect: "json-schema",
  structuredOutput: "json-schema",
  emptyContent: "empty",
  callIds: "any",
  invalidArguments: "wrapped",
  reasoningReplay: "never",
  unknownFields: true,
  toolImages: "user-message",
  missingFinish: "incomplete"
}

/**
 * OpenAI. https://platform.openai.com/docs/api-reference/chat
 *
 * @category presets
 * @since 0.1.0
 */
export const openai: ProviderProfile = {
  ...tolerant,
  name: "openai",
  requiresApiKey: true,
  maxTokensField: "max_completion_tokens",
  strictSchemas: true,
  emptyContent: "null",
  callIds: "short",
  invalidArguments: "verbatim",
  unknownFields: false
}

/**
 * Azure OpenAI, with its `/openai/v1` base URL or one that names a deployment.
 * https://learn.microsoft.com/azure/ai-foundry/openai/reference
 *
 * @category presets
 * @since 0.1.0
 */
export const azure: ProviderProfile = {
  ...openai,
  name: "azure.ai.openai",
  apiKeyHeader: "api-key"
}

/**
 * OpenRouter. https://openrouter.ai/docs/api-reference/overview
 *
 * @category presets
 * @since 0.1.0
 */
export const openRouter: ProviderProfile = {
  ...tolerant,
  name: "openrouter",
  requiresApiKey: true,
  emptyContent: "null",
  reasoningReplay: "tool-loop",
  reasoningField: "reasoning"
}

/**
 * Groq, which rejects messages with reasoning in them. https://console.groq.com/docs/openai
 *
 * @category presets
 * @since 0.1.0
 */
export const groq: ProviderProfile = {
  ...tolerant,
  name: "groq",
  requiresApiKey: true,
  maxTokensField: "max_completion_tokens",
  emptyContent: "null",
  unknownFields: false
}

/**
 * DeepSeek, which wants its reasoning back while a tool loop goes on. https://api-docs.deepseek.com
 *
 * @category presets
 * @since 0.1.0
 */
export const deepSeek: ProviderProfile = {
  ...tolerant,
  name: "deepseek",
  requiresApiKey: true,
  parallelToolCalls: false,
  structuredOutput: "json-object",
  reasoningReplay: "tool-loop",
  reasoningField: "reasoning_content",
  unknownFields: false,
  toolImages: "omit"
}

/**
 * Mistral, which allows no user message right after a tool result. https://docs.mistral.ai/api
 *
 * @category presets
 * @since 0.1.0
 */
export const mistral: ProviderProfile = {
  ...tolerant,
  name: "mistral_ai",
  requiresApiKey: true,
  streamUsage: false,
  callIds: "nine-alphanumerics",
  unknownFields: false,
  toolImages: "omit"
}

/**
 * Google's Gemini through its OpenAI-compatible endpoint. https://ai.google.dev/gemini-api/docs/openai
 *
 * @category presets
 * @since 0.1.0
 */
export const gemini: ProviderProfile = {
  ...tolerant,
  name: "gcp.gemini",
  requiresApiKey: true,
  parallelToolCalls: false,
  schemaDialect: "gemini",
  emptyContent: "omit"
}

/**
 * Together, which rejects messages with reasoning in them. https://docs.together.ai/docs/openai-api-compatibility
 *
 * @category presets
 * @since 0.1.0
 */
export const together: ProviderProfile = {
  ...tolerant,
  name: "together",
  requiresApiKey: true,
  parallelToolCalls: false,
  unknownFields: false
}

/**
 * vLLM. https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
 *
 * @category presets
 * @since 0.1.0
 */
export const vllm: ProviderProfile = {
  ...tolerant,
  name: "vllm",
  reasoningReplay: "tool-loop"
}

/**
 * llama.cpp's server. https://github.com/ggml-org/llama.cpp/tree/master/tools/server
 *
 * @category presets
 * @since 0.1.0
 */
export const llamaCpp: ProviderProfile = {
  ...tolerant,
  name: "llama.cpp",
  reasoningReplay: "tool-loop",
  reasoningField: "reasoning_content"
}

/**
 * Ollama. https://docs.ollama.com/openai
 *
 * @category presets
 * @since 0.1.0
 */
export const ollama: ProviderProfile = {
  ...tolerant,
  name: "ollama",
  parallelToolCalls: false,
  reasoningReplay: "tool-loop",
  reasoningField: "reasoning"
}

/**
 * LM Studio. https://lmstudio.ai/docs/developer/openai-compat
 *
 * @category presets
 * @since 0.1.0
 */
export const lmStudio: ProviderProfile = {
  ...tolerant,
  name: "lmstudio",
  parallelToolCalls: false
}

// =============================================================================
// Constructors
// =============================================================================

const byHost: ReadonlyArray<readonly [suffix: string, profile: ProviderProfile]> = [
  ["api.openai.com", openai],
  ["openai.azure.com", azure],
  ["services.ai.azure.com", azure],
  ["cognitiveservices.azure.com", azure],
  ["openrouter.ai", openRouter],
  ["api.groq.com", groq],
  ["api.deepseek.com", deepSeek],
  ["api.mistral.ai", mistral],
  ["generativelanguage.googleapis.com", gemini],
  ["api.together.xyz", together],
  ["api.together.ai", together]
]

const byPort: Readonly<Record<string, ProviderProfile>> = {
  "11434": ollama,
  "1234": lmStudio
}

/**
 * Chooses the preset a base URL plainly belongs to, by host or by a port only one server uses.
 *
 * Everything else, port 8000 and 8080 included, gets {@link tolerant}: name `vllm` or `llamaCpp` yourself.
 *
 * **Example** (Choosing a profile by URL)
 *
 * ```ts run
 * import { ProviderProfile } from "agcore/openai"
 *
 * ProviderProfile.fromBaseUrl("https://api.mistral.ai/v1").name // => "mistral_ai"
 * ProviderProfile.fromBaseUrl("http://localhost:11434/v1").name // => "ollama"
 * ProviderProfile.fromBaseUrl("https://models.example.com/v1").name // => "openai-compatible"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromBaseUrl = (baseUrl: string): ProviderProfile => {
  if (!URL.canParse(baseUrl)) return tolerant
  const { hostname, port } = new URL(baseUrl)
  const known = byHost.find(([suffix]) => hostname === suffix || hostname.endsWith(`.${suffix}`))
  return known?.[1] ?? byPort[port] ?? tolerant
}
