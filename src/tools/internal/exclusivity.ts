/*
 * Keys that one call at a time may hold.
 *
 * A call that timed out but does not stop gives its place up as abandoned: who
 * waits or comes is told so at once instead of waiting for work nobody can end.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Semaphore from "effect/Semaphore"
import { FIBER_STATE } from "../../internal/handlerContext.ts"

/** Keys held by the call that the current fiber works for. */
const HeldKeys: Context.Reference<ReadonlySet<string>> = Context.Reference<ReadonlySet<string>>(
  `${FIBER_STATE}HeldKeys`,
  { defaultValue: () => new Set<string>() }
)

/** Gives a key up although the work goes on until `ended` does. */
export type Abandon = (ended: Effect.Effect<unknown>) => Effect.Effect<void>

export interface Exclusivity {
  /**
   * Waits for the key and runs `use`, which holds it until it ends; answers
   * `busy` at once where an abandoned call still works under the key.
   */
  readonly withKey: <A>(
    key: string | undefined,
    use: (abandon: Abandon) => Effect.Effect<A>,
    busy: Effect.Effect<A>
  ) => Effect.Effect<A>
}

interface Slot {
  readonly semaphore: Semaphore.Semaphore
  users: number
  abandoned: number
}

const nothingHeld: Abandon = () => Effect.void

export const make = (): Exclusivity => {
  const slots = new Map<string, Slot>()

  const leave = (key: string, slot: Slot) => {
    if (--slot.users === 0) slots.delete(key)
  }

  const abandon = (key: string, slot: Slot): Abandon => (ended) =>
    Effect.suspend(() => {
      slot.users++
      slot.abandoned++
      return Effect.asVoid(Effect.forkDetach(Effect.andThen(
        ended,
        Effect.sync(() => {
          slot.abandoned--
          leave(key, slot)
        })
      )))
    })

  return {
    withKey: (key, use, busy) =>
      key === undefined ? use(nothingHeld) : Effect.flatMap(HeldKeys, (keys) => {
        if (keys.has(key)) return use(nothingHeld)
        return Effect.suspend(() => {
          const slot = slots.get(key) ?? { semaphore: Semaphore.makeUnsafe(1), users: 0, abandoned: 0 }
          slots.set(key, slot)
          slot.users++
          return Effect.suspend(() => slot.abandoned > 0 ? busy : use(abandon(key, slot))).pipe(
            Effect.provideService(HeldKeys, new Set([...keys, key])),
            slot.abandoned > 0 ? identity : slot.semaphore.withPermit,
            Effect.onExit(() => Effect.sync(() => leave(key, slot)))
          )
        })
      })
  }
}
