import { assert, describe, it } from "@effect/vitest"
import { Permission, PermissionPolicy, Question, ToolContext, ToolError, ToolkitBridge, ToolRegistry } from "agcore"
import { Context, Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Prompt, type Response, Tool, Toolkit } from "effect/ai"
import { after, call, registryOf, succeed, tool } from "./support.ts"

class Suffix extends Context.Service<Suffix, string>()("test/tools/Suffix") {}

const Echo = Tool.make("echo", {
  description: "Repeats",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String,
  dependencies: [Suffix]
}).annotate(Tool.Readonly, true).annotate(Tool.Destructive, false).annotate(Tool.Idempotent, true)

const Pay = Tool.make("pay", {
  description: "Pays",
  parameters: Schema.Struct({ amount: Schema.Finite }),
  success: Schema.Void,
  failure: Schema.Struct({ missing: Schema.BigInt }),
  needsApproval: true
})

const Look = Tool.make("look", {
  parameters: Schema.Struct({ at: Schema.String }),
  success: Schema.Struct({ size: Schema.Finite }),
  failure: Schema.Struct({ why: Schema.String }),
  failureMode: "return",
  toModelOutput: ({ size }) => [Prompt.makePart("text", { text: `${size} pixels` })]
})

const Steps = Tool.make("steps", { success: Schema.String })

const Kit = Toolkit.make(Echo, Pay, Look, Steps)

const KitLive = Kit.toLayer({
  echo: Effect.fn(function*({ text }) {
    return text + (yield* Suffix)
  }),
  pay: ({ amount }) => amount > 10 ? Effect.fail({ missing: BigInt(amount - 10) }) : Effect.void,
  look: ({ at }) => at === "nowhere" ? Effect.fail({ why: "nothing there" }) : Effect.succeed({ size: 7 }),
  steps: (_, context) =>
    Effect.gen(function*() {
      yield* context.preliminary("one")
      yield* context.preliminary("two")
      return context.toolCallId ?? "none"
    })
})

const bridged = Effect.gen(function*() {
  const registry = yield* ToolRegistry.make
  yield* registry.registerAll(yield* ToolkitBridge.fromToolkit(Kit))
  return registry
}).pipe(Effect.provide([KitLive, Layer.succeed(Suffix, "!")]))

describe("a toolkit in a registry", () => {
  // verifies: bridge.from-toolkit
  it.effect("runs its handlers, with their services", () =>
    Effect.gen(function*() {
      const registry = yield* bridged
      assert.deepStrictEqual((yield* registry.list).map((entry) => entry.name), ["echo", "look", "pay", "steps"])
      assert.strictEqual((yield* registry.invoke(call("echo", { text: "hey" }))).output, "hey!")
      const { definition } = yield* registry.get("echo")
      assert.strictEqual(definition.description, "Repeats")
      assert.isTrue(definition.readonly)
      assert.isFalse(definition.destructive)
      assert.isTrue(definition.idempotent)
      assert.deepStrictEqual(definition.permissions, [])
    }).pipe(Effect.provide(PermissionPolicy.layer())))

  it.effect("asks where a tool needs approval", () =>
    Effect.gen(function*() {
      const waiting = yield* Effect.flatMap(bridged, (registry) => registry.invoke(call("pay", { amount: 1 }))).pipe(
        Effect.flip
      )
      assert.strictEqual(waiting.reason._tag, "AwaitingAnswer")

      const questions: Array<string> = []
      const paid = yield* Effect.flatMap(bridged, (registry) => registry.invoke(call("pay", { amount: 1 }))).pipe(
        Effect.provideService(PermissionPolicy.Approver, (question) => {
          questions.push(question.toolName)
          return Effect.succeed(Question.approve(question))
        })
      )
      assert.strictEqual(paid.output, null)
      assert.deepStrictEqual(questions, ["pay"])
    }).pipe(Effect.provide(PermissionPolicy.layer())))

  it.effect("reports progress and the label of the call", () =>
    Effect.gen(function*() {
      const registry = yield* bridged
      const heard: Array<unknown> = []
      const { output } = yield* registry.invoke({ ...call("steps"), id: "call-7" }, {
        onProgress: (value) => void heard.push(value)
      })
      assert.deepStrictEqual(heard, ["one", "two"])
      assert.strictEqual(output, "call-7")
    }).pipe(Effect.provide(PermissionPolicy.layerAllowAll)))

  it.effect("fails with what the toolkit failed with, whichever way it tells", () =>
    Effect.gen(function*() {
      const registry = yield* bridged
      const [typed, returned, wrong, wrongReturned, shown] = yield* registry.invokeAll([
        call("pay", { amount: 12 }),
        call("look", { at: "nowhere" }),
        call("echo", { text: 1 }),
        call("look", { at: 1 }),
        call("look", { at: "home" })
      ])
      const failure = (invocation: typeof typed) =>
        invocation?.error?.reason._tag === "ExecutionFailed" ? invocation.error.reason.failure : undefined
      assert.deepStrictEqual(failure(typed), { missing: "2" })
      assert.deepStrictEqual(failure(returned), { why: "nothing there" })
      for (const [invocation, input] of [[wrong, { text: 1 }], [wrongReturned, { at: 1 }]] as const) {
        assert.strictEqual(invocation?.error?.reason._tag, "InvalidArguments")
        assert.notInclude(String(invocation?.result), "Toolkit")
        assert.deepStrictEqual(invocation?.input, input)
      }
      assert.deepStrictEqual(shown?.output, { size: 7 })
      assert.strictEqual(shown?.modelOutput?.[0]?.type === "text" && shown.modelOutput[0].text, "7 pixels")
    }).pipe(
      Effect.provide(PermissionPolicy.layerAllowAll),
      Effect.provideService(PermissionPolicy.Approver, (question) => Effect.succeed(Question.approve(question)))
    ))

  it.effect("is stopped by the registry's timeout", () =>
    Effect.gen(function*() {
      let stopped = false
      const Slow = Tool.make("slow", { success: Schema.String })
      const SlowKit = Toolkit.make(Slow)
      const registry = yield* registryOf(
        ...(yield* ToolkitBridge.fromToolkit(SlowKit).pipe(Effect.provide(SlowKit.toLayer({
          slow: () =>
            Effect.never.pipe(Effect.onInterrupt(() =>
              Effect.sync(() => {
                stopped = true
              })
            ))
        }))))
      )
      const error = yield* after(yield* Effect.forkChild(Effect.flip(registry.invoke(call("slow")))), "1 minute")
      assert.deepStrictEqual(error.reason, new ToolError.TimedOut({ timeoutMillis: 60_000, stopped: true }))
      assert.isTrue(stopped)
    }))
})

describe("a registry as a toolkit", () => {
  /** A model that calls these tools, then repeats what it was told of them. */
  const model = (calls: ReadonlyArray<{ readonly name: string; readonly params: unknown }>) =>
    LanguageModel.make({
      generateText: ({ tools }) =>
        Effect.succeed<Array<Response.PartEncoded>>([
          { type: "text", text: tools.map((one) => one.name).join(",") },
          ...calls.map((one, index) => ({ type: "tool-call" as const, id: `call-${index}`, ...one })),
          {
            type: "finish",
            reason: "tool-calls",
            usage: { inputTokens: {}, outputTokens: {} }
          } as never
        ]),
      streamText: () => Stream.empty
    })

  const make = Effect.gen(function*() {
    const registry = yield* ToolRegistry.make
    yield* registry.registerAll([
      tool("add", ({ a, b }) => Effect.succeed({ sum: Number(a) + Number(b) }), {
        inputSchema: {
          type: "object",
          properties: { a: { type: "number" }, b: { type: "number" } },
          required: ["a", "b"]
        },
        permissions: [Permission.Read]
      }),
      tool("remove", () => Effect.die("must not run"), { permissions: [Permission.Delete] }),
      tool("long", () => Effect.succeed("x".repeat(70_000))),
      tool("label", () => ToolContext.ToolContext.useSync((context) => context.toolCallId)),
      succeed("__proto__", "own")
    ])
    return registry
  }).pipe(Effect.provide(PermissionPolicy.layer()))

  // verifies: bridge.to-toolkit
  it.effect("resolves a model's calls by itself, with policy and limits", () =>
    Effect.gen(function*() {
      const registry = yield* make
      const toolkit = yield* registry.toolkit
      const response = yield* LanguageModel.generateText({ prompt: "Go", toolkit }).pipe(
        Effect.provideServiceEffect(
          LanguageModel.LanguageModel,
          model([
            { name: "add", params: { a: 1, b: 2 } },
            { name: "add", params: { a: 1 } },
            { name: "remove", params: {} },
            { name: "long", params: {} },
            { name: "label", params: {} },
            { name: "__proto__", params: {} }
          ])
        )
      )
      assert.strictEqual(response.text, "__proto__,add,label,long,remove")
      const results = new Map(response.toolResults.map((result) => [result.id, result]))
      const result = (index: number) => results.get(`call-${index}`)
      assert.strictEqual(results.size, 6)
      assert.deepStrictEqual(result(0)?.result, { sum: 3 })
      assert.isFalse(result(0)?.isFailure)
      assert.isTrue(result(1)?.isFailure)
      assert.include(String(result(1)?.result), "must have required property 'b'")
      assert.isTrue(result(2)?.isFailure)
      assert.strictEqual(result(2)?.result, "Permission denied.")
      assert.include(String(result(3)?.result), "[truncated: 4464 more bytes]")
      assert.strictEqual(result(4)?.result, "call-4")
      assert.strictEqual(result(5)?.result, "own")
      assert.strictEqual((yield* registry.stats).get("remove")?.failures["PermissionDenied"], 1)
    }))

  it.effect("offers exactly the snapshot's tools, as they are described", () =>
    Effect.gen(function*() {
      const registry = yield* make
      const { tools } = yield* registry.view({ names: ["add"] }).toolkit
      assert.deepStrictEqual(Object.keys(tools), ["add"])
      const add = tools["add"]!
      assert.strictEqual(Tool.getDescription(add), "Does add")
      assert.deepStrictEqual(Tool.getJsonSchema(add), (yield* registry.get("add")).definition.inputSchema)
      assert.strictEqual(Context.get(add.annotations, Tool.Strict), false)
    }))

  it.effect("asks for strict schemas only where nothing is left open", () =>
    Effect.gen(function*() {
      const strict = (inputSchema: Record<string, unknown>) =>
        Effect.gen(function*() {
          const registry = yield* registryOf(tool("t", () => Effect.succeed(null), { inputSchema }))
          const { tools } = yield* registry.toolkit
          return Context.get(tools["t"]!.annotations, Tool.Strict)
        })
      const closed = { type: "object", properties: { a: {} }, required: ["a"], additionalProperties: false }
      assert.isUndefined(yield* strict(closed))
      assert.isFalse(yield* strict({ ...closed, required: [] }))
      assert.isFalse(yield* strict({ ...closed, additionalProperties: true }))
      assert.isFalse(yield* strict({ ...closed, properties: { a: { type: "object", properties: {} } } }))
    }))

  it.effect("goes both ways: a toolkit from a registry works in another", () =>
    Effect.gen(function*() {
      const registry = yield* make
      const toolkit = yield* registry.toolkit
      const results = yield* Effect.flatMap(toolkit.handle("add", { a: 2, b: 2 } as never), Stream.runCollect)
      assert.deepStrictEqual(results.map((one) => one.encodedResult), [{ sum: 4 }])
    }))
})
