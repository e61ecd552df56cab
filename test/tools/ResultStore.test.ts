import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Permission, ResultStore, ResultStoreError, type Tool } from "agcore"
import { Deferred, Effect, Fiber, FileSystem, Layer, PlatformError, Schema, type Scope } from "effect"
import { TestClock } from "effect/testing"

const bytes = (text: string) => new TextEncoder().encode(text).length

const definition: Tool.Definition = {
  name: "search",
  description: "Searches",
  inputSchema: { type: "object", properties: { query: { type: "string" } } },
  permissions: [Permission.Read, Permission.custom("mail")],
  tags: ["mail"],
  category: "office",
  version: undefined,
  readonly: true,
  destructive: false,
  idempotent: true,
  openWorld: false,
  timeout: undefined,
  needsApproval: "by-arguments"
}

const result = (text: string, sessionId = "s-1"): ResultStore.NewResult => ({
  sessionId,
  idempotencyKey: `${sessionId}/1/0`,
  tool: definition,
  input: { query: "ü" },
  mediaType: "text/plain",
  text
})

const put = (store: ResultStore.ResultStore, text: string, sessionId = "s-1") =>
  Effect.map(store.put(result(text, sessionId)), ({ handle }) => ({ sessionId, handle }))

const reasonOf = <A, R>(effect: Effect.Effect<A, ResultStoreError.ResultStoreError, R>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason)

/** All pages of one size, each checked against what is there. */
const readAll = Effect.fnUntraced(function*(
  store: ResultStore.ResultStore,
  key: ResultStore.ResultKey,
  whole: string,
  length: number
) {
  let text = ""
  let offset: number | undefined = 0
  while (offset !== undefined) {
    const page: ResultStore.Page = yield* store.read(key, { offset, length })
    assert.strictEqual(page.offset, offset)
    assert.strictEqual(page.sizeBytes, bytes(whole))
    assert.isTrue(bytes(page.text) <= length || Array.from(page.text).length === 1)
    text += page.text
    offset = page.nextOffset
    assert.isTrue(offset === undefined || offset === bytes(text))
  }
  return text
})

const Pieces = Schema.Array(Schema.Union([
  Schema.String,
  Schema.Literals(["é", "漢", "🙂", "👩‍👩‍👧", "\ufeff", "\ud83d", "\ude42", "e\u0301", "\u0000", "\n", "aA", "ab"])
]))

const map = () => {
  const kept = new Map<string, { info: ResultStore.StoredResult; text: Uint8Array }>()
  const nameOf = ({ handle, sessionId }: ResultStore.ResultKey) => `${handle} ${sessionId}`
  return ResultStore.make({
    put: (key, info, text) => Effect.sync(() => void kept.set(nameOf(key), { info, text })),
    open: (key) => {
      const found = kept.get(nameOf(key))
      return found === undefined
        ? Effect.fail(
          new ResultStoreError.ResultStoreError({ reason: new ResultStoreError.NotFound({ handle: key.handle }) })
        )
        : Effect.succeed({
          info: found.info,
          read: (offset, length) => Effect.succeed(found.text.slice(offset, offset + length))
        })
    },
    remove: (key) => Effect.sync(() => kept.delete(nameOf(key))),
    removeSession: (sessionId) =>
      Effect.sync(() => {
        const own = Array.from(kept.keys()).filter((name) => name.endsWith(` ${sessionId}`))
        for (const name of own) kept.delete(name)
        return own.length
      })
  })
}

const temporary = Effect.flatMap(
  FileSystem.FileSystem,
  (fs) => fs.makeTempDirectoryScoped({ prefix: "agcore-results-" })
)

type Platform = NodeServices.NodeServices | Scope.Scope

/** With how often a property is tried: a file is written for each. */
const stores: ReadonlyArray<
  readonly [name: string, make: Effect.Effect<ResultStore.ResultStore, unknown, Platform>, runs: number]
> = [
  ["in memory", ResultStore.makeMemory(), 100],
  ["in a directory", Effect.flatMap(temporary, (directory) => ResultStore.makeFileSystem({ directory })), 20],
  ["of one's own", Effect.sync(map), 100]
]

const onDisk = <A, E>(effect: Effect.Effect<A, E, Platform>) =>
  effect.pipe(Effect.scoped, Effect.provide(NodeServices.layer))

describe.each(stores)("a store %s", (_, make, runs) => {
  // verifies: result-store.whole
  it.effect.prop(
    "gives pages that are the whole text together and break no character",
    { pieces: Pieces, length: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 })) },
    ({ length, pieces }) =>
      Effect.gen(function*() {
        const store = yield* Effect.orDie(make)
        const text = pieces.join("")
        const key = yield* put(store, text)
        assert.strictEqual(yield* readAll(store, key, text, length), text.toWellFormed())
        assert.strictEqual((yield* store.read(key)).text, text.toWellFormed())
      }).pipe(onDisk),
    { timeout: 60_000, arbitrary: { runs } }
  )

  // verifies: result-store.whole
  it.effect.prop(
    "begins a page at the start of the character it is asked for",
    { pieces: Pieces, offset: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40 })) },
    ({ offset, pieces }) =>
      Effect.gen(function*() {
        const store = yield* Effect.orDie(make)
        const text = pieces.join("").toWellFormed()
        const page = yield* store.read(yield* put(store, text), { offset, length: 1 })
        const starts = Array.from(text, (_, index) => bytes(Array.from(text).slice(0, index).join(""))).concat(
          bytes(text)
        )
        const expected = starts.findLast((start) => start <= offset) ?? 0
        assert.strictEqual(page.offset, expected)
        assert.strictEqual(page.text, Array.from(text)[starts.indexOf(expected)] ?? "")
      }).pipe(onDisk),
    { timeout: 60_000, arbitrary: { runs } }
  )

  it.effect("says what it keeps", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_234)
      const store = yield* Effect.orDie(make)
      const stored = yield* store.put({ ...result("漢字"), tool: { ...definition, timeout: "5 seconds" } })
      assert.match(stored.handle, /^res_[0-9a-f]{24}$/)
      const info = yield* store.info({ sessionId: "s-1", handle: stored.handle })
      assert.deepStrictEqual({ ...info, tool: { ...info.tool, timeout: undefined } }, {
        handle: stored.handle,
        idempotencyKey: "s-1/1/0",
        tool: definition,
        input: { query: "ü" },
        mediaType: "text/plain",
        sizeBytes: 6,
        createdAtMillis: 1_234
      })
    }).pipe(onDisk))

  // verifies: result-store.session
  it.effect("knows no result of another session, nor a handle it never gave", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      const { handle } = yield* put(store, "secret", "s-1")
      const strangers = [
        { sessionId: "s-2", handle },
        { sessionId: "", handle },
        { sessionId: "s-1", handle: "" },
        { sessionId: "s-1", handle: handle.toUpperCase() },
        { sessionId: "s-1", handle: `${handle}\n` },
        { sessionId: "s-1", handle: `../${handle}` },
        { sessionId: "s-1", handle: "../../../../etc/passwd" },
        { sessionId: "s-1", handle: `res_${"0".repeat(24)}` },
        { sessionId: "s-1", handle: "res_\u0000" }
      ]
      for (const key of strangers) {
        const gone = new ResultStoreError.NotFound({ handle: key.handle })
        assert.deepStrictEqual(yield* reasonOf(store.info(key)), gone)
        assert.deepStrictEqual(yield* reasonOf(store.read(key)), gone)
        assert.deepStrictEqual(yield* reasonOf(store.search(key, { text: "s" })), gone)
        assert.isFalse(yield* store.remove(key))
      }
      assert.strictEqual((yield* store.read({ sessionId: "s-1", handle })).text, "secret")
    }).pipe(onDisk))

  it.effect("takes any session id, also one that would be a path", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      for (const sessionId of ["../../up", "a/b\\c", "\u0000", "漢".repeat(2_000), "CON", ""]) {
        const key = yield* put(store, sessionId, sessionId)
        assert.strictEqual((yield* store.read(key)).text, sessionId)
      }
    }).pipe(onDisk))

  it.effect("removes one result, or all of a session", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      const [first, second, other] = [yield* put(store, "1"), yield* put(store, "2"), yield* put(store, "3", "s-2")]
      assert.isTrue(yield* store.remove(first))
      assert.isFalse(yield* store.remove(first))
      assert.strictEqual((yield* reasonOf(store.read(first)))._tag, "NotFound")
      assert.strictEqual(yield* store.removeSession("s-1"), 1)
      assert.strictEqual(yield* store.removeSession("s-1"), 0)
      assert.strictEqual((yield* reasonOf(store.read(second)))._tag, "NotFound")
      assert.strictEqual((yield* store.read(other)).text, "3")
    }).pipe(onDisk))

  it.effect("refuses what makes no sense", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      const key = yield* put(store, "text")
      for (const number of [-1, 0.5, Number.NaN, Infinity, -Infinity]) {
        assert.strictEqual((yield* reasonOf(store.read(key, { offset: number })))._tag, "InvalidRequest")
        assert.strictEqual((yield* reasonOf(store.read(key, { length: number })))._tag, "InvalidRequest")
        for (const option of ["offset", "maxMatches", "contextBytes"]) {
          const searched = store.search(key, { text: "t", [option]: number })
          assert.strictEqual((yield* reasonOf(searched))._tag, "InvalidRequest")
        }
      }
      for (const text of ["", "x".repeat(1_001)]) {
        assert.strictEqual((yield* reasonOf(store.search(key, { text })))._tag, "InvalidRequest")
      }
      assert.deepStrictEqual(
        yield* store.read(key, { offset: Number.MAX_SAFE_INTEGER, length: Number.MAX_SAFE_INTEGER }),
        {
          text: "",
          offset: 4,
          nextOffset: undefined,
          sizeBytes: 4
        }
      )
      assert.strictEqual((yield* store.read(key, { offset: 1, length: Number.MAX_SAFE_INTEGER })).text, "ext")
      assert.deepStrictEqual((yield* store.search(key, { text: "t", offset: 100 })).matches, [])
    }).pipe(onDisk))

  // verifies: result-store.search
  it.effect.prop(
    "finds exactly what a search through the whole text finds",
    {
      pieces: Pieces,
      text: Schema.Literals(["a", "ab", "aa", "é", "漢", "🙂", "\n", "\ud83d", "\ufeff", ".*", "a\n"]),
      offset: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 12 }))
    },
    ({ offset, pieces, text }) =>
      Effect.gen(function*() {
        const store = yield* Effect.orDie(make)
        const whole = pieces.join("").toWellFormed()
        const needle = text.toWellFormed()
        const key = yield* put(store, whole)
        const begin = (yield* store.read(key, { offset, length: 1 })).offset
        const { matches, nextOffset } = yield* store.search(key, { text, offset, maxMatches: 100, contextBytes: 0 })
        const expected: Array<ResultStore.Match> = []
        for (let at = whole.indexOf(needle); at !== -1; at = whole.indexOf(needle, at)) {
          const place = bytes(whole.slice(0, at))
          if (place >= begin) {
            const line = whole.slice(0, at).split("\n").length
            expected.push({ offset: place, lengthBytes: bytes(needle), line, excerpt: needle })
            at += needle.length
          } else at += 1
        }
        assert.deepStrictEqual(matches, expected)
        assert.isUndefined(nextOffset)
      }).pipe(onDisk),
    { timeout: 60_000, arbitrary: { runs } }
  )

  // verifies: result-store.search
  it.effect("stops when there are enough matches, and goes on from there", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      const key = yield* put(store, "needle é\n".repeat(50))
      const lines: Array<number> = []
      let offset: number | undefined = 0
      while (offset !== undefined) {
        const found: ResultStore.Matches = yield* store.search(key, { text: "needle", maxMatches: 7, offset })
        assert.isAtMost(found.matches.length, 7)
        lines.push(...found.matches.map(({ line }) => line))
        offset = found.nextOffset
      }
      assert.deepStrictEqual(lines, Array.from({ length: 50 }, (_, index) => index + 1))
      assert.lengthOf((yield* store.search(key, { text: "needle" })).matches, 20)
    }).pipe(onDisk))

  it.effect("searches in any case when asked", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      const key = yield* put(store, "Straße STRASSE ſtrand \u212aelvin İstanbul ÉTÉ 𐐀𐐨 Σίσυφος")
      const count = (text: string, ignoreCase: boolean) =>
        Effect.map(store.search(key, { text, ignoreCase, contextBytes: 0 }), ({ matches }) =>
          matches.map((match) => match.offset))
      assert.deepStrictEqual(yield* count("été", false), [])
      assert.lengthOf(yield* count("été", true), 1)
      assert.lengthOf(yield* count("str", false), 0)
      assert.deepStrictEqual(yield* count("STR", true), [0, 8, 16])
      assert.lengthOf(yield* count("kelvin", true), 1)
      // Letters of two units, and one with two small forms.
      assert.lengthOf(yield* count("𐐨𐐀", true), 1)
      assert.lengthOf(yield* count("𐐀", true), 2)
      assert.lengthOf(yield* count("σίσυφοσ", true), 1)
    }).pipe(onDisk))

  it.effect("finds what lies across the pieces a text is read in, with what stands around it", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      // Pieces of 256 KiB: the borders fall into the middle of a match and of a character.
      for (const shift of [0, 1, 2, 3, 4, 5, 6, 7]) {
        const before = `${"x".repeat(shift)}${"🙂\n".repeat(52_428)}`
        const key = yield* put(store, `${before}NEEDLE漢${"🙂\n".repeat(60_000)}needle漢`)
        const { matches } = yield* store.search(key, { text: "needle漢", ignoreCase: true, contextBytes: 5 })
        assert.deepStrictEqual(matches.map(({ line, offset }) => [line, offset]), [
          [52_429, bytes(before)],
          [112_429, bytes(before) + 9 + 300_000]
        ])
        assert.include(matches[0]!.excerpt, "🙂\nNEEDLE漢🙂\n")
      }
    }).pipe(onDisk))

  it.effect("searches texts that would be slow to search by trying each place", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      const key = yield* put(store, `${"a".repeat(999_999)}b${"a".repeat(1_000_000)}`)
      for (
        const [text, offsets] of [
          [`b${"a".repeat(999)}`, [999_999]],
          [`${"a".repeat(999)}b`, [999_000]],
          [`${"a".repeat(499)}b${"a".repeat(500)}`, [999_500]],
          [`${"a".repeat(499)}c${"a".repeat(500)}`, []]
        ] as const
      ) {
        const { matches } = yield* store.search(key, { text, contextBytes: 0 })
        assert.deepStrictEqual(matches.map(({ offset }) => offset), offsets.slice())
        assert.isTrue(matches.every(({ excerpt }) => excerpt === text))
      }
    }).pipe(onDisk))

  it.effect("keeps results apart that are stored at once", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      const texts = Array.from({ length: 100 }, (_, index) => `${index} `.repeat(1_000))
      const keys = yield* Effect.forEach(texts, (text) => put(store, text), { concurrency: "unbounded" })
      assert.strictEqual(new Set(keys.map(({ handle }) => handle)).size, 100)
      const read = yield* Effect.forEach(keys, (key, index) => readAll(store, key, texts[index]!, 999), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(read, texts)
    }).pipe(onDisk))

  it.effect("takes the arguments a call came without", () =>
    Effect.gen(function*() {
      const store = yield* Effect.orDie(make)
      const { handle } = yield* store.put({ ...result("text"), input: undefined })
      assert.isTrue([null, undefined].includes((yield* store.info({ sessionId: "s-1", handle })).input as undefined))
    }).pipe(onDisk))
})

const bounded: ReadonlyArray<
  readonly [name: string, make: (maxBytes: number) => Effect.Effect<ResultStore.ResultStore, unknown, Platform>]
> = [
  ["in memory", (maxBytes) => ResultStore.makeMemory({ maxBytes })],
  [
    "in a directory",
    (maxBytes) => Effect.flatMap(temporary, (directory) => ResultStore.makeFileSystem({ directory, maxBytes }))
  ]
]

describe.each(bounded)("a bounded store %s", (_, make) => {
  // verifies: result-store.bounded
  it.effect("gives up the oldest for the newest, and nothing without need", () =>
    Effect.gen(function*() {
      const store = yield* make(50_000)
      const keys = yield* Effect.forEach([1, 2, 3, 4], (digit) => put(store, String(digit).repeat(10_000)))
      assert.strictEqual((yield* store.read(keys[0]!, { length: 3 })).text, "111")
      const fifth = yield* put(store, "5".repeat(20_000))
      assert.strictEqual((yield* reasonOf(store.read(keys[0]!)))._tag, "NotFound")
      assert.include((yield* Effect.flip(store.read(keys[0]!))).message, "removed to make room")
      const left = yield* Effect.forEach([...keys.slice(2), fifth], (key) => store.read(key, { length: 1 }))
      assert.deepStrictEqual(left.map(({ text }) => text), ["3", "4", "5"])
    }).pipe(onDisk))

  // verifies: result-store.bounded
  it.effect("refuses what is too large alone, and keeps the others", () =>
    Effect.gen(function*() {
      const store = yield* make(5_000)
      const key = yield* put(store, "small")
      const reason = yield* reasonOf(put(store, "x".repeat(5_000)))
      assert.isTrue(reason._tag === "TooLarge" && reason.maxBytes === 5_000 && reason.sizeBytes > 5_000)
      assert.strictEqual((yield* store.read(key)).text, "small")
      const arguments_ = yield* reasonOf(store.put({ ...result("text"), input: { text: "x".repeat(5_000) } }))
      assert.strictEqual(arguments_._tag, "TooLarge")
    }).pipe(onDisk))

  it.effect("says that arguments which are not JSON cannot be kept", () =>
    Effect.gen(function*() {
      const store = yield* make(5_000)
      assert.strictEqual((yield* reasonOf(store.put({ ...result("text"), input: { big: 1n } })))._tag, "Io")
    }).pipe(onDisk))
})

// =============================================================================
// Files
// =============================================================================

const filesIn = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  return (yield* fs.readDirectory(directory)).toSorted()
})

/** The file system, with a way of its own to write what a store writes. */
const writing = (
  writeAll: (file: FileSystem.File, bytes: Uint8Array) => Effect.Effect<void, PlatformError.PlatformError>
) =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs) => ({
      ...fs,
      open: (path: string, options?: Parameters<FileSystem.FileSystem["open"]>[1]) =>
        Effect.map(fs.open(path, options), (file): FileSystem.File =>
          options?.flag === "wx"
            ? {
              [FileSystem.FileTypeId]: FileSystem.FileTypeId,
              stat: file.stat,
              sync: file.sync,
              seek: (...args) => file.seek(...args),
              read: (...args) => file.read(...args),
              readAlloc: (...args) => file.readAlloc(...args),
              truncate: (...args) => file.truncate(...args),
              write: (...args) => file.write(...args),
              writeAll: (bytes) => writeAll(file, bytes)
            }
            : file)
    }))
  )

const full = PlatformError.systemError({
  _tag: "Unknown",
  module: "FileSystem",
  method: "writeAll",
  description: "ENOSPC: no space left on device"
})

describe("a store in a directory", () => {
  const make = Effect.fnUntraced(function*(options?: { readonly maxBytes?: number }) {
    const directory = yield* temporary
    return { directory, store: yield* ResultStore.makeFileSystem({ directory, ...options }) }
  })

  // verifies: result-store.restart
  it.effect("is there again after a restart, with the handles it gave", () =>
    Effect.gen(function*() {
      const { directory, store } = yield* make()
      const key = yield* put(store, "é\n".repeat(100_000))
      const again = yield* ResultStore.makeFileSystem({ directory })
      assert.deepStrictEqual(yield* again.info(key), yield* store.info(key))
      assert.strictEqual(yield* readAll(again, key, "é\n".repeat(100_000), 50_001), "é\n".repeat(100_000))
      assert.strictEqual((yield* reasonOf(again.read({ ...key, sessionId: "s-2" })))._tag, "NotFound")
    }).pipe(onDisk))

  // verifies: result-store.restart
  it.effect("counts what was there, and gives up the oldest of it first", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { directory, store } = yield* make()
      const keys = yield* Effect.forEach([1, 2, 3], (digit) => put(store, String(digit).repeat(10_000)))
      const [first] = yield* Effect.filter(yield* filesIn(directory), (name) =>
        Effect.map(fs.readFileString(`${directory}/${name}`), (text) => text.endsWith("2")))
      yield* fs.utimes(`${directory}/${first}`, 1, 1)
      const again = yield* ResultStore.makeFileSystem({ directory, maxBytes: 35_000 })
      const fourth = yield* put(again, "4".repeat(10_000))
      assert.strictEqual((yield* reasonOf(again.read(keys[1]!)))._tag, "NotFound")
      const left = yield* Effect.forEach([keys[0]!, keys[2]!, fourth], (key) =>
        again.read(key, { length: 1 }))
      assert.deepStrictEqual(left.map(({ text }) => text), ["1", "3", "4"])
      yield* ResultStore.makeFileSystem({ directory, maxBytes: 15_000 })
      assert.lengthOf(yield* filesIn(directory), 1)
    }).pipe(onDisk))

  // verifies: result-store.private
  it.effect("is for its owner only", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const parent = yield* temporary
      const directory = `${parent}/a/b`
      const store = yield* ResultStore.makeFileSystem({ directory })
      yield* put(store, "secret")
      const [name] = yield* filesIn(directory)
      assert.strictEqual((yield* fs.stat(directory)).mode & 0o777, 0o700)
      assert.strictEqual((yield* fs.stat(`${directory}/${name}`)).mode & 0o777, 0o600)
      assert.match(name!, /^[0-9a-f]{32}-res_[0-9a-f]{24}\.result$/)
    }).pipe(onDisk))

  it.effect("can be shared, and leaves files of others alone", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { directory, store } = yield* make()
      yield* fs.writeFileString(`${directory}/README.md`, "not a result")
      const other = yield* ResultStore.makeFileSystem({ directory, maxBytes: 1_000 })
      const key = yield* put(store, "x".repeat(2_000))
      assert.strictEqual((yield* other.read(key)).sizeBytes, 2_000)
      assert.strictEqual(yield* other.removeSession("s-1"), 1)
      assert.deepStrictEqual(yield* filesIn(directory), ["README.md"])
      assert.strictEqual((yield* reasonOf(store.read(key)))._tag, "NotFound")
    }).pipe(onDisk))

  it.effect("makes its directory again when somebody removed it", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { directory, store } = yield* make()
      const gone = yield* put(store, "1")
      yield* fs.remove(directory, { recursive: true })
      assert.strictEqual((yield* reasonOf(store.read(gone)))._tag, "NotFound")
      assert.strictEqual((yield* store.read(yield* put(store, "2"))).text, "2")
    }).pipe(onDisk))

  it.effect("says so when its directory cannot be one", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = `${yield* temporary}/file`
      yield* fs.writeFileString(directory, "")
      const reason = yield* reasonOf(ResultStore.makeFileSystem({ directory }))
      assert.strictEqual(reason._tag, "Io")
      assert.match(reason.message, /could not use the directory/)
    }).pipe(onDisk))

  // verifies: result-store.damaged
  it.effect("never takes a damaged file for a result", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { directory, store } = yield* make()
      const key = yield* put(store, "x".repeat(1_000))
      const path = `${directory}/${(yield* filesIn(directory))[0]}`
      const whole = yield* fs.readFileString(path)
      const damaged = [
        "",
        "agcore",
        whole.slice(0, -1),
        whole + "x",
        whole.replace("agcore result 1", "agcore result 2"),
        whole.replace(/\d{15}/, "999999999999999"),
        whole.replace(/\d{10}/, "9999999999"),
        whole.replace("{", "["),
        whole.replace("\"search\"", "12345678"),
        "x".repeat(5_000)
      ]
      for (const text of damaged) {
        yield* fs.writeFileString(path, text)
        const reason = yield* reasonOf(store.read(key))
        assert.strictEqual(reason._tag, "Io")
        assert.match(reason.message, /damaged|another version/)
      }
      yield* fs.writeFileString(path, whole)
      assert.strictEqual((yield* store.read(key)).text, "x".repeat(1_000))
    }).pipe(onDisk))

  // verifies: result-store.atomic
  it.effect("leaves nothing behind when the disk is full", () =>
    Effect.gen(function*() {
      let written = 0
      const { directory, store } = yield* make().pipe(
        Effect.provide(
          writing((file, bytes) => Effect.suspend(() => written++ < 1 ? file.writeAll(bytes) : Effect.fail(full)))
        )
      )
      const reason = yield* reasonOf(put(store, "x".repeat(10_000_000)))
      assert.strictEqual(reason._tag, "Io")
      assert.match(reason.message, /could not store a result.*ENOSPC/)
      assert.isAbove(written, 1)
      assert.deepStrictEqual(yield* filesIn(directory), [])
    }).pipe(onDisk))

  // verifies: result-store.atomic
  it.effect("shows no file that is not whole, and leaves none when it is interrupted", () =>
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      const { directory, store } = yield* make().pipe(
        Effect.provide(writing((file, bytes) =>
          file.writeAll(bytes).pipe(
            Effect.andThen(Deferred.succeed(begun, undefined)),
            Effect.andThen(Deferred.await(goOn))
          )
        ))
      )
      const fiber = yield* Effect.forkChild(put(store, "x".repeat(10_000_000)))
      yield* Deferred.await(begun)
      const names = yield* filesIn(directory)
      assert.lengthOf(names, 1)
      assert.match(names[0]!, /\.partial$/)
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* Deferred.succeed(goOn, undefined)
      yield* Fiber.join(interrupting)
      assert.deepStrictEqual(yield* filesIn(directory), [])
    }).pipe(onDisk))

  it.effect("removes what another process did not finish, when that was long ago", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { directory } = yield* make()
      const partial = `${directory}/${"0".repeat(32)}-res_${"0".repeat(24)}.result.partial`
      yield* fs.writeFileString(partial, "half")
      yield* fs.utimes(partial, 1_000, 1_000)
      yield* TestClock.setTime(1_000_000 + 3_600_000)
      yield* ResultStore.makeFileSystem({ directory })
      assert.lengthOf(yield* filesIn(directory), 1)
      yield* TestClock.setTime(1_000_000 + 3_600_001)
      yield* ResultStore.makeFileSystem({ directory })
      assert.deepStrictEqual(yield* filesIn(directory), [])
    }).pipe(onDisk))
})
