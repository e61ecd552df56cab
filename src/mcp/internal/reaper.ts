/**
 * Ends the process groups of servers when this process can no longer do it: after a crash or SIGKILL of its own.
 *
 * A small shell, shared by all servers of one process, is told on its standard input which groups live (`+pgid`, `-pgid`).
 * When that input ends, because this process is gone, it ends the groups that are still listed: SIGTERM, then SIGKILL. In a
 * normal run the list is empty by then. A descendant that leaves its group is out of reach. Only POSIX systems have it;
 * where no `sh` can be started, servers are on their own.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Queue from "effect/Queue"
import * as RcRef from "effect/RcRef"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { inherited } from "./environment.ts"

/** How long a group may take from SIGTERM to SIGKILL once this process is gone, in seconds. */
const GRACE_SECONDS = 2

// Signals that a terminal or a service manager sends to all processes alike do not end it: this process still needs it.
const SCRIPT = `
trap '' HUP INT TERM
groups=
while read -r line; do
  group=\${line#?}
  case $line in
    +*) groups="$groups $group" ;;
    -*) rest=; for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done; groups=$rest ;;
  esac
done
[ -z "$groups" ] && exit 0
for g in $groups; do kill -TERM "-$g" 2>/dev/null; done
n=0
while [ $n -lt ${GRACE_SECONDS * 10} ]; do
  alive=
  for g in $groups; do kill -0 "-$g" 2>/dev/null && alive=1; done
  [ -z "$alive" ] && exit 0
  sleep 0.1 2>/dev/null || { sleep 1; n=$((n + 9)); }
  n=$((n + 1))
done
for g in $groups; do kill -KILL "-$g" 2>/dev/null; done
`

export interface Reaper {
  readonly watch: (pgid: number) => void
  readonly release: (pgid: number) => void
}

const absent: Reaper = { watch: () => {}, release: () => {} }

type Spawner = ChildProcessSpawner["Service"]

const start = Effect.fnUntraced(function*(spawner: Spawner): Effect.fn.Return<Reaper, never, Scope.Scope> {
  const env = yield* inherited
  if (env["OS"] === "Windows_NT") return absent
  const orders = yield* Queue.unbounded<string, Cause.Done>()
  const handle = yield* Effect.option(spawner.spawn(
    ChildProcess.make("sh", ["-c", SCRIPT], {
      env: env["PATH"] === undefined ? {} : { PATH: env["PATH"] },
      stdout: "ignore",
      stderr: "ignore",
      forceKillAfter: "1 second"
    })
  ))
  if (Option.isNone(handle)) return absent
  const { exitCode, stdin } = handle.value
  yield* Stream.fromQueue(orders).pipe(
    Stream.encodeText,
    Stream.run(stdin),
    Effect.ignore,
    Effect.forkScoped({ startImmediately: true })
  )
  // With nothing listed it leaves by itself as soon as its input ends.
  yield* Effect.addFinalizer(() =>
    Effect.andThen(Queue.end(orders), Effect.ignore(Effect.timeoutOption(exitCode, "1 second")))
  )
  return {
    watch: (pgid) => void Queue.offerUnsafe(orders, `+${pgid}\n`),
    release: (pgid) => void Queue.offerUnsafe(orders, `-${pgid}\n`)
  }
})

// One reaper for each spawner, of which a process has one. It starts with the first server and leaves with the last, so
// the scope of the references themselves never has to close.
const reapers = new WeakMap<Spawner, RcRef.RcRef<Reaper>>()
const forever = Scope.makeUnsafe()

/** The reaper of this process, for as long as the Scope lasts. */
export const reaperOf = Effect.fnUntraced(function*(spawner: Spawner): Effect.fn.Return<Reaper, never, Scope.Scope> {
  let shared = reapers.get(spawner)
  if (shared === undefined) {
    shared = yield* Effect.provideService(RcRef.make({ acquire: start(spawner) }), Scope.Scope, forever)
    reapers.set(spawner, shared)
  }
  return yield* RcRef.get(shared)
})
