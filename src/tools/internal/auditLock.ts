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
      Effect.andThen(acquire(fs, path, own), Clock.currentTimeMillis),
      (since) => use(isHeld(fs, path, own, since)),
      // What somebody took away is no longer ours to remove.
      (since) =>
        Effect.ignore(Effect.flatMap(isHeld(fs, path, own, since), (held) => held ? fs.remove(path) : Effect.void))
    ))

// Nobody takes it away before its time, so there is seldom a need to look.
const isHeld = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string, own: string, since: number) {
  const elapsed = (yield* Clock.currentTimeMillis) - since
  return elapsed < Duration.toMillis(STALE) / 2 || (yield* holder(fs, path)) === own
})

const acquire = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string, own: string) {
  const started = yield* Clock.currentTimeMillis
  let seen = { holder: undefined as string | undefined, since: started }
  while (!(yield* create(fs, path, own))) {
    const now = yield* Clock.currentTimeMillis
    const other = yield* holder(fs, path)
    if (other !== seen.holder) seen = { holder: other, since: now }
    else if (other !== undefined && now - seen.since >= Duration.toMillis(STALE)) yield* takeAway(fs, path, own, other)
    if (now - started >= Duration.toMillis(TIMEOUT)) {
      return yield* new AuditError({ reason: new Busy({ description: `other writers hold ${path}` }) })
    }
    yield* Effect.sleep(POLL)
  }
})

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

// Two may find the lock stale at the same time. A rename is one step, so each sees what it took, and puts back what
// was not the one it meant.
const takeAway = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string, own: string, stale: string) {
  const aside = `${path}.${own}`
  yield* fs.rename(path, aside)
  if ((yield* holder(fs, aside)) !== stale) yield* Effect.ignore(fs.link(aside, path))
  yield* fs.remove(aside)
}, Effect.catchReason("PlatformError", "NotFound", () => Effect.void))
