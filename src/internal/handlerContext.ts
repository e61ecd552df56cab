/*
 * Which services a tool's handler sees: its own, captured when it was built,
 * win over its caller's; what belongs to the running fiber is the caller's.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"

/** Keys of agcore's own fiber state start so; they are never captured. */
export const FIBER_STATE = "agcore/internal/fiber/"

const RUNTIME_KEYS: ReadonlySet<string> = new Set([
  ...Object.values(References).map((reference) => reference.key),
  Clock.Clock.key,
  Scope.Scope.key,
  Tracer.ParentSpanKey,
  Tracer.TracerKey,
  Tracer.DisablePropagation.key,
  Tracer.CurrentTraceLevel.key,
  Tracer.MinimumTraceLevel.key,
  // The call's own, by its key: this folder imports from no other.
  "agcore/tools/ToolContext"
])

/** Provides captured services to an effect that runs in a caller's context. */
export const provider = <R>(
  captured: Context.Context<R>
): <A, E, Call>(effect: Effect.Effect<A, E, R | Call>) => Effect.Effect<A, E, Call> => {
  const own = Context.makeUnsafe<R>(
    new Map(
      Array.from(captured.mapUnsafe).filter(([key]) => !RUNTIME_KEYS.has(key) && !key.startsWith(FIBER_STATE))
    )
  )
  return <A, E, Call>(effect: Effect.Effect<A, E, R | Call>) =>
    Effect.updateContext(
      effect,
      (caller: Context.Context<Call>): Context.Context<R | Call> => Context.merge(caller, own)
    )
}
