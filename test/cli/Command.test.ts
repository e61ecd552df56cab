import { assert, describe, it } from "@effect/vitest"
import { CycleEvent } from "agcore"
import { Deferred, Effect, Schedule, Schema } from "effect"
import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { agcore, demoServer, serve, start } from "./support.ts"

const mcpFile = Path.resolve(import.meta.dirname, "../fixtures/cli/mcp.json")

const brokenFile = Path.resolve(import.meta.dirname, "../fixtures/cli/broken.json")

const toolsModule = Path.resolve(import.meta.dirname, "../fixtures/cli/tools.ts")

// Nothing here waits for a time to pass; a loaded machine starts processes slowly.
const TIMEOUT = 120_000

const children = (pid: number): ReadonlyArray<number> =>
  Fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number)

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe("agcore", () => {
  describe("demo", () => {
    // verifies: cli.demo, cli.colours
    it.live("shows parallel calls, a recovery, a second round and a denial", () =>
      Effect.gen(function*() {
        const { code, stderr, stdout } = yield* agcore(["demo"])
        assert.strictEqual(code, 0, stderr)
        assert.include(stdout, "The model is scripted")
        const seen = Array.from(stdout.matchAll(/^([→✓✗⊘]) (\w+)/gm), ([, mark, name]) => `${mark} ${name}`)
        assert.deepStrictEqual(seen.slice(0, 2), ["→ get_weather", "→ get_weather"])
        assert.deepStrictEqual(seen.slice(2, 4).sort(), ["✓ get_weather", "✗ get_weather"])
        assert.deepStrictEqual(seen.slice(4, 6), ["→ get_weather", "✓ get_weather"])
        assert.include(stdout, "→ to_fahrenheit {\"celsius\":22}")
        assert.match(stdout, /✓ files__write_file .*Successfully wrote to/)
        assert.include(stdout, "⊘ erase_records")
        assert.match(stdout, /to_fahrenheit\(22\): \{"fahrenheit":71\.6\}/)
        assert.notInclude(stdout, "\u001b[")
      }), TIMEOUT)

    it.live("does something else for another question", () =>
      Effect.gen(function*() {
        const { stdout } = yield* agcore(["demo", "Convert 100 degrees to Fahrenheit"])
        assert.include(stdout, "→ to_fahrenheit {\"celsius\":100}")
        assert.notInclude(stdout, "get_weather")
      }), TIMEOUT)

    it.live("takes the model of the environment", () =>
      Effect.gen(function*() {
        const baseUrl = yield* demoServer
        const { code, stdout } = yield* agcore(["demo"], { env: { OPENAI_BASE_URL: baseUrl } })
        assert.strictEqual(code, 0)
        assert.notInclude(stdout, "scripted")
        assert.include(stdout, "✓ to_fahrenheit")
      }), TIMEOUT)
  })

  describe("run", () => {
    // verifies: cli.json
    it.live("prints events as NDJSON", () =>
      Effect.gen(function*() {
        const baseUrl = yield* demoServer
        const { code, stderr, stdout } = yield* agcore([
          "run",
          "add 2 3",
          "--json",
          "--base-url",
          baseUrl,
          "--tools",
          toolsModule
        ])
        assert.strictEqual(code, 0, stderr)
        assert.strictEqual(stderr, "")
        const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(CycleEvent.CycleEvent))
        const events = yield* Effect.forEach(stdout.trimEnd().split("\n"), (line) => decode(JSON.parse(line)))
        assert.includeMembers(events.map((event) => event._tag), ["ToolExecutionStarted", "ToolExecutionCompleted"])
        assert.strictEqual(events.at(-1)?._tag, "CycleComplete")
      }), TIMEOUT)

    // verifies: cli.quiet
    it.live("prints the answer alone with --quiet, asked by standard input", () =>
      Effect.gen(function*() {
        const baseUrl = yield* demoServer
        const { code, stderr, stdout } = yield* agcore(["run", "--quiet", "--base-url", baseUrl], { input: "Hello\n" })
        assert.deepStrictEqual([code, stdout, stderr], [0, "You said: Hello\n", ""])
      }), TIMEOUT)

    // verifies: cli.run, cli.policy
    it.live("keeps the answer and what tools do apart", () =>
      Effect.gen(function*() {
        const baseUrl = yield* demoServer
        const { stderr, stdout } = yield* agcore([
          "run",
          "wipe everything",
          "--base-url",
          baseUrl,
          "--tools",
          toolsModule
        ])
        assert.include(stderr, "⊘ wipe")
        assert.notInclude(stdout, "⊘")
        assert.include(stderr, "not approved: nobody can be asked here")
        const allowed = yield* agcore([
          "run",
          "wipe everything",
          "--base-url",
          baseUrl,
          "--tools",
          toolsModule,
          "--allow",
          "delete"
        ])
        assert.include(allowed.stderr, "✓ wipe")
      }), TIMEOUT)

    // verifies: cli.asks
    it.live.each([
      { typed: ["y"], says: "" },
      { typed: ["what?", "n", "not today"], says: "not approved: not today" },
      { typed: ["n", ""], says: "not approved: the user said no" },
      { typed: [""], says: "not approved: the user said no" },
      { typed: ["e", "[]", "e", "{\"what\":\"nothing\"}"], says: "" },
      { typed: [], says: "not approved: the user said no" }
    ])("asks on the terminal: $typed", ({ says, typed }) =>
      Effect.gen(function*() {
        const { code, stderr, stdout } = yield* agcore([
          "call",
          "wipe",
          "{\"what\":\"a\\u202eb\"}",
          "--tools",
          toolsModule
        ], {
          typed
        })
        // What cannot be seen is shown as its code.
        assert.match(stderr, /\? wipe {2}It needs delete\.\n {2}\{\n {4}"what": "a\\u\{202e\}b"\n {2}\}/)
        assert.deepStrictEqual([code, stdout], says === "" ? [0, "null\n"] : [1, ""])
        assert.include(stderr, says)
      }), TIMEOUT)

    it.live("strips what would control the terminal", () =>
      Effect.gen(function*() {
        const baseUrl = yield* serve((_, response) => {
          response.writeHead(200, { "content-type": "text/event-stream" })
          const chunk = { choices: [{ index: 0, delta: { content: "a\u001b]0;owned\u0007b" }, finish_reason: "stop" }] }
          response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`)
        })
        const { stdout } = yield* agcore(["run", "Hi", "--base-url", baseUrl])
        assert.strictEqual(stdout, "ab\n")
      }), TIMEOUT)

    it.live.each(
      [
        { signal: "SIGINT", code: 130 },
        { signal: "SIGTERM", code: 143 }
      ] as const
    )("ends at $signal with $code and closes the request", ({ code, signal }) =>
      Effect.gen(function*() {
        const asked = yield* Deferred.make<void>()
        const closed = yield* Deferred.make<void>()
        const baseUrl = yield* serve((_, response) => {
          Deferred.doneUnsafe(asked, Effect.void)
          response.on("close", () => Deferred.doneUnsafe(closed, Effect.void))
        })
        const running = yield* start(["run", "Hi", "--base-url", baseUrl])
        yield* Deferred.await(asked)
        running.process.kill(signal)
        assert.strictEqual((yield* running.ended).code, code)
        yield* Deferred.await(closed)
      }), TIMEOUT)

    it.live("ends without a complaint when its reader goes away", () =>
      Effect.gen(function*() {
        const baseUrl = yield* demoServer
        const running = yield* start(["run", "Hello there, tell me all", "--json", "--base-url", baseUrl])
        yield* running.shows(/\n/)
        running.process.stdout?.destroy()
        const { code, stderr } = yield* running.ended
        assert.deepStrictEqual([code, stderr], [0, ""])
      }), TIMEOUT)
  })

  describe("tools and call", () => {
    // verifies: cli.tools
    it.live("lists tools with their source and permissions", () =>
      Effect.gen(function*() {
        const { stdout } = yield* agcore(["tools", "--tools", toolsModule])
        assert.match(stdout, /^add {2}arithmetic · no permission declared\n {2}Adds two numbers$/m)
        assert.match(stdout, /^wipe {2}application · delete\n/m)
        const json = yield* agcore(["tools", "--tools", toolsModule, "--json"])
        assert.deepStrictEqual(json.stdout.trimEnd().split("\n").map((line) => JSON.parse(line).name), ["add", "wipe"])
      }), TIMEOUT)

    // verifies: cli.call
    it.live("calls a tool under the policy", () =>
      Effect.gen(function*() {
        const sum = yield* agcore(["call", "add", "{\"a\":1,\"b\":2}", "--tools", toolsModule])
        assert.deepStrictEqual([sum.code, sum.stdout], [0, "3\n"])
        const denied = yield* agcore(["call", "wipe", "--tools", toolsModule])
        assert.strictEqual(denied.code, 1)
        assert.include(denied.stderr, "grant it with --allow delete, or approve every call with --yes")
        const refused = yield* agcore(["call", "wipe", "--tools", toolsModule, "--yes", "--deny", "delete"])
        assert.include(refused.stderr, "permission denied: it needs delete")
        const approved = yield* agcore(["call", "wipe", "--tools", toolsModule, "--yes"])
        assert.strictEqual(approved.code, 0, approved.stderr)
        const wrong = yield* agcore(["call", "add", "{\"a\":1}", "--tools", toolsModule])
        assert.strictEqual(wrong.code, 1)
        assert.include(wrong.stderr, "invalid arguments")
      }), TIMEOUT)
  })

  describe("--mcp", () => {
    it.live(
      "gives the tools of servers, shows what it starts, and goes on without a broken one",
      () =>
        Effect.gen(function*() {
          const { code, stderr, stdout } = yield* agcore(["tools", "--mcp", mcpFile])
          assert.strictEqual(code, 0)
          assert.match(stdout, /^memory__read_graph {2}mcp\/memory · custom:mcp\/memory$/m)
          assert.match(stderr, /^memory: node .*server-memory/m)
          assert.match(stderr, /✗ MCP server "broken": cannot start "no-such-command"/)
          assert.include(stderr, "broken: no-such-command --token <redacted>")
          assert.notInclude(stderr, "hunter2")
          assert.notInclude(stderr, "disabled")
        }),
      TIMEOUT
    )

    it.live("fails where no server can be reached", () =>
      Effect.gen(function*() {
        const { code, stderr } = yield* agcore(["tools", "--mcp", brokenFile])
        assert.strictEqual(code, 1)
        assert.include(stderr, "no MCP server could be reached")
      }), TIMEOUT)

    it.live("lets the servers of the file be used unless they are denied", () =>
      Effect.gen(function*() {
        const graph = yield* agcore(["call", "memory__read_graph", "--mcp", mcpFile])
        assert.deepStrictEqual([graph.code, JSON.parse(graph.stdout)], [0, { entities: [], relations: [] }])
        const denied = yield* agcore(["call", "memory__read_graph", "--mcp", mcpFile, "--deny", "custom:mcp/memory"])
        assert.strictEqual(denied.code, 1)
        assert.include(denied.stderr, "permission denied: it needs custom:mcp/memory")
        const forbidden = yield* agcore(["call", "memory__create_entities", "{\"entities\":[]}", "--mcp", mcpFile])
        assert.include(forbidden.stderr, "not found")
      }), TIMEOUT)
  })

  describe("errors", () => {
    // verifies: cli.exit-codes, cli.errors
    it.live.each([
      { args: ["run"], code: 2, says: "the prompt on standard input is empty" },
      { args: ["run", "Hi"], code: 1, says: "set OPENAI_API_KEY" },
      { args: ["run", "Hi", "--base-url", "http://127.0.0.1:9"], code: 1, says: "cannot reach http://127.0.0.1:9" },
      { args: ["run", "Hi", "--allow", "everything"], code: 2, says: "everything" },
      { args: ["run", "Hi", "--max-turns", "0"], code: 2, says: "at least 1" },
      { args: ["frobnicate"], code: 2, says: "frobnicate" },
      { args: ["call", "add", "{", "--tools", toolsModule], code: 2, says: "not JSON" },
      { args: ["call", "nothing"], code: 1, says: "not found" },
      { args: ["tools", "--tools", import.meta.filename], code: 1, says: "Command.test.ts" },
      {
        args: ["tools", "--tools", Path.resolve(import.meta.dirname, "../fixtures/cli/noRegistry.ts")],
        code: 2,
        says: "provides no ToolRegistry"
      },
      { args: ["tools", "--mcp", "package.json"], code: 2, says: "package.json:1: mcpServers: " }
    ])("says $says, exit code $code", ({ args, code, says }) =>
      Effect.gen(function*() {
        const ended = yield* agcore(args)
        assert.strictEqual(ended.code, code, ended.stderr)
        assert.include(ended.stderr, says)
        assert.notInclude(ended.stderr, "    at ")
      }), TIMEOUT)
  })

  // verifies: cli.interrupt
  it.live("leaves no process behind when it is stopped", () =>
    Effect.gen(function*() {
      const asked = yield* Deferred.make<void>()
      // Its request is never answered, so that what it started is there to be seen.
      const baseUrl = yield* serve(() => Deferred.doneUnsafe(asked, Effect.void))
      const running = yield* start(["run", "Hi", "--base-url", baseUrl, "--mcp", mcpFile])
      yield* Deferred.await(asked)
      const started = children(running.process.pid!)
      assert.isNotEmpty(started)
      running.process.kill("SIGINT")
      assert.strictEqual((yield* running.ended).code, 130)
      // The last to go is the one that watches over the others; it goes when its input ends.
      yield* Effect.repeat(Effect.sync(() => started.some(isAlive)), {
        while: (alive) => alive,
        schedule: Schedule.spaced("20 millis")
      })
    }), TIMEOUT)

  // verifies: cli.help
  it("tells its version and its help", () => {
    const main = Path.resolve(import.meta.dirname, "../../src/cli/main.ts")
    const output = (flag: string) => ChildProcess.execFileSync(process.execPath, [main, flag], { encoding: "utf8" })
    assert.match(output("--version"), /\d+\.\d+\.\d+/)
    assert.include(output("--help"), "SUBCOMMANDS")
  }, TIMEOUT)
})
