/*
 * The loop that answers once, at the end: a recursive Effect. It recurses in
 * tail position, so a thousand turns need no more stack than one.
 */
import * as Effect from "effect/Effect"
import { type CycleError, ModelFailed } from "../CycleError.ts"
import type { CycleResponse } from "../CycleResponse.ts"
import * as Ask from "./ask.ts"
import { fail, type Submit } from "./conversation.ts"
import * as Turn from "./turn.ts"

export const plainLoop = (submit: Submit): Effect.Effect<CycleResponse, CycleError> =>
  Effect.flatMap(takeTurn(submit), (next) => {
    switch (next._tag) {
      case "Again":
        return plainLoop(submit)
      case "Done":
        return Effect.succeed(next.response)
      case "Fail":
        return Effect.fail(next.error)
    }
  })

const takeTurn = Effect.fnUntraced(function*(submit: Submit) {
  const request = yield* Turn.prepare(submit)
  const answer = yield* Effect.mapError(
    Ask.whole(request, submit.conversation.config),
    (error) => fail(submit, new ModelFailed({ error }))
  )
  const concluded = yield* Turn.conclude(submit, request, answer)
  return yield* concluded.settle
})
