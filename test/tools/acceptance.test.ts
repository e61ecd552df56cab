/*
 * The acceptance list of the specification, one test each.
 */
import { assert, describe, it } from "@effect/vitest"
import { Permission, PermissionPolicy, Tool, ToolContext, ToolError, ToolRegistry } from "agcore"
import { Context, Deferred, Effect, Fiber, Layer, Schema, SchemaGetter } from "effect"
import { call, makeGate, registryOf, settle, succeed, tool } from "./support.ts"

class Greeting extends Context.Service<Greeting, string>()("test/Greeting") {}

class Greet extends Tool.Service<Greet>()("greet", {
  description: "Greets somebody",
  parameters: Schema.Struct({ name: Schema.String.annotate({ description: "Who is greeted" }) }),
  success: Schema.String,
  permissions: [Permission.Read],
  tags: ["people"],
  category: "social",
  version: "1.2.3",
  readonly: true,
  idempotent: true,
  openWorld: false
}) {}

const GreetLive = Greet.layer(Effect.fn(function*({ name }) {
  const greeting = yield* Greeting
  return `${greeting}, ${name}!`
})).pipe(Layer.provide(Layer.succeed(Greeting, "Hello")))

class Add extends Tool.Service<Add>()("add", {
  description: "Adds two numbers",
  parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
  success: Schema.Finite,
  permissions: [Permission.Read]
}) {}

class Now extends Tool.Service<Now>()("now", {
  description: "The time",
  success: Schema.Date,
  permissions: [Permission.Read]
}) {}

const Three = ToolRegistry.layer(Greet, Add, Now).pipe(
  Layer.provide([
    GreetLive,
    Add.layer(({ a, b }) => Effect.succeed(a + b)),
    Now.layer(() => Effect.succeed(new Date(0))),
    PermissionPolicy.layer()
  ])
)

describe("acceptance", () => {
  it.layer(Three)((it) => {
    it.effect("a tool implements name, description, parameters, execute, permissions", () =>
      Effect.gen(function*() {
        assert.strictEqual(Greet.definition.name, "greet")
        assert.strictEqual(Greet.definition.description, "Greets somebody")
        assert.deepStrictEqual(Greet.definition.permissions, ["read"])
        assert.deepStrictEqual(Greet.definition.inputSchema["properties"], {
          name: { type: "string", description: "Who is greeted" }
        })
        const registry = yield* ToolRegistry.ToolRegistry
        const invocation = yield* registry.invoke(call("greet", { name: "Ada" }))
        assert.strictEqual(invocation.output, "Hello, Ada!")
      }))

    // verifies: tool.layer, registry.register
    it.effect("three tools are registered, found by name and run", () =>
      Effect.gen(function*() {
        const registry = yield* ToolRegistry.ToolRegistry
        for (
          const [name, params, output] of [
            ["add", { a: 1, b: 2 }, 3],
            ["greet", { name: "Bob" }, "Hello, Bob!"],
            ["now", {}, "1970-01-01T00:00:00.000Z"]
          ] as const
        ) {
          assert.strictEqual((yield* registry.get(name)).definition.name, name)
          assert.strictEqual((yield* registry.invoke(call(name, params))).output, output)
        }
      }))

    // verifies: registry.order
    it.effect("definitions are right", () =>
      Effect.gen(function*() {
        const registry = yield* ToolRegistry.ToolRegistry
        const definitions = yield* registry.definitions
        assert.deepStrictEqual(definitions.map((definition) => definition.name), ["add", "greet", "now"])
        assert.deepStrictEqual(definitions[1], {
          name: "greet",
          description: "Greets somebody",
          inputSchema: {
            type: "object",
            properties: { name: { type: "string", description: "Who is greeted" } },
            required: ["name"],
            additionalProperties: true
          },
          permissions: ["read"],
          tags: ["people"],
          category: "social",
          version: "1.2.3",
          readonly: true,
          destructive: false,
          idempotent: true,
          openWorld: false,
          timeout: undefined,
          needsApproval: false
        })
        assert.deepStrictEqual(definitions[2]?.inputSchema, {
          type: "object",
          properties: {},
          additionalProperties: false
        })
        assert.strictEqual(definitions[0]?.destructive, true)
        assert.strictEqual(definitions[0]?.openWorld, true)
      }))
  })

  // verifies: registry.duplicate
  it.effect("registers, looks up, lists, unregisters, refuses a duplicate", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf()
      yield* registry.register(succeed("b"))
      yield* registry.registerAll([succeed("c"), succeed("a")])
      assert.strictEqual((yield* registry.get("a")).name, "a")
      assert.deepStrictEqual((yield* registry.list).map((entry) => entry.name), ["a", "b", "c"])

      const duplicate = yield* Effect.flip(registry.register(succeed("a", "another")))
      assert.strictEqual(duplicate.reason._tag, "DuplicateName")
      assert.strictEqual((yield* registry.invoke(call("a"))).output, "a")

      assert.isTrue(yield* registry.unregister("a"))
      assert.isFalse(yield* registry.unregister("a"))
      const missing = yield* Effect.flip(registry.get("a"))
      assert.deepStrictEqual(missing.reason, new ToolError.NotFound({ available: ["b", "c"] }))
    }))

  // verifies: admit.order
  it.effect("invoke checks the permission before execution", () =>
    Effect.gen(function*() {
      const ran: Array<string> = []
      const Watched = Schema.String.pipe(Schema.decode({
        decode: SchemaGetter.transform((text) => {
          ran.push("schema")
          return text
        }),
        encode: SchemaGetter.passthrough()
      }))
      class Remove extends Tool.Service<Remove>()("remove", {
        description: "Removes a file",
        parameters: Schema.Struct({ path: Watched }),
        permissions: [Permission.Delete],
        exclusive: () => {
          ran.push("exclusive")
          return "files"
        }
      }) {}
      const RemoveLive = Remove.layer(() => Effect.sync(() => void ran.push("handler")))
      const invoke = Effect.flatMap(ToolRegistry.ToolRegistry, (registry) =>
        registry.invoke(call("remove", { path: "x" })))
      const using = (policy: Layer.Layer<PermissionPolicy.PermissionPolicy>) =>
        Effect.provide(ToolRegistry.layer(Remove).pipe(Layer.provide([RemoveLive, policy])))

      const error = yield* invoke.pipe(using(PermissionPolicy.layer()), Effect.flip)
      assert.strictEqual(error.reason._tag, "PermissionDenied")
      assert.deepStrictEqual(ran, [])

      const watching = PermissionPolicy.layerCheck(() =>
        Effect.sync(() => {
          ran.push("policy")
          return PermissionPolicy.allow
        })
      )
      yield* invoke.pipe(using(watching))
      assert.deepStrictEqual(ran, ["policy", "schema", "exclusive", "handler"])
    }))

  it.effect("invokeAll runs in parallel", () =>
    Effect.gen(function*() {
      const [a, b] = [makeGate("a"), makeGate("b")]
      const registry = yield* registryOf(a.tool, b.tool)
      const fiber = yield* Effect.forkChild(registry.invokeAll([call("a"), call("b")]))
      yield* a.entered
      yield* b.entered
      yield* b.leave
      yield* settle
      yield* a.leave
      assert.deepStrictEqual((yield* Fiber.join(fiber)).map((one) => one.output), ["a", "b"])
    }))

  // verifies: tool.context
  it.effect("the context reaches execute with session, trace and cancellation", () =>
    Effect.gen(function*() {
      const seen = yield* Deferred.make<ToolContext.ToolContext["Service"]>()
      const registry = yield* registryOf(
        tool("wait", () =>
          ToolContext.ToolContext.use((context) => Effect.andThen(Deferred.succeed(seen, context), Effect.never)))
      )
      const fiber = yield* registry.invoke({ ...call("wait"), turn: 3, index: 1 }, {
        sessionId: "session-1",
        traceId: "trace-1"
      }).pipe(Effect.forkChild)
      const context = yield* Deferred.await(seen)
      assert.strictEqual(context.sessionId, "session-1")
      assert.strictEqual(context.traceId, "trace-1")
      assert.strictEqual(context.toolCallId, "wait")
      assert.strictEqual(context.turn, 3)
      assert.strictEqual(context.index, 1)
      assert.strictEqual(context.idempotencyKey, "session-1/3/1")
      const signal = context.signal
      assert.isFalse(signal.aborted)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(signal.aborted)
    }))
})
