/*
 * Conversations as files: a folder each, and in it `<revision>.json`.
 *
 * A revision is written beside its place, made durable, and then linked to it, which succeeds for one writer only and
 * shows the whole or nothing. So no lock is needed, and a process may be killed at any point. The newest revision is
 * the conversation; the one before stays, in case a disk loses what it said was written. Of older ones the names stay
 * for a while, empty: a writer that was suspended while others went on finds its revision taken.
 */
import * as WebCrypto from "effect/crypto/WebCrypto"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import type { Backend, NewRevision } from "../CycleStore.ts"
import { Conflict, Corrupt, type CycleStoreErrorReason, Io } from "../CycleStoreError.ts"
import { isWhole } from "./storeFormat.ts"
import { idOf, isHashed, nameOf } from "./storeNames.ts"

/** How many names of older revisions stay. A writer would have to sleep through as many saves to go unnoticed. */
const KEPT_NAMES = 32

/** How often reading starts again because somebody saves meanwhile. */
const MAX_READS = 20

/** How much is written in one step. Memory for all of a long conversation at once would cost more than writing it. */
const STEP_BYTES = 1_048_576

/** How many folders are looked into at a time. */
const LIST_CONCURRENCY = 8

// For their owner alone: a conversation may hold anything.
const FOLDER_MODE = 0o700
const FILE_MODE = 0o600

const REVISION = /^([1-9]\d{0,15})\.json$/
const TEMPORARY = /^(\d+)\.[0-9a-f-]{36}\.tmp$/
const REMOVED = ".removed-"

/** Holds the id of a folder whose name does not tell it, as a JSON string. */
const ID_FILE = "id.json"

export const makeFiles = Effect.fnUntraced(function*(root: string): Effect.fn.Return<
  Backend & {
    /** Finishes removals that were cut off. */
    readonly sweep: Effect.Effect<void, PlatformError>
  },
  never,
  FileSystem.FileSystem | Path.Path
> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const crypto = yield* WebCrypto.WebCrypto
  // The type is said here: without the DOM's library `crypto` has none.
  const makeToken = (): string => crypto.randomUUID()
  const directory = path.resolve(root)

  const folderOf = (sessionId: string) => Effect.map(nameOf(sessionId), (name) => path.join(directory, name))
  const fileOf = (folder: string, revision: number) => path.join(folder, `${revision}.json`)
  const namesIn = (folder: string) => orWhen(fs.readDirectory(folder), ["NotFound"], [])
  const revisionsIn = (folder: string) => Effect.map(namesIn(folder), revisionsOf)
  const remove = (file: string) => fs.remove(file, { force: true })
  const removeFolder = (folder: string) => fs.remove(folder, { recursive: true, force: true })

  // ===========================================================================
  // Reading
  // ===========================================================================

  /** `undefined` for what is no text, and for what has gone. */
  const textOf = (file: string) => Effect.map(orWhen(fs.readFile(file), ["NotFound"], undefined), decoded)

  const wholeAt = (folder: string, revision: number) =>
    Effect.map(textOf(fileOf(folder, revision)), (text) => text !== undefined && isWhole(text) ? text : undefined)

  const read = Effect.fnUntraced(function*(sessionId: string) {
    const folder = yield* folderOf(sessionId)
    for (let reads = 0; reads < MAX_READS; reads++) {
      const revisions = yield* revisionsIn(folder)
      const newest = revisions[0]
      if (newest === undefined) return undefined
      const text = yield* wholeAt(folder, newest)
      if (text !== undefined) return { revision: newest, text }
      // It has gone, or was emptied, where somebody has saved meanwhile.
      if ((yield* revisionsIn(folder))[0] === newest) return yield* readOlder(folder, revisions)
    }
    return yield* new Io({ description: "it is saved more often than it can be read" })
  })

  /**
   * The revision before a damaged one, under the number of the damaged one: that is taken for good, and nobody has
   * built on it.
   */
  const readOlder = Effect.fnUntraced(function*(folder: string, [damaged = 0, ...older]: ReadonlyArray<number>) {
    for (const revision of older) {
      const text = yield* wholeAt(folder, revision)
      if (text === undefined) continue
      yield* Effect.logWarning(
        `Revision ${damaged} of the conversation in ${folder} is damaged; it goes on from revision ${revision}.`
      )
      return { revision: damaged, text }
    }
    return yield* new Corrupt({ issue: `revision ${damaged} is damaged, and none before it is left` })
  })

  // ===========================================================================
  // Writing
  // ===========================================================================

  const createDurable = Effect.fnUntraced(function*(file: string, pieces: ReadonlyArray<string>) {
    const handle = yield* fs.open(file, { flag: "wx", mode: FILE_MODE })
    for (const step of stepsOf(pieces)) yield* handle.writeAll(step)
    yield* handle.sync
  }, Effect.scoped)

  /** Creates a file that others see whole or not at all; fails where there is one. */
  const publish = (folder: string, name: string, pieces: ReadonlyArray<string>) => {
    const temporary = path.join(folder, `${Number.parseInt(name) || 0}.${makeToken()}.tmp`)
    return createDurable(temporary, pieces).pipe(
      Effect.andThen(fs.link(temporary, path.join(folder, name))),
      Effect.ensuring(Effect.ignore(remove(temporary)))
    )
  }

  // Not every platform lets us. What is in a file is durable without it; its name may not be.
  const syncFolder = (folder: string) =>
    Effect.ignore(Effect.scoped(Effect.flatMap(fs.open(folder), (handle) => handle.sync)))

  const prepare = Effect.fnUntraced(function*(folder: string, sessionId: string) {
    yield* fs.makeDirectory(folder, { recursive: true, mode: FOLDER_MODE })
    yield* syncFolder(directory)
    if (isHashed(path.basename(folder))) {
      yield* orWhen(publish(folder, ID_FILE, [JSON.stringify(sessionId)]), ["AlreadyExists"], undefined)
    }
  })

  const write = Effect.fnUntraced(function*(sessionId: string, { pieces, revision }: NewRevision) {
    const folder = yield* folderOf(sessionId)
    const conflict = (found: number) => new Conflict({ expected: revision - 1, found })

    const [found = 0] = yield* revisionsIn(folder)
    if (found !== revision - 1) return yield* conflict(found)
    const publishing = publish(folder, `${revision}.json`, pieces)
    yield* (revision === 1 ? Effect.andThen(prepare(folder, sessionId), publishing) : publishing).pipe(
      Effect.catch((error) =>
        Effect.flatMap(
          revisionsIn(folder),
          ([found = 0]) => Effect.fail(found === revision - 1 ? error : conflict(found))
        )
      )
    )
    const names = yield* namesIn(folder)
    const revisions = revisionsOf(names)
    if (!wasFree(revisions, revision)) {
      yield* Effect.ignore(remove(fileOf(folder, revision)))
      return yield* conflict(revisions.find((each) => each !== revision) ?? 0)
    }
    yield* syncFolder(folder)
    yield* Effect.ignore(tidy(folder, names, revision))
  })

  /** Empties or removes what is older than the revision before, and removes what killed writers left. */
  const tidy = (folder: string, names: ReadonlyArray<string>, revision: number) =>
    Effect.forEach(names, (name) => {
      const file = path.join(folder, name)
      switch (fateOf(name, revision)) {
        case "stay":
          return Effect.void
        case "empty":
          return fs.truncate(file)
        case "go":
          return remove(file)
      }
    }, { discard: true })

  // ===========================================================================
  // All of them
  // ===========================================================================

  /** Gone at once for everybody, then piece by piece. */
  const removeSession = Effect.fnUntraced(function*(sessionId: string) {
    const removed = path.join(directory, REMOVED + makeToken())
    const rename = Effect.as(fs.rename(yield* folderOf(sessionId), removed), true)
    if (!(yield* orWhen(rename, ["NotFound"], false))) return
    yield* syncFolder(directory)
    yield* removeFolder(removed)
  })

  const idsAt = Effect.fnUntraced(function*(name: string) {
    const folder = path.join(directory, name)
    // What else lies here may be anything, and is not ours.
    const revisions = yield* orWhen(revisionsIn(folder), ["BadResource", "PermissionDenied"], [])
    if (revisions.length === 0) return []
    const id = isHashed(name) ? parsedString(yield* textOf(path.join(folder, ID_FILE))) : idOf(name)
    return id !== undefined && (yield* nameOf(id)) === name ? [id] : []
  })

  const sweep = Effect.flatMap(namesIn(directory), (names) =>
    Effect.forEach(
      names.filter((name) => name.startsWith(REMOVED)),
      (name) => removeFolder(path.join(directory, name)),
      { discard: true }
    ))

  return {
    sweep,
    read: (sessionId) => Effect.mapError(read(sessionId), toReason("read the conversation")),
    write: (sessionId, stored) => Effect.mapError(write(sessionId, stored), toReason("save the conversation")),
    remove: (sessionId) => Effect.mapError(removeSession(sessionId), toReason("remove the conversation")),
    list: Stream.fromArrayEffect(namesIn(directory)).pipe(
      Stream.filter((name) => idOf(name) !== undefined || isHashed(name)),
      Stream.mapEffect(idsAt, { concurrency: LIST_CONCURRENCY }),
      Stream.flatMap(Stream.fromArray),
      Stream.mapError(toReason("list the conversations"))
    )
  }
})

// =============================================================================
// Decisions
// =============================================================================

const revisionOf = (name: string): number | undefined => {
  const revision = Number(REVISION.exec(name)?.[1])
  return Number.isSafeInteger(revision) ? revision : undefined
}

/** The newest first. */
const revisionsOf = (names: ReadonlyArray<string>): ReadonlyArray<number> =>
  names.flatMap((name) => revisionOf(name) ?? []).toSorted((a, b) => b - a)

/**
 * Whether a revision that was just taken had never been taken before. It could have been, and have gone again, only if
 * its writer slept between looking and taking. Then others are far ahead, or the conversation is another one.
 */
const wasFree = (revisions: ReadonlyArray<number>, revision: number): boolean =>
  (revisions[0] ?? 0) < revision + KEPT_NAMES && (revision === 1 || revisions.includes(revision - 1))

/** What becomes of a file now that a revision is durable. What we did not write stays. */
const fateOf = (name: string, revision: number): "stay" | "empty" | "go" => {
  const temporary = TEMPORARY.exec(name)
  // Whoever still writes it would come too late.
  if (temporary !== null) return Number(temporary[1]) <= revision ? "go" : "stay"
  const age = revision - (revisionOf(name) ?? revision)
  return age > KEPT_NAMES ? "go" : age === 2 ? "empty" : "stay"
}

// =============================================================================
// Small things
// =============================================================================

const encoder = new TextEncoder()

/** UTF-8 of a text, a step at a time, in memory that the next step uses again. */
const stepsOf = function*(pieces: ReadonlyArray<string>): Iterable<Uint8Array> {
  const characters = pieces.reduce((sum, piece) => sum + piece.length, 0)
  // A character of a string takes three bytes at the most.
  const buffer = new Uint8Array(Math.min(characters * 3, STEP_BYTES))
  let length = 0
  for (let rest of pieces) {
    while (rest !== "") {
      const { read, written } = encoder.encodeInto(rest, buffer.subarray(length))
      rest = rest.slice(read)
      length += written
      if (rest === "") continue
      yield buffer.subarray(0, length)
      length = 0
    }
  }
  if (length > 0) yield buffer.subarray(0, length)
}

const decoder = new TextDecoder("utf-8", { fatal: true })

const decoded = (bytes: Uint8Array | undefined): string | undefined => {
  try {
    return bytes && decoder.decode(bytes)
  } catch {
    return undefined
  }
}

const parsedString = (text: string | undefined): string | undefined => {
  try {
    const value: unknown = JSON.parse(text ?? "")
    return typeof value === "string" ? value : undefined
  } catch {
    return undefined
  }
}

const orWhen = <A, E extends PlatformError | CycleStoreErrorReason, B>(
  effect: Effect.Effect<A, E>,
  tags: ReadonlyArray<PlatformError["reason"]["_tag"]>,
  value: B
): Effect.Effect<A | B, E> =>
  Effect.catchIf(
    effect,
    (error) => error._tag === "PlatformError" && tags.includes(error.reason._tag),
    () => Effect.succeed(value)
  )

const toReason = (task: string) => (error: PlatformError | CycleStoreErrorReason): CycleStoreErrorReason => {
  if (error._tag !== "PlatformError") return error
  const hint = error.reason.method === "link" ? "; conversations need a file system with hard links" : ""
  return new Io({ description: `could not ${task}: ${error.message}${hint}`, cause: error })
}
