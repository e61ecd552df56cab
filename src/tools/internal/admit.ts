/*
 * Admission of a call: find → permission → decode → approval. Nothing of a tool
 * runs, its schema included, before the policy has answered, and nothing of its
 * handler before a person has, where one is to be asked.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Random from "effect/Random"
import { excerpt } from "../../internal/text.ts"
import * as Policy from "../PermissionPolicy.ts"
import type { Prepared } from "../Tool.ts"
import {
  ApprovalDenied,
  AwaitingAnswer,
  InvalidArguments,
  NotFound,
  PermissionDenied,
  ToolError,
  type ToolErrorReason
} from "../ToolError.ts"
import type { ToolCall, ToolInvocation } from "../ToolInvocation.ts"
import * as ToolSettings from "../ToolSettings.ts"
import type { Admission, Answered, InvokeOptions } from "../ToolSnapshot.ts"
import * as AuditRecord from "./auditRecord.ts"
import type { Admit, Item } from "./catalogue.ts"
import { type Check, decide } from "./check.ts"
import * as Questions from "./questions.ts"
import { failedWithin, type Identity, makeRun, type Ready, reasonOf } from "./run.ts"
import * as Telemetry from "./telemetry.ts"

/** How much of arguments that are not JSON is repeated. */
const MAX_RAW_CHARACTERS = 200

/** What is asked about a tool that needs approval by its own word. */
const DEFAULT_PROMPT = "This tool needs approval."

export const makeAdmit = Effect.fnUntraced(function*(record: (invocation: ToolInvocation) => void) {
  const check = yield* makeCheck
  const audit = yield* AuditRecord.make
  const run = yield* makeRun(record, audit)
  const maxResultBytes = yield* ToolSettings.MaxResultBytes
  const ownSession = `registry-${Math.abs(yield* Random.nextInt).toString(36)}`

  const reject = Effect.fnUntraced(function*(
    { call, identity, item, options }: Attempt,
    reason: ToolErrorReason
  ): Effect.fn.Return<Admission> {
    const invocation = failedWithin(options?.maxResultBytes ?? maxResultBytes, call, reason)
    const rejected: Admission = {
      _tag: "Rejected",
      call,
      error: new ToolError({ toolName: call.name, reason }),
      invocation
    }
    yield* audit.rejected({ call, tool: item?.definition, identity, actor: options?.actor }, reason)
    // A call that waits has no outcome yet.
    if (reason._tag === "AwaitingAnswer") return rejected
    // Models make names up: only those of tools are counted.
    if (item !== undefined) record(invocation)
    yield* Telemetry.record(invocation)
    return rejected
  })

  const accept = ({ available, identity, item, options }: Found, ready: Ready): Admission => ({
    _tag: "Accepted",
    call: ready.call,
    definition: item.definition,
    run: run(item, ready, identity, options, available)
  })

  /** Asks the policy, then decodes; `undefined` prompts for nothing. */
  const examine = Effect.fnUntraced(function*(
    { call, identity, item, options }: Found,
    input: unknown
  ): Effect.fn.Return<Examined> {
    const tool = item.definition
    const decision = yield* check({
      tool,
      input,
      sessionId: identity.sessionId,
      traceId: identity.traceId,
      toolCallId: call.id,
      turn: identity.turn
    }, options?.restrict)
    if (decision._tag === "Deny") {
      return {
        _tag: "Refused",
        reason: new PermissionDenied({ permissions: tool.permissions, explanation: decision.explanation })
      }
    }
    if (!Predicate.isObject(input)) return { _tag: "Refused", reason: notAnObject(input ?? null) }
    const prepared = yield* Effect.exit(Effect.suspend(() => item.implementation.prepare(input)))
    if (prepared._tag === "Failure") return { _tag: "Refused", reason: yield* reasonOf(call, prepared.cause) }
    const prompt = decision._tag === "Ask"
      ? decision.question
      : (yield* prepared.value.needsApproval)
      ? DEFAULT_PROMPT
      : undefined
    return { _tag: "Fit", prepared: prepared.value, prompt }
  })

  const ask = (attempt: Found): Effect.Effect<Admission> =>
    Effect.flatMap(examine(attempt, attempt.call.params), (examined) => {
      if (examined._tag === "Refused") return reject(attempt, examined.reason)
      const { prepared, prompt } = examined
      return prompt === undefined
        ? Effect.succeed(accept(attempt, { call: attempt.call, prepared }))
        : Effect.flatMap(
          Questions.approval(subjectOf(attempt), prompt),
          (question) => reject(attempt, new AwaitingAnswer({ question }))
        )
    })

  /** The answer is taken, or the question stays and says what is wrong with it. */
  const take = Effect.fnUntraced(function*(attempt: Found, answered: Answered): Effect.fn.Return<Admission> {
    const { call } = attempt
    const { question } = answered
    const unfit = (problem: string) => reject(attempt, new AwaitingAnswer({ question, problem }))
    const isCurrent = yield* Questions.isCurrent(subjectOf(attempt), question)
    if (!isCurrent) {
      // It has begun already: to begin again could do it twice.
      return yield* question._tag === "Input"
        ? reject(attempt, new ApprovalDenied({ explanation: CHANGED }))
        : ask(attempt)
    }
    const meaning = Questions.meaningOf(answered)
    switch (meaning._tag) {
      case "Unfit":
        return yield* unfit(meaning.problem)
      case "Denied":
        return yield* reject(attempt, new ApprovalDenied({ explanation: meaning.reason }))
      case "Approved": {
        const examined = yield* examine(attempt, meaning.input)
        if (examined._tag === "Fit") {
          return accept(attempt, {
            call: { ...call, params: meaning.input },
            prepared: examined.prepared,
            isEdited: meaning.isEdited
          })
        }
        return yield* (meaning.isEdited ? unfit(examined.reason.message) : reject(attempt, examined.reason))
      }
      case "Replied": {
        const examined = yield* examine(attempt, question.input)
        if (examined._tag === "Refused") return yield* reject(attempt, examined.reason)
        const reply = { context: meaning.context, answer: meaning.value }
        const problem = yield* examined.prepared.checkReply(reply)
        if (problem !== undefined) return yield* unfit(problem)
        return accept(attempt, {
          call: { ...call, params: question.input },
          prepared: examined.prepared,
          reply,
          round: question._tag === "Input" ? question.round + 1 : 0
        })
      }
    }
  })

  const admit: Admit = Effect.fnUntraced(function*(item, available, call, options) {
    const attempt = { item, available, call, options, identity: yield* identify(call, options, ownSession) }
    if (!isFound(attempt)) return yield* reject(attempt, new NotFound({ available: available() }))
    return yield* Effect.catchCause(
      options?.answered === undefined ? ask(attempt) : take(attempt, options.answered),
      (cause) => Effect.flatMap(reasonOf(call, cause), (reason) => reject(attempt, reason))
    )
  })
  return admit
})

/** A call that asks for admission. */
interface Attempt {
  /** The tool, if there is one of that name. */
  readonly item: Item | undefined
  /** The names of the tools that are offered beside it. */
  readonly available: () => ReadonlyArray<string>
  readonly call: ToolCall
  readonly options: InvokeOptions | undefined
  readonly identity: Identity
}

type Found = Attempt & { readonly item: Item }

const isFound = (attempt: Attempt): attempt is Found => attempt.item !== undefined

const subjectOf = ({ call, identity, item }: Found): Questions.Subject => ({ tool: item.definition, call, identity })

const CHANGED = "the tool has changed since it asked"

/** What the policy and the tool's schema say of arguments. */
type Examined =
  | { readonly _tag: "Refused"; readonly reason: ToolErrorReason }
  | {
    readonly _tag: "Fit"
    readonly prepared: Prepared
    /** What a person is to be asked; `undefined` if nobody is. */
    readonly prompt: string | undefined
  }

const identify = (
  call: ToolCall,
  options: InvokeOptions | undefined,
  ownSession: string
): Effect.Effect<Identity> => {
  const sessionId = options?.sessionId ?? ownSession
  const turn = call.turn ?? 0
  const index = call.index ?? 0
  const identity = {
    sessionId,
    turn,
    index,
    // Outside of a conversation the label is all there is; servers repeat it in one batch.
    idempotencyKey: turn === 0 ? `${sessionId}/0/${index}/${call.id}` : `${sessionId}/${turn}/${index}`
  }
  return options?.traceId === undefined
    ? Effect.match(Effect.currentSpan, {
      onFailure: () => ({ ...identity, traceId: sessionId }),
      onSuccess: (span) => ({ ...identity, traceId: span.traceId })
    })
    : Effect.succeed({ ...identity, traceId: options.traceId })
}

const makeCheck = Effect.map(
  Policy.PermissionPolicy,
  (policy) => (request: Policy.Request, restrict: Check | undefined): Effect.Effect<Policy.Decision> =>
    restrict === undefined
      ? decide(policy.check, request)
      : Effect.zipWith(decide(policy.check, request), decide(restrict, request), Policy.strictest)
)

const notAnObject = (input: unknown): InvalidArguments =>
  new InvalidArguments({
    input,
    issue: typeof input === "string"
      ? `expected a JSON object, got text that is none: ${excerpt(input, MAX_RAW_CHARACTERS)}`
      : "expected a JSON object"
  })
