/**
 * Decides whether a tool call may run.
 *
 * The policy is asked before anything of the tool runs, its schema included. It
 * fails closed: a policy that fails or dies denies, and a call that a question is
 * open about does not run.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as HandlerContext from "../internal/handlerContext.ts"
import { Permission } from "./Permission.ts"
import type { Answer, Question } from "./Question.ts"
import type { Definition } from "./Tool.ts"

// =============================================================================
// Models
// =============================================================================

/**
 * The call may run.
 *
 * @category models
 * @since 0.1.0
 */
export interface Allow {
  readonly _tag: "Allow"
}

/**
 * The call may not run. `explanation` is for people; the model is not told.
 *
 * @category models
 * @since 0.1.0
 */
export interface Deny {
  readonly _tag: "Deny"
  readonly explanation: string
}

/**
 * Somebody has to decide: the `Approver`, or whoever resumes the conversation.
 *
 * @category models
 * @since 0.1.0
 */
export interface Ask {
  readonly _tag: "Ask"
  readonly question: string
}

/**
 * A policy's answer.
 *
 * @category models
 * @since 0.1.0
 */
export type Decision = Allow | Deny | Ask

/**
 * What a policy decides from.
 *
 * @category models
 * @since 0.1.0
 */
export interface Request {
  readonly tool: Definition
  /** The JSON arguments as they came, not validated. */
  readonly input: unknown
  readonly sessionId: string
  readonly traceId: string
  readonly toolCallId: string
  /** The turn of the conversation, counted from 1; 0 outside of one. */
  readonly turn: number
}

/**
 * The call may run.
 *
 * @category constructors
 * @since 0.1.0
 */
export const allow: Decision = { _tag: "Allow" }

/**
 * The call may not run, and why.
 *
 * @category constructors
 * @since 0.1.0
 */
export const deny = (explanation: string): Decision => ({ _tag: "Deny", explanation })

/**
 * Somebody decides; `question` is what they are asked.
 *
 * @category constructors
 * @since 0.1.0
 */
export const ask = (question: string): Decision => ({ _tag: "Ask", question })

// =============================================================================
// Services
// =============================================================================

/**
 * The policy in force. Several registries can share one.
 *
 * **Example** (A policy of one's own)
 *
 * ```ts run
 * import { PermissionPolicy } from "agcore"
 * import { Effect } from "effect"
 *
 * const OfficeHours = PermissionPolicy.layerCheck((request) =>
 *   Effect.succeed(
 *     request.tool.name === "deploy" ? PermissionPolicy.ask("Deploy now?") : PermissionPolicy.allow
 *   )
 * )
 *
 * const program = PermissionPolicy.PermissionPolicy.useSync((policy) => typeof policy.check).pipe(
 *   Effect.provide(OfficeHours)
 * )
 *
 * await Effect.runPromise(program) // => "function"
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export class PermissionPolicy extends Context.Service<PermissionPolicy, {
  /** Decides on one call. A defect denies. */
  readonly check: (request: Request) => Effect.Effect<Decision>
}>()("agcore/tools/PermissionPolicy") {}

/**
 * Answers questions while their calls wait: a person, or what stands in for one.
 * It is asked what the policy answers with `ask`, what a tool needs approval
 * for, and what a tool asks back. A defect, an answer to something else, or
 * silence for `ApprovalTimeout` denies the call.
 *
 * Default: nobody is there. Then a conversation ends with `awaiting-input` and
 * goes on when it is resumed with the answers; elsewhere the call fails with
 * `AwaitingAnswer`.
 *
 * @category references
 * @since 0.1.0
 */
export const Approver: Context.Reference<((question: Question) => Effect.Effect<Answer>) | undefined> = Context
  .Reference<((question: Question) => Effect.Effect<Answer>) | undefined>(
    "agcore/tools/PermissionPolicy/Approver",
    { defaultValue: () => undefined }
  )

/**
 * How long the `Approver` may take before its silence denies the call. Default
 * 5 minutes.
 *
 * @category references
 * @since 0.1.0
 */
export const ApprovalTimeout: Context.Reference<Duration.Duration> = Context.Reference<Duration.Duration>(
  "agcore/tools/PermissionPolicy/ApprovalTimeout",
  { defaultValue: () => Duration.minutes(5) }
)

// =============================================================================
// Rules
// =============================================================================

const DEFAULT = {
  allowed: Effect.succeed<ReadonlyArray<Permission>>(["read", "network"]),
  denied: Effect.succeed<ReadonlyArray<Permission>>(["delete", "shell"]),
  allowUnspecified: Effect.succeed(true)
}

/**
 * Rules by permission. Default: read and network are allowed, delete and shell
 * denied, and a tool that declares nothing is allowed.
 *
 * @category schemas
 * @since 0.1.0
 */
export class PermissionConfig extends Schema.Class<PermissionConfig>("agcore/tools/PermissionConfig")({
  /** Permissions that are granted. Empty: whatever is not denied is decided by `allowUnspecified`. */
  allowed: Schema.Array(Permission).pipe(
    Schema.withDecodingDefaultKey(DEFAULT.allowed),
    Schema.withConstructorDefault(DEFAULT.allowed)
  ),
  /** Permissions that are refused, whatever else is said of them. */
  denied: Schema.Array(Permission).pipe(
    Schema.withDecodingDefaultKey(DEFAULT.denied),
    Schema.withConstructorDefault(DEFAULT.denied)
  ),
  /** What happens where nothing is said: tools that declare no permission, and an empty `allowed`. */
  allowUnspecified: Schema.Boolean.pipe(
    Schema.withDecodingDefaultKey(DEFAULT.allowUnspecified),
    Schema.withConstructorDefault(DEFAULT.allowUnspecified)
  )
}) {}

/**
 * Applies rules to one permission: denied wins, then allowed; a list of allowed
 * permissions excludes what it does not name, an empty one leaves it to
 * `allowUnspecified`.
 *
 * @category rules
 * @since 0.1.0
 */
export const isAllowed = (config: PermissionConfig, permission: Permission): boolean =>
  !config.denied.includes(permission) &&
  (config.allowed.includes(permission) || (config.allowed.length === 0 && config.allowUnspecified))

/**
 * Applies rules to all permissions a tool declares: one refused permission
 * refuses the tool.
 *
 * **Example** (Denied wins over allowed)
 *
 * ```ts run
 * import { PermissionPolicy } from "agcore"
 *
 * const config = new PermissionPolicy.PermissionConfig({ allowed: ["read", "write"], denied: ["write"] })
 *
 * PermissionPolicy.decide(config, ["read"])._tag // => "Allow"
 * PermissionPolicy.decide(config, ["read", "write"])._tag // => "Deny"
 * ```
 *
 * @category rules
 * @since 0.1.0
 */
export const decide = (config: PermissionConfig, permissions: ReadonlyArray<Permission>): Decision => {
  if (permissions.length === 0) {
    return config.allowUnspecified ? allow : deny("it declares no permission, and that is not allowed")
  }
  const refused = permissions.filter((permission) => !isAllowed(config, permission))
  return refused.length === 0 ? allow : deny(`it needs ${refused.join(", ")}`)
}

/**
 * What two policies decide together: the stricter of their decisions. One that
 * denies denies; two questions become one.
 *
 * **Example** (A question beside a denial)
 *
 * ```ts run
 * import { PermissionPolicy } from "agcore"
 *
 * PermissionPolicy.strictest(PermissionPolicy.ask("Sure?"), PermissionPolicy.deny("no"))._tag // => "Deny"
 * PermissionPolicy.strictest(PermissionPolicy.allow, PermissionPolicy.ask("Sure?"))._tag // => "Ask"
 * ```
 *
 * @category rules
 * @since 0.1.0
 */
export const strictest = (a: Decision, b: Decision): Decision => {
  if (a._tag === "Deny" || b._tag === "Deny") return a._tag === "Deny" ? a : b
  if (a._tag === "Ask" && b._tag === "Ask" && a.question !== b.question) return ask(`${a.question} ${b.question}`)
  return a._tag === "Ask" ? a : b
}

// =============================================================================
// Layers
// =============================================================================

/**
 * Decides by rules, the default ones where nothing else is said.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  config?: {
    /** Permissions that are granted. Default read and network. */
    readonly allowed?: ReadonlyArray<Permission> | undefined
    /** Permissions that are refused. Default delete and shell. */
    readonly denied?: ReadonlyArray<Permission> | undefined
    /** Whether what nothing is said about is granted. Default `true`. */
    readonly allowUnspecified?: boolean | undefined
  }
): Layer.Layer<PermissionPolicy> => {
  const defaults = new PermissionConfig({})
  const rules = new PermissionConfig({
    allowed: config?.allowed ?? defaults.allowed,
    denied: config?.denied ?? defaults.denied,
    allowUnspecified: config?.allowUnspecified ?? defaults.allowUnspecified
  })
  return Layer.succeed(PermissionPolicy, {
    check: (request) => Effect.succeed(decide(rules, request.tool.permissions))
  })
}

/**
 * Allows every call: the explicit way to check nothing.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerAllowAll: Layer.Layer<PermissionPolicy> = Layer.succeed(PermissionPolicy, {
  check: () => Effect.succeed(allow)
})

/**
 * Decides by a function; what it requires is captured when the Layer is built.
 * A function that fails or dies denies, and the cause is logged.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerCheck = <E = never, R = never>(
  check: (request: Request) => Effect.Effect<Decision, E, R>
): Layer.Layer<PermissionPolicy, never, R> =>
  Layer.effect(
    PermissionPolicy,
    Effect.map(Effect.context<R>(), (context) => {
      const withServices = HandlerContext.provider(context)
      return {
        check: (request) =>
          withServices<Decision, E, never>(Effect.suspend(() => check(request))).pipe(
            Effect.catchCause((cause) =>
              Effect.as(
                Effect.logError(`The policy failed to decide on "${request.tool.name}"`, cause),
                deny("the policy failed to decide")
              )
            )
          )
      }
    })
  )
