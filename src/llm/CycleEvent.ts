/**
 * What happens in a conversation, as it happens.
 *
 * ```text
 * turn    := HistoryCompacted*  delta*  calls  TurnComplete  running
 * delta   := AssistantTextDelta | AssistantReasoningDelta | ToolCallDelta | ModelPart
 * calls   := (ToolCallRejected | ToolApprovalRequested | ToolExecutionStarted)*
 * running := (ToolExecutionProgress | ToolExecutionCompleted | ToolInputRequested
 *          |  ToolCallRejected | ToolExecutionStarted | SubAgentEvent)*
 * cycle   := turn+  CycleComplete
 * resumed := calls  running  turn*  CycleComplete
 * ```
 *
 * A request that a budget of time stops ends with its deltas; `paused`, it is
 * asked again.
 *
 * A stream ends with `CycleComplete` or fails with a `CycleError`, never both.
 * Each `ToolExecutionStarted` has exactly one `ToolExecutionCompleted`, or one
 * `ToolInputRequested` where the tool asks back, unless the stream is
 * interrupted. A call that somebody was asked about starts, or is rejected, when
 * the answer has come: at once with an `Approver`, else when the conversation is
 * resumed. Turns are counted from 1 over the whole
 * conversation, calls of a turn from 0.
 *
 * @since 0.1.0
 */
import * as Response from "effect/ai/Response"
import * as Schema from "effect/Schema"
import * as Question from "../tools/Question.ts"
import { ToolError } from "../tools/ToolError.ts"
import { BudgetExceeded } from "./CycleError.ts"
import { FinishReason } from "./CycleResponse.ts"

const call = {
  turn: Schema.Finite,
  index: Schema.Finite,
  toolCallId: Schema.String,
  toolName: Schema.String
}

/**
 * The transcript was made shorter before the model is asked, see `Compaction`.
 *
 * @category events
 * @since 0.1.0
 */
export class HistoryCompacted extends Schema.TaggedClass<HistoryCompacted>("agcore/llm/CycleEvent/HistoryCompacted")(
  "HistoryCompacted",
  {
    /** The turn to come. */
    turn: Schema.Finite,
    /** What was done, `function` where the configuration has one. */
    strategy: Schema.String,
    messagesBefore: Schema.Finite,
    messagesAfter: Schema.Finite,
    /** What the request came to, instructions and tools included, as far as is known; of a `function`, the messages. */
    tokensBefore: Schema.Finite,
    tokensAfter: Schema.Finite,
    /** Whether the provider had refused the longer one. */
    isRefused: Schema.Boolean
  }
) {}

/**
 * The next piece of the answer's text.
 *
 * @category events
 * @since 0.1.0
 */
export class AssistantTextDelta
  extends Schema.TaggedClass<AssistantTextDelta>("agcore/llm/CycleEvent/AssistantTextDelta")("AssistantTextDelta", {
    turn: Schema.Finite,
    delta: Schema.String
  })
{}

/**
 * The next piece of the model's reasoning.
 *
 * @category events
 * @since 0.1.0
 */
export class AssistantReasoningDelta
  extends Schema.TaggedClass<AssistantReasoningDelta>("agcore/llm/CycleEvent/AssistantReasoningDelta")(
    "AssistantReasoningDelta",
    { turn: Schema.Finite, delta: Schema.String }
  )
{}

/**
 * The next piece of a call's arguments, for display only: they are not complete
 * JSON, and the call may yet be refused.
 *
 * @category events
 * @since 0.1.0
 */
export class ToolCallDelta extends Schema.TaggedClass<ToolCallDelta>("agcore/llm/CycleEvent/ToolCallDelta")(
  "ToolCallDelta",
  {
    turn: Schema.Finite,
    /** The provider's id of the call, which may differ from `toolCallId` later. */
    id: Schema.String,
    toolName: Schema.String,
    delta: Schema.String
  }
) {}

/**
 * Anything else in the response: a file, a source, what the provider did itself
 * or says went wrong. `part` is the effect/ai response part.
 *
 * @category events
 * @since 0.1.0
 */
export class ModelPart extends Schema.TaggedClass<ModelPart>("agcore/llm/CycleEvent/ModelPart")("ModelPart", {
  turn: Schema.Finite,
  part: Schema.Union([
    Response.FilePart,
    Response.DocumentSourcePart,
    Response.UrlSourcePart,
    Response.ResponseMetadataPart,
    Schema.Struct({ type: Schema.String, value: Schema.Unknown })
  ])
}) {}

/**
 * A call that is answered without having run.
 *
 * @category events
 * @since 0.1.0
 */
export class ToolCallRejected extends Schema.TaggedClass<ToolCallRejected>("agcore/llm/CycleEvent/ToolCallRejected")(
  "ToolCallRejected",
  { ...call, input: Schema.Unknown, error: ToolError }
) {}

/**
 * A call waits for somebody's approval; nothing of it has run.
 *
 * @category events
 * @since 0.1.0
 */
export class ToolApprovalRequested
  extends Schema.TaggedClass<ToolApprovalRequested>("agcore/llm/CycleEvent/ToolApprovalRequested")(
    "ToolApprovalRequested",
    { ...call, question: Question.Approval }
  )
{}

/**
 * A tool asks back: its call goes on when somebody has answered.
 *
 * @category events
 * @since 0.1.0
 */
export class ToolInputRequested
  extends Schema.TaggedClass<ToolInputRequested>("agcore/llm/CycleEvent/ToolInputRequested")(
    "ToolInputRequested",
    { ...call, question: Question.Input }
  )
{}

/**
 * A call was accepted for execution. `input` is what it runs with.
 *
 * @category events
 * @since 0.1.0
 */
export class ToolExecutionStarted
  extends Schema.TaggedClass<ToolExecutionStarted>("agcore/llm/CycleEvent/ToolExecutionStarted")(
    "ToolExecutionStarted",
    { ...call, input: Schema.Unknown }
  )
{}

/**
 * A running tool reported progress. Dropped when the consumer is behind.
 *
 * @category events
 * @since 0.1.0
 */
export class ToolExecutionProgress
  extends Schema.TaggedClass<ToolExecutionProgress>("agcore/llm/CycleEvent/ToolExecutionProgress")(
    "ToolExecutionProgress",
    { ...call, value: Schema.Unknown }
  )
{}

/**
 * A started call has an outcome. `output` is the whole result; `truncated` says
 * whether the model is told less.
 *
 * @category events
 * @since 0.1.0
 */
export class ToolExecutionCompleted
  extends Schema.TaggedClass<ToolExecutionCompleted>("agcore/llm/CycleEvent/ToolExecutionCompleted")(
    "ToolExecutionCompleted",
    {
      ...call,
      output: Schema.optionalKey(Schema.Json),
      error: Schema.optionalKey(ToolError),
      isFailure: Schema.Boolean,
      durationMillis: Schema.Finite,
      truncated: Schema.Boolean
    }
  )
{}

/**
 * The model has answered; what it called is running or was refused.
 *
 * @category events
 * @since 0.1.0
 */
export class TurnComplete extends Schema.TaggedClass<TurnComplete>("agcore/llm/CycleEvent/TurnComplete")(
  "TurnComplete",
  { turn: Schema.Finite, reason: Response.FinishReason, usage: Response.Usage }
) {}

/**
 * The conversation has come to rest. If `reason` is `awaiting-input`, `pending`
 * are the questions to answer. `text` is that of the last turn, `usage`
 * the sum over all turns of the submit, `turns` their number.
 *
 * @category events
 * @since 0.1.0
 */
export class CycleComplete extends Schema.TaggedClass<CycleComplete>("agcore/llm/CycleEvent/CycleComplete")(
  "CycleComplete",
  {
    text: Schema.String,
    usage: Response.Usage,
    turns: Schema.Finite,
    reason: FinishReason,
    /** In the currency of `pricing`; absent where something has no price. */
    cost: Schema.optionalKey(Schema.Finite),
    /** The limit of the budget that made the submit pause, or conclude. */
    exceeded: Schema.optionalKey(BudgetExceeded),
    pending: Schema.Array(Question.Question),
    /** The answer of `submitStreamObject` as JSON. */
    value: Schema.optionalKey(Schema.Json)
  }
) {}

/**
 * Something happened in a sub-agent that the call runs. Deltas and progress are
 * dropped when the consumer is behind.
 *
 * @category events
 * @since 0.1.0
 */
export class SubAgentEvent extends Schema.TaggedClass<SubAgentEvent>("agcore/llm/CycleEvent/SubAgentEvent")(
  "SubAgentEvent",
  { ...call, event: Schema.suspend((): Schema.Codec<CycleEvent, unknown> => CycleEvent) }
) {}

/**
 * Schema of all events, for storing and sending them.
 *
 * **Example** (Sending an event as JSON)
 *
 * ```ts run
 * import { CycleEvent } from "agcore"
 * import { Schema } from "effect"
 *
 * const encode = Schema.encodeUnknownSync(Schema.toCodecJson(CycleEvent.CycleEvent))
 *
 * encode(new CycleEvent.AssistantTextDelta({ turn: 1, delta: "Hi" })) // => { _tag: "AssistantTextDelta", turn: 1, delta: "Hi" }
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const CycleEvent: Schema.Union<[
  typeof HistoryCompacted,
  typeof AssistantTextDelta,
  typeof AssistantReasoningDelta,
  typeof ToolCallDelta,
  typeof ModelPart,
  typeof ToolCallRejected,
  typeof ToolApprovalRequested,
  typeof ToolInputRequested,
  typeof ToolExecutionStarted,
  typeof ToolExecutionProgress,
  typeof ToolExecutionCompleted,
  typeof SubAgentEvent,
  typeof TurnComplete,
  typeof CycleComplete
]> = Schema.Union([
  HistoryCompacted,
  AssistantTextDelta,
  AssistantReasoningDelta,
  ToolCallDelta,
  ModelPart,
  ToolCallRejected,
  ToolApprovalRequested,
  ToolInputRequested,
  ToolExecutionStarted,
  ToolExecutionProgress,
  ToolExecutionCompleted,
  SubAgentEvent,
  TurnComplete,
  CycleComplete
])

/**
 * Something that happened in a conversation.
 *
 * @category models
 * @since 0.1.0
 */
// Written out: an event may hold others.
export type CycleEvent =
  | HistoryCompacted
  | AssistantTextDelta
  | AssistantReasoningDelta
  | ToolCallDelta
  | ModelPart
  | ToolCallRejected
  | ToolApprovalRequested
  | ToolInputRequested
  | ToolExecutionStarted
  | ToolExecutionProgress
  | ToolExecutionCompleted
  | SubAgentEvent
  | TurnComplete
  | CycleComplete
