import { assert, describe, it } from "@effect/vitest"
import { McpError } from "agcore/mcp"
import { Effect, Exit, Fiber, FileSystem, Schedule } from "effect"
import { connect, reasonOf, scoped, type Script, SERVER, SLOW, textOf } from "./support.ts"

const spaced = Schedule.spaced("20 millis")

const counterFile = Effect.gen(function*() {
  const files = yield* FileSystem.FileSystem
  return `${yield* files.makeTempDirectoryScoped()}/started`
})

/** The ways a process can go away, and the facts that must be told. */
const ways: Record<string, readonly [Script, { readonly exitCode?: number; readonly signal?: string }]> = {
  "exits with a code": [{ code: 9, say: "panic: kaboom" }, { exitCode: 9 }],
  "exits with 0": [{ code: 0, say: "panic: kaboom" }, { exitCode: 0 }],
  "is killed": [{ signal: "SIGKILL", say: "panic: kaboom" }, { signal: "SIGKILL" }],
  "aborts": [{ signal: "SIGABRT", say: "panic: kaboom" }, { signal: "SIGABRT" }],
  "closes its output and lives on": [{ stdout: true, say: "panic: kaboom" }, {}]
}

describe("a server that goes away", SLOW, () => {
  for (const [title, [how, facts]] of Object.entries(ways)) {
    // verifies: mcp.fail-fast
    it.live(`fails every call at once when it ${title}, and says why`, () =>
      scoped(Effect.gen(function*() {
        const client = yield* connect({}, { timeout: "60 seconds" })
        const waiting = yield* Effect.forkChild(reasonOf(client.callTool("wait", { millis: 60_000 })))
        yield* client.callTool("echo")
        const reasons = [
          yield* reasonOf(client.callTool("die", how)),
          yield* Fiber.join(waiting),
          // Later calls are told the same.
          yield* reasonOf(client.callTool("echo"))
        ]
        for (const reason of reasons) {
          assert.strictEqual(reason._tag, "ProcessExited")
          if (reason._tag !== "ProcessExited") return
          const { command, exitCode, signal, stderr } = reason
          assert.deepStrictEqual(
            { ...(exitCode === undefined ? {} : { exitCode }), ...(signal === undefined ? {} : { signal }) },
            facts
          )
          assert.include(stderr, "panic: kaboom")
          assert.include(command, "server.mjs")
        }
      })))

    it.live(`fails to connect when it ${title} at the first question and at the second`, () =>
      scoped(Effect.gen(function*() {
        const reason = yield* reasonOf(connect({ die: { on: "initialize", ...how } }))
        assert.strictEqual(reason._tag, "ProcessExited")
        assert.include(reason._tag === "ProcessExited" ? reason.stderr : "", "panic: kaboom")
      })))
  }

  it.live("before it is asked anything fails to connect, with its words", () =>
    scoped(Effect.gen(function*() {
      const reason = yield* reasonOf(connect({}, {
        args: ["-e", "console.error('fatal: missing API key FOO'); process.exit(3)"]
      }))
      assert.strictEqual(reason._tag === "ProcessExited" && reason.exitCode, 3)
      assert.include(reason.message, "fatal: missing API key FOO")
    })))

  it.live("that cannot be found names the command and where it was looked for", () =>
    scoped(Effect.gen(function*() {
      const error = yield* Effect.flip(connect({}, { command: "no-such-command-anywhere" }))
      assert.isTrue(McpError.isMcpError(error))
      assert.strictEqual(error.reason._tag, "SpawnFailed")
      assert.include(error.message, "no-such-command-anywhere")
      assert.include(error.message, "ENOENT")
      assert.include(error.message, "PATH=")
    })))

  it.live("whose arguments are too long says so", () =>
    scoped(Effect.gen(function*() {
      const reason = yield* reasonOf(connect({}, { args: ["x".repeat(3_000_000)] }))
      assert.strictEqual(reason._tag, "SpawnFailed")
      assert.include(reason.message, "E2BIG")
    })))

  it.live("that has no such directory says so", () =>
    scoped(Effect.gen(function*() {
      const reason = yield* reasonOf(connect({}, { cwd: "/no/such/directory" }))
      assert.strictEqual(reason._tag, "SpawnFailed")
      assert.include(reason.message, "/no/such/directory")
    })))

  it.live("keeps only the end of what it wrote to standard error, and no escape sequences", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect({ say: { stderr: `begin${"·".repeat(50_000)}\n` } })
      const reason = yield* reasonOf(client.callTool("die", { code: 1, say: "\u001b[31mred\u001b[0m\u0007 end" }))
      const stderr = reason._tag === "ProcessExited" ? reason.stderr : ""
      assert.isTrue(stderr.endsWith("red end\n"))
      assert.isBelow(stderr.length, 9_000)
      assert.notInclude(stderr, "begin")
      assert.notInclude(stderr, "\ufffd")
    })))
})

describe("a server that reads no more", SLOW, () => {
  it.live("fails what waits and what comes", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect({}, { timeout: "60 seconds" })
      const asked = yield* Effect.forkChild(reasonOf(client.callTool("die", { stdin: true, say: "enough" })))
      // The first may still find a place on the way to it.
      const waiting = client.callTool("wait", { millis: 60_000 }, { timeout: "300 millis" })
      const reason = yield* Effect.repeat(reasonOf(waiting), { until: ({ _tag }) => _tag === "ProcessExited" })
      assert.include(reason.message, "closed its standard input or output")
      assert.include(reason.message, "enough")
      assert.strictEqual((yield* Fiber.join(asked))._tag, "ProcessExited")
    })))
})

describe("a supervised server", SLOW, () => {
  // verifies: mcp.restart
  it.live("is started again, and what was in flight has failed", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect({}, { restart: { delay: "20 millis" } })
      const before = textOf(yield* client.callTool("env"))
      assert.strictEqual((yield* reasonOf(client.callTool("die", { code: 1 })))._tag, "ProcessExited")
      yield* Effect.retry(client.callTool("echo"), { times: 200, schedule: spaced })
      assert.strictEqual(textOf(yield* client.callTool("echo", { text: "back" })), "back")
      assert.strictEqual(textOf(yield* client.callTool("env")).length, before.length)
    })))

  it.live("is given up where it leaves each time it is back", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect({}, { restart: { delay: "1 millis", maxAttempts: 2 } })
      const echo = Effect.repeat(Effect.exit(client.callTool("echo")), { until: Exit.isSuccess, schedule: spaced })
      for (let start = 0; start < 3; start++) {
        yield* echo
        yield* reasonOf(client.callTool("die", { code: 5 }))
      }
      yield* Effect.repeat(client.diagnostics, {
        until: (all) => all.some(({ message }) => message === "given up after 2 starts in a row"),
        schedule: spaced
      })
      assert.strictEqual((yield* reasonOf(client.callTool("echo")))._tag, "ProcessExited")
    })))

  it.live("is given up after its attempts", () =>
    scoped(Effect.gen(function*() {
      const counter = yield* counterFile
      // Works the first time, then never again.
      const command = `if [ -e ${counter} ]; then echo gone >&2; exit 4; fi; touch ${counter}; exec "$0" "$@"`
      const client = yield* connect({}, {
        command: "sh",
        args: ["-c", command, process.execPath, SERVER, "{}"],
        restart: { delay: "5 millis", maxAttempts: 2 }
      })
      yield* reasonOf(client.callTool("die", { code: 1 }))
      const settled = yield* Effect.repeat(reasonOf(client.callTool("echo")), {
        until: (reason) => reason._tag === "ProcessExited" && reason.exitCode === 4,
        schedule: spaced
      })
      assert.include(settled.message, "gone")
    })))
})
