/*
 * What is special about conversations in a KeyValueStore: which keys there are, and what a store that can neither compare
 * and swap nor set a value at once makes of two writers and of the end of a process.
 */
import { assert, describe, it } from "@effect/vitest"
import { CycleStore, type CycleStoreError } from "agcore"
import { Deferred, Duration, Effect, Fiber, Logger, References, Schema } from "effect"
import { Prompt } from "effect/ai"
import { KeyValueStore } from "effect/persistence"
import { conversation, list, loadSame, reasonOf, saveUpTo, scoped, type Store, storeOf } from "../suites/cycleStore.ts"

const LONG = "x".repeat(500)

/** One operation on a key. It may be done, or not. */
type Around = (name: string, key: string, operation: Effect.Effect<void>) => Effect.Effect<void>

/** What processes share. Each has a KeyValueStore of its own over it, whose operations are watched. */
const makePlace = Effect.sync(() => {
  const values = new Map<string, string>()
  const step = (around: Around | undefined, name: string, key: string, operation: () => void) => {
    const effect = Effect.sync(operation)
    return around === undefined ? effect : around(name, key, effect)
  }
  const open = (around?: Around, prefix?: string) =>
    storeOf(CycleStore.layerKeyValueStore(prefix === undefined ? undefined : { prefix })).pipe(
      // Some never come to their end.
      Effect.provideService(CycleStore.Timeout, Duration.infinity),
      Effect.provideService(
        KeyValueStore.KeyValueStore,
        KeyValueStore.makeStringOnly({
          get: (key) => Effect.map(step(around, "get", key, () => {}), () => values.get(key)),
          // As files are written: first there is nothing, then a part.
          set: (key, value) =>
            step(around, "set nothing", key, () => values.set(key, "")).pipe(
              Effect.andThen(step(around, "set half", key, () => values.set(key, value.slice(0, value.length / 2)))),
              Effect.andThen(step(around, "set", key, () => values.set(key, value)))
            ),
          remove: (key) => step(around, "remove", key, () => values.delete(key)),
          clear: Effect.sync(() => values.clear()),
          size: Effect.sync(() => values.size),
          keys: Effect.map(step(around, "keys", "", () => {}), () => Array.from(values.keys()))
        })
      )
    )
  return { values, open }
})

const saved = (revision: number, text = `revision ${revision}`, sessionId = "a") =>
  conversation({
    sessionId,
    revision,
    messages: [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text })] })]
  })

const outcomeOf = (operation: Effect.Effect<void, CycleStoreError.CycleStoreError>) =>
  Effect.match(operation, { onSuccess: () => "saved", onFailure: ({ reason }) => reason._tag })

/** Does something up to a number of steps, and then nothing any more; says whether it came to its end. */
const makeDying = Effect.fnUntraced(function*(open: Effect.Success<typeof makePlace>["open"], steps: number) {
  const ended = yield* Deferred.make<boolean>()
  let left = steps
  const store = yield* open((_, __, operation) =>
    Effect.suspend(() => left-- > 0 ? operation : Effect.andThen(Deferred.succeed(ended, false), Effect.never))
  )
  return (use: (store: Store) => Effect.Effect<void, CycleStoreError.CycleStoreError>) =>
    Effect.forkDetach(Effect.andThen(use(store), Deferred.succeed(ended, true))).pipe(
      Effect.andThen(Deferred.await(ended))
    )
})

describe("conversations in a KeyValueStore", () => {
  it.effect("have four keys each, under a prefix, and none when they are removed", () =>
    scoped(Effect.gen(function*() {
      const { open, values } = yield* makePlace
      values.set("other", "value")
      values.set("agcore/sessions", "value")
      const store = yield* open()
      for (const sessionId of ["a", "a.b", "a/../b", LONG]) yield* saveUpTo(store, 10, { sessionId })
      assert.lengthOf(Array.from(values.keys()), 2 + 4 * 4)
      for (const key of Array.from(values.keys()).slice(2)) {
        assert.match(key, /^agcore\/sessions\/[a-z0-9_%-]+(\.next|\.[0-9a-f-]{36})?$/)
      }
      assert.deepStrictEqual(yield* list(store), ["a", "a.b", "a/../b", LONG])
      const elsewhere = yield* open(undefined, "mine:")
      assert.deepStrictEqual(yield* list(elsewhere), [])
      assert.isUndefined(yield* elsewhere.load("a"))
      yield* Effect.forEach(["a", "a.b", "a/../b", LONG], store.remove)
      assert.deepStrictEqual(Array.from(values.keys()), ["other", "agcore/sessions"])
    })))

  it.effect("are taken over from values that were kept by hand", () =>
    scoped(Effect.gen(function*() {
      const { open, values } = yield* makePlace
      const encoded = yield* Schema.encodeEffect(Prompt.Prompt)(Prompt.fromMessages(saved(1).messages))
      const text = JSON.stringify(encoded.content)
      values.set("a", text)
      values.set("counter", "7")
      const store = yield* open(undefined, "")
      assert.include(yield* list(store), "a")
      yield* loadSame(store, saved(1))
      assert.strictEqual(values.get("a"), text)
      assert.deepInclude(yield* reasonOf(store.save(saved(1))), { _tag: "Conflict", found: 1 })
      // Until the next revision is there, the value is all there is.
      for (let steps = 0, isOver = false; !isOver; steps++) {
        const copy = yield* makePlace
        copy.values.set("a", text)
        const dying = yield* makeDying((around) => copy.open(around, ""), steps)
        isOver = yield* dying((store) => store.save(saved(2)))
        const next = yield* copy.open(undefined, "")
        const { revision = 0 } = (yield* next.load("a")) ?? {}
        assert.include(isOver ? [2] : [1, 2], revision)
        yield* next.save(saved(revision + 1))
      }
      yield* store.save(saved(2))
      yield* loadSame(store, saved(2))
      // What is no conversation is not overwritten by one.
      assert.strictEqual((yield* reasonOf(store.load("counter")))._tag, "Corrupt")
      assert.strictEqual((yield* reasonOf(store.save(saved(1, "", "counter"))))._tag, "Conflict")
      values.set("plain", "not JSON")
      assert.strictEqual((yield* reasonOf(store.load("plain")))._tag, "Corrupt")
      assert.strictEqual((yield* reasonOf(store.save(saved(1, "", "plain"))))._tag, "Corrupt")
      assert.strictEqual(values.get("plain"), "not JSON")
    })))

  it.effect("go on from the revision before a damaged one", () =>
    scoped(Effect.gen(function*() {
      const { open, values } = yield* makePlace
      const store = yield* open()
      yield* saveUpTo(store, 2, saved(1))
      const keyOf = (revision: number) =>
        Array.from(values).find(([key, value]) => key.includes(".") && value.includes(`"revision":${revision},`))![0]
      values.set(keyOf(2), values.get(keyOf(2))!.slice(0, -2))
      const lines: Array<unknown> = []
      const logger = Logger.make(({ message }) => lines.push(message))
      const loaded = yield* Effect.provideService(
        loadSame(store, { ...saved(1), revision: 2 }),
        References.CurrentLoggers,
        new Set([logger])
      )
      assert.match(String(lines), /Revision 2 .* is damaged; it goes on from revision 1/)
      yield* store.save({ ...loaded, revision: 3 })
      yield* loadSame(store, { ...saved(1), revision: 3 })
      values.set(keyOf(3), "")
      const reason = yield* reasonOf(store.load("a"))
      assert.match(reason.message, /revision 3 is damaged, and none before it is left/)
      yield* store.remove("a")
      yield* store.save(saved(1))
    })))

  it.effect("fail as the KeyValueStore does", () =>
    scoped(Effect.gen(function*() {
      const cause = new KeyValueStore.KeyValueStoreError({ method: "get", message: "no connection" })
      const { open } = yield* makePlace
      // It fails in a way that the type of the test's own does not say.
      const store = yield* open(() => Effect.fail(cause) as unknown as Effect.Effect<void>)
      const operations: ReadonlyArray<Effect.Effect<unknown, CycleStoreError.CycleStoreError>> = [
        store.load("a"),
        store.save(saved(1)),
        store.remove("a"),
        list(store)
      ]
      for (const operation of operations) {
        const reason = yield* reasonOf(operation)
        assert.deepInclude(reason, { _tag: "Io", cause })
        assert.match(reason.message, /^could not (load|read|save|remove|list) .*: no connection$/)
      }
    })))
})

describe("a process with a KeyValueStore", () => {
  // verifies: store.crash
  it.effect("may end at any point of a save, also in the middle of setting a value", () =>
    scoped(Effect.gen(function*() {
      for (const sessionId of ["a", LONG]) {
        for (const revision of [1, 2, 5]) {
          for (let steps = 0, isOver = false; !isOver; steps++) {
            const { open, values } = yield* makePlace
            const store = yield* open()
            yield* Effect.forEach(
              Array.from({ length: revision - 1 }, (_, index) => index + 1),
              (each) => store.save(saved(each, undefined, sessionId))
            )
            const dying = yield* makeDying(open, steps)
            isOver = yield* dying((store) => store.save(saved(revision, undefined, sessionId)))
            const next = yield* open()
            const found = (yield* next.load(sessionId))?.revision ?? 0
            assert.include(isOver ? [revision] : [revision - 1, revision], found, `${steps} steps`)
            if (found > 0) yield* loadSame(next, saved(found, undefined, sessionId))
            yield* next.save(saved(found + 1, undefined, sessionId))
            yield* next.save(saved(found + 2, undefined, sessionId))
            yield* loadSame(next, saved(found + 2, undefined, sessionId))
            assert.deepStrictEqual(yield* list(next), [sessionId])
            // What the dead one left is gone.
            assert.strictEqual(values.size, 4)
            yield* next.remove(sessionId)
            assert.strictEqual(values.size, 0)
          }
        }
      }
    })))

  it.effect("may end at any point of a removal", () =>
    scoped(Effect.gen(function*() {
      for (let steps = 0, isOver = false; !isOver; steps++) {
        const { open, values } = yield* makePlace
        yield* Effect.forEach([1, 2, 3], (each) => Effect.flatMap(open(), (store) => store.save(saved(each))))
        const dying = yield* makeDying(open, steps)
        isOver = yield* dying((store) => store.remove("a"))
        const next = yield* open()
        const found = (yield* next.load("a"))?.revision ?? 0
        assert.include([0, 3], found)
        if (found === 3) yield* loadSame(next, saved(3))
        assert.deepStrictEqual(yield* list(next), found === 0 ? [] : ["a"])
        // A conversation of the same id finds nothing of the old one.
        yield* next.save(saved(found + 1, "new"))
        yield* loadSame(next, saved(found + 1, "new"))
        if (found === 0) assert.strictEqual(values.size, 3)
      }
    })))

  it.effect("is told of another, wherever it stood meanwhile, save for one step", () =>
    scoped(Effect.gen(function*() {
      const bothSaved: Array<string> = []
      for (let steps = 0, isOver = false; !isOver; steps++) {
        const { open, values } = yield* makePlace
        yield* (yield* open()).save(saved(1))
        const asleep = yield* Deferred.make<string>()
        const awake = yield* Deferred.make<void>()
        let left = steps
        const slow = yield* open((name, _, operation) =>
          Effect.suspend(() =>
            left-- === 0
              ? Effect.andThen(Effect.andThen(Deferred.succeed(asleep, name), Deferred.await(awake)), operation)
              : operation
          )
        )
        const fiber = yield* Effect.forkChild(
          Effect.tap(outcomeOf(slow.save(saved(2, "slow"))), () => Deferred.succeed(asleep, "over"))
        )
        const stoodAt = yield* Deferred.await(asleep)
        isOver = stoodAt === "over"
        const fast = yield* open()
        const outcome = yield* outcomeOf(fast.save(saved(2, "fast")))
        yield* Deferred.succeed(awake, undefined)
        const outcomes = [yield* Fiber.join(fiber), outcome]
        const winners = outcomes.flatMap((each, index) => each === "saved" ? [["slow", "fast"][index]!] : [])
        assert.isAtLeast(winners.length, 1, `${steps} steps`)
        if (winners.length === 2) bothSaved.push(stoodAt)
        // Whoever was told it was saved is there, or the other one who was told so as well.
        const loaded = yield* fast.load("a")
        const winner = winners.find((each) => JSON.stringify(loaded?.messages).includes(each))
        assert.isDefined(winner, `${steps} steps: ${JSON.stringify(loaded?.messages)} of ${winners.join()}`)
        yield* loadSame(fast, saved(2, winner))
        yield* fast.save(saved(3))
        yield* loadSame(fast, saved(3))
        assert.strictEqual(values.size, winners.length + 3)
      }
      // Between its last look and pointing to its revision, one step here since a value is set in three.
      assert.deepStrictEqual(bothSaved, ["set nothing"])
    })))

  it.effect("is told where another has pointed to its own revision last", () =>
    scoped(Effect.gen(function*() {
      const { open, values } = yield* makePlace
      yield* (yield* open()).save(saved(1))
      const makeSleeper = Effect.fnUntraced(function*(text: string, isHere: (name: string, count: number) => boolean) {
        const asleep = yield* Deferred.make<void>()
        const awake = yield* Deferred.make<void>()
        let count = 0
        const store = yield* open((name, key, operation) =>
          Effect.suspend(() =>
            key.endsWith("/a") && isHere(name, name === "get" ? ++count : count)
              ? Effect.andThen(Effect.andThen(Deferred.succeed(asleep, undefined), Deferred.await(awake)), operation)
              : operation
          )
        )
        const fiber = yield* Effect.forkChild(outcomeOf(store.save(saved(2, text))))
        yield* Deferred.await(asleep)
        return { wake: Effect.andThen(Deferred.succeed(awake, undefined), Fiber.join(fiber)) }
      })
      // Both have looked for the last time; the one that points first looks once more when the other has, too.
      const last = yield* makeSleeper("last", (name) => name === "set nothing")
      const first = yield* makeSleeper("first", (name, count) => name === "get" && count === 3)
      assert.strictEqual(yield* last.wake, "saved")
      assert.strictEqual(yield* first.wake, "Conflict")
      yield* loadSame(yield* open(), saved(2, "last"))
      assert.strictEqual(values.size, 4)
    })))
})
