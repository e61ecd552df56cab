/*
 * Conversations whose process is killed while they wait or work, and somebody goes on with them.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Question } from "agcore"
import { Effect, FileSystem } from "effect"
import { fileURLToPath } from "node:url"
import { CALLS, open, runs, storeIn } from "../fixtures/killed/world.ts"
import { start } from "./processes.ts"
import { checkMessages, drivers, results } from "./support.ts"
import { accept, checkPrompt } from "./transcriptRules.ts"

const SCRIPT = fileURLToPath(new URL("../fixtures/killed/process.ts", import.meta.url))

const SLOW = { timeout: 300_000 }

const INTERRUPTED = "Interrupted while running: whether it took effect is unknown."
const WAITING = "Not executed: it waits for an answer from the user."

/** Starts a process, and kills it when it has said what it was started for. */
const kill = Effect.fnUntraced(function*(mode: string, test: (lines: ReadonlyArray<string>) => boolean) {
  const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
  const process = yield* start(SCRIPT, mode, directory)
  yield* process.says(test)
  yield* process.kill
  return directory
})

/** Somebody else opens the conversation. */
const reopen = (directory: string) => Effect.provide(open(directory, {}), storeIn(directory))

const resultsOf = (cycle: Effect.Success<ReturnType<typeof reopen>>["cycle"]) =>
  Effect.map(cycle.messages, (messages) => results(messages).map(({ result }) => result))

const count = (directory: string, name: string) => runs(directory).filter((run) => run === name).length

const WAYS: Record<string, (lines: ReadonlyArray<string>) => boolean> = {
  // The question and the result of the other call are saved.
  asked: (lines) =>
    lines.includes("asked") && lines.indexOf("quick runs") > 0 &&
    lines.lastIndexOf("saved, 0 running") > lines.indexOf("saved, 1 running"),
  suspended: (lines) => lines.includes("awaiting-input")
}

describe("a process that is killed while it waits for an approval", SLOW, () => {
  for (const [mode, isThere] of Object.entries(WAYS)) {
    for (const driver of drivers) {
      // verifies: session.killed-waiting
      it.live(`(${mode}) leaves its question, and ${driver.name} goes on with the answer`, () =>
        Effect.gen(function*() {
          const directory = yield* kill(mode, isThere)
          const { cycle, requests } = yield* reopen(directory)
          checkMessages(yield* cycle.messages)
          assert.deepStrictEqual(yield* resultsOf(cycle), ["quick is done", WAITING])
          assert.deepStrictEqual(runs(directory), ["quick"])
          const pending = yield* cycle.pending
          assert.deepStrictEqual(pending.map(({ toolName }) => toolName), ["pay"])
          const done = yield* driver.resume(cycle, pending.map((question) => Question.approve(question)))
          assert.strictEqual(done.text, "all is done")
          assert.deepStrictEqual(runs(directory), ["quick", "pay"])
          checkMessages(yield* cycle.messages)
          for (const { prompt } of yield* requests) accept(checkPrompt(prompt.content))
        }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
    }

    it.live(`(${mode}) leaves a call that does not run when the answer is no`, () =>
      Effect.gen(function*() {
        const directory = yield* kill(mode, isThere)
        const { cycle } = yield* reopen(directory)
        const pending = yield* cycle.pending
        yield* cycle.resume(pending.map((question) => Question.deny(question, "too dear")))
        assert.deepStrictEqual(yield* resultsOf(cycle), ["quick is done", "Error: not approved: too dear"])
        assert.strictEqual(count(directory, "pay"), 0)
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
  }

  it.live("is followed by another process, which goes on once", () =>
    Effect.gen(function*() {
      const directory = yield* kill("suspended", WAYS["suspended"]!)
      const next = yield* start(SCRIPT, "resume", directory)
      yield* next.ended
      assert.deepStrictEqual(next.lines(), ["pay runs", "all is done"])
      assert.deepStrictEqual(runs(directory), ["quick", "pay"])
      const { cycle } = yield* reopen(directory)
      assert.deepStrictEqual(yield* cycle.pending, [])
      assert.deepStrictEqual(yield* resultsOf(cycle), ["quick is done", "pay is done"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})

describe("a process that is killed while a batch runs", SLOW, () => {
  /** Two have ended, two run, one has not begun, two wait; and all of that is saved. */
  const isAmid = (lines: ReadonlyArray<string>) =>
    lines.filter((line) => line === "stuck runs").length === 2 && lines.includes("saved, 3 running")

  for (const driver of drivers) {
    // verifies: session.killed-running
    it.live(`leaves results, runs nothing again, and ${driver.name} goes on with the answers`, () =>
      Effect.gen(function*() {
        const directory = yield* kill("batch", isAmid)
        assert.sameMembers([...runs(directory)], ["quick", "quick", "stuck", "stuck"])
        const { cycle, requests } = yield* reopen(directory)
        checkMessages(yield* cycle.messages)
        const found = yield* resultsOf(cycle)
        const ended = ["quick is done", "quick is done", INTERRUPTED, INTERRUPTED, INTERRUPTED]
        assert.deepStrictEqual(found, [...ended, WAITING, WAITING])
        const [pay, ship, ...others] = yield* cycle.pending
        assert.deepStrictEqual([pay?.toolName, ship?.toolName, others.length], ["pay", "ship", 0])

        const still = yield* driver.resume(cycle, [Question.deny(ship!, "not yet")])
        assert.strictEqual(still.reason, "awaiting-input")
        const done = yield* driver.resume(cycle, [Question.approve(pay!)])
        assert.strictEqual(done.text, "all is done")
        assert.deepStrictEqual(yield* resultsOf(cycle), [...ended, "pay is done", "Error: not approved: not yet"])
        assert.sameMembers([...runs(directory)], ["quick", "quick", "stuck", "stuck", "pay"])
        checkMessages(yield* cycle.messages)
        for (const { prompt } of yield* requests) accept(checkPrompt(prompt.content))
        assert.strictEqual(results(yield* cycle.messages).length, CALLS.length)
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
  }

  it.live("at whatever it says, leaves what another process goes on with, and nothing runs twice", () =>
    Effect.forEach(
      Array.from({ length: 8 }, (_, index) => index + 1),
      (said) =>
        Effect.gen(function*() {
          const directory = yield* kill("batch", (lines) => lines.length >= said || isAmid(lines))
          const { cycle, requests } = yield* reopen(directory)
          checkMessages(yield* cycle.messages)
          const before = [...runs(directory)]
          // Killed before the calls were kept, it has asked for none, and the model is asked again.
          const pending = yield* cycle.pending
          const { text } = yield* cycle.resume(pending.map((question) => Question.approve(question)))
          assert.strictEqual(text, "all is done")
          assert.sameMembers([...runs(directory)], [...before, ...pending.map(({ toolName }) => toolName)])
          checkMessages(yield* cycle.messages)
          for (const { prompt } of yield* requests) accept(checkPrompt(prompt.content))
        }).pipe(Effect.scoped),
      { concurrency: 2, discard: true }
    ).pipe(Effect.provide(NodeServices.layer)))
})
