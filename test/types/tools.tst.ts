import {
  Permission,
  PermissionPolicy,
  type RegistrationError,
  Tool,
  ToolContext,
  ToolError,
  type ToolInvocation,
  ToolkitBridge,
  ToolOutput,
  ToolRegistry,
  type ToolSnapshot
} from "agcore"
import { Context, Effect, Layer, Schema, type Scope, type Stream } from "effect"
import { Tool as AiTool, Toolkit } from "effect/ai"
import { describe, expect, it } from "tstyche"

class Api extends Context.Service<Api, { readonly ask: (text: string) => Effect.Effect<string> }>()("test/types/Api") {}
class Db extends Context.Service<Db, { readonly rows: number }>()("test/types/Db") {}

class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", { until: Schema.Date }) {}

class Weather extends Tool.Service<Weather>()("weather", {
  description: "The weather",
  parameters: Schema.Struct({ city: Schema.String, days: Schema.optionalKey(Schema.Int) }),
  success: Schema.Struct({ at: Schema.Date, degrees: Schema.Finite }),
  failure: Unavailable
}) {}

class Ping extends Tool.Service<Ping>()("ping", { description: "Pings" }) {}

const answer = { at: new Date(0), degrees: 1 }

declare const registry: ToolRegistry.ToolRegistry["Service"]

describe("Tool.Service", () => {
  it("infers name and schemas", () => {
    expect(Weather.definition.name).type.toBe<"weather">()
    expect(Weather.parameters.Type).type.toBe<{ readonly city: string; readonly days?: number }>()
    expect(Weather.success.Type).type.toBe<{ readonly at: Date; readonly degrees: number }>()
    expect(Weather.failure.Type).type.toBe<Unavailable>()
    expect(Ping.failure.Type).type.toBe<never>()
  })

  it("gives a handler decoded parameters", () => {
    Weather.layer((parameters) => {
      expect(parameters).type.toBe<{ readonly city: string; readonly days?: number }>()
      return Effect.succeed(answer)
    })
    Weather.layer(Effect.fn(function*(parameters) {
      expect(parameters).type.toBe<{ readonly city: string; readonly days?: number }>()
      return yield* Effect.succeed(answer)
    }))
  })

  // verifies: tool.requirements
  it("infers what a handler requires, in all its forms", () => {
    expect(Weather.layer(() => Effect.succeed(answer))).type.toBe<Layer.Layer<Weather>>()
    expect(Weather.layer(({ city }) => Api.use((api) => Effect.as(api.ask(city), answer)))).type.toBe<
      Layer.Layer<Weather, never, Api>
    >()
    expect(Weather.layer(Effect.fn(function*({ city }) {
      const api = yield* Api
      const db = yield* Db
      if (db.rows === 0) return yield* new Unavailable({ until: new Date(0) })
      yield* api.ask(city)
      return answer
    }))).type.toBe<Layer.Layer<Weather, never, Api | Db>>()
    expect(Weather.layer(Effect.fnUntraced(function*() {
      yield* Db
      return answer
    }))).type.toBe<Layer.Layer<Weather, never, Db>>()
    expect(Weather.layer(() => new Unavailable({ until: new Date(0) }))).type.toBe<Layer.Layer<Weather>>()
    expect(Ping.layer(() => Effect.void)).type.toBe<Layer.Layer<Ping>>()
  })

  it("lets a handler answer with a ToolOutput", () => {
    expect(Weather.layer(() => Effect.succeed(ToolOutput.final(answer)))).type.toBe<Layer.Layer<Weather>>()
    expect(Weather.layer(Effect.fn(function*() {
      const db = yield* Db
      return db.rows > 0 ? answer : ToolOutput.final(answer, { isFailure: true })
    }))).type.toBe<Layer.Layer<Weather, never, Db>>()
  })

  it("lets a handler fail with a ToolError", () => {
    expect(
      Ping.layer(() =>
        Effect.fail(
          new ToolError.ToolError({ toolName: "ping", reason: new ToolError.Other({ description: "no" }) })
        )
      )
    ).type.toBe<Layer.Layer<Ping>>()
  })

  it("gives each call its context and scope", () => {
    expect(Ping.layer(Effect.fn(function*() {
      yield* ToolContext.ToolContext
      yield* Effect.addFinalizer(() => Effect.void)
    }))).type.toBe<Layer.Layer<Ping>>()
  })

  it("requires what the schemas need", () => {
    interface Encoded extends Schema.Codec<string, string, Api, Db> {}
    const Field: Encoded = null!
    class Uses extends Tool.Service<Uses>()("uses", {
      description: "Uses services in its schemas",
      parameters: Schema.Struct({ field: Field }),
      success: Field
    }) {}
    expect(Uses.layer(() => Effect.succeed(""))).type.toBe<Layer.Layer<Uses, never, Api | Db>>()
  })

  it("builds a handler by an effect, with its failures and requirements", () => {
    const built = Weather.layerEffect(Effect.gen(function*() {
      const api = yield* Api
      yield* Effect.addFinalizer(() => Effect.void)
      if (Math.random() > 1) return yield* Effect.fail("no key" as const)
      return ({ city }: { readonly city: string }) => Effect.andThen(Db, Effect.as(api.ask(city), answer))
    }))
    expect(built).type.toBe<Layer.Layer<Weather, "no key", Api | Db>>()
  })

  it("refuses a handler that does not fit", () => {
    expect(Weather.layer).type.not.toBeCallableWith(() => Effect.succeed({ at: new Date(0) }))
    expect(Weather.layer).type.not.toBeCallableWith(() => Effect.succeed({ at: "now", degrees: 1 }))
    expect(Weather.layer).type.not.toBeCallableWith(() => Effect.succeed(ToolOutput.final("text")))
    expect(Weather.layer).type.not.toBeCallableWith(() => Effect.fail({ untyped: true }))
    expect(Weather.layer).type.not.toBeCallableWith(() => answer)
    expect(Weather.layer).type.not.toBeCallableWith(() => Promise.resolve(answer))
    expect(Weather.layer).type.not.toBeCallableWith((parameters: { town: string }) =>
      Effect.succeed({ ...answer, town: parameters.town })
    )
    expect(Weather.layer).type.not.toBeCallableWith((parameters: { city: number }) =>
      Effect.succeed({ ...answer, city: parameters.city })
    )
    expect(Ping.layer).type.not.toBeCallableWith(() => Effect.fail("never declared"))
    expect(Weather.layerEffect).type.not.toBeCallableWith(Effect.succeed(() => Effect.succeed("text")))
  })

  it("refuses permissions that do not exist and keys of parameters that are not there", () => {
    expect(Tool.Service<Ping>()).type.not.toBeCallableWith("p", { description: "p", permissions: ["admin"] })
    expect(Tool.Service<Ping>()).type.not.toBeCallableWith("p", { permissions: ["read"] })
    expect(Tool.Service<Ping>()).type.not.toBeCallableWith("p", {
      description: "p",
      parameters: Schema.Struct({ path: Schema.String }),
      exclusive: (parameters: { path: number }) => String(parameters.path)
    })
    expect(Permission.custom("billing")).type.toBe<"custom:billing">()
  })
})

describe("Tool.dynamic", () => {
  const options = { name: "d", description: "d", inputSchema: { type: "object" } } as const

  it("infers requirements and failures", () => {
    expect(Tool.dynamic({ ...options, handler: () => Effect.succeed("json") })).type.toBe<Tool.Tool>()
    expect(Tool.dynamic({ ...options, handler: () => Effect.map(Db, (db) => db.rows) })).type.toBe<Tool.Tool<Db>>()
    expect(Tool.dynamic({
      ...options,
      handler: Effect.fn(function*(args) {
        expect(args).type.toBe<Readonly<Record<string, unknown>>>()
        yield* ToolContext.ToolContext
        yield* Effect.addFinalizer(() => Effect.void)
        return ToolOutput.final((yield* Db).rows)
      })
    })).type.toBe<Tool.Tool<Db>>()
    expect(Tool.dynamic({ ...options, failure: Unavailable, handler: () => new Unavailable({ until: new Date(0) }) }))
      .type.toBe<Tool.Tool>()
  })

  it("refuses what is no JSON, and failures it does not declare", () => {
    expect(Tool.dynamic).type.not.toBeCallableWith({ ...options, handler: () => Effect.succeed(() => {}) })
    expect(Tool.dynamic).type.not.toBeCallableWith({ ...options, handler: () => Effect.fail("untyped") })
    expect(Tool.dynamic).type.not.toBeCallableWith({ ...options, handler: () => "no effect" })
  })
})

describe("ToolRegistry", () => {
  // verifies: permission.required
  it("requires each tool's implementation and a policy", () => {
    expect(ToolRegistry.layer(Weather, Ping)).type.toBe<
      Layer.Layer<ToolRegistry.ToolRegistry, never, Weather | Ping | PermissionPolicy.PermissionPolicy>
    >()
    expect(ToolRegistry.layer()).type.toBe<
      Layer.Layer<ToolRegistry.ToolRegistry, never, PermissionPolicy.PermissionPolicy>
    >()
  })

  // verifies: tool.missing-is-type-error
  it("does not compile without one, and shows which is missing", () => {
    const incomplete = ToolRegistry.layer(Weather, Ping).pipe(
      Layer.provide([Ping.layer(() => Effect.void), PermissionPolicy.layer()])
    )
    expect(incomplete).type.toBe<Layer.Layer<ToolRegistry.ToolRegistry, never, Weather>>()
    expect(incomplete).type.not.toBeAssignableTo<Layer.Layer<ToolRegistry.ToolRegistry>>()
    const complete = incomplete.pipe(Layer.provide(Weather.layer(() => Effect.succeed(answer))))
    expect(complete).type.toBe<Layer.Layer<ToolRegistry.ToolRegistry>>()
    expect(Effect.runPromise).type.not.toBeCallableWith(
      Effect.provide(ToolRegistry.ToolRegistry.use((one) => one.list), incomplete)
    )
  })

  it("takes classes and dynamic tools side by side", () => {
    const dynamic = Tool.dynamic({
      name: "d",
      description: "d",
      inputSchema: {},
      handler: () => Effect.map(Db, (db) => db.rows)
    })
    expect(ToolRegistry.layer(Weather, dynamic)).type.toBe<
      Layer.Layer<ToolRegistry.ToolRegistry, never, Weather | Db | PermissionPolicy.PermissionPolicy>
    >()
    expect(registry.register(dynamic)).type.toBe<Effect.Effect<void, RegistrationError.RegistrationError, Db>>()
    expect(registry.registerAll([])).type.toBe<Effect.Effect<void, RegistrationError.RegistrationError>>()
    expect(registry.registerScoped(Weather)).type.toBe<
      Effect.Effect<void, RegistrationError.RegistrationError, Weather | Scope.Scope>
    >()
  })

  it("tells tools apart that look the same", () => {
    class Pong extends Tool.Service<Pong>()("pong", { description: "Pongs" }) {}
    expect<Ping>().type.not.toBeAssignableTo<Pong>()
    expect(ToolRegistry.layer(Ping, Pong).pipe(Layer.provide(Ping.layer(() => Effect.void)))).type.toBe<
      Layer.Layer<ToolRegistry.ToolRegistry, never, Pong | PermissionPolicy.PermissionPolicy>
    >()
  })

  it("refuses what is no tool", () => {
    expect(ToolRegistry.layer).type.not.toBeCallableWith(Api)
    expect(ToolRegistry.layer).type.not.toBeCallableWith({ name: "weather" })
    expect(registry.register).type.not.toBeCallableWith("weather")
  })

  it("says what its operations answer and fail with", () => {
    expect(registry.get("a")).type.toBe<Effect.Effect<ToolSnapshot.ToolEntry, ToolError.ToolError>>()
    expect(registry.list).type.toBe<Effect.Effect<ReadonlyArray<ToolSnapshot.ToolEntry>>>()
    expect(registry.definitions).type.toBe<Effect.Effect<ReadonlyArray<Tool.Definition>>>()
    expect(registry.invoke({ id: "1", name: "a", params: {} })).type.toBe<
      Effect.Effect<ToolInvocation.ToolInvocation, ToolError.ToolError>
    >()
    expect(registry.invokeAll([])).type.toBe<Effect.Effect<ReadonlyArray<ToolInvocation.ToolInvocation>>>()
    expect(registry.admit({ id: "1", name: "a", params: {} })).type.toBe<Effect.Effect<ToolSnapshot.Admission>>()
    expect(registry.unregister("a")).type.toBe<Effect.Effect<boolean>>()
    expect(registry.view({ tags: ["x"] })).type.toBe<ToolRegistry.ToolView>()
    expect(registry.changes).type.toBe<Stream.Stream<ToolRegistry.RegistryChange>>()
    expect(registry.group).type.toBe<Effect.Effect<ToolRegistry.ToolGroup, never, Scope.Scope>>()
  })

  it("refuses calls that are incomplete", () => {
    expect(registry.invoke).type.not.toBeCallableWith("a")
    expect(registry.invoke).type.not.toBeCallableWith({ name: "a", params: {} })
    expect(registry.invoke).type.not.toBeCallableWith({ id: "1", name: "a", params: {} }, { timeout: "soon" })
  })
})

describe("ToolkitBridge", () => {
  it("requires a toolkit's handlers, and then what they need at a call", () => {
    const Kit = Toolkit.make(
      AiTool.make("one", { success: Schema.String }),
      AiTool.make("two", { success: Schema.String, dependencies: [Db] })
    )
    expect(ToolkitBridge.fromToolkit(Kit)).type.toBe<
      Effect.Effect<ReadonlyArray<Tool.Tool<Db>>, never, AiTool.Handler<"one"> | AiTool.Handler<"two">>
    >()
  })
})

describe("PermissionPolicy", () => {
  it("captures what a check requires and takes any failure for a denial", () => {
    expect(PermissionPolicy.layerCheck(() => Effect.as(Db, PermissionPolicy.allow))).type.toBe<
      Layer.Layer<PermissionPolicy.PermissionPolicy, never, Db>
    >()
    expect(PermissionPolicy.layerCheck(() => Effect.fail("no"))).type.toBe<
      Layer.Layer<PermissionPolicy.PermissionPolicy>
    >()
    expect(PermissionPolicy.layerCheck).type.not.toBeCallableWith(() => Effect.succeed(true))
    expect(PermissionPolicy.layer).type.not.toBeCallableWith({ allowed: ["admin"] })
  })
})

describe("errors", () => {
  it("list every reason", () => {
    expect<ToolError.ToolErrorReason["_tag"]>().type.toBe<
      | "NotFound"
      | "ExecutionFailed"
      | "InvalidArguments"
      | "PermissionDenied"
      | "ApprovalDenied"
      | "AwaitingAnswer"
      | "TimedOut"
      | "NotExecuted"
      | "McpError"
      | "McpNotInitialized"
      | "McpTimeout"
      | "Io"
      | "Other"
    >()
    expect<RegistrationError.RegistrationErrorReason["_tag"]>().type.toBe<
      "DuplicateName" | "InvalidName" | "InvalidSchema"
    >()
    expect<ToolError.NotExecuted["why"]>().type.toBe<
      "incomplete" | "sibling" | "turnLimit" | "budget" | "interrupted" | "busy" | "unsaved" | "unaudited"
    >()
  })

  it("are recovered by reason, with its facts", () => {
    const recovered = registry.invoke({ id: "1", name: "a", params: {} }).pipe(
      Effect.catchReason("ToolError", "TimedOut", (reason) => {
        expect(reason.stopped).type.toBe<boolean>()
        expect(reason.timeoutMillis).type.toBe<number>()
        return Effect.succeed(null)
      })
    )
    expect(recovered).type.toBe<Effect.Effect<ToolInvocation.ToolInvocation | null, ToolError.ToolError>>()
  })
})

describe("no any leaks", () => {
  it("from parameters and results", () => {
    expect<Parameters<typeof registry.invoke>[0]>().type.not.toBe<any>()
    expect<Parameters<typeof registry.invoke>[0]["params"]>().type.toBe<unknown>()
    expect<ToolInvocation.ToolInvocation["input"]>().type.toBe<unknown>()
    expect<ToolInvocation.ToolInvocation["output"]>().type.toBe<Schema.Json | undefined>()
    expect<ToolInvocation.ToolInvocation["result"]>().type.toBe<Schema.Json>()
    expect<ToolInvocation.ToolInvocation["error"]>().type.toBe<ToolError.ToolError | undefined>()
    expect<Tool.Definition["inputSchema"]>().type.not.toBe<any>()
    expect<Tool.Implementation["prepare"]>().type.not.toBe<any>()
    expect<PermissionPolicy.Request["input"]>().type.toBe<unknown>()
    expect<ToolError.ExecutionFailed["cause"]>().type.toBe<unknown>()
    expect<ToolError.ExecutionFailed["failure"]>().type.toBe<Schema.Json | undefined>()
    expect<ToolError.InvalidArguments["input"]>().type.toBe<unknown>()
    expect<ToolContext.ToolContext["Service"]["progress"]>().type.toBe<(value: unknown) => Effect.Effect<void>>()
    expect<NonNullable<ToolSnapshot.InvokeOptions["onProgress"]>>().type.toBe<
      (value: unknown, call: ToolInvocation.ToolCall) => void
    >()
    expect<Tool.Requirements<typeof Weather>>().type.toBe<Weather>()
    expect<Weather>().type.not.toBe<any>()
  })
})
