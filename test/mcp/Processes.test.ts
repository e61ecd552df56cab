import { assert, describe, it } from "@effect/vitest"
import { McpClient } from "agcore/mcp"
import { Effect, Exit, Fiber, FileSystem, Scope } from "effect"
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { connect, reasonOf, scoped, type Script, SERVER, SLOW } from "./support.ts"

const HOST = fileURLToPath(new URL("fixtures/host.ts", import.meta.url))

/** Ids of the processes whose command line holds a text and which are more than a zombie. */
const processesWith = (text: string): ReadonlyArray<number> =>
  readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return []
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, "utf8")
      const state = readFileSync(`/proc/${name}/stat`, "utf8").split(") ")[1]?.[0]
      return command.includes(text) && state !== "Z" ? [Number(name)] : []
    } catch {
      return []
    }
  })

/** Waits until no process holds the text, at most as long as the steps of an ending may take together. */
const gone = (text: string) =>
  Effect.gen(function*() {
    for (let tries = 0; tries < 200 && processesWith(text).length > 0; tries++) yield* Effect.sleep("50 millis")
    assert.deepStrictEqual(processesWith(text), [])
  })

/** A server that can be told from all others in the process table. */
const marked = (script: Script = {}) => {
  const mark = randomUUID()
  return { mark, argument: JSON.stringify({ ...script, mark }) }
}

/** How a server may be started: by itself, behind a shell that waits, behind two. */
const wrappers: Record<
  string,
  (argument: string) => { readonly command: string; readonly args: ReadonlyArray<string> }
> = {
  "by itself": (argument) => ({ command: process.execPath, args: [SERVER, argument] }),
  "behind a shell": (argument) => ({
    command: "sh",
    args: ["-c", `"$0" "$1" "$2"; true`, process.execPath, SERVER, argument]
  }),
  "behind two shells": (argument) => ({
    command: "sh",
    args: ["-c", `sh -c '"$0" "$1" "$2"; true' "$@"; true`, "sh", process.execPath, SERVER, argument]
  })
}

/** How willing it is to leave. */
const manners: Record<string, Script> = {
  "leaves when asked": {},
  "ignores the end of its input": { ignore: ["eof"] },
  "ignores the end of its input and SIGTERM": { ignore: ["eof", "SIGTERM"] }
}

describe("nothing is left of a server", SLOW, () => {
  for (const [how, wrap] of Object.entries(wrappers)) {
    for (const [manner, script] of Object.entries(manners)) {
      // verifies: mcp.processes
      it.live(`that ${manner}, started ${how}, when its scope closes`, () =>
        scoped(Effect.gen(function*() {
          const { argument, mark } = marked(script)
          const start = performance.now()
          yield* Effect.scoped(Effect.gen(function*() {
            const client = yield* McpClient.stdio({ ...wrap(argument), closeGrace: "300 millis" })
            yield* client.callTool("echo")
            assert.isAbove(processesWith(mark).length, 0)
          }))
          assert.deepStrictEqual(processesWith(mark), [])
          assert.isBelow(performance.now() - start, 20_000)
        })))
    }
  }

  const endings: Record<string, (client: McpClient.McpClient) => Effect.Effect<unknown, unknown>> = {
    "success": () => Effect.void,
    "failure": () => Effect.fail("failed"),
    "a defect": () => Effect.die("broken"),
    "a timeout": (client) => client.callTool("wait", { millis: 60_000 }, { timeout: "50 millis" }),
    "a crash of the server": (client) => client.callTool("die", { code: 3 }),
    "a signal to the server": (client) => client.callTool("die", { signal: "SIGKILL" })
  }
  for (const [title, ending] of Object.entries(endings)) {
    it.live(`after ${title}`, () =>
      scoped(Effect.gen(function*() {
        const { argument, mark } = marked()
        yield* Effect.exit(Effect.scoped(Effect.flatMap(
          McpClient.stdio({ command: process.execPath, args: [SERVER, argument] }),
          ending
        )))
        assert.deepStrictEqual(processesWith(mark), [])
      })))
  }

  it.live("after interruption, while connecting and while calling", () =>
    scoped(Effect.gen(function*() {
      for (const script of [{ silent: ["initialize", "server/discover"] }, {}]) {
        const { argument, mark } = marked(script)
        const using = yield* Effect.forkChild(Effect.scoped(Effect.flatMap(
          McpClient.stdio({ command: process.execPath, args: [SERVER, argument] }),
          (client) => client.callTool("wait", { millis: 60_000 })
        )))
        while (processesWith(mark).length === 0) yield* Effect.sleep("10 millis")
        yield* Effect.sleep("200 millis")
        yield* Fiber.interrupt(using)
        assert.deepStrictEqual(processesWith(mark), [])
      }
    })))

  it.live("when no connection came about, though the scope goes on", () =>
    scoped(Effect.gen(function*() {
      for (const script of [{ silent: ["server/discover", "initialize"] }, { revision: "2099-01-01" }]) {
        const { argument, mark } = marked(script)
        yield* reasonOf(McpClient.stdio({
          command: process.execPath,
          args: [SERVER, argument],
          connectTimeout: "300 millis",
          probeTimeout: "100 millis"
        }))
        assert.deepStrictEqual(processesWith(mark), [])
      }
    })))

  it.live("of its descendants, once it has left by itself", () =>
    scoped(Effect.gen(function*() {
      const { argument, mark } = marked({ ignore: ["eof"] })
      // The leader exits with 0; its child, which holds its output, lives on.
      const client = yield* McpClient.stdio({
        command: "sh",
        args: ["-c", `"$0" "$1" "$2" & child=$!; sleep 1; exit 0`, process.execPath, SERVER, argument],
        closeGrace: "300 millis"
      }).pipe(Effect.exit)
      // Behind `&` its input is empty, so no connection comes about.
      assert.strictEqual(client._tag, "Failure")
      yield* gone(mark)
    })))

  it.live("while output to it was waiting: it reads nothing any more", () =>
    scoped(Effect.gen(function*() {
      const { argument, mark } = marked({ ignore: ["eof"] })
      const scope = yield* Scope.make()
      const client = yield* Scope.provide(
        McpClient.stdio({
          command: process.execPath,
          args: [SERVER, argument],
          closeGrace: "300 millis",
          timeout: "2 seconds"
        }),
        scope
      )
      const [pid] = processesWith(mark)
      process.kill(pid ?? 0, "SIGSTOP")
      const text = "x".repeat(1_000_000)
      // More than pipe and queue hold: the last ones wait for room, within their deadline.
      const reasons = yield* Effect.forEach(Array.from({ length: 20 }), () =>
        reasonOf(client.callTool("echo", { text })), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(
        new Set(reasons.map(({ _tag }) =>
          _tag
        )),
        new Set(["TimedOut"])
      )
      yield* Scope.close(scope, Exit.void)
      yield* gone(mark)
    })))
})

describe("nothing is left of a server when our own process", SLOW, () => {
  const run = (ending: string, script: Script, options: { readonly main: boolean; readonly signal?: NodeJS.Signals }) =>
    Effect.gen(function*() {
      const { argument, mark } = marked(script)
      const host = spawn(
        process.execPath,
        ["--experimental-transform-types", "--no-warnings", HOST, ending, process.execPath, SERVER, argument],
        {
          env: {
            ...process.env,
            RUN: options.main ? "main" : "bare",
            NODE_COMPILE_CACHE: join(tmpdir(), "agcore-test-cache")
          },
          stdio: ["ignore", "pipe", "inherit"]
        }
      )
      yield* Effect.callback<void>((resume) => {
        host.stdout.once("data", () => resume(Effect.void))
        host.once("exit", () => resume(Effect.void))
      })
      const ended = Effect.callback<void>((resume) => {
        if (host.exitCode !== null || host.signalCode !== null) resume(Effect.void)
        else host.once("exit", () => resume(Effect.void))
      })
      if (options.signal !== undefined) {
        assert.isAbove(processesWith(mark).length, 0)
        host.kill(options.signal)
      }
      yield* ended
      yield* gone(mark)
    })

  for (
    const [title, ending] of [
      ["succeeds", "success"],
      ["fails", "failure"],
      ["breaks", "defect"],
      ["throws outside of every effect", "uncaught"],
      ["exits without a word", "exit"]
    ] as const
  ) {
    it.live(title, () => run(ending, {}, { main: true }))
  }

  for (const signal of ["SIGTERM", "SIGINT", "SIGKILL"] as const) {
    for (const main of [true, false]) {
      it.live(`gets ${signal}${main ? "" : " and does not handle it"}`, () => run("wait", {}, { main, signal }))
    }
  }

  it.live("is killed, though the server ignores the end of its input and SIGTERM", () =>
    run("wait", { ignore: ["eof", "SIGTERM"] }, { main: true, signal: "SIGKILL" }))
})

describe("what a server is given", SLOW, () => {
  // verifies: mcp.environment
  it.live("is a short list of variables and what was configured, no more", () =>
    scoped(Effect.gen(function*() {
      process.env["AGCORE_TEST_SECRET"] = "do not pass on"
      const client = yield* connect({}, { env: { EXTRA: "1", LANG: undefined } })
      const result = yield* client.callTool("env")
      const env = JSON.parse(result.content[0]?.type === "text" ? result.content[0].text : "{}") as Record<
        string,
        string
      >
      const allowed = new Set(["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TMPDIR", "EXTRA"])
      assert.deepStrictEqual(Object.keys(env).filter((name) => !allowed.has(name)), [])
      assert.strictEqual(env["EXTRA"], "1")
      assert.strictEqual(env["PATH"], process.env["PATH"])
    })))

  it.live("is a directory to work in", () =>
    scoped(Effect.gen(function*() {
      const files = yield* FileSystem.FileSystem
      const cwd = yield* files.realPath(yield* files.makeTempDirectoryScoped())
      const reason = yield* reasonOf(connect({}, {
        args: ["-e", "console.error(process.cwd()); process.exit(1)"],
        cwd
      }))
      assert.include(reason.message, cwd)
    })))

  it.live("is kept out of errors where it is secret", () =>
    scoped(Effect.gen(function*() {
      const error = yield* Effect.flip(McpClient.stdio({
        command: process.execPath,
        args: [
          "-e",
          "console.error('key is', process.env.KEY, process.argv); process.exit(1)",
          "--",
          "--api-key=abc-argument",
          "--token",
          "abc-next"
        ],
        env: { KEY: "abc-environment" }
      }))
      assert.include(error.message, "key is <redacted>")
      for (const secret of ["abc-environment", "abc-argument", "abc-next"]) {
        assert.notInclude(error.message, secret)
        assert.notInclude(JSON.stringify(error), secret)
      }
    })))
})
