/**
 * What a tool's handler can know about the call it serves.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Ref from "effect/Ref"

/**
 * The call that is being served. Each call gets its own.
 *
 * **Example** (Telling who asks)
 *
 * ```ts run
 * import { Permission, PermissionPolicy, Tool, ToolContext, ToolRegistry } from "agcore"
 * import { Effect, Layer, Schema } from "effect"
 *
 * class WhoAmI extends Tool.Service<WhoAmI>()("who_am_i", {
 *   description: "Names the session",
 *   success: Schema.String,
 *   permissions: [Permission.Read]
 * }) {}
 *
 * const WhoAmILive = WhoAmI.layer(() => ToolContext.ToolContext.useSync((context) => context.sessionId))
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   const invocation = yield* registry.invoke({ id: "1", name: "who_am_i", params: {} }, { sessionId: "s-1" })
 *   return invocation.output
 * }).pipe(
 *   Effect.provide(ToolRegistry.layer(WhoAmI).pipe(Layer.provide([WhoAmILive, PermissionPolicy.layer()])))
 * )
 *
 * await Effect.runPromise(program) // => "s-1"
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export class ToolContext extends Context.Service<ToolContext, {
  /** The conversation, or whatever the caller of the registry named. */
  readonly sessionId: string
  /** The trace the call belongs to; a generated id where nothing is traced. */
  readonly traceId: string
  /** The label the model gave to the call. Servers repeat them: not an identity. */
  readonly toolCallId: string
  /** The turn of the conversation that made the call, counted from 1; 0 outside of one. */
  readonly turn: number
  /** The position of the call among its siblings, counted from 0. */
  readonly index: number
  /** Stable over retries and restarts: the same call has the same key. */
  readonly idempotencyKey: string
  /** How much of the result a model is shown. A tool that can keeps to it by itself. */
  readonly maxResultBytes: number
  /**
   * Aborts when the call is told to stop. For Promise code; effects are simply
   * interrupted. A Promise that ignores it goes on unseen: where that matters,
   * make its effect uninterruptible, and the call says that it is still running.
   */
  readonly signal: AbortSignal
  /** Reports progress. Never waits: what nobody has room for is dropped. */
  readonly progress: (value: unknown) => Effect.Effect<void>
  /** State shared by all calls of one conversation, as long as it lives. */
  readonly sharedState: Ref.Ref<ReadonlyMap<string, unknown>>
}>()("agcore/tools/ToolContext") {}
