/**
 * Calls that a modern server answers with questions of its own.
 *
 * The questions are answered, and the request is sent again as a new one: a new id, the answers, and the server's state
 * exactly as it came, or none if none came. The time the answers take does not count; each round has its own deadline.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
 */
import * as Effect from "effect/Effect"
import { InvalidAnswer, LimitExceeded, type McpError, type McpErrorReason, NotSupported } from "../McpError.ts"
import type { Answers } from "./answers.ts"
import type { Connection, RequestOptions } from "./connection.ts"
import { ErrorCode, isObject, type JsonObject } from "./jsonrpc.ts"
import { MAX_INPUT_ROUNDS, MAX_SERVER_REQUESTS } from "./limits.ts"

type Fail = (reason: McpErrorReason) => McpError

type RequestWithInput = (
  method: string,
  params: JsonObject,
  options: RequestOptions
) => Effect.Effect<JsonObject, McpError>

/** The result of a request that must be complete. */
export const completeResult = (
  method: string,
  era: "legacy" | "modern",
  result: unknown,
  fail: Fail
): Effect.Effect<JsonObject, McpError> => {
  if (!isObject(result)) return invalid(method, "the result is not an object", result, fail)
  if (era === "legacy") return Effect.succeed(result)
  const type = result["resultType"]
  // Absent, as earlier servers leave it, means complete.
  return type === undefined || type === null || type === "complete"
    ? Effect.succeed(result)
    : invalid(method, `result type ${JSON.stringify(type)}`, result, fail)
}

const invalid = (method: string, detail: string, answer: unknown, fail: Fail): Effect.Effect<never, McpError> =>
  Effect.fail(fail(new InvalidAnswer({ method, detail, answer })))

/** Makes requests that the server may answer with questions. */
export const makeRequestWithInput = (connection: Connection, answers: Answers, fail: Fail): RequestWithInput => {
  /** Sends the request, from the second round on with the input that the round before asked for. */
  const round = (
    method: string,
    params: JsonObject,
    options: RequestOptions,
    rounds: number,
    input?: JsonObject
  ): Effect.Effect<JsonObject, McpError> =>
    Effect.flatMap(
      connection.request(method, input === undefined ? params : { ...params, ...input }, options),
      (result) => {
        const { era } = connection.agreement()
        return era === "modern" && isObject(result) && result["resultType"] === "input_required"
          ? answerRound(method, params, options, rounds, result)
          : completeResult(method, era, result, fail)
      }
    )

  const answerRound = Effect.fnUntraced(function*(
    method: string,
    params: JsonObject,
    options: RequestOptions,
    rounds: number,
    result: JsonObject
  ): Effect.fn.Return<JsonObject, McpError> {
    if (rounds >= MAX_INPUT_ROUNDS) {
      return yield* fail(new LimitExceeded({ limit: "input rounds", max: MAX_INPUT_ROUNDS }))
    }
    const { inputRequests: requests, requestState: state } = result
    const asked = isObject(requests) ? Object.entries(requests) : []
    if (asked.length > MAX_SERVER_REQUESTS) {
      return yield* fail(new LimitExceeded({ limit: "input requests", max: MAX_SERVER_REQUESTS }))
    }
    const hasState = typeof state === "string"
    if (!isObject(requests) && !hasState) {
      return yield* invalid(method, "input is required, but none is named", result, fail)
    }
    const inputs = yield* Effect.forEach(
      asked,
      ([key, request]) => Effect.map(ask(method, request), (input) => [key, input]),
      { concurrency: "unbounded" }
    )
    return yield* round(method, params, options, rounds + 1, {
      ...(inputs.length === 0 ? {} : { inputResponses: Object.fromEntries(inputs) }),
      ...(hasState ? { requestState: state } : {})
    })
  })

  const ask = (method: string, request: unknown): Effect.Effect<JsonObject, McpError> => {
    const wanted = isObject(request) && typeof request["method"] === "string" ? request["method"] : ""
    const given = isObject(request) && isObject(request["params"]) ? request["params"] : {}
    return Effect.mapError(answers.answer(wanted, given), (error) =>
      fail(
        error.code === ErrorCode.methodNotFound
          ? new NotSupported({ method: wanted, detail: `${method} asks for it: ${error.message}` })
          : new InvalidAnswer({ method, detail: `input could not be given: ${error.message}`, answer: request })
      ))
  }

  return (method, params, options) => round(method, params, options, 0)
}
