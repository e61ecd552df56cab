/**
 * The tools of one moment: immutable, in a stable order, ready to be offered to
 * a model and to admit its calls.
 *
 * A turn of a conversation uses one snapshot from its first byte to its last
 * result, whatever changes in the registry meanwhile.
 *
 * @since 0.1.0
 */
import type * as AiTool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Ref from "effect/Ref"
import type * as Schema from "effect/Schema"
import type * as Semaphore from "effect/Semaphore"
import type { Decision, Request } from "./PermissionPolicy.ts"
import type { Answer, Question } from "./Question.ts"
import type { Definition } from "./Tool.ts"
import type { ToolError, ToolErrorReason } from "./ToolError.ts"
import type { ToolCall, ToolInvocation } from "./ToolInvocation.ts"

/**
 * A registered tool.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolEntry {
  /** The name that models use; unique in the registry. */
  readonly name: string
  /** The name the tool was defined with, where it had to be mapped. */
  readonly originalName: string
  readonly definition: Definition
}

/**
 * Which tools to keep: those that fit every field that is given.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolFilter {
  /** One of these. */
  readonly names?: ReadonlyArray<string> | undefined
  /** At least one of these. */
  readonly tags?: ReadonlyArray<string> | undefined
  /** One of these. */
  readonly categories?: ReadonlyArray<string> | undefined
  /** Those that fit a predicate of your own. */
  readonly where?: ((definition: Definition) => boolean) | undefined
}

/**
 * What a call of the registry may say about its circumstances.
 *
 * @category options
 * @since 0.1.0
 */
export interface InvokeOptions {
  /** The conversation. Default: an id of the registry's own. */
  readonly sessionId?: string | undefined
  /** Default: the trace of the current span, or the session id. */
  readonly traceId?: string | undefined
  /** On whose behalf the call is made, for the audit log. Default: it does not say. */
  readonly actor?: string | undefined
  /** Limit of one run. A tool's own comes first. Default: `ToolSettings.Timeout`, 60 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** What a model is told at the most. Default: `ToolSettings.MaxResultBytes`, 64 KiB. */
  readonly maxResultBytes?: number | undefined
  /** Hears of a call's progress. Must not block: it is called from the tool's fiber. */
  readonly onProgress?: ((value: unknown, call: ToolCall) => void) | undefined
  /**
   * Hears of each value of a streamed result, encoded, the last one included.
   * Must not block. Default: `onProgress`.
   */
  readonly onPartialResult?: ((value: Schema.Json, call: ToolCall) => void) | undefined
  /**
   * Decides beside the registry's policy, and can only be stricter. One that
   * dies denies. Default: the registry's policy alone decides.
   */
  readonly restrict?: ((request: Request) => Effect.Effect<Decision>) | undefined
  /** The answer to a question that this very call has led to. Default: none. */
  readonly answered?: Answered | undefined
  /** Default: fresh for each call. */
  readonly sharedState?: Ref.Ref<ReadonlyMap<string, unknown>> | undefined
}

/**
 * A question about a call and what was answered. It holds for that call of that
 * tool with those arguments, and for nothing else.
 *
 * @category models
 * @since 0.1.0
 */
export interface Answered {
  readonly question: Question
  readonly answer: Answer
}

/**
 * How an accepted call is run beside others.
 *
 * @category options
 * @since 0.1.0
 */
export interface RunOptions {
  /** One permit is held while the tool runs, taken after its exclusivity key. Default: none needed. */
  readonly permits?: Semaphore.Semaphore | undefined
  /** Asked when waiting is over: a reason not to run after all. Default: there is none. */
  readonly refuse?: Effect.Effect<ToolErrorReason | undefined> | undefined
  /** Called when waiting is over and the tool starts. Must not block. */
  readonly onStart?: (() => void) | undefined
  /** Stops the run when it ends, as its timeout does, if that comes first. Default: nothing else stops it. */
  readonly until?: Effect.Effect<void> | undefined
}

/**
 * A call that may run. `run` never fails: what happens is in the invocation.
 *
 * @category models
 * @since 0.1.0
 */
export interface Accepted {
  readonly _tag: "Accepted"
  readonly call: ToolCall
  readonly definition: Definition
  /** Runs the call, once for each time the effect is run. */
  readonly run: (options?: RunOptions) => Effect.Effect<ToolInvocation>
}

/**
 * Who hears of a call on its way to an outcome.
 *
 * @category options
 * @since 0.1.0
 */
export interface SettleOptions {
  /** Runs an accepted call. Default: its own `run`, once. */
  readonly run?: ((accepted: Accepted) => Effect.Effect<ToolInvocation>) | undefined
  /** Hears of a question before anybody is asked. Default: nobody does. */
  readonly onQuestion?: ((question: Question) => Effect.Effect<void>) | undefined
  /** Hears what became of the call when its question was answered. Default: nobody does. */
  readonly onAnswered?: ((admission: Admission) => Effect.Effect<void>) | undefined
  /** Stands around the wait for an answer. Default: nothing does. */
  readonly whileAsking?: (<A>(wait: Effect.Effect<A>) => Effect.Effect<A>) | undefined
}

/**
 * A call that is answered without having run, or waits for somebody's answer:
 * then the error's reason is `AwaitingAnswer`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Rejected {
  readonly _tag: "Rejected"
  readonly call: ToolCall
  readonly error: ToolError
  readonly invocation: ToolInvocation
}

/**
 * The answer to a call, before anything of the tool has run.
 *
 * @category models
 * @since 0.1.0
 */
export type Admission = Accepted | Rejected

/**
 * A registry's tools in the form effect/ai takes: described by JSON Schema,
 * answering with JSON, needing nothing, never failing.
 *
 * @category models
 * @since 0.1.0
 */
export type RegistryToolkit = Toolkit.WithHandler<
  Record<
    string,
    AiTool.Tool<string, {
      readonly parameters: typeof Schema.Unknown
      readonly success: typeof Schema.Json
      readonly failure: typeof Schema.Json
      readonly failureMode: "return"
    }>
  >
>

/**
 * The tools of one moment.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolSnapshot {
  /** Grows with every change of the registry. */
  readonly revision: number
  /** In the order of their names: prompt caches depend on it. */
  readonly entries: ReadonlyArray<ToolEntry>
  readonly definitions: ReadonlyArray<Definition>
  /** The tool of that name, if it is among them. */
  readonly get: (name: string) => ToolEntry | undefined
  /** The tools for code that calls a `LanguageModel` itself; calls keep to policy, timeout and limits. */
  readonly toolkit: RegistryToolkit
  /** Finds the tool, asks the policy, decodes the arguments: in this order. */
  readonly admit: (call: ToolCall, options?: InvokeOptions) => Effect.Effect<Admission>
  /**
   * Brings an admitted call to its outcome: runs it, and asks the `Approver`
   * where it waits for an answer. Without one it ends as `AwaitingAnswer`.
   * `options` are those it was admitted with.
   */
  readonly settle: (
    admission: Admission,
    options?: InvokeOptions,
    settleOptions?: SettleOptions
  ) => Effect.Effect<ToolInvocation>
  /** The same moment with fewer tools. Equal sets are the same object. */
  readonly filter: (filter: ToolFilter) => ToolSnapshot
}
