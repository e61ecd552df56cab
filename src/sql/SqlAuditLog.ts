/**
 * An audit log in a table: the lines of `AuditLog.layerJsonLines`, a row each.
 *
 * A row is added in a transaction that reads the one before it, and its number
 * is the primary key. So several processes may write to one table: of two who
 * want the same place one is refused by the database, and tries the next.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import * as Chain from "../internal/auditChain.ts"
import * as Writer from "../internal/auditWriter.ts"
import { toJson } from "../tools/AuditEntry.ts"
import { AuditError, Broken, Busy, Unavailable } from "../tools/AuditError.ts"
import * as AuditLog from "../tools/AuditLog.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * Which table.
 *
 * @category options
 * @since 0.1.0
 */
export interface SqlAuditLogOptions {
  /**
   * Its name. It has the columns `sequence`, a number and the primary key, and
   * `line`, a text; it is made if it is missing. Default `agcore_audit`.
   */
  readonly table?: string | undefined
}

const DEFAULT_TABLE = "agcore_audit"

/** How often, and at what distance, one tries again who lost the place to another. */
const RETRIES = 12
const DISTANCE = Schedule.exponential("5 millis", 1.6).pipe(Schedule.jittered)

/** How many rows are read at once. */
const PAGE = 500

// =============================================================================
// Layers
// =============================================================================

/**
 * The log in a table. Entries that are written at the same time share one
 * transaction.
 *
 * Building it fails if there is no database, or the last row is not as it was
 * written; writing also fails with `Busy` if other writers are always faster.
 * It knows SQLite, PostgreSQL, MySQL and SQL Server; a database without
 * transactions is refused.
 *
 * **Example** (A log in a database)
 *
 * ```ts run
 * import { PermissionPolicy, ToolRegistry } from "agcore"
 * import { SqlAuditLog } from "agcore/sql"
 * import { Layer } from "effect"
 * import type { SqlClient } from "effect/sql"
 *
 * // The client comes from a package such as `@effect/sql-pg`.
 * const Registry = (Client: Layer.Layer<SqlClient.SqlClient>) =>
 *   ToolRegistry.layer().pipe(
 *     Layer.provide([PermissionPolicy.layer(), SqlAuditLog.layer({ table: "tool_calls" }).pipe(Layer.provide(Client))])
 *   )
 *
 * typeof Registry // => "function"
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options?: SqlAuditLogOptions
): Layer.Layer<never, AuditError, SqlClient.SqlClient> => Layer.effect(AuditLog.AuditLog, makeLog(options))

const makeLog: (
  options: SqlAuditLogOptions | undefined
) => Effect.Effect<AuditLog.Log, AuditError, SqlClient.SqlClient | Scope.Scope> = Effect.fnUntraced(
  function*(options) {
    const sql = yield* SqlClient.SqlClient
    const table = options?.table ?? DEFAULT_TABLE
    yield* create(sql, table)

    const append = (entries: ReadonlyArray<Schema.Json>): Effect.Effect<void, AuditError> =>
      Effect.gen(function*() {
        const head = yield* last(sql, table)
        const sealed = yield* Chain.sealAll(head, entries)
        const rows = sealed.map(({ head, text }) => ({ sequence: head.count, line: text }))
        if (Arr.isArrayNonEmpty(rows)) yield* sql`INSERT INTO ${sql(table)} ${sql.insert(rows)}`
      }).pipe(
        sql.withTransaction,
        Effect.retry({ while: isWorthAnotherTry, times: RETRIES, schedule: DISTANCE }),
        Effect.catchTag("SqlError", (error) => fail(isConflict(error) ? busy(table) : unavailable(error)))
      )

    const head = Effect.catchTag(last(sql, table), "SqlError", (error) => fail(unavailable(error)))
    yield* head
    const write = yield* Writer.make(
      append,
      () => new AuditError({ reason: new Unavailable({ description: "the log is closed" }) })
    )
    return { write: (entry) => write(toJson(entry)), head }
  }
)

// =============================================================================
// Verification
// =============================================================================

/**
 * The lines of the log, in order, as they are in a file: to be exported, or
 * checked by `AuditLog.verify`.
 *
 * @category destructors
 * @since 0.1.0
 */
export const lines = (
  options?: SqlAuditLogOptions
): Stream.Stream<string, AuditError, SqlClient.SqlClient> =>
  Stream.unwrap(SqlClient.SqlClient.useSync((sql) =>
    // Page by page: not every client can stream.
    Stream.paginate<Row | undefined, Row, SqlError>(undefined, (before) =>
      Effect.map(page(sql, options?.table ?? DEFAULT_TABLE, before), (rows) => [
        rows,
        rows.length < PAGE ? Option.none() : Option.some(rows.at(-1))
      ]))
  )).pipe(
    Stream.map(({ line }) => line),
    Stream.mapError((error) => new AuditError({ reason: unavailable(error) }))
  )

/**
 * Checks the log in a table.
 *
 * @category destructors
 * @since 0.1.0
 */
export const verify = (
  options?: SqlAuditLogOptions & AuditLog.VerifyOptions
): Effect.Effect<AuditLog.Report, AuditError, SqlClient.SqlClient> => AuditLog.verify(lines(options), options)

// =============================================================================
// Internals
// =============================================================================

interface Row {
  /** Drivers read a large number as a text, or as a `BigInt`. */
  readonly sequence: number | string | bigint
  readonly line: string
}

const fail = (reason: AuditError["reason"]): Effect.Effect<never, AuditError> => Effect.fail(new AuditError({ reason }))

const unavailable = (cause: SqlError) => new Unavailable({ description: "the database failed", cause })

const busy = (table: string) => new Busy({ description: `other writers are always faster at ${table}` })

const broken = (entries: number, explanation: string) => fail(new Broken({ entries, explanation }))

/** Somebody else took the place, or holds what is needed to take one. */
const isConflict = (error: SqlError): boolean => error.reason._tag === "UniqueViolation" || error.isRetryable

// Not every driver tells a primary key from other constraints.
const isWorthAnotherTry = (error: AuditError | SqlError): boolean =>
  error._tag === "SqlError" && (isConflict(error) || error.reason._tag === "ConstraintError")

const create = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, table: string) {
  const statement = sql.onDialect({
    sqlite: () => sql`CREATE TABLE IF NOT EXISTS ${sql(table)} (sequence INTEGER PRIMARY KEY, line TEXT NOT NULL)`,
    pg: () => sql`CREATE TABLE IF NOT EXISTS ${sql(table)} (sequence BIGINT PRIMARY KEY, line TEXT NOT NULL)`,
    mysql: () =>
      sql`CREATE TABLE IF NOT EXISTS ${
        sql(table)
      } (sequence BIGINT PRIMARY KEY, line LONGTEXT CHARACTER SET utf8mb4 NOT NULL)`,
    mssql: () =>
      sql`IF OBJECT_ID(${table}, 'U') IS NULL CREATE TABLE ${
        sql(table)
      } (sequence BIGINT PRIMARY KEY, line NVARCHAR(MAX) NOT NULL)`,
    clickhouse: () => undefined
  })
  if (statement === undefined) return yield* fail(new Unavailable({ description: "ClickHouse has no transactions" }))
  // Two may make it at the same time, and then one of them fails.
  yield* Effect.retry(statement, { times: 3, schedule: DISTANCE }).pipe(
    Effect.catchTag("SqlError", (error) => fail(unavailable(error)))
  )
})

const last = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, table: string) {
  const [row] = yield* sql<Row>`SELECT sequence, line FROM ${sql(table)} WHERE sequence = (SELECT MAX(sequence) FROM ${
    sql(table)
  })`
  if (row === undefined) return undefined
  const result = yield* Chain.read(row.line)
  const entries = Number(row.sequence)
  if (Result.isFailure(result)) return yield* broken(entries - 1, result.failure.explanation)
  const { count, hash } = result.success
  return count === entries ? { count, hash } : yield* broken(count, `it is in the row of entry ${entries}`)
})

const page = (sql: SqlClient.SqlClient, table: string, before: Row | undefined) => {
  const rest = before === undefined ? sql`` : sql`WHERE sequence > ${before.sequence}`
  return sql.onDialectOrElse({
    mssql: () =>
      sql<Row>`SELECT TOP (${sql.literal(String(PAGE))}) sequence, line FROM ${sql(table)} ${rest} ORDER BY sequence`,
    orElse: () =>
      sql<Row>`SELECT sequence, line FROM ${sql(table)} ${rest} ORDER BY sequence LIMIT ${sql.literal(String(PAGE))}`
  })
}
