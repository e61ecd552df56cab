/*
 * Runs work in a fiber of its own, for at most a given time.
 *
 * Whoever waits is answered in bounded time, also when the work does not react
 * to interruption: it is given a grace period, then left to itself.
 */
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

export type Outcome<A, E> =
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<A, E> }
  | { readonly _tag: "TimedOut"; readonly timeoutMillis: number; readonly stopped: boolean }

export interface Options<A, E> {
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

export const supervise = <A, E, R>(
  work: Effect.Effect<A, E, R>,
  options: Options<A, E>
): Effect.Effect<Outcome<A, E>, never, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(start(work), (fiber) => {
      // Work that waits for nothing is done by now; there is nothing to watch, and a timer costs more than most of it.
      const exit = fiber.pollUnsafe()
      return exit === undefined ? watch(fiber, options, restore) : Effect.succeed({ _tag: "Ended", exit })
    })
  )

const watch = <A, E>(
  fiber: Fiber.Fiber<A, E>,
  { gracePeriod, onAbandon, onStop, timeout, until }: Options<A, E>,
  restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
): Effect.Effect<Outcome<A, E>> => {
  const limit = Duration.max(timeout, Duration.zero)
  let timeoutMillis = Duration.toMillis(limit)
  const stop = Effect.suspend(() => {
    fiber.interruptUnsafe()
    onStop()
    return Effect.map(Effect.timeoutOption(Fiber.await(fiber), gracePeriod), (exit) => {
      if (Option.isNone(exit)) onAbandon(fiber)
      return Option.isSome(exit)
    })
  })
  const inTime = Duration.isFinite(limit)
    ? Effect.timeoutOption(ended(fiber), limit)
    : Effect.asSome(ended(fiber))
  const first = until === undefined
    ? inTime
    : Effect.raceFirst(
      inTime,
      Effect.map(Effect.timed(until), ([taken]) => {
        timeoutMillis = Math.round(Duration.toMillis(taken))
        return Option.none()
      })
    )
  return restore(first).pipe(
    Effect.onInterrupt(() => stop),
    Effect.flatMap(Option.match({
      onSome: (exit) => Effect.succeed<Outcome<A, E>>({ _tag: "Ended", exit }),
      onNone: () => Effect.map(stop, (stopped): Outcome<A, E> => ({ _tag: "TimedOut", timeoutMillis, stopped }))
    }))
  )
}

// -----------------------------------------------------------------------------
// Nesting
// -----------------------------------------------------------------------------

/** How many supervised works may begin or end inside the stack of one another. */
const MAX_NESTING = 16

/** How many do so at this moment. */
let nesting = 0

const nested = <A>(run: () => A): A => {
  nesting++
  try {
    return run()
  } finally {
    nesting--
  }
}

// Begun at once, as far as it comes without waiting: to begin it later takes a turn of the event loop.
const start = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<Fiber.Fiber<A, E>, never, R> =>
  Effect.contextWith((context: Context.Context<R>) =>
    nesting < MAX_NESTING
      ? Effect.sync(() => nested(() => Effect.runForkWith(context)(work)))
      : Effect.forkDetach(work)
  )

// Who waits is woken inside the stack of the work's end. Work that waits for work that waits … would pile up there.
const ended = <A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<Exit.Exit<A, E>> =>
  Effect.callback((resume) => {
    const stopListening = fiber.addObserver((exit) => {
      const isDeep = nesting >= MAX_NESTING
      nested(() => resume(isDeep ? Effect.as(Effect.yieldNow, exit) : Effect.succeed(exit)))
    })
    return Effect.sync(stopListening)
  })
