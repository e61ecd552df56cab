/*
 * Brings an admitted call to its outcome: runs it, and asks whoever can answer
 * where it waits. Anything but a clear yes denies.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Policy from "../PermissionPolicy.ts"
import * as Question from "../Question.ts"
import { AwaitingAnswer } from "../ToolError.ts"
import type { ToolInvocation } from "../ToolInvocation.ts"
import type { Accepted, Admission, InvokeOptions, SettleOptions, ToolSnapshot } from "../ToolSnapshot.ts"
import { supervise } from "./supervise.ts"

/** Asks somebody; `undefined` where nobody can be asked. */
export type Ask = (question: Question.Question) => Effect.Effect<Question.Answer | undefined>

export const makeAsk: Effect.Effect<Ask> = Effect.gen(function*() {
  const approver = yield* Policy.Approver
  const timeout = yield* Policy.ApprovalTimeout
  const nobody: Ask = () => Effect.undefined
  if (approver === undefined) return nobody

  const somebody: Ask = (question) =>
    supervise(Effect.suspend(() => approver(question)), {
      timeout,
      gracePeriod: Duration.zero,
      onStop: () => {},
      onAbandon: () => {}
    }).pipe(
      Effect.flatMap((outcome) => {
        if (outcome._tag === "TimedOut") return Effect.succeed(Question.deny(question, "nobody answered in time"))
        return Exit.isSuccess(outcome.exit)
          ? Effect.succeed(clear(question, outcome.exit.value))
          : Effect.as(
            Effect.logError(`Nobody could be asked about "${question.toolName}"`, outcome.exit.cause),
            Question.deny(question, "nobody could be asked")
          )
      })
    )
  return somebody
})

/** How often one call may ask back before it counts as one that never ends. */
const MAX_QUESTIONS = 100

export const makeSettle = (ask: Ask, admit: ToolSnapshot["admit"]): ToolSnapshot["settle"] => {
  const settle = Effect.fnUntraced(function*(
    admission: Admission,
    options: InvokeOptions | undefined,
    hooks: SettleOptions | undefined,
    asked: number
  ): Effect.fn.Return<ToolInvocation> {
    const run = hooks?.run ?? ((accepted: Accepted) => accepted.run())
    const invocation = admission._tag === "Rejected" ? admission.invocation : yield* run(admission)
    const reason = invocation.error?.reason
    if (reason?._tag !== "AwaitingAnswer") return invocation
    const { problem, question } = reason
    if (problem === undefined && hooks?.onQuestion !== undefined) yield* hooks.onQuestion(question)
    const answer = problem !== undefined
      ? Question.deny(question, problem)
      : asked >= MAX_QUESTIONS
      ? Question.deny(question, "it has asked too often")
      : yield* (hooks?.whileAsking === undefined ? ask(question) : hooks.whileAsking(ask(question)))
    if (answer === undefined) return invocation
    const again = yield* admit(admission.call, { ...options, answered: { question, answer } })
    if (hooks?.onAnswered !== undefined && !isWaiting(again)) yield* hooks.onAnswered(again)
    return yield* settle(again, options, hooks, asked + 1)
  })
  return (admission, options, hooks) => settle(admission, options, hooks, 0)
}

// What is no answer at all, by its type or by what it names, is a no.
const clear = (question: Question.Question, answer: unknown): Question.Answer =>
  isAnswer(answer) && answer.questionId === question.id ? answer : Question.deny(question, "the answer was not clear")

const isAnswer = Schema.is(Question.Answer)

const isWaiting = (admission: Admission): boolean =>
  admission._tag === "Rejected" && admission.error.reason instanceof AwaitingAnswer
