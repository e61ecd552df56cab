/*
 * What every store of conversations does, wherever it keeps them.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Budget, CycleStore, type CycleStoreError, Question, type SavedCycle, ToolError, ToolInvocation } from "agcore"
import { Context, Effect, Layer, Schema, type Scope, Stream } from "effect"
import { Prompt, Response } from "effect/ai"

export type Store = CycleStore.CycleStore["Service"]

type Services = NodeServices.NodeServices | Scope.Scope

/** A new place for conversations, and two stores over it that know nothing of each other. */
type MakePlace = Effect.Effect<readonly [Store, Store], never, Services>

// =============================================================================
// Samples
// =============================================================================

export const conversation = (options?: Partial<SavedCycle.SavedCycle>): SavedCycle.SavedCycle => ({
  sessionId: "a",
  revision: 1,
  turns: 0,
  messages: [],
  running: [],
  pending: [],
  sharedState: {},
  usage: new Response.Usage({ inputTokens: {}, outputTokens: {} }),
  ...options
})

const asked = {
  sessionId: "a",
  turn: 2,
  index: 0,
  toolCallId: "call-1",
  toolName: "deploy",
  input: { to: ["production", null, 1.5, true], "ключ": "\u2028\0\ud83d" },
  prompt: "Deploy?"
}

const approval = new Question.Approval({ ...asked, id: "1".repeat(64), permissions: ["write"] })

const input = new Question.Input({
  ...asked,
  id: "2".repeat(64),
  index: 1,
  context: { step: 2 },
  answerSchema: { type: "string" },
  round: 1
})

const circular: Record<string, unknown> = { f: () => 1, n: 1n }
circular["self"] = circular

/** One of each kind: the type says when one is missing. */
const reasons: {
  readonly [Tag in ToolError.ToolErrorReason["_tag"]]: Extract<ToolError.ToolErrorReason, { readonly _tag: Tag }>
} = {
  NotFound: new ToolError.NotFound({ available: ["search"] }),
  ExecutionFailed: new ToolError.ExecutionFailed({ origin: "defect", cause: new TypeError("no such property") }),
  InvalidArguments: new ToolError.InvalidArguments({ issue: "Expected a string", input: { q: 1 } }),
  PermissionDenied: new ToolError.PermissionDenied({ permissions: ["write"], explanation: "read only" }),
  ApprovalDenied: new ToolError.ApprovalDenied({ explanation: "not today" }),
  AwaitingAnswer: new ToolError.AwaitingAnswer({ question: approval, problem: "of another call" }),
  TimedOut: new ToolError.TimedOut({ timeoutMillis: 100, stopped: false }),
  NotExecuted: new ToolError.NotExecuted({ why: "sibling" }),
  McpError: new ToolError.McpError({ server: "files", description: "broke", code: -32_603, data: { at: [1] } }),
  McpNotInitialized: new ToolError.McpNotInitialized({ server: "files" }),
  McpTimeout: new ToolError.McpTimeout({ server: "files", timeoutMillis: 5 }),
  Io: new ToolError.Io({ description: "no space", cause: circular }),
  Other: new ToolError.Other({ description: "anything", cause: "a text" })
}

const invocations = Object.values(reasons).map((reason, index) =>
  ToolInvocation.failed({ id: `call-${index}`, name: "search", params: { q: index }, turn: 2, index }, reason, index)
).concat(
  new ToolInvocation.ToolInvocation({
    toolCallId: "call-100",
    toolName: "draw",
    turn: 2,
    index: 100,
    input: "not JSON {",
    output: { pixels: [0, 255] },
    result: "drawn",
    modelOutput: [
      Prompt.makePart("text", { text: "a picture" }),
      Prompt.makePart("file", { mediaType: "image/png", data: new Uint8Array([0, 255]) })
    ],
    truncated: true,
    durationMillis: 12
  })
)

const messages: ReadonlyArray<Prompt.Message> = [
  Prompt.makeMessage("system", {
    content: "Be brief.",
    options: { anthropic: { cacheControl: { type: "ephemeral" } } }
  }),
  Prompt.makeMessage("user", {
    content: [
      Prompt.makePart("text", { text: "Look: \u{1f469}\u200d\u{1f680} \ud800 \0" }),
      Prompt.makePart("file", { mediaType: "image/png", fileName: "a.png", data: new Uint8Array([137, 80, 0, 255]) }),
      Prompt.makePart("file", { mediaType: "image/jpeg", data: new URL("https://example.com/b.jpg") }),
      Prompt.makePart("file", { mediaType: "text/plain", data: "aGVsbG8=" })
    ]
  }),
  Prompt.makeMessage("assistant", {
    content: [
      Prompt.makePart("reasoning", { text: "Hm.", options: { anthropic: { signature: "EqoBCkgI" } } }),
      Prompt.makePart("text", { text: "One moment." }),
      Prompt.makePart("tool-call", { id: "call-1", name: "deploy", params: asked.input, providerExecuted: false })
    ]
  }),
  Prompt.makeMessage("tool", {
    content: [
      Prompt.makePart("tool-result", {
        id: "call-1",
        name: "deploy",
        isFailure: true,
        result: { error: "not yet" },
        providerExecuted: false
      })
    ]
  })
]

const submit: Required<SavedCycle.SavedSubmit> = {
  withTools: true,
  turns: 2,
  usage: new Response.Usage({ inputTokens: { total: 3 }, outputTokens: {} }),
  invocations,
  spent: new Budget.Spent({ tokens: 12, cost: 0.1, millis: 1_500 }),
  budgetFrom: new Budget.Spent({ tokens: 0, millis: 0 })
}

/** A conversation with everything in it that there is: the type says when something is missing. */
export const everything: Required<SavedCycle.SavedCycle> = {
  sessionId: "a",
  revision: 1,
  turns: 2,
  messages,
  running: [0, 3],
  pending: [approval, input],
  sharedState: { count: 1, nested: { list: [null, "ü"] }, ...JSON.parse(`{"__proto__":{"polluted":true}}`) },
  usage: new Response.Usage({
    inputTokens: { uncached: 1, total: 3, cacheRead: 1, cacheWrite: 1 },
    outputTokens: { total: 9, text: 4, reasoning: 5 }
  }),
  spent: new Budget.Spent({ tokens: 12, cost: 0.1, millis: 1_500 }),
  submit
}

// =============================================================================
// Helpers
// =============================================================================

/** A store of its own, for as long as the scope lasts. */
export const storeOf = <R>(layer: Layer.Layer<CycleStore.CycleStore, never, R>) =>
  Effect.map(Layer.build(Layer.fresh(layer)), Context.get(CycleStore.CycleStore))

/** Runs a test with real files, in a scope. */
export const scoped = <A, E>(effect: Effect.Effect<A, E, Services>): Effect.Effect<A, E> =>
  effect.pipe(Effect.scoped, Effect.provide(NodeServices.layer))

export const reasonOf = <A>(effect: Effect.Effect<A, CycleStoreError.CycleStoreError>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason)

/** What a store has under the id of a conversation, which is the same when it has the same text. */
export const loadSame = (store: Store, expected: SavedCycle.SavedCycle) =>
  Effect.gen(function*() {
    const loaded = (yield* store.load(expected.sessionId)) ?? conversation()
    assert.strictEqual(yield* CycleStore.encode(loaded), yield* CycleStore.encode(expected))
    return loaded
  })

export const list = (store: Store) => Effect.map(Stream.runCollect(store.list), (ids) => ids.toSorted())

/** Saves revisions up to one, from the one after `first`. */
export const saveUpTo = (store: Store, last: number, options?: Partial<SavedCycle.SavedCycle>, first = 1) =>
  Effect.forEach(
    Array.from({ length: last - first + 1 }, (_, index) => first + index),
    (revision) => store.save(conversation({ ...options, revision })),
    { discard: true }
  )

/** Ids that a path, a URL or a file system could stumble over. */
const AWKWARD_IDS = [
  "",
  ".",
  "..",
  "../../etc/passwd",
  "/etc/passwd",
  "C:\\con",
  "con",
  "com1",
  "%",
  "%2e%2e",
  "%h" + "0".repeat(64),
  "A",
  "a",
  "a ",
  "a.0",
  "a\n",
  "a\0b",
  "\u00e9",
  "e\u0301",
  "\ud800",
  "\ud801",
  "\ufffd",
  "\u{1f600}",
  "-rf",
  "~",
  "*?<>|:\"",
  "x".repeat(120),
  "x".repeat(121),
  "x".repeat(100_000),
  "x".repeat(100_000) + "y",
  "\ud800".repeat(500),
  "\ud801".repeat(500),
  "__proto__",
  "constructor"
]

// =============================================================================
// Suite
// =============================================================================

const Ids = Schema.Array(
  Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff }))).check(Schema.isMaxLength(40))
).check(Schema.isMaxLength(5))

export const cycleStoreSuite = (name: string, place: MakePlace): void => {
  const withPlace = <A, E>(use: (...stores: readonly [Store, Store]) => Effect.Effect<A, E, Services>) => () =>
    scoped(Effect.flatMap(place, (stores) => use(...stores)))

  // Hundreds of files, on a machine that may be busy.
  describe(name, { timeout: 120_000 }, () => {
    // verifies: store.whole
    it.effect(
      "gives back everything that was saved",
      withPlace((first, second) =>
        Effect.gen(function*() {
          yield* first.save(everything)
          const loaded = yield* loadSame(second, everything)
          assert.deepStrictEqual(loaded.messages, messages)
          assert.deepStrictEqual(loaded.pending, [approval, input])
          assert.isTrue(loaded.pending[0] instanceof Question.Approval)
          assert.deepStrictEqual(loaded.usage, everything.usage)
          assert.deepStrictEqual(
            loaded.submit?.invocations.map(({ error }) => error?.message),
            invocations.map(({ error }) => error?.message)
          )
          // And again: what was decoded can be saved.
          yield* second.save({ ...loaded, revision: 2 })
          yield* loadSame(first, { ...everything, revision: 2 })
        })
      )
    )

    it.effect(
      "has nothing where nothing was saved",
      withPlace((store) =>
        Effect.gen(function*() {
          assert.isUndefined(yield* store.load("a"))
          assert.deepStrictEqual(yield* list(store), [])
          yield* store.remove("a")
        })
      )
    )

    it.effect(
      "keeps the newest of many revisions",
      withPlace((first, second) =>
        Effect.gen(function*() {
          for (let revision = 1; revision <= 40; revision++) {
            yield* (revision % 3 === 0 ? first : second).save(conversation({ revision, turns: revision * 10 }))
          }
          const loaded = yield* first.load("a")
          assert.deepStrictEqual([loaded?.revision, loaded?.turns], [40, 400])
        })
      )
    )

    // verifies: store.conflict
    it.effect(
      "tells whoever saves anything but the next revision, and changes nothing",
      withPlace((first, second) =>
        Effect.gen(function*() {
          const refused = (revision: number) =>
            Effect.map(reasonOf(second.save(conversation({ revision, turns: 99 }))), (reason) =>
              reason._tag === "Conflict" ? [reason.expected, reason.found] : reason._tag)
          assert.deepStrictEqual(yield* refused(2), [1, 0])
          yield* saveUpTo(first, 3)
          for (const revision of [1, 2, 3, 5]) {
            assert.deepStrictEqual(yield* refused(revision), [revision - 1, 3])
          }
          for (const revision of [0, -1, 1.5, Number.NaN, Infinity]) {
            assert.strictEqual(yield* refused(revision), "NotStorable")
          }
          const loaded = yield* second.load("a")
          assert.deepStrictEqual([loaded?.revision, loaded?.turns], [3, 0])
        })
      )
    )

    it.effect(
      "lets one of two writers save each revision",
      withPlace((...stores) =>
        Effect.gen(function*() {
          const writer = (name: number) =>
            Effect.gen(function*() {
              const store = stores[name]!
              const won: Array<number> = []
              for (;;) {
                const { revision = 0, sharedState = { log: [] } } = (yield* store.load("a")) ?? {}
                if (revision >= 100) return won
                const log = [...sharedState["log"] as ReadonlyArray<number>, name]
                const reason = yield* store.save(conversation({ revision: revision + 1, sharedState: { log } })).pipe(
                  Effect.match({ onSuccess: () => undefined, onFailure: ({ reason }) => reason._tag })
                )
                if (reason === undefined) won.push(revision + 1)
                else assert.strictEqual(reason, "Conflict")
                yield* Effect.yieldNow
              }
            })
          const won = yield* Effect.all([writer(0), writer(1)], { concurrency: "unbounded" })
          assert.deepStrictEqual(
            won.flat().toSorted((a, b) => a - b),
            Array.from({ length: 100 }, (_, index) => index + 1)
          )
          // Each saw what the other had written before.
          const log = (yield* stores[0].load("a"))?.sharedState["log"]
          assert.deepStrictEqual(
            log,
            Array.from({ length: 100 }, (_, index) => won[0].includes(index + 1) ? 0 : 1)
          )
        })
      )
    )

    it.effect(
      "forgets what is removed, and begins anew",
      withPlace((first, second) =>
        Effect.gen(function*() {
          yield* saveUpTo(first, 5)
          yield* saveUpTo(first, 2, { sessionId: "b" })
          yield* second.remove("a")
          assert.isUndefined(yield* first.load("a"))
          assert.deepStrictEqual(yield* list(first), ["b"])
          // Who still goes on with it is told.
          assert.deepInclude(yield* reasonOf(first.save(conversation({ revision: 6 }))), { _tag: "Conflict", found: 0 })
          yield* saveUpTo(second, 1)
          assert.strictEqual((yield* first.load("a"))?.revision, 1)
          yield* first.remove("a")
          yield* first.remove("a")
        })
      )
    )

    // verifies: store.ids
    it.effect(
      "takes any text for an id",
      withPlace((first, second) =>
        Effect.gen(function*() {
          for (const [turns, sessionId] of AWKWARD_IDS.entries()) {
            yield* first.save(conversation({ sessionId, turns }))
          }
          for (const [turns, sessionId] of AWKWARD_IDS.entries()) {
            assert.strictEqual((yield* second.load(sessionId))?.turns, turns, JSON.stringify(sessionId.slice(0, 20)))
          }
          assert.deepStrictEqual(yield* list(second), AWKWARD_IDS.toSorted())
          yield* Effect.forEach(AWKWARD_IDS, second.remove, { discard: true })
          assert.deepStrictEqual(yield* list(first), [])
        })
      )
    )

    it.effect.prop(
      "never takes one id for another",
      { units: Ids },
      ({ units }) =>
        scoped(Effect.gen(function*() {
          const ids = Array.from(new Set(units.map((each) => String.fromCharCode(...each))))
          const [store] = yield* place
          yield* Effect.forEach(ids, (sessionId, turns) => store.save(conversation({ sessionId, turns })))
          for (const [turns, id] of ids.entries()) assert.strictEqual((yield* store.load(id))?.turns, turns)
          assert.deepStrictEqual(yield* list(store), ids.toSorted())
        })),
      { arbitrary: { runs: 10 } }
    )

    // verifies: store.json
    it.effect(
      "refuses what has no JSON, and says where it is",
      withPlace((store) =>
        Effect.gen(function*() {
          yield* saveUpTo(store, 1)
          const call = (params: unknown) => [
            Prompt.makeMessage("assistant", {
              content: [Prompt.makePart("tool-call", { id: "1", name: "t", params, providerExecuted: false })]
            })
          ]
          let deep: unknown = 1
          for (let depth = 0; depth < 100_000; depth++) deep = [deep]
          for (
            const value of [
              1n,
              () => 1,
              { a: undefined },
              Number.NaN,
              new Date(0),
              circular,
              Symbol.iterator,
              deep
            ]
          ) {
            const reason = yield* reasonOf(store.save(conversation({ revision: 2, messages: call(value) })))
            assert.strictEqual(reason._tag, "NotStorable")
          }
          assert.include(
            (yield* reasonOf(store.save(conversation({ revision: 2, messages: call(1n) })))).message,
            "params"
          )
          assert.strictEqual((yield* store.load("a"))?.revision, 1)
        })
      )
    )
  })
}
