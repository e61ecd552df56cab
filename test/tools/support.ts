import { PermissionPolicy, Tool, type ToolInvocation, ToolRegistry } from "agcore"
import { Deferred, Effect, Fiber, type Schema } from "effect"
import { TestClock } from "effect/testing"

/** A registry with tools that run without asking anybody. */
export const registryOf = <R = never>(
  ...tools: ReadonlyArray<Tool.Tool<R>>
): Effect.Effect<ToolRegistry.ToolRegistry["Service"], never, R> =>
  ToolRegistry.make.pipe(
    Effect.tap((registry) => Effect.orDie(registry.registerAll(tools))),
    Effect.provide(PermissionPolicy.layerAllowAll)
  )

/** A call with its name as its label. */
export const call = (name: string, params: unknown = {}, id: string = name): ToolInvocation.ToolCall => ({
  id,
  name,
  params
})

/** A tool without parameters that does what it is given. */
export const tool = <R = never>(
  name: string,
  handler: Tool.DynamicOptions<R>["handler"],
  options?: Partial<Tool.DynamicOptions<R>>
): Tool.Tool<Tool.Captured<R>> =>
  Tool.dynamic<R>({ name, description: `Does ${name}`, inputSchema: { type: "object" }, handler, ...options })

export const succeed = (name: string, value: Schema.Json = name): Tool.Tool => tool(name, () => Effect.succeed(value))

/** A tool that tells when it is inside and stays there until it is let go. */
export const makeGate = (name: string, options?: Partial<Tool.DynamicOptions<never>>) => {
  const entered = Deferred.makeUnsafe<void>()
  const leave = Deferred.makeUnsafe<void>()
  return {
    entered: Deferred.await(entered),
    leave: Deferred.succeed(leave, undefined),
    tool: tool(
      name,
      () => Effect.andThen(Deferred.succeed(entered, undefined), Effect.as(Deferred.await(leave), name)),
      options
    )
  }
}

/** Lets everything that can run do so. */
export const settle: Effect.Effect<void> = Effect.repeat(Effect.yieldNow, { times: 20 })

/** The end of a fiber after time has passed under the test clock. */
export const after = <A, E>(fiber: Fiber.Fiber<A, E>, ...[duration]: Parameters<typeof TestClock.adjust>) =>
  settle.pipe(Effect.andThen(TestClock.adjust(duration)), Effect.andThen(Fiber.join(fiber)))
