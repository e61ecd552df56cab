/*
 * Conversations in memory, as the texts that other stores keep: what comes back is never what was given.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Backend, NewRevision } from "../CycleStore.ts"
import { Conflict } from "../CycleStoreError.ts"

export const makeMemory: Effect.Effect<Backend> = Effect.sync(() => {
  const sessions = new Map<string, NewRevision>()
  return {
    read: (sessionId) => Effect.sync(() => sessions.get(sessionId)),
    write: (sessionId, stored) =>
      Effect.suspend(() => {
        const expected = stored.revision - 1
        const found = sessions.get(sessionId)?.revision ?? 0
        if (found !== expected) return Effect.fail(new Conflict({ expected, found }))
        // Its text is made when somebody reads it.
        sessions.set(sessionId, stored)
        return Effect.void
      }),
    remove: (sessionId) => Effect.sync(() => void sessions.delete(sessionId)),
    list: Stream.suspend(() => Stream.fromArray(Array.from(sessions.keys())))
  }
})
