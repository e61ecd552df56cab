import { assert, describe, it } from "@effect/vitest"
import { McpPeer } from "agcore/testing"
import { Effect } from "effect"

describe("a peer", () => {
  it.effect("closes a connection when the next one begins", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ tools: [{ definition: { name: "hi" }, call: () => Effect.succeed("hi") }] })
      const first = yield* peer.connect()
      const second = yield* peer.connect()
      assert.strictEqual((yield* Effect.flip(first.callTool("hi"))).reason._tag, "Closed")
      assert.isFalse((yield* second.callTool("hi")).isError)
    }))
})
