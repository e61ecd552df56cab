/**
 * The forms and links of a server, decoded, and the answers, completed with defaults and checked.
 */
import * as Result from "effect/Result"
import type { Compile } from "../../internal/schemaCompiler.ts"
import type { Answer, FormRequest, UrlRequest } from "../McpElicitation.ts"
import { optionalObject, optionalString, optionalText } from "./decode.ts"
import { isObject, type JsonObject } from "./jsonrpc.ts"

export type ElicitationRequest =
  | ({ readonly mode: "form" } & FormRequest)
  | ({ readonly mode: "url" } & UrlRequest)
  | { readonly mode: "invalid"; readonly detail: string }

export const decodeElicitation = (server: string, params: JsonObject): ElicitationRequest => {
  const message = optionalText(params["message"]) ?? ""
  switch (params["mode"] ?? "form") {
    case "form": {
      const schema = optionalObject(params["requestedSchema"]) ?? { type: "object", properties: {} }
      return { mode: "form", server, message, schema, defaults: defaultsOf(schema) }
    }
    case "url": {
      const url = optionalString(params["url"])
      if (url === undefined || !isSafeUrl(url)) return { mode: "invalid", detail: "the URL must be https" }
      return { mode: "url", server, message, url, elicitationId: optionalString(params["elicitationId"]) }
    }
    default:
      return { mode: "invalid", detail: "unknown mode" }
  }
}

/** https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation: every primitive may have a default. */
const defaultsOf = (schema: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(optionalObject(schema["properties"]) ?? {}).flatMap(([name, property]) =>
      isObject(property) && property["default"] !== undefined && property["default"] !== null
        ? [[name, property["default"]]]
        : []
    )
  )

/** Only what can be shown and opened safely: `https:`, or `http:` on this machine. */
const isSafeUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { hostname, password, protocol, username } = new URL(text)
  if (username !== "" || password !== "") return false
  return protocol === "https:" ||
    (protocol === "http:" && (hostname === "localhost" || hostname === "[::1]" || /^127(?:\.\d+){3}$/.test(hostname)))
}

/** What goes back to the server, or what is wrong with the answer. */
export const completeAnswer = (
  request: ElicitationRequest,
  answer: Answer,
  compile: Compile
): Result.Result<JsonObject, string> => {
  if (answer._tag !== "Accept") return Result.succeed({ action: answer._tag === "Decline" ? "decline" : "cancel" })
  if (request.mode !== "form") return Result.succeed({ action: "accept" })
  const given = Object.entries(answer.content).filter(([, value]) => value !== undefined)
  const content = { ...request.defaults, ...Object.fromEntries(given) }
  return Result.flatMap(
    // A schema that cannot be compiled cannot be held against anybody.
    Result.succeed(Result.getOrElse(compile(request.schema), () => () => undefined)),
    (validate) => {
      const problem = validate(content)
      return problem === undefined ? Result.succeed({ action: "accept", content }) : Result.fail(problem)
    }
  )
}
