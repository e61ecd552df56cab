/*
 * Whether a provider refused a request because it was too long, and what it said
 * about it.
 *
 * There is no common sign: some give a code, most a sentence, and servers that
 * speak Chat Completions pass on the sentence of what runs behind them. Each
 * entry stands beside where it is documented or was reported.
 */
import type * as AiError from "effect/ai/AiError"
import * as Predicate from "effect/Predicate"

/** What a provider said about a request that was too long, in tokens; `undefined` where it did not. */
export interface Overflow {
  readonly limit: number | undefined
  readonly used: number | undefined
}

/** Codes and types of errors that mean this alone. */
const CODES: ReadonlySet<string> = new Set([
  // OpenAI, Azure, Groq: https://platform.openai.com/docs/guides/error-codes
  "context_length_exceeded",
  // llama.cpp: https://github.com/ggml-org/llama.cpp/pull/15780
  "exceed_context_size_error",
  // Z.ai, after Anthropic's stop reason: https://docs.anthropic.com/en/api/handling-stop-reasons
  "model_context_window_exceeded",
  // Anthropic, for more than 32 MB: https://docs.anthropic.com/en/api/errors
  "request_too_large"
])

/** Sentences; groups `limit` and `used` where they say how many tokens. */
const SENTENCES: ReadonlyArray<RegExp> = [
  // OpenAI, Azure, DeepSeek, OpenRouter, vLLM: https://github.com/vllm-project/vllm/issues/20409
  /maximum context length is (?<limit>\d+) tokens[^\d]{0,80}(?<used>\d+)?/,
  /maximum context length/,
  // OpenAI, responses: https://github.com/anomalyco/opencode/issues/6071
  /exceeds? the context window/,
  // Anthropic: https://github.com/stackblitz/bolt.new/issues/1748, https://github.com/docker/docker-agent/issues/569
  /prompt is too long(?:: (?<used>\d+) tokens > (?<limit>\d+))?/,
  /exceed context limit(?:: (?<used>\d+) \+ \d+ > (?<limit>\d+))?/,
  // Gemini: https://github.com/google-gemini/gemini-cli/issues/6678
  /input token count (?:\((?<used>\d+)\) )?exceeds the maximum number of tokens allowed(?: \((?<limit>\d+)\))?/,
  // Bedrock: https://github.com/aws-samples/bedrock-chat/issues/95
  /input is too long for requested model/,
  // Mistral, code 3051: https://docs.mistral.ai/resources/known-limitations
  /prompt contains (?<used>\d+) tokens.{0,40}too large for model with (?<limit>\d+)/,
  // xAI: https://github.com/cline/cline/issues/3120
  /maximum prompt length is (?<limit>\d+)(?: but the request contains (?<used>\d+))?/,
  // Cerebras, Groq: https://github.com/cline/cline/issues/5140
  /reduce the length of the messages(?:.{0,60}current length is (?<used>\d+) while limit is (?<limit>\d+))?/,
  // Moonshot: https://github.com/MoonshotAI/kimi-cli/issues/2011
  /exceeded model token limit(?:: (?<limit>\d+) \(requested: (?<used>\d+)\))?/,
  // Cohere: https://github.com/cohere-ai/sandbox-topically/issues/4
  /total number of tokens.{0,40}cannot exceed (?<limit>\d+)(?: - received (?<used>\d+))?/,
  // llama.cpp: https://github.com/ggml-org/llama.cpp/pull/15780
  /exceeds the available context size/,
  // LM Studio: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/237
  /greater than the context length(?: \(n_keep: (?<used>\d+) ?>= ?n_ctx: (?<limit>\d+)\))?/,
  /trying to keep the first (?<used>\d+) tokens.{0,80}context length of only (?<limit>\d+)/,
  // Ollama, where it does not cut the prompt: https://github.com/ollama/ollama/issues/17889
  /input length exceeds the context length/,
  /prompt too long; exceeded (?:max )?context length/,
  // SGLang: https://github.com/sgl-project/sglang/issues/8096
  /input \((?<used>\d+) tokens\) is longer than the model's context length \((?<limit>\d+) tokens\)/,
  // Text Generation Inference, Together: https://github.com/huggingface/text-generation-inference/issues/628
  /inputs.{0,12}tokens.{0,24}max_new_tokens.{0,24}(?:must be <=|must not exceed) (?<limit>\d+)/,
  // More than a whole minute may have, so that waiting does not help:
  // https://platform.openai.com/docs/guides/rate-limits, https://console.groq.com/docs/rate-limits
  /request too large for .{0,200}limit (?<limit>\d+), requested (?<used>\d+)/
]

/** Numbers that stand beside the sentence. */
const BESIDE: ReadonlyArray<RegExp> = [/"n_ctx": ?(?<limit>\d+)/, /"n_prompt_tokens": ?(?<used>\d+)/]

/** More of an error is not read. */
const MAX_CHARACTERS = 4_000

/** Reasons that a refusal for its length comes under. What is wrong with a key or the content is something else. */
const REASONS: ReadonlySet<AiError.AiErrorReason["_tag"]> = new Set([
  "InvalidRequestError",
  "InternalProviderError",
  "RateLimitError",
  "UnknownError"
])

/** What was said, if the request was refused for its length. */
export const readOverflow = ({ reason }: AiError.AiError): Overflow | undefined => {
  if (!REASONS.has(reason._tag)) return undefined
  const words = wordsOf("metadata" in reason ? reason.metadata : undefined, 0)
  const texts = [
    ..."description" in reason && reason.description !== undefined ? [reason.description] : [],
    ..."http" in reason && reason.http?.body !== undefined ? [reason.http.body] : [],
    ...words
  ].map((text) => text.slice(0, MAX_CHARACTERS).toLowerCase())
  const matches = texts.flatMap((text) => SENTENCES.map((sentence) => sentence.exec(text)).filter(Predicate.isNotNull))
  // A code may also be all that is left of a body that was quoted.
  const isCoded = texts.some((text) => CODES.has(text) || Array.from(CODES).some((code) => text.includes(`"${code}"`)))
  if (matches.length === 0 && !isCoded) return undefined
  const beside = texts.flatMap((text) => BESIDE.map((number) => number.exec(text)).filter(Predicate.isNotNull))
  const find = (name: keyof Overflow): number | undefined => {
    const found = [...matches, ...beside].find((match) => match.groups?.[name] !== undefined)?.groups?.[name]
    return found === undefined || Number(found) === 0 ? undefined : Number(found)
  }
  return { limit: find("limit"), used: find("used") }
}

export const isContextLengthError = (error: AiError.AiError): boolean => readOverflow(error) !== undefined

// Providers put their own record of an error under their name, some at the top.
const wordsOf = (value: unknown, depth: number): ReadonlyArray<string> => {
  if (typeof value === "string") return [value]
  return depth < 3 && Predicate.isObject(value)
    ? Object.values(value).flatMap((each) => wordsOf(each, depth + 1))
    : []
}
