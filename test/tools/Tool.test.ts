import { assert, describe, it } from "@effect/vitest"
import { PermissionPolicy, Tool, ToolContext, ToolOutput, ToolRegistry, ToolSettings } from "agcore"
import { Context, Effect, Layer, Logger, Option, References, Schema, SchemaGetter, Tracer } from "effect"
import { Prompt } from "effect/ai"
import { call, registryOf, tool } from "./support.ts"

/** What is wrong with arguments, or what the tool answered. */
const tryIt = (registry: ToolRegistry.ToolRegistry["Service"], name: string, params: unknown) =>
  Effect.map(registry.invokeAll([call(name, params)]), ([invocation]) =>
    invocation?.error === undefined
      ? invocation?.output
      : invocation.error.reason._tag === "InvalidArguments"
      ? invocation.error.reason.issue
      : invocation.error.reason._tag)

class Level extends Context.Service<Level, string>()("test/tools/Level") {}

describe("Tool.Service", () => {
  class Plan extends Tool.Service<Plan>()("plan", {
    description: "Plans",
    parameters: Schema.Struct({
      at: Schema.Date,
      amount: Schema.BigInt,
      note: Schema.optionalKey(Schema.String),
      tags: Schema.ReadonlySet(Schema.String)
    }),
    success: Schema.Struct({ at: Schema.Date, amount: Schema.BigInt, note: Schema.optionalKey(Schema.String) })
  }) {}

  // verifies: tool.decoded-parameters, tool.encoded-result
  it.effect("carries dates, bigints, sets and optional keys as JSON", () =>
    Effect.gen(function*() {
      const seen: Array<unknown> = []
      const registry = yield* registryOf(Plan).pipe(
        Effect.provide(Plan.layer(({ tags, ...plan }) => {
          seen.push(plan.at instanceof Date, typeof plan.amount, tags.has("x"), "note" in plan)
          return Effect.succeed({ ...plan, amount: plan.amount + 1n })
        }))
      )
      const params = { at: "2026-01-01T00:00:00.000Z", amount: "9007199254740993", tags: ["x"] }
      const { output } = yield* registry.invoke(call("plan", params))
      assert.deepStrictEqual(output, { at: "2026-01-01T00:00:00.000Z", amount: "9007199254740994" })
      assert.deepStrictEqual(seen, [true, "bigint", true, false])
      assert.deepStrictEqual(Plan.definition.inputSchema["required"], ["at", "amount", "tags"])
    }))

  it.effect("tells what is wrong with arguments, and does not run", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(Plan).pipe(Effect.provide(Plan.layer(() => Effect.die("must not run"))))
      assert.include(String(yield* tryIt(registry, "plan", { amount: "1", tags: [] })), "at")
      for (const params of [null, 1, [], "text", "{\"cut\": ", true]) {
        assert.include(String(yield* tryIt(registry, "plan", params)), "expected a JSON object")
      }
    }))

  // verifies: tool.no-parameters
  it.effect("without parameters takes an empty object only", () =>
    Effect.gen(function*() {
      class Ping extends Tool.Service<Ping>()("ping", { description: "Pings" }) {}
      class Loose extends Tool.Service<Loose>()("loose", { description: "L", parameters: Schema.Struct({}) }) {}
      const registry = yield* registryOf<Ping | Loose>(Ping, Loose).pipe(
        Effect.provide([Ping.layer(() => Effect.void), Loose.layer(() => Effect.void)])
      )
      assert.strictEqual(yield* tryIt(registry, "ping", {}), null)
      assert.notStrictEqual(yield* tryIt(registry, "ping", { extra: 1 }), null)
      assert.strictEqual(yield* tryIt(registry, "loose", {}), null)
      assert.strictEqual(Loose.definition.inputSchema["type"], "object")
    }))

  it.effect("puts a named root in place, whatever its name", () =>
    Effect.gen(function*() {
      class Params extends Schema.Class<Params>("my/app~1/Params")({ a: Schema.String }) {
        get shout() {
          return this.a.toUpperCase()
        }
      }
      class Named extends Tool.Service<Named>()("named", {
        description: "N",
        parameters: Params,
        success: Schema.String
      }) {}
      assert.strictEqual(Named.definition.inputSchema["type"], "object")
      const registry = yield* registryOf(Named).pipe(
        Effect.provide(Named.layer((params) => Effect.succeed(params.shout)))
      )
      assert.strictEqual(yield* tryIt(registry, "named", { a: "hey" }), "HEY")
    }))

  // verifies: tool.object-root
  it.effect("is refused where its parameters are no object", () =>
    Effect.gen(function*() {
      class Text extends Tool.Service<Text>()("text", { description: "T", parameters: Schema.String }) {}
      class List extends Tool.Service<List>()("list", { description: "L", parameters: Schema.Array(Schema.String) }) {}
      const registry = yield* registryOf()
      for (const refused of [Text, List]) {
        const error = yield* Effect.flip(registry.register<never>(refused as never))
        assert.strictEqual(error.reason._tag, "InvalidSchema")
      }
    }))

  // verifies: tool.unfitting-result
  it.effect("that answers with what does not fit its schema has failed", () =>
    Effect.gen(function*() {
      class Small extends Tool.Service<Small>()("small", {
        description: "S",
        success: Schema.Int.check(Schema.isLessThan(3))
      }) {}
      for (const value of [3, "1", undefined, Number.NaN]) {
        const registry = yield* registryOf(Small).pipe(
          Effect.provide(Small.layer(() => Effect.succeed(value as number)))
        )
        const [invocation] = yield* registry.invokeAll([call("small")])
        const reason = invocation?.error?.reason
        assert.strictEqual(reason?._tag === "ExecutionFailed" ? reason.origin : reason?._tag, "result")
        assert.isUndefined(invocation?.output)
      }
    }))

  it.effect("whose schemas or key throw has failed, and its caller goes on", () =>
    Effect.gen(function*() {
      const broken = Schema.String.pipe(Schema.decode({
        decode: SchemaGetter.transform((): string => {
          throw new Error("bug")
        }),
        encode: SchemaGetter.transform((): string => {
          throw new Error("bug")
        })
      }))
      class Decode extends Tool.Service<Decode>()("decode", {
        description: "D",
        parameters: Schema.Struct({ a: broken })
      }) {}
      class Encode extends Tool.Service<Encode>()("encode", { description: "E", success: broken }) {}
      class Fail extends Tool.Service<Fail>()("fail", { description: "F", failure: broken }) {}
      class Key extends Tool.Service<Key>()("key", {
        description: "K",
        exclusive: () => {
          throw new Error("bug")
        }
      }) {}
      const registry = yield* registryOf<Decode | Encode | Fail | Key>(Decode, Encode, Fail, Key).pipe(
        Effect.provide([
          Decode.layer(() => Effect.void),
          Encode.layer(() => Effect.succeed("x")),
          Fail.layer(() => Effect.fail("x")),
          Key.layer(() => Effect.void)
        ])
      )
      const invocations = yield* registry.invokeAll([
        call("decode", { a: "x" }),
        ...["encode", "fail", "key"].map((name) => call(name))
      ])
      assert.deepStrictEqual(
        invocations.map(({ error }) => error?.reason._tag === "ExecutionFailed" ? error.reason.origin : error),
        ["defect", "defect", "defect", "defect"]
      )
    }))

  // verifies: tool.captured-services
  it.effect("keeps the services it was built with: a caller cannot swap them", () =>
    Effect.gen(function*() {
      class Read extends Tool.Service<Read>()("read", { description: "R", success: Schema.String }) {}
      const registry = yield* registryOf(Read).pipe(
        Effect.provide(Read.layer(() => Level).pipe(Layer.provide(Layer.succeed(Level, "built"))))
      )
      const { output } = yield* registry.invoke(call("read")).pipe(Effect.provideService(Level, "caller"))
      assert.strictEqual(output, "built")

      const dynamic = yield* registryOf(tool("read", () => Level)).pipe(Effect.provideService(Level, "built"))
      const again = yield* dynamic.invoke(call("read")).pipe(Effect.provideService(Level, "caller"))
      assert.strictEqual(again.output, "built")
    }))

  it.effect("keeps them whatever they are, many or few, also one that is switched off", () =>
    Effect.gen(function*() {
      const Switch = Context.Reference<string | undefined>("Switch", { defaultValue: () => "on" })
      const Others = Array.from({ length: 6 }, (_, index) =>
        Context.Reference<string>(`Other${index}`, { defaultValue: () => "default" }))
      for (const count of [0, 1, 6]) {
        const built = Others.slice(0, count).reduce(
          (context, other) =>
            Context.add(context, other, "built"),
          Context.make(Switch, undefined)
        )
        const look = tool("look", () => Effect.all([Switch, ...Others]).pipe(Effect.map((all) => all.join())))
        const registry = yield* Effect.provideContext(registryOf(look), built)
        const { output } = yield* registry.invoke(call("look"))
        assert.strictEqual(output, ["", ...Others.map((_, index) => index < count ? "built" : "default")].join())
      }
    }))

  // verifies: trace.spans
  it.effect("sees its caller's span, logs and references", () =>
    Effect.gen(function*() {
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      class Look extends Tool.Service<Look>()("look", { description: "L", success: Schema.Json }) {}
      const built = Look.layer(
        Effect.fn("handler")(function*() {
          const annotations = yield* References.CurrentLogAnnotations
          const { traceId } = yield* ToolContext.ToolContext
          return { user: String(annotations["user"]), traceId }
        })
      ).pipe(Layer.provide(Layer.succeed(References.CurrentLogAnnotations, { user: "builder" })))

      const registry = yield* registryOf(Look).pipe(Effect.provide(built), Effect.withSpan("build"))
      const { output } = yield* registry.invoke(call("look")).pipe(
        Effect.annotateLogs("user", "caller"),
        Effect.withSpan("ask"),
        Effect.withTracer(tracer)
      )
      const [ask, execute, handler] = spans
      assert.deepStrictEqual(spans.map((span) => span.name), ["ask", "execute_tool look", "handler"])
      assert.strictEqual(Option.getOrThrow(execute!.parent).spanId, ask!.spanId)
      assert.strictEqual(Option.getOrThrow(handler!.parent).spanId, execute!.spanId)
      assert.deepStrictEqual(output, { user: "caller", traceId: ask!.traceId })
      assert.deepStrictEqual(Object.fromEntries(execute!.attributes), {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "look"
      })
    }))

  // verifies: trace.content
  it.effect("has its arguments and results on the span only where that is asked for, whatever they are", () =>
    Effect.gen(function*() {
      const attributes = (captureContent: boolean) =>
        Effect.gen(function*() {
          const spans: Array<Tracer.Span> = []
          const tracer = Tracer.make({
            span: (options) => {
              const span = new Tracer.NativeSpan(options)
              spans.push(span)
              return span
            }
          })
          const registry = yield* registryOf(tool("a", () => Effect.succeed("secret result"))).pipe(
            Effect.provideService(ToolSettings.CaptureContent, captureContent)
          )
          const args: Record<string, unknown> = { text: "secret", big: 1n }
          args["self"] = args
          yield* registry.invoke(call("a", args)).pipe(Effect.withTracer(tracer))
          return String(Array.from(spans[0]!.attributes))
        })
      assert.notInclude(yield* attributes(false), "secret")
      assert.include(yield* attributes(true), "secret result")
    }))

  it.effect("builds its handler once where an effect builds it, with its scope", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      class Count extends Tool.Service<Count>()("count", { description: "C", success: Schema.Finite }) {}
      const live = Count.layerEffect(Effect.gen(function*() {
        yield* Effect.acquireRelease(Effect.sync(() => log.push("open")), () => Effect.sync(() => log.push("close")))
        let calls = 0
        return () => Effect.sync(() => ++calls)
      }))
      yield* Effect.gen(function*() {
        const registry = yield* ToolRegistry.ToolRegistry
        assert.strictEqual((yield* registry.invoke(call("count"))).output, 1)
        assert.strictEqual((yield* registry.invoke(call("count"))).output, 2)
        assert.deepStrictEqual(log, ["open"])
      }).pipe(Effect.provide(ToolRegistry.layer(Count).pipe(Layer.provide([live, PermissionPolicy.layer()]))))
      assert.deepStrictEqual(log, ["open", "close"])
    }))

  it.effect("gives each call a scope of its own", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const registry = yield* registryOf(tool("scoped", ({ n }) =>
        Effect.as(
          Effect.acquireRelease(
            Effect.sync(() => log.push(`open ${String(n)}`)),
            () => Effect.sync(() => log.push(`close ${String(n)}`))
          ),
          null
        )))
      yield* registry.invoke(call("scoped", { n: 1 }))
      yield* registry.invoke(call("scoped", { n: 2 }))
      assert.deepStrictEqual(log, ["open 1", "close 1", "open 2", "close 2"])
    }))

  // verifies: tool.unique-key
  it.effect("of one name as another never takes its slot", () =>
    Effect.gen(function*() {
      class One extends Tool.Service<One>()("same", { description: "1", success: Schema.String }) {}
      class Two extends Tool.Service<Two>()("same", { description: "2", success: Schema.String }) {}
      assert.notStrictEqual(One.key, Two.key)
      const both = Layer.merge(
        One.layer(() => Effect.succeed("one")),
        Two.layer(() => Effect.succeed("two"))
      )
      const [one, two] = yield* Effect.all([registryOf(One), registryOf(Two)]).pipe(Effect.provide(both))
      assert.strictEqual((yield* one!.invoke(call("same"))).output, "one")
      assert.strictEqual((yield* two!.invoke(call("same"))).output, "two")
    }))

  it.effect("may call the registry it is in, deeply", () =>
    Effect.gen(function*() {
      const registry: ToolRegistry.ToolRegistry["Service"] = yield* registryOf()
      yield* registry.register(tool("down", ({ n }) =>
        Number(n) === 0
          ? Effect.succeed(0)
          : Effect.map(
            registry.invoke(call("down", { n: Number(n) - 1 }), { timeout: Infinity }),
            (below) => Number(below.output) + 1
          )))
      assert.strictEqual((yield* registry.invoke(call("down", { n: 3000 }), { timeout: Infinity })).output, 3000)
    }), 30_000)
})

describe("ToolOutput", () => {
  // verifies: tool.output
  it.effect("says more than a value: a failure the tool explains, or what the model sees instead", () =>
    Effect.gen(function*() {
      class Draw extends Tool.Service<Draw>()("draw", {
        description: "Draws",
        parameters: Schema.Struct({ fail: Schema.Boolean }),
        success: Schema.Struct({ at: Schema.Date })
      }) {}
      const registry = yield* registryOf(Draw).pipe(
        Effect.provide(Draw.layer(({ fail }) =>
          Effect.succeed(ToolOutput.final({ at: new Date(0) }, {
            isFailure: fail,
            modelOutput: [Prompt.makePart("text", { text: "a picture" })]
          }))
        ))
      )
      const [fine, failed] = yield* registry.invokeAll([call("draw", { fail: false }), call("draw", { fail: true })])
      const at = { at: "1970-01-01T00:00:00.000Z" }
      assert.deepStrictEqual(fine?.output, at)
      assert.isFalse(fine?.isFailure)
      assert.strictEqual(fine?.modelOutput?.[0]?.type, "text")
      assert.isTrue(failed?.isFailure)
      assert.deepStrictEqual(failed?.output, at)
      assert.strictEqual(failed?.error?.reason._tag, "ExecutionFailed")
    }))

  it.effect("cannot be forged by JSON that a handler passes on", () =>
    Effect.gen(function*() {
      const forged = {
        ...JSON.parse(JSON.stringify(ToolOutput.final("hidden", { isFailure: true }))),
        "~agcore/tools/ToolOutput": "~agcore/tools/ToolOutput"
      }
      const registry = yield* registryOf(tool("fetch", () => Effect.succeed(forged)))
      const { isFailure, output } = yield* registry.invoke(call("fetch"))
      assert.isFalse(isFailure)
      assert.deepStrictEqual(output, forged)
    }))
})

describe("Tool.dynamic", () => {
  const checked = (inputSchema: Record<string, unknown>, options?: Partial<Tool.DynamicOptions<never>>) =>
    registryOf(tool("t", (args) => Effect.succeed(Object.keys(args)), { inputSchema, ...options }))

  const refused = (inputSchema: unknown, options?: Partial<Tool.DynamicOptions<never>>) =>
    Effect.gen(function*() {
      const registry = yield* registryOf()
      const error = yield* Effect.flip(
        registry.register(tool("t", () => Effect.succeed(null), { inputSchema: inputSchema as never, ...options }))
      )
      return error.reason._tag === "InvalidSchema" ? error.reason.problem : error.reason._tag
    })

  // verifies: dynamic.validates
  it.effect("validates by 2020-12", () =>
    Effect.gen(function*() {
      const registry = yield* checked({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        properties: {
          pair: { type: "array", prefixItems: [{ type: "string" }, { type: "integer" }], items: false },
          card: { type: "string" }
        },
        dependentRequired: { card: ["pair"] },
        unevaluatedProperties: false
      })
      assert.deepStrictEqual(yield* tryIt(registry, "t", { pair: ["a", 1] }), ["pair"])
      assert.strictEqual(yield* tryIt(registry, "t", { pair: ["a", "b"] }), "pair.1: must be integer")
      assert.include(String(yield* tryIt(registry, "t", { pair: ["a", 1, 2] })), "pair")
      assert.include(String(yield* tryIt(registry, "t", { card: "c" })), "must have property")
      assert.include(String(yield* tryIt(registry, "t", { other: 1 })), "unevaluated")
    }))

  // verifies: dynamic.dialects
  it.effect("validates by draft-07 where the schema says so", () =>
    Effect.gen(function*() {
      const registry = yield* checked({
        $schema: "http://json-schema.org/draft-07/schema#",
        type: "object",
        properties: { pair: { type: "array", items: [{ type: "string" }, { type: "integer" }] } },
        definitions: { unused: { type: "string" } }
      })
      assert.deepStrictEqual(yield* tryIt(registry, "t", { pair: ["a", 1] }), ["pair"])
      assert.strictEqual(yield* tryIt(registry, "t", { pair: ["a", "b"] }), "pair.1: must be integer")
    }))

  it.effect("tells what a model has to know to do better", () =>
    Effect.gen(function*() {
      const registry = yield* checked({
        type: "object",
        properties: { unit: { enum: ["C", "F"] }, city: { type: "string", minLength: 1 } },
        required: ["city"],
        additionalProperties: false
      })
      assert.strictEqual(
        yield* tryIt(registry, "t", { city: "x", unit: "K" }),
        "unit: must be equal to one of the allowed values ([\"C\",\"F\"])"
      )
      assert.strictEqual(yield* tryIt(registry, "t", {}), "must have required property 'city'")
      assert.strictEqual(
        yield* tryIt(registry, "t", { city: "x", town: 1 }),
        "must NOT have additional properties (\"town\")"
      )
    }))

  it.effect("takes what every object inherits for no property", () =>
    Effect.gen(function*() {
      const registry = yield* checked({
        type: "object",
        properties: { toString: { type: "string" }, valueOf: { type: "number" } },
        required: ["constructor"]
      })
      assert.include(String(yield* tryIt(registry, "t", {})), "'constructor'")
      assert.deepStrictEqual(yield* tryIt(registry, "t", { constructor: 1 }), ["constructor"])
      const closed = yield* checked({ type: "object", additionalProperties: false })
      assert.include(
        String(yield* tryIt(closed, "t", JSON.parse("{\"__proto__\": {\"admin\": true}}"))),
        "additional properties"
      )
    }))

  it.effect("reads references inside its schema, and refuses others", () =>
    Effect.gen(function*() {
      const registry = yield* checked({
        $id: "https://example.com/same-id",
        type: "object",
        properties: { child: { $ref: "#/$defs/node" } },
        $defs: { node: { type: "object", properties: { child: { $ref: "#/$defs/node" } }, required: ["name"] } }
      })
      assert.deepStrictEqual(yield* tryIt(registry, "t", { child: { name: 1, child: { name: 2 } } }), ["child"])
      assert.include(String(yield* tryIt(registry, "t", { child: { name: 1, child: {} } })), "'name'")
      const other = yield* checked({ $id: "https://example.com/same-id", type: "object", required: ["other"] })
      assert.include(String(yield* tryIt(other, "t", {})), "'other'")
      assert.include(
        yield* refused({ type: "object", properties: { a: { $ref: "https://example.com/schema" } } }),
        "reference"
      )
    }))

  it.effect("fills in a root that leaves out what is clear", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* (yield* checked({ type: "object" })).definitions)[0]?.inputSchema, {
        type: "object",
        properties: {}
      })
      const registry = yield* checked({ properties: { a: { type: "string" } } })
      assert.strictEqual(yield* tryIt(registry, "t", { a: 1 }), "a: must be string")
    }))

  // verifies: dynamic.invalid-schema
  describe("is refused once, at registration, where the schema", () => {
    const circular: Record<string, unknown> = { type: "object" }
    circular["properties"] = { a: circular, b: circular }
    let deep: Record<string, unknown> = {}
    for (let i = 0; i < 10_000; i++) deep = { not: deep }
    const schemas: Record<string, unknown> = {
      "is no object": "string",
      "is a list": [],
      "is null": null,
      "has a root that is no object": { type: "string" },
      "has no root type": {},
      "has an unknown type": { type: "object", properties: { a: { type: "text" } } },
      "has a broken pattern": { type: "object", properties: { a: { type: "string", pattern: "(" } } },
      "has broken keywords": { type: "object", required: "a" },
      "is circular": circular,
      "is too deep": { type: "object", properties: { a: deep } }
    }
    for (const [what, schema] of Object.entries(schemas)) {
      it.effect(what, () =>
        Effect.gen(function*() {
          assert.isNotEmpty(yield* refused(schema))
        }))
    }
  })

  it.effect("is known to be unusable when it is built, and takes no call where nobody looks", () =>
    Effect.gen(function*() {
      const broken = { type: "object", properties: { a: { type: "text" } } }
      const { prepare, schemaProblem } = yield* tool("t", () => Effect.succeed(null), { inputSchema: broken })
        .implementation
      assert.isString(schemaProblem)
      const { reason } = yield* Effect.flip(prepare({ a: 1 }))
      assert.strictEqual(reason._tag, "InvalidArguments")
    }))

  // verifies: dynamic.unchecked
  it.effect("passes arguments as they come only if the caller says so", () =>
    Effect.gen(function*() {
      const broken = { type: "object", properties: { a: { type: "text" } } }
      const registry = yield* checked(broken, { onInvalidSchema: "unchecked" })
      assert.deepStrictEqual(yield* tryIt(registry, "t", { a: 1, b: 2 }), ["a", "b"])
      assert.include(String(yield* tryIt(registry, "t", "text")), "expected a JSON object")
      let deep: Record<string, unknown> = {}
      for (let i = 0; i < 10_000; i++) deep = { not: deep }
      assert.include(yield* refused({ type: "object", not: deep }, { onInvalidSchema: "unchecked" }), "deeper")
      assert.notStrictEqual(yield* refused({ type: "string" }, { onInvalidSchema: "unchecked" }), "")
    }))

  it.effect("says once, at registration, that arguments pass unchecked", () =>
    Effect.gen(function*() {
      const logged: Array<unknown> = []
      const broken = { type: "object", properties: { a: { type: "text" } } }
      const registry = yield* checked(broken, { onInvalidSchema: "unchecked" }).pipe(
        Effect.provideService(References.CurrentLoggers, new Set([Logger.make(({ message }) => logged.push(message))]))
      )
      yield* tryIt(registry, "t", { a: 1 })
      assert.lengthOf(logged, 1)
      assert.match(String(logged[0]), /^The arguments of "t" are not checked: /)
    }))

  it.effect("survives arguments of any depth", () =>
    Effect.gen(function*() {
      const args = JSON.parse(`{"child":`.repeat(50_000) + "1" + "}".repeat(50_000))
      const recursive = yield* checked({
        $defs: { node: { type: "object", properties: { child: { $ref: "#/$defs/node" } } } },
        type: "object",
        properties: { child: { $ref: "#/$defs/node" } }
      })
      assert.isString(yield* tryIt(recursive, "t", args))
      const open = yield* checked({ type: "object" })
      assert.deepStrictEqual(yield* tryIt(open, "t", args), ["child"])
    }))

  it.effect("fails with the typed failure it declares", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(Tool.dynamic({
        name: "t",
        description: "T",
        inputSchema: { type: "object" },
        failure: Schema.Struct({ at: Schema.Date }),
        handler: () => Effect.fail({ at: new Date(0) })
      }))
      const error = yield* Effect.flip(registry.invoke(call("t")))
      assert.deepStrictEqual(error.reason._tag === "ExecutionFailed" && error.reason.failure, {
        at: "1970-01-01T00:00:00.000Z"
      })
    }))

  it.effect("that answers with a Promise in place of an effect has failed", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(
        tool("promise", (() => Promise.resolve(1)) as never),
        tool("nothing", (() => undefined) as never)
      )
      assert.strictEqual(yield* tryIt(registry, "promise", {}), "ExecutionFailed")
      assert.strictEqual(yield* tryIt(registry, "nothing", {}), "ExecutionFailed")
    }))
})
