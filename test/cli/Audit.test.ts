import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { AuditEntry, AuditLog } from "agcore"
import { Effect, FileSystem } from "effect"
import { agcore } from "./support.ts"

// Nothing here waits for a time to pass; a loaded machine starts processes slowly.
const TIMEOUT = 120_000

const entry = (index: number) =>
  new AuditEntry.CallDecided({
    invocationId: `i-${index}`,
    at: "2026-01-01T00:00:00.000Z",
    sessionId: "session",
    traceId: "trace",
    turn: 1,
    index,
    toolCallId: `call-${index}`,
    toolName: "tool",
    verdict: new AuditEntry.Allowed(),
    arguments: {}
  })

/** A log of three entries in a folder of its own, and its lines. */
const makeLog = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = `${yield* fs.makeTempDirectoryScoped()}/audit.jsonl`
  const head = yield* Effect.flatMap(
    AuditLog.AuditLog,
    (log) => Effect.andThen(Effect.forEach([0, 1, 2], (index) => log!.write(entry(index))), log!.head)
  ).pipe(Effect.provide(AuditLog.layerJsonLines({ path, sync: false })))
  const lines = (yield* fs.readFileString(path)).trimEnd().split("\n")
  return { path, head: head!, lines, write: (text: string) => fs.writeFileString(path, text) }
})

describe("agcore audit verify", () => {
  // verifies: audit.command
  it.live("ends with 0 for a log in order, and tells its head", () =>
    Effect.gen(function*() {
      const { head, path } = yield* makeLog
      const { code, stderr, stdout } = yield* agcore(["audit", "verify", path])
      assert.strictEqual(code, 0, stderr)
      assert.strictEqual(
        stdout,
        `✓ 3 entries in order\n  head ${head.hash}\n` +
          "  Note the head elsewhere: with --head it shows later whether the end was cut off.\n"
      )
      assert.strictEqual(stderr, "")
    }).pipe(Effect.provide(NodeServices.layer)), TIMEOUT)

  it.live("ends with 1 for one that was changed, and tells where and what", () =>
    Effect.gen(function*() {
      const { lines, path, write } = yield* makeLog
      const { hash } = JSON.parse(lines[0]!)
      // A terminal would obey it.
      yield* write(`${lines[0]}\n\u001b]0;title\u0007\u001b[2J${lines[1]}\n${lines[2]}\n`)
      const { code, stderr, stdout } = yield* agcore(["audit", "verify", path])
      assert.strictEqual(code, 1)
      assert.strictEqual(
        stdout,
        `✗ line 2 (unreadable): it is not JSON\n  1 entry before it in order\n  last of them ${hash}\n`
      )
      assert.strictEqual(stderr, "agcore: the log is broken\n")
    }).pipe(Effect.provide(NodeServices.layer)), TIMEOUT)

  it.live("prints JSON, and notices an end that was cut off", () =>
    Effect.gen(function*() {
      const { head, lines, path, write } = yield* makeLog
      const whole = yield* agcore(["audit", "verify", path, "--json", "--head", head.hash])
      assert.strictEqual(whole.code, 0)
      assert.deepStrictEqual(JSON.parse(whole.stdout), {
        valid: true,
        entries: 3,
        head: head.hash,
        recovered: [],
        broken: null
      })
      yield* write(`${lines.slice(0, 2).join("\n")}\n`)
      const { code, stdout } = yield* agcore(["audit", "verify", path, "--json", "--head", head.hash])
      assert.strictEqual(code, 1)
      const { broken, valid } = JSON.parse(stdout)
      assert.isFalse(valid)
      assert.deepInclude(broken, { line: 3, kind: "cut" })
    }).pipe(Effect.provide(NodeServices.layer)), TIMEOUT)

  // verifies: audit.command-usage
  it.live("ends with 2 where there is nothing to check", () =>
    Effect.gen(function*() {
      const { path } = yield* makeLog
      const missing = yield* agcore(["audit", "verify", `${path}.\u001b[31mnone`])
      assert.strictEqual(missing.code, 2)
      assert.include(missing.stderr, `agcore: cannot read ${path}.none: `)
      assert.notInclude(missing.stderr, "\u001b")
      assert.strictEqual((yield* agcore(["audit", "verify", path, "--head", "12"])).code, 2)
    }).pipe(Effect.provide(NodeServices.layer)), TIMEOUT)
})
