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
  // Of what is captured at each start of a conversation, most is never used.
  let own: Own<R> | undefined
  // A program mostly calls a tool where it has the services it was built with, so little differs. That is laid over the
  // caller's context: to put another one together takes longer than many a handler.
  const cover = <Call>(caller: Context.Context<Call>): Context.Context<R | Call> => {
    const { all, each } = own ??= ownOf(captured)
    // One that is `undefined` covers a default.
    const others = each.filter(({ key, service }) =>
      service === undefined || Context.getOrUndefined(caller, key) !== service
    )
    if (others.length > MAX_COVERS) return Context.merge(caller, all)
    // Of R, it has what does not differ.
    let covered = caller as Context.Context<R | Call>
    for (const { key, service } of others) covered = Context.add(covered, key, service)
    return covered
  }
  return <A, E, Call>(effect: Effect.Effect<A, E, R | Call>) => Effect.updateContext(effect, cover<Call>)
}

/** From how many services on a context is put together anew. */
const MAX_COVERS = 4

/** What is provided of the captured services, together and one by one. */
interface Own<R> {
  readonly all: Context.Context<R>
  readonly each: ReadonlyArray<{ readonly key: Context.Service<R, unknown>; readonly service: unknown }>
}

const ownOf = <R>(captured: Context.Context<R>): Own<R> => {
  const entries = Array.from(captured.mapUnsafe)
    .filter(([key]) => !RUNTIME_KEYS.has(key) && !key.startsWith(FIBER_STATE))
  return {
    all: Context.makeUnsafe(new Map(entries)),
    each: entries.map(([key, service]) => ({ key: Context.Service<R, unknown>(key), service }))
  }
}
