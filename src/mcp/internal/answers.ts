/**
 * What this client answers when a server asks: sampling, elicitation, roots. Both eras ask the same questions, the legacy one
 * by requests, the modern one inside `input_required`. Only what has a handler is advertised.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { compiler } from "../../internal/schemaCompiler.ts"
import { McpElicitation } from "../McpElicitation.ts"
import { McpRoots } from "../McpRoots.ts"
import { McpSampling } from "../McpSampling.ts"
import type { Report } from "./decode.ts"
import { completeAnswer, decodeElicitation } from "./elicitation.ts"
import { ErrorCode, type JsonObject, type JsonRpcErrorObject } from "./jsonrpc.ts"
import { decodeSamplingRequest, encodeSamplingAnswer } from "./sampling.ts"

export interface Answers {
  /** The `capabilities` of this client. */
  readonly capabilities: JsonObject
  readonly roots: McpRoots["Service"] | undefined
  /** Whether a person can be sent to a link. */
  readonly followsLinks: boolean
  readonly answer: (method: string, params: JsonObject) => Effect.Effect<JsonObject, JsonRpcErrorObject>
}

/** A person may take their time; a server must not wait for ever. */
const ANSWER_TIMEOUT = "10 minutes"

/** The code the specification uses where a person says no to sampling. */
const REJECTED = -1

const refusal = (code: number, message: string): Effect.Effect<never, JsonRpcErrorObject> =>
  Effect.fail({ code, message })

export const makeAnswers = Effect.fnUntraced(function*(server: string, report: Report): Effect.fn.Return<Answers> {
  const sampling = Option.getOrUndefined(yield* Effect.serviceOption(McpSampling))
  const elicitation = Option.getOrUndefined(yield* Effect.serviceOption(McpElicitation))
  const roots = Option.getOrUndefined(yield* Effect.serviceOption(McpRoots))

  const capabilities: JsonObject = {
    ...(roots === undefined ? {} : { roots: { listChanged: true } }),
    ...(sampling === undefined ? {} : { sampling: { tools: {} } }),
    ...(elicitation?.form === undefined && elicitation?.url === undefined ? {} : {
      elicitation: {
        ...(elicitation.form === undefined ? {} : { form: {} }),
        ...(elicitation.url === undefined ? {} : { url: {} })
      }
    })
  }

  const elicit = Effect.fnUntraced(function*(params: JsonObject): Effect.fn.Return<JsonObject, JsonRpcErrorObject> {
    const request = decodeElicitation(server, params)
    if (request.mode === "invalid") return yield* refusal(ErrorCode.invalidParams, request.detail)
    const asking = request.mode === "form" ? elicitation?.form?.(request) : elicitation?.url?.(request)
    if (asking === undefined) return yield* refusal(ErrorCode.invalidParams, `${request.mode} mode is not offered`)
    const completed = completeAnswer(request, yield* asking, yield* compiler)
    return Result.isSuccess(completed)
      ? completed.success
      : yield* refusal(ErrorCode.internal, `the answer does not fit the requested schema: ${completed.failure}`)
  })

  const dispatch = (method: string, params: JsonObject): Effect.Effect<JsonObject, JsonRpcErrorObject> => {
    switch (method) {
      case "roots/list":
        if (roots !== undefined) return Effect.map(roots.list, (roots) => ({ roots }))
        break
      case "elicitation/create":
        if (elicitation?.form !== undefined || elicitation?.url !== undefined) return elicit(params)
        break
      case "sampling/createMessage":
        if (sampling !== undefined) {
          return sampling.createMessage(decodeSamplingRequest(server, params, report)).pipe(
            Effect.map(encodeSamplingAnswer),
            Effect.catch((error) => refusal(REJECTED, error.detail))
          )
        }
        break
    }
    return refusal(ErrorCode.methodNotFound, "not offered by this client")
  }

  return {
    capabilities,
    roots,
    followsLinks: elicitation?.url !== undefined,
    answer: (method, params) =>
      Effect.suspend(() => dispatch(method, params)).pipe(
        Effect.timeoutOrElse({
          duration: ANSWER_TIMEOUT,
          orElse: () => refusal(ErrorCode.internal, "nobody answered in time")
        }),
        // A handler that breaks must not leave the server waiting.
        Effect.catchDefect((defect) =>
          Effect.andThen(
            Effect.logError("An MCP server's request broke its handler", defect),
            refusal(ErrorCode.internal, "internal error")
          )
        )
      )
  }
})
