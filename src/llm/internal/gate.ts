/*
 * One submit at a time. Whoever would wait for itself is told so at once: a tool
 * that submits to the cycle it runs in, or the consumer of a stream that
 * submits before the stream has ended.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { FIBER_STATE } from "../../internal/handlerContext.ts"
import { Busy, type CycleError, make as makeError } from "../CycleError.ts"

/** The gates that the current fiber works behind. */
const Inside: Context.Reference<ReadonlySet<Gate>> = Context.Reference<ReadonlySet<Gate>>(`${FIBER_STATE}Inside`, {
  defaultValue: () => new Set<Gate>()
})

export interface Gate {
  readonly effect: <A, E>(submit: Effect.Effect<A, E>) => Effect.Effect<A, E | CycleError>
  readonly stream: <A, E>(submit: Stream.Stream<A, E>) => Stream.Stream<A, E | CycleError>
}

export const makeGate = (): Gate => {
  const semaphore = Semaphore.makeUnsafe(1)
  // The fiber that last pulled from the stream behind the gate.
  let consumer: number | undefined

  const enter: Effect.Effect<ReadonlySet<Gate>, CycleError> = Effect.withFiber((fiber) =>
    Effect.flatMap(Inside, (inside) =>
      inside.has(gate) || fiber.id === consumer
        ? Effect.fail(makeError(new Busy()))
        : Effect.succeed(new Set(inside).add(gate)))
  )

  const gate: Gate = {
    effect: (submit) =>
      Effect.flatMap(enter, (inside) => semaphore.withPermit(Effect.provideService(submit, Inside, inside))),
    stream: (submit) =>
      Stream.unwrap(Effect.gen(function*() {
        const inside = yield* enter
        yield* semaphore.takeScoped(1)
        yield* Effect.addFinalizer(() => Effect.sync(() => consumer = undefined))
        return Stream.transformPull(Stream.provideService(submit, Inside, inside), (pull) =>
          Effect.succeed(Effect.withFiber((fiber) => {
            consumer = fiber.id
            return pull
          })))
      }))
  }
  return gate
}
