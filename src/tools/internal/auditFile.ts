/*
 * A chain of entries in a file that several processes may append to.
 *
 * Each append takes the lock, reads what others wrote since, puts its lines behind it, and looks whether they stand
 * where they belong. Nothing in the file is ever changed, also not what an interrupted writer has left: the next entry
 * says what it was.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Chain from "../../internal/auditChain.ts"
import * as Lines from "../../internal/auditLines.ts"
import * as Writer from "../../internal/auditWriter.ts"
import { toJson } from "../AuditEntry.ts"
import { AuditError, Broken, Busy, Unavailable } from "../AuditError.ts"
import type { Log } from "../AuditLog.ts"
import { type IsHeld, withLock } from "./auditLock.ts"

/** How far from the end of a file its last entry is looked for. */
const MAX_TAIL_BYTES = 16 * 1024 * 1024

const FIRST_TAIL_BYTES = 64 * 1024

/** The log in a file, until the scope closes. */
export const make = Effect.fnUntraced(
  function*(
    path: string,
    sync: boolean
  ): Effect.fn.Return<Log, AuditError, FileSystem.FileSystem | Scope.Scope> {
    const store = yield* open(yield* FileSystem.FileSystem, path, sync)
    const write = yield* Writer.make(
      store.append,
      () => new AuditError({ reason: new Unavailable({ description: "the log is closed" }) })
    )
    return { write: (entry) => write(toJson(entry)), head: store.head }
  }
)

/** The lines of a file, without their newlines. */
export const lines = (path: string): Stream.Stream<string, PlatformError, FileSystem.FileSystem> =>
  Stream.unwrap(
    FileSystem.FileSystem.useSync((fs) => Stream.map(Lines.lines(fs.stream(path)), ({ text }) => text))
  )

interface FileStore {
  readonly append: (entries: ReadonlyArray<Schema.Json>) => Effect.Effect<void, AuditError>
  readonly head: Effect.Effect<Chain.Head | undefined, AuditError>
}

/** What is known of the file: its chain up to `offset`. */
interface Known {
  readonly head: Chain.Head | undefined
  readonly offset: number
  /** Whether the last line ends with a newline. */
  readonly isTerminated: boolean
  /** Which file it is, where the system tells. */
  readonly ino: bigint | undefined
}

/** What stands behind the known end. */
interface Found extends Known {
  /** How long the file is, in bytes. */
  readonly size: number
  /** Text behind the last entry that is none. */
  readonly torn: ReadonlyArray<string>
  /** Whether the file ends with a newline, or is empty. */
  readonly isClosed: boolean
}

const open = Effect.fnUntraced(
  function*(
    fs: FileSystem.FileSystem,
    path: string,
    sync: boolean
  ): Effect.fn.Return<FileStore, AuditError> {
    const lockPath = `${path}.lock`
    let known: Known = { head: undefined, offset: 0, isTerminated: true, ino: undefined }

    const withFile = <A>(
      use: (file: FileSystem.File, isHeld: IsHeld) => Effect.Effect<A, AuditError | PlatformError>
    ): Effect.Effect<A, AuditError> =>
      withLock(
        fs,
        lockPath,
        (isHeld) =>
          Effect.scoped(Effect.flatMap(fs.open(path, { flag: "a+", mode: 0o600 }), (file) => use(file, isHeld)))
      ).pipe(
        Effect.catchTag("PlatformError", (cause) => fail(new Unavailable({ description: `cannot use ${path}`, cause })))
      )

    /** Reads on from the known end. */
    const catchUp = Effect.fnUntraced(function*(file: FileSystem.File) {
      const { ino, size } = yield* stat(file)
      if (known.ino !== undefined && ino !== known.ino) return yield* broken(known, "the file was exchanged")
      if (size < known.offset) return yield* broken(known, "the file was cut")
      if (size === known.offset) {
        return { ...known, ino, size, torn: [], isClosed: known.isTerminated } satisfies Found
      }
      const { progress, ...end } = yield* readOn(fs, path, known)
      if (progress.broken !== undefined) return yield* broken(progress, progress.broken.explanation)
      if (progress.torn.length > 0) {
        yield* Effect.logWarning(`The audit log ${path} ends in a line that is no entry; the next entry says so`)
      }
      return { ...end, head: progress.head, torn: progress.torn, ino } satisfies Found
    })

    const append = (entries: ReadonlyArray<Schema.Json>): Effect.Effect<void, AuditError> =>
      withFile(Effect.fnUntraced(function*(file, isHeld) {
        const found = yield* catchUp(file)
        const notes = found.torn.length === 0
          ? []
          : [yield* Chain.recovered(DateTime.formatIso(yield* DateTime.now), found.torn)]
        const sealed = yield* Chain.sealAll(found.head, [...notes, ...entries])
        const text = `${found.isClosed ? "" : "\n"}${sealed.map(({ text }) => `${text}\n`).join("")}`
        const bytes = new TextEncoder().encode(text)
        if (!(yield* isHeld)) return yield* fail(new Busy({ description: `another writer has taken over ${path}` }))
        yield* file.writeAll(bytes)
        const offset = found.size + bytes.length
        // Only somebody who does not keep to the lock can have written meanwhile.
        if ((yield* stat(file)).size !== offset) return yield* broken(known, "something else has written to the file")
        known = { head: sealed.at(-1)?.head ?? found.head, offset, isTerminated: true, ino: found.ino }
        if (sync) yield* file.sync
      }))

    known = yield* withFile(Effect.fnUntraced(function*(file) {
      const { ino, size } = yield* stat(file)
      known = { ...(yield* findEnd(fs, path, size)), ino }
      yield* catchUp(file)
      return known
    }))

    return { append, head: Effect.map(withFile(catchUp), ({ head }) => head) }
  }
)

const fail = (reason: AuditError["reason"]): Effect.Effect<never, AuditError> => Effect.fail(new AuditError({ reason }))

const broken = ({ head }: { readonly head: Chain.Head | undefined }, explanation: string) =>
  fail(new Broken({ entries: head?.count ?? 0, explanation }))

const stat = (file: FileSystem.File) =>
  Effect.map(file.stat, (info) => ({ size: Number(info.size), ino: Option.getOrUndefined(info.ino) }))

const linesFrom = (fs: FileSystem.FileSystem, path: string, offset: number) => Lines.lines(fs.stream(path, { offset }))

const readOn = (fs: FileSystem.FileSystem, path: string, known: Known) => {
  // The newline that the last entry lacks is no line.
  let isRest = !known.isTerminated
  return Stream.runFoldEffect(
    linesFrom(fs, path, known.offset),
    () => ({
      progress: Chain.begin(known.head),
      size: known.offset,
      offset: known.offset,
      isTerminated: known.isTerminated,
      isClosed: known.isTerminated
    }),
    (state, line) => {
      const size = state.size + line.bytes
      if (isRest && line.bytes === 1) {
        isRest = false
        return Effect.succeed({ ...state, size, offset: size, isTerminated: true, isClosed: true })
      }
      isRest = false
      return Effect.map(Chain.next(state.progress, line.text), (progress) => ({
        ...state,
        progress,
        size,
        isClosed: line.isTerminated,
        ...(progress.head === state.progress.head ? undefined : { offset: size, isTerminated: line.isTerminated })
      }))
    }
  )
}

/** Finds the last entry of a file, judged by itself: whether all before it are in order is for `verify` to say. */
const findEnd = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string, size: number) {
  for (let tail = FIRST_TAIL_BYTES;; tail = tail * 8) {
    const start = Math.max(0, size - Math.min(tail, MAX_TAIL_BYTES))
    let position = start
    let end: { head: Chain.Head; offset: number; isTerminated: boolean } | undefined
    yield* Stream.runForEach(linesFrom(fs, path, start), (line) => {
      position += line.bytes
      const offset = position
      return Effect.map(Chain.read(line.text), (result) => {
        if (Result.isSuccess(result)) {
          const { count, hash } = result.success
          end = { head: { count, hash }, offset, isTerminated: line.isTerminated }
        }
      })
    })
    if (end !== undefined) return end
    if (start === 0) return { head: undefined, offset: 0, isTerminated: true }
    if (tail >= MAX_TAIL_BYTES) return yield* broken({ head: undefined }, "no entry was found at the end of the file")
  }
})
