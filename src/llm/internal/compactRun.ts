/*
 * Running strategies: one after the other, one in place of another, and none so
 * that its failure becomes the conversation's.
 */
import * as Effect from "effect/Effect"
import type { Compacted, CompactionState, Strategy } from "../CompactionStrategy.ts"

/** Each goes on with what the one before has left, until it fits. A failure is logged, and the next one's turn. */
export const sequence = <R>(strategies: ReadonlyArray<Strategy<R>>): Strategy<R> => ({
  name: strategies.map(({ name }) => name).join(", "),
  compact: Effect.fnUntraced(function*(start) {
    let state = start
    const used: Array<string> = []
    for (const strategy of strategies) {
      if (fits(state)) break
      const compacted = yield* attempt(strategy, state)
      if (compacted === undefined) continue
      state = state.after(compacted.messages)
      used.push(compacted.strategy)
    }
    return used.length === 0 ? undefined : { messages: state.messages, strategy: used.join(", ") }
  })
})

/** Goes back to another strategy where one fails. */
export const orElse = <R>(strategy: Strategy<R>, fallback: Strategy<R>): Strategy<R> => ({
  name: strategy.name,
  compact: (state) =>
    Effect.catchCause(
      Effect.suspend(() => strategy.compact(state)),
      (cause) =>
        Effect.andThen(
          Effect.logWarning(`The compaction "${strategy.name}" failed; "${fallback.name}" takes its place`, cause),
          fallback.compact(state)
        )
    )
})

/** A strategy that fails or dies has nothing to offer. */
export const attempt = <R>(
  { compact, name }: Strategy<R>,
  state: CompactionState
): Effect.Effect<Compacted | undefined, never, R> =>
  Effect.catchCause(
    Effect.suspend(() => compact(state)),
    (cause) => Effect.as(Effect.logWarning(`The compaction "${name}" failed; nothing of it is used`, cause), undefined)
  )

const fits = (state: CompactionState): boolean => state.tokens(state.messages) <= state.target
