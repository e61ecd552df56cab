/*
 * A prompt as the `messages` of a request.
 * https://platform.openai.com/docs/api-reference/chat/create
 */
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type { ProviderProfile } from "../ProviderProfile.ts"
import * as CallIds from "./callIds.ts"
import * as Content from "./content.ts"
import * as Json from "./json.ts"

export const fromPrompt = (
  prompt: Prompt.Prompt,
  profile: ProviderProfile
): Result.Result<ReadonlyArray<Json.Json>, AiError.InvalidUserInputError> =>
  Result.gen(function*() {
    const messages: Array<Json.Json> = []
    const lastUser = prompt.content.findLastIndex((message) => message.role === "user")
    // The results of one turn stand together, right after their calls; images in them follow as one user message.
    let images: Array<Prompt.FilePart> = []
    const showImages = function*(): Generator<Content.Content, void, Json.Json> {
      if (images.length === 0) return
      const parts: Array<Json.Json> = [Content.text("Images from the tool results above, in order:")]
      for (const image of images) parts.push(yield* Content.file(image))
      messages.push({ role: "user", content: parts })
      images = []
    }

    for (const [position, message] of prompt.content.entries()) {
      if (message.role !== "tool") yield* showImages()
      switch (message.role) {
        case "system":
          messages.push({ role: "system", content: message.content })
          break
        case "user":
          messages.push({ role: "user", content: yield* Content.user(message.content) })
          break
        case "assistant": {
          const assistant = fromAssistant(message, profile, position > lastUser)
          if (assistant !== undefined) messages.push(assistant)
          break
        }
        case "tool":
          for (const part of message.content) {
            if (part.type !== "tool-result" || part.providerExecuted) continue
            messages.push({
              role: "tool",
              tool_call_id: CallIds.rewrite(part.id, profile.callIds),
              content: resultText(part, profile)
            })
            if (profile.toolImages === "user-message") images.push(...Content.images(part.modelOutput ?? []))
          }
      }
    }
    yield* showImages()
    return messages
  })

/** What the provider ran by itself, and files the model made, have no place in this API and are left out. */
const fromAssistant = (
  message: Prompt.AssistantMessage,
  profile: ProviderProfile,
  inToolLoop: boolean
): Json.JsonObject | undefined => {
  const text: Array<string> = []
  const reasoning: Array<Prompt.ReasoningPart> = []
  const calls: Array<Json.Json> = []
  for (const part of message.content) {
    if (part.type === "text") text.push(part.text)
    if (part.type === "reasoning") reasoning.push(part)
    if (part.type === "tool-call" && !part.providerExecuted) calls.push(fromCall(part, profile))
  }
  const content = text.join("")
  if (content === "" && calls.length === 0) return undefined
  const replays = profile.reasoningReplay === "always" || (profile.reasoningReplay === "tool-loop" && inToolLoop)
  return {
    role: "assistant",
    ...(content === "" ? emptyContent[profile.emptyContent] : { content }),
    ...(replays && reasoning.length > 0 ? fromReasoning(reasoning, profile) : undefined),
    ...(calls.length > 0 ? { tool_calls: calls } : undefined)
  }
}

const emptyContent = { null: { content: null }, empty: { content: "" }, omit: {} } as const

const fromCall = (part: Prompt.ToolCallPart, profile: ProviderProfile): Json.Json => ({
  id: CallIds.rewrite(part.id, profile.callIds),
  type: "function",
  function: { name: part.name, arguments: argumentsText(part.params, profile) },
  ...(profile.unknownFields ? Json.object(Json.object(part.options["openai"])?.["unknown"]) : undefined)
})

const argumentsText = (params: unknown, profile: ProviderProfile): string => {
  if (Predicate.isObject(params)) return JSON.stringify(params)
  const text = typeof params === "string" ? params : JSON.stringify(params) ?? ""
  return profile.invalidArguments === "verbatim" ? text : JSON.stringify({ invalid_arguments: text })
}

const fromReasoning = (parts: ReadonlyArray<Prompt.ReasoningPart>, profile: ProviderProfile): Json.JsonObject => {
  const came = parts.map((part) => Json.object(part.options["openai"])).filter(Predicate.isNotUndefined)
  const text = parts.map((part) => part.text).join("")
  const details = came.flatMap((options) => Json.array(options["details"]))
  return {
    ...(text === ""
      ? undefined
      : { [profile.reasoningField ?? Json.text(came[0]?.["field"]) ?? "reasoning_content"]: text }),
    ...(details.length > 0 && profile.unknownFields ? { reasoning_details: details } : undefined)
  }
}

/** A string, which every server takes: what the tool chose to show the model, or its result as JSON. */
const resultText = ({ modelOutput, result }: Prompt.ToolResultPart, profile: ProviderProfile): string => {
  if (modelOutput === undefined) return typeof result === "string" ? result : JSON.stringify(result) ?? "null"
  const shown = profile.toolImages === "user-message" ? Content.images(modelOutput) : []
  return modelOutput.map((part) =>
    part.type === "file" && shown.includes(part)
      ? `[${part.mediaType} below]`
      : Prompt.toolModelOutputToText([part])
  ).join("\n")
}
