/**
 * Which servers an application uses: a value, or an `mcp.json` file in the shape other programs read too.
 *
 * ```json
 * {
 *   "mcpServers": {
 *     "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"] },
 *     "search": { "type": "http", "url": "https://mcp.example.com", "headers": { "Authorization": "Bearer ${SEARCH_TOKEN}" } }
 *   }
 * }
 * ```
 *
 * `${NAME}` is replaced by the environment's variable, `${NAME:-text}` by the text where the variable is not set. What other
 * programs keep in the file beside these fields is passed over.
 *
 * @since 0.1.0
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { Permission } from "../tools/Permission.ts"
import { lineAt, lineOf } from "./internal/jsonLine.ts"
import type { HttpOptions, StdioOptions } from "./McpClient.ts"
import type { RegisterOptions } from "./McpTools.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * How one server is reached, and how its tools are registered.
 *
 * @category models
 * @since 0.1.0
 */
export type Server = (({ readonly type: "stdio" } & StdioOptions) | ({ readonly type: "http" } & HttpOptions)) & {
  /** Whether the server is left out. Default `false`. */
  readonly disabled?: boolean | undefined
  /** How its tools are registered. Default: see {@link RegisterOptions}. */
  readonly tools?: RegisterOptions | undefined
}

/**
 * Servers by name. The name prefixes their tools.
 *
 * @category models
 * @since 0.1.0
 */
export type McpConfig = Readonly<Record<string, Server>>

/**
 * A file that cannot be used. `path` leads to the value that is wrong, `line` is where it stands, counted from 1; 0 where the
 * file could not be read.
 *
 * @category errors
 * @since 0.1.0
 */
export class McpConfigError
  extends Schema.TaggedError<McpConfigError>("agcore/mcp/McpConfig/McpConfigError")("McpConfigError", {
    file: Schema.String,
    line: Schema.Int,
    path: Schema.Array(Schema.String),
    detail: Schema.String
  })
{
  override get message(): string {
    const place = this.line === 0 ? this.file : `${this.file}:${this.line}`
    return `${place}: ${this.path.length === 0 ? "" : `${this.path.join(".")}: `}${this.detail}`
  }
}

// =============================================================================
// Constructors
// =============================================================================

/**
 * Reads the text of an `mcp.json`; `file` is its name in errors.
 *
 * **Example** (A mistake is told with its place)
 *
 * ```ts run
 * import { McpConfig } from "agcore/mcp"
 * import { Effect } from "effect"
 *
 * const text = `{
 *   "mcpServers": {
 *     "files": { "command": 7 }
 *   }
 * }`
 *
 * const error = await Effect.runPromise(Effect.flip(McpConfig.parse(text, "mcp.json")))
 * error.message // => "mcp.json:3: mcpServers.files.command: Expected string"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const parse: (text: string, file?: string) => Effect.Effect<McpConfig, McpConfigError> = Effect.fnUntraced(
  function*(text, file = "mcp.json") {
    const json = yield* Effect.fromResult(parseJson(text, file))
    const root = yield* Effect.fromResult(decode(File, json, text, file, []))
    const environment = yield* ConfigProvider.ConfigProvider
    const servers: Record<string, Server> = Object.create(null)
    for (const [name, entry] of Object.entries(root.mcpServers)) {
      const path = ["mcpServers", name]
      const at = (detail: string) => new McpConfigError({ file, line: lineOf(text, path), path, detail })
      if (!Predicate.isObject(entry)) return yield* at("expected an object with \"command\" or \"url\"")
      const hasCommand = "command" in entry
      if (hasCommand === "url" in entry) {
        return yield* at(
          `expected either "command", for a process, or "url", for HTTP${hasCommand ? "; it has both" : ""}`
        )
      }
      // What a server that is left out asks of the environment need not be there.
      const expand: Expand = entry["disabled"] === true ? Effect.succeed : expander(environment, at)
      servers[name] = hasCommand
        ? yield* toStdio(name, yield* Effect.fromResult(decode(StdioEntry, entry, text, file, path)), expand)
        : yield* toHttp(name, yield* Effect.fromResult(decode(HttpEntry, entry, text, file, path)), expand)
    }
    return servers
  }
)

/**
 * Reads an `mcp.json` file.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromFile = (file: string): Effect.Effect<McpConfig, McpConfigError, FileSystem.FileSystem> =>
  FileSystem.FileSystem.pipe(
    Effect.flatMap((files) => files.readFileString(file)),
    Effect.mapError((error) => new McpConfigError({ file, line: 0, path: [], detail: error.message })),
    Effect.flatMap((text) => parse(text, file))
  )

// =============================================================================
// The file's shape
// =============================================================================

const Optional = <S extends Schema.Constraint>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** Milliseconds, or a duration in words. */
const Time = Schema.Union([Schema.Finite, Schema.String]).check(
  Schema.makeFilter((time) =>
    toDuration(time) === undefined ? "expected milliseconds, or a text such as \"30 seconds\"" : true
  )
)

const Texts = Schema.Array(Schema.String)

const TextMap = Schema.Record(Schema.String, Schema.String)

const common = {
  disabled: Optional(Schema.Boolean),
  timeout: Optional(Time),
  tools: Optional(Schema.Struct({ allow: Optional(Texts), deny: Optional(Texts) })),
  prefix: Optional(Schema.Union([Schema.String, Schema.Literal(false)])),
  permissions: Optional(
    Schema.Union([Schema.Array(Permission), Schema.Record(Schema.String, Schema.Array(Permission))])
  ),
  trustHints: Optional(Schema.Boolean),
  restart: Optional(Schema.Boolean)
}

const File = Schema.Struct({ mcpServers: Schema.Record(Schema.String, Schema.Unknown) })

const StdioEntry = Schema.Struct({
  ...common,
  command: Schema.NonEmptyString,
  args: Optional(Texts),
  env: Optional(TextMap),
  cwd: Optional(Schema.String)
})

const HttpEntry = Schema.Struct({ ...common, url: Schema.NonEmptyString, headers: Optional(TextMap) })

type Common = Pick<typeof StdioEntry.Type, keyof typeof common>

const parseJson = (text: string, file: string): Result.Result<unknown, McpConfigError> =>
  Result.try({
    try: (): unknown => JSON.parse(text.replace(/^\uFEFF/, "")),
    catch: (cause) => {
      const detail = cause instanceof Error ? cause.message : String(cause)
      const position = Number(/position (\d+)/.exec(detail)?.[1] ?? text.length)
      return new McpConfigError({ file, line: lineAt(text, position), path: [], detail })
    }
  })

const toIssues = SchemaIssue.makeFormatterStandardSchemaV1()

const decode = <A, I>(
  schema: Schema.Codec<A, I>,
  value: unknown,
  text: string,
  file: string,
  path: ReadonlyArray<string>
): Result.Result<A, McpConfigError> =>
  Result.mapError(Schema.decodeUnknownResult(schema)(value), (error) => {
    const issue = toIssues(error.issue).issues[0]
    const inner = (issue?.path ?? []).map((step) => typeof step === "object" ? step.key : step)
    const whole = [...path, ...inner.map(String)]
    return new McpConfigError({ file, line: lineOf(text, whole), path: whole, detail: issue?.message ?? error.message })
  })

// =============================================================================
// What it means
// =============================================================================

type Expand = (text: string) => Effect.Effect<string, McpConfigError>

const toStdio = Effect.fnUntraced(function*(name: string, entry: typeof StdioEntry.Type, expand: Expand) {
  const server: Server = {
    type: "stdio",
    ...clientOptions(name, entry),
    command: yield* expand(entry.command),
    args: yield* Effect.forEach(entry.args ?? [], (arg) => mayBeSecret(arg, expand)),
    env: yield* expandMap(entry.env, expand),
    cwd: entry.cwd == null ? undefined : yield* expand(entry.cwd)
  }
  return server
})

const toHttp = Effect.fnUntraced(function*(name: string, entry: typeof HttpEntry.Type, expand: Expand) {
  const server: Server = {
    type: "http",
    ...clientOptions(name, entry),
    url: yield* expand(entry.url),
    headers: yield* expandMap(entry.headers, expand)
  }
  return server
})

const clientOptions = (name: string, entry: Common) => ({
  name,
  timeout: duration(entry.timeout),
  restart: entry.restart ?? undefined,
  disabled: entry.disabled ?? undefined,
  tools: {
    prefix: entry.prefix ?? undefined,
    filter: filter(entry.tools?.allow, entry.tools?.deny),
    permissions: permissions(entry.permissions),
    trustHints: entry.trustHints ?? undefined,
    timeout: duration(entry.timeout)
  }
})

const duration = (time: number | string | null | undefined): Duration.Duration | undefined =>
  time == null ? undefined : toDuration(time)

const toDuration = (time: number | string): Duration.Duration | undefined => {
  // Whether a text is a duration is what is asked here.
  const duration = Option.getOrUndefined(Duration.fromInput(time as Duration.Input))
  return duration !== undefined && Duration.isPositive(duration) ? duration : undefined
}

const filter = (
  allow: ReadonlyArray<string> | null | undefined,
  deny: ReadonlyArray<string> | null | undefined
): RegisterOptions["filter"] =>
  allow == null && deny == null
    ? undefined
    : ({ name }) => (allow?.includes(name) ?? true) && !(deny?.includes(name) ?? false)

const permissions = (
  configured: ReadonlyArray<Permission> | Readonly<Record<string, ReadonlyArray<Permission>>> | null | undefined
): RegisterOptions["permissions"] => {
  if (configured == null) return undefined
  if (isList(configured)) return configured
  const byTool = new Map(Object.entries(configured))
  return ({ name }) => byTool.get(name) ?? []
}

const isList = <A>(value: ReadonlyArray<A> | object): value is ReadonlyArray<A> => Array.isArray(value)

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g

const expander = (environment: ConfigProvider.ConfigProvider, fail: (detail: string) => McpConfigError): Expand =>
  Effect.fnUntraced(function*(text) {
    const values = new Map<string, string>()
    for (const [whole, name, fallback] of text.matchAll(VARIABLE)) {
      const node = yield* Effect.orElseSucceed(environment.load([name!]), () => undefined)
      const value = node?.value ?? fallback
      if (value === undefined) return yield* fail(`the environment has no ${name}, which ${whole} asks for`)
      values.set(whole, value)
    }
    return text.replaceAll(VARIABLE, (whole) => values.get(whole)!)
  })

// What comes from the environment may be a secret, so it shows in no error.
const mayBeSecret = (text: string, expand: Expand) =>
  Effect.map(expand(text), (value) => value === text ? value : Redacted.make(value))

const expandMap = Effect.fnUntraced(
  function*(texts: Readonly<Record<string, string>> | null | undefined, expand: Expand) {
    const expanded: Record<string, Redacted.Redacted<string>> = {}
    for (const [name, text] of Object.entries(texts ?? {})) expanded[name] = Redacted.make(yield* expand(text))
    return expanded
  }
)
