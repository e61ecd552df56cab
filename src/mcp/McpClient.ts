/**
 * Connections to MCP servers.
 *
 * A client is a scoped resource: making it starts the server's process or opens the session and agrees on a protocol
 * revision, closing its Scope ends it, whatever happens in between. All five revisions are spoken, chosen without help. What a
 * server does wrong costs as little as possible: one broken item is left out, one broken answer fails one call, and
 * {@link McpClient.diagnostics} tells of it.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { HttpClient } from "effect/http/HttpClient"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { makeClient } from "./internal/client.ts"
import { MAX_MESSAGE_BYTES } from "./internal/limits.ts"
import { millis } from "./internal/settings.ts"
import type { McpError } from "./McpError.ts"
import type {
  Capabilities,
  Completion,
  Implementation,
  JsonObject,
  LogLevel,
  Notification,
  Progress,
  Prompt,
  PromptResult,
  Resource,
  ResourceContents,
  ResourceTemplate,
  Tool,
  ToolResult
} from "./McpModel.ts"
import type { Diagnostic, Transport } from "./McpTransport.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * A connection to one server.
 *
 * Every operation fails with `McpError`: at once when the server is gone, after its deadline when it is silent (the server is
 * then told to stop), and never waits for ever. Interrupting an operation tells the server as well.
 *
 * @category models
 * @since 0.1.0
 */
export interface McpClient {
  /** The configured name, or the command or URL where none was configured. */
  readonly name: string
  /** The revision in use; a restart may change it. */
  readonly protocolVersion: string
  readonly serverInfo: Implementation | undefined
  /** How the server wants to be used, in its own words. */
  readonly instructions: string | undefined
  readonly capabilities: Capabilities

  /** The tools, from the cache while it is fresh: until the server announces a change, or its or your time is over. */
  readonly listTools: Effect.Effect<ReadonlyArray<Tool>, McpError>
  /** The tools, asked for anew. */
  readonly refreshTools: Effect.Effect<ReadonlyArray<Tool>, McpError>
  /**
   * Calls a tool. A failure the tool reports is a result with `isError`. Structured content is checked against the schema the
   * tool was listed with, if it was listed.
   */
  readonly callTool: (
    name: string,
    args?: JsonObject,
    options?: CallToolOptions
  ) => Effect.Effect<ToolResult, McpError>

  readonly listPrompts: Effect.Effect<ReadonlyArray<Prompt>, McpError>
  /** A prompt with its arguments filled in. */
  readonly getPrompt: (
    name: string,
    args?: Readonly<Record<string, string>>
  ) => Effect.Effect<PromptResult, McpError>

  readonly listResources: Effect.Effect<ReadonlyArray<Resource>, McpError>
  readonly listResourceTemplates: Effect.Effect<ReadonlyArray<ResourceTemplate>, McpError>
  /** The contents of a resource: one, or several where the URI stands for a collection. */
  readonly readResource: (uri: string) => Effect.Effect<ReadonlyArray<ResourceContents>, McpError>
  /** Asks to be told of changes of a resource, by `ResourceUpdated` notifications, as long as the Scope lasts. */
  readonly subscribe: (uri: string) => Effect.Effect<void, McpError, Scope.Scope>

  /** How an argument of a prompt or of a resource template may go on. */
  readonly complete: (request: CompleteRequest) => Effect.Effect<Completion, McpError>
  /** Asks for log messages of this level and above, as `Log` notifications. */
  readonly setLogLevel: (level: LogLevel) => Effect.Effect<void, McpError>
  /** Succeeds when the server answers. */
  readonly ping: Effect.Effect<void, McpError>

  /** What the server tells from now on. A slow reader loses the oldest. */
  readonly notifications: Stream.Stream<Notification>
  /** The latest oddities of the server, oldest first. They are also logged, at debug level. */
  readonly diagnostics: Effect.Effect<ReadonlyArray<Diagnostic>>
}

/**
 * How one call is made.
 *
 * @category options
 * @since 0.1.0
 */
export interface CallToolOptions {
  /** How long the answer may take. Default: the tool's, else the client's. */
  readonly timeout?: Duration.Input | undefined
  /** Told how far the call has come, in order. Events are dropped, never waited for, when it is slow. */
  readonly onProgress?: ((progress: Progress) => Effect.Effect<void>) | undefined
  /** Whether progress starts the time anew. Default: the client's setting. */
  readonly resetTimeoutOnProgress?: boolean | undefined
}

/**
 * What is to be completed.
 *
 * @category models
 * @since 0.1.0
 */
export interface CompleteRequest {
  readonly ref: { readonly prompt: string } | { readonly resourceTemplate: string }
  readonly argument: { readonly name: string; readonly value: string }
  /** Arguments that are settled already. */
  readonly context?: Readonly<Record<string, string>> | undefined
}

/**
 * What every client can be told.
 *
 * @category options
 * @since 0.1.0
 */
export interface ClientOptions {
  /** The name of the server in errors and to its handlers. Default: its command or URL. */
  readonly name?: string | undefined
  /** How this client introduces itself. Default: `agcore`. */
  readonly clientInfo?:
    | {
      readonly name: string
      readonly version: string
      /** A name for people. Default: none. */
      readonly title?: string | undefined
    }
    | undefined
  /** How long one answer may take. Default: 30 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** The same for single tools, by their names. */
  readonly toolTimeouts?: Readonly<Record<string, Duration.Input>> | undefined
  /** Whether progress starts a call's time anew. Default: `false`. */
  readonly resetTimeoutOnProgress?: boolean | undefined
  /** How long a call may take with all its progress. Default: 10 minutes. */
  readonly maxTotalTimeout?: Duration.Input | undefined
  /** How long each step of the handshake may take. Default: 30 seconds. */
  readonly connectTimeout?: Duration.Input | undefined
  /** How long a server may stay silent to the first question before it is taken for an older one. Default: 3 seconds. */
  readonly probeTimeout?: Duration.Input | undefined
  /**
   * `auto` finds out. `legacy` (up to 2025-11-25) and `modern` (from 2026-07-28) skip the question, for a server that is
   * known. Default: `auto`.
   */
  readonly protocol?: "auto" | "legacy" | "modern" | undefined
  /** Whether a server that went away is started again. Calls in flight fail all the same. Default: `false`. */
  readonly restart?: boolean | RestartOptions | undefined
  /** Pages of one list. Default: 100. */
  readonly maxPages?: number | undefined
  /** Items of one list. Default: 10,000. */
  readonly maxItems?: number | undefined
  /** How long lists are kept at most. Default: until the server announces a change. */
  readonly listTtl?: Duration.Input | undefined
  /** Notifications that wait for a slow reader. Default: 256. */
  readonly notificationBacklog?: number | undefined
  /** Whether structured content is checked against the tool's output schema. Default: `true`. */
  readonly validateOutput?: boolean | undefined
}

/**
 * How a server is started again.
 *
 * @category options
 * @since 0.1.0
 */
export interface RestartOptions {
  /** Attempts before it is given up; they are counted anew once it stayed for `maxDelay`. Default: 5. */
  readonly maxAttempts?: number | undefined
  /** The pause before the first attempt; it doubles each time. Default: 500 milliseconds. */
  readonly delay?: Duration.Input | undefined
  /** The longest pause. Default: 30 seconds. */
  readonly maxDelay?: Duration.Input | undefined
}

/**
 * A server that is a child process.
 *
 * @category options
 * @since 0.1.0
 */
export interface StdioOptions extends ClientOptions {
  readonly command: string
  /** What is `Redacted` appears in no error. */
  readonly args?: ReadonlyArray<string | Redacted.Redacted<string>> | undefined
  /**
   * Added to what the process gets by default: HOME, LOGNAME, PATH, SHELL, TERM, USER, TMPDIR and LANG of this process and
   * nothing else of its environment. No value appears in an error. `undefined` takes a variable away.
   */
  readonly env?: Readonly<Record<string, string | Redacted.Redacted<string> | undefined>> | undefined
  /** Where the process starts. Default: where this one runs. */
  readonly cwd?: string | undefined
  /** The longest message the server may send, in bytes. Default: 16 MiB. */
  readonly maxMessageBytes?: number | undefined
  /** How long the process may take to leave when its input ends, and again after SIGTERM. Default: 2 seconds. */
  readonly closeGrace?: Duration.Input | undefined
}

/**
 * A server that is reached by HTTP.
 *
 * @category options
 * @since 0.1.0
 */
export interface HttpOptions extends ClientOptions {
  /** Where the server is. A user and password in it become an `Authorization` header; they and the query appear in no error. */
  readonly url: string | URL
  /** Sent with every request. No value appears in an error; headers the protocol defines are ignored. */
  readonly headers?: Readonly<Record<string, string | Redacted.Redacted<string> | undefined>> | undefined
  /** The longest answer or event the server may send, in bytes. Default: 16 MiB. */
  readonly maxMessageBytes?: number | undefined
  /**
   * How often a request is sent again that the server put off without working on it, with 429, or with 503 and `Retry-After`.
   * Default: 2.
   */
  readonly maxRetries?: number | undefined
  /** A server that asks for a longer pause makes the request fail with `HttpStatus`, which tells it. Default: 10 seconds. */
  readonly maxRetryAfter?: Duration.Input | undefined
  /** Whether the trace context is sent to the server. Default: `false`. */
  readonly propagateTrace?: boolean | undefined
}

// =============================================================================
// Constructors
// =============================================================================

/**
 * Starts a server's process and connects to it.
 *
 * The process has a group of its own, and nothing of that group outlives the Scope: its input is closed, then it gets SIGTERM,
 * then SIGKILL, each after a bounded time. On POSIX systems the group is ended even when this process is killed; a process that
 * leaves its group is out of reach.
 *
 * Fails with `SpawnFailed`, `ProcessExited`, `TimedOut`, `Refused` or `VersionMismatch` when no connection comes about.
 *
 * **Example** (Calling a tool of a server from npm)
 *
 * ```ts run
 * import { NodeServices } from "@effect/platform-node"
 * import { McpClient } from "agcore/mcp"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const client = yield* McpClient.stdio({
 *     name: "everything",
 *     command: "node",
 *     args: ["node_modules/@modelcontextprotocol/server-everything/dist/index.js", "stdio"]
 *   })
 *   const result = yield* client.callTool("echo", { message: "hello" })
 *   return result.content.map((block) => block.type === "text" ? block.text : block.type)
 * }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
 *
 * await Effect.runPromise(program) // => ["Echo: hello"]
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const stdio = (
  options: StdioOptions
): Effect.Effect<McpClient, McpError, Scope.Scope | ChildProcessSpawner> =>
  Effect.promise(loadStdio).pipe(
    Effect.flatMap(({ makeStdio }) =>
      makeStdio({
        command: options.command,
        args: options.args ?? [],
        env: options.env ?? {},
        cwd: options.cwd,
        maxMessageBytes: options.maxMessageBytes ?? MAX_MESSAGE_BYTES,
        closeGraceMillis: millis(options.closeGrace ?? "2 seconds")
      }, options.name)
    ),
    Effect.flatMap((transport) => makeClient(transport, options))
  )

// Loaded by those who use it, as is the other transport: most programs use one of them, or none.
const loadStdio = () => import("./internal/stdio.ts")

/**
 * Connects to a server by HTTP: Streamable HTTP, or the HTTP+SSE of 2024-11-05 where a server knows nothing newer.
 *
 * Redirects are followed inside the origin of the URL and refused beyond it; the `HttpClient` must not follow them by itself
 * (fetch is told not to). A session is ended with the Scope, and begun anew when the server forgot it.
 *
 * A response body can be compressed where the `HttpClient` takes care of it, as fetch does. On Node,
 * `NodeHttpClient.layerUndici` of `@effect/platform-node` takes about two thirds of the CPU that fetch takes for a small call,
 * and it waits: fetch gives up an answer that is silent for five minutes.
 *
 * Fails with `ConnectionFailed`, `HttpStatus`, `Unauthorized`, `RedirectRefused`, `NoAnswer`, `TimedOut`, `Refused` or
 * `VersionMismatch` when no connection comes about.
 *
 * **Example** (Going on without a server that is down)
 *
 * ```ts run
 * import { McpClient } from "agcore/mcp"
 * import { Effect } from "effect"
 * import { FetchHttpClient } from "effect/http"
 *
 * const tools = Effect.gen(function*() {
 *   const client = yield* McpClient.http({ name: "search", url: "http://localhost:1/mcp" })
 *   return yield* client.listTools
 * }).pipe(
 *   Effect.scoped,
 *   Effect.catchReason("McpError", "ConnectionFailed", () => Effect.succeed([])),
 *   Effect.provide(FetchHttpClient.layer)
 * )
 *
 * await Effect.runPromise(tools) // => []
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const http = (
  options: HttpOptions
): Effect.Effect<McpClient, McpError, Scope.Scope | HttpClient> =>
  Effect.promise(loadHttp).pipe(
    Effect.flatMap(({ makeHttp }) =>
      makeHttp({
        url: options.url,
        headers: options.headers ?? {},
        maxMessageBytes: options.maxMessageBytes ?? MAX_MESSAGE_BYTES,
        maxRetries: options.maxRetries ?? 2,
        maxRetryAfterMillis: millis(options.maxRetryAfter ?? "10 seconds"),
        propagateTrace: options.propagateTrace ?? false
      }, options.name)
    ),
    Effect.flatMap((transport) => makeClient(transport, options))
  )

const loadHttp = () => import("./internal/http/http.ts")

/**
 * Connects over a transport of your own.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
  transport: Transport,
  options?: ClientOptions
): Effect.Effect<McpClient, McpError, Scope.Scope> => makeClient(transport, options ?? {})
