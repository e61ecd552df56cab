/*
 * Bounds the waits of one request, which follow each other.
 *
 * A timeout around each wait would fork a fiber and arm a timer for every read of a stream, which costs more than the
 * read. Here one fiber sleeps through the whole request, and looks at the wait of the moment when it wakes.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export interface Watch {
  readonly now: () => number
  /** Waits for a promise, but not beyond a time in milliseconds. One wait at a time. */
  readonly wait: <A, B, E>(promise: Promise<A>, options: Wait<A, B, E>) => Effect.Effect<B, E>
}

interface Wait<A, B, E> {
  readonly until: number
  readonly onValue: (value: A) => Effect.Effect<B, E>
  readonly onRejected: (cause: unknown) => Effect.Effect<B, E>
  readonly onLate: () => Effect.Effect<B, E>
}

/** Limits below this are noticed this much late at worst: a fiber that sleeps shorter only keeps the processor busy. */
const SHORTEST_SLEEP = 10

/**
 * `shortest` is the shortest limit of any wait to come, in milliseconds: whoever sleeps no longer than that misses none.
 */
export const make = (shortest: number): Effect.Effect<Watch, never, Scope.Scope> =>
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const nap = Math.max(SHORTEST_SLEEP, shortest)
    let current: { readonly until: number; readonly giveUp: () => void } | undefined

    const look = Effect.suspend((): Effect.Effect<void> => {
      const now = clock.currentTimeMillisUnsafe()
      if (current !== undefined && current.until <= now) {
        current.giveUp()
        current = undefined
      }
      return clock.sleep(Duration.millis(Math.min(nap, (current?.until ?? Infinity) - now)))
    })
    yield* Effect.forkScoped(Effect.forever(look, { disableYield: true }), { startImmediately: true })

    return {
      now: () => clock.currentTimeMillisUnsafe(),
      wait: <A, B, E>(promise: Promise<A>, { onLate, onRejected, onValue, until }: Wait<A, B, E>) =>
        Effect.callback<B, E>((resume) => {
          const mine = { until, giveUp: () => resume(onLate()) }
          const settle = (outcome: Effect.Effect<B, E>): void => {
            if (current === mine) current = undefined
            resume(outcome)
          }
          if (until <= clock.currentTimeMillisUnsafe()) mine.giveUp()
          else current = mine
          promise.then((value) => settle(onValue(value)), (cause) => settle(onRejected(cause)))
        })
    }
  })
