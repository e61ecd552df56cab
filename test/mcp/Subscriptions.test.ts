import { assert, describe, it } from "@effect/vitest"
import { McpPeer } from "agcore/testing"
import { Effect, Exit, Fiber, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { reasonOf } from "./support.ts"

const started = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })
const settle = Effect.repeat(Effect.yieldNow, { times: 20 })

const capabilities = { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } }
const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

/** A modern server that acknowledges what it is asked to tell. */
const listening = (end: Effect.Effect<unknown> = Effect.never) =>
  Effect.gen(function*() {
    const peer: McpPeer.McpPeer = yield* McpPeer.make({
      protocolVersion: "2026-07-28",
      capabilities,
      handlers: {
        "subscriptions/listen": ({ notifications }, { id }) =>
          Effect.andThen(
            Effect.suspend(() =>
              peer.notify("notifications/subscriptions/acknowledged", { _meta: { [SUBSCRIPTION]: id }, notifications })
            ),
            end
          )
      }
    })
    return peer
  })

const filters = (peer: McpPeer.McpPeer) =>
  Effect.map(
    peer.received,
    (messages) =>
      messages.flatMap(({ method, params }) => method === "subscriptions/listen" ? [params?.["notifications"]] : [])
  )

describe("a modern server", () => {
  it.effect("is asked to tell what it can tell", () =>
    Effect.gen(function*() {
      const peer = yield* listening()
      yield* peer.connect()
      yield* settle
      assert.deepStrictEqual(yield* filters(peer), [{ toolsListChanged: true, resourcesListChanged: true }])
    }))

  it.effect("that cannot tell anything is not asked", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ protocolVersion: "2026-07-28", capabilities: { tools: {} } })
      yield* peer.connect()
      yield* settle
      assert.deepStrictEqual(yield* filters(peer), [])
    }))

  it.effect("that knows no subscriptions is asked once", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ protocolVersion: "2026-07-28", capabilities })
      yield* peer.connect()
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* filters(peer)).length, 1)
    }))

  it.effect("is listened to again when it ends a subscription, at growing intervals", () =>
    Effect.gen(function*() {
      const peer = yield* listening(Effect.succeed({}))
      yield* peer.connect()
      yield* TestClock.adjust("10 seconds")
      const soon = (yield* filters(peer)).length
      assert.isAtLeast(soon, 2)
      assert.isAtMost(soon, 11)
    }))

  it.effect("is listened to again when it takes a subscription back", () =>
    Effect.gen(function*() {
      const peer = yield* listening()
      yield* peer.connect()
      yield* settle
      const id = (yield* peer.received).find(({ method }) => method === "subscriptions/listen")?.id
      yield* peer.notify("notifications/cancelled", { requestId: id })
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* filters(peer)).length, 2)
    }))

  it.effect("tells of a resource as long as that is wanted", () =>
    Effect.gen(function*() {
      const peer = yield* listening()
      const client = yield* peer.connect()
      yield* settle
      const scope = yield* Scope.make()
      yield* Scope.provide(client.subscribe("x://y"), scope)
      assert.deepStrictEqual((yield* filters(peer)).at(-1), { resourceSubscriptions: ["x://y"] })
      const told = yield* started(Stream.runHead(client.notifications))
      yield* settle
      yield* peer.notify("notifications/resources/updated", { uri: "x://y", _meta: { [SUBSCRIPTION]: 1 } })
      assert.deepStrictEqual((yield* Fiber.join(told)).valueOrUndefined, { _tag: "ResourceUpdated", uri: "x://y" })
      yield* Scope.close(scope, Exit.void)
      const taken = (yield* peer.received).filter(({ method }) => method === "notifications/cancelled")
      const asked = (yield* peer.received).findLast(({ method }) => method === "subscriptions/listen")
      assert.deepStrictEqual(taken.map(({ params }) => params?.["requestId"]), [asked?.id])
    }))

  it.effect("that never acknowledges a subscription fails it in time", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        protocolVersion: "2026-07-28",
        capabilities: { resources: { subscribe: true } },
        handlers: { "subscriptions/listen": () => Effect.never }
      })
      const client = yield* peer.connect()
      const subscribing = yield* started(reasonOf(Effect.scoped(client.subscribe("x://y"))))
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* Fiber.join(subscribing))._tag, "TimedOut")
    }))

  it.effect("that refuses a subscription fails it", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        protocolVersion: "2026-07-28",
        capabilities,
        handlers: { "subscriptions/listen": () => Effect.fail({ code: -32602, message: "no such resource" }) }
      })
      const client = yield* peer.connect()
      assert.strictEqual((yield* reasonOf(Effect.scoped(client.subscribe("x://y"))))._tag, "Refused")
    }))

  it.effect("gets the level of its log messages with every request", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ protocolVersion: "2026-07-28" })
      const client = yield* peer.connect()
      yield* client.setLogLevel("warning")
      yield* client.ping
      const meta = (yield* peer.received).at(-1)?.params?.["_meta"]
      assert.deepInclude(meta, { "io.modelcontextprotocol/logLevel": "warning" })
    }))

  it.effect("gets version, name and abilities of the client with every request", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ protocolVersion: "2026-07-28", capabilities: {} })
      const client = yield* peer.connect({ clientInfo: { name: "tester", version: "9" } })
      yield* client.listTools
      yield* Effect.exit(client.callTool("t", {}, { onProgress: () => Effect.void }))
      const requests = (yield* peer.received).filter(({ id, method }) => id !== undefined && method !== undefined)
      assert.isAbove(requests.length, 2)
      for (const { params } of requests) {
        assert.deepInclude(params?.["_meta"], {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientInfo": { name: "tester", version: "9" },
          "io.modelcontextprotocol/clientCapabilities": {}
        })
      }
      assert.deepInclude(requests.at(-1)?.params?.["_meta"], { progressToken: requests.at(-1)?.id })
    }))
})

describe("an older server", () => {
  it.effect("is subscribed to once for all, and left with the last", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        capabilities,
        handlers: {
          "resources/subscribe": () => Effect.succeed({}),
          "resources/unsubscribe": () => Effect.succeed({})
        }
      })
      const client = yield* peer.connect()
      const methods = Effect.map(peer.received, (messages) =>
        messages.flatMap(({ method }) => method?.startsWith("resources/") === true ? [method] : []))
      const [first, second] = [yield* Scope.make(), yield* Scope.make()]
      yield* Scope.provide(client.subscribe("x://y"), first)
      yield* Scope.provide(client.subscribe("x://y"), second)
      yield* Scope.close(first, Exit.void)
      assert.notInclude(yield* methods, "resources/unsubscribe")
      yield* Scope.close(second, Exit.void)
      assert.strictEqual((yield* methods).at(-1), "resources/unsubscribe")
    }))

  it.effect("is told the level of its log messages", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ handlers: { "logging/setLevel": () => Effect.succeed({}) } })
      const client = yield* peer.connect()
      yield* client.setLogLevel("error")
      assert.deepStrictEqual((yield* peer.received).at(-1)?.params, { level: "error" })
    }))
})

describe("a server that comes back", () => {
  it.effect("is known again: lists, subscriptions and the protocol", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        capabilities,
        tools: [{ definition: { name: "a" }, call: () => Effect.succeed("") }],
        handlers: { "resources/subscribe": () => Effect.succeed({}) }
      })
      const client = yield* peer.connect({ restart: { delay: "1 second" } })
      yield* client.listTools
      yield* client.subscribe("x://y")
      const events = yield* started(Stream.runCollect(Stream.take(client.notifications, 3)))
      yield* settle
      yield* peer.setTools([{ definition: { name: "b" }, call: () => Effect.succeed("") }])
      yield* peer.disconnect()
      assert.strictEqual((yield* reasonOf(client.callTool("a")))._tag, "Closed")
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual((yield* Fiber.join(events)).map(({ _tag }) => _tag), [
        "Disconnected",
        "Reconnected",
        "ToolsChanged"
      ])
      assert.deepStrictEqual((yield* client.listTools).map(({ name }) => name), ["b"])
      const again = (yield* peer.received).map(({ method }) => method).slice(-4)
      assert.includeMembers(again, ["notifications/initialized", "tools/list", "resources/subscribe"])
      // It was found out to be an older one before.
      assert.strictEqual((yield* peer.received).filter(({ method }) => method === "server/discover").length, 1)
    }))

  it.effect("in another era is understood all the same", () =>
    Effect.gen(function*() {
      let modern = false
      const no = Effect.fail({ code: -32601, message: "what?" })
      const peer = yield* McpPeer.make({
        handlers: {
          initialize: () =>
            modern
              ? no
              : Effect.succeed({ protocolVersion: "2025-06-18", capabilities: {}, serverInfo: { name: "old" } }),
          "server/discover": () => modern ? Effect.succeed({ supportedVersions: ["2026-07-28"], capabilities: {} }) : no
        }
      })
      const client = yield* peer.connect({ restart: { delay: "1 second" } })
      assert.strictEqual(client.protocolVersion, "2025-06-18")
      modern = true
      yield* peer.disconnect()
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(client.protocolVersion, "2026-07-28")
    }))
})
