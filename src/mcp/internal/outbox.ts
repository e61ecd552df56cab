/**
 * Messages on their way to a server that reads them from a byte stream.
 *
 * What is offered within one turn of the event loop leaves as one buffer: each write of its own is a system call, which costs
 * more than all else that is done for a small message. The queue is bounded: a message that finds no room is refused, and `put`
 * waits for it. One message larger than the whole queue still passes when the queue is empty, so that nothing waits for ever.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import type { JsonRpcMessage } from "./jsonrpc.ts"

export interface Outbox {
  readonly offer: (message: JsonRpcMessage) => boolean
  /** Waits for room and hands the message over. */
  readonly put: (message: JsonRpcMessage) => Effect.Effect<void>
  /** What was offered, as bytes; ends after `end`. */
  readonly bytes: Stream.Stream<Uint8Array>
  /** Takes no more; what is queued still leaves. */
  readonly end: () => void
}

type Taken = Pull.Pull<readonly [Uint8Array]>

const encoder = new TextEncoder()

/** A reaction to it runs in this turn of the event loop. `queueMicrotask` does the same at three times the price. */
const soon = Promise.resolve()

export const makeOutbox = (maxQueued: number): Outbox => {
  const room = Latch.makeUnsafe(true)
  let lines: Array<string> = []
  // UTF-16 units: exact enough for a bound on memory, and free.
  let queued = 0
  let leaving = false
  let ended = false
  // Whoever takes the bytes, while there are none. Only one at a time does.
  let taker: ((taken: Taken) => void) | undefined

  const take = (): Taken => {
    if (lines.length === 0) return Cause.done()
    const text = lines.length === 1 ? lines[0] : lines.join("")
    lines = []
    queued = 0
    room.openUnsafe()
    return Effect.succeed([encoder.encode(text)])
  }

  const leave = (): void => {
    leaving = false
    // What was queued may have been taken meanwhile.
    if (taker === undefined || (lines.length === 0 && !ended)) return
    const resume = taker
    taker = undefined
    resume(take())
  }

  const push = (line: string): boolean => {
    if (ended) return true
    if (queued > 0 && queued + line.length > maxQueued) {
      room.closeUnsafe()
      return false
    }
    lines.push(line)
    queued += line.length
    if (!leaving) {
      leaving = true
      // After the answers that came together were handed out: whoever waited for them sends what is next.
      void soon.then(leave)
    }
    return true
  }

  const putLine = (line: string): Effect.Effect<void> =>
    Effect.suspend(() => push(line) ? Effect.void : Effect.andThen(room.await, putLine(line)))

  // One effect for every pull, without a latch: for small messages, its parts cost more than the writing.
  const pull: Taken = Effect.callback((resume) => {
    if (lines.length > 0 || ended) resume(take())
    else taker = resume
  })

  return {
    offer: (message) => push(`${JSON.stringify(message)}\n`),
    put: (message) => Effect.suspend(() => putLine(`${JSON.stringify(message)}\n`)),
    bytes: Stream.fromPull(Effect.succeed(pull)),
    end() {
      ended = true
      leave()
      room.openUnsafe()
    }
  }
}
