import { assert, describe, it } from "@effect/vitest"
import { CycleStore, CycleStoreError, SavedCycle } from "agcore"
import { Deferred, Duration, Effect, Exit, Fiber, FileSystem, Layer, Schema, Stream } from "effect"
import { Prompt } from "effect/ai"
import { KeyValueStore } from "effect/persistence"
import { TestClock } from "effect/testing"
import { conversation, cycleStoreSuite, everything, list, reasonOf, storeOf } from "../suites/cycleStore.ts"
import { settle } from "../tools/support.ts"

const newDirectory = Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.orDie(fs.makeTempDirectoryScoped()))

const twice = <A, R>(effect: Effect.Effect<A, never, R>) => Effect.all([effect, effect])

// =============================================================================
// Each store
// =============================================================================

cycleStoreSuite("a store in memory", Effect.map(storeOf(CycleStore.layerMemory), (store) => [store, store]))

cycleStoreSuite(
  "a store in files",
  Effect.flatMap(newDirectory, (directory) => twice(storeOf(CycleStore.layerFileSystem({ directory }))))
)

cycleStoreSuite(
  "a store over a KeyValueStore in memory",
  Effect.flatMap(
    Layer.build(Layer.fresh(KeyValueStore.layerMemory)),
    (values) => twice(storeOf(CycleStore.layerKeyValueStore()).pipe(Effect.provide(values)))
  )
)

cycleStoreSuite(
  "a store over a KeyValueStore in files",
  Effect.flatMap(
    newDirectory,
    (directory) =>
      Effect.flatMap(
        Effect.orDie(Layer.build(Layer.fresh(KeyValueStore.layerFileSystem(directory)))),
        (values) => twice(storeOf(CycleStore.layerKeyValueStore()).pipe(Effect.provide(values)))
      )
  )
)

/** The shortest there can be. */
const makeRows = () => {
  const rows = new Map<string, CycleStore.Stored>()
  const backend: CycleStore.Backend = {
    read: (sessionId) => Effect.sync(() => rows.get(sessionId)),
    write: (sessionId, { revision, text }) =>
      Effect.suspend(() => {
        const expected = revision - 1
        const found = rows.get(sessionId)?.revision ?? 0
        if (found !== expected) return Effect.fail(new CycleStoreError.Conflict({ expected, found }))
        rows.set(sessionId, { revision, text })
        return Effect.void
      }),
    remove: (sessionId) => Effect.sync(() => void rows.delete(sessionId)),
    list: Stream.suspend(() => Stream.fromIterable(rows.keys()))
  }
  return { rows, backend }
}

cycleStoreSuite("a store of one's own", Effect.suspend(() => twice(storeOf(CycleStore.layer(makeRows().backend)))))

// =============================================================================
// Text
// =============================================================================

/** Written by the first version. It is never changed: what was written once has to be read for ever. */
const FORMAT_1 =
  `{"format":1,"cycle":{"sessionId":"a","revision":7,"turns":2,"running":[1],"pending":[{"_tag":"Approval"`
  + `,"id":"1f","sessionId":"a","turn":2,"index":0,"toolCallId":"c1","toolName":"deploy","input":{"to":"production"},`
  + `"prompt":"Deploy?","permissions":["write"]}],"sharedState":{"count":1},"usage":{"inputTokens":{"total":3},`
  + `"outputTokens":{"total":2}},"submit":{"withTools":true,"turns":1,"usage":{"inputTokens":{},"outputTokens":{}},`
  + `"invocations":[{"toolCallId":"c0","toolName":"search","turn":1,"index":0,"input":{},"error":{"_tag":"ToolError",`
  + `"toolName":"search","reason":{"_tag":"NotFound","available":[]}},"result":"Error: not found","truncated":false,`
  + `"durationMillis":0}]},"messages":[{"options":{},"role":"user","content":[{"options":{},"type":"text","text":"Go"},`
  + `{"options":{},"type":"file","mediaType":"image/png","data":{"_tag":"Uint8Array","base64":"AQID"}}]},{"options":{},`
  + `"role":"assistant","content":[{"options":{},"type":"tool-call","id":"c1","name":"deploy","params":`
  + `{"to":"production"},"providerExecuted":false}]}]}}\n`

const encodeCycle = Schema.encodeEffect(Schema.toCodecJson(SavedCycle.SavedCycle))

describe("the text of a conversation", () => {
  // verifies: store.formats
  it.effect("is read as it was written first", () =>
    Effect.gen(function*() {
      const saved = yield* CycleStore.decode("a", FORMAT_1)
      assert.deepInclude(saved, { sessionId: "a", revision: 7, turns: 2, running: [1], sharedState: { count: 1 } })
      assert.strictEqual(saved.pending[0]?.toolName, "deploy")
      assert.strictEqual(saved.submit?.invocations[0]?.error?.reason._tag, "NotFound")
      assert.deepInclude(saved.messages[0]?.content[1], { data: new Uint8Array([1, 2, 3]) })
      assert.deepStrictEqual(JSON.parse(yield* CycleStore.encode(saved)), JSON.parse(FORMAT_1))
    }))

  it.effect("is one line of the JSON that its schema says", () =>
    Effect.gen(function*() {
      const text = yield* CycleStore.encode(everything)
      assert.strictEqual(text.indexOf("\n"), text.length - 1)
      assert.deepStrictEqual(JSON.parse(text), {
        format: CycleStore.format,
        cycle: JSON.parse(JSON.stringify(yield* encodeCycle(everything)))
      })
      const empty = conversation()
      assert.deepStrictEqual(yield* CycleStore.decode("a", yield* CycleStore.encode(empty)), empty)
    }))

  it.effect("is migrated from messages that were kept by hand", () =>
    Effect.gen(function*() {
      const encoded = yield* Schema.encodeEffect(Prompt.Prompt)(Prompt.fromMessages(everything.messages))
      for (const kept of [encoded, encoded.content]) {
        const saved = yield* CycleStore.decode("b", JSON.stringify(kept, null, 2))
        assert.deepStrictEqual(saved, conversation({ sessionId: "b", turns: 1, messages: everything.messages }))
      }
      const short = [{ role: "system", content: "S" }, { role: "user", content: "U" }, {
        role: "assistant",
        content: "A"
      }]
      const saved = yield* CycleStore.decode("b", JSON.stringify(short))
      assert.deepStrictEqual(saved.messages, Prompt.make(short as Prompt.RawInput).content)
      // As `JSON.stringify` alone writes them.
      const raw = yield* CycleStore.decode("b", JSON.stringify(saved.messages))
      assert.deepStrictEqual(raw.messages, saved.messages)
      assert.deepStrictEqual((yield* CycleStore.decode("b", "[]")).messages, [])
    }))

  it.effect("is refused in a format of the future, whatever else it says", () =>
    Effect.gen(function*() {
      for (const found of [CycleStore.format + 1, 7, Number.MAX_SAFE_INTEGER]) {
        const reason = yield* reasonOf(CycleStore.decode("a", JSON.stringify({ format: found, conversation: "?" })))
        assert.deepInclude(reason, { _tag: "UnsupportedFormat", found, supported: CycleStore.format })
        assert.match(reason.message, /open it with the version that saved it, or a newer one; nothing was changed/)
      }
    }))

  it.effect("is refused where it is none, and says what is wrong", () =>
    Effect.gen(function*() {
      const { cycle } = JSON.parse(FORMAT_1) as { readonly cycle: object }
      const wrong: ReadonlyArray<readonly [text: string, issue: RegExp]> = [
        ["", /JSON/],
        [FORMAT_1.slice(0, -3), /JSON/],
        ["null", /no format/],
        ["7", /no format/],
        ["\"text\"", /no format/],
        ["{}", /no format/],
        [JSON.stringify({ format: "1", cycle }), /no format/],
        [JSON.stringify({ format: -1, cycle }), /no format/],
        [JSON.stringify({ format: 1.5, cycle }), /no format/],
        [JSON.stringify({ format: 1 }), /cycle/],
        [JSON.stringify({ format: 1, cycle: null }), /cycle/],
        [JSON.stringify({ format: 1, cycle: { ...cycle, messages: [{ role: "user", content: 7 }] } }), /messages/],
        [JSON.stringify([{ role: "nobody" }]), /messages/],
        [JSON.stringify({ format: 1, cycle: { ...cycle, sessionId: "b" } }), /the conversation "b"/],
        [`{"format":1,"cycle":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, /./]
      ]
      for (const [text, issue] of wrong) {
        const reason = yield* reasonOf(CycleStore.decode("a", text))
        assert.strictEqual(reason._tag, "Corrupt", text.slice(0, 80))
        assert.match(reason.message, issue)
        assert.isBelow(reason.message.length, 1_200)
      }
    }))

  // verifies: store.cheap
  it.effect("is made once for each message", () =>
    Effect.gen(function*() {
      let reads = 0
      const message = Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "Go" })] })
      const { content } = message
      Object.defineProperty(message, "content", { enumerable: true, get: () => (reads++, content) })
      const text = yield* CycleStore.encode(conversation({ messages: [message] }))
      const first = reads
      assert.isAbove(first, 0)
      assert.include(yield* CycleStore.encode(conversation({ messages: [message, message] })), "Go")
      assert.strictEqual(yield* CycleStore.encode(conversation({ messages: [message] })), text)
      assert.strictEqual(reads, first)
    }))
})

// =============================================================================
// Waiting
// =============================================================================

const io = new CycleStoreError.Io({ description: "the disk is on fire", cause: new Error("EIO") })

/** A place that answers when it is let go. */
const makeSlow = () => {
  const entered = Deferred.makeUnsafe<void>()
  const leave = Deferred.makeUnsafe<void>()
  const { backend, rows } = makeRows()
  const slow = <A, E>(effect: Effect.Effect<A, E>) =>
    Deferred.succeed(entered, undefined).pipe(Effect.andThen(Deferred.await(leave)), Effect.andThen(effect))
  return {
    rows,
    entered: Deferred.await(entered),
    leave: Deferred.succeed(leave, undefined),
    store: CycleStore.make({
      read: (sessionId) => slow(backend.read(sessionId)),
      write: (sessionId, stored) => slow(backend.write(sessionId, stored)),
      remove: (sessionId) => slow(backend.remove(sessionId)),
      list: Stream.unwrap(slow(Effect.succeed(backend.list)))
    })
  }
}

describe("a store", () => {
  // verifies: store.bounded
  it.effect("is not waited for longer than it may take", () =>
    Effect.gen(function*() {
      const slow = makeSlow()
      const store = yield* slow.store
      const operations: ReadonlyArray<Effect.Effect<unknown, CycleStoreError.CycleStoreError>> = [
        store.load("a"),
        store.remove("a"),
        list(store),
        store.save(conversation())
      ]
      for (const operation of operations) {
        const fiber = yield* Effect.forkChild(reasonOf(operation))
        yield* slow.entered
        yield* TestClock.adjust("29 seconds")
        assert.isUndefined(fiber.pollUnsafe())
        yield* TestClock.adjust("1 second")
        const reason = yield* Fiber.join(fiber)
        assert.strictEqual(reason._tag, "Io")
        assert.match(reason.message, /did not answer within 30s/)
      }
      // It is not known whether a save that was given up is made; this one is.
      assert.isFalse(slow.rows.has("a"))
      yield* slow.leave
      yield* settle
      assert.isTrue(slow.rows.has("a"))
    }))

  it.effect("may be given more or less time", () =>
    Effect.gen(function*() {
      const { entered, ...slow } = makeSlow()
      const store = yield* Effect.provideService(slow.store, CycleStore.Timeout, Duration.millis(5))
      const fiber = yield* Effect.forkChild(reasonOf(store.save(conversation())))
      yield* entered
      yield* TestClock.adjust("5 millis")
      assert.match((yield* Fiber.join(fiber)).message, /within 5ms/)
      const patient = makeSlow()
      const endless = yield* Effect.provideService(patient.store, CycleStore.Timeout, Duration.infinity)
      const saving = yield* Effect.forkChild(endless.save(conversation()))
      yield* patient.entered
      yield* TestClock.adjust("1 day")
      yield* patient.leave
      yield* Fiber.join(saving)
    }))

  // verifies: store.interruption
  it.effect("finishes a save that is interrupted, before the interruption goes on", () =>
    Effect.gen(function*() {
      const { entered, leave, rows, store } = makeSlow()
      const { save } = yield* store
      const fiber = yield* Effect.forkChild(save(conversation()))
      yield* entered
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* settle
      assert.isUndefined(fiber.pollUnsafe())
      yield* leave
      yield* Fiber.join(interrupting)
      assert.isTrue(rows.has("a"))
    }))

  it.effect("can be interrupted while it loads", () =>
    Effect.gen(function*() {
      const { entered, store } = makeSlow()
      const { load } = yield* store
      const fiber = yield* Effect.forkChild(load("a"))
      yield* entered
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    }))

  it.effect("says which conversation failed, and why", () =>
    Effect.gen(function*() {
      const { backend } = makeRows()
      const store = yield* CycleStore.make({
        ...backend,
        read: () => Effect.fail(io),
        write: () => Effect.fail(io),
        remove: () => Effect.fail(io),
        list: Stream.fail(io)
      })
      const operations: ReadonlyArray<Effect.Effect<unknown, CycleStoreError.CycleStoreError>> = [
        store.load("a"),
        store.save(conversation()),
        store.remove("a")
      ]
      for (const operation of operations) {
        const error = yield* Effect.flip(operation)
        assert.isTrue(CycleStoreError.isCycleStoreError(error))
        assert.strictEqual(error.message, "Conversation \"a\": the disk is on fire")
        assert.strictEqual(error.reason, io)
      }
      const error = yield* Effect.flip(list(store))
      assert.strictEqual(error.message, "Stored conversations: the disk is on fire")
      assert.isFalse("sessionId" in error)
      const long = yield* Effect.flip(store.load("x".repeat(1_000)))
      assert.isBelow(long.message.length, 200)
    }))

  it.effect("has errors that can be stored themselves", () =>
    Effect.gen(function*() {
      const codec = Schema.toCodecJson(CycleStoreError.CycleStoreError)
      for (
        const reason of [
          new CycleStoreError.Conflict({ expected: 0, found: 3 }),
          new CycleStoreError.UnsupportedFormat({ found: 2, supported: 1 }),
          new CycleStoreError.Corrupt({ issue: "torn" }),
          new CycleStoreError.NotStorable({ issue: "a bigint" }),
          io
        ]
      ) {
        const error = new CycleStoreError.CycleStoreError({ sessionId: "a", reason })
        const json = JSON.stringify(yield* Schema.encodeEffect(codec)(error))
        const decoded = yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json))
        assert.strictEqual(decoded.message, error.message)
        assert.strictEqual(decoded.reason._tag, reason._tag)
      }
    }))
})
