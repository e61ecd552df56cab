import { assert, describe, it } from "@effect/vitest"
import { McpPeer } from "agcore/testing"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { reasonOf } from "./support.ts"

const started = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })
const item = (name: string) => ({ name, inputSchema: { type: "object" } })
const names = (tools: ReadonlyArray<{ readonly name: string }>) => tools.map(({ name }) => name)

/** A server whose pages of tools are what `page` says of the cursor. */
const paged = (page: (cursor: unknown, n: number) => unknown, protocolVersion = "2025-11-25") => {
  let n = 0
  return McpPeer.make({
    protocolVersion,
    handlers: { "tools/list": ({ cursor }) => Effect.sync(() => page(cursor, ++n)) }
  })
}

const listsOf = (peer: McpPeer.McpPeer) =>
  Effect.map(peer.received, (messages) => messages.filter(({ method }) => method === "tools/list").length)

describe("pages", () => {
  it.effect("are all read", () =>
    Effect.gen(function*() {
      const peer = yield* paged((cursor, n) => ({
        tools: [item(`t${n}`)],
        nextCursor: n < 3 ? `after ${n}` : undefined,
        cursor
      }))
      const client = yield* peer.connect()
      assert.deepStrictEqual(names(yield* client.listTools), ["t1", "t2", "t3"])
      const cursors = (yield* peer.received).flatMap(({ method, params }) => method === "tools/list" ? [params] : [])
      assert.deepStrictEqual(cursors, [{}, { cursor: "after 1" }, { cursor: "after 2" }])
    }))

  const endings: Record<string, unknown> = { "null": null, "nothing": undefined, "an empty string": "" }
  for (const [title, nextCursor] of Object.entries(endings)) {
    it.effect(`end with ${title}`, () =>
      Effect.gen(function*() {
        const peer = yield* paged(() => ({ tools: [item("only")], nextCursor }))
        assert.deepStrictEqual(names(yield* (yield* peer.connect()).listTools), ["only"])
        assert.strictEqual(yield* listsOf(peer), 1)
      }))
  }

  it.effect("go on after an empty cursor in the revision that says so", () =>
    Effect.gen(function*() {
      const peer = yield* paged(
        (cursor) => ({ tools: [item(`at "${String(cursor)}"`)], nextCursor: cursor === "" ? null : "" }),
        "2026-07-28"
      )
      assert.deepStrictEqual(names(yield* (yield* peer.connect()).listTools), ["at \"undefined\"", "at \"\""])
    }))

  const endless: Record<string, readonly [(cursor: unknown, n: number) => unknown, number]> = {
    "that repeat a cursor": [(_, n) => ({ tools: [item(`t${n}`)], nextCursor: "same" }), 2],
    "that go round in circles": [(_, n) => ({ tools: [item(`t${n}`)], nextCursor: `c${n % 3}` }), 4],
    "that never end": [(_, n) => ({ tools: [item(`t${n}`)], nextCursor: `c${n}` }), 100]
  }
  for (const [title, [page, read]] of Object.entries(endless)) {
    // verifies: mcp.pages
    it.effect(`${title} yield what was read, with a warning`, () =>
      Effect.gen(function*() {
        const client = yield* (yield* paged(page)).connect()
        assert.strictEqual((yield* client.listTools).length, read)
        assert.deepStrictEqual((yield* client.diagnostics).map(({ kind }) => kind), ["incomplete-list"])
      }))
  }

  it.effect("with too many items yield as many as are allowed", () =>
    Effect.gen(function*() {
      const peer = yield* paged((_, n) => ({
        tools: Array.from({ length: 7 }, (_, m) => item(`t${n}-${m}`)),
        nextCursor: `c${n}`
      }))
      const client = yield* peer.connect({ maxItems: 10 })
      assert.strictEqual((yield* client.listTools).length, 10)
      assert.strictEqual(yield* listsOf(peer), 2)
    }))

  it.effect("keep the first of two tools with one name, across pages", () =>
    Effect.gen(function*() {
      const peer = yield* paged((_, n) => ({
        tools: [{ ...item("t"), title: `page ${n}` }],
        nextCursor: n < 2 ? "next" : null
      }))
      const tools = yield* (yield* peer.connect()).listTools
      assert.deepStrictEqual(tools.map(({ title }) => title), ["page 1"])
    }))

  it.effect("that fail in between fail the list", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        handlers: {
          "tools/list": ({ cursor }) =>
            cursor === undefined
              ? Effect.succeed({ tools: [item("t")], nextCursor: "next" })
              : Effect.fail({ code: -32602, message: "bad cursor" })
        }
      })
      assert.strictEqual((yield* reasonOf((yield* peer.connect()).listTools))._tag, "Refused")
    }))
})

describe("what a server does not offer", () => {
  it.effect("is an empty list, and is not asked for", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ capabilities: {} })
      const client = yield* peer.connect()
      assert.deepStrictEqual(
        yield* Effect.all([client.listPrompts, client.listResources, client.listResourceTemplates]),
        [[], [], []]
      )
      assert.notInclude((yield* peer.received).map(({ method }) => method), "prompts/list")
    }))

  it.effect("is asked for when it is tools: some servers forget to say that they have them", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        capabilities: {},
        tools: [{ definition: { name: "t" }, call: () => Effect.succeed("") }]
      })
      assert.deepStrictEqual(names(yield* (yield* peer.connect()).listTools), ["t"])
      const without = yield* McpPeer.make({
        capabilities: {},
        handlers: { "tools/list": () => Effect.fail({ code: -32601, message: "what?" }) }
      })
      assert.deepStrictEqual(yield* (yield* without.connect()).listTools, [])
    }))

  it.effect("is no list of templates where there are resources but no templates", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ capabilities: { resources: {} } })
      assert.deepStrictEqual(yield* (yield* peer.connect()).listResourceTemplates, [])
    }))

  it.effect("cannot be subscribed to", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ capabilities: { resources: {} } })
      const client = yield* peer.connect()
      assert.strictEqual((yield* reasonOf(Effect.scoped(client.subscribe("x://y"))))._tag, "NotSupported")
    }))
})

describe("a list that was read", () => {
  it.effect("is kept, and asked for once however many want it", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ tools: [{ definition: { name: "t" }, call: () => Effect.succeed("") }] })
      const client = yield* peer.connect()
      yield* Effect.all(Array.from({ length: 20 }, () => client.listTools), { concurrency: "unbounded" })
      yield* client.listTools
      assert.strictEqual(yield* listsOf(peer), 1)
      yield* client.refreshTools
      assert.strictEqual(yield* listsOf(peer), 2)
    }))

  it.effect("is still read for the others when the first who asked is interrupted", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        handlers: { "tools/list": () => Effect.delay(Effect.succeed({ tools: [item("t")] }), "1 second") }
      })
      const client = yield* peer.connect()
      const first = yield* started(client.listTools)
      const second = yield* started(client.listTools)
      yield* Fiber.interrupt(first)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(names(yield* Fiber.join(second)), ["t"])
    }))

  it.effect("is read again after the time that was set", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make()
      const client = yield* peer.connect({ listTtl: "1 minute" })
      yield* client.listTools
      yield* TestClock.adjust("59 seconds")
      yield* client.listTools
      assert.strictEqual(yield* listsOf(peer), 1)
      yield* TestClock.adjust("1 second")
      yield* client.listTools
      assert.strictEqual(yield* listsOf(peer), 2)
    }))

  it.effect("is read again after the time the server names", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        protocolVersion: "2026-07-28",
        capabilities: { tools: {} },
        handlers: { "tools/list": () => Effect.succeed({ tools: [], ttlMs: 5_000, cacheScope: "private" }) }
      })
      const client = yield* peer.connect()
      yield* client.listTools
      yield* TestClock.adjust("4 seconds")
      yield* client.listTools
      assert.strictEqual(yield* listsOf(peer), 1)
      yield* TestClock.adjust("1 second")
      yield* client.listTools
      assert.strictEqual(yield* listsOf(peer), 2)
    }))

  // verifies: mcp.list-changed
  it.effect("follows its changes in the background, and says so when it has", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ tools: [{ definition: { name: "a" }, call: () => Effect.succeed("") }] })
      const client = yield* peer.connect()
      yield* client.listTools
      const changed = yield* started(Stream.runHead(client.notifications))
      yield* Effect.yieldNow
      yield* peer.setTools([{ definition: { name: "b" }, call: () => Effect.succeed("") }])
      yield* peer.notify("notifications/tools/list_changed")
      yield* Fiber.join(changed)
      // Without another request.
      const asked = yield* listsOf(peer)
      assert.deepStrictEqual(names(yield* client.listTools), ["b"])
      assert.strictEqual(yield* listsOf(peer), asked)
    }))

  it.effect("is read once more after a burst of changes, not once for each", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make()
      const client = yield* peer.connect()
      yield* client.listTools
      for (let n = 0; n < 200; n++) yield* peer.notify("notifications/tools/list_changed")
      yield* TestClock.adjust("1 minute")
      assert.isAtMost(yield* listsOf(peer), 3)
    }))

  it.effect("is read less and less often when each reading announces a change", () =>
    Effect.gen(function*() {
      const peer: McpPeer.McpPeer = yield* McpPeer.make({
        handlers: {
          "tools/list": () =>
            Effect.as(Effect.suspend(() => peer.notify("notifications/tools/list_changed")), { tools: [] })
        }
      })
      const client = yield* peer.connect()
      yield* client.listTools
      yield* TestClock.adjust("5 minutes")
      assert.isAtMost(yield* listsOf(peer), 25)
    }))

  it.effect("stays what it was when reading it again fails", () =>
    Effect.gen(function*() {
      let broken = false
      const peer = yield* McpPeer.make({
        handlers: {
          "tools/list": () =>
            broken
              ? Effect.fail({ code: -32603, message: "later" })
              : Effect.succeed({ tools: [{ ...item("t"), outputSchema: { type: "string" } }] }),
          "tools/call": () => Effect.succeed({ content: [], structuredContent: 5 })
        }
      })
      const client = yield* peer.connect()
      yield* client.listTools
      broken = true
      yield* peer.notify("notifications/tools/list_changed")
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual((yield* client.diagnostics).map(({ kind }) => kind), ["connection"])
      // What calls need of it is still there.
      assert.strictEqual((yield* reasonOf(client.callTool("t")))._tag, "OutputMismatch")
      // Whoever asks for the list learns that it cannot be read.
      assert.strictEqual((yield* reasonOf(client.listTools))._tag, "Refused")
      broken = false
      assert.deepStrictEqual(names(yield* client.listTools), ["t"])
    }))
})

describe("notifications", () => {
  it.effect("arrive decoded, whatever the server leaves out", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make()
      const client = yield* peer.connect()
      const seen = yield* started(Stream.runCollect(Stream.take(client.notifications, 7)))
      yield* Effect.yieldNow
      yield* peer.notify("notifications/message", { level: "warning", logger: "db\u0007", data: { a: 1 } })
      yield* peer.notify("notifications/message", { level: "loud", logger: null, data: "hi" })
      yield* peer.notify("notifications/resources/updated", { uri: "x://y" })
      yield* peer.notify("notifications/resources/updated", { uri: null })
      yield* peer.notify("notifications/progress", { progressToken: "t", progress: 1, total: null, message: null })
      yield* peer.notify("notifications/elicitation/complete", { elicitationId: "e" })
      yield* peer.notify("notifications/whatever", { x: 1 })
      yield* peer.notify("notifications/tools/list_changed")
      assert.deepStrictEqual(yield* Fiber.join(seen), [
        { _tag: "Log", level: "warning", logger: "db", data: { a: 1 } },
        { _tag: "Log", level: "info", logger: undefined, data: "hi" },
        { _tag: "ResourceUpdated", uri: "x://y" },
        { _tag: "Progress", token: "t", progress: 1, total: undefined, message: undefined },
        { _tag: "ElicitationComplete", elicitationId: "e" },
        { _tag: "Other", method: "notifications/whatever", params: { x: 1 } },
        { _tag: "ToolsChanged" }
      ])
    }))

  it.effect("a slow reader misses the oldest, and holds up nobody", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make()
      const client = yield* peer.connect({ notificationBacklog: 16 })
      const seen: Array<unknown> = []
      yield* started(
        client.notifications.pipe(
          Stream.rechunk(1),
          Stream.runForEach((notification) => {
            seen.push(notification._tag === "Log" ? notification.data : undefined)
            return Effect.sleep("1 second")
          })
        )
      )
      yield* Effect.yieldNow
      for (let n = 0; n < 1_000; n++) yield* peer.notify("notifications/message", { data: n })
      yield* client.ping
      yield* TestClock.adjust("5 minutes")
      assert.isAtMost(seen.length, 40)
      assert.strictEqual(seen.at(-1), 999)
    }))
})
