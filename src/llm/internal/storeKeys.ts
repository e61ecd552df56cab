/*
 * Conversations in a KeyValueStore, which can neither compare and swap nor promise that a value is set whole.
 *
 * A conversation has three keys: `name` says which revision is stored, and revisions are kept by turns at `name.0` and
 * `name.1`. The one before is whole while the next is written, and the pointer follows when that is there. So a process
 * may be killed at any point. Writers of this process wait for each other; others are found out as well as can be.
 */
import * as WebCrypto from "effect/crypto/WebCrypto"
import * as Effect from "effect/Effect"
import type * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { Backend, Stored } from "../CycleStore.ts"
import { Conflict, Corrupt, type CycleStoreErrorReason, Io } from "../CycleStoreError.ts"
import { isWhole } from "./storeFormat.ts"
import { idOf, isHashed, nameOf } from "./storeNames.ts"

/** How often reading starts again because somebody saves meanwhile. */
const MAX_READS = 20

/** How many pointers are read at a time to learn ids. */
const LIST_CONCURRENCY = 8

type Store = KeyValueStore.KeyValueStore
type Failure = KeyValueStore.KeyValueStoreError | CycleStoreErrorReason

/** Says which revision is stored, by which save, and whose it is. */
const Pointer = Schema.Struct({ revision: Schema.Finite, writer: Schema.String, sessionId: Schema.String })
type Pointer = typeof Pointer.Type

/**
 * What the pointer's key says: the pointer, a document that somebody put there by hand, or something that was cut off
 * while it was set.
 */
type Found =
  | { readonly _tag: "Nothing" }
  | { readonly _tag: "Pointer"; readonly pointer: Pointer }
  | { readonly _tag: "Document"; readonly text: string }
  | { readonly _tag: "Torn" }

export const makeKeys = Effect.fnUntraced(function*(store: Store, prefix: string): Effect.fn.Return<Backend> {
  const crypto = yield* WebCrypto.WebCrypto
  // The type is said here: without the DOM's library `crypto` has none.
  const makeToken = (): string => crypto.randomUUID()

  const keyOf = (sessionId: string) => Effect.map(nameOf(sessionId), (name) => prefix + name)
  const slotOf = (key: string, revision: number) => `${key}.${revision % 2}`
  const foundAt = (key: string) => Effect.map(store.get(key), foundIn)

  /** Both revisions, as far as they are whole, the newest first. */
  const slots = (key: string) =>
    Effect.map(
      Effect.forEach([0, 1], (slot) => Effect.map(store.get(slotOf(key, slot)), storedIn)),
      (both) => both.filter((stored) => stored !== undefined).toSorted((a, b) => b.revision - a.revision)
    )

  // ===========================================================================
  // Reading
  // ===========================================================================

  const read = Effect.fnUntraced(function*(sessionId: string) {
    const key = yield* keyOf(sessionId)
    for (let reads = 0; reads < MAX_READS; reads++) {
      const found = yield* foundAt(key)
      if (found._tag === "Nothing") return undefined
      if (found._tag === "Document") return { revision: 1, text: found.text }
      if (found._tag === "Torn") {
        const [newest] = yield* slots(key)
        if (newest !== undefined) return newest
        return yield* new Corrupt({ issue: "the entry that says where it is kept is damaged" })
      }
      const { revision } = found.pointer
      const stored = storedIn(yield* store.get(slotOf(key, revision)))
      if (stored?.revision === revision) return stored
      if (isSame(yield* foundAt(key), found.pointer)) return yield* readOlder(key, revision)
    }
    return yield* new Io({ description: "it is saved more often than it can be read" })
  })

  /** The revision before a damaged one, under the number of the damaged one, which is taken. */
  const readOlder = Effect.fnUntraced(function*(key: string, damaged: number) {
    const [older] = (yield* slots(key)).filter(({ revision }) => revision < damaged)
    if (older === undefined) {
      return yield* new Corrupt({ issue: `revision ${damaged} is damaged, and none before it is left` })
    }
    yield* Effect.logWarning(
      `Revision ${damaged} of the conversation at ${key} is damaged; it goes on from revision ${older.revision}.`
    )
    return { revision: damaged, text: older.text }
  })

  // ===========================================================================
  // Writing
  // ===========================================================================

  const storedRevision = Effect.fnUntraced(function*(key: string) {
    const found = yield* foundAt(key)
    switch (found._tag) {
      case "Nothing":
        return 0
      case "Pointer":
        return found.pointer.revision
      case "Document":
        return 1
      case "Torn":
        return (yield* slots(key))[0]?.revision ?? 0
    }
  })

  const write = Effect.fnUntraced(function*(sessionId: string, { revision, text }: Stored) {
    const key = yield* keyOf(sessionId)
    const writer = makeToken()
    const expect = Effect.flatMap(
      storedRevision(key),
      (found) => found === revision - 1 ? Effect.void : Effect.fail(new Conflict({ expected: revision - 1, found }))
    )

    yield* expect
    yield* store.set(slotOf(key, revision), withHead(writer, revision, text))
    // Setting it took time, in which another process may have saved.
    yield* expect
    const pointer = { revision, writer, sessionId }
    yield* store.set(key, JSON.stringify(pointer))
    const found = yield* foundAt(key)
    if (isSame(found, pointer)) return
    return yield* new Conflict({
      expected: revision - 1,
      found: found._tag === "Pointer" ? found.pointer.revision : 0
    })
  })

  // ===========================================================================
  // All of them
  // ===========================================================================

  // The pointer first: without it there is no conversation.
  const remove = Effect.fnUntraced(function*(sessionId: string) {
    const key = yield* keyOf(sessionId)
    yield* Effect.forEach([key, slotOf(key, 0), slotOf(key, 1)], store.remove, { discard: true })
  })

  const idsAt = Effect.fnUntraced(function*(name: string) {
    if (!isHashed(name)) return Array.from([idOf(name)]).filter((id) => id !== undefined)
    const found = yield* foundAt(prefix + name)
    if (found._tag !== "Pointer") return []
    const { sessionId } = found.pointer
    return (yield* nameOf(sessionId)) === name ? [sessionId] : []
  })

  const names = Effect.map(
    store.keys,
    (keys) => keys.flatMap((key) => key.startsWith(prefix) ? [key.slice(prefix.length)] : [])
  )

  return {
    read: (sessionId) => Effect.mapError(read(sessionId), toReason("read the conversation")),
    write: (sessionId, stored) =>
      alone(store, prefix, sessionId, Effect.mapError(write(sessionId, stored), toReason("save the conversation"))),
    remove: (sessionId) =>
      alone(store, prefix, sessionId, Effect.mapError(remove(sessionId), toReason("remove the conversation"))),
    list: Stream.fromArrayEffect(names).pipe(
      Stream.mapEffect(idsAt, { concurrency: LIST_CONCURRENCY }),
      Stream.flatMap(Stream.fromArray),
      Stream.mapError(toReason("list the conversations"))
    )
  }
})

// =============================================================================
// One writer at a time
// =============================================================================

interface Place {
  readonly semaphore: Semaphore.Semaphore
  users: number
}

// By the store, which several layers may share.
const places = new WeakMap<Store, Map<string, Place>>()

const alone = <A, E>(
  store: Store,
  prefix: string,
  sessionId: string,
  effect: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    const all = places.get(store) ?? new Map<string, Place>()
    places.set(store, all)
    const key = JSON.stringify([prefix, sessionId])
    const place = all.get(key) ?? { semaphore: Semaphore.makeUnsafe(1), users: 0 }
    all.set(key, place)
    place.users++
    return Effect.ensuring(
      place.semaphore.withPermit(effect),
      Effect.sync(() => {
        if (--place.users === 0) all.delete(key)
      })
    )
  })

// =============================================================================
// Values
// =============================================================================

const HEAD = /^\{"writer":"[^"]*","revision":(\d{1,16}),/

/** The text with what tells revisions apart before it, still one JSON object. */
const withHead = (writer: string, revision: number, text: string): string =>
  `{"writer":${JSON.stringify(writer)},"revision":${revision},${text.slice(1)}`

/** `undefined` for what was cut off while it was set. */
const storedIn = (value: string | undefined): Stored | undefined => {
  const head = HEAD.exec(value ?? "")
  return value !== undefined && head !== null && isWhole(value)
    ? { revision: Number(head[1]), text: value }
    : undefined
}

const decodePointer = Schema.decodeUnknownSync(Schema.fromJsonString(Pointer))

const foundIn = (value: string | undefined): Found => {
  if (value === undefined) return { _tag: "Nothing" }
  try {
    return { _tag: "Pointer", pointer: decodePointer(value) }
  } catch {
    return isWhole(value) ? { _tag: "Document", text: value } : { _tag: "Torn" }
  }
}

const isSame = (found: Found, { revision, writer }: Pointer): boolean =>
  found._tag === "Pointer" && found.pointer.revision === revision && found.pointer.writer === writer

const toReason = (task: string) => (error: Failure): CycleStoreErrorReason =>
  error._tag === "KeyValueStoreError"
    ? new Io({ description: `could not ${task}: ${error.message}`, cause: error })
    : error
