/*
 * What is special about conversations in files: what lies in the directory, who may read it, and what becomes of it when
 * a process ends or a disk fails.
 */
import { assert, describe, it } from "@effect/vitest"
import { CycleStore, type CycleStoreError } from "agcore"
import { Deferred, Duration, Effect, Fiber, FileSystem, Logger, Path, PlatformError, References, Schema } from "effect"
import { Prompt } from "effect/ai"
import { conversation, list, loadSame, reasonOf, saveUpTo, scoped, type Store, storeOf } from "../suites/cycleStore.ts"
import { settle } from "../tools/support.ts"

// =============================================================================
// Helpers
// =============================================================================

/** One operation on a file. It may be done, or not. */
type Around = <A, E, R>(name: string, file: string, operation: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** A file system whose operations are watched; writing is two of them. */
const watched = (fs: FileSystem.FileSystem, around: Around): FileSystem.FileSystem => ({
  ...fs,
  makeDirectory: (path, options) => around("makeDirectory", path, fs.makeDirectory(path, options)),
  readDirectory: (path, options) => around("readDirectory", path, fs.readDirectory(path, options)),
  readFile: (path) => around("readFile", path, fs.readFile(path)),
  link: (from, to) => around("link", to, fs.link(from, to)),
  remove: (path, options) => around("remove", path, fs.remove(path, options)),
  rename: (from, to) => around("rename", from, fs.rename(from, to)),
  truncate: (path, length) => around("truncate", path, fs.truncate(path, length)),
  open: (path, options) =>
    Effect.map(around("open", path, fs.open(path, options)), (file): FileSystem.File =>
      Object.create(file, {
        writeAll: {
          value: (bytes: Uint8Array) => {
            const middle = Math.floor(bytes.length / 2)
            return around("write", path, file.writeAll(bytes.subarray(0, middle))).pipe(
              Effect.andThen(around("write", path, file.writeAll(bytes.subarray(middle))))
            )
          }
        },
        sync: { value: around("sync", path, file.sync) }
      }))
})

const makePlace = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* fs.makeTempDirectoryScoped()
  const directory = path.join(root, "not", "there")
  const open = storeOf(CycleStore.layerFileSystem({ directory })).pipe(
    // Some never come to their end.
    Effect.provideService(CycleStore.Timeout, Duration.infinity)
  )
  return {
    fs,
    root,
    directory,
    open,
    store: yield* open,
    at: (...names: ReadonlyArray<string>) => path.join(directory, ...names),
    /** A store of another process, whose operations are watched. */
    openWatched: (around: Around) => Effect.provideService(open, FileSystem.FileSystem, watched(fs, around)),
    put: (file: string, text: string | Uint8Array) =>
      fs.makeDirectory(path.dirname(path.join(directory, file)), { recursive: true }).pipe(
        Effect.andThen(
          typeof text === "string"
            ? fs.writeFileString(path.join(directory, file), text)
            : fs.writeFile(path.join(directory, file), text)
        )
      ),
    names: (folder: string) => Effect.map(fs.readDirectory(path.join(directory, folder)), (names) => names.toSorted())
  }
})

const saved = (revision: number, text = `revision ${revision}`) =>
  conversation({
    revision,
    messages: [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text })] })]
  })

/** What is logged while an effect runs. */
const logsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const lines: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => lines.push(`${logLevel} ${String(message)}`))
    return Effect.map(
      Effect.provideService(effect, References.CurrentLoggers, new Set([logger])),
      (value) => ({ value, lines })
    )
  })

const denied = (method: string) =>
  PlatformError.systemError({
    _tag: "PermissionDenied",
    module: "FileSystem",
    method,
    description: "operation not permitted"
  })

// =============================================================================
// The directory
// =============================================================================

describe("the directory of a store", () => {
  // verifies: store.private
  it.effect("is made with the first save, for its owner alone", () =>
    scoped(Effect.gen(function*() {
      const { at, directory, fs, open, root, store } = yield* makePlace
      yield* store.load("a")
      yield* store.remove("a")
      yield* list(store)
      yield* open
      assert.deepStrictEqual(yield* fs.readDirectory(root), [])
      yield* saveUpTo(store, 3)
      const modeOf = (path: string) => Effect.map(fs.stat(path), ({ mode }) => (mode & 0o777).toString(8))
      assert.strictEqual(yield* modeOf(directory), "700")
      assert.strictEqual(yield* modeOf(at("a")), "700")
      assert.strictEqual(yield* modeOf(at("a", "3.json")), "600")
    })))

  it.effect("holds whatever an id says, under names that every file system takes", () =>
    scoped(Effect.gen(function*() {
      const { directory, fs, names, root, store } = yield* makePlace
      const ids = [
        "",
        ".",
        "..",
        "../../x",
        "/x",
        "a/../../b",
        "C:\\x",
        "con",
        "NUL",
        "x".repeat(5_000),
        "ÄÖ",
        "ä",
        "A",
        "a"
      ]
      for (const sessionId of ids) yield* store.save(conversation({ sessionId }))
      assert.deepStrictEqual(yield* fs.readDirectory(root), ["not"])
      assert.deepStrictEqual(yield* fs.readDirectory(`${root}/not`), ["there"])
      const folders = yield* fs.readDirectory(directory)
      assert.strictEqual(folders.length, ids.length)
      for (const folder of folders) {
        assert.match(folder, /^[a-z0-9_%-]{1,120}$/)
        assert.notMatch(folder, /^(con|nul)$/)
        assert.include(yield* names(folder), "1.json")
      }
    })))

  it.effect("may hold things of others", () =>
    scoped(Effect.gen(function*() {
      const { names, put, store } = yield* makePlace
      const others = [
        "a/.DS_Store",
        "a/0.json",
        "a/01.json",
        "a/7.json.bak",
        "a/99999999999999999999.json",
        "a/1e3.json",
        "a/notes.tmp"
      ]
      for (
        const file of [".DS_Store", "README.md", "Upper/1.json", "b%2/1.json", `%h${"0".repeat(64)}/1.json`, ...others]
      ) {
        yield* put(file, "{}")
      }
      assert.isUndefined(yield* store.load("a"))
      assert.deepStrictEqual(yield* list(store), [])
      yield* saveUpTo(store, 40)
      assert.strictEqual((yield* store.load("a"))?.revision, 40)
      assert.deepStrictEqual(yield* list(store), ["a"])
      assert.includeMembers(yield* names("a"), others.map((file) => file.slice(2)))
    })))

  it.effect("grows with its conversations, and not with their revisions", () =>
    scoped(Effect.gen(function*() {
      const { at, fs, names, store } = yield* makePlace
      yield* saveUpTo(store, 50, saved(1))
      const sizes = yield* Effect.forEach(yield* names("a"), (name) =>
        Effect.map(fs.stat(at("a", name)), ({ size }) => Number(size)))
      assert.isBelow(sizes.length, 40)
      assert.lengthOf(
        sizes.filter((size) =>
          size > 0
        ),
        2
      )
    })))

  it.effect("that cannot be used is an Io, and what was stored stays", () =>
    scoped(Effect.gen(function*() {
      const { at, fs, names, openWatched, put, store } = yield* makePlace
      yield* put("README.md", "")
      // A file is where the folder of a conversation would be.
      yield* put("b", "")
      for (
        const operation of [store.load("b"), store.save(conversation({ sessionId: "b" }))] as ReadonlyArray<
          Effect.Effect<unknown, CycleStoreError.CycleStoreError>
        >
      ) {
        const reason = yield* reasonOf(operation)
        assert.strictEqual(reason._tag, "Io")
        assert.include(reason.message, at("b"))
      }
      yield* store.save(saved(1))
      for (const broken of ["open", "write", "sync", "link", "readDirectory"]) {
        const failing = yield* openWatched((name, file, operation) =>
          name === broken && (name !== "sync" || file.endsWith(".tmp"))
            // The type of an operation says nothing of how it fails.
            ? Effect.fail(denied(name)) as unknown as typeof operation
            : operation
        )
        const reason = yield* reasonOf(failing.save(saved(2)))
        assert.strictEqual(reason._tag, "Io", broken)
        assert.match(reason.message, /could not save the conversation: PermissionDenied/)
        assert.strictEqual(reason.message.includes("hard links"), broken === "link")
        yield* loadSame(store, saved(1))
        assert.deepStrictEqual(yield* names("a"), ["1.json"])
      }
      // What comes after the save is made may fail.
      const untidy = yield* openWatched((name, file, operation) =>
        name === "truncate" || (name === "sync" && !file.endsWith(".tmp"))
          ? Effect.fail(denied(name)) as unknown as typeof operation
          : operation
      )
      yield* untidy.save(saved(2))
      yield* untidy.save(saved(3))
      yield* loadSame(store, saved(3))
      assert.isTrue(yield* fs.exists(at("README.md")))
    })))
})

// =============================================================================
// Damage
// =============================================================================

describe("a damaged file", () => {
  const bytesOf = (text: string) => new TextEncoder().encode(text)

  // verifies: store.damage
  it.effect("costs one revision, is told, and is never the base of another", () =>
    scoped(Effect.gen(function*() {
      const whole = yield* CycleStore.encode(saved(2))
      const damages: ReadonlyArray<Uint8Array> = [
        bytesOf(""),
        bytesOf(whole.slice(0, 1)),
        bytesOf(whole.slice(0, whole.length / 2)),
        bytesOf(whole.slice(0, -2)),
        bytesOf(whole).fill(0, 100),
        bytesOf(whole).fill(0),
        bytesOf(whole).fill(0xff, 40, 60)
      ]
      for (const damage of damages) {
        const { open, put, store } = yield* makePlace
        yield* saveUpTo(store, 2, saved(1))
        yield* put("a/2.json", damage)
        const { lines, value } = yield* logsOf(loadSame(store, { ...saved(1), revision: 2 }))
        assert.lengthOf(lines, 1)
        assert.match(
          lines[0] ?? "",
          /^Warn Revision 2 of the conversation in .*a is damaged; it goes on from revision 1\./
        )
        // Its number is taken.
        assert.deepInclude(yield* reasonOf(store.save(saved(2))), { _tag: "Conflict", found: 2 })
        yield* store.save({ ...value, revision: 3 })
        yield* loadSame(yield* open, { ...saved(1), revision: 3 })
      }
    })))

  it.effect("is the end where it is the only one, until it is removed", () =>
    scoped(Effect.gen(function*() {
      const { put, store } = yield* makePlace
      yield* put("a/1.json", "{\"format\":1,\"cy")
      const reason = yield* reasonOf(store.load("a"))
      assert.strictEqual(reason._tag, "Corrupt")
      assert.match(reason.message, /revision 1 is damaged, and none before it is left/)
      yield* store.remove("a")
      yield* saveUpTo(store, 1)
    })))

  it.effect("that is whole, but no conversation, is not passed over", () =>
    scoped(Effect.gen(function*() {
      const { at, fs, put, store } = yield* makePlace
      yield* saveUpTo(store, 1)
      yield* put("a/2.json", "{\"format\":1,\"cycle\":{}}\n")
      assert.strictEqual((yield* reasonOf(store.load("a")))._tag, "Corrupt")
      // As if somebody had copied a folder.
      yield* put("b/1.json", yield* fs.readFileString(at("a", "1.json")))
      assert.match((yield* reasonOf(store.load("b"))).message, /it is the conversation "a"/)
    })))
})

describe("a file of another version", () => {
  it.effect("of the future is refused and not touched", () =>
    scoped(Effect.gen(function*() {
      const { at, fs, names, put, store } = yield* makePlace
      const text = "{\"format\":99,\"whatever\":[]}\n"
      yield* put("a/3.json", text)
      assert.deepInclude(yield* reasonOf(store.load("a")), { _tag: "UnsupportedFormat", found: 99, supported: 1 })
      assert.deepInclude(yield* reasonOf(store.save(saved(1))), { _tag: "Conflict", found: 3 })
      assert.deepStrictEqual(yield* names("a"), ["3.json"])
      assert.strictEqual(yield* fs.readFileString(at("a", "3.json")), text)
    })))

  it.effect("of the past is migrated, and stays as it is until the next save", () =>
    scoped(Effect.gen(function*() {
      const { at, fs, put, store } = yield* makePlace
      const messages = yield* Schema.encodeEffect(Prompt.Prompt)(Prompt.fromMessages(saved(1).messages))
      const text = JSON.stringify(messages.content, null, 2)
      yield* put("a/1.json", text)
      assert.deepStrictEqual(yield* list(store), ["a"])
      const loaded = yield* loadSame(store, saved(1))
      assert.strictEqual(yield* fs.readFileString(at("a", "1.json")), text)
      yield* store.save({ ...loaded, revision: 2 })
      assert.include(yield* fs.readFileString(at("a", "2.json")), "{\"format\":1,")
    })))
})

// =============================================================================
// Processes that end, sleep and overtake each other
// =============================================================================

/** Many saves, on a machine that is busy. */
const SLOW = { timeout: 120_000 }

describe("a process", SLOW, () => {
  /** Does something up to a number of steps, and then nothing any more; says whether it came to its end. */
  const makeDying = Effect.fnUntraced(function*(
    openWatched: Effect.Success<typeof makePlace>["openWatched"],
    steps: number
  ) {
    const ended = yield* Deferred.make<boolean>()
    let left = Number.POSITIVE_INFINITY
    const store = yield* openWatched((_, __, operation) =>
      Effect.suspend(() => left-- > 0 ? operation : Effect.andThen(Deferred.succeed(ended, false), Effect.never))
    )
    left = steps
    return (use: (store: Store) => Effect.Effect<void, CycleStoreError.CycleStoreError>) =>
      Effect.forkDetach(Effect.andThen(use(store), Deferred.succeed(ended, true))).pipe(
        Effect.andThen(Deferred.await(ended))
      )
  })

  // verifies: store.crash
  it.effect("may end at any point of a save", () =>
    scoped(Effect.gen(function*() {
      for (const revision of [1, 2, 5]) {
        for (let steps = 0, isOver = false; !isOver; steps++) {
          const { names, open, openWatched, store } = yield* makePlace
          yield* Effect.forEach(Array.from({ length: revision - 1 }, (_, index) => index + 1), (each) =>
            store.save(saved(each)))
          const dying = yield* makeDying(openWatched, steps)
          isOver = yield* dying((store) =>
            store.save(saved(revision))
          )

          const next = yield* open
          const loaded = yield* next.load("a")
          const found = loaded?.revision ?? 0
          assert.include(isOver ? [revision] : [revision - 1, revision], found)
          if (found > 0) {
            yield* loadSame(next, saved(found))
          }
          // Whoever goes on cleans up.
          yield* next.save(saved(found + 1))
          yield* loadSame(next, saved(found + 1))
          yield* next.save(saved(found + 2))
          assert.deepStrictEqual(
            (yield* names("a")).filter((name) => name.endsWith(".tmp")),
            []
          )
        }
      }
    })))

  it.effect("may end at any point of a removal", () =>
    scoped(Effect.gen(function*() {
      for (let steps = 0, isOver = false; !isOver; steps++) {
        const { directory, fs, open, openWatched, store } = yield* makePlace
        yield* store.save(saved(1))
        const dying = yield* makeDying(openWatched, steps)
        isOver = yield* dying((store) => store.remove("a"))
        const next = yield* open
        const loaded = yield* next.load("a")
        if (loaded !== undefined) yield* loadSame(next, saved(1))
        // What was left of it is gone as well.
        assert.deepStrictEqual(yield* fs.readDirectory(directory), loaded === undefined ? [] : ["a"])
      }
    })))

  /** Saves a revision, and stops until it is let go: before it writes, before it takes its place, or after that. */
  const makeSleeper = Effect.fnUntraced(function*(
    { openWatched }: Effect.Success<typeof makePlace>,
    revision: number,
    at: "open" | "link" | "readDirectory"
  ) {
    const asleep = yield* Deferred.make<void>()
    const awake = yield* Deferred.make<void>()
    let isLinked = false
    const store = yield* openWatched((name, file, operation) =>
      Effect.suspend(() => {
        const isHere = name === at && (name === "readDirectory" ? isLinked : file.includes(`${revision}.`))
        if (name === "link") isLinked = true
        return isHere
          ? Effect.andThen(Effect.andThen(Deferred.succeed(asleep, undefined), Deferred.await(awake)), operation)
          : operation
      })
    )
    const fiber = yield* Effect.forkChild(Effect.result(store.save(saved(revision, "late"))))
    yield* Deferred.await(asleep)
    return { wake: Effect.andThen(Deferred.succeed(awake, undefined), Fiber.join(fiber)) }
  })

  const saveMore = (store: Store, first: number, count: number) =>
    Effect.forEach(Array.from({ length: count }, (_, index) => index + first), (each) => store.save(saved(each)), {
      discard: true
    })

  for (const at of ["open", "link"] as const) {
    it.effect(
      `that sleeps in the middle of a save (${at}) is told, however far the others are`,
      () =>
        scoped(Effect.gen(function*() {
          for (
            const [before, others] of [[2, 1], [2, 2], [2, 31], [2, 33], [2, 40], [0, 1], [0, 33], [0, 40]] as const
          ) {
            const place = yield* makePlace
            yield* saveUpTo(place.store, before)
            const { wake } = yield* makeSleeper(place, before + 1, at)
            yield* saveMore(place.store, before + 1, others)
            const reason = yield* reasonOf(Effect.flatMap(wake, Effect.fromResult))
            const last = before + others
            assert.deepInclude(reason, { _tag: "Conflict", expected: before, found: last }, `${others} after ${before}`)
            yield* loadSame(place.store, saved(last))
            yield* place.store.save(saved(last + 1))
            const names = yield* place.names("a")
            assert.deepStrictEqual(names.filter((name) => name.endsWith(".tmp")), [])
          }
        }))
    )
  }

  it.effect(
    "that sleeps when its save is made is not told otherwise because others have gone on",
    () =>
      scoped(Effect.gen(function*() {
        for (const others of [0, 1, 2, 10, 31]) {
          const place = yield* makePlace
          yield* saveUpTo(place.store, 2)
          const { wake } = yield* makeSleeper(place, 3, "readDirectory")
          assert.strictEqual((yield* place.store.load("a"))?.revision, 3)
          yield* saveMore(place.store, 4, others)
          yield* Effect.flatMap(wake, Effect.fromResult)
          if (others > 0) yield* loadSame(place.store, saved(others + 3))
        }
      }))
  )

  it.effect("that sleeps through a removal does not bring the conversation back", () =>
    scoped(Effect.gen(function*() {
      for (const again of [0, 1, 3]) {
        const place = yield* makePlace
        for (const at of ["open", "link"] as const) {
          yield* place.store.remove("a")
          yield* saveUpTo(place.store, 2)
          const { wake } = yield* makeSleeper(place, 3, at)
          yield* place.store.remove("a")
          yield* saveMore(place.store, 1, again)
          const reason = yield* reasonOf(Effect.flatMap(wake, Effect.fromResult))
          assert.deepInclude(reason, { _tag: "Conflict", expected: 2, found: again })
          if (again === 0) assert.isUndefined(yield* place.store.load("a"))
          else yield* loadSame(place.store, saved(again))
        }
      }
    })))

  it.effect("reads the newest, also when it is overtaken", () =>
    scoped(Effect.gen(function*() {
      for (const others of [1, 2, 5, 50]) {
        const place = yield* makePlace
        yield* saveUpTo(place.store, 2)
        let isFirst = true
        const slow = yield* place.openWatched((name, _, operation) => {
          if (name !== "readFile" || !isFirst) return operation
          isFirst = false
          return Effect.andThen(
            Effect.orDie(Effect.forEach(
              Array.from({ length: others }, (_, index) => index + 3),
              (each) => place.store.save(saved(each))
            )),
            operation
          )
        })
        const { lines, value } = yield* logsOf(slow.load("a"))
        // What was there when it looked, or what is there now; not something in between.
        assert.include([2, others + 2], value?.revision)
        assert.deepStrictEqual(lines, [])
      }
    })))

  it.effect("gives up reading what never stands still", () =>
    scoped(Effect.gen(function*() {
      const place = yield* makePlace
      yield* place.store.save(saved(1))
      let revision = 1
      const slow = yield* place.openWatched((name, _, operation) =>
        name === "readFile"
          ? Effect.orDie(Effect.forEach([1, 2, 3], () => place.store.save(saved(++revision)))).pipe(
            Effect.andThen(operation)
          )
          : operation
      )
      assert.match((yield* reasonOf(slow.load("a"))).message, /saved more often than it can be read/)
      yield* settle
    })))
})
