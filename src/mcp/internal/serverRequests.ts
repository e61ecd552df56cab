/**
 * Requests of a server in the legacy era. Each is answered by a fiber of its own, off the receiving one, and is interrupted
 * when the server takes it back. While one is open, deadlines of this client's own calls stand still: the server cannot
 * answer them before it is answered.
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { Answers } from "./answers.ts"
import type { Port } from "./connection.ts"
import type { Report } from "./decode.ts"
import { ErrorCode, type JsonObject, type JsonRpcErrorObject, type JsonRpcResponse } from "./jsonrpc.ts"
import { MAX_SERVER_REQUESTS } from "./limits.ts"
import { excerpt } from "./quote.ts"

export interface ServerRequests {
  readonly handle: (id: string | number, method: string, params: JsonObject) => void
  readonly cancelled: (id: unknown) => void
}

export const makeServerRequests = (port: Port, answers: Answers, report: Report): ServerRequests => {
  const open = new Map<string | number, Fiber.Fiber<void>>()

  const respond = (response: JsonRpcResponse): Effect.Effect<void> => Effect.ignore(port.respond(response))

  const failure = (id: string | number, error: JsonRpcErrorObject): Effect.Effect<void> =>
    respond({ jsonrpc: "2.0", id, error })

  const answer = (id: string | number, method: string, params: JsonObject): Effect.Effect<void> => {
    if (method === "ping") return respond({ jsonrpc: "2.0", id, result: {} })
    if (open.size >= MAX_SERVER_REQUESTS) {
      return failure(id, { code: ErrorCode.internal, message: "too many open requests" })
    }
    return Effect.suspend(() => {
      const resume = port.pause()
      return Effect.matchEffect(Effect.ensuring(answers.answer(method, params), Effect.sync(resume)), {
        onSuccess: (result) => respond({ jsonrpc: "2.0", id, result }),
        onFailure: (error) => {
          if (error.code === ErrorCode.methodNotFound) {
            report({ kind: "declined-request", message: `${excerpt(method, 80)}: ${error.message}` })
          }
          return failure(id, error)
        }
      })
    })
  }

  return {
    handle(id, method, params) {
      // A server that asks on and takes no answers gets none; two open requests of one id could not be told apart.
      if (open.has(id) || open.size >= 2 * MAX_SERVER_REQUESTS) {
        return report({
          kind: "declined-request",
          message: `${excerpt(method, 80)}: its id is in use, or too many are open`
        })
      }
      const fiber = port.run(answer(id, method, params))
      if (fiber.pollUnsafe() !== undefined) return
      open.set(id, fiber)
      fiber.addObserver(() => open.delete(id))
    },
    cancelled(id) {
      if (typeof id === "string" || typeof id === "number") open.get(id)?.interruptUnsafe()
    }
  }
}
