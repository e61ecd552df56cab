import { assert, describe, it } from "@effect/vitest"
import { McpPeer } from "agcore/testing"
import { Effect, Tracer } from "effect"

/** A tracer that keeps its spans. */
const recording = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span(options) {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  return { spans, provide: Effect.provideService(Tracer.Tracer, tracer) }
}

describe("a span", () => {
  for (const protocolVersion of ["2025-11-25", "2026-07-28"]) {
    it.effect(`is made of each request where there is a tracer (${protocolVersion})`, () =>
      Effect.gen(function*() {
        const { provide, spans } = recording()
        const peer = yield* McpPeer.make({
          protocolVersion,
          capabilities: {},
          tools: [{ definition: { name: "t" }, call: () => Effect.succeed("") }]
        })
        const client = yield* peer.connect()
        yield* provide(Effect.withSpan(client.callTool("t"), "parent"))
        yield* provide(Effect.exit(client.callTool("missing")))
        assert.deepStrictEqual(spans.map(({ name }) => name), ["parent", "tools/call t", "tools/call missing"])
        const [parent, call, failed] = spans
        assert.strictEqual(call?.parent._tag === "Some" && call.parent.value.spanId, parent?.spanId)
        assert.deepInclude(Object.fromEntries(call?.attributes ?? []), {
          "mcp.method.name": "tools/call",
          "mcp.protocol.version": protocolVersion,
          "gen_ai.tool.name": "t"
        })
        assert.strictEqual(failed?.attributes.get("error.type"), "Refused")
        const meta = (yield* peer.received).find(({ method }) => method === "tools/call")?.params?.["_meta"]
        assert.strictEqual(
          meta === undefined ? undefined : (meta as Record<string, unknown>)["traceparent"],
          protocolVersion === "2025-11-25" ? undefined : `00-${call?.traceId}-${call?.spanId}-01`
        )
      }))
  }

  it.effect("is not made where there is none: what is sent stays small", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ protocolVersion: "2026-07-28", capabilities: {} })
      const client = yield* peer.connect()
      yield* Effect.exit(client.callTool("t"))
      const meta = (yield* peer.received).find(({ method }) => method === "tools/call")?.params?.["_meta"]
      assert.notProperty(meta, "traceparent")
    }))
})
