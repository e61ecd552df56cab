import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { AuditEntry, AuditError, AuditLog, PermissionPolicy, ToolRegistry } from "agcore"
import { SqlAuditLog } from "agcore/sql"
import { Effect, FileSystem, Layer, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError, Statement } from "effect/sql"
import { call, succeed } from "../tools/support.ts"
import { sqlite } from "./sqlite.ts"

const entry = (index: number) =>
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
    arguments: { text: `ä "${index}"` }
  })

const entries = (count: number) => Array.from({ length: count }, (_, index) => entry(index))

const tempFile = Effect.map(
  FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped()),
  (folder) => `${folder}/audit.db`
).pipe(Effect.provide(NodeServices.layer))

/** Opens the log, over a connection of its own, for as long as the effect runs. */
const withLog = <A, E, R>(
  file: string,
  use: (log: AuditLog.Log) => Effect.Effect<A, E, R>,
  options?: SqlAuditLog.SqlAuditLogOptions
) =>
  Effect.flatMap(AuditLog.AuditLog, (log) => use(log!)).pipe(
    Effect.provide(Layer.provideMerge(SqlAuditLog.layer(options), sqlite(file)))
  )

const writeAll = (file: string, all: ReadonlyArray<AuditEntry.AuditEntry>) =>
  withLog(file, (log) => Effect.forEach(all, log.write, { discard: true }))

const verify = (file: string, options?: Parameters<typeof SqlAuditLog.verify>[0]) =>
  Effect.provide(SqlAuditLog.verify(options), sqlite(file))

const execute = (file: string, statement: string) =>
  SqlClient.SqlClient.use((sql) => sql.unsafe(statement)).pipe(Effect.provide(sqlite(file)))

const reasonOf = (error: unknown) =>
  AuditError.isAuditError(error) ? `${error.reason._tag}: ${error.reason.message}` : String(error)

describe("SqlAuditLog", () => {
  // verifies: audit.sql
  it.effect("makes its table, and goes on where it ended", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* writeAll(file, entries(2))
      yield* writeAll(file, [entry(2)])
      const report = yield* verify(file)
      assert.isUndefined(report.broken)
      assert.strictEqual(report.head?.count, 3)
      assert.deepStrictEqual(yield* withLog(file, (log) => log.head), report.head)
    }))

  it.effect("takes a table of another name", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const options = { table: "of \"mine\"" }
      yield* withLog(file, (log) => log.write(entry(0)), options)
      assert.strictEqual((yield* verify(file, options)).head?.count, 1)
      assert.strictEqual(yield* withLog(file, (log) => log.head), undefined)
    }))

  it.effect("has the lines that a file has", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const file = yield* tempFile
      const path = `${file}.jsonl`
      // More than are read at once.
      const all = entries(1_203)
      const write = (log: AuditLog.Log) => Effect.forEach(all, log.write, { concurrency: "unbounded", discard: true })
      yield* withLog(file, write)
      yield* Effect.flatMap(AuditLog.AuditLog, (log) => write(log!)).pipe(
        Effect.provide(AuditLog.layerJsonLines({ path, sync: false }))
      )
      const lines = yield* SqlAuditLog.lines().pipe(Stream.runCollect, Effect.provide(sqlite(file)))
      assert.strictEqual(`${lines.join("\n")}\n`, yield* fs.readFileString(path))
    }).pipe(Effect.provide(NodeServices.layer)))

  // verifies: audit.sql-tampering
  it.effect("shows what was changed, removed, moved or added", () =>
    Effect.gen(function*() {
      const damage = (...statements: ReadonlyArray<string>) =>
        Effect.gen(function*() {
          const file = yield* tempFile
          yield* writeAll(file, entries(5))
          const { head } = yield* verify(file)
          for (const statement of statements) yield* execute(file, statement)
          const { broken } = yield* verify(file, { anchor: head })
          return broken && `${broken.line} ${broken.kind}`
        })
      const table = "agcore_audit"
      assert.strictEqual(yield* damage(), undefined)
      assert.strictEqual(
        yield* damage(`UPDATE ${table} SET line = replace(line, 'call-2', 'call-9') WHERE sequence = 3`),
        "3 edited"
      )
      assert.strictEqual(yield* damage(`DELETE FROM ${table} WHERE sequence = 3`), "3 missing")
      assert.strictEqual(yield* damage(`DELETE FROM ${table} WHERE sequence = 1`), "1 missing")
      assert.strictEqual(yield* damage(`DELETE FROM ${table} WHERE sequence > 3`), "4 cut")
      assert.strictEqual(yield* damage(`DELETE FROM ${table}`), "1 cut")
      assert.strictEqual(
        yield* damage(
          `UPDATE ${table} SET sequence = 100 WHERE sequence = 2`,
          `UPDATE ${table} SET sequence = 2 WHERE sequence = 3`,
          `UPDATE ${table} SET sequence = 3 WHERE sequence = 100`
        ),
        "2 missing"
      )
      assert.strictEqual(
        yield* damage(`INSERT INTO ${table} SELECT 6, line FROM ${table} WHERE sequence = 5`),
        "6 reordered"
      )
    }))

  it.effect("does not go on from a row that was changed", () =>
    Effect.gen(function*() {
      const error = (statement: string) =>
        Effect.gen(function*() {
          const file = yield* tempFile
          yield* writeAll(file, entries(3))
          yield* execute(file, statement)
          return reasonOf(yield* Effect.flip(writeAll(file, [entry(3)])))
        })
      assert.strictEqual(
        yield* error("UPDATE agcore_audit SET line = replace(line, 'call-2', 'call-9') WHERE sequence = 3"),
        "Broken: broken after entry 2: its content does not match its hash"
      )
      assert.strictEqual(
        yield* error("UPDATE agcore_audit SET sequence = 7 WHERE sequence = 3"),
        "Broken: broken after entry 3: it is in the row of entry 7"
      )
    }))

  // verifies: audit.sql-writers
  it.live("stays one chain when several connections write", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* writeAll(file, [])
      yield* Effect.forEach([1, 2, 3], () => writeAll(file, entries(20)), { concurrency: "unbounded" })
      const { broken, head } = yield* verify(file)
      assert.isUndefined(broken)
      assert.strictEqual(head?.count, 60)
    }))

  it.live("gives up when others never let go", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* withLog(file, (log) =>
        Effect.gen(function*() {
          yield* log.write(entry(0))
          const error = yield* SqlClient.SqlClient.use((sql) =>
            sql.withTransaction(
              Effect.andThen(sql`DELETE FROM agcore_audit WHERE sequence = 9`, Effect.flip(log.write(entry(1))))
            )
          ).pipe(Effect.provide(sqlite(file)))
          assert.strictEqual(reasonOf(error), "Busy: other writers are always faster at agcore_audit")
          yield* log.write(entry(1))
        }))
      assert.strictEqual((yield* verify(file)).head?.count, 2)
    }))

  it.live("writes all of what comes at the same time, or nothing", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* withLog(file, (log) =>
        Effect.gen(function*() {
          yield* log.write(entry(0))
          yield* execute(
            file,
            "CREATE TRIGGER full BEFORE INSERT ON agcore_audit WHEN NEW.sequence = 4 BEGIN SELECT RAISE(ABORT, 'full'); END"
          )
          const exits = yield* Effect.forEach([1, 2, 3], (index) => Effect.exit(log.write(entry(index))), {
            concurrency: "unbounded"
          })
          assert.deepStrictEqual(exits.map(({ _tag }) => _tag), ["Failure", "Failure", "Failure"])
          yield* execute(file, "DROP TRIGGER full")
          yield* log.write(entry(4))
        }))
      const { broken, head } = yield* verify(file)
      assert.isUndefined(broken)
      assert.strictEqual(head?.count, 2)
    }))

  it.effect("fails where there is no database", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* execute(file, "CREATE VIEW agcore_audit AS SELECT 1 AS other")
      assert.match(reasonOf(yield* Effect.flip(writeAll(file, []))), /^Unavailable: the database failed: /)
      const missing = yield* Effect.flip(verify(yield* tempFile))
      assert.match(reasonOf(missing), /^Unavailable: the database failed: /)
    }))

  it.effect("refuses a database without transactions", () =>
    Effect.gen(function*() {
      const connection = Effect.die("nothing is asked of it")
      const Client = Layer.effect(
        SqlClient.SqlClient,
        SqlClient.make({
          acquirer: connection,
          compiler: Statement.makeCompiler({
            dialect: "clickhouse",
            placeholder: () => "?",
            onIdentifier: (name) => name,
            onCustom: () => ["", []],
            onRecordUpdate: () => ["", []],
            onRecordUpdateSingle: () => ["", []]
          }),
          driver: "clickhouse",
          spanAttributes: []
        })
      ).pipe(Layer.provide(Reactivity.layer))
      const error = yield* Effect.flip(
        Effect.provide(AuditLog.AuditLog, SqlAuditLog.layer().pipe(Layer.provide(Client)))
      )
      assert.strictEqual(reasonOf(error), "Unavailable: ClickHouse has no transactions")
      assert.isFalse(SqlError.isSqlError(error))
    }))

  it.effect("is a registry's log", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const Registry = ToolRegistry.layer(succeed("work")).pipe(
        Layer.provide([PermissionPolicy.layerAllowAll, SqlAuditLog.layer().pipe(Layer.provide(sqlite(file)))])
      )
      yield* ToolRegistry.ToolRegistry.use((registry) =>
        registry.invokeAll([call("work"), call("work"), call("unknown")])
      ).pipe(Effect.provide(Registry))
      assert.strictEqual((yield* verify(file)).head?.count, 5)
    }))
})
