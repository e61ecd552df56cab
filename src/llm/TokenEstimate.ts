/**
 * How many tokens messages and tools come to, without asking anybody.
 *
 * A guess from the characters, corrected by what the provider reports: exact
 * counts need the tokenizer of the very model, and some providers publish none.
 * Each message and each tool is looked at once; what it comes to is remembered
 * as long as the object lives.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import type { Definition } from "../tools/Tool.ts"
import { tokensOfText } from "./internal/compactText.ts"

// =============================================================================
// Constants
// =============================================================================

/**
 * What a message comes to besides its content: its role and its borders. OpenAI
 * counts 3, with a name 4.
 * https://github.com/openai/openai-cookbook/blob/main/examples/How_to_count_tokens_with_tiktoken.ipynb
 *
 * @category constants
 * @since 0.1.0
 */
export const tokensPerMessage: number = 4

/**
 * What a tool call, and its result, comes to besides name, arguments and value.
 *
 * @category constants
 * @since 0.1.0
 */
export const tokensPerCall: number = 8

/**
 * What a tool comes to besides its name, description and schema.
 *
 * @category constants
 * @since 0.1.0
 */
export const tokensPerTool: number = 12

/**
 * What an image comes to, whatever its size: providers scale it first. One of
 * 1024 × 1024 pixels is about 1,100 to 1,500 tokens at most of them.
 *
 * @category constants
 * @since 0.1.0
 */
export const tokensPerImage: number = 1_500

/**
 * How many bytes of a document or a sound are one token. Their real cost depends
 * on pages and seconds, which are not known here.
 *
 * @category constants
 * @since 0.1.0
 */
export const bytesPerToken: number = 64

// =============================================================================
// Estimates
// =============================================================================

/**
 * How many tokens a text comes to.
 *
 * In English, source code, JSON, CSV and logs the guess is within a quarter of
 * what OpenAI's encodings give. For other scripts it lies between the older
 * encoding and the newer.
 *
 * **Example** (A sentence and a row of numbers)
 *
 * ```ts run
 * import { TokenEstimate } from "agcore"
 *
 * TokenEstimate.ofText("The quick brown fox jumps over the lazy dog.") // => 10
 * TokenEstimate.ofText("3.14159, 2.71828, 1.41421") // => 16
 * ```
 *
 * @category destructors
 * @since 0.1.0
 */
export const ofText = (text: string): number => tokensOfText(text)

/**
 * How many tokens a message comes to.
 *
 * **Example** (A result that is much larger than the question)
 *
 * ```ts run
 * import { TokenEstimate } from "agcore"
 * import { Prompt } from "effect/ai"
 *
 * const [question, call, result] = Prompt.make([
 *   { role: "user", content: "What is in the file?" },
 *   { role: "assistant", content: [{ type: "tool-call", id: "1", name: "read", params: { path: "a.txt" } }] },
 *   {
 *     role: "tool",
 *     content: [{ type: "tool-result", id: "1", name: "read", isFailure: false, result: "word ".repeat(1_000) }]
 *   }
 * ]).content.map(TokenEstimate.ofMessage)
 *
 * question // => 10
 * call // => 21
 * result // => 1013
 * ```
 *
 * @category destructors
 * @since 0.1.0
 */
export const ofMessage = (message: Prompt.Message): number => {
  const known = messageTokens.get(message)
  if (known !== undefined) return known
  const tokens = tokensPerMessage + contentTokens(message)
  messageTokens.set(message, tokens)
  return tokens
}

/**
 * How many tokens messages come to.
 *
 * @category destructors
 * @since 0.1.0
 */
export const ofMessages = (messages: ReadonlyArray<Prompt.Message>): number =>
  messages.reduce((sum, message) => sum + ofMessage(message), 0)

/**
 * How many tokens the definitions of tools come to: a request carries all that
 * it offers.
 *
 * @category destructors
 * @since 0.1.0
 */
export const ofTools = (definitions: ReadonlyArray<Definition>): number =>
  definitions.reduce((sum, definition) => sum + ofTool(definition), 0)

// =============================================================================
// Calibration
// =============================================================================

/**
 * What a provider's reports have taught about a model: its tokens for each token
 * of the estimate.
 *
 * @category models
 * @since 0.1.0
 */
export interface Calibration {
  /** Multiplies an estimate. Between 0.5 and 3. */
  readonly ratio: number
  /** How many reports it rests on. */
  readonly reports: number
}

/**
 * Nothing is known yet: estimates are taken as they are.
 *
 * @category constructors
 * @since 0.1.0
 */
export const uncalibrated: Calibration = { ratio: 1, reports: 0 }

const MIN_RATIO = 0.5
const MAX_RATIO = 3
/** Below it, what a provider adds to each request outweighs what was asked. */
const MIN_ESTIMATED = 300
/** How much of the way down one report leads. */
const FALL = 0.3

/**
 * Learns from one request: what was estimated for it, and what the provider
 * reports as its input tokens.
 *
 * The first report is taken at its word. After it the ratio rises at once and
 * falls slowly: an estimate that is too high compacts too early, one that is too
 * low makes a request fail. Reports about small requests and impossible ones
 * teach nothing.
 *
 * **Example** (A model whose tokens are smaller)
 *
 * ```ts run
 * import { TokenEstimate } from "agcore"
 *
 * const first = TokenEstimate.calibrate(TokenEstimate.uncalibrated, { estimated: 1_000, reported: 1_200 })
 * first.ratio // => 1.2
 * TokenEstimate.calibrate(first, { estimated: 1_000, reported: 1_100 }).ratio.toFixed(2) // => "1.17"
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const calibrate = (self: Calibration, request: {
  /** Tokens, not corrected by a ratio. */
  readonly estimated: number
  /** Input tokens. */
  readonly reported: number
}): Calibration => {
  const { estimated, reported } = request
  if (!(estimated >= MIN_ESTIMATED) || !(reported > 0) || !Number.isFinite(reported)) return self
  const seen = Math.min(MAX_RATIO, Math.max(MIN_RATIO, reported / estimated))
  const reports = self.reports + 1
  return seen >= self.ratio || self.reports === 0
    ? { ratio: seen, reports }
    : { ratio: self.ratio + (seen - self.ratio) * FALL, reports }
}

// =============================================================================
// Internals
// =============================================================================

// By identity: messages and definitions do not change, and most of them are the
// same objects from one request to the next.
const messageTokens = new WeakMap<Prompt.Message, number>()
const toolTokens = new WeakMap<Definition, number>()

const ofTool = (definition: Definition): number => {
  const known = toolTokens.get(definition)
  if (known !== undefined) return known
  const { description, inputSchema, name } = definition
  const tokens = tokensPerTool + tokensOfText(name) + tokensOfText(description) + ofJson(inputSchema)
  toolTokens.set(definition, tokens)
  return tokens
}

const contentTokens = (message: Prompt.Message): number => {
  if (message.role === "system") return tokensOfText(message.content)
  let tokens = 0
  for (const part of message.content) tokens += ofPart(part)
  return tokens
}

type AnyPart = Exclude<Prompt.Message, Prompt.SystemMessage>["content"][number]

const ofPart = (part: AnyPart): number => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return tokensOfText(part.text)
    case "file":
      return ofFile(part)
    case "tool-call":
      return tokensPerCall + tokensOfText(part.name) + ofJson(part.params)
    case "tool-result":
      return tokensPerCall + tokensOfText(part.name) +
        (part.modelOutput === undefined
          ? ofJson(part.result)
          : part.modelOutput.reduce((sum, shown) => sum + ofPart(shown), 0))
    // Never sent.
    case "tool-approval-request":
    case "tool-approval-response":
      return 0
  }
}

const ofFile = ({ data, mediaType }: Prompt.FilePart): number => {
  if (mediaType.startsWith("image/") || data instanceof URL) return tokensPerImage
  // Text in a string is base64 as other data is: four characters for three bytes.
  const bytes = typeof data === "string" ? data.length * 0.75 : data.byteLength
  return Math.ceil(mediaType.startsWith("text/") ? bytes / 4 : Math.max(tokensPerImage, bytes / bytesPerToken))
}

const ofJson = (value: unknown): number => tokensOfText(typeof value === "string" ? value : toJson(value))

const toJson = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? ""
  } catch {
    // No JSON: it will not be sent either.
    return ""
  }
}
