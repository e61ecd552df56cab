/**
 * The stdio transport: a server that is a child process, one message a line.
 *
 * Its end, in order, each step bounded: what is queued is written, standard input is closed, the process may leave by
 * itself, its whole group gets SIGTERM, then SIGKILL. A server that ends by itself takes the same way, so that nothing of
 * its group stays behind.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as PlatformError from "effect/PlatformError"
import * as ChildProcess from "effect/process/ChildProcess"
import { type ChildProcessHandle, ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { secretArguments } from "../../internal/secretArguments.ts"
import { shown } from "../../internal/shown.ts"
import { McpError, ProcessExited, SpawnFailed } from "../McpError.ts"
import { concat } from "./bytes.ts"
import { inherited } from "./environment.ts"
import { MAX_QUEUED_BYTES, STDERR_TAIL_BYTES } from "./limits.ts"
import { idAtEnd, idAtStart, type LineReader, makeLineReader, parseLine } from "./lines.ts"
import { makeOutbox, type Outbox } from "./outbox.ts"
import { excerpt, redactor } from "./quote.ts"
import { reaperOf } from "./reaper.ts"
import type { Transport, TransportHandlers } from "./transport.ts"

export interface StdioOptions {
  readonly command: string
  readonly args: ReadonlyArray<string | Redacted.Redacted<string>>
  readonly env: Readonly<Record<string, string | Redacted.Redacted<string> | undefined>>
  readonly cwd: string | undefined
  readonly maxMessageBytes: number
  /** How long the process may take to leave after its input ended, and again after SIGTERM. */
  readonly closeGraceMillis: number
}

/** After the process ended: how long what it still wrote may take to arrive. After its output ended: the exit. */
const LAST_WORDS_MILLIS = 500

/** How long queued output may take to leave when closing. */
const FLUSH_MILLIS = 200

export const makeStdio: (
  options: StdioOptions,
  server: string | undefined
) => Effect.Effect<Transport, never, ChildProcessSpawner> = Effect.fnUntraced(function*(options, server) {
  const spawner = yield* ChildProcessSpawner
  const env = { ...(yield* inherited), ...options.env }
  const redact = redactor(secretsOf(options))
  const label = redact(commandLine(options))
  const name = server ?? label
  let outbox: Outbox | undefined

  const command = ChildProcess.make(options.command, options.args, {
    env,
    cwd: options.cwd,
    forceKillAfter: options.closeGraceMillis
  })

  const spawnFailed = (detail: string): McpError => {
    const path = env["PATH"]
    return new McpError({
      server: name,
      reason: new SpawnFailed({
        command: options.command,
        ...(typeof path === "string" ? { path } : {}),
        ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
        detail: excerpt(redact(detail))
      })
    })
  }

  /** The process, in a Scope of its own that ends with it. */
  const start = Effect.fnUntraced(
    function*(handlers: TransportHandlers): Effect.fn.Return<void, McpError, Scope.Scope> {
      const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
      const reaper = yield* Scope.provide(reaperOf(spawner), scope)
      let pgid = 0
      yield* Scope.addFinalizer(scope, Effect.sync(() => reaper.release(pgid)))
      const handle = yield* spawner.spawn(command).pipe(
        Effect.tap((handle) => Effect.sync(() => reaper.watch(pgid = handle.pid))),
        Effect.uninterruptible,
        Scope.provide(scope),
        Effect.mapError((error) => spawnFailed(reasonOf(error))),
        // The system refuses some commands by throwing: an environment or an argument that is too long.
        Effect.catchDefect((defect) => Effect.fail(spawnFailed(String(defect))))
      )
      const exited = yield* Deferred.make<Ending>()
      yield* Effect.forkIn(Effect.flatMap(endingOf(handle), (ending) => Deferred.succeed(exited, ending)), scope)

      const box = makeOutbox(MAX_QUEUED_BYTES)
      outbox = box
      const writer = yield* Effect.forkIn(Stream.run(box.bytes, handle.stdin), scope, { startImmediately: true })
      const tail = makeTail(STDERR_TAIL_BYTES)
      const readingErrors = yield* Effect.forkIn(
        Effect.ignore(Stream.runForEachArray(handle.stderr, (chunks) => Effect.sync(() => chunks.forEach(tail.add)))),
        scope
      )

      const reader = messageReader(options.maxMessageBytes, redact, handlers)
      const reading = yield* Effect.forkIn(
        Effect.andThen(
          Effect.ignore(
            Stream.runForEachArray(handle.stdout, (chunks) => Effect.sync(() => chunks.forEach(reader.feed)))
          ),
          Effect.sync(reader.end)
        ),
        scope
      )

      // Added last, so it runs while the output is still read: a server that is busy writing can finish and leave.
      yield* Scope.addFinalizer(
        scope,
        Effect.gen(function*() {
          box.end()
          yield* Effect.ignore(Effect.timeoutOption(Fiber.join(writer), FLUSH_MILLIS))
          // Interrupting it destroys the pipe, which is an end of input, too.
          yield* Fiber.interrupt(writer)
          yield* Effect.timeoutOption(Deferred.await(exited), options.closeGraceMillis)
        })
      )

      // Whichever comes first, the end of the process, of its output or of its input, the others get a moment to follow.
      const refusing = Effect.flatMap(Fiber.await(writer), (exit) => Exit.isFailure(exit) ? Effect.void : Effect.never)
      yield* Effect.raceAllFirst([Deferred.await(exited), Fiber.await(reading), refusing]).pipe(
        Effect.andThen(
          Effect.timeoutOption(
            Effect.andThen(Effect.andThen(Fiber.await(reading), Fiber.await(readingErrors)), Deferred.await(exited)),
            LAST_WORDS_MILLIS
          )
        ),
        Effect.andThen(Effect.suspend(() => {
          const ending = Deferred.isDoneUnsafe(exited) ? Deferred.await(exited) : Effect.succeed<Ending>({})
          return Effect.map(ending, (ending) =>
            handlers.closed(
              new ProcessExited({ command: label, ...ending, stderr: redact(shown(tail.text())) })
            ))
        })),
        Effect.andThen(Effect.uninterruptible(Scope.close(scope, Exit.void))),
        Effect.forkScoped
      )
    }
  )

  const put: Transport["notify"] = (message) =>
    Effect.suspend(() => outbox === undefined ? Effect.void : outbox.put(message))

  return {
    kind: "stdio",
    label,
    redact,
    start,
    request: put,
    notify: put,
    offer: (message) => outbox === undefined || outbox.offer(message),
    agreed: () => {}
  }
})

/** Reads messages from what a process writes. */
const messageReader = (max: number, redact: (text: string) => string, handlers: TransportHandlers): LineReader => {
  const noise = (title: string, text: string): void =>
    handlers.diagnostic({ kind: "noise", message: `${title}: ${excerpt(redact(text), 200)}` })
  return makeLineReader(max, {
    line(text) {
      const line = parseLine(text)
      if (line._tag === "Noise") return noise("not a message", text)
      if (line.noise !== undefined) noise("text around a message", line.noise)
      handlers.receive(line.message)
    },
    overflowing(head) {
      const id = idAtStart(head)
      if (id !== undefined) handlers.oversized(id, max)
      return id !== undefined
    },
    oversized: (tail) => handlers.oversized(idAtEnd(tail), max)
  })
}

interface Ending {
  readonly exitCode?: number
  readonly signal?: string
}

const endingOf = (handle: ChildProcessHandle): Effect.Effect<Ending> =>
  Effect.match(handle.exitCode, {
    onSuccess: (exitCode) => ({ exitCode }),
    // The spawner tells a death by signal in words only.
    onFailure: (error) => {
      const signal = /signal: '(SIG[A-Z0-9]+)'/.exec(reasonOf(error))?.[1]
      return signal === undefined ? {} : { signal }
    }
  })

const reasonOf = (error: PlatformError.PlatformError): string => {
  const { cause } = error.reason
  return cause instanceof Error ? cause.message : error.message
}

/** The last bytes of a stream. */
const makeTail = (max: number): { readonly add: (chunk: Uint8Array) => void; readonly text: () => string } => {
  const decoder = new TextDecoder("utf-8")
  let chunks: Array<Uint8Array> = []
  let size = 0
  return {
    add(chunk) {
      const part = chunk.length > max ? chunk.slice(-max) : chunk
      chunks.push(part)
      size += part.length
      while (chunks[0] !== undefined && size - chunks[0].length >= max) size -= chunks.shift()?.length ?? 0
    },
    text() {
      const bytes = concat(chunks, size)
      chunks = [bytes]
      const text = decoder.decode(bytes.subarray(-max))
      // The cut may fall inside a character, or inside a secret, which would not be known any more.
      return size > max ? text.replace(/^[^\n]*\n/, "").replace(/^\ufffd+/, "") : text
    }
  }
}

const secretsOf = (options: StdioOptions): ReadonlyArray<string> => [
  ...options.args.flatMap((arg) => Redacted.isRedacted(arg) ? [Redacted.value(arg)] : []),
  ...secretArguments(options.args.map((arg) => Redacted.isRedacted(arg) ? "" : arg)),
  ...Object.values(options.env).flatMap((value) =>
    value === undefined ? [] : Redacted.isRedacted(value) ? [Redacted.value(value)] : [value]
  )
]

const commandLine = (options: StdioOptions): string =>
  [options.command, ...options.args.map((arg) => Redacted.isRedacted(arg) ? "<redacted>" : arg)]
    .map((word) => /^[\w@%+=:,./<>-]+$/.test(word) ? word : JSON.stringify(word))
    .join(" ")
