/**
 * A list of a server, kept until it changes.
 *
 * However many ask, one request is in flight. A change notification is followed in the background, off the receiving fiber:
 * a burst of them costs one request and one more after it, and a server that announces a change each time it is asked is
 * asked less and less often. The old list stays until the new one is complete, and when that fails.
 */
import type * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { McpError } from "../McpError.ts"
import type { Calls } from "./calls.ts"
import type { Report } from "./decode.ts"

export interface ListCache<A> {
  /** The list, from the cache if it is fresh. */
  readonly get: Effect.Effect<ReadonlyArray<A>, McpError>
  /** The list, asked for anew. */
  readonly refresh: Effect.Effect<ReadonlyArray<A>, McpError>
  /** The list as it was last read, however old. */
  readonly peek: () => ReadonlyArray<A> | undefined
  /** The server says that it changed. */
  readonly changed: () => void
}

export interface Loaded<A> {
  readonly items: ReadonlyArray<A>
  /** For how long it is fresh. */
  readonly freshMillis: number
}

/** Pauses between refreshes that a server keeps asking for. */
const FIRST_PAUSE_MILLIS = 250
const LONGEST_PAUSE_MILLIS = 30_000

export const makeListCache = <A>(options: {
  readonly name: string
  readonly load: Effect.Effect<Loaded<A>, McpError>
  /** Called after a change was followed. */
  readonly onChanged: () => void
  readonly run: Calls["run"]
  readonly clock: Clock.Clock
  readonly report: Report
}): ListCache<A> => {
  const now = (): number => Number(options.clock.monotonicTimeNanosUnsafe()) / 1e6
  let items: ReadonlyArray<A> | undefined
  let freshUntil = Number.NEGATIVE_INFINITY
  let dirty = false
  let following = false
  let inFlight: Deferred.Deferred<ReadonlyArray<A>, McpError> | undefined

  const refresh: Effect.Effect<ReadonlyArray<A>, McpError> = Effect.suspend(() => {
    if (inFlight !== undefined && !dirty) return Deferred.await(inFlight)
    const before = inFlight
    const deferred = Deferred.makeUnsafe<ReadonlyArray<A>, McpError>()
    inFlight = deferred
    dirty = false
    const load = Effect.map(options.load, (loaded) => {
      items = loaded.items
      freshUntil = now() + loaded.freshMillis
      return loaded.items
    })
    // In a fiber of its own: whoever asked first may be interrupted, the others still wait.
    options.run(
      (before === undefined ? load : Effect.andThen(Effect.exit(Deferred.await(before)), load)).pipe(
        Effect.exit,
        Effect.map((exit) => {
          if (inFlight === deferred) inFlight = undefined
          Deferred.doneUnsafe(deferred, exit)
        })
      )
    )
    return Deferred.await(deferred)
  })

  const follow = (pause: number): Effect.Effect<void> =>
    Effect.matchEffect(refresh, {
      onFailure: (error) =>
        Effect.sync(() => {
          dirty = true
          following = false
          options.report({ kind: "connection", message: `${options.name} changed, reading failed: ${error.message}` })
        }),
      onSuccess: () =>
        Effect.suspend(() => {
          options.onChanged()
          if (!dirty) {
            following = false
            return Effect.void
          }
          return Effect.andThen(Effect.sleep(pause), follow(Math.min(pause * 2, LONGEST_PAUSE_MILLIS)))
        })
    })

  return {
    get: Effect.suspend(() => items !== undefined && !dirty && now() < freshUntil ? Effect.succeed(items) : refresh),
    refresh,
    peek: () => items,
    changed() {
      dirty = true
      if (following) return
      // Nobody has asked for it yet: there is nothing to bring up to date.
      if (items === undefined && inFlight === undefined) return options.onChanged()
      following = true
      options.run(follow(FIRST_PAUSE_MILLIS))
    }
  }
}
