/*
 * Admission of a call: find → permission → decode. Nothing of a tool runs, its
 * schema included, before the policy has answered.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Random from "effect/Random"
import { excerpt } from "../../internal/text.ts"
import * as Policy from "../PermissionPolicy.ts"
import { InvalidArguments, NotFound, PermissionDenied, ToolError, type ToolErrorReason } from "../ToolError.ts"
import type { ToolCall, ToolInvocation } from "../ToolInvocation.ts"
import * as ToolSettings from "../ToolSettings.ts"
import type { Admission, InvokeOptions } from "../ToolSnapshot.ts"
import type { Admit, Item } from "./catalogue.ts"
import { failedWithin, type Identity, makeRun, reasonOf } from "./run.ts"
import { supervise } from "./supervise.ts"
import * as Telemetry from "./telemetry.ts"

/** How much of arguments that are not JSON is repeated. */
const MAX_RAW_CHARACTERS = 200

export const makeAdmit = Effect.fnUntraced(function*(record: (invocation: ToolInvocation) => void) {
  const ask = yield* makeAsk
  const run = yield* makeRun(record)
  const maxResultBytes = yield* ToolSettings.MaxResultBytes
  const ownSession = `registry-${Math.abs(yield* Random.nextInt).toString(36)}`

  const admit: Admit = Effect.fnUntraced(function*(item, available, call, options) {
    const reject = (reason: ToolErrorReason): Effect.Effect<Admission> => {
      const invocation = failedWithin(options?.maxResultBytes ?? maxResultBytes, call, reason)
      // Models make names up: only those of tools are counted.
      if (item !== undefined) record(invocation)
      return Effect.as(Telemetry.record(invocation), {
        _tag: "Rejected",
        call,
        error: new ToolError({ toolName: call.name, reason }),
        invocation
      })
    }

    if (item === undefined) return yield* reject(new NotFound({ available: available() }))
    const identity = yield* identify(call, options, ownSession)
    const denial = yield* ask(item, call, identity)
    if (denial !== undefined) return yield* reject(denial)
    if (!Predicate.isObject(call.params)) return yield* reject(notAnObject(call.params ?? null))
    const prepared = yield* Effect.exit(Effect.suspend(() => item.implementation.prepare(call.params)))
    return prepared._tag === "Success"
      ? { _tag: "Accepted", call, definition: item.definition, run: run(item, call, prepared.value, identity, options) }
      : yield* reject(yield* reasonOf(call, prepared.cause))
  })
  return admit
})

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

// Fails closed: only an explicit yes lets a call pass.
const makeAsk = Effect.gen(function*() {
  const policy = yield* Policy.PermissionPolicy
  const approver = yield* Policy.Approver
  const approvalTimeout = yield* Policy.ApprovalTimeout

  return (item: Item, call: ToolCall, identity: Identity): Effect.Effect<PermissionDenied | undefined> => {
    const tool = item.definition
    const request: Policy.Request = {
      tool,
      input: call.params,
      sessionId: identity.sessionId,
      traceId: identity.traceId,
      toolCallId: call.id,
      turn: identity.turn
    }
    const denied = (explanation: string) => new PermissionDenied({ permissions: tool.permissions, explanation })
    return Effect.suspend(() => policy.check(request)).pipe(
      Effect.flatMap((decision) => {
        if (decision._tag === "Allow") return Effect.undefined
        if (decision._tag !== "Ask") return Effect.succeed(denied(decision.explanation))
        return Effect.flatMap(
          supervise(Effect.suspend(() => approver(request, decision.question)), {
            timeout: approvalTimeout,
            gracePeriod: Duration.zero,
            onStop: () => {},
            onAbandon: () => {}
          }),
          (outcome) =>
            outcome._tag === "TimedOut"
              ? Effect.succeed(denied("nobody approved it in time"))
              : Effect.map(outcome.exit, (approved) => approved === true ? undefined : denied("it was not approved"))
        )
      }),
      Effect.catchCause((cause) =>
        Effect.as(Effect.logError(`The policy failed to decide on "${tool.name}"`, cause), denied("the policy failed"))
      )
    )
  }
})

const notAnObject = (input: unknown): InvalidArguments =>
  new InvalidArguments({
    input,
    issue: typeof input === "string"
      ? `expected a JSON object, got text that is none: ${excerpt(input, MAX_RAW_CHARACTERS)}`
      : "expected a JSON object"
  })
