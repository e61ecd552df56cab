/*
 * The scripted model as a process: the side that serves, and the side that
 * starts it and ends it with its scope.
 */
import * as Effect from "effect/Effect"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type CliFailure, failed } from "../failure.ts"
import { type OutputClosed, print } from "../output.ts"
import { listen } from "./modelServer.ts"

/** How long the process may take to listen. */
const START_TIMEOUT = "20 seconds"

/** How long it may take to end before it is killed. */
const END_TIMEOUT = "2 seconds"

/** Serves until interrupted; the first line it prints is the base URL. */
export const serveScriptedModel = (port: number): Effect.Effect<never, CliFailure | OutputClosed> =>
  Effect.scoped(
    Effect.gen(function*() {
      const { baseUrl } = yield* Effect.acquireRelease(
        Effect.callback<{ readonly baseUrl: string; readonly close: () => void }, CliFailure>((resume) => {
          const server = listen(
            { port },
            (baseUrl) => resume(Effect.succeed({ baseUrl, close: () => server.close().closeAllConnections() })),
            (error) => resume(Effect.fail(failed(`cannot listen on 127.0.0.1:${port}: ${error.message}`)))
          )
        }),
        ({ close }) => Effect.sync(close)
      )
      yield* print(baseUrl)
      yield* print("A scripted model: it chooses tools by rules and writes no prose of its own. Ctrl-C ends it.")
      return yield* Effect.never
    })
  )

/** Starts the scripted model in a process of its own; yields its base URL. */
export const startScriptedModel: Effect.Effect<string, CliFailure, ChildProcessSpawner | Scope.Scope> = Effect.gen(
  function*() {
    const command = yield* ChildProcess.make(process.execPath, [process.argv[1] ?? "", "demo-server"], {
      // It needs nothing of this environment, least of all keys.
      env: {},
      stdin: "ignore",
      stderr: "inherit",
      forceKillAfter: END_TIMEOUT
    })
    return yield* command.stdout.pipe(
      Stream.decodeText,
      Stream.splitLines,
      Stream.runHead,
      Effect.flatMap(Effect.fromOption),
      Effect.timeout(START_TIMEOUT)
    )
  }
).pipe(Effect.mapError((error) => failed(`the scripted model did not start: ${error.message}`)))
