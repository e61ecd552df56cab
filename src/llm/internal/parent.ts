/*
 * What a tool can know of the cycle it runs in: enough to be a cycle itself.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import { FIBER_STATE } from "../../internal/handlerContext.ts"
import type { Decision, Request } from "../../tools/PermissionPolicy.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { CycleEvent } from "../CycleEvent.ts"

export interface Parent {
  readonly sessionId: string
  readonly model: LanguageModel.LanguageModel
  readonly registry: ToolRegistry["Service"]
  /** The tools that were offered in the turn that made the call. */
  readonly toolNames: ReadonlyArray<string>
  readonly restrict: ((request: Request) => Effect.Effect<Decision>) | undefined
  /** Whether somebody listens to events. */
  readonly isStreaming: boolean
  /** May wait for room; every event arrives. */
  readonly emit: (event: CycleEvent) => Effect.Effect<void>
  /** Never waits; without room the event is dropped. */
  readonly offer: (event: CycleEvent) => void
  /** Counts tokens that were used on behalf of the submit. */
  readonly charge: (usage: Response.Usage) => void
  /** How many cycles this one runs inside of. */
  readonly depth: number
}

/** The cycle that the current fiber runs a tool for. */
export const CurrentParent: Context.Reference<Parent | undefined> = Context.Reference<Parent | undefined>(
  `${FIBER_STATE}Parent`,
  { defaultValue: () => undefined }
)
