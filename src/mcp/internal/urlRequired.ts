/**
 * Requests a server refuses until a person has followed a link (2025-11-25).
 *
 * The links of the refusal are put to the person; where all are followed, the request is sent once more, when the server says
 * that they are complete or after a time. Where one is not, the refusal stands.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { McpError } from "../McpError.ts"
import type { Answers } from "./answers.ts"
import { ErrorCode, isObject, type JsonObject } from "./jsonrpc.ts"
import { remoteError } from "./negotiate.ts"

export interface UrlRequired {
  /** Sends a request again once what it requires is complete. */
  readonly retry: <A>(request: Effect.Effect<A, McpError>) => Effect.Effect<A, McpError>
  /** The server says that a link was followed to its end. */
  readonly completed: (elicitationId: unknown) => void
}

/** Servers need not tell of completion. */
const COMPLETION_TIMEOUT = "1 minute"

export const makeUrlRequired = (answers: Answers): UrlRequired => {
  const waiting = new Map<unknown, Deferred.Deferred<void>>()

  /** Whether the person followed the link. */
  const follow = (elicitation: JsonObject): Effect.Effect<boolean> => {
    const id = elicitation["elicitationId"]
    const complete = Deferred.makeUnsafe<void>()
    // Before the question: the answer to it and the notification come in any order.
    waiting.set(id, complete)
    return answers.answer("elicitation/create", elicitation).pipe(
      Effect.orElseSucceed((): JsonObject => ({})),
      Effect.flatMap((answer) =>
        answer["action"] === "accept"
          ? Effect.as(Effect.timeoutOption(Deferred.await(complete), COMPLETION_TIMEOUT), true)
          : Effect.succeed(false)
      ),
      Effect.ensuring(Effect.sync(() => waiting.delete(id)))
    )
  }

  return {
    retry: (request) =>
      !answers.followsLinks ? request : Effect.catch(request, (error) => {
        const links = linksOf(error)
        return links.length === 0 ? Effect.fail(error) : Effect.flatMap(
          Effect.forEach(links, follow),
          (followed) => followed.every(Boolean) ? request : Effect.fail(error)
        )
      }),
    completed: (id) => {
      const complete = waiting.get(id)
      if (complete !== undefined) Deferred.doneUnsafe(complete, Effect.void)
    }
  }
}

const linksOf = (error: McpError): ReadonlyArray<JsonObject> => {
  const remote = remoteError(error.reason)
  if (remote?.code !== ErrorCode.urlElicitationRequired || !isObject(remote.data)) return []
  const { elicitations } = remote.data
  return Array.isArray(elicitations) ? elicitations.filter(isObject).filter(({ mode }) => mode === "url") : []
}
