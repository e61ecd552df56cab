/*
 * Conversations whose process is killed, and gone on with in another one.
 */
import { assert, describe, it } from "@effect/vitest"
import { Question } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Effect, type Scope } from "effect"
import { spawn } from "node:child_process"
import * as Fs from "node:fs"
import { tmpdir } from "node:os"
import * as Path from "node:path"
import { open } from "../fixtures/killed/conversation.ts"
import { checkMessages, results } from "./support.ts"

const SCRIPT = Path.resolve(import.meta.dirname, "../fixtures/killed/conversation.ts")

const INTERRUPTED = "Interrupted while running: whether it took effect is unknown."
const WAITING = "Not executed: it waits for an answer from the user."

/** A directory in which a process has lived until it had said something, and was killed. */
const killed = (mode: string, isTime: (said: string) => boolean): Effect.Effect<string, never, Scope.Scope> =>
  Effect.gen(function*() {
    const directory = yield* Effect.acquireRelease(
      Effect.sync(() => Fs.mkdtempSync(Path.join(tmpdir(), "agcore-killed-"))),
      (directory) => Effect.sync(() => Fs.rmSync(directory, { recursive: true, force: true }))
    )
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn(process.execPath, [SCRIPT, directory, mode], { stdio: ["ignore", "pipe", "inherit"] })),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    const ended = new Promise((resolve) => child.once("close", resolve))
    yield* Effect.callback<void>((resume) => {
      let said = ""
      child.stdout.on("data", (chunk) => {
        said += String(chunk)
        if (isTime(said)) resume(Effect.void)
      })
      child.once("close", () => resume(Effect.die(new Error(`it ended by itself, after ${said}`))))
    })
    child.kill("SIGKILL")
    yield* Effect.promise(() => ended)
    return directory
  })

const runsOf = (directory: string): ReadonlyArray<string> =>
  Fs.readFileSync(`${directory}/ran`, "utf8").trim().split("\n").toSorted()

const TIMEOUT = 120_000

describe("a process that is killed", () => {
  for (
    const [mode, what, isTime] of [
      ["suspended", "while its conversation rests with a question", (said: string) => said.includes("rest")],
      [
        "asking",
        "while an approver is asked",
        (said: string) => said.includes("asked") && said.includes("done quick")
      ]
    ] as const
  ) {
    // verifies: session.killed-waiting
    it.live(`${what} loses neither the question nor the results`, () =>
      Effect.gen(function*() {
        const directory = yield* killed(mode, isTime)
        const script = [ScriptedModel.text("Thanks.")]
        // It may have been killed before the last save: then the call that was done is one that may have run.
        const before = yield* open(directory, script)
        checkMessages(yield* before.messages)
        const pending = yield* before.pending
        assert.deepStrictEqual(pending.map(({ toolName }) => toolName), ["pay"])
        assert.deepStrictEqual(results(yield* before.messages)[1]?.result, WAITING)
        if (mode === "suspended") assert.strictEqual(results(yield* before.messages)[0]?.result, "quick is done")

        const response = yield* before.resume(pending.map((question) => Question.approve(question)))
        assert.strictEqual(response.text, "Thanks.")
        assert.deepStrictEqual(runsOf(directory), ["pay", "quick"])
        const after = yield* open(directory, script)
        assert.deepStrictEqual(yield* after.pending, [])
        assert.strictEqual(results(yield* after.messages)[1]?.result, "paid")
        checkMessages(yield* after.messages)
      }), TIMEOUT)
  }

  // verifies: session.killed-running
  it.live("while a batch runs keeps what was done, and runs nothing of it again", () =>
    Effect.gen(function*() {
      const directory = yield* killed("running", (said) => said.includes("done quick"))
      const script = [ScriptedModel.text("I see.")]
      const cycle = yield* open(directory, script, { slow: Effect.succeed("slow is done") })
      checkMessages(yield* cycle.messages)
      const [quick, slow, next, pay] = results(yield* cycle.messages).map(({ result }) => result)
      assert.include(["quick is done", INTERRUPTED], quick)
      assert.deepStrictEqual([slow, next, pay], [INTERRUPTED, INTERRUPTED, WAITING])

      const [question] = yield* cycle.pending
      const response = yield* cycle.resume([Question.deny(question!, "too late")])
      assert.strictEqual(response.text, "I see.")
      assert.deepStrictEqual(runsOf(directory), ["quick", "slow"])
      checkMessages(yield* cycle.messages)
    }), TIMEOUT)
})
