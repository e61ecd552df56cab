/*
 * The loop that answers once, at the end: a recursive Effect. It recurses in
 * tail position, so a thousand turns need no more stack than one.
 */
import * as Effect from "effect/Effect"
import { type CycleError, ModelFailed } from "../CycleError.ts"
import type { CycleResponse } from "../CycleResponse.ts"
import * as Ask from "./ask.ts"
import * as Compacting from "./compactTurn.ts"
import { fail, type Submit } from "./conversation.ts"
import * as Spending from "./spending.ts"
import * as Turn from "./turn.ts"

/** Takes turns until there is an answer; `resumed` is what an earlier turn has left to do. */
export const plainLoop = (
  submit: Submit,
  resumed?: Effect.Effect<Turn.Concluded, CycleError>
): Effect.Effect<CycleResponse, CycleError> => {
  // It may have begun in a stream that somebody left.
  submit.isHeard = false
  return Effect.flatMap(
    resumed === undefined ? takeTurn(submit) : Effect.flatMap(resumed, ({ settle }) => settle),
    (next) => {
      switch (next._tag) {
        case "Again":
          return plainLoop(submit)
        case "Done":
          return Effect.succeed(next.response)
        case "Fail":
          return Effect.fail(next.error)
      }
    }
  )
}

const takeTurn = Effect.fnUntraced(function*(submit: Submit) {
  const { config } = submit.conversation
  const prepared = yield* Turn.prepare(submit)
  if (prepared._tag !== "Ask") return prepared
  let { request } = prepared
  const asking = Effect.catch(
    Ask.whole(request, config),
    (error) =>
      Effect.flatMap(Compacting.refit(submit, request, error), (shorter) => {
        request = shorter
        return Effect.mapError(Ask.whole(shorter, config), (error) => fail(submit, new ModelFailed({ error })))
      })
  )
  const answer = yield* Spending.inTime(submit, asking)
  if (answer === undefined) return yield* Turn.outOfTime(submit, request, [])
  const concluded = yield* Turn.conclude(submit, request, answer)
  return yield* concluded.settle
})
