/**
 * Where results that are too large for a model are kept whole.
 *
 * A registry that has a store puts results over its limit there. The model is
 * shown the start and a handle, and reads on with `ReadResult.tool`. Without a
 * store such a result is cut, and the model never sees the rest.
 *
 * A result belongs to its session: to any other session it does not exist.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import { makeMemoryBackend } from "./internal/memoryResults.ts"
import * as StoredText from "./internal/storedText.ts"
import { InvalidRequest, NotFound, ResultStoreError } from "./ResultStoreError.ts"
import type { Definition } from "./Tool.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * What finds a stored result: its handle, in the session it belongs to.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResultKey {
  readonly sessionId: string
  readonly handle: string
}

/**
 * A result to keep, and the call it is the result of.
 *
 * @category models
 * @since 0.1.0
 */
export interface NewResult {
  readonly sessionId: string
  /** Which call it was, see `ToolContext.idempotencyKey`. */
  readonly idempotencyKey: string
  /** The tool as it was when it ran: a policy is asked about it again before the result is read. */
  readonly tool: Definition
  /** The JSON arguments of the call, for the same question. */
  readonly input: unknown
  /** `text/plain` or `application/json`. */
  readonly mediaType: string
  /** Half a surrogate pair becomes U+FFFD: it has no UTF-8. */
  readonly text: string
}

/**
 * What is known of a stored result without reading it.
 *
 * @category models
 * @since 0.1.0
 */
export interface StoredResult {
  readonly handle: string
  readonly idempotencyKey: string
  readonly tool: Definition
  readonly input: unknown
  readonly mediaType: string
  /** The size of its text in UTF-8. */
  readonly sizeBytes: number
  /** Milliseconds since 1970. */
  readonly createdAtMillis: number
}

/**
 * A part of a stored text. Pages that follow each other's `nextOffset` are the
 * whole text.
 *
 * @category models
 * @since 0.1.0
 */
export interface Page {
  readonly text: string
  /** Where it begins, in bytes: where it was asked for, or at the start of the character there. */
  readonly offset: number
  /** Where to go on, in bytes; absent at the end. */
  readonly nextOffset: number | undefined
  /** The size of the whole text. */
  readonly sizeBytes: number
}

/**
 * One place where a text was found.
 *
 * @category models
 * @since 0.1.0
 */
export interface Match {
  /** Where it begins, in bytes. */
  readonly offset: number
  readonly lengthBytes: number
  /** The line it begins in, counted from 1 at the start of the result. */
  readonly line: number
  /** The match and what stands around it. */
  readonly excerpt: string
}

/**
 * Where a text was found, in order. Matches do not overlap.
 *
 * @category models
 * @since 0.1.0
 */
export interface Matches {
  readonly matches: ReadonlyArray<Match>
  /** Where to search on, in bytes, if the search ended because there were enough matches. */
  readonly nextOffset: number | undefined
  /** The size of the whole text. */
  readonly sizeBytes: number
}

// =============================================================================
// Options
// =============================================================================

/**
 * Which part of a text to read.
 *
 * @category options
 * @since 0.1.0
 */
export interface ReadOptions {
  /** Where to begin, in bytes. Default 0. */
  readonly offset?: number | undefined
  /** How many bytes at the most, save that one character is always read. Default 16 KiB, at most 64 MiB. */
  readonly length?: number | undefined
}

/**
 * What to look for.
 *
 * @category options
 * @since 0.1.0
 */
export interface SearchOptions {
  /** The text itself, at most 1,000 characters; nothing in it is a pattern. */
  readonly text: string
  /** Whether upper and lower case are the same. Default `false`. */
  readonly ignoreCase?: boolean | undefined
  /** Where to begin, in bytes. Default 0. */
  readonly offset?: number | undefined
  /** After how many matches to stop, 1 to 100. Default 20. */
  readonly maxMatches?: number | undefined
  /** How much is shown before and after a match, in bytes, 0 to 10,000. Default 80. */
  readonly contextBytes?: number | undefined
}

/** How much is read where nobody says. */
const DEFAULT_LENGTH_BYTES = 16_384

/** How much is read at once: a string has a largest size. */
const MAX_LENGTH_BYTES = 67_108_864

const MAX_SEARCHED_CHARACTERS = 1_000

const DEFAULT_MATCHES = 20
const MAX_MATCHES = 100

const DEFAULT_CONTEXT_BYTES = 80
const MAX_CONTEXT_BYTES = 10_000

// =============================================================================
// Service
// =============================================================================

/**
 * A store of results.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResultStore {
  /** Keeps a result under a new handle. Fails with `TooLarge` or `Io`; then nothing is kept. */
  readonly put: (result: NewResult) => Effect.Effect<StoredResult, ResultStoreError>
  /** Fails with `NotFound` or `Io`. */
  readonly info: (key: ResultKey) => Effect.Effect<StoredResult, ResultStoreError>
  /** Reads a part. Beyond the end there is an empty page. Fails with `NotFound`, `InvalidRequest` or `Io`. */
  readonly read: (key: ResultKey, options?: ReadOptions) => Effect.Effect<Page, ResultStoreError>
  /** Searches for a text as it is written. Fails with `NotFound`, `InvalidRequest` or `Io`. */
  readonly search: (key: ResultKey, options: SearchOptions) => Effect.Effect<Matches, ResultStoreError>
  /** Removes a result; answers whether it was there. Fails with `Io`. */
  readonly remove: (key: ResultKey) => Effect.Effect<boolean, ResultStoreError>
  /** Removes all results of a session; answers how many. Fails with `Io`. */
  readonly removeSession: (sessionId: string) => Effect.Effect<number, ResultStoreError>
}

/**
 * The store of a registry, which reads it once, when it is built.
 *
 * Default: none. A result over the limit is then cut.
 *
 * **Example** (Nothing is lost)
 *
 * ```ts run
 * import { PermissionPolicy, ReadResult, ResultStore, Tool, ToolRegistry } from "agcore"
 * import { Effect, Layer } from "effect"
 *
 * const list = Tool.dynamic({
 *   name: "list",
 *   description: "Lists everything",
 *   inputSchema: { type: "object" },
 *   handler: () => Effect.succeed("item\n".repeat(20_000) + "the last one")
 * })
 *
 * const Tools = ToolRegistry.layer(list, ReadResult.tool).pipe(
 *   Layer.provide([ResultStore.layerMemory(), PermissionPolicy.layer()])
 * )
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   const { stored } = yield* registry.invoke({ id: "1", name: "list", params: {} })
 *   const { result } = yield* registry.invoke({
 *     id: "2",
 *     name: "read_result",
 *     params: { handle: stored?.handle, offset: 100_000 }
 *   })
 *   return result
 * }).pipe(Effect.provide(Tools))
 *
 * await Effect.runPromise(program) // => "[bytes 100000 to 100012 of 100012, the end]\nthe last one"
 * ```
 *
 * @category references
 * @since 0.1.0
 */
export const ResultStore: Context.Reference<ResultStore | undefined> = Context.Reference<ResultStore | undefined>(
  "agcore/tools/ResultStore",
  { defaultValue: () => undefined }
)

/**
 * How long storing one result may take. After that it is cut instead, and the
 * registry logs it. Default 10 seconds.
 *
 * @category references
 * @since 0.1.0
 */
export const PutTimeout: Context.Reference<Duration.Duration> = Context.Reference<Duration.Duration>(
  "agcore/tools/ResultStore/PutTimeout",
  { defaultValue: () => Duration.seconds(10) }
)

// =============================================================================
// Constructors
// =============================================================================

/**
 * A result that was found, to be read until the scope closes.
 *
 * @category models
 * @since 0.1.0
 */
export interface OpenResult {
  readonly info: StoredResult
  /** The bytes from `offset` on, `length` of them; fewer only where the text ends. */
  readonly read: (offset: number, length: number) => Effect.Effect<Uint8Array, ResultStoreError>
}

/**
 * A place for bytes. It is all that a store of one's own has to bring: handles,
 * pages and search come from `make`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Backend {
  /** Keeps text in UTF-8, whole or not at all: nobody may find a part of it. */
  readonly put: (
    key: ResultKey,
    info: StoredResult,
    text: Uint8Array<ArrayBuffer>
  ) => Effect.Effect<void, ResultStoreError>
  /** Fails with `NotFound` where the session has no such result. */
  readonly open: (key: ResultKey) => Effect.Effect<OpenResult, ResultStoreError, Scope.Scope>
  /** Answers whether it was there. */
  readonly remove: (key: ResultKey) => Effect.Effect<boolean, ResultStoreError>
  /** Answers how many there were. */
  readonly removeSession: (sessionId: string) => Effect.Effect<number, ResultStoreError>
}

/**
 * A store over a place for bytes. Handles it never gave out do not reach the
 * place: they are `NotFound`.
 *
 * **Example** (A store of one's own)
 *
 * ```ts run
 * import { ResultStore, ResultStoreError } from "agcore"
 * import { Effect } from "effect"
 *
 * const kept = new Map<string, { info: ResultStore.StoredResult; text: Uint8Array }>()
 * const keyOf = ({ handle, sessionId }: ResultStore.ResultKey) => JSON.stringify([sessionId, handle])
 *
 * const store = ResultStore.make({
 *   put: (key, info, text) => Effect.sync(() => void kept.set(keyOf(key), { info, text })),
 *   open: (key) =>
 *     Effect.suspend(() => {
 *       const found = kept.get(keyOf(key))
 *       return found === undefined
 *         ? Effect.fail(
 *           new ResultStoreError.ResultStoreError({ reason: new ResultStoreError.NotFound({ handle: key.handle }) })
 *         )
 *         : Effect.succeed({
 *           info: found.info,
 *           read: (offset, length) => Effect.succeed(found.text.subarray(offset, offset + length))
 *         })
 *     }),
 *   remove: (key) => Effect.sync(() => kept.delete(keyOf(key))),
 *   removeSession: () => Effect.succeed(0)
 * })
 *
 * await Effect.runPromise(Effect.result(store.remove({ sessionId: "s-1", handle: "res_1" }))).then(
 *   (result) => result._tag
 * ) // => "Success"
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (backend: Backend): ResultStore => {
  const opened = <A>(
    key: ResultKey,
    use: (result: OpenResult) => Effect.Effect<A, ResultStoreError>
  ): Effect.Effect<A, ResultStoreError> =>
    isHandle(key.handle)
      ? Effect.scoped(Effect.flatMap(backend.open(key), use))
      : fail(new NotFound({ handle: key.handle }))

  return {
    put: Effect.fnUntraced(function*({ text, sessionId, ...call }) {
      const bytes = StoredText.encode(text)
      const info: StoredResult = {
        ...call,
        handle: makeHandle(),
        sizeBytes: bytes.length,
        createdAtMillis: yield* Clock.currentTimeMillis
      }
      yield* backend.put({ sessionId, handle: info.handle }, info, bytes)
      return info
    }),
    info: (key) => opened(key, ({ info }) => Effect.succeed(info)),
    read: (key, { length = DEFAULT_LENGTH_BYTES, offset = 0 } = {}) =>
      check(
        () => opened(key, (result) => StoredText.page(sourceOf(result), offset, Math.min(length, MAX_LENGTH_BYTES))),
        [isWithin(offset, 0), "the offset is a number of bytes, 0 or more"],
        [isWithin(length, 1), "the length is a number of bytes, 1 or more"]
      ),
    search: (key, options) => {
      const { contextBytes = DEFAULT_CONTEXT_BYTES, maxMatches = DEFAULT_MATCHES, offset = 0, text } = options
      const search = { text, ignoreCase: options.ignoreCase === true, offset, maxMatches, contextBytes }
      return check(
        () => opened(key, (result) => StoredText.search(sourceOf(result), search)),
        [isWithin(text.length, 1, MAX_SEARCHED_CHARACTERS), `a text of 1 to ${MAX_SEARCHED_CHARACTERS} characters`],
        [isWithin(offset, 0), "the offset is a number of bytes, 0 or more"],
        [isWithin(maxMatches, 1, MAX_MATCHES), `a search stops after 1 to ${MAX_MATCHES} matches`],
        [isWithin(contextBytes, 0, MAX_CONTEXT_BYTES), `a context is 0 to ${MAX_CONTEXT_BYTES} bytes`]
      )
    },
    remove: (key) => isHandle(key.handle) ? backend.remove(key) : Effect.succeed(false),
    removeSession: backend.removeSession
  }
}

/**
 * How large a store in memory may grow.
 *
 * @category options
 * @since 0.1.0
 */
export interface MemoryOptions {
  /**
   * All results together, and what describes them. The oldest makes room for the
   * newest; one that is larger alone is `TooLarge`. Default 64 MiB.
   */
  readonly maxBytes?: number | undefined
}

/**
 * A store in memory: it ends with the process.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeMemory = (options?: MemoryOptions): Effect.Effect<ResultStore> =>
  Effect.sync(() => make(makeMemoryBackend(options?.maxBytes ?? DEFAULT_MEMORY_BYTES)))

const DEFAULT_MEMORY_BYTES = 67_108_864

/**
 * Where a store keeps its files.
 *
 * @category options
 * @since 0.1.0
 */
export interface FileSystemOptions {
  /** For this store alone. Made if it is not there, for its owner only. */
  readonly directory: string
  /**
   * All files together. The oldest makes room for the newest; one that is larger
   * alone is `TooLarge`. Each process counts what was there when it began and
   * what it stored since. Default 1 GiB.
   */
  readonly maxBytes?: number | undefined
}

/**
 * A store in a directory: it outlives the process.
 *
 * A file appears under its name when it is whole; only its owner may read it
 * (mode 0600, where there are modes). Its name holds the handle and a hash of
 * the session. Arguments of the call are stored with the result. Fails with
 * `Io` if the directory cannot be used.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeFileSystem = (
  options: FileSystemOptions
): Effect.Effect<ResultStore, ResultStoreError, FileSystem.FileSystem | Path.Path> =>
  Effect.promise(loadFiles).pipe(
    Effect.flatMap(({ makeFiles }) => makeFiles(options.directory, options.maxBytes ?? DEFAULT_FILE_SYSTEM_BYTES)),
    Effect.map(make)
  )

// Loaded by those who use it: effect's files and paths come with it.
const loadFiles = () => import("./internal/fileResults.ts")

const DEFAULT_FILE_SYSTEM_BYTES = 1_073_741_824

// =============================================================================
// Layers
// =============================================================================

/**
 * Gives registries a store in memory, see `makeMemory`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory = (options?: MemoryOptions): Layer.Layer<never> =>
  Layer.effect(ResultStore, makeMemory(options))

/**
 * Gives registries a store in a directory, see `makeFileSystem`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerFileSystem = (
  options: FileSystemOptions
): Layer.Layer<never, ResultStoreError, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(ResultStore, makeFileSystem(options))

// =============================================================================
// Internals
// =============================================================================

/** 96 bits: nobody guesses one. */
const HANDLE_BYTES = 12

const makeHandle = (): string => `res_${Hex.encode(SecureRandom.randomBytesUnsafe(HANDLE_BYTES))}`

const isHandle = (handle: string): boolean => /^res_[0-9a-f]{24}$/.test(handle)

const sourceOf = ({ info, read }: OpenResult): StoredText.Source => ({ sizeBytes: info.sizeBytes, read })

const isWithin = (value: number, minimum: number, maximum: number = Number.MAX_SAFE_INTEGER): boolean =>
  Number.isSafeInteger(value) && value >= minimum && value <= maximum

const fail = (reason: ResultStoreError["reason"]): Effect.Effect<never, ResultStoreError> =>
  Effect.fail(new ResultStoreError({ reason }))

const check = <A>(
  run: () => Effect.Effect<A, ResultStoreError>,
  ...rules: ReadonlyArray<readonly [holds: boolean, problem: string]>
): Effect.Effect<A, ResultStoreError> => {
  const broken = rules.find(([holds]) => !holds)
  return broken === undefined ? Effect.suspend(run) : fail(new InvalidRequest({ problem: broken[1] }))
}
