/*
 * Results in files, one each, the oldest of which make room for new ones.
 *
 * A file is written under another name and renamed when it is whole. Its name is
 * made of a hash of the session and the handle, so nothing a model or a caller
 * says becomes part of a path.
 */
import * as ByteSize from "effect/ByteSize"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import { sha256 } from "../../internal/digest.ts"
import { messageOf } from "../../internal/text.ts"
import type { Backend, OpenResult, ResultKey } from "../ResultStore.ts"
import { Io, NotFound, ResultStoreError, TooLarge } from "../ResultStoreError.ts"
import * as Ledger from "./ledger.ts"
import { describe } from "./memoryResults.ts"
import * as StoredHeader from "./storedHeader.ts"

const OWNER_ONLY = { directory: 0o700, file: 0o600 }

/** How much is written in one step: a step cannot be interrupted. */
const STEP_BYTES = 4_194_304

/** A file that is not whole after this long has nobody who writes it. */
const ABANDONED_MILLIS = 3_600_000

/** How many files are looked at side by side when a store begins. */
const CONCURRENCY = 16

const RESULT = /^[0-9a-f]{32}-res_[0-9a-f]{24}\.result$/
const PARTIAL = /^[0-9a-f]{32}-res_[0-9a-f]{24}\.result\.partial$/

export const makeFiles = Effect.fnUntraced(function*(
  directory: string,
  maxBytes: number
): Effect.fn.Return<Backend, ResultStoreError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const ledger = Ledger.make(maxBytes)

  const pathOf = (name: string) => path.join(directory, name)
  const makeDirectory = fs.makeDirectory(directory, { recursive: true, mode: OWNER_ONLY.directory })
  // It may be gone already, and room that is not made now is counted by the next process.
  const discard = (name: string) => Effect.ignore(fs.remove(pathOf(name), { force: true }))

  const write = Effect.fnUntraced(function*(partial: string, parts: ReadonlyArray<Uint8Array>) {
    const file = yield* fs.open(pathOf(partial), { flag: "wx", mode: OWNER_ONLY.file })
    // A write that was begun goes on when nobody waits for it, and must not meet a closed file.
    yield* Effect.forEach(parts.flatMap(stepsOf), (step) => Effect.uninterruptible(file.writeAll(step)), {
      discard: true
    })
    yield* Effect.uninterruptible(file.sync)
  }, Effect.scoped)

  const appear = (partial: string, name: string, sizeBytes: number) =>
    fs.rename(pathOf(partial), pathOf(name)).pipe(
      Effect.flatMap(() => Effect.forEach(ledger.add(name, sizeBytes), discard, { discard: true })),
      Effect.uninterruptible
    )

  const put: Backend["put"] = Effect.fnUntraced(function*(key, info, text) {
    const header = yield* describe(info)
    const sizeBytes = header.length + text.length
    if (sizeBytes > maxBytes) return yield* new ResultStoreError({ reason: new TooLarge({ sizeBytes, maxBytes }) })
    const name = yield* nameOf(key)
    const partial = `${name}.partial`
    yield* makeDirectory.pipe(
      Effect.andThen(write(partial, [header, text])),
      Effect.andThen(appear(partial, name, sizeBytes)),
      Effect.onError(() => discard(partial)),
      Effect.mapError(failedTo("store a result"))
    )
  })

  const open: Backend["open"] = Effect.fnUntraced(function*(key) {
    const name = yield* nameOf(key)
    const file = yield* fs.open(pathOf(name), { flag: "r" }).pipe(
      Effect.mapError((error) => {
        if (error.reason._tag !== "NotFound") return failedTo("open a result")(error)
        ledger.remove(name)
        return new ResultStoreError({ reason: new NotFound({ handle: key.handle }) })
      })
    )
    return yield* opened(file)
  })

  const remove = (name: string) =>
    fs.remove(pathOf(name)).pipe(
      Effect.as(true),
      Effect.catchIf(isNotFound, () => Effect.succeed(false)),
      Effect.tap(Effect.sync(() => ledger.remove(name))),
      Effect.mapError(failedTo("remove a result"))
    )

  const removeSession: Backend["removeSession"] = Effect.fnUntraced(function*(sessionId) {
    const prefix = yield* sessionPrefix(sessionId)
    const names = yield* Effect.mapError(fs.readDirectory(directory), failedTo("list results"))
    const removed = yield* Effect.forEach(
      names.filter((name) => name.startsWith(prefix) && RESULT.test(name)),
      remove,
      { concurrency: CONCURRENCY }
    )
    return removed.filter((was) => was).length
  })

  // What is there already counts, the oldest first.
  const begin = Effect.gen(function*() {
    yield* makeDirectory
    const now = yield* Clock.currentTimeMillis
    const names = (yield* fs.readDirectory(directory)).filter((name) => RESULT.test(name) || PARTIAL.test(name))
    const files = yield* Effect.forEach(names, (name) =>
      Effect.map(
        Effect.option(fs.stat(pathOf(name))),
        Option.match({
          // Another process has removed it meanwhile.
          onNone: () => [],
          onSome: ({ mtime, size }) => [{
            name,
            sizeBytes: bytesOf(size),
            modifiedMillis: Option.match(mtime, { onNone: () => now, onSome: (date) => date.getTime() })
          }]
        })
      ), { concurrency: CONCURRENCY })
    const [whole, partial] = [RESULT, PARTIAL].map((kind) => files.flat().filter(({ name }) => kind.test(name)))
    const gone = [
      ...partial!.filter(({ modifiedMillis }) => now - modifiedMillis > ABANDONED_MILLIS).map(({ name }) => name),
      ...whole!.toSorted((a, b) => a.modifiedMillis - b.modifiedMillis)
        .flatMap(({ name, sizeBytes }) => ledger.add(name, sizeBytes))
    ]
    yield* Effect.forEach(gone, discard, { concurrency: CONCURRENCY, discard: true })
  })

  yield* Effect.mapError(begin, failedTo("use the directory of results"))
  return {
    put,
    open,
    remove: (key) => Effect.flatMap(nameOf(key), remove),
    removeSession
  }
})

// =============================================================================
// Reading
// =============================================================================

const opened = Effect.fnUntraced(function*(file: FileSystem.File): Effect.fn.Return<OpenResult, ResultStoreError> {
  const readAt = (position: number, length: number) =>
    Effect.mapError(readFully(file, position, length), failedTo("read a result"))

  const sizeBytes = bytesOf((yield* Effect.mapError(file.stat, failedTo("read a result"))).size)
  const { headerBytes, textBytes } = yield* sound(
    StoredHeader.readPrefix(decode(yield* readAt(0, StoredHeader.PREFIX_BYTES)))
  )
  const begin = StoredHeader.PREFIX_BYTES + headerBytes
  if (begin + textBytes !== sizeBytes) return yield* sound(Result.fail("it is damaged"))
  const header = yield* readAt(StoredHeader.PREFIX_BYTES, headerBytes)
  const info = yield* sound(StoredHeader.readHeader(decode(header), textBytes))
  return {
    info,
    read: (offset, length) => readAt(begin + offset, Math.max(0, Math.min(length, textBytes - offset)))
  }
})

const readFully = Effect.fnUntraced(function*(file: FileSystem.File, position: number, length: number) {
  const buffer = new Uint8Array(length)
  let filled = 0
  while (filled < length) {
    const rest = buffer.subarray(filled)
    // A read that was begun goes on when nobody waits for it, and must not meet a closed file.
    const read = yield* Effect.uninterruptible(file.read(rest, { position: BigInt(position + filled) }))
    if (read === 0) break
    filled += read
  }
  return buffer.subarray(0, filled)
})

const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
const decode = (bytes: Uint8Array): string => decoder.decode(bytes)

// =============================================================================
// Small things
// =============================================================================

const sessionPrefix = (sessionId: string): Effect.Effect<string> =>
  Effect.map(sha256(sessionId), (digest) => `${digest.slice(0, 32)}-`)

const nameOf = ({ handle, sessionId }: ResultKey): Effect.Effect<string> =>
  Effect.map(sessionPrefix(sessionId), (prefix) => `${prefix}${handle}.result`)

const stepsOf = (bytes: Uint8Array): ReadonlyArray<Uint8Array> =>
  Array.from(
    { length: Math.ceil(bytes.length / STEP_BYTES) },
    (_, index) => bytes.subarray(index * STEP_BYTES, (index + 1) * STEP_BYTES)
  )

const bytesOf = (size: ByteSize.ByteSize): number => Number(ByteSize.toBigInt(size))

const isNotFound = (error: PlatformError): boolean => error.reason._tag === "NotFound"

// What the system said is more than what became of it on the way here: "no space left on device".
const failedTo = (task: string) => (cause: PlatformError): ResultStoreError =>
  new ResultStoreError({
    reason: new Io({
      description: `could not ${task}: ${cause.cause instanceof Error ? messageOf(cause.cause) : cause.message}`,
      cause
    })
  })

const sound = <A>(result: Result.Result<A, string>): Effect.Effect<A, ResultStoreError> =>
  Result.isSuccess(result)
    ? Effect.succeed(result.success)
    : Effect.fail(
      new ResultStoreError({ reason: new Io({ description: `a stored result cannot be read: ${result.failure}` }) })
    )
