/*
 * A lock that processes share: a file beside the one it guards, which only one of them can create.
 *
 * It is held for one append, milliseconds. A process that is killed while it holds it leaves it behind; whoever finds
 * it unchanged for `STALE` takes it away. Whoever was only slow, and comes to itself after that, sees that the lock is
 * no longer its own before it writes, and sees what others wrote after it has written.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import { uuid } from "../../internal/digest.ts"
import { AuditError, Busy } from "../AuditError.ts"

/** How long a lock stays unchanged before its holder counts as gone. */
const STALE = Duration.seconds(2)

/** How long to wait for others, those before us in the queue included. */
const TIMEOUT = Duration.seconds(4)

/** How long until the lock is looked at again. */
const POLL = Duration.millis(5)

/** Says whether the lock is still held by whoever got this. */
export type IsHeld = Effect.Effect<boolean, PlatformError>

/** Runs an effect while no other process holds the lock at `path`. */
export const withLock = <A, E, R>(
  fs: FileSystem.FileSystem,
  path: string,
  use: (isHeld: IsHeld) => Effect.Effect<A, E, R>
): Effect.Effect<A, E | AuditError | PlatformError, R> =>
  Effect.flatMap(uuid, (own) =>
    Effect.acquireUseRelease(
      Effect.andThen(acquire(fs, path, own), now),
      (since) => use(isHeld(fs, path, own, since)),
      // What somebody took away is no longer ours to remove.
      (since) =>
        Effect.ignore(Effect.flatMap(isHeld(fs, path, own, since), (held) => held ? fs.remove(path) : Effect.void))
    ))

// Nobody takes it away before its time, so there is seldom a need to look.
const isHeld = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string, own: string, since: number) {
  const elapsed = (yield* now) - since
  return elapsed < Duration.toMillis(STALE) / 2 || (yield* holder(fs, path)) === own
})

const acquire = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string, own: string) {
  const started = yield* now
  const isStale = makeWatch(fs, path)
  const guard = `${path}.stale`
  const isGuardStale = makeWatch(fs, guard)

  while (!(yield* create(fs, path, own))) {
    const stale = yield* isStale
    const staleGuard = yield* isGuardStale
    // One at a time takes it away, and looks again before that: it may be another's by now.
    if (stale !== undefined) {
      if (yield* create(fs, guard, own)) {
        if ((yield* holder(fs, path)) === stale) yield* fs.remove(path, { force: true })
        yield* fs.remove(guard, { force: true })
      } else if (staleGuard !== undefined) {
        yield* fs.remove(guard, { force: true })
      }
    }
    if ((yield* now) - started >= Duration.toMillis(TIMEOUT)) {
      return yield* new AuditError({ reason: new Busy({ description: `other writers hold ${path}` }) })
    }
    yield* Effect.sleep(POLL)
  }
})

/** Who holds a lock that has stayed the same for too long, if it has. */
const makeWatch = (fs: FileSystem.FileSystem, path: string) => {
  let seen: { readonly holder: string | undefined; readonly since: number } | undefined
  return Effect.gen(function*() {
    const other = yield* holder(fs, path)
    const at = yield* now
    if (seen === undefined || seen.holder !== other) seen = { holder: other, since: at }
    return at - seen.since >= Duration.toMillis(STALE) ? other : undefined
  })
}

const create = (fs: FileSystem.FileSystem, path: string, own: string): Effect.Effect<boolean, PlatformError> =>
  fs.writeFileString(path, own, { flag: "wx", mode: 0o600 }).pipe(
    Effect.as(true),
    Effect.catchReason("PlatformError", "AlreadyExists", () => Effect.succeed(false)),
    // A full disk leaves the file, and not what belongs into it.
    Effect.tapError(() =>
      Effect.ignore(
        Effect.flatMap(
          holder(fs, path),
          (written) => written !== undefined && own.startsWith(written) ? fs.remove(path) : Effect.void
        )
      )
    )
  )

const holder = (fs: FileSystem.FileSystem, path: string): Effect.Effect<string | undefined, PlatformError> =>
  fs.readFileString(path).pipe(
    Effect.catchReason("PlatformError", "NotFound", () => Effect.undefined)
  )

// Not the time of day, which may be set.
const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
