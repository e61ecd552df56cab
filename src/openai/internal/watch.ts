/*
 * Bounds the waits of one request, which follow each other.
 *
 * A timeout around each wait would fork a fiber and arm a timer for every read of a stream, which costs more than the
 * read. Here one fiber sleeps through the whole request, and looks at the wait of the moment when it wakes. Waits that
 * only lead to other waits, as that for the head of an answer does to that for its body, are one wait to the fiber of
 * the request: putting it to sleep and waking it costs as much as a wait.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

/** What follows: an effect that ends the waiting, or another wait. */
export type Next<A, E> = Effect.Effect<A, E> | Wait<A, E>

/** Waits for a promise, but not beyond a time in milliseconds. */
export interface Wait<A, E> {
  readonly until: number
  /** Tells of the promise once it is settled. */
  readonly settled: (tell: (next: () => Next<A, E>) => void) => void
  readonly onLate: () => Next<A, E>
}

interface Options<Value, A, E> {
  readonly until: number
  readonly onValue: (value: Value) => Next<A, E>
  readonly onRejected: (cause: unknown) => Next<A, E>
  readonly onLate: () => Next<A, E>
}

/** Everything told here is meant to be short: what takes its time belongs into the effect at the end. */
export const waitFor = <Value, A, E>(
  promise: Promise<Value>,
  { onLate, onRejected, onValue, until }: Options<Value, A, E>
): Wait<A, E> => ({
  until,
  settled: (tell) => void promise.then((value) => tell(() => onValue(value)), (cause) => tell(() => onRejected(cause))),
  onLate
})

export interface Watch {
  readonly now: () => number
  /** Waits, one wait after the other. Not while another wait goes on. */
  readonly wait: <A, E>(first: () => Next<A, E>) => Effect.Effect<A, E>
  /** To be called when nothing more is waited for. */
  readonly end: () => void
}

/** Limits below this are noticed this much late at worst: a fiber that sleeps shorter only keeps the processor busy. */
const SHORTEST_SLEEP = 10

/**
 * `shortest` is the shortest limit of any wait to come, in milliseconds: whoever sleeps no longer than that misses none.
 */
export const make = (clock: Clock.Clock, shortest: number): Watch => {
  const nap = Math.max(SHORTEST_SLEEP, shortest)
  let current: { readonly until: number; readonly giveUp: () => void } | undefined

  const look = Effect.suspend(() => {
    const late = current
    if (late !== undefined && late.until <= clock.currentTimeMillisUnsafe()) {
      current = undefined
      late.giveUp()
    }
    return clock.sleep(Duration.millis(Math.min(nap, (current?.until ?? Infinity) - clock.currentTimeMillisUnsafe())))
  })
  const sleeper = Effect.runForkWith(contextOf(clock))(Effect.forever(look, { disableYield: true }))
  const forget = Effect.sync(() => void (current = undefined))

  return {
    now: () => clock.currentTimeMillisUnsafe(),
    wait: <A, E>(first: () => Next<A, E>) =>
      Effect.callback<A, E>((resume) => {
        const follow = (next: () => Next<A, E>): void => {
          const step = attempt(next)
          if (Effect.isEffect(step)) return resume(step)
          const mine = { until: step.until, giveUp: () => follow(step.onLate) }
          const isLate = mine.until <= clock.currentTimeMillisUnsafe()
          if (!isLate) current = mine
          // Listened to in any case: what fails after it was given up is nobody's, and would end the process.
          step.settled((after) => {
            // Given up, or interrupted.
            if (current !== mine) return
            current = undefined
            follow(after)
          })
          if (isLate) mine.giveUp()
        }
        follow(first)
        return forget
      }),
    end() {
      current = undefined
      sleeper.interruptUnsafe()
    }
  }
}

/** A defect belongs to whoever waits. */
const attempt = <A, E>(next: () => Next<A, E>): Next<A, E> => {
  try {
    return next()
  } catch (defect) {
    return Effect.die(defect)
  }
}

/** What is needed to sleep. Made once for a clock, since fibers keep what they derive of a context with it. */
const contexts = new WeakMap<Clock.Clock, Context.Context<never>>()

const contextOf = (clock: Clock.Clock): Context.Context<never> => {
  const context = contexts.get(clock) ?? Context.add(Context.empty(), Clock.Clock, clock)
  contexts.set(clock, context)
  return context
}
