/**
 * Keeps conversations, so that another process can go on with them.
 *
 * A conversation is saved whole, each time under the next revision. Saving
 * succeeds for one writer of a revision only; any other is told, and nothing is
 * merged. A process may be killed at any point: what is loaded is the
 * conversation before the last save or after it.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import type * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { CycleStoreError, type CycleStoreErrorReason, Io, NotStorable } from "./CycleStoreError.ts"
import { FORMAT, fromText, toPieces } from "./internal/storeFormat.ts"
import { makeMemory } from "./internal/storeMemory.ts"
import type { SavedCycle } from "./SavedCycle.ts"

// =============================================================================
// Service
// =============================================================================

/**
 * The conversations that are kept. `LlmCycle.open` uses it; what is here is for
 * looking after them.
 *
 * **Example** (Two writers are told)
 *
 * ```ts run
 * import { CycleStore, SavedCycle } from "agcore"
 * import { Effect } from "effect"
 * import { Response } from "effect/ai"
 *
 * const revision = (revision: number): SavedCycle.SavedCycle => ({
 *   sessionId: "a",
 *   revision,
 *   turns: 0,
 *   messages: [],
 *   running: [],
 *   pending: [],
 *   sharedState: {},
 *   usage: new Response.Usage({ inputTokens: {}, outputTokens: {} })
 * })
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* CycleStore.CycleStore
 *   yield* store.save(revision(1))
 *   yield* store.save(revision(2))
 *   // Somebody who has seen the first only.
 *   yield* store.save(revision(2))
 * }).pipe(
 *   Effect.catchReason("CycleStoreError", "Conflict", ({ found }) => Effect.succeed(`revision ${found} is stored`)),
 *   Effect.provide(CycleStore.layerMemory)
 * )
 *
 * await Effect.runPromise(program) // => "revision 2 is stored"
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export class CycleStore extends Context.Service<CycleStore, {
  /**
   * The conversation of an id; `undefined` where there is none. Fails with
   * `UnsupportedFormat`, `Corrupt` or `Io`.
   */
  readonly load: (sessionId: string) => Effect.Effect<SavedCycle | undefined, CycleStoreError>
  /**
   * Stores a conversation whose `revision` is the one after what is stored, 1
   * where nothing is. Fails with `Conflict` if it is not, else with
   * `NotStorable` or `Io`.
   *
   * It cannot be interrupted, so that who is stopped leaves no save under way.
   * Messages and invocations that are the same objects as in an earlier save are
   * not encoded again.
   */
  readonly save: (saved: SavedCycle) => Effect.Effect<void, CycleStoreError>
  /** Forgets a conversation, or does nothing where there is none. Fails with `Io`. */
  readonly remove: (sessionId: string) => Effect.Effect<void, CycleStoreError>
  /** The ids of all conversations, in no order. Fails with `Io`. */
  readonly list: Stream.Stream<string, CycleStoreError>
}>()("agcore/llm/CycleStore") {}

/**
 * How long a store may take to load, save or remove one conversation, or to come
 * to the next id of a list. After that it is an `Io`. A store reads it once,
 * when it is built. Default 30 seconds.
 *
 * @category references
 * @since 0.1.0
 */
export const Timeout: Context.Reference<Duration.Duration> = Context.Reference<Duration.Duration>(
  "agcore/llm/CycleStore/Timeout",
  { defaultValue: () => Duration.seconds(30) }
)

// =============================================================================
// Text
// =============================================================================

/**
 * The format that is written now: a number that grows when the text changes.
 *
 * @category constants
 * @since 0.1.0
 */
export const format: number = FORMAT

/**
 * A conversation as the text that is stored: JSON of `{ format, cycle }` in one
 * line. Fails with `NotStorable`.
 *
 * @category destructors
 * @since 0.1.0
 */
export const encode = (saved: SavedCycle): Effect.Effect<string, CycleStoreError> =>
  Effect.mapError(Effect.fromResult(Result.map(toPieces(saved), joined)), of(saved.sessionId))

/**
 * Reads the text of a conversation. Older formats are migrated: format 0 is a
 * list of messages as effect/ai encodes them, or its encoded `Prompt`, which is
 * what programs keep by hand. Fails with `UnsupportedFormat` or `Corrupt`.
 *
 * **Example** (Taking over messages that were kept by hand)
 *
 * ```ts run
 * import { CycleStore } from "agcore"
 * import { Effect } from "effect"
 *
 * const kept = JSON.stringify([{ role: "user", content: "Hello" }, { role: "assistant", content: "Hi." }])
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* CycleStore.CycleStore
 *   yield* store.save(yield* CycleStore.decode("a", kept))
 *   const saved = yield* store.load("a")
 *   return [saved?.revision, saved?.messages.length]
 * }).pipe(Effect.provide(CycleStore.layerMemory))
 *
 * await Effect.runPromise(program) // => [1, 2]
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const decode = (sessionId: string, text: string): Effect.Effect<SavedCycle, CycleStoreError> =>
  Effect.mapError(Effect.fromResult(fromText(sessionId, text)), of(sessionId))

// =============================================================================
// Constructors
// =============================================================================

/**
 * A conversation as a place for texts sees it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Stored {
  /** Counted from 1. */
  readonly revision: number
  /** As made by `encode`, or by an older version. */
  readonly text: string
}

/**
 * A conversation to store.
 *
 * @category models
 * @since 0.1.0
 */
export interface NewRevision extends Stored {
  /** The text in pieces, for a place that can do without having it in one: it may be large. */
  readonly pieces: ReadonlyArray<string>
}

/**
 * A place for texts. It is all that a store of one's own has to bring: formats,
 * limits of time and what is told come from `make`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Backend {
  /** The newest revision; `undefined` where there is none. */
  readonly read: (sessionId: string) => Effect.Effect<Stored | undefined, CycleStoreErrorReason>
  /**
   * Stores a revision if the newest one is that before it, none where it is 1.
   * Fails with `Conflict` otherwise. Looking and storing have to be one step, and
   * what was there must stay until the new one is safe. It is not interrupted.
   */
  readonly write: (sessionId: string, stored: NewRevision) => Effect.Effect<void, CycleStoreErrorReason>
  /** Does nothing where there is none. It is not interrupted. */
  readonly remove: (sessionId: string) => Effect.Effect<void, CycleStoreErrorReason>
  readonly list: Stream.Stream<string, CycleStoreErrorReason>
}

/**
 * A store over a place for texts.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (backend: Backend): Effect.Effect<CycleStore["Service"]> =>
  Effect.map(Timeout, (timeout) => {
    const late = new Io({ description: `the store did not answer within ${Duration.format(timeout)}` })
    return {
      load: (sessionId) =>
        Effect.timeoutOrElse(backend.read(sessionId), { duration: timeout, orElse: () => Effect.fail(late) }).pipe(
          Effect.flatMap((stored) =>
            stored === undefined
              ? Effect.undefined
              : Effect.fromResult(fromText(sessionId, stored.text, stored.revision))
          ),
          Effect.mapError(of(sessionId))
        ),
      save: (saved) =>
        Effect.fromResult(Result.flatMap(checked(saved), toPieces)).pipe(
          Effect.flatMap((pieces) =>
            finished(backend.write(saved.sessionId, newRevision(saved.revision, pieces)), timeout, late)
          ),
          Effect.mapError(of(saved.sessionId))
        ),
      remove: (sessionId) => Effect.mapError(finished(backend.remove(sessionId), timeout, late), of(sessionId)),
      list: Stream.timeoutOrElse(backend.list, { duration: timeout, orElse: () => Stream.fail(late) }).pipe(
        Stream.mapError((reason) => new CycleStoreError({ reason }))
      )
    }
  })

// =============================================================================
// Layers
// =============================================================================

/**
 * A store over a place of one's own, such as a table of a database.
 *
 * **Example** (One that compares and swaps)
 *
 * ```ts run
 * import { CycleStore, CycleStoreError } from "agcore"
 * import { Effect, Stream } from "effect"
 *
 * const rows = new Map<string, CycleStore.Stored>()
 *
 * const Store = CycleStore.layer({
 *   read: (sessionId) => Effect.sync(() => rows.get(sessionId)),
 *   write: (sessionId, stored) =>
 *     Effect.suspend(() => {
 *       // In SQL: update … where session_id = … and revision = …, and how many rows that were.
 *       const expected = stored.revision - 1
 *       const found = rows.get(sessionId)?.revision ?? 0
 *       if (found !== expected) return Effect.fail(new CycleStoreError.Conflict({ expected, found }))
 *       rows.set(sessionId, { revision: stored.revision, text: stored.text })
 *       return Effect.void
 *     }),
 *   remove: (sessionId) => Effect.sync(() => void rows.delete(sessionId)),
 *   list: Stream.suspend(() => Stream.fromIterable(rows.keys()))
 * })
 *
 * const program = CycleStore.CycleStore.use((store) => store.load("a")).pipe(Effect.provide(Store))
 *
 * await Effect.runPromise(program) // => undefined
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (backend: Backend): Layer.Layer<CycleStore> => Layer.effect(CycleStore, make(backend))

/**
 * A store in memory: it ends with the process.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<CycleStore> = Layer.effect(CycleStore, Effect.flatMap(makeMemory, make))

/**
 * A store in files: a folder for each conversation, for its owner alone.
 *
 * Any number of processes may use one directory. It has to be on a file system
 * with hard links. The directory is made when the first conversation is saved.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerFileSystem = (options: {
  readonly directory: string
}): Layer.Layer<CycleStore, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    CycleStore,
    Effect.gen(function*() {
      const { makeFiles } = yield* Effect.promise(loadFiles)
      const backend = yield* makeFiles(options.directory)
      yield* Effect.ignore(Effect.timeout(backend.sweep, yield* Timeout))
      return yield* make(backend)
    })
  )

/**
 * A store over a `KeyValueStore` of effect.
 *
 * Writers in one process are told exactly. Such a store cannot compare and swap,
 * so of writers in two processes who save in the same instant both may succeed,
 * and the later one stays: let one process at a time go on with a conversation,
 * or use another store. A process may be killed at any point, also where the
 * `KeyValueStore` sets values piece by piece.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerKeyValueStore = (options?: {
  /** What keys begin with. Default `agcore/sessions/`. */
  readonly prefix?: string | undefined
}): Layer.Layer<CycleStore, never, KeyValueStore.KeyValueStore> =>
  Layer.effect(
    CycleStore,
    Effect.promise(loadKeys).pipe(
      Effect.flatMap(({ makeKeys }) => makeKeys(options?.prefix ?? DEFAULT_PREFIX)),
      Effect.flatMap(make)
    )
  )

const DEFAULT_PREFIX = "agcore/sessions/"

// Loaded by those who use them. Effect's KeyValueStore brings its SQL client along, a tenth of what the package takes to
// start.
const loadFiles = () => import("./internal/storeFiles.ts")
const loadKeys = () => import("./internal/storeKeys.ts")

// =============================================================================
// Internals
// =============================================================================

const of = (sessionId: string) => (reason: CycleStoreErrorReason): CycleStoreError =>
  new CycleStoreError({ sessionId, reason })

const joined = (pieces: ReadonlyArray<string>): string => pieces.join("")

const newRevision = (revision: number, pieces: ReadonlyArray<string>): NewRevision => ({
  revision,
  pieces,
  get text() {
    return joined(pieces)
  }
})

const checked = (saved: SavedCycle): Result.Result<SavedCycle, NotStorable> =>
  Number.isSafeInteger(saved.revision) && saved.revision >= 1
    ? Result.succeed(saved)
    : Result.fail(new NotStorable({ issue: `its revision is ${saved.revision}, and they are counted from 1` }))

/**
 * Waits for work that must not be cut off in the middle, but not for ever: in the end it is left to itself, and may yet
 * come to its end.
 */
const finished = <A>(
  work: Effect.Effect<A, CycleStoreErrorReason>,
  timeout: Duration.Duration,
  late: Io
): Effect.Effect<A, CycleStoreErrorReason> =>
  Effect.uninterruptible(Effect.flatMap(
    Effect.forkDetach(work, { uninterruptible: true, startImmediately: true }),
    (fiber) =>
      Duration.isFinite(timeout)
        ? Effect.flatMap(
          Effect.timeoutOption(Fiber.await(fiber), timeout),
          Option.match({ onNone: () => Effect.fail(late), onSome: (exit) => exit })
        )
        : Fiber.join(fiber)
  ))
