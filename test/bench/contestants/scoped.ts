/**
 * A resource of Effect, held by code that is made of promises.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as ManagedRuntime from "effect/ManagedRuntime"
import * as Scope from "effect/Scope"

/** Makes a scoped value; answers it with what lets go of it and of the runtime. */
export const scoped = async <A, E, R, ER>(
  runtime: ManagedRuntime.ManagedRuntime<R, ER>,
  make: Effect.Effect<A, E, R | Scope.Scope>
): Promise<readonly [value: A, close: () => Promise<void>]> => {
  const scope = await runtime.runPromise(Scope.make())
  const value = await runtime.runPromise(Effect.provideService(make, Scope.Scope, scope))
  return [value, async () => {
    await runtime.runPromise(Scope.close(scope, Exit.void))
    await runtime.dispose()
  }]
}
