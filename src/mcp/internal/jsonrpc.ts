/**
 * The JSON-RPC 2.0 messages of MCP.
 *
 * What is sent has exact types. What is received is judged by {@link classify}, which accepts whatever intent is plain: a
 * missing `jsonrpc`, an id that came back as a string, `null` beside the member that counts.
 */

/** A request of this client. Its ids are numbers, so an answer that gives them back as strings is still matched. */
export interface JsonRpcRequest {
  readonly jsonrpc: "2.0"
  readonly id: number
  readonly method: string
  readonly params?: JsonObject
}

export interface JsonRpcNotification {
  readonly jsonrpc: "2.0"
  readonly method: string
  readonly params?: JsonObject
}

export interface JsonRpcErrorObject {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/** An answer to a server's request: its id goes back exactly as it came. */
export type JsonRpcResponse =
  | { readonly jsonrpc: "2.0"; readonly id: string | number; readonly result: unknown }
  | { readonly jsonrpc: "2.0"; readonly id: string | number; readonly error: JsonRpcErrorObject }

export type JsonRpcMessage = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse

/** An object of JSON values. */
export type JsonObject = { readonly [key: string]: unknown }

/** https://www.jsonrpc.org/specification#error_object and the codes MCP adds in its 2026-07-28 revision. */
export const ErrorCode = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  headerMismatch: -32020,
  missingClientCapability: -32021,
  unsupportedVersion: -32022,
  urlElicitationRequired: -32042
} as const

/** What an incoming value is. */
export type Incoming =
  | { readonly _tag: "Result"; readonly id: number; readonly result: unknown }
  | { readonly _tag: "Failure"; readonly id: number; readonly error: JsonRpcErrorObject }
  /** It answers the request `id`, but not in a way that can be used. */
  | { readonly _tag: "Malformed"; readonly id: number; readonly detail: string }
  | { readonly _tag: "Request"; readonly id: string | number; readonly method: string; readonly params: JsonObject }
  | { readonly _tag: "Notification"; readonly method: string; readonly params: JsonObject }
  /** It answers something, but does not say what. */
  | { readonly _tag: "Unaddressed"; readonly error: JsonRpcErrorObject | undefined }
  | { readonly _tag: "Noise" }

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const noParams: JsonObject = {}

/** The id of one of our requests, also when a server gives it back as a string. Nothing else is turned into a number. */
export const ownId = (id: unknown): number | undefined => {
  if (typeof id === "number") return id
  if (typeof id !== "string" || id.trim() === "") return undefined
  const number = Number(id)
  return Number.isSafeInteger(number) ? number : undefined
}

/** A JSON-RPC error object, as far as its intent is plain. */
export const decodeError = (error: unknown): JsonRpcErrorObject | undefined => {
  if (!isObject(error)) return undefined
  const code = typeof error["code"] === "string" ? Number(error["code"]) : error["code"]
  if (typeof code !== "number" || !Number.isFinite(code)) return undefined
  const message = typeof error["message"] === "string" ? error["message"] : ""
  return error["data"] === undefined || error["data"] === null
    ? { code, message }
    : { code, message, data: error["data"] }
}

export const classify = (value: unknown): Incoming => {
  if (!isObject(value)) return { _tag: "Noise" }
  const { error, id, method, params, result } = value
  // A request holds no answer: what holds one answers, whatever else it says.
  const answers = ownId(id) !== undefined && ((result !== undefined && result !== null) || isObject(error))
  if (typeof method === "string" && !answers) {
    const given = isObject(params) ? params : noParams
    return typeof id === "string" || typeof id === "number"
      ? { _tag: "Request", id, method, params: given }
      : { _tag: "Notification", method, params: given }
  }
  const own = ownId(id)
  if (own === undefined) {
    return (error === undefined || error === null) && result === undefined
      ? { _tag: "Noise" }
      : { _tag: "Unaddressed", error: decodeError(error) }
  }
  const hasError = error !== undefined && error !== null
  if (hasError) {
    if (result !== undefined && result !== null) {
      return { _tag: "Malformed", id: own, detail: "both a result and an error" }
    }
    const decoded = decodeError(error)
    return decoded === undefined
      ? { _tag: "Malformed", id: own, detail: "an error without a numeric code" }
      : { _tag: "Failure", id: own, error: decoded }
  }
  return result === undefined
    ? { _tag: "Malformed", id: own, detail: "neither a result nor an error" }
    : { _tag: "Result", id: own, result }
}
