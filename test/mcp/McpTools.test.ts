import { assert, describe, it } from "@effect/vitest"
import { type Permission, PermissionPolicy, ToolRegistry } from "agcore"
import { McpError, McpTools } from "agcore/mcp"
import { McpPeer } from "agcore/testing"
import { Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"

const registry = ToolRegistry.layer().pipe(Layer.provide(PermissionPolicy.layerAllowAll))

const started = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })
const settle = Effect.repeat(Effect.yieldNow, { times: 50 })

const tool = (name: string, more: Record<string, unknown> = {}, result: unknown = "ok"): McpPeer.PeerTool => ({
  definition: { name, ...more },
  call: () => Effect.succeed(result)
})

const names = Effect.map(
  ToolRegistry.ToolRegistry.use((registry) => registry.list),
  (entries) => entries.map(({ name }) => name)
)

const invoke = (name: string, params: unknown = {}) =>
  ToolRegistry.ToolRegistry.use((registry) =>
    Effect.map(registry.invokeAll([{ id: "1", name, params }]), ([invocation]) => invocation!)
  )

/** Runs a test with the tools of a peer in a registry. */
const withTools = <A, E>(
  options: McpPeer.PeerOptions & { readonly name?: string; readonly client?: Record<string, unknown> },
  register: McpTools.RegisterOptions,
  test: (peer: McpPeer.McpPeer) => Effect.Effect<A, E, ToolRegistry.ToolRegistry>
) =>
  Effect.gen(function*() {
    const peer = yield* McpPeer.make(options)
    yield* McpTools.register(yield* peer.connect({ name: options.name ?? "srv", ...options.client }), register)
    return yield* test(peer)
  }).pipe(Effect.scoped, Effect.provide(registry))

describe("the name of a tool", () => {
  const cases: Record<string, readonly [server: string, tool: string, expected: RegExp]> = {
    "begins with the server's": ["files", "read", /^files__read$/],
    "keeps to what providers accept": ["my server!", "read/file.v2", /^[a-zA-Z0-9_-]{1,64}$/],
    "is never too long": ["s".repeat(50), "t".repeat(128), /^[a-zA-Z0-9_-]{1,64}$/],
    "need not be in Latin letters": ["文件", "読む", /^[a-zA-Z0-9_-]{1,64}$/]
  }
  for (const [title, [server, name, expected]] of Object.entries(cases)) {
    it.effect(title, () =>
      withTools({ name: server, tools: [tool(name)] }, {}, () =>
        Effect.gen(function*() {
          const [only, ...others] = yield* names
          assert.match(only ?? "", expected)
          assert.deepStrictEqual(others, [])
          // Whatever it is called here, the server's own tool runs.
          assert.strictEqual((yield* invoke(only ?? "")).output, "ok")
        })))
  }

  // verifies: mcp.names
  it.effect("is the same each time, and two never meet", () =>
    Effect.gen(function*() {
      const pairs = [["a", "b__c"], ["a__b", "c"], ["a_", "b"], ["a", "_b"], ["a b", "c"], ["a_b", "c"], ["a", "b c"], [
        "a",
        "b_c"
      ]]
      const register = Effect.gen(function*() {
        for (const [server, name] of pairs) {
          const peer = yield* McpPeer.make({ tools: [tool(name ?? "")] })
          yield* McpTools.register(yield* peer.connect({ name: server }))
        }
        return yield* names
      }).pipe(Effect.scoped, Effect.provide(registry))
      const first = yield* register
      assert.strictEqual(new Set(first).size, pairs.length)
      assert.deepStrictEqual(yield* register, first)
    }))

  it.effect("may go without the server's, or begin with another", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* withTools({ tools: [tool("t")] }, { prefix: false }, () => names), ["t"])
      assert.deepStrictEqual(yield* withTools({ tools: [tool("t")] }, { prefix: "p" }, () => names), ["p__t"])
    }))

  it.effect("that is taken leaves the tool out, not its neighbours", () =>
    Effect.gen(function*() {
      for (const result of ["first", "second"]) {
        const peer = yield* McpPeer.make({ tools: [tool("t", {}, result), tool(result)] })
        yield* McpTools.register(yield* peer.connect(), { prefix: false })
      }
      assert.deepStrictEqual(yield* names, ["first", "second", "t"])
      assert.strictEqual((yield* invoke("t")).output, "first")
    }).pipe(Effect.scoped, Effect.provide(registry)))
})

describe("what a tool may do", () => {
  const hints = { readOnlyHint: true, destructiveHint: true, openWorldHint: true, idempotentHint: true }
  const registered = (options: McpTools.RegisterOptions) =>
    withTools(
      { tools: [tool("t", { annotations: hints })] },
      options,
      () => ToolRegistry.ToolRegistry.use((registry) => registry.get("srv__t"))
    )

  // verifies: mcp.permissions
  it.effect("is to be a tool of its server, and no more by the server's own word", () =>
    Effect.gen(function*() {
      const { definition } = yield* registered({})
      assert.deepStrictEqual(definition.permissions, ["custom:mcp/srv"])
      assert.deepInclude(definition, { readonly: false, idempotent: false })
    }))

  it.effect("is what the configuration says, for all or for each", () =>
    Effect.gen(function*() {
      const all: ReadonlyArray<Permission.Permission> = ["network", "network"]
      assert.deepStrictEqual((yield* registered({ permissions: all })).definition.permissions, [
        "custom:mcp/srv",
        "network"
      ])
      const each = yield* registered({ permissions: ({ name }) => name === "t" ? ["shell"] : [] })
      assert.deepStrictEqual(each.definition.permissions, ["custom:mcp/srv", "shell"])
    }))

  it.effect("is also what the server says, where its hints are trusted", () =>
    Effect.gen(function*() {
      const { definition } = yield* registered({ trustHints: true })
      assert.deepStrictEqual(definition.permissions, ["custom:mcp/srv", "read", "delete", "network"])
      assert.deepInclude(definition, { readonly: true, destructive: true, idempotent: true, openWorld: true })
    }))

  it.effect("is decided by the policy: a server that is not allowed is not called", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ tools: [tool("t")] })
      yield* McpTools.register(yield* peer.connect({ name: "srv" }))
      assert.strictEqual((yield* invoke("srv__t")).error?.reason._tag, "PermissionDenied")
      assert.notInclude((yield* peer.received).map(({ method }) => method), "tools/call")
    }).pipe(
      Effect.scoped,
      Effect.provide(
        ToolRegistry.layer().pipe(Layer.provide(PermissionPolicy.layer({ allowed: ["custom:mcp/other"] })))
      )
    ))
})

describe("the schema of a tool", () => {
  const odd: Record<string, unknown> = {
    "missing": undefined,
    "null": null,
    "true": true,
    "empty": {},
    "without properties": { type: "object" },
    "of several types": { type: ["object", "null"] },
    "with null for a keyword": { type: "object", properties: null, required: null },
    "of something else": { type: "string" }
  }
  for (const [title, inputSchema] of Object.entries(odd)) {
    it.effect(`that is ${title} is one that models take`, () =>
      withTools({ tools: [tool("t", { inputSchema }), tool("u")] }, {}, () =>
        Effect.gen(function*() {
          const { definition } = yield* ToolRegistry.ToolRegistry.use((registry) => registry.get("srv__t"))
          assert.deepInclude(definition.inputSchema, { type: "object", properties: {} })
          assert.strictEqual((yield* invoke("srv__t", { any: 1 })).output, "ok")
          assert.deepStrictEqual(yield* names, ["srv__t", "srv__u"])
        })))
  }

  it.effect("is what arguments are checked against before the server sees them", () =>
    withTools(
      {
        tools: [tool("t", { inputSchema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] } })]
      },
      {},
      (peer) =>
        Effect.gen(function*() {
          assert.strictEqual((yield* invoke("srv__t", { n: "one" })).error?.reason._tag, "InvalidArguments")
          assert.notInclude((yield* peer.received).map(({ method }) => method), "tools/call")
          assert.strictEqual((yield* invoke("srv__t", { n: 1 })).output, "ok")
        })
    ))

  it.effect("that cannot be used does not lose the tool", () =>
    withTools(
      { tools: [tool("t", { inputSchema: { type: "object", properties: { a: { type: "objekt" } } } })] },
      {},
      () =>
        Effect.gen(function*() {
          assert.strictEqual((yield* invoke("srv__t", { a: 1 })).output, "ok")
        })
    ))
})

describe("what a call answers", () => {
  const answer = (result: unknown) => withTools({ tools: [tool("t", {}, result)] }, {}, () => invoke("srv__t"))

  it.effect("is its text, or its structured content", () =>
    Effect.gen(function*() {
      const text = { type: "text", text: "a" }
      assert.strictEqual((yield* answer({ content: [text, text] })).output, "a\na")
      assert.deepStrictEqual((yield* answer({ content: [text], structuredContent: { n: 1 } })).output, { n: 1 })
      assert.strictEqual((yield* answer({ content: [] })).output, "")
    }))

  it.effect("is shown to the model in the best form", () =>
    Effect.gen(function*() {
      const invocation = yield* answer({
        content: [
          { type: "text", text: "see" },
          { type: "image", data: "aGk=", mimeType: "image/png" },
          { type: "audio", data: "aGk=", mimeType: "audio/wav" },
          { type: "resource", resource: { uri: "x://t", text: "contents" } },
          { type: "resource", resource: { uri: "x://b", blob: "aGk=", mimeType: "application/pdf" } },
          { type: "resource_link", uri: "x://l", name: "L", description: "a link" },
          { type: "hologram", data: 1 }
        ]
      })
      assert.deepStrictEqual(
        invocation.modelOutput?.map((part) => part.type === "text" ? part.text : part.mediaType),
        [
          "see",
          "image/png",
          "audio/wav",
          "x://t\ncontents",
          "application/pdf",
          "x://l",
          "{\"type\":\"hologram\",\"data\":1}"
        ]
          .map((line) => line === "x://l" ? "L: x://l\na link" : line)
      )
    }))

  it.effect("is a failure the model is told about, where the tool says so", () =>
    Effect.gen(function*() {
      const invocation = yield* answer({ content: [{ type: "text", text: "no such file" }], isError: true })
      assert.strictEqual(invocation.error?.reason._tag, "ExecutionFailed")
      assert.isTrue(invocation.error?.isRecoverable)
      assert.include(JSON.stringify(invocation.result), "no such file")
    }))

  const failures: Record<string, readonly [{ code: number; message: string }, string]> = {
    "arguments the server refuses": [{ code: -32602, message: "bad n" }, "InvalidArguments"],
    "an error of the protocol": [{ code: -32603, message: "broken" }, "McpError"]
  }
  for (const [title, [error, reason]] of Object.entries(failures)) {
    it.effect(`is a typed failure for ${title}`, () =>
      withTools(
        { tools: [tool("t")], handlers: { "tools/call": () => Effect.fail(error) } },
        {},
        () =>
          Effect.gen(function*() {
            const invocation = yield* invoke("srv__t")
            assert.strictEqual(invocation.error?.reason._tag, reason)
            assert.include(invocation.error?.message, error.message)
          })
      ))
  }

  it.effect("keeps the content where it does not fit the tool's output", () =>
    withTools(
      {
        tools: [
          tool("t", { outputSchema: { type: "object", required: ["n"] } }, { content: [], structuredContent: {} })
        ]
      },
      {},
      () =>
        Effect.gen(function*() {
          const reason = (yield* invoke("srv__t")).error?.reason
          assert.strictEqual(reason?._tag, "McpError")
          const cause = reason?._tag === "McpError" ? reason.cause : undefined
          assert.isTrue(McpError.isMcpError(cause) && cause.reason._tag === "OutputMismatch")
        })
    ))

  it.effect("is a timeout of the server, after the server was told", () =>
    withTools(
      { tools: [{ definition: { name: "t" }, call: () => Effect.never }] },
      { timeout: "10 seconds" },
      (peer) =>
        Effect.gen(function*() {
          const call = yield* started(invoke("srv__t"))
          yield* TestClock.adjust("10 seconds")
          const reason = (yield* Fiber.join(call)).error?.reason
          assert.deepStrictEqual(reason?._tag === "McpTimeout" && reason.timeoutMillis, 10_000)
          assert.include((yield* peer.received).map(({ method }) => method), "notifications/cancelled")
        })
    ))

  it.effect("is awaited no longer when the call is interrupted, and the server is told", () =>
    withTools(
      { tools: [{ definition: { name: "t" }, call: () => Effect.never }] },
      {},
      (peer) =>
        Effect.gen(function*() {
          const call = yield* started(invoke("srv__t"))
          yield* settle
          yield* Fiber.interrupt(call)
          assert.include((yield* peer.received).map(({ method }) => method), "notifications/cancelled")
        })
    ))

  it.effect("is preceded by progress", () =>
    withTools(
      {
        tools: [{
          definition: { name: "t" },
          call: (_, { progress }) => Effect.as(Effect.andThen(progress(1, 2, "half"), progress(2, 2)), "done")
        }]
      },
      {},
      () =>
        Effect.gen(function*() {
          const seen: Array<unknown> = []
          const registry = yield* ToolRegistry.ToolRegistry
          yield* registry.invoke({ id: "1", name: "srv__t", params: {} }, {
            onProgress: (value) => void seen.push(value)
          })
          assert.deepStrictEqual(seen, [
            { progress: 1, total: 2, message: "half" },
            { progress: 2, total: 2, message: undefined }
          ])
        })
    ))
})

describe("the tools of a server", () => {
  // verifies: mcp.follow
  it.effect("come and go with its list, all at once", () =>
    withTools({ tools: [tool("a"), tool("b")] }, {}, (peer) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* names, ["srv__a", "srv__b"])
        const registry = yield* ToolRegistry.ToolRegistry
        const changes = yield* started(Stream.runCollect(Stream.take(registry.changes, 1)))
        yield* Effect.yieldNow
        yield* peer.setTools([tool("b"), tool("c")])
        yield* peer.notify("notifications/tools/list_changed")
        const [change] = yield* Fiber.join(changes)
        assert.include(change?.unregistered ?? [], "srv__a")
        assert.include(change?.registered ?? [], "srv__c")
        assert.deepStrictEqual(yield* names, ["srv__b", "srv__c"])
      })))

  it.effect("stay what they were when the new list cannot be had", () =>
    Effect.gen(function*() {
      let broken = false
      yield* withTools(
        {
          handlers: {
            "tools/list": () =>
              broken ? Effect.fail({ code: -32603, message: "later" }) : Effect.succeed({ tools: [{ name: "a" }] })
          }
        },
        {},
        (peer) =>
          Effect.gen(function*() {
            broken = true
            yield* peer.notify("notifications/tools/list_changed")
            yield* TestClock.adjust("10 seconds")
            assert.deepStrictEqual(yield* names, ["srv__a"])
          })
      )
    }))

  it.effect("that were not wanted are not there", () =>
    Effect.gen(function*() {
      const filter = ({ name }: { readonly name: string }) => name !== "b"
      assert.deepStrictEqual(
        yield* withTools({ tools: [tool("a"), tool("b"), tool("c", { execution: { taskSupport: "required" } })] }, {
          filter
        }, () => names),
        ["srv__a"]
      )
    }))

  it.effect("leave with the scope", () =>
    Effect.gen(function*() {
      yield* Effect.scoped(Effect.gen(function*() {
        const peer = yield* McpPeer.make({ tools: [tool("a")] })
        yield* McpTools.register(yield* peer.connect({ name: "srv" }))
        assert.deepStrictEqual(yield* names, ["srv__a"])
      }))
      assert.deepStrictEqual(yield* names, [])
    }).pipe(Effect.provide(registry)))

  const whileAway: ReadonlyArray<readonly ["keep" | "remove", Array<string>]> = [["keep", ["srv__a"]], ["remove", []]]
  for (const [onDisconnect, away] of whileAway) {
    it.effect(`${onDisconnect === "keep" ? "stay and fail" : "leave"} while it is away, and work when it is back`, () =>
      withTools(
        { tools: [tool("a")], client: { restart: { delay: "1 minute" } } },
        { onDisconnect },
        (peer) =>
          Effect.gen(function*() {
            yield* peer.disconnect(new McpError.ProcessExited({ command: "srv", exitCode: 1, stderr: "" }))
            yield* settle
            assert.deepStrictEqual(yield* names, away)
            const reason = (yield* invoke("srv__a")).error?.reason._tag
            assert.strictEqual(reason, onDisconnect === "keep" ? "McpError" : "NotFound")
            yield* TestClock.adjust("1 minute")
            yield* settle
            assert.deepStrictEqual(yield* names, ["srv__a"])
            assert.strictEqual((yield* invoke("srv__a")).output, "ok")
          })
      ))
  }

  it.effect("that cannot be listed fail the registration", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(
        withTools({ handlers: { "tools/list": () => Effect.fail({ code: -1, message: "no" }) } }, {}, () => Effect.void)
      )
      assert.isTrue(McpError.isMcpError(error) && error.reason._tag === "Refused")
    }))
})
