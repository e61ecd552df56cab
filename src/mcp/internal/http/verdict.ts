/**
 * What an HTTP answer means: pure decisions over its status, its headers and the beginning of its body.
 */
import { HttpStatus, type McpErrorReason, SessionExpired, Unauthorized } from "../../McpError.ts"
import { decodeError, ErrorCode, isObject, type JsonRpcErrorObject } from "../jsonrpc.ts"
import { challenges, retryAfterMillis } from "./headers.ts"

/** An answer that is not a success, read as far as it matters. */
export interface Failure {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
  /** Whether the request carried a session id. */
  readonly inSession: boolean
  /** Milliseconds since the epoch, for a `Retry-After` that is a date. */
  readonly now: number
  /** Makes a text of the server fit to be quoted: short, printable, without secrets. */
  readonly quote: (text: string) => string
}

/** A JSON-RPC error that stands in a body. */
const errorIn = (body: string): JsonRpcErrorObject | undefined => {
  if (!/^\s*[[{]/.test(body)) return undefined
  try {
    const value: unknown = JSON.parse(body)
    const first: unknown = Array.isArray(value) ? value[0] : value
    return isObject(first) ? decodeError(first["error"]) : undefined
  } catch {
    return undefined
  }
}

/**
 * A session is over with 404. Servers built like the reference SDK's examples, which forget their sessions when they restart,
 * say it with 400 and "No valid session ID". A 404 about a method is about the method.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
 */
const endsSession = (status: number, error: JsonRpcErrorObject | undefined): boolean =>
  status === 404
    ? error?.code !== ErrorCode.methodNotFound
    : status === 400 && (error?.code === -32000 || error?.code === -32001) && /session/i.test(error.message)

export const failureReason = (failure: Failure): McpErrorReason => {
  const { headers, now, quote, status } = failure
  const error = errorIn(failure.body)
  if (failure.inSession && endsSession(status, error)) return new SessionExpired({})
  const challenge = headers["www-authenticate"]
  if (status === 401 || (status === 403 && challenge !== undefined)) {
    return new Unauthorized({ status, challenges: challenges(challenge), body: quote(failure.body) })
  }
  const retryAfter = retryAfterMillis(headers, now)
  return new HttpStatus({
    status,
    body: quote(failure.body),
    ...retryAfter === undefined ? {} : { retryAfterMillis: retryAfter },
    ...error === undefined ? {} : { error: { ...error, message: quote(error.message) } }
  })
}

/** How failures that pass are waited out. */
export interface RetryPolicy {
  readonly maxRetries: number
  readonly maxRetryAfterMillis: number
}

/**
 * How long to wait before the same request is sent again; `undefined`: it is not.
 *
 * Only for answers that say the request was not worked on, so that a tool never runs twice: 429, and 503 that names a time.
 * A time longer than the policy allows is the caller's to decide about.
 */
export const retryDelay = (reason: McpErrorReason, retries: number, policy: RetryPolicy): number | undefined => {
  if (reason._tag !== "HttpStatus" || retries >= policy.maxRetries) return undefined
  const asked = reason.status === 429
    ? reason.retryAfterMillis ?? 500 * 2 ** retries
    : reason.status === 503
    ? reason.retryAfterMillis
    : undefined
  return asked === undefined || asked > policy.maxRetryAfterMillis ? undefined : asked
}

/** What a redirect leads to. */
export type Redirect =
  | { readonly _tag: "None" }
  | { readonly _tag: "Follow"; readonly url: URL }
  | { readonly _tag: "Refuse"; readonly location: string }

/** Follows of one request. */
const MAX_REDIRECTS = 5

/**
 * Follows a redirect inside the same origin that lets method and body be kept, and refuses another origin: the request's
 * headers and data were meant for this one. A POST answered with 303, which asks for a GET, is not followed.
 */
export const redirectOf = (
  status: number,
  location: string | undefined,
  from: URL,
  method: string,
  followed: number
): Redirect => {
  if (status < 300 || status >= 400 || location === undefined || !URL.canParse(location, from.href)) {
    return { _tag: "None" }
  }
  const url = new URL(location, from)
  if (url.origin !== from.origin) return { _tag: "Refuse", location: publicUrl(url) }
  if (followed >= MAX_REDIRECTS || (status === 303 && method === "POST") || status === 304) return { _tag: "None" }
  url.username = ""
  url.password = ""
  url.hash = ""
  return { _tag: "Follow", url }
}

/** A URL without what may be secret: credentials, query and fragment. */
export const publicUrl = (url: URL): string =>
  url.origin === "null" ? `${url.protocol}//…` : `${url.origin}${url.pathname}`

/** Whether a value that came in the exchange of request `id` ends it, and the value as the connection should see it. */
export const answers = (value: unknown, id: number): { readonly ends: boolean; readonly message: unknown } => {
  if (Array.isArray(value)) {
    // A list in a list is no batch, and its depth is not ours to trust.
    const items = value.map((item) => Array.isArray(item) ? { ends: false, message: item } : answers(item, id))
    return { ends: items.some(({ ends }) => ends), message: items.map(({ message }) => message) }
  }
  if (!isObject(value) || typeof value["method"] === "string") return { ends: false, message: value }
  if (value["id"] === id || value["id"] === String(id)) return { ends: true, message: value }
  // An error that could not be given an id is about the request whose exchange it came in.
  return (value["id"] === undefined || value["id"] === null) && isObject(value["error"])
    ? { ends: true, message: { ...value, id } }
    : { ends: false, message: value }
}
