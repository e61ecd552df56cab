/*
 * Keys that one call at a time may hold.
 *
 * A call that timed out but does not stop gives its place up as abandoned: who
 * waits or comes is told so at once instead of waiting for work nobody can end.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import { FIBER_STATE } from "../../internal/handlerContext.ts"

/** Keys held by the call that the current fiber works for. */
const HeldKeys: Context.Reference<ReadonlySet<string>> = Context.Reference<ReadonlySet<string>>(
  `${FIBER_STATE}HeldKeys`,
  { defaultValue: () => new Set<string>() }
)

/** What a holder does with its key; both are safe to call once each, in this order or alone. */
export interface Held {
  /** The work has ended. */
  readonly release: Effect.Effect<void>
  /** The work goes on although nobody waits for it; `release` follows when it ends. */
  readonly abandon: Effect.Effect<void>
}

export interface Exclusivity {
  /** Waits for the key and runs `use` with it; runs `busy` if an abandoned call holds it. */
  readonly withKey: <A>(
    key: string | undefined,
    use: (held: Held) => Effect.Effect<A>,
    busy: Effect.Effect<A>
  ) => Effect.Effect<A>
}

interface Slot {
  readonly semaphore: Semaphore.Semaphore
  users: number
  abandoned: number
}

const NOTHING_HELD: Held = { release: Effect.void, abandon: Effect.void }

export const make = (): Exclusivity => {
  const slots = new Map<string, Slot>()

  const leave = (key: string, slot: Slot) => {
    if (--slot.users === 0) slots.delete(key)
  }

  const hold = (key: string, slot: Slot): Held => {
    let abandoned = false
    return {
      abandon: Effect.suspend(() => {
        abandoned = true
        slot.abandoned++
        return slot.semaphore.release(1)
      }),
      release: Effect.suspend(() => {
        leave(key, slot)
        if (!abandoned) return slot.semaphore.release(1)
        slot.abandoned--
        return Effect.void
      })
    }
  }

  return {
    withKey: (key, use, busy) =>
      key === undefined ? use(NOTHING_HELD) : Effect.flatMap(HeldKeys, (keys) => {
        if (keys.has(key)) return use(NOTHING_HELD)
        return Effect.uninterruptibleMask((restore) =>
          Effect.suspend(() => {
            const slot = slots.get(key) ?? { semaphore: Semaphore.makeUnsafe(1), users: 0, abandoned: 0 }
            slots.set(key, slot)
            if (slot.abandoned > 0) return restore(busy)
            slot.users++
            return restore(slot.semaphore.take(1)).pipe(
              Effect.onInterrupt(() => Effect.sync(() => leave(key, slot))),
              Effect.andThen(Effect.suspend(() => {
                const held = hold(key, slot)
                return slot.abandoned > 0
                  ? Effect.andThen(held.release, restore(busy))
                  : restore(use(held)).pipe(Effect.provideService(HeldKeys, new Set([...keys, key])))
              }))
            )
          })
        )
      })
  }
}
