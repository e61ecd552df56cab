/**
 * How a message is written into a request, and what the headers of an answer mean.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ConnectionFailed } from "../../McpError.ts"
import { isObject, type JsonRpcMessage } from "../jsonrpc.ts"
import type { Agreed, Exchange } from "../transport.ts"
import { headerValue, paramHeaders } from "./paramHeaders.ts"

/** The revision that introduced the `MCP-Protocol-Version` header. Revisions are dates and compare as text. */
const FIRST_WITH_VERSION_HEADER = "2025-06-18"

/**
 * `initialize` carries no version: some servers refuse what they do not know yet.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header
 */
export const versionHeaders = (protocol: Agreed | undefined, method?: string): Record<string, string> =>
  protocol === undefined || method === "initialize" || protocol.version < FIRST_WITH_VERSION_HEADER
    ? {}
    : { "mcp-protocol-version": protocol.version }

/** https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata */
export const messageHeaders = (message: JsonRpcMessage, exchange: Exchange): Record<string, string> => {
  if (!("method" in message)) return versionHeaders(exchange.protocol)
  const version = versionHeaders(exchange.protocol, message.method)
  if (exchange.protocol.era === "legacy") return version
  const args = isObject(message.params) ? message.params["arguments"] : undefined
  return {
    ...paramHeaders(exchange.inputSchema, args),
    ...version,
    "mcp-method": message.method,
    ...exchange.name === undefined ? {} : { "mcp-name": headerValue(exchange.name) }
  }
}

/** A message as the body of a request. Arguments are the caller's, and JSON cannot hold everything. */
export const encode = (message: JsonRpcMessage): Effect.Effect<string, ConnectionFailed> =>
  Effect.try({
    try: () => JSON.stringify(message),
    catch: (cause) => new ConnectionFailed({ cause: `the message cannot be written as JSON: ${String(cause)}` })
  })

/** The media type without its parameters, in lower case; empty when there is none. */
export const mediaType = (contentType: string | undefined): string =>
  contentType?.split(";", 1)[0]?.trim().toLowerCase() ?? ""

/** A session id is visible ASCII; anything else could not be sent back. */
export const sessionId = (id: string | undefined): string | undefined =>
  id !== undefined && /^[\x21-\x7e]+$/.test(id) ? id : undefined

/**
 * What `Retry-After` asks for in milliseconds, from `now`; `undefined` when it asks for nothing that can be read.
 *
 * https://datatracker.ietf.org/doc/html/rfc9110#section-10.2.3
 */
export const retryAfterMillis = (
  headers: Readonly<Record<string, string | undefined>>,
  now: number
): number | undefined => {
  const value = headers["retry-after"]?.trim()
  if (value === undefined || value === "") return undefined
  if (/^\d+(\.\d+)?$/.test(value)) return Number(value) * 1000
  const date = DateTime.make(value)
  return Option.isSome(date) ? Math.max(DateTime.toEpochMillis(date.value) - now, 0) : undefined
}

/** One challenge of `WWW-Authenticate`. */
export interface Challenge {
  readonly scheme: string
  readonly params: Readonly<Record<string, string>>
}

/** More than this of a header is not looked at. */
const MAX_CHALLENGE_CHARACTERS = 4096

/**
 * Reads `WWW-Authenticate`, passing over what does not fit its grammar.
 *
 * https://datatracker.ietf.org/doc/html/rfc9110#section-11.6.1
 */
export const challenges = (header: string | undefined): ReadonlyArray<Challenge> => {
  const text = (header ?? "").slice(0, MAX_CHALLENGE_CHARACTERS)
  const param = /([!#$%&'*+\-.^_`|~0-9A-Za-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)(?:"|$)|([^\s",]+))/y
  const scheme = /[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?=\s|,|$)/y
  const token68 = /\s+[A-Za-z0-9\-._~+/]+=*(?=\s*(?:,|$))/y
  const found: Array<{ readonly scheme: string; readonly params: Map<string, string> }> = []
  let at = 0
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const match = pattern.exec(text)
    if (match !== null) at = pattern.lastIndex
    return match
  }
  while (at < text.length) {
    const current = found.at(-1)
    const pair = current === undefined ? null : take(param)
    if (current !== undefined && pair !== null) {
      const name = pair[1]!.toLowerCase()
      const value = pair[3] ?? pair[2]!.replace(/\\(.)/g, "$1")
      // The first one counts: a later one cannot change what was asked for.
      if (!current.params.has(name)) current.params.set(name, value)
      continue
    }
    const name = take(scheme)
    if (name === null) at++
    else {
      found.push({ scheme: name[0].toLowerCase(), params: new Map() })
      take(token68)
    }
  }
  return found.map(({ params, scheme }) => ({ scheme, params: Object.fromEntries(params) }))
}
