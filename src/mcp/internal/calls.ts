/**
 * The calls that wait for an answer.
 *
 * One call is one `Effect.callback` whose `resume` sits in a table under the call's id. Whoever takes an entry out of the
 * table settles it: the answer, the transport's failure, the deadline, the end of the connection, or interruption. Deadlines
 * are fields of the entries; one fiber sleeps until the earliest. Nothing is raced and nothing is decoded here.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import type * as Scope from "effect/Scope"
import { Closed, McpError, type McpErrorReason, NoAnswer, TimedOut } from "../McpError.ts"
import type { JsonObject, JsonRpcNotification, JsonRpcRequest } from "./jsonrpc.ts"
import type { Exchange, Transport } from "./transport.ts"

interface CallOptions {
  readonly exchange: Exchange
  /** How long the answer may take; `Infinity` waits as long as the connection lasts. */
  readonly timeoutMillis: number
  /** How far progress may push the deadline, counted from the start. Absent: progress does not push it. */
  readonly maxTotalMillis?: number | undefined
  /** Told about progress, synchronously. Its presence asks the server for progress. */
  readonly onProgress?: ((params: JsonObject) => void) | undefined
  /** Whether giving up is told to the server. Not for the handshake. Default `true`. */
  readonly cancellable?: boolean | undefined
}

/** The parameters of a call, or how they follow from its id: progress tokens and subscriptions are named by it. */
type Params = JsonObject | ((id: number) => JsonObject)

export interface Calls {
  readonly call: (
    method: string,
    params: Params,
    options: CallOptions
  ) => Effect.Effect<unknown, McpError>
  /** Settles a call with its answer; `false` when nobody waits for that id. */
  readonly answer: (id: number, result: unknown) => boolean
  readonly fail: (id: number, reason: McpErrorReason) => boolean
  readonly methodOf: (id: number) => string | undefined
  readonly progress: (token: number, params: JsonObject) => void
  /** Fails everything that waits, and every later call until `reopen`. */
  readonly close: (reason: McpErrorReason) => void
  readonly reopen: () => void
  /** Time that this side takes to answer a request of the server does not count against calls. Ends the pause. */
  readonly pause: () => () => void
  readonly waiting: () => ReadonlyArray<number>
  /** Runs an effect in the background, as long as the connection lasts. */
  readonly run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
}

interface Entry {
  readonly id: number
  readonly method: string
  readonly resume: (effect: Effect.Effect<unknown, McpError>) => void
  readonly options: CallOptions
  readonly started: number
  deadline: number
  exchange: Fiber.Fiber<void> | undefined
  handedOver: boolean
}

// Timers may fire a little before the monotonic clock agrees.
const TIMER_SLACK_MILLIS = 1

export const makeCalls: (
  transport: Transport,
  server: string
) => Effect.Effect<Calls, never, Scope.Scope> = Effect.fnUntraced(function*(transport, server) {
  const clock = yield* Clock.Clock
  const run = yield* FiberSet.makeRuntime<never, void, never>()
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

  const pending = new Map<number, Entry>()
  let nextId = 1
  let closed: McpError | undefined
  let sweeper: Fiber.Fiber<void> | undefined
  let wakeAt = Number.POSITIVE_INFINITY
  let pauses = 0
  let pausedSince = 0

  const fail = (reason: McpErrorReason): McpError => new McpError({ server, reason })

  const take = (id: number): Entry | undefined => {
    const entry = pending.get(id)
    if (entry !== undefined) pending.delete(id)
    return entry
  }

  /** Ends the exchange of a call that nobody waits for any more, and tells the server. */
  const abandon = (entry: Entry, why: string): void => {
    // Closing the response is how the modern era cancels over HTTP.
    // https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
    entry.exchange?.interruptUnsafe()
    if (!entry.handedOver || entry.options.cancellable === false || closed !== undefined) return
    if (transport.kind === "http" && entry.options.exchange.protocol.era === "modern") return
    const message: JsonRpcNotification = {
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: entry.id, reason: why }
    }
    if (transport.offer?.(message) === true) return
    run(Effect.ignore(transport.notify(message, { protocol: entry.options.exchange.protocol })))
  }

  const arm = (deadline: number): void => {
    if (deadline >= wakeAt) return
    sweeper?.interruptUnsafe()
    wakeAt = deadline
    sweeper = run(Effect.andThen(Effect.suspend(() => Effect.sleep(Math.max(deadline - now(), 0))), sweep))
  }

  const sweep = Effect.sync(() => {
    wakeAt = Number.POSITIVE_INFINITY
    sweeper = undefined
    // The end of the pause looks again.
    if (pauses > 0) return
    const time = now() + TIMER_SLACK_MILLIS
    let earliest = Number.POSITIVE_INFINITY
    for (const entry of pending.values()) {
      if (entry.deadline > time) {
        earliest = Math.min(earliest, entry.deadline)
        continue
      }
      pending.delete(entry.id)
      abandon(entry, "timed out")
      const afterMillis = Math.round(entry.deadline - entry.started)
      entry.resume(Effect.fail(fail(new TimedOut({ method: entry.method, afterMillis }))))
    }
    arm(earliest)
  })

  const offer = (message: JsonRpcRequest): boolean => {
    try {
      return transport.offer?.(message) === true
    } catch (defect) {
      // What JSON cannot hold: a defect of the caller.
      pending.delete(message.id)
      throw defect
    }
  }

  const call: Calls["call"] = (method, params, options) =>
    Effect.callback<unknown, McpError>((resume) => {
      if (closed !== undefined) return resume(Effect.fail(closed))
      const id = nextId++
      const message: JsonRpcRequest = {
        jsonrpc: "2.0",
        id,
        method,
        params: typeof params === "function" ? params(id) : params
      }
      const started = now()
      const entry: Entry = {
        id,
        method,
        resume,
        options,
        started,
        deadline: started + options.timeoutMillis,
        exchange: undefined,
        handedOver: true
      }
      // Before it leaves: a server in the same process may answer at once.
      pending.set(id, entry)
      arm(entry.deadline)
      const taken = offer(message)
      if (!taken) {
        entry.handedOver = transport.offer === undefined
        entry.exchange = run(Effect.matchEffect(transport.request(message, options.exchange), {
          onFailure: (error) =>
            Effect.sync(() => {
              take(id)?.resume(Effect.fail(error))
            }),
          onSuccess: () =>
            Effect.sync(() => {
              entry.handedOver = true
              if (transport.offer !== undefined) return
              const detail = "the exchange ended without it"
              take(id)?.resume(Effect.fail(fail(new NoAnswer({ method, detail }))))
            })
        }))
      }
      return Effect.sync(() => {
        if (take(id) !== undefined) abandon(entry, "interrupted")
      })
    })

  const close: Calls["close"] = (reason) => {
    closed = fail(reason)
    const entries = [...pending.values()]
    pending.clear()
    for (const entry of entries) {
      entry.exchange?.interruptUnsafe()
      entry.resume(Effect.fail(closed))
    }
  }

  yield* Effect.addFinalizer(() => Effect.sync(() => close(new Closed())))

  return {
    call,
    answer(id, result) {
      const entry = take(id)
      entry?.resume(Effect.succeed(result))
      return entry !== undefined
    },
    fail(id, reason) {
      const entry = take(id)
      entry?.resume(Effect.fail(fail(reason)))
      return entry !== undefined
    },
    methodOf: (id) => pending.get(id)?.method,
    progress(token, params) {
      const entry = pending.get(token)
      if (entry === undefined) return
      const { maxTotalMillis, onProgress, timeoutMillis } = entry.options
      if (maxTotalMillis !== undefined) {
        entry.deadline = Math.min(now() + timeoutMillis, entry.started + Math.max(maxTotalMillis, timeoutMillis))
      }
      onProgress?.(params)
    },
    close,
    reopen: () => {
      closed = undefined
    },
    pause() {
      if (pauses++ === 0) pausedSince = now()
      let over = false
      return () => {
        if (over) return
        over = true
        if (--pauses > 0) return
        const time = now()
        let earliest = Number.POSITIVE_INFINITY
        for (const entry of pending.values()) {
          entry.deadline += time - Math.max(pausedSince, entry.started)
          earliest = Math.min(earliest, entry.deadline)
        }
        arm(earliest)
      }
    },
    waiting: () => [...pending.keys()],
    run
  }
})
