/*
 * How many calls run side by side.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"

/** Permits for a limit, at least one; `undefined` where there is none. */
export const makePermits = (limit: number | "unbounded" | undefined): Effect.Effect<Semaphore.Semaphore | undefined> =>
  typeof limit === "number" ? Semaphore.make(limit >= 1 ? limit : 1) : Effect.undefined
