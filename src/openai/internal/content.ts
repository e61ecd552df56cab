/*
 * Text, images, sounds and documents as content parts of a user message.
 * https://platform.openai.com/docs/api-reference/chat/create
 */
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import * as Json from "./json.ts"

export type Content = Result.Result<Json.Json, AiError.InvalidUserInputError>

/**
 * The content of a user message. Text alone is sent as a string, which every server takes; lists are for those that
 * know files.
 */
export const user = (parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>): Content =>
  parts.every((part) => part.type === "text")
    ? Result.succeed(parts.map((part) => part.text).join("\n"))
    : Result.all(parts.map((part) => part.type === "text" ? Result.succeed(text(part.text)) : file(part)))

export const text = (content: string): Json.Json => ({ type: "text", text: content })

/** The images among some parts. */
export const images = (parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>): ReadonlyArray<Prompt.FilePart> =>
  parts.filter((part) => part.type === "file").filter(isImage)

const isImage = (part: Prompt.FilePart): boolean => part.mediaType.startsWith("image/")

export const file = (part: Prompt.FilePart): Content => {
  const own = Json.object(part.options["openai"])
  const fileId = Json.text(own?.["fileId"])
  const imageDetail = Json.text(own?.["imageDetail"])
  if (isImage(part)) {
    return Result.succeed({
      type: "image_url",
      image_url: { url: url(part), ...(imageDetail === undefined ? undefined : { detail: imageDetail }) }
    })
  }
  if (fileId !== undefined) return Result.succeed({ type: "file", file: { file_id: fileId } })
  const data = url(part)
  if (!data.startsWith("data:")) {
    return unsupported(`${part.mediaType} by URL: Chat Completions takes only images by URL, pass the bytes`)
  }
  if (!part.mediaType.startsWith("audio/")) {
    return Result.succeed({ type: "file", file: { filename: part.fileName ?? "file", file_data: data } })
  }
  const format = audioFormats.get(part.mediaType)
  return format === undefined
    ? unsupported(`${part.mediaType}: Chat Completions takes audio/wav and audio/mpeg`)
    : Result.succeed({ type: "input_audio", input_audio: { data: data.slice(data.indexOf(",") + 1), format } })
}

const audioFormats = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/wave", "wav"],
  ["audio/mpeg", "mp3"],
  ["audio/mp3", "mp3"]
])

/** Where the data is: a web address, or a `data:` URL that holds it. */
const url = ({ data, mediaType }: Prompt.FilePart): string => {
  if (data instanceof URL) return data.href
  if (typeof data === "string" && /^(data:|https?:\/\/)/i.test(data)) return data
  const type = mediaType === "image/*" ? "image/jpeg" : mediaType
  return `data:${type};base64,${typeof data === "string" ? data : Base64.encode(data)}`
}

const unsupported = (what: string): Content =>
  Result.fail(new AiError.InvalidUserInputError({ description: `cannot send ${what}` }))
