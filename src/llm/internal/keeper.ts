/*
 * Saves a conversation after each step. Saves follow one another; one that would
 * write what a later one has already written is left out.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import type { CycleStore } from "../CycleStore.ts"
import type { CycleStoreError } from "../CycleStoreError.ts"
import { type Conversation, save } from "./conversation.ts"

/** Saves the conversation as it is now, or later. */
export type Keeper = (conversation: Conversation) => Effect.Effect<void, CycleStoreError>

/** `revision` is that of what is stored; 0 if nothing is. */
export const makeKeeper = (store: CycleStore["Service"], revision: number): Keeper => {
  const semaphore = Semaphore.makeUnsafe(1)
  let stored = revision
  let asked = 0
  let written = 0
  return (conversation) =>
    Effect.suspend(() => {
      const mine = ++asked
      // A save that has begun is not left halfway: what is stored would be unknown.
      return semaphore.withPermit(Effect.uninterruptible(Effect.suspend(() => {
        if (written >= mine) return Effect.void
        const includes = asked
        return Effect.flatMap(save(conversation, stored + 1), (saved) =>
          Effect.map(store.save(saved), () => {
            stored = saved.revision
            written = includes
          }))
      })))
    })
}
