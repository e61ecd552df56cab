/*
 * Real processes that say what they do, and may be killed.
 */
import { Effect, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Running {
  readonly child: ChildProcess
  /** What it has said so far. */
  readonly lines: () => ReadonlyArray<string>
  /** Waits until it has said something; dies if it ends before. */
  readonly says: (test: (lines: ReadonlyArray<string>) => boolean) => Effect.Effect<void>
  readonly ended: Effect.Effect<void>
  /** SIGKILL, and waits for its end. */
  readonly kill: Effect.Effect<void>
}

export const start = (script: string, ...args: ReadonlyArray<string>): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [script, ...args], {
        env: { ...process.env, NODE_COMPILE_CACHE: join(tmpdir(), "agcore-test-cache") },
        stdio: ["pipe", "pipe", "inherit"]
      })
      let output = ""
      let isOver = false
      const lines = () => output.split("\n").slice(0, -1)
      const waiting = new Set<() => void>()
      const wake = () => waiting.forEach((check) => check())
      child.stdout.on("data", (chunk) => {
        output += String(chunk)
        wake()
      })
      child.once("close", () => {
        isOver = true
        wake()
      })
      const until = (test: () => boolean) =>
        Effect.callback<void>((resume) => {
          const check = () => {
            if (test()) resume(Effect.void)
            else if (isOver) resume(Effect.die(new Error(`it has ended after: ${lines().join("; ")}`)))
          }
          waiting.add(check)
          check()
          return Effect.sync(() => waiting.delete(check))
        })
      const ended = until(() => isOver)
      const kill = Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), ended)
      return { child, lines, says: (test) => until(() => test(lines())), ended, kill }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )
