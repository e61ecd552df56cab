/**
 * A record of every call of a tool, kept so that changes to it show.
 *
 * A registry writes to the log that it was built with: what was decided about a
 * call before anything runs, and how the call ended. A call whose first entry
 * cannot be written does not run. Without a log, which is the default, nothing
 * is written.
 *
 * Entries form a chain: each holds the hash of the one before it. `verify`
 * finds the first line that was changed, removed, added or moved. It cannot see
 * that lines were cut off at the end, or that the whole log was written anew,
 * unless it is told a head that was noted elsewhere.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Chain from "../internal/auditChain.ts"
import { canonical, sha256 } from "../internal/digest.ts"
import * as HandlerContext from "../internal/handlerContext.ts"
import type { AuditEntry } from "./AuditEntry.ts"
import { AuditError, Unavailable } from "./AuditError.ts"
import * as Redaction from "./internal/auditRedact.ts"
import type { Definition } from "./Tool.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * The end of a log: how many entries it has, and the hash of the last. Noted in
 * another place, it is what later shows that the log was cut or written anew.
 *
 * @category models
 * @since 0.1.0
 */
export interface Head {
  /** The number of entries. */
  readonly count: number
  /** SHA-256 of the last entry, as 64 hexadecimal digits. */
  readonly hash: string
}

/**
 * A log.
 *
 * @category models
 * @since 0.1.0
 */
export interface Log {
  /** Returns when the entry is kept. */
  readonly write: (entry: AuditEntry) => Effect.Effect<void, AuditError>
  /** The end of the log; `undefined` if it is empty, or has no chain. */
  readonly head: Effect.Effect<Head | undefined, AuditError>
}

/**
 * The arguments of a call, to be shown in a log.
 *
 * @category models
 * @since 0.1.0
 */
export interface Arguments {
  readonly toolName: string
  /** `undefined`: there is no such tool. */
  readonly tool: Definition | undefined
  /** The JSON arguments as they came, or as a person changed them. */
  readonly input: unknown
}

// =============================================================================
// References
// =============================================================================

/**
 * The log that a registry writes to, read once when it is built. Default: none.
 *
 * @category references
 * @since 0.1.0
 */
export const AuditLog: Context.Reference<Log | undefined> = Context.Reference<Log | undefined>(
  "agcore/tools/AuditLog",
  { defaultValue: () => undefined }
)

/**
 * How long one entry may take to be written. After that a call that waits for it
 * does not run. Default 5 seconds.
 *
 * @category references
 * @since 0.1.0
 */
export const WriteTimeout: Context.Reference<Duration.Duration> = Context.Reference<Duration.Duration>(
  "agcore/tools/AuditLog/WriteTimeout",
  { defaultValue: () => Duration.seconds(5) }
)

/**
 * The largest arguments that are written, in bytes of JSON. Larger ones are
 * replaced by their size and hash. Default 16 KiB.
 *
 * @category references
 * @since 0.1.0
 */
export const MaxArgumentsBytes: Context.Reference<number> = Context.Reference<number>(
  "agcore/tools/AuditLog/MaxArgumentsBytes",
  { defaultValue: () => 16_384 }
)

/**
 * What a log shows of arguments. One that dies keeps the call from running.
 * Default: `redactSecrets`.
 *
 * @category references
 * @since 0.1.0
 */
export const Redact: Context.Reference<(args: Arguments) => Effect.Effect<Schema.Json>> = Context.Reference<
  (args: Arguments) => Effect.Effect<Schema.Json>
>("agcore/tools/AuditLog/Redact", { defaultValue: () => redactSecrets })

// =============================================================================
// Redaction
// =============================================================================

/**
 * Replaces secrets by `"<redacted>"`: properties that the tool's schema declares
 * `Schema.Redacted` (or, in JSON Schema, `"format": "password"` or
 * `"writeOnly": true`), properties with a name like `password`, `apiKey` or
 * `access_token`, what an argument such as `--token` is given, and credentials
 * in URLs and HTTP headers. A secret in other text is not found.
 *
 * **Example** (What is shown)
 *
 * ```ts run
 * import { AuditLog } from "agcore"
 * import { Effect } from "effect"
 *
 * const input = { user: "ada", apiKey: "k-1", args: ["--token", "t-1", "-v"], url: "https://ada:pw@example.com/" }
 *
 * await Effect.runPromise(AuditLog.redactSecrets({ toolName: "fetch", tool: undefined, input })) // => {
 * //   user: "ada",
 * //   apiKey: "<redacted>",
 * //   args: ["--token", "<redacted>", "-v"],
 * //   url: "https://<redacted>@example.com/"
 * // }
 * ```
 *
 * @category rules
 * @since 0.1.0
 */
export const redactSecrets = ({ input, tool }: Arguments): Effect.Effect<Schema.Json> =>
  Effect.sync(() => Redaction.redactSecrets(tool, input))

/**
 * Shows nothing of the arguments but their size in bytes and their hash: SHA-256
 * of their canonical JSON (RFC 8785). Whoever can guess arguments can tell
 * whether a guess is right.
 *
 * @category rules
 * @since 0.1.0
 */
export const hashArguments = ({ input }: Arguments): Effect.Effect<Schema.Json> =>
  Effect.suspend(() => hashed(canonical(input)))

// =============================================================================
// Layers
// =============================================================================

/**
 * A log of one's own. `write` may fail with anything, and is given the time of
 * `WriteTimeout`; what it requires is captured when the Layer is built.
 *
 * **Example** (Keeping entries in memory)
 *
 * ```ts run
 * import { type AuditEntry, AuditLog, PermissionPolicy, Tool, ToolRegistry } from "agcore"
 * import { Effect, Layer } from "effect"
 *
 * const ping = Tool.dynamic({
 *   name: "ping",
 *   description: "Answers",
 *   inputSchema: { type: "object" },
 *   handler: () => Effect.succeed("pong")
 * })
 *
 * const entries: Array<AuditEntry.AuditEntry> = []
 * const Log = AuditLog.layer((entry) => Effect.sync(() => void entries.push(entry)))
 *
 * const program = ToolRegistry.ToolRegistry.use((registry) => registry.invoke({ id: "1", name: "ping", params: {} }))
 *   .pipe(Effect.provide(ToolRegistry.layer(ping).pipe(Layer.provide([PermissionPolicy.layer(), Log]))))
 *
 * await Effect.runPromise(program)
 * entries.map((entry) => entry._tag === "CallDecided" ? entry.verdict._tag : entry.outcome) // => ["Allowed", "success"]
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <E = never, R = never>(
  write: (entry: AuditEntry) => Effect.Effect<void, E, R>
): Layer.Layer<never, never, R> =>
  Layer.effect(
    AuditLog,
    Effect.map(Effect.context<R>(), (context) => {
      const withServices = HandlerContext.provider(context)
      return {
        write: (entry) =>
          Effect.mapError(
            withServices<void, E, never>(Effect.suspend(() => write(entry))),
            (cause) => new AuditError({ reason: new Unavailable({ description: "the log failed", cause }) })
          ),
        head: Effect.undefined
      }
    })
  )

/**
 * Options of `layerJsonLines`.
 *
 * @category options
 * @since 0.1.0
 */
export interface JsonLinesOptions {
  /** The file. It is made if it is missing; its folder is not. */
  readonly path: string
  /**
   * Whether an entry counts as written only when the disk has it, so that it
   * outlives a power failure, or already when the operating system has it, so
   * that it outlives the process. Default `true`: the disk.
   */
  readonly sync?: boolean | undefined
}

/**
 * A file of JSON, one entry a line, that goes on where it ended.
 *
 * Several processes may write to one file: each append takes a lock, the file
 * `<path>.lock`. Entries that are written at the same time share one append.
 * Only the end of the file is looked at: `verifyFile` checks it all. A line that
 * a stopped process left half written stays, and the next entry accounts for it.
 *
 * Building it fails if the file cannot be opened or its end is no valid entry.
 * Writing fails with `Busy` if others hold the lock for 4 seconds, and with
 * `Broken`, then for good, if the file was cut, exchanged or written to by
 * something that does not keep to the lock.
 *
 * **Example** (A log in a file)
 *
 * ```ts run
 * import { NodeServices } from "@effect/platform-node"
 * import { AuditLog, PermissionPolicy, Tool, ToolRegistry } from "agcore"
 * import { Effect, FileSystem, Layer } from "effect"
 *
 * const ping = Tool.dynamic({
 *   name: "ping",
 *   description: "Answers",
 *   inputSchema: { type: "object" },
 *   handler: () => Effect.succeed("pong")
 * })
 *
 * const program = Effect.gen(function*() {
 *   const fs = yield* FileSystem.FileSystem
 *   const path = `${yield* fs.makeTempDirectoryScoped()}/audit.jsonl`
 *   const Registry = ToolRegistry.layer(ping).pipe(
 *     Layer.provide([PermissionPolicy.layer(), AuditLog.layerJsonLines({ path })])
 *   )
 *   yield* ToolRegistry.ToolRegistry.use((registry) => registry.invoke({ id: "1", name: "ping", params: {} })).pipe(
 *     Effect.provide(Registry)
 *   )
 *   const { broken, head } = yield* AuditLog.verifyFile(path)
 *   return [head?.count, broken]
 * }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
 *
 * await Effect.runPromise(program) // => [2, undefined]
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerJsonLines = (
  options: JsonLinesOptions
): Layer.Layer<never, AuditError, FileSystem.FileSystem> =>
  Layer.effect(
    AuditLog,
    Effect.flatMap(Effect.promise(loadFile), ({ make }) => make(options.path, options.sync ?? true))
  )

// Loaded by those who use it: effect's files come with it.
const loadFile = () => import("./internal/auditFile.ts")

// =============================================================================
// Verification
// =============================================================================

/**
 * What `verify` has to find besides a chain in order.
 *
 * @category options
 * @since 0.1.0
 */
export interface VerifyOptions {
  /**
   * A head, or its hash, that was noted earlier: that entry has to be there, so
   * that nothing up to it was cut off or written anew. Default: none.
   */
  readonly anchor?: Head | string | undefined
}

/**
 * What is wrong with a log, and where.
 *
 * - `edited`: the line is not what its hash says.
 * - `missing`: entries before it were removed.
 * - `reordered`: it stands in the wrong place, or is there twice.
 * - `replaced`: the line before it is another than it was; or two writers did
 *   not keep to the lock.
 * - `malformed`: it is JSON, and no entry of a log of this version.
 * - `unreadable`: it is not JSON. At the end: a writer was stopped, and the next
 *   entry would account for it.
 * - `cut`: the anchor is not in the log: entries were cut off at the end, or all
 *   were written anew.
 *
 * @category models
 * @since 0.1.0
 */
export interface Damage {
  /** The line, counted from 1; for `cut` the first that is not there. */
  readonly line: number
  readonly kind: "edited" | "missing" | "reordered" | "replaced" | "malformed" | "unreadable" | "cut"
  /** What that means, for people. */
  readonly explanation: string
}

/**
 * What `verify` has found.
 *
 * @category models
 * @since 0.1.0
 */
export interface Report {
  /** The last entry that is in order. `undefined`: there is none. */
  readonly head: Head | undefined
  /** The first line that is not. `undefined`: all are in order. */
  readonly broken: Damage | undefined
  /** Lines that stopped writers left half written and that a later entry accounts for; the first 16. */
  readonly recovered: ReadonlyArray<number>
}

/**
 * Checks the lines of a log, in order and without their newlines. Stops at the
 * first that is broken. What becomes of the stream becomes of it.
 *
 * **Example** (A log that was changed)
 *
 * ```ts run
 * import { AuditLog } from "agcore"
 * import { Effect, Stream } from "effect"
 *
 * const line = '{"entry":{"_tag":"CallDecided"},"hash":"00","previous":null,"sequence":1,"version":1}'
 *
 * const program = Effect.map(AuditLog.verify(Stream.make(line)), ({ broken }) => [broken?.line, broken?.kind])
 *
 * await Effect.runPromise(program) // => [1, "edited"]
 * ```
 *
 * @category destructors
 * @since 0.1.0
 */
export const verify = <E, R>(
  lines: Stream.Stream<string, E, R>,
  options?: VerifyOptions
): Effect.Effect<Report, E, R> => {
  const anchor = typeof options?.anchor === "string" ? { hash: options.anchor } : options?.anchor
  return lines.pipe(
    Stream.mapAccumEffect(begin, (state, line) =>
      Effect.map(Chain.next(state.progress, line), (progress) => {
        const next = { progress, isAnchored: state.isAnchored || isAnchor(anchor, progress.head) }
        return [next, [next]] as const
      })),
    Stream.takeUntil(({ progress }) => progress.broken !== undefined),
    Stream.runLast,
    Effect.map((last) => report(last._tag === "Some" ? last.value : begin(), anchor))
  )
}

/**
 * Checks a file of `layerJsonLines`. Fails if it cannot be read.
 *
 * @category destructors
 * @since 0.1.0
 */
export const verifyFile = (
  path: string,
  options?: VerifyOptions
): Effect.Effect<Report, AuditError, FileSystem.FileSystem> =>
  verify(Stream.unwrap(Effect.map(Effect.promise(loadFile), ({ lines }) => lines(path))), options).pipe(
    Effect.mapError((cause) =>
      new AuditError({ reason: new Unavailable({ description: `cannot read ${path}`, cause }) })
    )
  )

// =============================================================================
// Internals
// =============================================================================

const encoder = new TextEncoder()

const hashed = (text: string): Effect.Effect<Schema.Json> =>
  Effect.map(sha256(text), (sha256) => ({ bytes: encoder.encode(text).length, sha256 }))

interface Verified {
  readonly progress: Chain.Progress
  readonly isAnchored: boolean
}

type Anchor = { readonly hash: string; readonly count?: number }

const begin = (): Verified => ({ progress: Chain.begin(), isAnchored: false })

const isAnchor = (anchor: Anchor | undefined, head: Head | undefined): boolean =>
  anchor !== undefined && head?.hash === anchor.hash.toLowerCase() && (anchor.count ?? head.count) === head.count

const report = ({ isAnchored, progress }: Verified, anchor: Anchor | undefined): Report => {
  const broken = Chain.brokenEnd(progress)
  const cut: Damage | undefined = anchor === undefined || isAnchored || broken !== undefined ? undefined : {
    line: progress.lines + 1,
    kind: "cut",
    explanation: "the entry that was noted is not there: the end was cut off, or the log was written anew"
  }
  return { head: progress.head, broken: broken ?? cut, recovered: progress.recovered }
}
