/*
 * A prompt as the `messages` of a request, in JSON text.
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

/** What one message of a prompt becomes: the JSON texts of its messages, and images that have to follow them. */
interface Written {
  readonly texts: ReadonlyArray<string>
  readonly images: ReadonlyArray<Prompt.FilePart>
}

/**
 * Messages that were written before. A conversation grows at its end and keeps the messages it has, so of a long one
 * only the last few are written for each request.
 */
export interface Memory {
  readonly plain: WeakMap<Prompt.Message, Written>
  /** Those that replay reasoning; whether a message does changes with its place. */
  readonly replaying: WeakMap<Prompt.Message, Written>
}

export const makeMemory = (): Memory => ({ plain: new WeakMap(), replaying: new WeakMap() })

/** The longest text that is kept, in characters: what holds files is written anew, not held twice. */
const MAX_KEPT_CHARACTERS = 64 * 1024

/** The messages of a request, each as JSON text. */
export const fromPrompt = (
  prompt: Prompt.Prompt,
  profile: ProviderProfile,
  memory: Memory
): Result.Result<ReadonlyArray<string>, AiError.InvalidUserInputError> => {
  const texts: Array<string> = []
  const lastUser = prompt.content.findLastIndex((message) => message.role === "user")
  // The results of one turn stand together, right after their calls; images in them follow as one user message.
  let images: Array<Prompt.FilePart> = []
  let failure: AiError.InvalidUserInputError | undefined
  const showImages = (): void => {
    if (images.length === 0) return
    const shown = Result.map(Result.all(images.map(Content.file)), writeImages)
    if (Result.isFailure(shown)) failure ??= shown.failure
    else texts.push(shown.success)
    images = []
  }

  for (const [position, message] of prompt.content.entries()) {
    if (message.role !== "tool") showImages()
    const replays = profile.reasoningReplay === "always" ||
      (profile.reasoningReplay === "tool-loop" && position > lastUser)
    const written = recall(message, profile, replays, replays ? memory.replaying : memory.plain)
    if (Result.isFailure(written)) return Result.fail(written.failure)
    for (const text of written.success.texts) texts.push(text)
    for (const image of written.success.images) images.push(image)
  }
  showImages()
  return failure === undefined ? Result.succeed(texts) : Result.fail(failure)
}

/** A message as it was written before, or now. */
const recall = (
  message: Prompt.Message,
  profile: ProviderProfile,
  replays: boolean,
  kept: Memory["plain"]
): Result.Result<Written, AiError.InvalidUserInputError> => {
  const known = kept.get(message)
  if (known !== undefined) return Result.succeed(known)
  const written = write(message, profile, replays)
  if (Result.isSuccess(written) && written.success.texts.every((text) => text.length <= MAX_KEPT_CHARACTERS)) {
    kept.set(message, written.success)
  }
  return written
}

const NO_IMAGES: ReadonlyArray<Prompt.FilePart> = []

const write = (
  message: Prompt.Message,
  profile: ProviderProfile,
  replays: boolean
): Result.Result<Written, AiError.InvalidUserInputError> => {
  switch (message.role) {
    case "system":
      return Result.succeed(one({ role: "system", content: message.content }))
    case "user":
      return Result.map(Content.user(message.content), (content) => one({ role: "user", content }))
    case "assistant": {
      const assistant = fromAssistant(message, profile, replays)
      return Result.succeed(assistant === undefined ? { texts: [], images: NO_IMAGES } : one(assistant))
    }
    case "tool": {
      const results = message.content.filter((part) => part.type === "tool-result").filter((part) =>
        !part.providerExecuted
      )
      return Result.succeed({
        texts: results.map((part) =>
          JSON.stringify({
            role: "tool",
            tool_call_id: CallIds.rewrite(part.id, profile.callIds),
            content: resultText(part, profile)
          })
        ),
        images: profile.toolImages === "user-message"
          ? results.flatMap((part) => Content.images(part.modelOutput ?? []))
          : NO_IMAGES
      })
    }
  }
}

const one = (message: Json.Json): Written => ({ texts: [JSON.stringify(message)], images: NO_IMAGES })

const writeImages = (images: ReadonlyArray<Json.Json>): string =>
  JSON.stringify({
    role: "user",
    content: [Content.text("Images from the tool results above, in order:"), ...images]
  })

/** What the provider ran by itself, and files the model made, have no place in this API and are left out. */
const fromAssistant = (
  message: Prompt.AssistantMessage,
  profile: ProviderProfile,
  replays: boolean
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
