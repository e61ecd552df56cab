/*
 * Conversations in a KeyValueStore, which can neither compare and swap nor promise that a value is set whole.
 *
 * A conversation has a pointer at `name`, and each revision a key of its own, `name.<token>`, that no other writer sets.
 * A writer sets its revision, and points to it if the pointer is still what it was. The one before stays until then, so a
 * process may be killed at any point; `name.next` tells the next writer what it left. Writers of this process wait for
 * each other; others are told, unless they come between the last look at the pointer and setting it.
 */
import * as WebCrypto from "effect/crypto/WebCrypto"
import * as Effect from "effect/Effect"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { Backend, NewRevision, Stored } from "../CycleStore.ts"
import { Conflict, Corrupt, type CycleStoreErrorReason, Io } from "../CycleStoreError.ts"
import { isWhole } from "./storeFormat.ts"
import { idOf, nameOf } from "./storeNames.ts"

/** How often reading starts again because somebody saves meanwhile. */
const MAX_READS = 20

/** How many pointers are read at a time to list ids. */
const LIST_CONCURRENCY = 8

type Store = KeyValueStore.KeyValueStore
type Failure = KeyValueStore.KeyValueStoreError | CycleStoreErrorReason

/** Where a conversation is, by the tokens of those who saved it. */
const Pointer = Schema.Struct({
  /** 0 while nothing is stored: before the first save, and until a removal is finished. */
  revision: Schema.Finite,
  writer: Schema.String,
  /** Who saved the revision before. */
  before: Schema.optionalKey(Schema.String),
  /** Whose revisions are needed no more. Some are gone already. */
  stale: Schema.optionalKey(Schema.Array(Schema.String)),
  sessionId: Schema.String
})
type Pointer = typeof Pointer.Type

/** A conversation that somebody put in the place of the pointer by hand; it counts as the first revision. */
interface Document {
  readonly text: string
}

/** A pointer that was cut off while it was set, made again from the revisions there are. */
interface Recovered extends Pointer {
  readonly isRecovered: true
}

type Place = Pointer | Recovered | Document

export const makeKeys = Effect.fnUntraced(function*(
  prefix: string
): Effect.fn.Return<Backend, never, KeyValueStore.KeyValueStore> {
  const store = yield* KeyValueStore.KeyValueStore
  const crypto = yield* WebCrypto.WebCrypto
  // The type is said here: without the DOM's library `crypto` has none.
  const makeToken = (): string => crypto.randomUUID()

  const keyOf = (sessionId: string) => Effect.map(nameOf(sessionId), (name) => prefix + name)
  const revisionKey = (key: string, writer: string) => `${key}.${writer}`
  const removeRevisions = (key: string, writers: ReadonlyArray<string | undefined> | undefined) =>
    Effect.forEach(present(writers), (writer) => Effect.ignore(store.remove(revisionKey(key, writer))), {
      discard: true
    })

  const keysUnder = (start: string) =>
    Effect.map(store.keys, (keys) => keys.flatMap((key) => key.startsWith(start) ? [key.slice(start.length)] : []))

  // ===========================================================================
  // Reading
  // ===========================================================================

  const storedAt = (key: string, writer: string) => Effect.map(store.get(revisionKey(key, writer)), storedIn)

  const placeAt = Effect.fnUntraced(function*(key: string, sessionId: string) {
    const value = yield* store.get(key)
    if (value === undefined) return nowhere(sessionId)
    const place = placeIn(value)
    if (place !== undefined) return place
    return isCutOff(value)
      ? yield* recovered(key, sessionId)
      : yield* new Corrupt({ issue: `what is at the key ${key} is not JSON` })
  })

  const recovered = Effect.fnUntraced(function*(key: string, sessionId: string) {
    const writers = (yield* keysUnder(`${key}.`)).filter((writer) => writer !== NEXT)
    const revisions = yield* Effect.forEach(
      writers,
      (writer) => Effect.map(storedAt(key, writer), (stored) => ({ writer, revision: stored?.revision ?? 0 }))
    )
    return { ...newestOf(sessionId, revisions), isRecovered: true as const }
  })

  const read = Effect.fnUntraced(function*(sessionId: string) {
    const key = yield* keyOf(sessionId)
    let last: Pointer | undefined
    for (let reads = 0; reads < MAX_READS; reads++) {
      const place = yield* placeAt(key, sessionId)
      if ("text" in place) return { revision: 1, text: place.text }
      if (place.revision === 0) return undefined
      // Nobody has saved since it was not to be found there.
      if (last?.writer === place.writer) return yield* readOlder(key, place)
      const stored = yield* storedAt(key, place.writer)
      if (stored !== undefined) return stored
      last = place
    }
    return yield* new Io({ description: "it is saved more often than it can be read" })
  })

  /** The revision before a damaged one, under the number of the damaged one, which is taken. */
  const readOlder = Effect.fnUntraced(function*(key: string, { before, revision }: Pointer) {
    const older = before === undefined ? undefined : yield* storedAt(key, before)
    if (older === undefined) {
      return yield* new Corrupt({ issue: `revision ${revision} is damaged, and none before it is left` })
    }
    yield* Effect.logWarning(
      `Revision ${revision} of the conversation at ${key} is damaged; it goes on from revision ${older.revision}.`
    )
    return { revision, text: older.text }
  })

  // ===========================================================================
  // Writing
  // ===========================================================================

  const write = Effect.fnUntraced(function*(sessionId: string, { pieces, revision }: NewRevision) {
    const key = yield* keyOf(sessionId)
    const writer = makeToken()
    const toldUnless = (isRight: boolean, place: Place) =>
      isRight ? Effect.void : Effect.fail(new Conflict({ expected: revision - 1, found: revisionAt(place) }))

    const old = yield* placeAt(key, sessionId)
    yield* toldUnless(revisionAt(old) === revision - 1, old)
    // What a removal left that was cut off must not be found again.
    if ("writer" in old && old.writer === REMOVED) yield* store.clearPrefix(`${key}.`)
    // Our own revision would be the newest there is.
    if ("isRecovered" in old) yield* setPointer(key, old)
    const other = yield* store.get(`${key}.${NEXT}`)
    yield* store.set(`${key}.${NEXT}`, writer)

    yield* store.set(revisionKey(key, writer), withHead(writer, revision, pieces)).pipe(
      Effect.andThen(removeRevisions(key, "stale" in old ? old.stale : [])),
      Effect.andThen(placeAt(key, sessionId)),
      Effect.flatMap((now) => toldUnless(isSame(old, now), now)),
      Effect.onError(() => removeRevisions(key, [writer]))
    )
    yield* setPointer(key, { ...after(old, other), revision, writer, sessionId })
    const now = yield* placeAt(key, sessionId)
    yield* Effect.tapError(toldUnless(isSavedBy(writer, now), now), () => removeRevisions(key, [writer]))
    if ("before" in old) yield* removeRevisions(key, [old.before])
  })

  const setPointer = (key: string, pointer: Pointer) => store.set(key, encodePointer(pointer))

  // ===========================================================================
  // All of them
  // ===========================================================================

  const remove = Effect.fnUntraced(function*(sessionId: string) {
    const key = yield* keyOf(sessionId)
    const values = yield* Effect.forEach([key, `${key}.${NEXT}`], store.get)
    if (values.every((value) => value === undefined)) return
    yield* setPointer(key, { revision: 0, writer: REMOVED, sessionId })
    yield* store.clearPrefix(`${key}.`)
    yield* store.remove(key)
  })

  const idsAt = Effect.fnUntraced(function*(name: string) {
    const value = yield* store.get(prefix + name)
    const place = value === undefined ? undefined : placeIn(value)
    const id = place !== undefined && "sessionId" in place ? place.sessionId : idOf(name)
    const isStored = place === undefined ? value !== undefined : revisionAt(place) > 0
    return isStored && id !== undefined && (yield* nameOf(id)) === name ? [id] : []
  })

  const alone = <A>(sessionId: string, effect: Effect.Effect<A, CycleStoreErrorReason>) =>
    oneAtATime(store, JSON.stringify([prefix, sessionId]), effect)

  return {
    read: (sessionId) => Effect.mapError(read(sessionId), toReason("read the conversation")),
    write: (sessionId, stored) =>
      alone(sessionId, Effect.mapError(write(sessionId, stored), toReason("save the conversation"))),
    remove: (sessionId) => alone(sessionId, Effect.mapError(remove(sessionId), toReason("remove the conversation"))),
    list: Stream.fromArrayEffect(keysUnder(prefix)).pipe(
      Stream.filter((name) => !name.includes(".")),
      Stream.mapEffect(idsAt, { concurrency: LIST_CONCURRENCY }),
      Stream.flatMap(Stream.fromArray),
      Stream.mapError(toReason("list the conversations"))
    )
  }
})

// =============================================================================
// One writer at a time
// =============================================================================

interface Turn {
  readonly semaphore: Semaphore.Semaphore
  users: number
}

// By the store, which several layers may share.
const turns = new WeakMap<Store, Map<string, Turn>>()

const oneAtATime = <A, E>(store: Store, key: string, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    const all = turns.get(store) ?? new Map<string, Turn>()
    turns.set(store, all)
    const turn = all.get(key) ?? { semaphore: Semaphore.makeUnsafe(1), users: 0 }
    all.set(key, turn)
    turn.users++
    return Effect.ensuring(
      turn.semaphore.withPermit(effect),
      Effect.sync(() => {
        if (--turn.users === 0) all.delete(key)
      })
    )
  })

// =============================================================================
// Values
// =============================================================================

/** In place of a token: says whose is that of the last writer that has begun to save. */
const NEXT = "next"

/** In place of a writer, while a conversation is being removed. */
const REMOVED = "removed"

const POINTER_START = "{\"revision\":"
const HEAD = /^\{"writer":"[^"]*","revision":(\d{1,16}),/

/** The text with what tells revisions apart before it, still one JSON object. */
const withHead = (writer: string, revision: number, [first = "", ...rest]: ReadonlyArray<string>): string =>
  [`{"writer":${JSON.stringify(writer)},"revision":${revision},`, first.slice(1), ...rest].join("")

/** `undefined` for what was cut off while it was set. */
const storedIn = (value: string | undefined): Stored | undefined => {
  const head = HEAD.exec(value ?? "")
  return value !== undefined && head !== null && isWhole(value)
    ? { revision: Number(head[1]), text: value }
    : undefined
}

const encodePointer = Schema.encodeSync(Schema.fromJsonString(Pointer))
const decodePointer = Schema.decodeUnknownSync(Schema.fromJsonString(Pointer))

const nowhere = (sessionId: string): Pointer => ({ revision: 0, writer: "", sessionId })

/** What a pointer that follows says of those before it. `other` has begun to save and was killed, or will be told. */
const after = (old: Place, other: string | undefined): Pick<Pointer, "before" | "stale"> => {
  if ("text" in old) return { stale: present([other]) }
  const { before, revision, writer } = old
  return {
    ...(revision === 0 ? {} : { before: writer }),
    stale: present([before, other]).filter((stale) => stale !== writer)
  }
}

const present = <A>(values: ReadonlyArray<A | undefined> = []): ReadonlyArray<A> =>
  values.filter((value) => value !== undefined)

/** The pointer to the newest revision. The revision of one that is not whole is 0. */
const newestOf = (
  sessionId: string,
  revisions: ReadonlyArray<{ readonly writer: string; readonly revision: number }>
): Pointer => {
  const whole = revisions.filter(({ revision }) => revision > 0).toSorted((a, b) => b.revision - a.revision)
  const [newest = nowhere(sessionId), before] = whole
  return {
    revision: newest.revision,
    writer: newest.writer,
    ...(before === undefined ? {} : { before: before.writer }),
    stale: revisions.filter((each) => each !== newest && each !== before).map(writerOf),
    sessionId
  }
}

const writerOf = ({ writer }: { readonly writer: string }): string => writer

const revisionAt = (place: Place): number => "text" in place ? 1 : place.revision

const isSame = (a: Place, b: Place): boolean =>
  "text" in a ? "text" in b : "writer" in b && a.revision === b.revision && a.writer === b.writer

// Somebody may have gone on from it already.
const isSavedBy = (writer: string, place: Place): boolean =>
  "writer" in place && (place.writer === writer || place.before === writer)

/** `undefined` where it is not JSON. */
const placeIn = (value: string): Place | undefined => {
  try {
    if (value.startsWith(POINTER_START)) return decodePointer(value)
  } catch {
    // Then it is cut off.
  }
  return isWhole(value) ? { text: value } : undefined
}

/** Whether it may be a pointer of which a part was set; blocks that were never written read as zeros. */
const isCutOff = (value: string): boolean =>
  POINTER_START.startsWith(value.slice(0, POINTER_START.length)) || /^\0*$/.test(value)

const toReason = (task: string) => (error: Failure): CycleStoreErrorReason =>
  error._tag === "KeyValueStoreError"
    ? new Io({ description: `could not ${task}: ${error.message}`, cause: error })
    : error
