/**
 * The tools of an application: registered by name, authorised by a policy, run
 * under limits.
 *
 * A static registry is a Layer over tool classes; a tool without its
 * implementation does not compile. Tools can also come and go at run time.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as PubSub from "effect/PubSub"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Names from "../internal/names.ts"
import { makePermits } from "../internal/permits.ts"
import { makeAdmit } from "./internal/admit.ts"
import * as Catalogue from "./internal/catalogue.ts"
import { makeAsk } from "./internal/settle.ts"
import * as Stats from "./internal/stats.ts"
import type { PermissionPolicy } from "./PermissionPolicy.ts"
import { DuplicateName, InvalidName, InvalidSchema, RegistrationError } from "./RegistrationError.ts"
import type * as Tool from "./Tool.ts"
import { NotFound, ToolError } from "./ToolError.ts"
import type { ToolCall, ToolInvocation } from "./ToolInvocation.ts"
import type { Admission, InvokeOptions, RegistryToolkit, ToolEntry, ToolFilter, ToolSnapshot } from "./ToolSnapshot.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * Counters of one tool since it was first called.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolStats {
  /** Calls that were answered, in whatever way. */
  readonly calls: number
  /** How many of them failed, by the reason's tag. */
  readonly failures: Readonly<Record<string, number>>
  readonly totalDurationMillis: number
  readonly maxDurationMillis: number
}

/**
 * Something changed: tools came or went, and the registry has a new revision.
 *
 * @category models
 * @since 0.1.0
 */
export interface RegistryChange {
  /** The revision of the registry after the change. */
  readonly revision: number
  readonly registered: ReadonlyArray<string>
  readonly unregistered: ReadonlyArray<string>
}

/**
 * How to register.
 *
 * @category options
 * @since 0.1.0
 */
export interface RegisterOptions {
  /**
   * What becomes of a name that providers do not accept: `reject` refuses the
   * tool, `map` gives it a similar one and keeps the original in its entry.
   * Default `reject`.
   */
  readonly names?: "reject" | "map" | undefined
}

/**
 * Tools that belong together and are replaced together.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolGroup {
  /**
   * Replaces all tools of the group at once. What cannot be registered is left
   * out and returned; the others are there.
   */
  readonly set: <R = never>(
    tools: ReadonlyArray<Tool.Tool<R>>,
    options?: RegisterOptions
  ) => Effect.Effect<ReadonlyArray<RegistrationError>, never, R>
}

/**
 * Tools as their users see them: a registry, or a narrowed view of one.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolView {
  /** The tools of this moment. */
  readonly snapshot: Effect.Effect<ToolSnapshot>
  /** Fails with `NotFound`. */
  readonly get: (name: string) => Effect.Effect<ToolEntry, ToolError>
  readonly list: Effect.Effect<ReadonlyArray<ToolEntry>>
  /** What models are told, in the order of the names. */
  readonly definitions: Effect.Effect<ReadonlyArray<Tool.Definition>>
  /** The tools that carry the tag. */
  readonly findByTag: (tag: string) => Effect.Effect<ReadonlyArray<ToolEntry>>
  /** The tools of the category. */
  readonly findByCategory: (category: string) => Effect.Effect<ReadonlyArray<ToolEntry>>
  /** Tools by category; those without one are under the empty name. */
  readonly groups: Effect.Effect<ReadonlyMap<string, ReadonlyArray<ToolEntry>>>
  /** Counters by tool name. A tool that was never called has none. */
  readonly stats: Effect.Effect<ReadonlyMap<string, ToolStats>>
  /** Finds the tool, asks the policy, decodes the arguments; runs nothing. */
  readonly admit: (call: ToolCall, options?: InvokeOptions) => Effect.Effect<Admission>
  /**
   * Admits and runs one call. Fails with the reason if it was refused or failed;
   * with `AwaitingAnswer` if somebody has to answer first and there is no
   * `Approver`: then make the same call again with `answered`.
   */
  readonly invoke: (call: ToolCall, options?: InvokeOptions) => Effect.Effect<ToolInvocation, ToolError>
  /**
   * Admits all calls in order, then runs them side by side, each under its own
   * limits. Never fails as a whole; answers in the order of the calls.
   */
  readonly invokeAll: (
    calls: ReadonlyArray<ToolCall>,
    options?: InvokeOptions & {
      /** How many run at a time, at least 1. Default: no limit. */
      readonly concurrency?: number | "unbounded" | undefined
    }
  ) => Effect.Effect<ReadonlyArray<ToolInvocation>>
  /** The tools of this moment, for code that calls a `LanguageModel` itself. */
  readonly toolkit: Effect.Effect<RegistryToolkit>
  /** The same tools, narrowed. Follows the registry. */
  readonly view: (filter: ToolFilter) => ToolView
}

// =============================================================================
// Service
// =============================================================================

/**
 * The registry.
 *
 * **Example** (A tool that comes and goes)
 *
 * ```ts run
 * import { PermissionPolicy, Tool, ToolRegistry } from "agcore"
 * import { Effect, Layer } from "effect"
 *
 * const ping = Tool.dynamic({
 *   name: "ping",
 *   description: "Answers",
 *   inputSchema: { type: "object" },
 *   handler: () => Effect.succeed("pong")
 * })
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   yield* registry.register(ping)
 *   const invocation = yield* registry.invoke({ id: "1", name: "ping", params: {} })
 *   yield* registry.unregister("ping")
 *   return [invocation.output, (yield* registry.list).length]
 * }).pipe(Effect.provide(ToolRegistry.layer().pipe(Layer.provide(PermissionPolicy.layer()))))
 *
 * await Effect.runPromise(program) // => ["pong", 0]
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export class ToolRegistry extends Context.Service<
  ToolRegistry,
  ToolView & {
    /** Adds a tool. Fails if its name is taken or unfit, or its schema unusable. */
    readonly register: <R = never>(
      tool: Tool.Tool<R>,
      options?: RegisterOptions
    ) => Effect.Effect<void, RegistrationError, R>
    /** Adds several tools, all or none. */
    readonly registerAll: <R = never>(
      tools: ReadonlyArray<Tool.Tool<R>>,
      options?: RegisterOptions
    ) => Effect.Effect<void, RegistrationError, R>
    /** Adds a tool until the scope closes. */
    readonly registerScoped: <R = never>(
      tool: Tool.Tool<R>,
      options?: RegisterOptions
    ) => Effect.Effect<void, RegistrationError, R | Scope.Scope>
    /** Removes a tool; answers whether it was there. */
    readonly unregister: (name: string) => Effect.Effect<boolean>
    /** An empty group whose tools leave when the scope closes. */
    readonly group: Effect.Effect<ToolGroup, never, Scope.Scope>
    /** What comes and goes from now on. A slow listener misses the oldest. */
    readonly changes: Stream.Stream<RegistryChange>
  }
>()("agcore/tools/ToolRegistry") {}

/** How many changes a slow listener may lag behind. */
const CHANGES_CAPACITY = 64

// =============================================================================
// Constructors
// =============================================================================

/**
 * An empty registry.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: Effect.Effect<ToolRegistry["Service"], never, PermissionPolicy> = Effect.gen(function*() {
  const stats = Stats.make()
  const admit = yield* makeAdmit(stats.record)
  const changes = yield* PubSub.sliding<RegistryChange>(CHANGES_CAPACITY)
  let current = Catalogue.empty({ admit, ask: yield* makeAsk })

  const commit = (next: Catalogue.Catalogue): Effect.Effect<void> => {
    if (next === current) return Effect.void
    const change = Catalogue.difference(current, next)
    current = next
    return Effect.asVoid(PubSub.publish(changes, change))
  }

  const implement = Effect.fnUntraced(function*<R>(tool: Tool.Tool<R>, options: RegisterOptions | undefined) {
    const originalName = tool.definition.name
    const fail = (reason: RegistrationError["reason"]) => new RegistrationError({ toolName: originalName, reason })
    if (!Names.isValid(originalName) && options?.names !== "map") return yield* fail(new InvalidName())
    if (tool.schemaProblem !== undefined) return yield* fail(new InvalidSchema({ problem: tool.schemaProblem }))
    const name = Names.toValid(originalName)
    const implementation = yield* tool.implementation
    const problem = implementation.schemaProblem
    if (problem !== undefined) return yield* fail(new InvalidSchema({ problem }))
    return { name, originalName, definition: { ...tool.definition, name }, implementation }
  })

  // Synchronous from reading `current` to writing it, so that no change is lost.
  const addAll = <R>(tools: ReadonlyArray<Tool.Tool<R>>, options: RegisterOptions | undefined) =>
    Effect.flatMap(Effect.forEach(tools, (tool) => implement(tool, options)), (items) => {
      const { catalogue, refused } = Catalogue.add(current, items)
      return refused[0] === undefined ? Effect.as(commit(catalogue), items) : Effect.fail(nameTaken(refused[0]))
    })

  const removeAll = (items: Iterable<Catalogue.Item>) => Effect.suspend(() => commit(Catalogue.remove(current, items)))

  const register: ToolRegistry["Service"]["register"] = (tool, options) => Effect.asVoid(addAll([tool], options))

  const group: ToolRegistry["Service"]["group"] = Effect.suspend(() => {
    let members: ReadonlyArray<Catalogue.Item> = []
    let isClosed = false
    const set = Effect.fnUntraced(function*<R>(tools: ReadonlyArray<Tool.Tool<R>>, options?: RegisterOptions) {
      const [items, unusable] = yield* Effect.partition(tools, (tool) => implement(tool, options))
      // Its scope may have closed meanwhile: nobody would remove the tools again.
      if (isClosed) return unusable
      const { catalogue, refused } = Catalogue.add(Catalogue.remove(current, members), items)
      members = items.filter((item) => !refused.includes(item))
      yield* commit(catalogue)
      return [...unusable, ...refused.map(nameTaken)]
    })
    return Effect.acquireRelease(Effect.succeed<ToolGroup>({ set }), () =>
      Effect.suspend(() => {
        isClosed = true
        return removeAll(members)
      }))
  })

  return ToolRegistry.of({
    ...makeView(Effect.sync(() => current.snapshot), stats.read),
    register,
    registerAll: (tools, options) => Effect.asVoid(addAll(tools, options)),
    registerScoped: (tool, options) =>
      Effect.asVoid(Effect.acquireRelease(addAll([tool], options), (items) => removeAll(items))),
    unregister: (name) =>
      Effect.suspend(() => {
        const item = current.items.get(name)
        return item === undefined ? Effect.succeed(false) : Effect.as(removeAll([item]), true)
      }),
    group,
    changes: Stream.fromPubSub(changes)
  })
})

// =============================================================================
// Layers
// =============================================================================

/**
 * Provides a registry with the given tools. It requires each tool's
 * implementation and a policy; two tools of one name, or one that cannot be
 * offered, are a defect.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <Tools extends ReadonlyArray<Tool.Tool<never> | Tool.Tool<unknown>>>(
  ...tools: Tools
): Layer.Layer<ToolRegistry, never, Tool.Requirements<Tools[number]> | PermissionPolicy> =>
  Layer.effect(
    ToolRegistry,
    Effect.tap(make, (registry) =>
      // Each tool's own requirement is lost in the array and given back by the Layer's type.
      Effect.orDie(registry.registerAll(tools as ReadonlyArray<Tool.Tool<Tool.Requirements<Tools[number]>>>)))
  )

// =============================================================================
// Internals
// =============================================================================

const nameTaken = ({ originalName }: Catalogue.Item): RegistrationError =>
  new RegistrationError({ toolName: originalName, reason: new DuplicateName() })

const makeView = (
  snapshot: Effect.Effect<ToolSnapshot>,
  stats: () => ReadonlyMap<string, ToolStats>
): ToolView => {
  const entries = Effect.map(snapshot, (tools) => tools.entries)

  const admit: ToolView["admit"] = (call, options) => Effect.flatMap(snapshot, (tools) => tools.admit(call, options))

  const invoke: ToolView["invoke"] = Effect.fnUntraced(function*(call, options) {
    const tools = yield* snapshot
    const invocation = yield* tools.settle(yield* tools.admit(call, options), options)
    if (invocation.error !== undefined) return yield* invocation.error
    return invocation
  })

  const invokeAll: ToolView["invokeAll"] = Effect.fnUntraced(function*(calls, options) {
    const tools = yield* snapshot
    const admissions = yield* Effect.forEach(
      calls,
      (call, index) => tools.admit({ ...call, index: call.index ?? index }, options)
    )
    const permits = yield* makePermits(options?.concurrency)
    return yield* Effect.forEach(
      admissions,
      (admission) => tools.settle(admission, options, { run: (accepted) => accepted.run({ permits }) }),
      { concurrency: "unbounded" }
    )
  })

  return {
    snapshot,
    get: (name) =>
      Effect.flatMap(snapshot, (tools) =>
        Effect.filterOrFail(
          Effect.sync(() => tools.get(name)),
          Predicate.isNotUndefined,
          () =>
            new ToolError({
              toolName: name,
              reason: new NotFound({ available: tools.entries.map((entry) => entry.name) })
            })
        )),
    list: entries,
    definitions: Effect.map(snapshot, (tools) => tools.definitions),
    findByTag: (tag) => Effect.map(entries, (list) => list.filter((entry) => entry.definition.tags.includes(tag))),
    findByCategory: (category) =>
      Effect.map(entries, (list) => list.filter((entry) => entry.definition.category === category)),
    groups: Effect.map(entries, (list) => Map.groupBy(list, (entry) => entry.definition.category ?? "")),
    stats: Effect.map(entries, (list) => {
      const all = stats()
      return new Map(list.flatMap((entry) => {
        const own = all.get(entry.name)
        return own === undefined ? [] : [[entry.name, own] as const]
      }))
    }),
    admit,
    invoke,
    invokeAll,
    toolkit: Effect.map(snapshot, (tools) => tools.toolkit),
    view: (filter) => makeView(Effect.map(snapshot, (tools) => tools.filter(filter)), stats)
  }
}
