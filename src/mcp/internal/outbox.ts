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

const encoder = new TextEncoder()

export const makeOutbox = (maxQueued: number): Outbox => {
  const ready = Latch.makeUnsafe(false)
  const room = Latch.makeUnsafe(true)
  let lines: Array<string> = []
  // UTF-16 units: exact enough for a bound on memory, and free.
  let queued = 0
  let leaving = false
  let ended = false

  const leave = (): void => {
    leaving = false
    ready.openUnsafe()
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
      queueMicrotask(leave)
    }
    return true
  }

  const putLine = (line: string): Effect.Effect<void> =>
    Effect.suspend(() => push(line) ? Effect.void : Effect.andThen(room.await, putLine(line)))

  const pull: Pull.Pull<readonly [Uint8Array]> = Effect.suspend(() => {
    if (lines.length === 0) {
      if (ended) return Cause.done()
      ready.closeUnsafe()
      return Effect.andThen(ready.await, pull)
    }
    const text = lines.length === 1 ? lines[0] : lines.join("")
    lines = []
    queued = 0
    room.openUnsafe()
    return Effect.succeed([encoder.encode(text)] as const)
  })

  return {
    offer: (message) => push(`${JSON.stringify(message)}\n`),
    put: (message) => Effect.suspend(() => putLine(`${JSON.stringify(message)}\n`)),
    bytes: Stream.fromPull(Effect.succeed(pull)),
    end() {
      ended = true
      ready.openUnsafe()
      room.openUnsafe()
    }
  }
}
