/*
 * What a policy says of a call. It fails closed: only what is clearly a decision
 * counts as one.
 */
import * as Effect from "effect/Effect"
import * as Policy from "../PermissionPolicy.ts"

/** Decides about one call, or one that would be made again. */
export type Check = Policy.PermissionPolicy["Service"]["check"]

export const decide = (check: Check, request: Policy.Request): Effect.Effect<Policy.Decision> =>
  Effect.suspend(() => check(request)).pipe(
    Effect.map((decision) => isDecision(decision) ? decision : Policy.deny("the policy's answer was not clear")),
    Effect.catchCause((cause) =>
      Effect.as(
        Effect.logError(`The policy failed to decide on "${request.tool.name}"`, cause),
        Policy.deny("the policy failed")
      )
    )
  )

// Its type may promise more than it keeps.
const isDecision = (decision: Policy.Decision): boolean =>
  decision._tag === "Allow" || decision._tag === "Deny" || decision._tag === "Ask"
