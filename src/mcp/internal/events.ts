/**
 * What a server tells without being asked, as the stream an application reads, and the diagnostics.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Notification, Progress } from "../McpModel.ts"
import { decodeLogLevel, optionalName, optionalNumber, optionalString, optionalText, usableUri } from "./decode.ts"
import type { Diagnostic } from "./diagnostic.ts"
import type { JsonObject } from "./jsonrpc.ts"
import { DIAGNOSTICS_KEPT } from "./limits.ts"

export interface Events {
  readonly publish: (notification: Notification) => void
  readonly notifications: Stream.Stream<Notification>
}

/** Each reader has a queue of its own; a slow one loses the oldest, so a server can never fill the memory. */
export const makeEvents = Effect.fnUntraced(function*(
  backlog: number
): Effect.fn.Return<Events, never, Scope.Scope> {
  const readers = new Set<Queue.Queue<Notification, Cause.Done>>()
  yield* Effect.addFinalizer(() => Effect.sync(() => readers.forEach(Queue.endUnsafe)))
  const subscribe = Effect.acquireRelease(
    Effect.tap(Queue.sliding<Notification, Cause.Done>(backlog), (queue) => Effect.sync(() => readers.add(queue))),
    (queue) => Effect.sync(() => readers.delete(queue))
  )
  return {
    publish: (notification) => readers.forEach((queue) => Queue.offerUnsafe(queue, notification)),
    notifications: Stream.unwrap(Effect.map(subscribe, Stream.fromQueue))
  }
})

export interface Diagnostics {
  readonly report: (diagnostic: Diagnostic) => void
  readonly all: () => ReadonlyArray<Diagnostic>
}

export const makeDiagnostics = (log: (diagnostic: Diagnostic) => void): Diagnostics => {
  const kept: Array<Diagnostic> = []
  return {
    report(diagnostic) {
      if (kept.length >= DIAGNOSTICS_KEPT) kept.shift()
      kept.push(diagnostic)
      log(diagnostic)
    },
    all: () => [...kept]
  }
}

export const decodeProgress = (params: JsonObject): Progress => ({
  progress: optionalNumber(params["progress"]) ?? 0,
  total: optionalNumber(params["total"]),
  message: optionalText(params["message"])
})

/** A notification as the stream shows it. List changes are not among them: they come when the list was read again. */
export const decodeNotification = (method: string, params: JsonObject): Notification | undefined => {
  switch (method) {
    case "notifications/resources/updated": {
      const uri = usableUri(params["uri"])
      return uri === undefined ? undefined : { _tag: "ResourceUpdated", uri }
    }
    case "notifications/message":
      return {
        _tag: "Log",
        level: decodeLogLevel(params["level"]),
        logger: optionalName(params["logger"]),
        data: params["data"]
      }
    case "notifications/progress": {
      const token = params["progressToken"]
      return typeof token === "string" || typeof token === "number"
        ? { _tag: "Progress", token, ...decodeProgress(params) }
        : undefined
    }
    case "notifications/elicitation/complete": {
      const elicitationId = optionalString(params["elicitationId"])
      return elicitationId === undefined ? undefined : { _tag: "ElicitationComplete", elicitationId }
    }
    case "notifications/cancelled":
    case "notifications/subscriptions/acknowledged":
      return undefined
    default:
      return { _tag: "Other", method, params }
  }
}
