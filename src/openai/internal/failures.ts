/*
 * Every way a request can fail, as the `AiError` a program can act on.
 *
 * All failures of one request are made here, from what is known about the request, so that each can say which URL and
 * model it was about, and so that no secret leaves through a message: text from a server or from the network stack goes
 * through `scrub` first.
 */
import * as AiError from "effect/ai/AiError"
import * as ByteSize from "effect/ByteSize"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { excerpt } from "../../internal/text.ts"
import type { Head } from "../HttpTransport.ts"
import * as Json from "./json.ts"

/** How much of a server's text an error quotes. */
const MAX_QUOTED_CHARACTERS = 500

/** Headers worth keeping in an error; none of them holds a secret. */
const KEPT_HEADERS = ["content-type", "retry-after", "retry-after-ms", "x-request-id", "server"]

export interface Request {
  readonly method: "generateText" | "streamText"
  readonly model: string
  /** As configured; may hold credentials or a query. */
  readonly baseUrl: string
  readonly hasKey: boolean
  /** What must not appear in any text. */
  readonly secrets: ReadonlyArray<string>
}

/** An HTTP answer whose body has been read. */
interface Answer extends Head {
  readonly body: string
}

export interface Failures {
  readonly missingKey: (provider: string) => AiError.AiError
  readonly unusableHeader: (name: string) => AiError.AiError
  readonly invalidBaseUrl: () => AiError.AiError
  /** The request was not sent, or its answer did not begin. */
  readonly unreachable: (cause: unknown) => AiError.AiError
  /** Limits are in milliseconds. */
  readonly noFirstByte: (limit: number) => AiError.AiError
  readonly silent: (limit: number) => AiError.AiError
  readonly cut: (cause: unknown) => AiError.AiError
  /** The limit is in bytes. */
  readonly tooLarge: (what: string, limit: number) => AiError.AiError
  /** The status is not a success. */
  readonly status: (answer: Answer, now: DateTime.DateTime) => AiError.AiError
  /** A success, but neither an event stream nor JSON. */
  readonly unexpectedContent: (answer: Answer, streamed: boolean) => AiError.AiError
  /** The server reports an error where an answer was due. */
  readonly reported: (error: Json.Json) => AiError.AiError
  readonly notJson: (text: string) => AiError.AiError
  readonly empty: () => AiError.AiError
  readonly namelessCall: () => AiError.AiError
  readonly unknownTool: (name: string, available: Iterable<string>) => AiError.AiError
  /** A reason that is already known. */
  readonly because: (reason: AiError.AiErrorReason) => AiError.AiError
}

export const make = (request: Request): Failures => {
  const baseUrl = publicUrl(request.baseUrl)
  const url = `${baseUrl.replace(/\/$/, "")}/chat/completions`

  const scrub = (text: string): string =>
    request.secrets.reduce((clean, secret) => clean.split(secret).join("<redacted>"), text)

  const quote = (text: string): string => excerpt(scrub(text).replace(/\s+/g, " ").trim(), MAX_QUOTED_CHARACTERS)

  const because = (reason: AiError.AiErrorReason): AiError.AiError =>
    AiError.make({ module: "OpenAiModel", method: request.method, reason })

  const network = (description: string, cause?: unknown): AiError.AiError => {
    const root = rootCause(cause)
    return because(
      new AiError.NetworkError({
        reason: "TransportError",
        method: "POST",
        url,
        description,
        // What went wrong inside is kept, unless it quotes a secret.
        ...(root instanceof Error && scrub(String(root)) === String(root) ? { cause: root } : undefined)
      })
    )
  }

  const invalidResponse = (description: string, http?: typeof AiError.HttpContext.Type): AiError.AiError =>
    because(new AiError.InvalidResponseError({ description, ...(http === undefined ? undefined : { http }) }))

  const httpContext = (answer: Answer): typeof AiError.HttpContext.Type => ({
    response: { status: answer.status, headers: keptHeaders(answer, scrub) },
    body: quote(answer.body)
  })

  return {
    because,
    missingKey: (provider) =>
      because(
        new AiError.AuthenticationError({
          kind: "MissingKey",
          description: `${provider} at ${baseUrl} needs an API key: pass apiKey to OpenAiModel.layer, or use ` +
            `OpenAiModel.layerConfig with OPENAI_API_KEY set`
        })
      ),
    unusableHeader: (name) =>
      because(
        new AiError.AuthenticationError({
          kind: "InvalidKey",
          description: `the value for the ${name} header holds characters a header can't, such as a line break`
        })
      ),
    invalidBaseUrl: () =>
      because(
        new AiError.NetworkError({
          reason: "InvalidUrlError",
          method: "POST",
          url: baseUrl,
          description:
            "the base URL must be an http(s) URL without user and password, such as https://api.openai.com/v1"
        })
      ),
    unreachable: (cause) => network(`cannot reach ${url}: ${quote(describe(rootCause(cause)))}`, cause),
    noFirstByte: (limit) =>
      network(
        `no answer began within ${Duration.format(Duration.millis(limit))} (firstByteTimeout): the request timed out`
      ),
    silent: (limit) =>
      network(
        `the server sent nothing for ${Duration.format(Duration.millis(limit))} (idleTimeout): the response timed out`
      ),
    cut: (cause) =>
      network(`connection cut before the response was complete: ${quote(describe(rootCause(cause)))}`, cause),
    tooLarge: (what, limit) => invalidResponse(`the ${what} is larger than ${ByteSize.format(ByteSize.bytes(limit))}`),
    status(answer, now) {
      const report = readReport(Json.parse(answer.body))
      const reason = statusReason(request, baseUrl, {
        status: answer.status,
        said: report.message === undefined ? quote(answer.body) : quote(report.message),
        report,
        retryAfter: retryAfter(answer, now),
        location: answer.header("location") ?? undefined
      })
      return because(reason(httpContext(answer)))
    },
    unexpectedContent: (answer, streamed) =>
      invalidResponse(
        `${url} answered with ${answer.header("content-type") ?? "no content type"}, which is ` +
          `${
            streamed ? "not an event stream" : "not JSON"
          }. Is ${baseUrl} the base URL of the API (many end in /v1), ` +
          `and is no proxy or login page in between? It begins: ${quote(answer.body)}`,
        httpContext(answer)
      ),
    reported(error) {
      const report = readReport(error)
      const reason = statusReason(request, baseUrl, {
        status: reportedStatus(report),
        said: quote(report.message ?? Json.write(error)),
        report,
        retryAfter: undefined,
        location: undefined
      })
      return because(reason(undefined))
    },
    notJson: (text) => invalidResponse(`what must be a JSON object is not one (bad-json): ${quote(text)}`),
    empty: () =>
      because(new AiError.InternalProviderError({ description: `${url} ended its response before it said anything` })),
    namelessCall: () =>
      because(new AiError.InvalidOutputError({ description: "the model called a tool without naming it" })),
    unknownTool: (toolName, available) =>
      because(new AiError.ToolNotFoundError({ toolName, availableTools: Array.from(available) }))
  }
}

// =============================================================================
// Reports: what a server says about an error
// =============================================================================

interface Report {
  readonly message: string | undefined
  readonly code: string | undefined
  readonly type: string | undefined
  readonly param: string | undefined
}

/**
 * Servers report as `{ error: { message, type, code, param } }`, `{ error: "…" }`, `{ message }`, `{ detail }`
 * (FastAPI), or any of these in a list (Gemini).
 */
const readReport = (value: Json.Json | undefined): Report => {
  const outer = Array.isArray(value) ? Json.object(Json.array(value)[0]) : value
  if (typeof outer === "string") return { message: outer, code: undefined, type: undefined, param: undefined }
  const error = Json.object(outer)?.["error"]
  const fields = Json.object(error) ?? Json.object(outer) ?? {}
  const detail = fields["detail"]
  return {
    message: Json.text(fields["message"]) ?? Json.text(error) ??
      (detail === undefined || detail === null ? undefined : Json.text(detail) ?? Json.write(detail)),
    code: word(fields["code"]),
    type: word(fields["type"]) ?? word(fields["status"]),
    param: Json.text(fields["param"])
  }
}

const word = (value: Json.Json | undefined): string | undefined =>
  typeof value === "number" ? String(value) : Json.text(value)

const statusByWord: ReadonlyArray<readonly [RegExp, number]> = [
  [/^[45]\d\d$/, 0],
  [/quota|balance|billing/i, 402],
  [/rate_?limit|too_many|resource_exhausted/i, 429],
  [/auth|api_?key/i, 401],
  [/permission|forbidden/i, 403],
  [/not_?found/i, 404],
  [/invalid_?request|invalid_?argument|bad_?request|content_filter|context_length/i, 400]
]

/** The HTTP status an error inside a successful answer would have had; 500 where it does not say. */
const reportedStatus = (report: Report): number => {
  for (const [pattern, status] of statusByWord) {
    const match = [report.code, report.type].find((text) => text !== undefined && pattern.test(text))
    if (match !== undefined) return status === 0 ? Number(match) : status
  }
  return 500
}

// =============================================================================
// Reasons
// =============================================================================

interface Circumstances {
  readonly status: number
  readonly said: string
  readonly report: Report
  readonly retryAfter: Duration.Duration | undefined
  readonly location: string | undefined
}

type ToReason = (http: typeof AiError.HttpContext.Type | undefined) => AiError.AiErrorReason

/** https://platform.openai.com/docs/guides/error-codes */
const statusReason = (
  request: Request,
  baseUrl: string,
  { location, report, retryAfter, said, status }: Circumstances
): ToReason =>
(http) => {
  const words = `${report.code ?? ""} ${report.type ?? ""}`
  const common = {
    metadata: {
      openai: Object.fromEntries(
        Object.entries({ code: report.code, type: report.type, param: report.param, message: said })
          .filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "")
      )
    },
    ...(http === undefined ? undefined : { http })
  }
  const described = { ...common, description: said }
  const invalid = (description: string) =>
    new AiError.InvalidRequestError({
      ...common,
      description,
      ...(report.param === undefined ? undefined : { parameter: report.param })
    })

  if (status === 402 || (status === 429 && /insufficient_quota|billing|balance/i.test(words))) {
    return new AiError.QuotaExhaustedError(common)
  }
  switch (status) {
    case 401:
      return new AiError.AuthenticationError({ ...described, kind: request.hasKey ? "InvalidKey" : "MissingKey" })
    case 403:
      return new AiError.AuthenticationError({ ...described, kind: "InsufficientPermissions" })
    case 404:
    case 405:
      return invalid(
        `${said}. Neither the model "${request.model}" nor the path could be found at ${baseUrl}: check the model's ` +
          `name, and that the base URL is right (many end in /v1)`
      )
    case 429:
      return new AiError.RateLimitError({ ...common, ...(retryAfter === undefined ? undefined : { retryAfter }) })
    case 503:
    case 529:
      // Overloaded, and saying until when: only this reason can carry the time.
      if (retryAfter !== undefined) return new AiError.RateLimitError({ ...common, retryAfter })
  }
  // The request may succeed as it is: it timed out at the server, or collided with another.
  if (status === 408 || status === 409 || status >= 500) {
    return new AiError.InternalProviderError({ ...common, description: `HTTP ${status}: ${said}` })
  }
  if (/content_filter|content_policy/i.test(words)) return new AiError.ContentPolicyError(described)
  if (status < 400) {
    return invalid(
      `HTTP ${status}: ${baseUrl} redirects to ${publicUrl(location ?? "", baseUrl)}; use the base URL of that, ` +
        `a redirect is not followed so that the API key reaches only the server it was meant for`
    )
  }
  return invalid(`HTTP ${status}: ${said}`)
}

// =============================================================================
// Headers and causes
// =============================================================================

/** Seconds, an HTTP date, or OpenAI's milliseconds. https://www.rfc-editor.org/rfc/rfc9110#field.retry-after */
const retryAfter = ({ header }: Head, now: DateTime.DateTime): Duration.Duration | undefined => {
  const millis = header("retry-after-ms")?.trim()
  if (millis !== undefined && /^\d+(\.\d+)?$/.test(millis)) return Duration.millis(Number(millis))
  const value = header("retry-after")?.trim()
  if (value === undefined || value === "") return undefined
  if (/^\d+(\.\d+)?$/.test(value)) return Duration.seconds(Number(value))
  return Option.getOrUndefined(
    Option.map(
      DateTime.make(value),
      (at) => Duration.millis(Math.max(0, DateTime.toEpochMillis(at) - DateTime.toEpochMillis(now)))
    )
  )
}

const keptHeaders = ({ header }: Head, scrub: (text: string) => string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    KEPT_HEADERS.flatMap((name) => {
      const value = header(name)
      return value === null ? [] : [[name, scrub(value)]]
    })
  )

/** A URL without what may be secret in it: user, password, query and fragment. */
const publicUrl = (url: string, base?: string): string => {
  if (!URL.canParse(url, base)) return "(not a URL)"
  const { host, pathname, protocol } = new URL(url, base)
  return `${protocol}//${host}${pathname}`
}

/** `fetch` and the SDK wrap what happened in errors that only say that something did. */
const rootCause = (cause: unknown): unknown =>
  cause instanceof Error && cause.cause !== undefined ? rootCause(cause.cause) : cause

const describe = (cause: unknown): string => {
  if (!(cause instanceof Error)) return String(cause)
  if (cause.message !== "") return cause.message
  // Trying several addresses gives an AggregateError, whose message is empty.
  return "code" in cause && typeof cause.code === "string" ? cause.code : cause.name
}
