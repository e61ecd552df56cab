/**
 * Failures of tools: looking one up, authorising it, running it.
 *
 * Every operation fails with one `ToolError`; what went wrong is its `reason`.
 * A reason holds facts. Whether the model is told or the conversation stops is
 * the caller's policy; `isRecoverable` says whether another try by the model
 * can help.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { excerpt, messageOf } from "../internal/text.ts"
import { Question } from "./Question.ts"

const TypeId = "~agcore/tools/ToolError" as const

/** How much of a foreign description is repeated in a message to the model. */
const MAX_DETAIL_CHARACTERS = 1_000

// =============================================================================
// Reasons
// =============================================================================

/**
 * No tool of that name is offered. `available` lists the names the caller could
 * have used, never those hidden from it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NotFound extends Schema.TaggedError<NotFound>("agcore/tools/ToolError/NotFound")("NotFound", {
  available: Schema.Array(Schema.String)
}) {
  readonly isRecoverable = false
  override get message(): string {
    return this.available.length === 0
      ? "not found; no tools are available"
      : `not found; available: ${this.available.join(", ")}`
  }
}

/**
 * The tool ran and did not succeed.
 *
 * `origin` says how: `failure` is the tool's typed failure, whose encoded form
 * is in `failure`; `defect` is an unexpected error, kept in `cause`; `result`
 * is an answer that does not fit the tool's own schema.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ExecutionFailed
  extends Schema.TaggedError<ExecutionFailed>("agcore/tools/ToolError/ExecutionFailed")("ExecutionFailed", {
    origin: Schema.Literals(["failure", "defect", "result"]),
    failure: Schema.optionalKey(Schema.Json),
    cause: Schema.optionalKey(Schema.Defect())
  })
{
  readonly isRecoverable = true
  override get message(): string {
    switch (this.origin) {
      case "failure":
        return `failed: ${excerpt(toText(this.failure), MAX_DETAIL_CHARACTERS)}`
      case "defect":
        return `failed unexpectedly: ${excerpt(messageOf(this.cause), MAX_DETAIL_CHARACTERS)}`
      case "result":
        return `answered with a value that does not fit its schema: ${
          excerpt(messageOf(this.cause), MAX_DETAIL_CHARACTERS)
        }`
    }
  }
}

/**
 * The arguments do not match the tool's parameters, or are not JSON.
 * `input` is what arrived.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidArguments
  extends Schema.TaggedError<InvalidArguments>("agcore/tools/ToolError/InvalidArguments")("InvalidArguments", {
    issue: Schema.String,
    input: Schema.Unknown
  })
{
  readonly isRecoverable = true
  override get message(): string {
    return `invalid arguments: ${excerpt(this.issue, MAX_DETAIL_CHARACTERS)}`
  }
}

/**
 * The policy refused the call. `explanation` is the policy's own, for people.
 *
 * @category reasons
 * @since 0.1.0
 */
export class PermissionDenied
  extends Schema.TaggedError<PermissionDenied>("agcore/tools/ToolError/PermissionDenied")("PermissionDenied", {
    permissions: Schema.Array(Schema.String),
    explanation: Schema.String
  })
{
  readonly isRecoverable = false
  override get message(): string {
    return `permission denied: ${this.explanation}`
  }
}

/**
 * Somebody who was asked said no, or nobody gave a clear answer. `explanation`
 * is told to the model.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ApprovalDenied
  extends Schema.TaggedError<ApprovalDenied>("agcore/tools/ToolError/ApprovalDenied")("ApprovalDenied", {
    explanation: Schema.String
  })
{
  readonly isRecoverable = true
  override get message(): string {
    return `not approved: ${excerpt(this.explanation, MAX_DETAIL_CHARACTERS)}`
  }
}

/**
 * The call waits for a person's answer to `question`, and nobody can be asked
 * here. It goes on when it is made again together with the answer. `problem`
 * says why an answer could not be taken.
 *
 * @category reasons
 * @since 0.1.0
 */
export class AwaitingAnswer
  extends Schema.TaggedError<AwaitingAnswer>("agcore/tools/ToolError/AwaitingAnswer")("AwaitingAnswer", {
    question: Question,
    problem: Schema.optionalKey(Schema.String)
  })
{
  readonly isRecoverable = false
  override get message(): string {
    return this.problem === undefined
      ? `waits for an answer to: ${excerpt(this.question.prompt, MAX_DETAIL_CHARACTERS)}`
      : `cannot take the answer: ${excerpt(this.problem, MAX_DETAIL_CHARACTERS)}`
  }
}

/**
 * The tool took longer than allowed. `stopped` says whether its work has ended
 * or goes on in the background because it does not react to interruption.
 *
 * @category reasons
 * @since 0.1.0
 */
export class TimedOut extends Schema.TaggedError<TimedOut>("agcore/tools/ToolError/TimedOut")("TimedOut", {
  timeoutMillis: Schema.Finite,
  stopped: Schema.Boolean
}) {
  readonly isRecoverable = true
  override get message(): string {
    return `timed out after ${this.timeoutMillis} ms; ${
      this.stopped ? "its work was stopped" : "its work is still running and may yet take effect"
    }`
  }
}

/**
 * The call was never run, for a cause outside of it.
 *
 * `incomplete`: the model's response was cut off. `sibling`: another call of
 * the turn was refused. `turnLimit`, `budget`: the conversation reached its
 * limit. `interrupted`: it was stopped before the call ran. `busy`: an earlier
 * call that holds the same exclusivity key timed out and is still running.
 * `unsaved`: the conversation could not be saved before it ran. `unaudited`: it
 * could not be written to the audit log before it ran.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NotExecuted extends Schema.TaggedError<NotExecuted>("agcore/tools/ToolError/NotExecuted")("NotExecuted", {
  why: Schema.Literals(["incomplete", "sibling", "turnLimit", "budget", "interrupted", "busy", "unsaved", "unaudited"])
}) {
  get isRecoverable(): boolean {
    return this.why === "busy"
  }
  override get message(): string {
    return `not executed: ${NOT_EXECUTED[this.why]}`
  }
}

const NOT_EXECUTED = {
  incomplete: "the response that asked for it was incomplete",
  sibling: "another call of the same turn was refused",
  turnLimit: "the limit of turns was reached",
  budget: "the budget is used up",
  interrupted: "the conversation was interrupted before it ran",
  unsaved: "the conversation could not be saved before it ran",
  unaudited: "it could not be recorded before it ran",
  busy: "an earlier call that excludes this one is still running"
} as const

/**
 * The MCP server behind the tool failed or refused the request. `code` and
 * `data` are those of its JSON-RPC error, if it sent one.
 *
 * @category reasons
 * @since 0.1.0
 */
export class McpError extends Schema.TaggedError<McpError>("agcore/tools/ToolError/McpError")("McpError", {
  server: Schema.String,
  description: Schema.String,
  code: Schema.optionalKey(Schema.Finite),
  data: Schema.optionalKey(Schema.Unknown),
  cause: Schema.optionalKey(Schema.Defect())
}) {
  readonly isRecoverable = false
  override get message(): string {
    return `MCP server "${this.server}": ${this.description}${this.code === undefined ? "" : ` (${this.code})`}`
  }
}

/**
 * The MCP server behind the tool is not connected.
 *
 * @category reasons
 * @since 0.1.0
 */
export class McpNotInitialized
  extends Schema.TaggedError<McpNotInitialized>("agcore/tools/ToolError/McpNotInitialized")("McpNotInitialized", {
    server: Schema.String
  })
{
  readonly isRecoverable = false
  override get message(): string {
    return `MCP server "${this.server}" is not connected`
  }
}

/**
 * The MCP server behind the tool did not answer in time.
 *
 * @category reasons
 * @since 0.1.0
 */
export class McpTimeout extends Schema.TaggedError<McpTimeout>("agcore/tools/ToolError/McpTimeout")("McpTimeout", {
  server: Schema.String,
  timeoutMillis: Schema.Finite
}) {
  readonly isRecoverable = false
  override get message(): string {
    return `MCP server "${this.server}" did not answer within ${this.timeoutMillis} ms`
  }
}

/**
 * The world outside failed the tool: a file, a socket, a process.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Io extends Schema.TaggedError<Io>("agcore/tools/ToolError/Io")("Io", {
  description: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  readonly isRecoverable = false
  override get message(): string {
    return `input or output failed: ${this.description}`
  }
}

/**
 * Anything else a tool wants to report; `description` is told to the model.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Other extends Schema.TaggedError<Other>("agcore/tools/ToolError/Other")("Other", {
  description: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  readonly isRecoverable = true
  override get message(): string {
    return this.description
  }
}

/**
 * Schema of every reason a tool operation can fail for.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolErrorReason: Schema.Union<[
  typeof NotFound,
  typeof ExecutionFailed,
  typeof InvalidArguments,
  typeof PermissionDenied,
  typeof ApprovalDenied,
  typeof AwaitingAnswer,
  typeof TimedOut,
  typeof NotExecuted,
  typeof McpError,
  typeof McpNotInitialized,
  typeof McpTimeout,
  typeof Io,
  typeof Other
]> = Schema.Union([
  NotFound,
  ExecutionFailed,
  InvalidArguments,
  PermissionDenied,
  ApprovalDenied,
  AwaitingAnswer,
  TimedOut,
  NotExecuted,
  McpError,
  McpNotInitialized,
  McpTimeout,
  Io,
  Other
])

/**
 * Why a tool operation failed.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolErrorReason = typeof ToolErrorReason.Type

// =============================================================================
// Error
// =============================================================================

/**
 * The single failure type of the tool system.
 *
 * **Example** (Recovering from one reason)
 *
 * ```ts run
 * import { ToolError } from "agcore"
 * import { Effect } from "effect"
 *
 * const lookup = Effect.fail(
 *   new ToolError.ToolError({ toolName: "search", reason: new ToolError.NotFound({ available: ["fetch"] }) })
 * )
 *
 * const program = lookup.pipe(
 *   Effect.catchReason("ToolError", "NotFound", (reason) => Effect.succeed(reason.available))
 * )
 *
 * await Effect.runPromise(program) // => ["fetch"]
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class ToolError extends Schema.TaggedError<ToolError>("agcore/tools/ToolError")("ToolError", {
  toolName: Schema.String,
  reason: ToolErrorReason
}) {
  readonly [TypeId] = TypeId

  override readonly cause = this.reason

  override get message(): string {
    return `Tool "${this.toolName}": ${this.reason.message}`
  }

  /**
   * Whether the model, told about it, may succeed by trying differently.
   */
  get isRecoverable(): boolean {
    return this.reason.isRecoverable
  }

  /**
   * What a model is told: short, without hidden tools, paths or stacks.
   */
  get modelMessage(): string {
    const reason = this.reason
    switch (reason._tag) {
      case "ExecutionFailed":
        return reason.origin === "failure" ? toText(reason.failure) : "The tool failed unexpectedly."
      case "PermissionDenied":
        return "Permission denied."
      case "AwaitingAnswer":
        return "Not executed: it waits for an answer from the user."
      case "McpError":
      case "McpNotInitialized":
      case "McpTimeout":
        return "The server behind this tool did not complete the call."
      case "Io":
        return "The tool could not complete its input or output."
      default:
        return `Error: ${reason.message}`
    }
  }
}

/**
 * Returns whether a value is a `ToolError`.
 *
 * @category guards
 * @since 0.1.0
 */
export const isToolError = (u: unknown): u is ToolError => Predicate.hasProperty(u, TypeId)

// =============================================================================
// Internals
// =============================================================================

const toText = (json: unknown): string => typeof json === "string" ? json : JSON.stringify(json) ?? ""
