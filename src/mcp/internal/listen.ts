/**
 * Subscriptions of the modern era: one long request each, whose stream brings notifications. A stream that ends, for whatever
 * reason, is opened again after a pause that grows.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import { type McpError, type McpErrorReason, NotSupported, TimedOut } from "../McpError.ts"
import type { Connection } from "./connection.ts"
import { optionalObject, type Report } from "./decode.ts"
import { ErrorCode, type JsonObject, ownId } from "./jsonrpc.ts"
import { remoteError } from "./negotiate.ts"

export interface Listener {
  /** Listens as long as the Scope lasts. Succeeds when the server acknowledged it for the first time. */
  readonly open: (filter: JsonObject) => Effect.Effect<void, McpError, Scope.Scope>
  readonly acknowledged: (params: JsonObject) => void
}

const FIRST_PAUSE_MILLIS = 1_000
const LONGEST_PAUSE_MILLIS = 60_000

/** Whether a server does not know the method it was asked for. */
export const isUnknownMethod = (error: McpError): boolean =>
  remoteError(error.reason)?.code === ErrorCode.methodNotFound

const METHOD = "subscriptions/listen"

export const makeListener = (
  connection: () => Connection,
  /** How long the acknowledgement may take. */
  ackMillis: number,
  fail: (reason: McpErrorReason) => McpError,
  report: Report
): Listener => {
  const waiting = new Map<number, () => void>()

  const open: Listener["open"] = Effect.fnUntraced(function*(filter) {
    const first = yield* Deferred.make<void, McpError>()

    const listen = (pause: number): Effect.Effect<void> =>
      Effect.suspend(() => {
        let id = 0
        let next = pause
        return connection().request(METHOD, { notifications: filter }, {
          timeoutMillis: Number.POSITIVE_INFINITY,
          longLived: true,
          onId(given) {
            id = given
            waiting.set(id, () => {
              next = FIRST_PAUSE_MILLIS
              Deferred.doneUnsafe(first, Effect.void)
            })
          }
        }).pipe(
          Effect.ensuring(Effect.sync(() => waiting.delete(id))),
          Effect.matchEffect({
            onFailure: (error) => {
              // One that never worked is whoever opened it's to try again.
              const never = Deferred.doneUnsafe(first, Effect.fail(error))
              report({ kind: "connection", message: `a subscription ended: ${error.reason.message}` })
              return never || isUnknownMethod(error) ? Effect.void : again(next)
            },
            onSuccess: () => {
              // It ended well before it was acknowledged: an answer to a question that was not understood.
              const detail = "it was answered at once"
              return Deferred.doneUnsafe(first, Effect.fail(fail(new NotSupported({ method: METHOD, detail }))))
                ? Effect.void
                : again(next)
            }
          })
        )
      })

    const again = (pause: number): Effect.Effect<void> =>
      Effect.andThen(Effect.sleep(pause), Effect.suspend(() => listen(Math.min(pause * 2, LONGEST_PAUSE_MILLIS))))

    const listening = yield* Effect.forkScoped(listen(FIRST_PAUSE_MILLIS), { startImmediately: true })
    yield* Effect.timeoutOrElse(Deferred.await(first), {
      duration: ackMillis,
      orElse: () =>
        Effect.andThen(
          Fiber.interrupt(listening),
          Effect.fail(fail(new TimedOut({ method: METHOD, afterMillis: ackMillis })))
        )
    })
  })

  return {
    open,
    acknowledged(params) {
      const id = optionalObject(params["_meta"])?.["io.modelcontextprotocol/subscriptionId"]
      waiting.get(ownId(id) ?? 0)?.()
    }
  }
}
