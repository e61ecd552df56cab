/*
 * One submit at a time. Whoever would wait for itself is told so at once: a tool
 * that submits to the cycle it runs in, or the consumer of a stream that
 * submits before the stream has ended.
 */
import * as Channel from "effect/Channel"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { FIBER_STATE } from "../../internal/handlerContext.ts"
import { Busy, type CycleError, make as makeError } from "../CycleError.ts"

export interface Gate {
  readonly effect: <A, E>(submit: Effect.Effect<A, E>) => Effect.Effect<A, E | CycleError>
  readonly stream: <A, E>(submit: Stream.Stream<A, E>) => Stream.Stream<A, E | CycleError>
}

/** A submit behind a gate. Fibers it has started may outlive it. */
interface Visit {
  readonly gate: Gate
  isOver: boolean
}

/** The submits that the current fiber works for. */
const Inside: Context.Reference<ReadonlyArray<Visit>> = Context.Reference<ReadonlyArray<Visit>>(
  `${FIBER_STATE}Inside`,
  { defaultValue: () => [] }
)

export const makeGate = (): Gate => {
  const semaphore = Semaphore.makeUnsafe(1)
  // The fiber that last pulled from the stream behind the gate.
  let consumer: number | undefined

  const knock = Effect.withFiber((fiber) =>
    Effect.flatMap(Inside, (all) => {
      const inside = all.filter((visit) => !visit.isOver)
      if (fiber.id === consumer || inside.some((visit) => visit.gate === gate)) {
        return Effect.fail(makeError(new Busy()))
      }
      const visit: Visit = { gate, isOver: false }
      const leave = Effect.sync(() => {
        visit.isOver = true
        consumer = undefined
      })
      return Effect.succeed({ inside: [...inside, visit], leave })
    })
  )

  const watch = <A, E, R>(pull: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => {
      consumer = fiber.id
      return pull
    })

  const gate: Gate = {
    effect: (submit) =>
      Effect.flatMap(
        knock,
        ({ inside, leave }) =>
          semaphore.withPermit(Effect.ensuring(Effect.provideService(submit, Inside, inside), leave))
      ),
    // The scope is this stream's own: it closes when the stream ends, although
    // the pipeline it is part of may go on.
    stream: (submit) =>
      Stream.fromChannel(Channel.fromTransformBracket(Effect.fnUntraced(function*(upstream, _, scope) {
        const { inside, leave } = yield* knock
        yield* Scope.provide(semaphore.takeScoped(1), scope)
        yield* Scope.addFinalizer(scope, leave)
        const transform = Channel.toTransform(Stream.toChannel(Stream.provideService(submit, Inside, inside)))
        return yield* Effect.map(transform(upstream, scope), watch)
      })))
  }
  return gate
}
