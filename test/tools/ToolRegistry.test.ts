import { assert, describe, it } from "@effect/vitest"
import {
  PermissionPolicy,
  type Tool,
  ToolContext,
  ToolError,
  ToolOutput,
  ToolRegistry,
  type ToolSnapshot
} from "agcore"
import { Cause, Deferred, Effect, Exit, Fiber, Layer, Metric, Ref, Schema, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { after, call, makeGate, registryOf, settle, succeed, tool } from "./support.ts"

const names = (view: ToolRegistry.ToolView) => Effect.map(view.list, (entries) => entries.map((entry) => entry.name))

describe("registration", () => {
  it.effect("of several is all or none", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(succeed("a"))
      for (
        const [tools, reason] of [
          [[succeed("b"), succeed("a")], "DuplicateName"],
          [[succeed("b"), succeed("b")], "DuplicateName"],
          [[succeed("b"), succeed("no spaces")], "InvalidName"],
          [[succeed("b"), tool("c", () => Effect.succeed(null), { inputSchema: { type: "string" } })], "InvalidSchema"]
        ] as const
      ) {
        const error = yield* Effect.flip(registry.registerAll(tools))
        assert.strictEqual(error.reason._tag, reason)
        assert.deepStrictEqual(yield* names(registry), ["a"])
      }
    }))

  it.effect("loses nothing among many at once", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf()
      const one = succeed("one")
      const named = (name: string): Tool.Tool => ({ ...one, definition: { ...one.definition, name } })
      const batches = Array.from({ length: 4 }, (_, batch) =>
        Array.from({ length: 1500 }, (_, index) => named(`t${batch}-${index}`)))
      yield* Effect.forEach(batches, (batch) =>
        registry.registerAll(batch), { concurrency: "unbounded" })
      assert.strictEqual((yield* registry.list).length, 6000)
    }), 30_000)

  // verifies: registry.static-duplicate
  it.effect("in a Layer dies of two tools of one name", () =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(
        Effect.provide(
          ToolRegistry.ToolRegistry.use((registry) => registry.list),
          ToolRegistry.layer(succeed("a"), succeed("a")).pipe(Layer.provide(PermissionPolicy.layer()))
        )
      )
      assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", "already registered")
    }))

  for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
    it.effect(`knows "${name}" only once it is registered`, () =>
      Effect.gen(function*() {
        const registry = yield* registryOf()
        const missing = yield* Effect.flip(registry.invoke(call(name)))
        assert.strictEqual(missing.reason._tag, "NotFound")
        yield* registry.register(succeed(name, "mine"))
        assert.strictEqual((yield* registry.invoke(call(name))).output, "mine")
        assert.strictEqual((yield* registry.stats).get(name)?.calls, 1)
        const { tools } = yield* registry.toolkit
        assert.deepStrictEqual(Object.keys(tools), [name])
        assert.isTrue(yield* registry.unregister(name))
        assert.deepStrictEqual(yield* names(registry), [])
      }))
  }

  // verifies: tool.name
  describe("of a name that providers refuse", () => {
    for (const name of ["", "no spaces", "ünïcode", "a".repeat(65), "a.b", "🙂", "\ud800"]) {
      it.effect(`is refused, or mapped to one they accept: ${JSON.stringify(name)}`, () =>
        Effect.gen(function*() {
          const registry = yield* registryOf()
          const error = yield* Effect.flip(registry.register(succeed(name)))
          assert.strictEqual(error.reason._tag, "InvalidName")

          yield* registry.register(succeed(name, "ran"), { names: "map" })
          const [entry] = yield* registry.list
          assert.match(entry!.name, /^[a-zA-Z0-9_-]{1,64}$/)
          assert.strictEqual(entry!.originalName, name)
          assert.strictEqual(entry!.definition.name, entry!.name)
          assert.strictEqual((yield* registry.invoke(call(entry!.name))).output, "ran")

          const again = yield* Effect.flip(registry.register(succeed(name), { names: "map" }))
          assert.strictEqual(again.reason._tag, "DuplicateName")
          assert.strictEqual(again.toolName, name)
        }))
    }

    it.effect("keeps names apart that look alike, and leaves good ones alone", () =>
      Effect.gen(function*() {
        const registry = yield* registryOf()
        yield* registry.registerAll(
          ["a.b", "a/b", "a b", "a_b", `${"x".repeat(70)}1`, `${"x".repeat(70)}2`].map((name) => succeed(name)),
          { names: "map" }
        )
        const all = yield* names(registry)
        assert.strictEqual(new Set(all).size, 6)
        assert.include(all, "a_b")
      }))

    // verifies: tool.name-collision
    it.effect("is an error where the mapped name is taken", () =>
      Effect.gen(function*() {
        const registry = yield* registryOf()
        yield* registry.register(succeed("a.b"), { names: "map" })
        const [mapped] = yield* names(registry)
        yield* registry.unregister(mapped!)
        yield* registry.register(succeed(mapped!))
        const error = yield* Effect.flip(registry.register(succeed("a.b"), { names: "map" }))
        assert.strictEqual(error.reason._tag, "DuplicateName")
      }))

    it.effect.prop(
      "maps every name to an accepted one, always the same",
      { name: Schema.String },
      ({ name }) =>
        Effect.gen(function*() {
          const mapped = yield* Effect.forEach([1, 2], () =>
            Effect.gen(function*() {
              const registry = yield* registryOf()
              yield* registry.register(succeed(name), { names: "map" })
              return (yield* names(registry))[0]!
            }))
          assert.match(mapped[0]!, /^[a-zA-Z0-9_-]{1,64}$/)
          assert.strictEqual(mapped[0], mapped[1])
        })
    )
  })

  // verifies: registry.scoped
  it.effect("within a scope ends with it, and leaves others' tools alone", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf()
      const scope = yield* Scope.make()
      yield* registry.registerScoped(succeed("a")).pipe(Scope.provide(scope))
      yield* registry.registerScoped(succeed("b")).pipe(Scope.provide(scope))
      assert.deepStrictEqual(yield* names(registry), ["a", "b"])
      yield* registry.unregister("b")
      yield* registry.register(succeed("b", "another"))
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* names(registry), ["b"])
      assert.strictEqual((yield* registry.invoke(call("b"))).output, "another")
    }))

  it.effect("may end while the tool runs: the call is answered", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf()
      for (
        const end of ["unregister", "scope", "group"] as const
      ) {
        const gate = makeGate("gate")
        const scope = yield* Scope.make()
        if (end === "unregister") yield* registry.register(gate.tool)
        if (end === "scope") yield* registry.registerScoped(gate.tool).pipe(Scope.provide(scope))
        if (end === "group") {
          const group = yield* registry.group.pipe(Scope.provide(scope))
          yield* group.set([gate.tool])
        }
        const fiber = yield* Effect.forkChild(registry.invoke(call("gate")))
        yield* gate.entered
        if (end === "unregister") yield* registry.unregister("gate")
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* names(registry), [])
        yield* gate.leave
        assert.strictEqual((yield* Fiber.join(fiber)).output, "gate")
      }
    }))

  describe("of a group", () => {
    it.effect("replaces its tools at once and reports what it left out", () =>
      Effect.gen(function*() {
        const registry = yield* registryOf(succeed("mine"))
        const changes = yield* Effect.forkChild(
          registry.changes.pipe(Stream.take(2), Stream.runCollect),
          { startImmediately: true }
        )
        yield* settle
        const scope = yield* Scope.make()
        const group = yield* registry.group.pipe(Scope.provide(scope))
        assert.deepStrictEqual(yield* group.set([succeed("a"), succeed("b")]), [])
        const refused = yield* group.set([succeed("b"), succeed("c"), succeed("mine"), succeed("c"), succeed("x y")])
        assert.deepStrictEqual(
          refused.map((error) => `${error.toolName}: ${error.reason._tag}`).sort(),
          ["c: DuplicateName", "mine: DuplicateName", "x y: InvalidName"]
        )
        assert.deepStrictEqual(yield* names(registry), ["b", "c", "mine"])
        const heard = (yield* Fiber.join(changes)).map(({ registered, unregistered }) => [registered, unregistered])
        assert.deepStrictEqual(heard, [[["a", "b"], []], [["b", "c"], ["a", "b"]]])
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* names(registry), ["mine"])
      }))

    it.effect("adds nothing once its scope has closed", () =>
      Effect.gen(function*() {
        const registry = yield* registryOf()
        const scope = yield* Scope.make()
        const group = yield* registry.group.pipe(Scope.provide(scope))
        const building = yield* Deferred.make<void>()
        const slow: Tool.Tool = {
          ...succeed("slow"),
          implementation: Effect.andThen(Deferred.await(building), succeed("slow").implementation)
        }
        const setting = yield* Effect.forkChild(group.set([slow]))
        yield* settle
        yield* Scope.close(scope, Exit.void)
        yield* Deferred.succeed(building, undefined)
        yield* Fiber.join(setting)
        yield* group.set([succeed("late")])
        assert.deepStrictEqual(yield* names(registry), [])
      }))
  })
})

describe("changes", () => {
  // verifies: registry.changes
  it.effect("tell what came and went, from when one listens", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(succeed("before"))
      const heard = yield* Effect.forkChild(registry.changes.pipe(Stream.take(3), Stream.runCollect), {
        startImmediately: true
      })
      yield* settle
      yield* registry.registerAll([succeed("b"), succeed("a")])
      yield* registry.unregister("b")
      yield* registry.unregister("b")
      yield* Effect.ignore(registry.register(succeed("a")))
      yield* Effect.scoped(registry.registerScoped(succeed("c")))
      const first = (yield* Fiber.join(heard))[0]!.revision
      assert.deepStrictEqual(yield* Fiber.join(heard), [
        { revision: first, registered: ["b", "a"], unregistered: [] },
        { revision: first + 1, registered: [], unregistered: ["b"] },
        { revision: first + 2, registered: ["c"], unregistered: [] }
      ])
    }))

  it.effect("never hold the registry up, whoever listens", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf()
      yield* Effect.forkChild(registry.changes.pipe(Stream.runForEach(() => Effect.never)), { startImmediately: true })
      yield* settle
      for (let i = 0; i < 200; i++) yield* registry.register(succeed(`t${i}`))
      assert.strictEqual((yield* registry.list).length, 200)
    }))
})

describe("stats", () => {
  // verifies: registry.stats
  it.effect("count calls, failures by reason, and durations", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(
        tool("work", ({ millis }) =>
          millis === undefined ? Effect.die("bug") : Effect.as(Effect.sleep(Number(millis)), null)),
        succeed("idle")
      )
      for (const millis of [100, 300]) {
        yield* after(yield* Effect.forkChild(registry.invoke(call("work", { millis }))), millis)
      }
      yield* Effect.ignore(registry.invoke(call("work")))
      yield* Effect.ignore(registry.invoke(call("work", "{")))
      assert.deepStrictEqual(Array.from(yield* registry.stats), [["work", {
        calls: 4,
        failures: { ExecutionFailed: 1, InvalidArguments: 1 },
        totalDurationMillis: 400,
        maxDurationMillis: 300
      }]])
    }))

  it.effect("and metrics do not grow with the names a model makes up", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf()
      yield* registry.invokeAll(Array.from({ length: 50 }, (_, i) => call(`made-up-${i}`)))
      yield* registry.register(succeed("made-up-7"))
      assert.strictEqual((yield* registry.stats).size, 0)
      const metrics = JSON.stringify(yield* Metric.snapshot)
      assert.include(metrics, "agcore.tool.calls")
      assert.notInclude(metrics, "made-up")
    }))
})

describe("finding", () => {
  const setUp = registryOf(
    tool("a", () => Effect.succeed(null), { tags: ["x", "y"], category: "one" }),
    tool("b", () => Effect.succeed(null), { tags: ["y"], category: "two", readonly: true }),
    tool("c", () => Effect.succeed(null))
  )

  // verifies: registry.find
  it.effect("by tag, category and group", () =>
    Effect.gen(function*() {
      const registry = yield* setUp
      const found = (entries: ReadonlyArray<ToolSnapshot.ToolEntry>) => entries.map((entry) => entry.name)
      assert.deepStrictEqual(found(yield* registry.findByTag("y")), ["a", "b"])
      assert.deepStrictEqual(found(yield* registry.findByTag("none")), [])
      assert.deepStrictEqual(found(yield* registry.findByCategory("two")), ["b"])
      const groups = yield* registry.groups
      assert.deepStrictEqual(Array.from(groups, ([key, entries]) => [key, found(entries)]), [
        ["one", ["a"]],
        ["two", ["b"]],
        ["", ["c"]]
      ])
    }))

  // verifies: registry.view
  it.effect("in a view that narrows, nests and follows the registry", () =>
    Effect.gen(function*() {
      const registry = yield* setUp
      const view = registry.view({ tags: ["y"] })
      assert.deepStrictEqual(yield* names(view), ["a", "b"])
      assert.deepStrictEqual(yield* names(view.view({ where: (definition) => definition.readonly })), ["b"])
      assert.deepStrictEqual(yield* names(registry.view({ names: ["a", "c", "zzz"] })), ["a", "c"])
      assert.deepStrictEqual(yield* names(registry.view({ categories: ["one", "two"], names: ["b"] })), ["b"])
      assert.deepStrictEqual(yield* names(registry.view({ names: [] })), [])
      yield* registry.register(tool("d", () => Effect.succeed(null), { tags: ["y"] }))
      yield* registry.unregister("a")
      assert.deepStrictEqual(yield* names(view), ["b", "d"])
    }))

  it.effect("a view runs none but its tools and names no other", () =>
    Effect.gen(function*() {
      const registry = yield* setUp
      const view = registry.view({ names: ["a"] })
      const hidden = yield* Effect.flip(view.invoke(call("b")))
      assert.deepStrictEqual(hidden.reason, new ToolError.NotFound({ available: ["a"] }))
      assert.deepStrictEqual((yield* Effect.flip(view.get("b"))).reason, hidden.reason)
      yield* registry.invokeAll([call("a"), call("b")])
      assert.deepStrictEqual(Array.from((yield* view.stats).keys()), ["a"])
      assert.deepStrictEqual(Object.keys((yield* view.toolkit).tools), ["a"])
      assert.deepStrictEqual((yield* view.definitions).map((definition) => definition.name), ["a"])
    }))

  // verifies: registry.cached-definitions
  it.effect("snapshots stay the same until something changes", () =>
    Effect.gen(function*() {
      const registry = yield* setUp
      const view = registry.view({ tags: ["y"] })
      const before = { all: yield* registry.snapshot, some: yield* view.snapshot }
      assert.strictEqual(yield* registry.snapshot, before.all)
      assert.strictEqual(yield* view.snapshot, before.some)
      assert.strictEqual(yield* view.toolkit, before.some.toolkit)
      assert.strictEqual(yield* registry.view({ names: ["b", "a"] }).snapshot, before.some)
      assert.strictEqual(yield* registry.view({}).snapshot, before.all)
      assert.strictEqual(yield* registry.definitions, yield* registry.definitions)

      yield* registry.unregister("a")
      assert.notStrictEqual(yield* registry.snapshot, before.all)
      assert.strictEqual((yield* registry.snapshot).revision, before.all.revision + 1)
      assert.deepStrictEqual(before.all.entries.map((entry) => entry.name), ["a", "b", "c"])
      const admission = yield* before.all.admit(call("a"))
      assert.strictEqual(admission._tag, "Accepted")
    }))
})

describe("invokeAll", () => {
  // verifies: invoke-all.concurrency
  it.effect("runs at most as many at a time as asked", () =>
    Effect.gen(function*() {
      for (const [concurrency, expected] of [[1, 1], [2, 2], [3.7, 3], ["unbounded", 8], [undefined, 8]] as const) {
        let inside = 0
        let most = 0
        const registry = yield* registryOf(tool("count", () =>
          Effect.gen(function*() {
            most = Math.max(most, ++inside)
            yield* settle
            inside--
            return null
          })))
        yield* registry.invokeAll(Array.from({ length: 8 }, () => call("count")), { concurrency })
        assert.strictEqual(most, expected, String(concurrency))
      }
    }))

  for (const concurrency of [0, -1, Number.NaN, Infinity, -Infinity]) {
    it.effect(`answers under a concurrency of ${concurrency}`, () =>
      Effect.gen(function*() {
        const registry = yield* registryOf(succeed("a"))
        const invocations = yield* registry.invokeAll([call("a"), call("a")], { concurrency })
        assert.deepStrictEqual(invocations.map((one) => one.output), ["a", "a"])
      }))
  }

  it.effect("of nothing is nothing", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf()
      assert.deepStrictEqual(yield* registry.invokeAll([]), [])
    }))

  // verifies: tool.idempotency-key
  it.effect("gives each call its index and its own key, also where labels repeat", () =>
    Effect.gen(function*() {
      const keys: Array<string> = []
      const registry = yield* registryOf(
        tool("key", () => ToolContext.ToolContext.useSync((context) => keys.push(context.idempotencyKey)))
      )
      const batch = [call("key"), { ...call("key"), index: undefined }, { ...call("key"), index: 9 }]
      const invocations = yield* registry.invokeAll(batch, { sessionId: "s" })
      assert.deepStrictEqual(invocations.map((one) => one.index), [0, 1, 9])
      assert.strictEqual(new Set(keys).size, 3)
      const first = [...keys]
      yield* registry.invokeAll(batch, { sessionId: "s" })
      assert.deepStrictEqual(keys.slice(3), first)
    }))

  it.effect("admits all calls before it runs the first", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const policy = PermissionPolicy.layerCheck((request) =>
        Effect.sync(() => {
          log.push(`ask ${request.tool.name}`)
          return PermissionPolicy.allow
        })
      )
      yield* Effect.gen(function*() {
        const registry = yield* ToolRegistry.make
        for (const name of ["a", "b"]) {
          yield* registry.register(tool(name, () => {
            log.push(`run ${name}`)
            return Effect.succeed(null)
          }))
        }
        yield* registry.invokeAll([call("a"), call("b")])
      }).pipe(Effect.provide(policy))
      assert.deepStrictEqual(log, ["ask a", "ask b", "run a", "run b"])
    }))

  it.effect("an admitted call that is not run has done nothing", () =>
    Effect.gen(function*() {
      let ran = false
      const registry = yield* registryOf(tool("a", () => {
        ran = true
        return Effect.succeed(null)
      }))
      const admission = yield* registry.admit(call("a"))
      assert.strictEqual(admission._tag, "Accepted")
      assert.isFalse(ran)
    }))

  // verifies: tool.shared-state
  it.effect("shares state where it is given, and else keeps it apart", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(tool("count", () =>
        ToolContext.ToolContext.use(({ sharedState }) =>
          Ref.modify(sharedState, (state) => {
            const next = Number(state.get("n") ?? 0) + 1
            return [next, new Map(state).set("n", next)] as const
          })
        )))
      const outputs = (options?: ToolSnapshot.InvokeOptions) =>
        Effect.map(
          registry.invokeAll([call("count"), call("count")], options),
          (all) =>
            all.map((one) => one.output)
        )
      assert.deepStrictEqual(yield* outputs(), [1, 1])
      const sharedState = yield* Ref.make<ReadonlyMap<string, unknown>>(new Map())
      assert.deepStrictEqual(yield* outputs({ sharedState }), [1, 2])
    }))

  it.effect("reports progress of each call, and outlives listeners that fail", () =>
    Effect.gen(function*() {
      const heard: Array<unknown> = []
      const registry = yield* registryOf(
        tool("steps", () =>
          ToolContext.ToolContext.use((context) =>
            Effect.as(
              Effect.forEach([1, 2], (step) => context.progress(step)),
              "done"
            )
          ))
      )
      const [invocation] = yield* registry.invokeAll([call("steps")], {
        onProgress: (value, { id }) => {
          heard.push(`${id} ${String(value)}`)
          throw new Error("listener")
        }
      })
      assert.strictEqual(invocation?.output, "done")
      assert.deepStrictEqual(heard, ["steps 1", "steps 2"])
    }))

  it.effect("a run tells when it starts, and outlives listeners that fail", () =>
    Effect.gen(function*() {
      const registry = yield* registryOf(succeed("a"))
      const admission = yield* registry.admit(call("a"))
      assert.strictEqual(admission._tag, "Accepted")
      if (admission._tag !== "Accepted") return
      const invocation = yield* admission.run({
        onStart: () => {
          throw new Error("listener")
        }
      })
      assert.strictEqual(invocation.output, "a")
    }))

  const Kind = Schema.Literals([
    "ok",
    "typed",
    "dies",
    "throws",
    "quits",
    "unfit",
    "slow",
    "stubborn",
    "denied",
    "unknown",
    "garbled",
    "busyKey",
    "huge",
    "bad output",
    "deep"
  ])
  const deep = (): Schema.Json => {
    let value: Schema.Json = 1
    for (let i = 0; i < 50_000; i++) value = [value]
    return value
  }
  const handlers: Record<string, Tool.DynamicOptions<never>["handler"]> = {
    ok: () => Effect.succeed("ok"),
    typed: () =>
      Effect.fail(new ToolError.ToolError({ toolName: "t", reason: new ToolError.Other({ description: "no" }) })),
    dies: () => Effect.die(new Error("bug")),
    throws: () => {
      throw new Error("bug")
    },
    quits: () => Effect.interrupt,
    unfit: () => Effect.succeed((() => {}) as never),
    slow: () => Effect.never,
    stubborn: () => Effect.as(Effect.uninterruptible(Effect.sleep("1 hour")), null),
    denied: () => Effect.succeed("must not run"),
    garbled: () => Effect.succeed("must not run"),
    busyKey: () => Effect.as(Effect.sleep(10), "waited"),
    huge: () => Effect.succeed("🙂".repeat(50_000)),
    "bad-output": () => Effect.succeed(ToolOutput.final("fine", { modelOutput: "not a list" as never })),
    deep: () => Effect.sync(deep)
  }
  const expected: Record<string, string | undefined> = {
    typed: "Other",
    dies: "ExecutionFailed",
    throws: "ExecutionFailed",
    quits: "ExecutionFailed",
    unfit: "ExecutionFailed",
    slow: "TimedOut",
    stubborn: "TimedOut",
    denied: "PermissionDenied",
    unknown: "NotFound",
    garbled: "InvalidArguments",
    "bad output": "ExecutionFailed",
    deep: "ExecutionFailed"
  }

  // verifies: invoke-all.order, invoke-all.independent
  it.effect.prop(
    "answers every call exactly once, in call order, whatever happens",
    {
      kinds: Schema.Array(Kind).check(Schema.isMaxLength(12)),
      concurrency: Schema.Literals([1, 2, "unbounded"])
    },
    ({ concurrency, kinds }) =>
      Effect.gen(function*() {
        const registry = yield* ToolRegistry.make
        yield* registry.registerAll(
          Object.entries(handlers).map(([name, handler]) =>
            tool(name, handler, { ...(name === "busyKey" ? { exclusive: "key" } : undefined) })
          )
        )
        const calls = kinds.map((kind, index) => ({
          id: `call-${index % 3}`,
          name: kind.replace(" ", "-"),
          params: kind === "garbled" ? "{\"cut" : { index }
        }))
        const fiber = yield* Effect.forkChild(registry.invokeAll(calls, { concurrency, timeout: 1000 }))
        for (let i = 0; i < 30 && fiber.pollUnsafe() === undefined; i++) {
          yield* settle
          yield* TestClock.adjust("1 second")
        }
        const invocations = yield* Fiber.join(fiber)
        assert.strictEqual(invocations.length, calls.length)
        for (const [index, invocation] of invocations.entries()) {
          const kind = kinds[index]!
          assert.strictEqual(invocation.index, index)
          assert.strictEqual(invocation.toolCallId, calls[index]!.id)
          assert.strictEqual(invocation.toolName, calls[index]!.name)
          assert.strictEqual(invocation.input, calls[index]!.params)
          assert.strictEqual(invocation.error?.reason._tag, expected[kind], kind)
          assert.strictEqual(invocation.truncated, kind === "huge")
          assert.isAtMost(Buffer.byteLength(JSON.stringify(invocation.result)), 66_000)
        }
        const counted = Array.from((yield* registry.stats).values()).reduce((sum, { calls }) => sum + calls, 0)
        assert.strictEqual(counted, kinds.filter((kind) => kind !== "unknown").length)
      }).pipe(Effect.provide(PermissionPolicy.layerCheck(({ tool }) =>
        tool.name === "denied" ? Effect.die("no answer") : Effect.succeed(PermissionPolicy.allow)
      ))),
    { arbitrary: { runs: 60 }, timeout: 60_000 }
  )
})
