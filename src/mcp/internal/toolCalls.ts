/**
 * Calling a tool: the name and schema it was listed with, the deadline, progress, and the check of what comes back.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/server/tools
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import type { Validate } from "../../internal/jsonSchema.ts"
import { type Compile, compiler } from "../../internal/schemaCompiler.ts"
import type { CallToolOptions } from "../McpClient.ts"
import { type McpError, type McpErrorReason, NotSupported, OutputMismatch } from "../McpError.ts"
import type { Progress, Tool, ToolResult } from "../McpModel.ts"
import type { RequestOptions } from "./connection.ts"
import type { Report } from "./decode.ts"
import { decodeToolResult } from "./decodeContent.ts"
import { decodeProgress } from "./events.ts"
import { ErrorCode, type JsonObject } from "./jsonrpc.ts"
import { PROGRESS_BACKLOG } from "./limits.ts"
import { remoteError } from "./negotiate.ts"
import { millis, type Settings } from "./settings.ts"

export interface ToolCallNeeds {
  readonly settings: Settings
  /** Whether the transport repeats parts of a call in headers. */
  readonly hasHeaders: boolean
  readonly tool: (name: string) => Tool | undefined
  readonly refreshTools: Effect.Effect<unknown, McpError>
  readonly request: (method: string, params: JsonObject, options: RequestOptions) => Effect.Effect<JsonObject, McpError>
  readonly fail: (reason: McpErrorReason) => McpError
  readonly report: Report
}

export type CallTool = (
  name: string,
  args?: JsonObject,
  options?: CallToolOptions
) => Effect.Effect<ToolResult, McpError>

/** How long `onProgress` may take to see the last events after the answer came. */
const LAST_PROGRESS = "1 second"

export const makeCallTool = (needs: ToolCallNeeds): CallTool => {
  const { settings } = needs
  const validators = new WeakMap<Tool, Validate>()

  /** Compiled at the first call: most tools are never called. */
  const validatorOf = (tool: Tool, compile: Compile): Validate => {
    const known = validators.get(tool)
    if (known !== undefined) return known
    const compiled = compile(tool.outputSchema)
    if (Result.isFailure(compiled)) {
      needs.report({
        kind: "unusable-schema",
        message: `the output of "${tool.name}" is not checked: ${compiled.failure}`
      })
    }
    const validate = Result.getOrElse(compiled, (): Validate => () => undefined)
    validators.set(tool, validate)
    return validate
  }

  const check = (name: string, raw: JsonObject): Effect.Effect<ToolResult, McpError> => {
    const result = decodeToolResult(raw, needs.report)
    const tool = needs.tool(name)
    // An error has its own shape, and says so.
    if (tool?.outputSchema === undefined || result.isError || !settings.validateOutput) return Effect.succeed(result)
    return Effect.flatMap(compiler, (compile) => {
      const problem = result.structuredContent === undefined
        ? "there is no structured content"
        : validatorOf(tool, compile)(result.structuredContent)
      return problem === undefined
        ? Effect.succeed(result)
        : Effect.fail(needs.fail(new OutputMismatch({ tool: name, detail: problem, result: raw })))
    })
  }

  const send = (
    name: string,
    args: JsonObject,
    options: CallToolOptions | undefined,
    onProgress: ((params: JsonObject) => void) | undefined
  ): Effect.Effect<ToolResult, McpError> =>
    Effect.suspend(() => {
      const tool = needs.tool(name)
      if (tool?.requiresTask === true) {
        const detail = `"${name}" must be run as a task, which this client does not do`
        return Effect.fail(needs.fail(new NotSupported({ method: "tools/call", detail })))
      }
      const wireName = typeof tool?.raw["name"] === "string" ? tool.raw["name"] : name
      return Effect.flatMap(
        needs.request("tools/call", { name: wireName, arguments: args }, {
          timeoutMillis: options?.timeout === undefined
            ? settings.toolTimeoutMillis.get(name) ?? settings.timeoutMillis
            : millis(options.timeout),
          maxTotalMillis: options?.resetTimeoutOnProgress === undefined
            ? settings.maxTotalMillis
            : options.resetTimeoutOnProgress
            ? settings.maxTotalMillis ?? Number.POSITIVE_INFINITY
            : undefined,
          onProgress,
          name: wireName,
          inputSchema: tool?.raw["inputSchema"]
        }),
        (raw) => check(name, raw)
      )
    })

  /** The headers of a call follow from the tool's schema; a server that sees a mismatch has changed it. */
  const sendRefreshed: typeof send = (name, args, options, onProgress) =>
    Effect.catchIf(
      send(name, args, options, onProgress),
      (error) => remoteError(error.reason)?.code === ErrorCode.headerMismatch,
      () => Effect.andThen(needs.refreshTools, send(name, args, options, onProgress))
    )

  const callTool = needs.hasHeaders ? sendRefreshed : send
  return (name, args = {}, options) =>
    options?.onProgress === undefined
      ? callTool(name, args, options, undefined)
      : withProgress(options.onProgress, (onProgress) => callTool(name, args, options, onProgress))
}

/** Runs the handler beside the call, in order, and lets it see everything before the call is over. */
const withProgress = <A, E>(
  handler: (progress: Progress) => Effect.Effect<void>,
  use: (onProgress: (params: JsonObject) => void) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.gen(function*() {
    const queue = yield* Queue.sliding<Progress, Cause.Done>(PROGRESS_BACKLOG)
    const handling = yield* Effect.forkChild(
      Effect.ignore(Effect.forever(Effect.flatMap(Queue.take(queue), handler), { disableYield: true }))
    )
    const result = yield* use((params) => void Queue.offerUnsafe(queue, decodeProgress(params)))
    yield* Queue.end(queue)
    yield* Effect.timeoutOption(Fiber.await(handling), LAST_PROGRESS)
    yield* Fiber.interrupt(handling)
    return result
  })
