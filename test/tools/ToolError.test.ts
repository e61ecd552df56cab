import { assert, describe, it } from "@effect/vitest"
import { Permission, PermissionPolicy, Tool, ToolError, ToolInvocation, ToolRegistry } from "agcore"
import { Deferred, Effect, Schema } from "effect"
import { after, call, registryOf, succeed, tool } from "./support.ts"

class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", { until: Schema.Date }) {}

const failing = (reason: ToolError.ToolErrorReason) =>
  tool("fails", () => Effect.fail(new ToolError.ToolError({ toolName: "whatever it says", reason })))

/** Everything that makes a tool fail through the registry's own doing, one by one. */
const produced = {
  NotFound: Effect.flatMap(registryOf(succeed("there")), (registry) => registry.invoke(call("not there"))),
  ExecutionFailed: Effect.flatMap(
    registryOf(tool("fails", () => Effect.die(new Error("/etc/secret")))),
    (registry) => registry.invoke(call("fails"))
  ),
  InvalidArguments: Effect.flatMap(
    registryOf(tool("picky", () => Effect.succeed(1), { inputSchema: { type: "object", required: ["path"] } })),
    (registry) => registry.invoke(call("picky", {}))
  ),
  PermissionDenied: ToolRegistry.make.pipe(
    Effect.tap((registry) =>
      registry.register(tool("rm", () => Effect.succeed(null), { permissions: [Permission.Delete] }))
    ),
    Effect.flatMap((registry) => registry.invoke(call("rm"))),
    Effect.provide(PermissionPolicy.layer())
  ),
  TimedOut: Effect.gen(function*() {
    const registry = yield* registryOf(tool("slow", () => Effect.never))
    const fiber = yield* Effect.forkChild(registry.invoke(call("slow"), { timeout: 10 }))
    return yield* after(fiber, 10)
  }),
  NotExecuted: Effect.gen(function*() {
    const goOn = yield* Deferred.make<void>()
    const registry = yield* registryOf(
      tool("stubborn", () => Effect.as(Effect.uninterruptible(Deferred.await(goOn)), null), { exclusive: "key" }),
      tool("next", () => Effect.succeed(1), { exclusive: "key" })
    )
    const fiber = yield* Effect.forkChild(Effect.exit(registry.invoke(call("stubborn"), { timeout: 10 })))
    yield* after(fiber, "2 seconds")
    return yield* Effect.ensuring(registry.invoke(call("next")), Deferred.succeed(goOn, undefined))
  })
} satisfies Record<string, Effect.Effect<unknown, unknown>>

/** Reasons that a tool's handler gives. */
const given = {
  McpError: new ToolError.McpError({ server: "files", description: "no such resource", code: -32002 }),
  McpNotInitialized: new ToolError.McpNotInitialized({ server: "files" }),
  McpTimeout: new ToolError.McpTimeout({ server: "files", timeoutMillis: 1000 }),
  Io: new ToolError.Io({ description: "ENOENT /home/ada/secret" }),
  Other: new ToolError.Other({ description: "Come back tomorrow." })
}

const tagOf = (reason: { readonly _tag: string }) => Effect.succeed(reason._tag)

describe("ToolError", () => {
  // verifies: error.reasons
  describe("each reason is produced and recovered", () => {
    it.effect("NotFound", () =>
      Effect.gen(function*() {
        const tag = yield* produced.NotFound.pipe(Effect.catchReason("ToolError", "NotFound", tagOf))
        assert.strictEqual(tag, "NotFound")
      }))
    it.effect("ExecutionFailed", () =>
      Effect.gen(function*() {
        const tag = yield* produced.ExecutionFailed.pipe(Effect.catchReason("ToolError", "ExecutionFailed", tagOf))
        assert.strictEqual(tag, "ExecutionFailed")
      }))
    it.effect("InvalidArguments", () =>
      Effect.gen(function*() {
        const tag = yield* produced.InvalidArguments.pipe(Effect.catchReason("ToolError", "InvalidArguments", tagOf))
        assert.strictEqual(tag, "InvalidArguments")
      }))
    it.effect("PermissionDenied", () =>
      Effect.gen(function*() {
        const tag = yield* produced.PermissionDenied.pipe(Effect.catchReason("ToolError", "PermissionDenied", tagOf))
        assert.strictEqual(tag, "PermissionDenied")
      }))
    it.effect("TimedOut", () =>
      Effect.gen(function*() {
        const tag = yield* produced.TimedOut.pipe(Effect.catchReason("ToolError", "TimedOut", tagOf))
        assert.strictEqual(tag, "TimedOut")
      }))
    it.effect("NotExecuted", () =>
      Effect.gen(function*() {
        const tag = yield* produced.NotExecuted.pipe(
          Effect.catchReason("ToolError", "NotExecuted", (reason) => Effect.succeed(reason.why))
        )
        assert.strictEqual(tag, "busy")
      }))
    for (const [name, reason] of Object.entries(given)) {
      it.effect(name, () =>
        Effect.gen(function*() {
          const registry = yield* registryOf(failing(reason))
          const recovered = yield* registry.invoke(call("fails")).pipe(
            Effect.catchReasons("ToolError", {
              McpError: tagOf,
              McpNotInitialized: tagOf,
              McpTimeout: tagOf,
              Io: tagOf,
              Other: tagOf
            })
          )
          assert.strictEqual(recovered, name)
        }))
    }
  })

  it.effect("names the tool that was called, whatever the handler says", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(failing(given.Other))
      const error = yield* Effect.flip(registry.invoke(call("fails")))
      assert.strictEqual(error.toolName, "fails")
      assert.strictEqual(error.message, "Tool \"fails\": Come back tomorrow.")
      assert.strictEqual(error.cause, error.reason)
      assert.isTrue(ToolError.isToolError(error))
    }))

  // verifies: error.recoverable
  it("says which reasons another try can help with", () => {
    const recoverable = (reason: ToolError.ToolErrorReason) =>
      new ToolError.ToolError({ toolName: "t", reason }).isRecoverable
    assert.isTrue(recoverable(new ToolError.ExecutionFailed({ origin: "defect" })))
    assert.isTrue(recoverable(new ToolError.InvalidArguments({ issue: "no", input: {} })))
    assert.isTrue(recoverable(new ToolError.TimedOut({ timeoutMillis: 1, stopped: true })))
    assert.isTrue(recoverable(given.Other))
    assert.isTrue(recoverable(new ToolError.NotExecuted({ why: "busy" })))
    for (
      const reason of [
        new ToolError.NotFound({ available: [] }),
        new ToolError.PermissionDenied({ permissions: [], explanation: "no" }),
        new ToolError.NotExecuted({ why: "incomplete" }),
        given.McpError,
        given.McpNotInitialized,
        given.McpTimeout,
        given.Io
      ]
    ) assert.isFalse(recoverable(reason), reason._tag)
  })

  // verifies: error.message
  it("tells a model no path, no stack, no hidden tool", () => {
    const secret = "/home/ada/secret.ts:1:2"
    const told = (reason: ToolError.ToolErrorReason) => new ToolError.ToolError({ toolName: "t", reason }).modelMessage
    for (
      const reason of [
        new ToolError.ExecutionFailed({ origin: "defect", cause: new Error(secret) }),
        new ToolError.ExecutionFailed({ origin: "result", cause: new Error(secret) }),
        new ToolError.PermissionDenied({ permissions: ["read"], explanation: secret }),
        new ToolError.McpError({ server: secret, description: secret }),
        new ToolError.McpNotInitialized({ server: secret }),
        new ToolError.McpTimeout({ server: secret, timeoutMillis: 1 }),
        new ToolError.Io({ description: secret })
      ]
    ) assert.notInclude(told(reason), secret, reason._tag)
    assert.strictEqual(told(given.Other), "Error: Come back tomorrow.")
    assert.strictEqual(
      told(new ToolError.ExecutionFailed({ origin: "failure", failure: { code: 1 } })),
      "{\"code\":1}"
    )
  })

  // verifies: tool.typed-failure
  it.effect("carries the encoded typed failure, and tells it to the model", () =>
    Effect.gen(function*() {
      class Book extends Tool.Service<Book>()("book", { description: "Books", failure: Unavailable }) {}
      const registry = yield* registryOf(Book).pipe(
        Effect.provide(Book.layer(() => new Unavailable({ until: new Date(0) })))
      )
      const failure = { _tag: "Unavailable", until: "1970-01-01T00:00:00.000Z" }
      const [invocation] = yield* registry.invokeAll([call("book")])
      assert.deepStrictEqual(invocation?.error?.reason, new ToolError.ExecutionFailed({ origin: "failure", failure }))
      assert.deepStrictEqual(JSON.parse(String(invocation?.result)), failure)
    }))

  // verifies: error.serialisable, registry.invocation-data
  it.effect("and every invocation can be stored and read again", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(
        succeed("ok", { deep: [1, null, { a: "b" }] }),
        tool("defect", () => Effect.die({ circular: () => {} })),
        ...Object.entries(given).map(([name, reason]) =>
          tool(name, () => Effect.fail(new ToolError.ToolError({ toolName: name, reason })))
        )
      )
      const invocations = yield* registry.invokeAll([
        ...(yield* registry.list).map(({ name }) => call(name)),
        call("unknown"),
        call("ok", "{not json"),
        { ...call("ok"), params: undefined },
        call("ok", null)
      ])
      const codec = Schema.toCodecJson(ToolInvocation.ToolInvocation)
      for (const invocation of invocations) {
        const stored = JSON.stringify(yield* Schema.encodeEffect(codec)(invocation))
        const read = yield* Schema.decodeUnknownEffect(codec)(JSON.parse(stored))
        assert.strictEqual(read.error?.reason._tag, invocation.error?.reason._tag)
        assert.deepStrictEqual(read.result, invocation.result)
        assert.strictEqual(read.isFailure, invocation.isFailure)
      }
    }))
})
