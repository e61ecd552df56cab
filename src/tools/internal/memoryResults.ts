/*
 * Results in memory, the oldest of which make room for new ones.
 */
import * as Effect from "effect/Effect"
import type { Backend, ResultKey, StoredResult } from "../ResultStore.ts"
import { Io, NotFound, ResultStoreError, TooLarge } from "../ResultStoreError.ts"
import * as Ledger from "./ledger.ts"
import * as StoredHeader from "./storedHeader.ts"

interface Kept {
  readonly sessionId: string
  readonly info: StoredResult
  readonly text: Uint8Array
}

export const makeMemoryBackend = (maxBytes: number): Backend => {
  const results = new Map<string, Kept>()
  const ledger = Ledger.make(maxBytes)

  const remove = (name: string): boolean => {
    ledger.remove(name)
    return results.delete(name)
  }

  return {
    put: Effect.fnUntraced(function*(key, info, text) {
      // What describes it counts too: arguments can be as large as results.
      const sizeBytes = text.length + (yield* describe(info)).length
      if (sizeBytes > maxBytes) {
        return yield* new ResultStoreError({ reason: new TooLarge({ sizeBytes, maxBytes }) })
      }
      const name = nameOf(key)
      results.set(name, { sessionId: key.sessionId, info, text })
      for (const oldest of ledger.add(name, sizeBytes)) results.delete(oldest)
    }),
    open: (key) =>
      Effect.suspend(() => {
        const found = results.get(nameOf(key))
        return found === undefined
          ? Effect.fail(new ResultStoreError({ reason: new NotFound({ handle: key.handle }) }))
          : Effect.succeed({
            info: found.info,
            read: (offset, length) => Effect.sync(() => found.text.subarray(offset, offset + length))
          })
      }),
    remove: (key) => Effect.sync(() => remove(nameOf(key))),
    removeSession: (sessionId) =>
      Effect.sync(() => {
        const own = Array.from(results).filter(([, kept]) => kept.sessionId === sessionId)
        for (const [name] of own) remove(name)
        return own.length
      })
  }
}

/** What is kept beside the text. Fails for arguments that are not JSON. */
export const describe = (info: StoredResult): Effect.Effect<Uint8Array<ArrayBuffer>, ResultStoreError> =>
  Effect.try({
    try: () => StoredHeader.write(info),
    catch: (cause) =>
      new ResultStoreError({ reason: new Io({ description: "what describes the result is not JSON", cause }) })
  })

// A handle has no line break.
const nameOf = ({ handle, sessionId }: ResultKey): string => `${handle}\n${sessionId}`
