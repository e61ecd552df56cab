import { Effect, type Scope } from "effect"
import * as ChildProcess from "node:child_process"
import * as Http from "node:http"
import type * as Net from "node:net"
import * as Path from "node:path"

const main = Path.resolve(import.meta.dirname, "../../src/cli/main.ts")

const terminal = Path.resolve(import.meta.dirname, "../fixtures/cli/terminal.ts")

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  readonly process: ChildProcess.ChildProcess
  readonly ended: Effect.Effect<Ended>
  /** Waits until standard output matches; yields the match. */
  readonly shows: (pattern: RegExp) => Effect.Effect<RegExpExecArray>
}

/** Starts the command as a user's shell would, without the machine's own keys. */
export const start = (
  args: ReadonlyArray<string>,
  options?: {
    readonly env?: Record<string, string>
    readonly input?: string
    /** Lines that are typed, each when a prompt waits for it. Default: there is no terminal. */
    readonly typed?: ReadonlyArray<string>
  }
): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const preload = options?.typed === undefined ? [] : ["--import", terminal]
      const child = ChildProcess.spawn(process.execPath, [...preload, main, ...args], {
        env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...options?.env }
      })
      const output = { stdout: "", stderr: "" }
      const waiting = new Set<() => void>()
      child.stdout.on("data", (chunk) => {
        output.stdout += chunk
        for (const check of waiting) check()
      })
      const typed = [...options?.typed ?? []]
      let shown = 0
      child.stderr.on("data", (chunk) => {
        output.stderr += chunk
        // Every prompt ends so, and nothing follows it until it is answered.
        // oxlint-disable-next-line no-control-regex -- the cursor is put behind it
        const prompt = /(?:: |> )(?:\u001b\[\d*G)?$/.exec(output.stderr.slice(shown))
        if (options?.typed === undefined || prompt === null) return
        shown = output.stderr.length
        const line = typed.shift()
        if (line === undefined) child.stdin.end()
        else child.stdin.write(`${line}\n`)
      })
      child.stdin.on("error", () => {})
      if (options?.typed === undefined) child.stdin.end(options?.input ?? "")
      const ended = new Promise<Ended>((resolve) =>
        child.on("close", (code, signal) => resolve({ code, signal, ...output }))
      )
      return {
        process: child,
        ended: Effect.promise(() => ended),
        shows: (pattern: RegExp) =>
          Effect.callback<RegExpExecArray>((resume) => {
            const check = () => {
              const match = pattern.exec(output.stdout)
              if (match !== null) resume(Effect.succeed(match))
            }
            waiting.add(check)
            check()
            return Effect.sync(() => waiting.delete(check))
          })
      }
    }),
    ({ process }) => Effect.sync(() => process.kill("SIGKILL"))
  )

/** Runs the command to its end. */
export const agcore = (...parameters: Parameters<typeof start>): Effect.Effect<Ended> =>
  Effect.scoped(Effect.flatMap(start(...parameters), ({ ended }) => ended))

/** The base URL of the demo's model server, which ends with the scope. */
export const demoServer: Effect.Effect<string, never, Scope.Scope> = Effect.gen(function*() {
  const server = yield* start(["demo-server"])
  const match = yield* server.shows(/^(http:\S+)\n/)
  return match[1]!
})

/** A server on the loopback address that ends with the scope. */
export const serve = (
  handler: Http.RequestListener
): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<Http.Server>((resume) => {
        const server = Http.createServer(handler)
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close().closeAllConnections())
    ),
    (server) => `http://127.0.0.1:${(server.address() as Net.AddressInfo).port}/v1`
  )
