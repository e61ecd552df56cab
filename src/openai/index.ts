/**
 * A `LanguageModel` over OpenAI's Chat Completions, for OpenAI and the servers that speak its protocol.
 *
 * @since 0.1.0
 */

/**
 * @since 0.1.0
 */
export * as HttpTransport from "./HttpTransport.ts"

/**
 * @since 0.1.0
 */
export * as OpenAiModel from "./OpenAiModel.ts"

/**
 * @since 0.1.0
 */
export * as ProviderProfile from "./ProviderProfile.ts"
