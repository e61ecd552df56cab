/*
 * One writer for many who want something written: whoever comes while it writes is written next, together with all
 * others who came meanwhile. A store that has to lock, to flush or to commit does it once for all of them.
 */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/** How many entries are written at once. */
const MAX_BATCH = 256

/** How long the end of the scope waits for what is being written. */
const CLOSE_TIMEOUT = Duration.seconds(5)

interface Pending<E> {
  readonly entry: Schema.Json
  readonly written: Deferred.Deferred<void, E>
  isWanted: boolean
}

/**
 * Yields the function that writes, until the scope closes; then it fails with `closed`. Whoever stops waiting for an
 * entry that nobody has begun to write takes it back. What has begun is never interrupted in the middle.
 */
export const make = Effect.fnUntraced(
  function*<E>(
    append: (entries: ReadonlyArray<Schema.Json>) => Effect.Effect<void, E>,
    closed: () => E
  ): Effect.fn.Return<(entry: Schema.Json) => Effect.Effect<void, E>, never, Scope.Scope> {
    const queue = yield* Queue.make<Pending<E>, Cause.Done>()

    const writeAll = Effect.fnUntraced(function*(pending: ReadonlyArray<Pending<E>>) {
      for (let start = 0; start < pending.length; start += MAX_BATCH) {
        const batch = pending.slice(start, start + MAX_BATCH).filter(({ isWanted }) => isWanted)
        if (batch.length === 0) continue
        const exit = yield* Effect.exit(Effect.suspend(() => append(batch.map(({ entry }) => entry))))
        for (const { written } of batch) Deferred.doneUnsafe(written, exit)
      }
    })
    const work = Effect.ignore(Effect.forever(Effect.flatMap(Queue.takeAll(queue), writeAll)))

    yield* Effect.acquireRelease(
      Effect.forkDetach(work),
      (fiber) => Effect.andThen(Queue.end(queue), Effect.timeoutOption(Fiber.await(fiber), CLOSE_TIMEOUT))
    )

    return (entry) =>
      Effect.suspend(() => {
        const pending: Pending<E> = { entry, written: Deferred.makeUnsafe(), isWanted: true }
        if (!Queue.offerUnsafe(queue, pending)) return Effect.fail(closed())
        return Effect.onInterrupt(Deferred.await(pending.written), () =>
          Effect.sync(() => {
            pending.isWanted = false
          }))
      })
  }
)
