import { assert, describe, it } from "@effect/vitest"
import { McpError } from "agcore/mcp"
import { McpPeer } from "agcore/testing"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { connect, reasonOf, scoped, type Script, SLOW, textOf } from "./support.ts"

const LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
const MODERN = "2026-07-28"

/** How a server may answer `server/discover`, and what must come of it. */
const refusing = (code: number, data?: unknown) => () => Effect.fail({ code, message: "no", data })

const methods = (peer: McpPeer.McpPeer) =>
  Effect.map(peer.received, (messages) => messages.map((message) => message.method))

describe("which protocol is spoken", () => {
  for (const version of [...LEGACY, MODERN]) {
    // verifies: mcp.negotiate
    it.effect(`${version} is found out`, () =>
      Effect.gen(function*() {
        const peer = yield* McpPeer.make({
          protocolVersion: version,
          instructions: "be\u0007 brief",
          tools: [{ definition: { name: "hi" }, call: () => Effect.succeed("ho") }]
        })
        const client = yield* peer.connect()
        assert.strictEqual(client.protocolVersion, version)
        assert.strictEqual(client.serverInfo?.name, "peer")
        assert.strictEqual(client.instructions, "be brief")
        assert.strictEqual(textOf(yield* client.callTool("hi")), "ho")
        yield* client.ping
      }))
  }

  const legacyVerdicts: Record<
    string,
    () => Effect.Effect<unknown, { code: number; message: string; data?: unknown }>
  > = {
    "that it knows no such method": refusing(-32601),
    "that the parameters are wrong": refusing(-32602),
    "another error": refusing(-32001),
    "a version error without a list": refusing(-32022),
    "a version error that lists older versions": refusing(-32022, { supported: ["2025-06-18"], requested: MODERN }),
    "a header mismatch": refusing(-32020),
    "with an empty object": () => Effect.succeed({}),
    "with no object": () => Effect.succeed("what?"),
    "with older versions only": () => Effect.succeed({ supportedVersions: ["2025-11-25"], capabilities: {} }),
    "with versions nobody knows": () => Effect.succeed({ supportedVersions: ["2031-01-01"] })
  }
  for (const [title, discover] of Object.entries(legacyVerdicts)) {
    it.effect(`a server that answers the probe ${title} is greeted the older way, on the same connection`, () =>
      Effect.gen(function*() {
        const peer = yield* McpPeer.make({ handlers: { "server/discover": discover } })
        const client = yield* peer.connect()
        assert.strictEqual(client.protocolVersion, "2025-11-25")
        assert.deepStrictEqual(yield* methods(peer), ["server/discover", "initialize", "notifications/initialized"])
      }))
  }

  it.effect("a version error that names the version asked for is tried once more", () =>
    Effect.gen(function*() {
      let asked = 0
      const peer = yield* McpPeer.make({
        protocolVersion: MODERN,
        handlers: {
          "server/discover": () =>
            asked++ === 0
              ? Effect.fail({ code: -32022, message: "no", data: { supported: [MODERN], requested: MODERN } })
              : Effect.succeed({ supportedVersions: [MODERN], capabilities: null })
        }
      })
      assert.strictEqual((yield* peer.connect()).protocolVersion, MODERN)
      assert.strictEqual(asked, 2)
    }))

  it.effect("a server that only speaks later versions is refused, with the versions of both sides", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        handlers: { "server/discover": refusing(-32022, { supported: ["2027-01-01"], requested: MODERN }) }
      })
      const reason = yield* reasonOf(peer.connect())
      assert.deepStrictEqual(
        reason._tag === "VersionMismatch" && { client: reason.client, server: reason.server },
        { client: [MODERN, ...LEGACY], server: ["2027-01-01"] }
      )
    }))

  it.effect("a server that insists on a version nobody knows is refused", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ protocolVersion: "2025-99-99" })
      const reason = yield* reasonOf(peer.connect())
      assert.deepStrictEqual(reason._tag === "VersionMismatch" && reason.server, ["2025-99-99"])
    }))

  it.effect("a server that names what it would accept is asked for that", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        handlers: {
          initialize: (params) =>
            params["protocolVersion"] === "2024-11-05"
              ? Effect.succeed({ protocolVersion: "2024-11-05", capabilities: {}, serverInfo: null })
              : Effect.fail({ code: -32602, message: "Unsupported", data: { supported: ["2024-11-05"] } })
        }
      })
      const client = yield* peer.connect()
      assert.strictEqual(client.protocolVersion, "2024-11-05")
      assert.isUndefined(client.serverInfo)
    }))

  it.effect("an error of the handshake is told as the server said it", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ handlers: { initialize: refusing(-32603) } })
      const reason = yield* reasonOf(peer.connect())
      assert.deepStrictEqual(
        reason._tag === "Refused" && { method: reason.method, code: reason.code },
        { method: "initialize", code: -32603 }
      )
    }))

  it.effect("asked for one era, no question about the other is asked", () =>
    Effect.gen(function*() {
      const old = yield* McpPeer.make()
      yield* old.connect({ protocol: "legacy" })
      assert.deepStrictEqual(yield* methods(old), ["initialize", "notifications/initialized"])
      const reason = yield* reasonOf(old.connect({ protocol: "modern" }))
      assert.strictEqual(reason._tag, "Refused")
    }))

  it.effect("what is null in the handshake is absent", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        handlers: {
          initialize: () =>
            Effect.succeed({ protocolVersion: "2025-11-25", capabilities: null, serverInfo: null, instructions: null })
        }
      })
      const client = yield* peer.connect()
      assert.isUndefined(client.instructions)
      assert.isUndefined(client.capabilities.tools)
    }))
})

describe("silence", () => {
  const started = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })

  it.effect("to the probe is taken for an older server after three seconds", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ handlers: { "server/discover": () => Effect.never } })
      const connecting = yield* started(peer.connect())
      yield* TestClock.adjust("2999 millis")
      assert.deepStrictEqual(yield* methods(peer), ["server/discover"])
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* Fiber.join(connecting)).protocolVersion, "2025-11-25")
    }))

  it.effect("that breaks after the older handshake worked changes nothing", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        tools: [{ definition: { name: "hi" }, call: () => Effect.succeed("ho") }],
        handlers: {
          "server/discover": () =>
            Effect.delay(Effect.succeed({ supportedVersions: [MODERN], capabilities: {} }), "5 seconds")
        }
      })
      const connecting = yield* started(peer.connect())
      yield* TestClock.adjust("3 seconds")
      const client = yield* Fiber.join(connecting)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(client.protocolVersion, "2025-11-25")
      assert.strictEqual(textOf(yield* client.callTool("hi")), "ho")
      // The probe was not taken back: it is no request a server may be told to stop.
      assert.notInclude(yield* methods(peer), "notifications/cancelled")
    }))

  it.effect("that breaks after the older handshake was refused makes it a modern server", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        protocolVersion: MODERN,
        handlers: {
          "server/discover": () =>
            Effect.delay(Effect.succeed({ supportedVersions: [MODERN], capabilities: {} }), "5 seconds")
        }
      })
      const connecting = yield* started(peer.connect())
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(connecting)).protocolVersion, MODERN)
    }))

  it.effect("to everything ends with a timeout", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({
        handlers: { "server/discover": () => Effect.never, initialize: () => Effect.never }
      })
      const connecting = yield* started(reasonOf(peer.connect({ connectTimeout: "10 seconds" })))
      yield* TestClock.adjust("13 seconds")
      const reason = yield* Fiber.join(connecting)
      assert.deepStrictEqual(
        reason._tag === "TimedOut" && { method: reason.method, afterMillis: reason.afterMillis },
        { method: "initialize", afterMillis: 10_000 }
      )
    }))
})

describe("a server process that does not know the probe", SLOW, () => {
  const ways: Record<string, Script> = {
    "refuses it": {},
    "stays silent": { unknown: "silent" },
    "dies of it": { unknown: "die" }
  }
  for (const [title, script] of Object.entries(ways)) {
    it.live(`works when it ${title}`, () =>
      scoped(Effect.gen(function*() {
        const client = yield* connect(script, { probeTimeout: "300 millis" })
        assert.strictEqual(client.protocolVersion, "2025-11-25")
        assert.strictEqual(textOf(yield* client.callTool("echo", { text: "hi" })), "hi")
      })))
  }

  it.live("is told of by name in every error", () =>
    scoped(Effect.gen(function*() {
      const error = yield* Effect.flip(connect({ errors: { initialize: { code: 1, message: "nope" } } }))
      assert.isTrue(McpError.isMcpError(error))
      assert.strictEqual(error.server, "scripted")
      assert.strictEqual(error.message, "MCP server \"scripted\": the server refused initialize: nope (code 1)")
    })))
})
