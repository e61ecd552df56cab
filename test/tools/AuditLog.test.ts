import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { AuditEntry, AuditError, AuditLog } from "agcore"
import { Clock, Effect, Exit, Fiber, FileSystem, Layer, PlatformError, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as ChildProcess from "node:child_process"
import * as Path from "node:path"

const writer = Path.resolve(import.meta.dirname, "../fixtures/audit/writer.ts")

// Nothing here waits for a time to pass; a loaded machine starts processes slowly.
const TIMEOUT = 120_000

const entry = (index: number, args: Schema.Json = { index }) =>
  new AuditEntry.CallDecided({
    invocationId: `i-${index}`,
    at: "2026-01-01T00:00:00.000Z",
    sessionId: "session",
    traceId: "trace",
    turn: 1,
    index,
    toolCallId: `call-${index}`,
    toolName: "tool",
    verdict: new AuditEntry.Allowed(),
    arguments: args
  })

/** A path in a folder of its own, which goes with the scope. */
const tempPath = FileSystem.FileSystem.use((fs) =>
  Effect.map(fs.makeTempDirectoryScoped(), (folder) => `${folder}/audit.jsonl`)
)

/** Opens the log for as long as the effect runs. */
const withLog = <A, E, R>(path: string, use: (log: AuditLog.Log) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(AuditLog.AuditLog, (log) => use(log!)).pipe(
    Effect.provide(AuditLog.layerJsonLines({ path, sync: false }))
  )

const writeAll = (path: string, entries: ReadonlyArray<AuditEntry.AuditEntry>) =>
  withLog(path, (log) => Effect.forEach(entries, log.write, { discard: true }))

const linesOf = (path: string) =>
  FileSystem.FileSystem.use((fs) => Effect.map(fs.readFileString(path), (text) => text.trimEnd().split("\n")))

const verify = (lines: ReadonlyArray<string>, anchor?: AuditLog.Head | string) =>
  AuditLog.verify(Stream.fromIterable(lines), { anchor })

const damage = (lines: ReadonlyArray<string>, anchor?: AuditLog.Head | string) =>
  Effect.map(verify(lines, anchor), ({ broken }) => broken && `${broken.line} ${broken.kind}`)

/** A log of six entries, made once. */
const SIX = Effect.runSync(Effect.cached(
  Effect.gen(function*() {
    const path = yield* tempPath
    yield* writeAll(path, Array.from({ length: 6 }, (_, index) => entry(index, { index, text: `ä "${index}"` })))
    return yield* linesOf(path)
  }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
))

/** Lets real files do their work, and time pass, until the fiber has ended. */
const elapse = <A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<A, E> =>
  Effect.gen(function*() {
    while (fiber.pollUnsafe() === undefined) {
      yield* TestClock.adjust("2 millis")
      yield* Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 1)))
    }
    return yield* Fiber.join(fiber)
  })

describe("AuditLog", () => {
  describe("verify", () => {
    it.effect("takes an empty log and one in order", () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* verify([]), { head: undefined, broken: undefined, recovered: [] })
        const report = yield* verify(yield* SIX)
        assert.strictEqual(report.head?.count, 6)
        assert.match(report.head!.hash, /^[\da-f]{64}$/)
        assert.isUndefined(report.broken)
      }))

    // verifies: audit.tampering
    it.effect("finds the first line that was changed, removed, moved, added or exchanged", () =>
      Effect.gen(function*() {
        const lines = yield* SIX
        const without = (index: number) => lines.toSpliced(index, 1)
        for (const index of [0, 2, 5]) {
          const edited = lines.with(index, lines[index]!.replace(`"text":"ä`, `"text":"b`))
          assert.strictEqual(yield* damage(edited), `${index + 1} edited`)
        }
        assert.strictEqual(yield* damage(without(0)), "1 missing")
        assert.strictEqual(yield* damage(without(3)), "4 missing")
        assert.strictEqual(yield* damage(lines.with(1, lines[2]!).with(2, lines[1]!)), "2 missing")
        assert.strictEqual(yield* damage(lines.toSpliced(4, 0, lines[1]!)), "5 reordered")
        assert.strictEqual(yield* damage(lines.toSpliced(4, 0, lines[3]!)), "5 reordered")
        assert.strictEqual(yield* damage(lines.toSpliced(4, 0, "{}")), "5 malformed")
        assert.strictEqual(yield* damage(lines.toSpliced(4, 0, "nothing")), "5 unreadable")
        assert.strictEqual(yield* damage(lines.toSpliced(4, 0, "")), "5 unreadable")
        assert.strictEqual(yield* damage([...lines, "{\"entry\":"]), "7 unreadable")
      }))

    it.effect("finds a line that was written anew with a hash of its own", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        yield* writeAll(path, Array.from({ length: 6 }, (_, index) => entry(index, { forged: index })))
        const forged = yield* linesOf(path)
        const lines = yield* SIX
        assert.strictEqual(yield* damage(lines.with(0, forged[0]!)), "2 replaced")
        assert.strictEqual(yield* damage(lines.with(3, forged[3]!)), "4 replaced")
        // Nothing follows it, so nothing tells; what was noted does.
        assert.isUndefined(yield* damage(forged))
        const { head } = yield* verify(lines)
        assert.strictEqual(yield* damage(forged, head), "7 cut")
      }).pipe(Effect.provide(NodeServices.layer)))

    // verifies: audit.form
    it.effect("takes a line in no other form than the one it was written in", () =>
      Effect.gen(function*() {
        const lines = yield* SIX
        const line = lines[2]!
        const others = [
          ` ${line}`,
          `${line} `,
          `${line}\r`,
          `\uFEFF${line}`,
          line.replace("\"ä", "\"\\u00e4"),
          line.replace("{\"entry\":", "{\"entry\":null,\"entry\":"),
          line.replace("\"sequence\":3", "\"sequence\":3.0"),
          JSON.stringify(JSON.parse(line), null, 1).replaceAll("\n", "")
        ]
        for (const other of others) {
          assert.notStrictEqual(other, line)
          assert.match((yield* damage(lines.with(2, other))) ?? "", /^3 (edited|unreadable)$/, other)
        }
        assert.strictEqual(yield* damage(lines.with(2, line.replace("\"version\":1", "\"version\":2"))), "3 malformed")
      }))

    it.effect("names a newer version", () =>
      Effect.gen(function*() {
        const [line] = yield* SIX
        const { broken } = yield* verify([line!.replace("\"version\":1", "\"version\":2")])
        assert.strictEqual(broken?.explanation, "it is of version 2, and only version 1 is known")
      }))

    it.effect("survives JSON nested as deep as nobody writes it", () =>
      Effect.gen(function*() {
        const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`
        const line = `{"entry":${deep},"hash":"","previous":null,"sequence":1,"version":1}`
        assert.strictEqual(yield* damage([line]), "1 malformed")
      }))

    // verifies: audit.anchor
    it.effect("finds an end that was cut off if it is told what was there", () =>
      Effect.gen(function*() {
        const lines = yield* SIX
        const { head } = yield* verify(lines)
        const { head: third } = yield* verify(lines.slice(0, 3))
        assert.isUndefined(yield* damage(lines.slice(0, 4)))
        assert.strictEqual(yield* damage(lines.slice(0, 4), head), "5 cut")
        assert.strictEqual(yield* damage([], head), "1 cut")
        // What was noted may be followed by more.
        assert.isUndefined(yield* damage(lines, third))
        assert.isUndefined(yield* damage(lines, head!.hash.toUpperCase()))
        assert.strictEqual(yield* damage(lines, { ...head!, count: 5 }), "7 cut")
        // Damage comes first.
        assert.strictEqual(yield* damage(lines.toSpliced(1, 1), head), "2 missing")
      }))

    const Change = Schema.Struct({
      line: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 })),
      at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 300 })),
      length: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 })),
      text: Schema.String.check(Schema.isMaxLength(3))
    })

    it.effect.prop("finds whatever else is changed", { change: Change }, ({ change }) =>
      Effect.gen(function*() {
        const lines = yield* SIX
        const line = lines[change.line]!
        const changed = lines.with(
          change.line,
          line.slice(0, change.at) + change.text.replaceAll("\n", "") + line.slice(change.at + change.length)
        )
        if (changed[change.line] === line) return
        assert.strictEqual((yield* verify(changed)).broken?.line, change.line + 1)
      }))
  })

  describe("layerJsonLines", () => {
    // verifies: audit.continues
    it.effect("goes on where the file ended", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        yield* writeAll(path, [entry(0), entry(1)])
        yield* writeAll(path, [])
        yield* writeAll(path, [entry(2)])
        const { broken, head } = yield* AuditLog.verifyFile(path)
        assert.isUndefined(broken)
        assert.strictEqual(head?.count, 3)
        assert.deepStrictEqual(yield* withLog(path, (log) => log.head), head)
        const lines = yield* linesOf(path)
        const decoded = yield* Schema.decodeUnknownEffect(AuditEntry.AuditEntry)(JSON.parse(lines[1]!).entry)
        assert.deepStrictEqual(decoded, entry(1))
      }).pipe(Effect.provide(NodeServices.layer)))

    it.effect("finds the end of a long file", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        yield* writeAll(path, [entry(0), entry(1, "x".repeat(200_000))])
        yield* writeAll(path, [entry(2)])
        assert.strictEqual((yield* AuditLog.verifyFile(path)).head?.count, 3)
      }).pipe(Effect.provide(NodeServices.layer)))

    it.effect("is for its owner alone, and leaves no lock behind", () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const path = yield* tempPath
        yield* writeAll(path, [entry(0)])
        assert.strictEqual((yield* fs.stat(path)).mode & 0o777, 0o600)
        assert.deepStrictEqual(yield* fs.readDirectory(Path.dirname(path)), ["audit.jsonl"])
      }).pipe(Effect.provide(NodeServices.layer)))

    it.effect("writes at once what comes at the same time", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        let opened = 0
        const fs = yield* FileSystem.FileSystem
        const counting = Layer.succeed(FileSystem.FileSystem, {
          ...fs,
          open: (...parameters) => Effect.suspend(() => (opened++, fs.open(...parameters)))
        })
        yield* withLog(path, (log) =>
          Effect.forEach(
            Array.from({ length: 1_000 }, (_, index) => entry(index)),
            log.write,
            {
              concurrency: "unbounded",
              discard: true
            }
          )).pipe(Effect.provide(counting))
        assert.strictEqual((yield* AuditLog.verifyFile(path)).head?.count, 1_000)
        assert.isBelow(opened, 10)
      }).pipe(Effect.provide(NodeServices.layer)))

    // verifies: audit.torn
    it.effect("accounts for a line that was left half written, wherever it was cut", () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const path = yield* tempPath
        yield* writeAll(path, [entry(0), entry(1, { text: "ä€😀" })])
        const whole = yield* fs.readFile(path)
        const start = whole.indexOf(0x0a) + 1
        // Inside of each character of several bytes, and here and there.
        const lengths = Array.from({ length: whole.length - start + 1 }, (_, index) => start + index)
          .filter((length) =>
            length % 23 === 0 || length < start + 2 || length > whole.length - 3 || (whole[length] ?? 0) > 127
          )
        for (const length of lengths) {
          yield* fs.writeFile(path, whole.subarray(0, length))
          const isWhole = length >= whole.length - 1
          const isGone = length === start
          const before = yield* AuditLog.verifyFile(path)
          assert.strictEqual(before.broken?.line, isWhole || isGone ? undefined : 2)
          yield* writeAll(path, [entry(2)])
          const { broken, head, recovered } = yield* AuditLog.verifyFile(path)
          assert.isUndefined(broken, `cut at ${length}`)
          assert.deepStrictEqual(recovered, isWhole || isGone ? [] : [2])
          assert.strictEqual(head?.count, isGone ? 2 : 3)
        }
      }).pipe(Effect.provide(NodeServices.layer)), TIMEOUT)

    it.effect("accounts for several, also where the account itself was cut", () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const path = yield* tempPath
        yield* writeAll(path, [entry(0)])
        for (const torn of ["{\"entry\":{\"_tag\":\"CallD", "\n", "\n{\"entry\":{\"_tag\":\"Recov"]) {
          yield* fs.writeFileString(path, torn, { flag: "a" })
        }
        yield* writeAll(path, [entry(1)])
        const { broken, head, recovered } = yield* AuditLog.verifyFile(path)
        assert.isUndefined(broken)
        assert.deepStrictEqual([head?.count, recovered], [3, [2]])
        // What was accounted for may not be changed or removed either.
        const lines = yield* linesOf(path)
        assert.strictEqual(lines.length, 6)
        assert.strictEqual(yield* damage(lines.with(1, "{\"entry\":{\"_tag\":\"CallX")), "2 edited")
        assert.strictEqual(yield* damage(lines.toSpliced(1, 3)), "2 missing")
        assert.strictEqual(yield* damage(lines.toSpliced(4, 1)), "2 unreadable")
      }).pipe(Effect.provide(NodeServices.layer)))

    const reasonOf = <A>(exit: Exit.Exit<A, AuditError.AuditError | unknown>) => {
      const error = Exit.isFailure(exit)
        ? exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error
        : undefined
      return AuditError.isAuditError(error) ? `${error.reason._tag}: ${error.reason.message}` : undefined
    }

    // verifies: audit.refuses
    it.effect("does not go on from what was changed", () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const path = yield* tempPath
        yield* writeAll(path, [entry(0), entry(1)])
        const [first, second] = yield* linesOf(path)
        const open = Effect.map(Effect.exit(writeAll(path, [entry(2)])), reasonOf)
        yield* fs.writeFileString(path, `${first}\n${second!.replace("call-1", "call-9")}\n`)
        assert.strictEqual(yield* open, "Broken: broken after entry 1: its content does not match its hash")
        yield* fs.writeFileString(path, `{"some":"JSON"}\n`)
        assert.strictEqual(yield* open, "Broken: broken after entry 0: it is not an entry of an audit log")
        yield* fs.writeFileString(path, "x".repeat(17 * 1024 * 1024))
        assert.match((yield* open) ?? "", /^Broken: .*no entry was found at the end of the file$/)
      }).pipe(Effect.provide(NodeServices.layer)))

    it.effect("notices what happens to the file while it is open, and writes nothing more", () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const cases: Record<string, (path: string) => Effect.Effect<unknown, PlatformError.PlatformError>> = {
          "the file was cut": (path) => fs.truncate(path, 10),
          "the file was exchanged": (path) =>
            Effect.andThen(fs.copyFile(path, `${path}.new`), fs.rename(`${path}.new`, path)),
          "it follows another line": (path) =>
            Effect.flatMap(
              fs.readFileString(path),
              (text) => fs.writeFileString(path, `${text.trimEnd().split("\n").at(-1)}\n`, { flag: "a" })
            )
        }
        for (const [explanation, change] of Object.entries(cases)) {
          const path = yield* tempPath
          yield* withLog(path, (log) =>
            Effect.gen(function*() {
              yield* log.write(entry(0))
              yield* log.write(entry(1))
              yield* change(path)
              const size = (yield* fs.stat(path)).size
              for (const index of [2, 3]) {
                const reason = reasonOf(yield* Effect.exit(log.write(entry(index)))) ?? ""
                if (explanation === "it follows another line") {
                  assert.match(reason, /^Broken: .* entry 2, where entry 3/)
                } else assert.strictEqual(reason, `Broken: broken after entry 2: ${explanation}`)
              }
              assert.strictEqual((yield* fs.stat(path)).size, size)
            }))
        }
      }).pipe(Effect.provide(NodeServices.layer)))

    /** A file system whose files fail to do something. */
    const failingFiles = (change: (file: FileSystem.File) => Partial<FileSystem.File>) =>
      Layer.effect(
        FileSystem.FileSystem,
        Effect.map(FileSystem.FileSystem, (fs) => ({
          ...fs,
          open: (...parameters: Parameters<FileSystem.FileSystem["open"]>) =>
            Effect.map(fs.open(...parameters), (file): FileSystem.File =>
              Object.create(file, Object.getOwnPropertyDescriptors(change(file))))
        }))
      ).pipe(Layer.provideMerge(NodeServices.layer))

    const full = PlatformError.systemError({
      _tag: "Unknown",
      module: "FileSystem",
      method: "write",
      description: "ENOSPC"
    })

    // verifies: audit.full-disk
    it.effect("says so when the disk is full, and goes on when it no longer is", () =>
      Effect.gen(function*() {
        let isFull = false
        yield* Effect.gen(function*() {
          const path = yield* tempPath
          yield* withLog(path, (log) =>
            Effect.gen(function*() {
              yield* log.write(entry(0))
              isFull = true
              assert.match(reasonOf(yield* Effect.exit(log.write(entry(1)))) ?? "", /^Unavailable: cannot use .*ENOSPC/)
              assert.match(reasonOf(yield* Effect.exit(log.write(entry(2)))) ?? "", /^Unavailable: cannot use .*ENOSPC/)
              isFull = false
              yield* log.write(entry(3))
            }))
          const { broken, head, recovered } = yield* AuditLog.verifyFile(path)
          assert.isUndefined(broken)
          assert.deepStrictEqual([head?.count, recovered], [3, [2]])
        }).pipe(Effect.provide(failingFiles((file) => ({
          // Some of it fits.
          writeAll: (bytes) =>
            isFull
              ? Effect.andThen(file.writeAll(bytes.subarray(0, 10)), Effect.fail(full))
              : file.writeAll(bytes)
        }))))
      }))

    it.effect("does not count an entry as written that the disk does not have", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        const exit = yield* AuditLog.AuditLog.pipe(
          Effect.flatMap((log) => log!.write(entry(0))),
          Effect.provide(AuditLog.layerJsonLines({ path })),
          Effect.exit
        )
        assert.match(reasonOf(exit) ?? "", /^Unavailable: cannot use .*ENOSPC/)
      }).pipe(Effect.provide(failingFiles(() => ({ sync: Effect.fail(full) })))))

    it.effect("notices somebody who writes without the lock", () =>
      Effect.gen(function*() {
        let intrude = false
        yield* Effect.gen(function*() {
          const path = yield* tempPath
          yield* withLog(path, (log) =>
            Effect.gen(function*() {
              yield* log.write(entry(0))
              intrude = true
              const reason = "Broken: broken after entry 1: something else has written to the file"
              assert.strictEqual(reasonOf(yield* Effect.exit(log.write(entry(1)))), reason)
              intrude = false
              assert.match(reasonOf(yield* Effect.exit(log.write(entry(2)))) ?? "", /^Broken: broken after entry 1: /)
            }))
        }).pipe(Effect.provide(failingFiles((file) => ({
          writeAll: (bytes) =>
            intrude
              ? Effect.andThen(file.writeAll(new TextEncoder().encode("{}\n")), file.writeAll(bytes))
              : file.writeAll(bytes)
        }))))
      }))

    it.effect("fails to open where it cannot write", () =>
      Effect.gen(function*() {
        const path = `${yield* tempPath}/missing/audit.jsonl`
        assert.match(reasonOf(yield* Effect.exit(writeAll(path, []))) ?? "", /^Unavailable: cannot use /)
        assert.match(reasonOf(yield* Effect.exit(AuditLog.verifyFile(path))) ?? "", /^Unavailable: cannot read /)
      }).pipe(Effect.provide(NodeServices.layer)))

    it.effect("writes nothing after its scope has closed", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        const log = yield* withLog(path, Effect.succeed)
        assert.strictEqual(reasonOf(yield* Effect.exit(log.write(entry(0)))), "Unavailable: the log is closed")
      }).pipe(Effect.provide(NodeServices.layer)))

    // verifies: audit.interruption
    it.effect("finishes what it writes when it is interrupted, and drops what nobody waits for", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        yield* withLog(path, (log) =>
          Effect.gen(function*() {
            const fibers = yield* Effect.forEach([0, 1, 2], (index) => Effect.forkChild(log.write(entry(index))))
            yield* Effect.yieldNow
            yield* Effect.forEach(fibers, Fiber.interrupt)
          }))
        yield* writeAll(path, [entry(3)])
        const { broken, head } = yield* AuditLog.verifyFile(path)
        assert.isUndefined(broken)
        assert.isAtLeast(head!.count, 1)
      }).pipe(Effect.provide(NodeServices.layer)))

    describe("lock", () => {
      // verifies: audit.stale-lock
      it.effect("is taken away from a process that is gone", () =>
        Effect.gen(function*() {
          const fs = yield* FileSystem.FileSystem
          const path = yield* tempPath
          yield* writeAll(path, [entry(0)])
          yield* fs.writeFileString(`${path}.lock`, "somebody")
          yield* elapse(yield* Effect.forkChild(writeAll(path, [entry(1)])))
          assert.isAtLeast(yield* Clock.currentTimeMillis, 2_000)
          assert.strictEqual((yield* AuditLog.verifyFile(path)).head?.count, 2)
          assert.deepStrictEqual(yield* fs.readDirectory(Path.dirname(path)), ["audit.jsonl"])
        }).pipe(Effect.provide(NodeServices.layer)))

      it.effect("that a process has left is taken away once, however many want it", () =>
        Effect.gen(function*() {
          const fs = yield* FileSystem.FileSystem
          const path = yield* tempPath
          yield* writeAll(path, [entry(0)])
          yield* fs.writeFileString(`${path}.lock`, "somebody")
          // Who was about to take it away is gone as well.
          yield* fs.writeFileString(`${path}.lock.stale`, "another")
          const all = Effect.forEach([1, 2, 3, 4, 5], (index) => writeAll(path, [entry(index)]), {
            concurrency: "unbounded",
            discard: true
          })
          yield* elapse(yield* Effect.forkChild(all))
          const { broken, head } = yield* AuditLog.verifyFile(path)
          assert.isUndefined(broken)
          assert.strictEqual(head?.count, 6)
          assert.deepStrictEqual(yield* fs.readDirectory(Path.dirname(path)), ["audit.jsonl"])
        }).pipe(Effect.provide(NodeServices.layer)))

      it.effect("that others hold for too long fails as busy", () =>
        Effect.gen(function*() {
          const fs = yield* FileSystem.FileSystem
          const path = yield* tempPath
          yield* writeAll(path, [entry(0)])
          // Somebody is always there, and always another.
          let holder = 0
          const hold = Effect.suspend(() => fs.writeFileString(`${path}.lock`, String(holder++)))
          yield* hold
          const fiber = yield* Effect.forkChild(Effect.exit(writeAll(path, [entry(1)])))
          const others = yield* Effect.forkChild(Effect.forever(Effect.andThen(hold, Effect.sleep("200 millis"))))
          const exit = yield* elapse(fiber)
          yield* Fiber.interrupt(others)
          assert.strictEqual(reasonOf(exit), `Busy: other writers hold ${path}.lock`)
        }).pipe(Effect.provide(NodeServices.layer)))

      it.effect("that was lost meanwhile keeps the slow one from writing", () =>
        Effect.gen(function*() {
          const path = yield* tempPath
          const fs = yield* FileSystem.FileSystem
          let isSlow = false
          const slow = failingFiles((file) => ({
            stat: Effect.tap(file.stat, () =>
              isSlow
                ? Effect.andThen(TestClock.adjust("2 seconds"), fs.writeFileString(`${path}.lock`, "another"))
                : Effect.void)
          }))
          yield* withLog(path, (log) =>
            Effect.gen(function*() {
              yield* log.write(entry(0))
              isSlow = true
              const exit = yield* Effect.exit(log.write(entry(1)))
              assert.strictEqual(reasonOf(exit), `Busy: another writer has taken over ${path}`)
            })).pipe(Effect.provide(slow))
          assert.strictEqual(yield* fs.readFileString(`${path}.lock`), "another")
          assert.strictEqual((yield* AuditLog.verifyFile(path)).head?.count, 1)
        }).pipe(Effect.provide(NodeServices.layer)))
    })

    const spawn = (path: string, session: string, count: number) =>
      Effect.acquireRelease(
        Effect.sync(() => ChildProcess.spawn(process.execPath, [writer, path, session, String(count)])),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )

    const ended = (child: ChildProcess.ChildProcess) =>
      Effect.callback<number | null>((resume) => {
        child.on("close", (code) => resume(Effect.succeed(code)))
      })

    // verifies: audit.processes
    it.live("is shared by processes, and stays one chain", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        const children = yield* Effect.forEach(["a", "b"], (session) => spawn(path, session, 100))
        const codes = yield* Effect.forEach(children, ended, { concurrency: "unbounded" })
        assert.deepStrictEqual(codes, [0, 0])
        const { broken, head } = yield* AuditLog.verifyFile(path)
        assert.isUndefined(broken)
        assert.strictEqual(head?.count, 200)
      }).pipe(Effect.provide(NodeServices.layer)), TIMEOUT)

    // verifies: audit.killed
    it.live("keeps what was written before the process was killed, and goes on", () =>
      Effect.gen(function*() {
        const path = yield* tempPath
        let told = 0
        for (const round of [2, 25]) {
          const child = yield* spawn(path, `round-${round}`, 1_000_000)
          let own = 0
          const end = ended(child)
          child.stdout.on("data", (chunk: Buffer) => {
            own += chunk.toString().split("\n").length - 1
            if (own >= round) child.kill("SIGKILL")
          })
          yield* end
          told += own
        }
        yield* writeAll(path, [entry(0)])
        const { broken, head } = yield* AuditLog.verifyFile(path)
        assert.isUndefined(broken)
        assert.isAbove(head!.count, told)
      }).pipe(Effect.provide(NodeServices.layer)), TIMEOUT)
  })
})
