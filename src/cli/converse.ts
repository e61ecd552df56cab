/*
 * One question to the cycle in context, printed as it is answered.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { shown } from "../internal/shown.ts"
import type { CycleErrorReason } from "../llm/CycleError.ts"
import { LlmCycle } from "../llm/LlmCycle.ts"
import { type CliFailure, failed } from "./failure.ts"
import { type Mode, type OutputClosed, printer } from "./output.ts"

/** Fails with what went wrong in words for a person. */
export const converse = (
  prompt: string,
  mode: Mode,
  aside: NodeJS.WriteStream = process.stderr
): Effect.Effect<void, CliFailure | OutputClosed, LlmCycle> =>
  Effect.flatMap(
    LlmCycle,
    (cycle) =>
      Stream.runForEachArray(cycle.submitStreamWithTools(prompt), printer(mode, aside)).pipe(
        Effect.catchTag("CycleError", (error) => Effect.fail(failed(shown(describe(error.reason)))))
      )
  )

/** What to do about it comes first; how the provider's error was classified is of no use here. */
const describe = (reason: CycleErrorReason): string => {
  if (reason._tag !== "ModelFailed") return reason.message
  const cause = reason.error.reason
  if (cause._tag === "AuthenticationError" && cause.kind === "MissingKey") {
    return "the model needs an API key: set OPENAI_API_KEY, or name another server with --base-url"
  }
  return `the model failed: ${("description" in cause ? cause.description : undefined) ?? cause.message}`
}
