/*
 * The loop that tells what happens while it happens: a Stream over the same
 * turns, pulled by its consumer.
 *
 * Parts of the model pass through in the chunks they arrive in, one pull for
 * one chunk, so a slow consumer slows the source. Tools do not wait for the
 * consumer: their events go through a queue with bounded room.
 */
import type * as Response from "effect/ai/Response"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Pull from "effect/Pull"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type CycleError, ModelFailed } from "../CycleError.ts"
import { CycleComplete, type CycleEvent } from "../CycleEvent.ts"
import * as History from "../History.ts"
import * as Answer from "./answer.ts"
import * as Ask from "./ask.ts"
import * as Compacting from "./compactTurn.ts"
import { fail, type Submit } from "./conversation.ts"
import { deltas } from "./deltas.ts"
import type { Next } from "./end.ts"
import type { Request } from "./request.ts"
import * as Spending from "./spending.ts"
import * as Turn from "./turn.ts"

/** Events of running tools that wait for the consumer; progress beyond it is dropped. */
const EVENT_CAPACITY = 64

/** What the next pull does; it may have nothing to tell and lead to another. */
type Step = Pull.Pull<ReadonlyArray<CycleEvent>, CycleError>

/** Takes turns until there is an answer; `resumed` is what an earlier turn has left to do. */
export const streamLoop = (
  submit: Submit,
  resumed?: Effect.Effect<Turn.Concluded, CycleError>
): Stream.Stream<CycleEvent, CycleError> =>
  Stream.unwrap(Effect.map(Effect.scope, (scope) => {
    submit.isHeard = true
    let step = takeTurns(submit, scope, resumed, (next) => {
      step = next
    })
    // A step without events leads to the next one.
    const pull: Pull.Pull<Arr.NonEmptyReadonlyArray<CycleEvent>, CycleError> = Effect.filterOrElse(
      Effect.suspend(() => step),
      Arr.isReadonlyArrayNonEmpty,
      () => pull
    )
    return Stream.fromPull(Effect.succeed(pull))
  }))

const takeTurns = (
  submit: Submit,
  scope: Scope.Scope,
  resumed: Effect.Effect<Turn.Concluded, CycleError> | undefined,
  goTo: (step: Step) => void
): Step => {
  const { conversation } = submit
  const modelFailed = (error: ModelFailed["error"]) => fail(submit, new ModelFailed({ error }))

  const start: Step = Effect.flatMap(Turn.prepare(submit), (prepared) => {
    if (prepared._tag !== "Ask") return goOn(prepared)
    const { request } = prepared
    goTo(ask(request, (error) =>
      Effect.map(Compacting.refit(submit, request, error), (shorter) => {
        goTo(ask(shorter, (error) => Effect.fail(modelFailed(error))))
        return shorter.events
      })))
    return Effect.succeed(request.events)
  })

  /** Sends a request; `refused` says how it goes on if that fails before anything was answered. */
  const ask = Effect.fnUntraced(function*(request: Request, refused: (error: ModelFailed["error"]) => Step) {
    const gathering = Answer.gather()
    const toEvents = deltas(conversation.history.turns + 1)
    const before = conversation.history
    conversation.history = History.draft(conversation.history, gathering)

    const receive = (parts: ReadonlyArray<Response.AnyPart>) => {
      for (const part of parts) gathering.add(part)
      return toEvents(parts)
    }
    const modelScope = yield* Scope.fork(scope)
    const outOfTime: Step = Effect.gen(function*() {
      yield* Scope.close(modelScope, Exit.void)
      const next = yield* Turn.outOfTime(submit, request, gathering.content())
      // What is asked again does not stand there twice.
      if (next._tag === "Done") conversation.history = before
      return yield* goOn(next)
    })
    const opened = yield* Spending.inTime(submit, Effect.result(Ask.open(request, conversation.config, modelScope)))
    if (opened === undefined) return yield* outOfTime
    if (Result.isFailure(opened)) {
      const events = yield* Spending.inTime(submit, refused(opened.failure))
      return events ?? (yield* outOfTime)
    }
    const { first, rest } = opened.success
    const conclude = Effect.andThen(
      Scope.close(modelScope, Exit.void),
      Effect.suspend(() => runTools(Turn.conclude(submit, request, gathering.end())))
    )
    goTo(
      first === undefined ? conclude : Pull.matchEffect(Spending.inTime(submit, rest), {
        onSuccess: (parts) => parts === undefined ? outOfTime : Effect.sync(() => receive(parts)),
        onFailure: (cause) => Effect.failCause(Cause.map(cause, modelFailed)),
        onDone: () => conclude
      })
    )
    return first === undefined ? [] : receive(first)
  })

  const runTools = Effect.fnUntraced(function*(concluded: Effect.Effect<Turn.Concluded, CycleError>) {
    const { events, settle } = yield* concluded
    const queue = yield* Queue.bounded<CycleEvent, Cause.Done>(EVENT_CAPACITY)
    submit.sink = {
      emit: (event) => Effect.asVoid(Queue.offer(queue, event)),
      offer: (event) => {
        Queue.offerUnsafe(queue, event)
      }
    }
    const running = yield* settle.pipe(
      Effect.onExit(() => Queue.end(queue)),
      Effect.forkIn(scope, { startImmediately: true })
    )
    goTo(Pull.catchDone(Queue.takeAll(queue), () => Effect.flatMap(Fiber.join(running), goOn)))
    return events
  })

  const goOn = (next: Next): Step => {
    switch (next._tag) {
      case "Again":
        goTo(start)
        return Effect.succeed([])
      case "Done": {
        const { cost, exceeded, finishReason: reason, pending, text, turns, usage, value } = next.response
        goTo(Cause.done())
        return Effect.succeed([
          new CycleComplete({
            text,
            usage,
            turns,
            reason,
            pending,
            ...(value === undefined ? undefined : { value }),
            ...(cost === undefined ? undefined : { cost }),
            ...(exceeded === undefined ? undefined : { exceeded })
          })
        ])
      }
      case "Fail":
        return Effect.fail(next.error)
    }
  }

  return resumed === undefined ? start : runTools(resumed)
}
