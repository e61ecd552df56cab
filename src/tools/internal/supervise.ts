/*
 * Runs work in a fiber of its own, for at most a given time.
 *
 * Whoever waits is answered in bounded time, also when the work does not react
 * to interruption: it is given a grace period, then left to itself.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

export type Outcome<A, E> =
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<A, E> }
  | { readonly _tag: "TimedOut"; readonly timeoutMillis: number; readonly stopped: boolean }

export const supervise = <A, E, R>(
  work: Effect.Effect<A, E, R>,
  options: {
    readonly timeout: Duration.Duration
    /** The time is up when this ends, if that comes first. Default: only `timeout` counts. */
    readonly until?: Effect.Effect<void> | undefined
    /** How long interrupted work may take to clean up before it counts as still running. */
    readonly gracePeriod: Duration.Duration
    /** The work was told to stop. */
    readonly onStop: () => void
    /** The work did not stop within the grace period. */
    readonly onAbandon: (work: Fiber.Fiber<A, E>) => void
  }
): Effect.Effect<Outcome<A, E>, never, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(work), (fiber) => {
      const timeout = Duration.max(options.timeout, Duration.zero)
      let timeoutMillis = Duration.toMillis(timeout)
      const stop = Effect.suspend(() => {
        fiber.interruptUnsafe()
        options.onStop()
        return Effect.map(Effect.timeoutOption(Fiber.await(fiber), options.gracePeriod), (exit) => {
          if (Option.isNone(exit)) options.onAbandon(fiber)
          return Option.isSome(exit)
        })
      })
      const inTime = Duration.isFinite(timeout)
        ? Effect.timeoutOption(Fiber.await(fiber), timeout)
        : Effect.asSome(Fiber.await(fiber))
      const ended = options.until === undefined
        ? inTime
        : Effect.raceFirst(
          inTime,
          Effect.map(Effect.timed(options.until), ([taken]) => {
            timeoutMillis = Math.round(Duration.toMillis(taken))
            return Option.none()
          })
        )
      return restore(ended).pipe(
        Effect.onInterrupt(() => stop),
        // Work that waits for work that waits … is woken inside the stack of its end, which has to end first.
        Effect.tap(Effect.yieldNow),
        Effect.flatMap(Option.match({
          onSome: (exit) => Effect.succeed<Outcome<A, E>>({ _tag: "Ended", exit }),
          onNone: () => Effect.map(stop, (stopped): Outcome<A, E> => ({ _tag: "TimedOut", timeoutMillis, stopped }))
        }))
      )
    })
  )
