/**
 * What happens to each incoming message.
 *
 * https://www.jsonrpc.org/specification
 */
import * as Result from "effect/Result"
import { InvalidAnswer, LimitExceeded, Refused } from "../McpError.ts"
import type { Calls } from "./calls.ts"
import type { Diagnostic } from "./diagnostic.ts"
import { classify, isObject, type JsonObject, type JsonRpcErrorObject, ownId } from "./jsonrpc.ts"
import { excerpt } from "./quote.ts"

export interface ReceiveHandlers {
  readonly notification: (method: string, params: JsonObject) => void
  /** A request of the server. */
  readonly request: (id: string | number, method: string, params: JsonObject) => void
  readonly diagnostic: (diagnostic: Diagnostic) => void
}

export interface Receiver {
  readonly receive: (value: unknown) => void
  readonly oversized: (id: number | undefined, maxBytes: number) => void
}

export const makeReceiver = (
  calls: Calls,
  redact: (text: string) => string,
  handlers: ReceiveHandlers
): Receiver => {
  const unexpected = (id: number | undefined): void =>
    handlers.diagnostic({
      kind: "unexpected-answer",
      message: id === undefined ? "an answer without an id" : `an answer to ${id}, which nobody waits for`
    })

  /** The call an answer must be meant for that does not name one: the only one that waits. */
  const onlyCall = (): number | undefined => {
    const waiting = calls.waiting()
    return waiting.length === 1 ? waiting[0] : undefined
  }

  const failed = (
    id: number | undefined,
    error: JsonRpcErrorObject | undefined,
    detail: string,
    answer: unknown
  ): void => {
    const method = id === undefined ? undefined : calls.methodOf(id)
    if (id === undefined || method === undefined) return unexpected(id)
    calls.fail(
      id,
      error === undefined
        ? new InvalidAnswer({ method, detail, answer })
        : new Refused({
          method,
          code: error.code,
          detail: excerpt(redact(error.message)),
          ...(error.data === undefined ? {} : { data: redactJson(error.data, redact) })
        })
    )
  }

  const one = (value: unknown): void => {
    const message = classify(value)
    switch (message._tag) {
      case "Result":
        if (!calls.answer(message.id, message.result)) unexpected(message.id)
        return
      case "Failure":
        return failed(message.id, message.error, "", value)
      case "Malformed":
        return failed(message.id, undefined, message.detail, value)
      case "Unaddressed":
        return failed(onlyCall(), message.error, "an answer without an id", value)
      case "Request":
        return handlers.request(message.id, message.method, message.params)
      case "Notification":
        if (message.method === "notifications/progress") {
          const token = ownId(message.params["progressToken"])
          if (token !== undefined) calls.progress(token, message.params)
        }
        return handlers.notification(message.method, message.params)
      case "Noise":
        return handlers.diagnostic({ kind: "noise", message: `JSON that is not a message: ${kindOf(value)}` })
    }
  }

  return {
    // A batch is a list of messages. https://modelcontextprotocol.io/specification/2025-03-26/basic#batching
    receive: (value) => Array.isArray(value) && value.length > 0 ? value.forEach(one) : one(value),
    oversized(id, max) {
      const target = id ?? onlyCall()
      if (target !== undefined) calls.fail(target, new LimitExceeded({ limit: "maxMessageBytes", max }))
      handlers.diagnostic({ kind: "limit", message: `a message of more than ${max} bytes was passed over` })
    }
  }
}

/** Data that nests too deep to be written is left out. */
const redactJson = (data: unknown, redact: (text: string) => string): unknown =>
  Result.getOrUndefined(Result.try((): unknown => JSON.parse(redact(JSON.stringify(data)))))

// Its names tell enough: the values may be secrets of the server, and nest too deep to be written.
const kindOf = (value: unknown): string =>
  isObject(value)
    ? `an object of ${excerpt(Object.keys(value).slice(0, 10).map((key) => key.slice(0, 40)).join(", "), 200)}`
    : Array.isArray(value)
    ? "a list"
    : `a ${value === null ? "null" : typeof value}`
