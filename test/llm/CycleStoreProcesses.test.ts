/*
 * Conversations that real processes save: two at the same time, and one that is killed.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { CycleStore } from "agcore"
import { Effect, FileSystem, Layer } from "effect"
import { KeyValueStore } from "effect/persistence"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { type Store, storeOf } from "../suites/cycleStore.ts"
import { start } from "./processes.ts"

const WRITER = fileURLToPath(new URL("../fixtures/cycle-store/writer.ts", import.meta.url))

const newDirectory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const SLOW = { timeout: 300_000 }

describe("two processes", SLOW, () => {
  // verifies: store.processes
  it.live("save each revision once, and are told apart", () =>
    Effect.gen(function*() {
      const directory = yield* newDirectory
      const both = yield* Effect.forEach(["x", "y"], (name) => start(WRITER, "race", directory, name))
      yield* Effect.forEach(both, ({ says }) => says((lines) => lines.includes("ready")))
      for (const { child } of both) child.stdin?.end("go\n")
      const results = yield* Effect.forEach(both, ({ ended, lines }) =>
        Effect.map(ended, () =>
          JSON.parse(lines().at(-1) ?? "") as { readonly won: ReadonlyArray<number>; readonly lost: number }))
      const won = results.flatMap(({ won }, index) =>
        won.map((revision) => ({ revision, name: ["x", "y"][index]! }))
      )
        .toSorted((a, b) => a.revision - b.revision)
      assert.deepStrictEqual(won.map(({ revision }) => revision), Array.from({ length: 100 }, (_, index) => index + 1))
      // What each has saved built on all that the others had.
      const store = yield* storeOf(CycleStore.layerFileSystem({ directory }))
      assert.deepStrictEqual((yield* store.load("a"))?.sharedState["log"], won.map(({ name }) => name))
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})

describe("a process that is killed", SLOW, () => {
  const numbersOf = (lines: ReadonlyArray<string>, pattern: RegExp) =>
    lines.flatMap((line) => Number(pattern.exec(line)?.[1] ?? 0))

  const check = Effect.fnUntraced(function*(kind: string, store: Store, lines: ReadonlyArray<string>) {
    const saved = Math.max(0, ...numbersOf(lines, new RegExp(`^${kind} saved (\\d+)$`)))
    const begun = Math.max(0, ...numbersOf(lines, new RegExp(`^${kind} saves (\\d+)$`)))
    const loaded = yield* store.load("a")
    const revision = loaded?.revision ?? 0
    assert.include([saved, begun], revision)
    if (loaded !== undefined) {
      assert.strictEqual(loaded.turns, revision)
      const [part] = loaded.messages[0]?.content ?? []
      assert.strictEqual(typeof part === "object" && part.type === "text" && part.text, `${revision} `.repeat(100_000))
      yield* store.save({ ...loaded, revision: revision + 1 })
      assert.strictEqual((yield* store.load("a"))?.revision, revision + 1)
    }
    return begun > saved
  })

  it.live("leaves the conversation before a save or after it, 30 times", () =>
    Effect.gen(function*() {
      let interrupted = 0
      yield* Effect.forEach(Array.from({ length: 30 }, (_, index) => index), (index) =>
        Effect.scoped(Effect.gen(function*() {
          const directory = yield* newDirectory
          const running = yield* start(WRITER, "save", directory)
          // In the middle of one kind and the other, of the first save and of later ones.
          yield* running.says((lines) =>
            lines.length > index % 11
          )
          yield* running.kill
          const values = KeyValueStore.layerFileSystem(join(directory, "keys"))
          const files = yield* storeOf(CycleStore.layerFileSystem({ directory: join(directory, "files") }))
          const keys = yield* storeOf(Layer.orDie(CycleStore.layerKeyValueStore().pipe(Layer.provide(values))))
          if (yield* check("files", files, running.lines())) interrupted++
          if (yield* check("keys", keys, running.lines())) interrupted++
        })), { concurrency: 2, discard: true })
      // It was killed in the middle of saving, and not between saves only.
      assert.isAbove(interrupted, 10)
    }).pipe(Effect.provide(NodeServices.layer)))
})
