/*
 * Keys that one call at a time may hold.
 *
 * Calls queue up by key; the first of a queue holds it. A holder that timed out
 * but does not stop stays first until its work ends: who waits or comes in
 * between is told so at once, instead of waiting for work nobody can end.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { FIBER_STATE } from "../../internal/handlerContext.ts"

/** A call's place in the queue for its key. */
interface Place {
  /** Whether it became the call's turn; `false` if the holder was abandoned. */
  readonly turn: Deferred.Deferred<boolean>
  /** Work under this place that goes on although nobody waits for it. */
  abandoned: number
  /** Whether the call itself is done. */
  done: boolean
}

/** Leaves work to itself; the key stays taken until it ends. */
export type Abandon = (work: Fiber.Fiber<unknown, unknown>) => void

export interface Exclusivity {
  /** Waits for the key and runs `use` with it; runs `busy` if abandoned work holds it. */
  readonly withKey: <A>(
    key: string | undefined,
    use: (abandon: Abandon) => Effect.Effect<A>,
    busy: Effect.Effect<A>
  ) => Effect.Effect<A>
}

/** Places of the calls that the current fiber works for: it passes where one of them holds the key. */
const OwnPlaces: Context.Reference<ReadonlySet<Place>> = Context.Reference<ReadonlySet<Place>>(
  `${FIBER_STATE}OwnPlaces`,
  { defaultValue: () => new Set() }
)

const NOTHING_HELD: Abandon = () => {}

export const make = (): Exclusivity => {
  const queues = new Map<string, Set<Place>>()

  const enter = (key: string): Place => {
    const queue = queues.get(key) ?? new Set()
    const place: Place = { turn: Deferred.makeUnsafe(), abandoned: 0, done: false }
    queues.set(key, queue.add(place))
    return place
  }

  const leave = (key: string, place: Place): void => {
    const queue = queues.get(key)
    if (!place.done || place.abandoned > 0 || queue?.delete(place) !== true) return
    const next = first(queue)
    if (next === undefined) queues.delete(key)
    else answer(next, true)
  }

  const abandon = (key: string, place: Place): Abandon => (work) => {
    place.abandoned++
    for (const other of queues.get(key) ?? []) {
      if (other === place) continue
      queues.get(key)?.delete(other)
      answer(other, false)
    }
    work.addObserver(() => {
      place.abandoned--
      leave(key, place)
    })
  }

  return {
    withKey: (key, use, busy) =>
      key === undefined ?
        use(NOTHING_HELD) :
        Effect.flatMap(OwnPlaces, (own) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.suspend(() => {
              const holder = first(queues.get(key) ?? [])
              if (holder !== undefined && own.has(holder)) return restore(use(abandon(key, holder)))
              if (holder !== undefined && holder.abandoned > 0) return restore(busy)
              const place = enter(key)
              const turn = holder === undefined
                ? Effect.succeed(true)
                // It is woken inside the stack of the call before, which has to end first.
                : Effect.tap(Deferred.await(place.turn), Effect.yieldNow)
              return turn.pipe(
                Effect.flatMap((isMine) => isMine ? use(abandon(key, place)) : busy),
                Effect.provideService(OwnPlaces, new Set([...own, place])),
                restore,
                Effect.onExit(() =>
                  Effect.sync(() => {
                    place.done = true
                    leave(key, place)
                  })
                )
              )
            })
          ))
  }
}

const first = (queue: Iterable<Place>): Place | undefined => {
  for (const place of queue) return place
  return undefined
}

const answer = (place: Place, isTurn: boolean): void => {
  Deferred.doneUnsafe(place.turn, Effect.succeed(isTurn))
}
