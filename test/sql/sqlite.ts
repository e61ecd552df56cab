import { Effect, Layer, Semaphore, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError, Statement } from "effect/sql"
import { DatabaseSync, type SQLInputValue } from "node:sqlite"

/**
 * A client over the SQLite of Node, one connection. It fails at once where another connection holds the database. The
 * package for it is not made for this version of effect yet.
 */
export const sqlite = (file: string): Layer.Layer<SqlClient.SqlClient> =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.gen(function*() {
      const database = yield* Effect.acquireRelease(
        Effect.sync(() => new DatabaseSync(file, { timeout: 0 })),
        (database) => Effect.sync(() => database.close())
      )
      const attempt = <A>(run: () => A): Effect.Effect<A, SqlError.SqlError> =>
        Effect.try({
          try: run,
          // Node has the code of SQLite under a name of its own.
          catch: (cause) =>
            new SqlError.SqlError({
              reason: SqlError.classifySqliteError(Object.assign(cause as Error, { errno: (cause as any).errcode }), {
                message: (cause as Error).message
              })
            })
        })
      // What a driver yields are rows, whatever their columns.
      const rows = (
        sql: string,
        params: ReadonlyArray<unknown>
      ): Effect.Effect<ReadonlyArray<any>, SqlError.SqlError> =>
        attempt(() => {
          const statement = database.prepare(sql)
          return statement.all(...params as ReadonlyArray<SQLInputValue>)
        })
      const connection: SqlConnection.Connection = {
        execute: (sql, params, transform) => Effect.map(rows(sql, params), (all) => transform?.(all) ?? all),
        executeRaw: rows,
        executeStream: () => Stream.die("not a client that streams"),
        executeValues: (sql, params) => Effect.map(rows(sql, params), (all) => all.map(Object.values)),
        executeValuesUnprepared: (sql, params) => Effect.map(rows(sql, params), (all) => all.map(Object.values)),
        executeUnprepared: (sql, params, transform) => Effect.map(rows(sql, params), (all) => transform?.(all) ?? all)
      }
      const semaphore = yield* Semaphore.make(1)
      return yield* SqlClient.make({
        acquirer: semaphore.withPermits(1)(Effect.succeed(connection)),
        transactionAcquirer: Effect.uninterruptibleMask((restore) =>
          Effect.as(
            Effect.acquireRelease(restore(semaphore.take(1)), () => semaphore.release(1)),
            connection
          )
        ),
        // A commit that was refused leaves its transaction open.
        onCommitFailure: (connection) => Effect.asVoid(connection.executeUnprepared("ROLLBACK", [], undefined)),
        isTransaction: () => database.isTransaction,
        compiler: Statement.makeCompilerSqlite(),
        driver: "node:sqlite",
        spanAttributes: []
      })
    })
  ).pipe(Layer.provide(Reactivity.layer))
