/**
 * Failures of a connection to an MCP server.
 *
 * Every operation fails with one `McpError`; what went wrong is its `reason`, a class that holds the facts. Secrets that
 * were configured (environment values, headers, credentials in URLs) never appear in them.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

const TypeId = "~agcore/mcp/McpError" as const

const Optional = <S extends Schema.Top>(schema: S): Schema.optionalKey<S> => Schema.optionalKey(schema)

// A tail or an excerpt reads best on lines of its own.
const quoted = (title: string, text: string | undefined): string =>
  text === undefined || text.trim() === "" ? "" : `\n${title}:\n${text.trimEnd()}`

// =============================================================================
// Reasons: the connection
// =============================================================================

/**
 * The server's process could not be started: no such command, no such directory, or no permission.
 *
 * @category reasons
 * @since 0.1.0
 */
export class SpawnFailed extends Schema.TaggedError<SpawnFailed>("agcore/mcp/McpError/SpawnFailed")("SpawnFailed", {
  /** The command as configured, without its arguments. */
  command: Schema.String,
  /** The `PATH` it was looked for in. */
  path: Optional(Schema.String),
  /** The directory it was to run in. */
  cwd: Optional(Schema.String),
  /** What the system says, for instance "spawn npx ENOENT". */
  detail: Schema.String
}) {
  override get message(): string {
    const where = [
      this.cwd === undefined ? [] : [`in ${this.cwd}`],
      this.path === undefined ? [] : [`with PATH=${this.path}`]
    ].flat().join(" ")
    return `cannot start "${this.command}"${where === "" ? "" : ` ${where}`}: ${this.detail}`
  }
}

/**
 * The server's process ended, or closed its standard input or output, while the connection was in use.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ProcessExited
  extends Schema.TaggedError<ProcessExited>("agcore/mcp/McpError/ProcessExited")("ProcessExited", {
    /** The command line with its secrets redacted. */
    command: Schema.String,
    /** Absent when a signal ended the process, and when it runs on with its input or output closed. */
    exitCode: Optional(Schema.Int),
    signal: Optional(Schema.String),
    /** The last lines the process wrote to standard error. */
    stderr: Schema.String
  })
{
  override get message(): string {
    const how = this.exitCode !== undefined
      ? `exited with code ${this.exitCode}`
      : this.signal !== undefined
      ? `was ended by ${this.signal}`
      : "closed its standard input or output"
    return `"${this.command}" ${how}${quoted("stderr", this.stderr)}`
  }
}

/**
 * The server could not be reached, or the exchange broke on the way.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ConnectionFailed
  extends Schema.TaggedError<ConnectionFailed>("agcore/mcp/McpError/ConnectionFailed")("ConnectionFailed", {
    cause: Schema.Defect()
  })
{
  override get message(): string {
    return `the connection failed: ${String(this.cause)}`
  }
}

/**
 * The connection was closed from this side.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Closed extends Schema.TaggedError<Closed>("agcore/mcp/McpError/Closed")("Closed", {}) {
  override get message(): string {
    return "the connection is closed"
  }
}

/**
 * The server forgot the session. A client starts a new one and sends the request again, once, before anyone sees this.
 *
 * @category reasons
 * @since 0.1.0
 */
export class SessionExpired
  extends Schema.TaggedError<SessionExpired>("agcore/mcp/McpError/SessionExpired")("SessionExpired", {})
{
  override get message(): string {
    return "the server ended the session"
  }
}

/**
 * The HTTP answer was not a success.
 *
 * @category reasons
 * @since 0.1.0
 */
export class HttpStatus extends Schema.TaggedError<HttpStatus>("agcore/mcp/McpError/HttpStatus")("HttpStatus", {
  status: Schema.Int,
  /** The beginning of the body, at most a few hundred characters. */
  body: Schema.String,
  /** What `Retry-After` asks for, in milliseconds. */
  retryAfterMillis: Optional(Schema.Finite),
  /** The JSON-RPC error the body held, if it held one. */
  error: Optional(Schema.Struct({ code: Schema.Finite, message: Schema.String, data: Optional(Schema.Unknown) }))
}) {
  override get message(): string {
    const error = this.error === undefined ? "" : `: ${this.error.message} (code ${this.error.code})`
    return `HTTP status ${this.status}${error}${this.error === undefined ? quoted("body", this.body) : ""}`
  }
}

/**
 * The server wants other credentials: HTTP 401, or 403 with a challenge that says what they lack.
 *
 * Nothing the challenge names was fetched.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unauthorized extends Schema.TaggedError<Unauthorized>("agcore/mcp/McpError/Unauthorized")("Unauthorized", {
  status: Schema.Int,
  /**
   * What `WWW-Authenticate` asks for, in the server's order: `{ scheme: "bearer", params: { scope, error, realm,
   * resource_metadata, ... } }`, schemes and parameter names in lower case.
   */
  challenges: Schema.Array(
    Schema.Struct({ scheme: Schema.String, params: Schema.Record(Schema.String, Schema.String) })
  ),
  /** The beginning of the body, at most a few hundred characters. */
  body: Schema.String
}) {
  override get message(): string {
    const wanted = this.challenges.map(({ params, scheme }) =>
      [scheme, ...["error", "scope"].flatMap((name) => params[name] === undefined ? [] : [`${name}="${params[name]}"`])]
        .join(" ")
    )
    return `not authorized (HTTP status ${this.status}${wanted.length === 0 ? "" : `, wanted: ${wanted.join(", ")}`})${
      quoted("body", this.body)
    }`
  }
}

/**
 * The server redirected to another origin. Following would hand the request's headers and data to it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class RedirectRefused
  extends Schema.TaggedError<RedirectRefused>("agcore/mcp/McpError/RedirectRefused")("RedirectRefused", {
    /** The target without credentials, query and fragment. */
    location: Schema.String
  })
{
  override get message(): string {
    return `the server redirects to another place, which is refused: ${this.location}`
  }
}

// =============================================================================
// Reasons: one request
// =============================================================================

/**
 * The exchange ended and no answer to the request can come any more.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NoAnswer extends Schema.TaggedError<NoAnswer>("agcore/mcp/McpError/NoAnswer")("NoAnswer", {
  method: Schema.String,
  /** What came instead, for instance "HTTP 202" or "the event stream ended". */
  detail: Schema.String,
  /** The beginning of what came instead. */
  body: Optional(Schema.String)
}) {
  override get message(): string {
    return `no answer to ${this.method}: ${this.detail}${quoted("received", this.body)}`
  }
}

/**
 * The deadline of the request passed. The server was told to stop working on it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class TimedOut extends Schema.TaggedError<TimedOut>("agcore/mcp/McpError/TimedOut")("TimedOut", {
  method: Schema.String,
  afterMillis: Schema.Finite
}) {
  override get message(): string {
    return `no answer to ${this.method} within ${this.afterMillis} ms`
  }
}

/**
 * The server answered with a JSON-RPC error.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Refused extends Schema.TaggedError<Refused>("agcore/mcp/McpError/Refused")("Refused", {
  method: Schema.String,
  code: Schema.Finite,
  /** The server's own words, control characters stripped. */
  detail: Schema.String,
  data: Optional(Schema.Unknown)
}) {
  override get message(): string {
    return `the server refused ${this.method}: ${this.detail} (code ${this.code})`
  }
}

/**
 * The server's answer is not what the protocol allows.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidAnswer
  extends Schema.TaggedError<InvalidAnswer>("agcore/mcp/McpError/InvalidAnswer")("InvalidAnswer", {
    method: Schema.String,
    detail: Schema.String,
    /** The answer as it came. */
    answer: Optional(Schema.Unknown)
  })
{
  override get message(): string {
    return `invalid answer to ${this.method}: ${this.detail}`
  }
}

/**
 * The structured content of a tool result does not fit the tool's output schema. The result is kept.
 *
 * @category reasons
 * @since 0.1.0
 */
export class OutputMismatch
  extends Schema.TaggedError<OutputMismatch>("agcore/mcp/McpError/OutputMismatch")("OutputMismatch", {
    tool: Schema.String,
    detail: Schema.String,
    /** The result as the server sent it, with `content` and `structuredContent`. */
    result: Schema.Unknown
  })
{
  override get message(): string {
    return `the result of "${this.tool}" does not fit its output schema: ${this.detail}`
  }
}

/**
 * A documented limit of this client was exceeded.
 *
 * @category reasons
 * @since 0.1.0
 */
export class LimitExceeded
  extends Schema.TaggedError<LimitExceeded>("agcore/mcp/McpError/LimitExceeded")("LimitExceeded", {
    /** The option that sets the limit, for instance `maxMessageBytes`. */
    limit: Schema.String,
    max: Schema.Finite
  })
{
  override get message(): string {
    return `${this.limit} (${this.max}) exceeded`
  }
}

/**
 * Neither side speaks a protocol revision of the other.
 *
 * @category reasons
 * @since 0.1.0
 */
export class VersionMismatch
  extends Schema.TaggedError<VersionMismatch>("agcore/mcp/McpError/VersionMismatch")("VersionMismatch", {
    client: Schema.Array(Schema.String),
    server: Schema.Array(Schema.String)
  })
{
  override get message(): string {
    return `no common protocol version; this client speaks ${this.client.join(", ")}, the server ${
      this.server.length === 0 ? "names none" : this.server.join(", ")
    }`
  }
}

/**
 * The server does not offer what was asked for, or the protocol revision in use has no such request.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NotSupported extends Schema.TaggedError<NotSupported>("agcore/mcp/McpError/NotSupported")("NotSupported", {
  method: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    return `${this.method} is not available: ${this.detail}`
  }
}

const Reason: Schema.Union<[
  typeof SpawnFailed,
  typeof ProcessExited,
  typeof ConnectionFailed,
  typeof Closed,
  typeof SessionExpired,
  typeof HttpStatus,
  typeof Unauthorized,
  typeof RedirectRefused,
  typeof NoAnswer,
  typeof TimedOut,
  typeof Refused,
  typeof InvalidAnswer,
  typeof OutputMismatch,
  typeof LimitExceeded,
  typeof VersionMismatch,
  typeof NotSupported
]> = Schema.Union([
  SpawnFailed,
  ProcessExited,
  ConnectionFailed,
  Closed,
  SessionExpired,
  HttpStatus,
  Unauthorized,
  RedirectRefused,
  NoAnswer,
  TimedOut,
  Refused,
  InvalidAnswer,
  OutputMismatch,
  LimitExceeded,
  VersionMismatch,
  NotSupported
])

/**
 * Why an MCP operation failed.
 *
 * @category models
 * @since 0.1.0
 */
export type McpErrorReason = typeof Reason.Type

// =============================================================================
// Error
// =============================================================================

/**
 * The single failure type of the MCP modules.
 *
 * **Example** (Recovering from one reason)
 *
 * ```ts run
 * import { McpError } from "agcore/mcp"
 * import { Effect } from "effect"
 *
 * const call = Effect.fail(
 *   new McpError.McpError({
 *     server: "files",
 *     reason: new McpError.TimedOut({ method: "tools/call", afterMillis: 30_000 })
 *   })
 * )
 *
 * const text = call.pipe(
 *   Effect.catchReason("McpError", "TimedOut", (reason) => Effect.succeed(`gave up after ${reason.afterMillis} ms`))
 * )
 * Effect.runSync(text) // => "gave up after 30000 ms"
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class McpError extends Schema.TaggedError<McpError>("agcore/mcp/McpError")("McpError", {
  /** The configured name of the server, or its command or URL. */
  server: Schema.String,
  reason: Reason
}) {
  readonly [TypeId] = TypeId

  override readonly cause = this.reason

  override get message(): string {
    return `MCP server "${this.server}": ${this.reason.message}`
  }
}

/**
 * Returns whether a value is an `McpError`.
 *
 * @category guards
 * @since 0.1.0
 */
export const isMcpError = (u: unknown): u is McpError => Predicate.hasProperty(u, TypeId)
