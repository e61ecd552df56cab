/**
 * The tool with which a model reads and searches results that were too large to
 * show, see `ResultStore`.
 *
 * It opens nothing that the calling session did not get itself. The policy is
 * asked twice: about this tool, as about any other, and about the call whose
 * result is to be read, as if it were made again. A result of a tool that is
 * denied by now stays closed. Where the policy would ask, somebody has said yes
 * to that very call, or it would have no result.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { cutBytes } from "../internal/text.ts"
import { decide } from "./internal/check.ts"
import { READER } from "./internal/spill.ts"
import { byteLength } from "./internal/textScanner.ts"
import * as Permission from "./Permission.ts"
import { PermissionPolicy } from "./PermissionPolicy.ts"
import * as ResultStore from "./ResultStore.ts"
import type { ResultStoreError } from "./ResultStoreError.ts"
import * as Tool from "./Tool.ts"
import { ToolContext } from "./ToolContext.ts"
import { Io, Other, PermissionDenied, ToolError, type ToolErrorReason } from "./ToolError.ts"

// =============================================================================
// The tool
// =============================================================================

/**
 * The name of the tool, which the start of a large result refers to.
 *
 * @category constants
 * @since 0.1.0
 */
export const NAME: typeof READER = READER

const Parameters = Schema.Struct({
  handle: Schema.String.annotate({ description: "The handle that the large result was shown with" }),
  offset: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({ description: "The byte to begin at. Default 0" })
  ),
  length: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
      description: "How many bytes to read at the most. Default 16384; what does not fit into one result is left out"
    })
  ),
  search: Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1_000)).annotate({
      description: "Shows the places where this text is found, from the offset on, in place of a page. Not a pattern"
    })
  ),
  ignoreCase: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Whether the search ignores upper and lower case. Default false" })
  )
})

const makeReader = () =>
  Tool.Service<"agcore/tools/ReadResult">()(NAME, {
    description:
      "Reads a result of an earlier tool call that was too large to be shown whole: a page of it by offset and "
      + "length, or the places where a text is found.",
    parameters: Parameters,
    success: Schema.String,
    permissions: [Permission.Read],
    readonly: true,
    idempotent: true,
    openWorld: false
  })

let made: ReturnType<typeof makeReader> | undefined

/** Made when somebody registers it: most programs do not, and to describe its parameters takes 5 ms. */
const reader = () => made ??= makeReader()

/**
 * The tool, to be registered beside others. It takes the policy and the store
 * from where the registry has them.
 *
 * **Example** (Finding something in a large result)
 *
 * ```ts run
 * import { PermissionPolicy, ReadResult, ResultStore, Tool, ToolRegistry } from "agcore"
 * import { Effect, Layer } from "effect"
 *
 * const log = Tool.dynamic({
 *   name: "log",
 *   description: "The whole log",
 *   inputSchema: { type: "object" },
 *   handler: () => Effect.succeed(`${"fine\n".repeat(50_000)}ERROR: disk full\n`)
 * })
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   const { stored } = yield* registry.invoke({ id: "1", name: "log", params: {} })
 *   const params = { handle: stored?.handle, search: "error", ignoreCase: true }
 *   const { output } = yield* registry.invoke({ id: "2", name: ReadResult.NAME, params })
 *   return String(output).split("\n").slice(0, 3)
 * }).pipe(
 *   Effect.provide(ToolRegistry.layer(log, ReadResult.tool)),
 *   Effect.provide([ResultStore.layerMemory(), PermissionPolicy.layer()])
 * )
 *
 * await Effect.runPromise(program) // => [
 * //   "[1 match in 250017 bytes]",
 * //   "",
 * //   "offset 250000, line 50001:"
 * // ]
 * ```
 *
 * @category constants
 * @since 0.1.0
 */
export const tool: Tool.Tool<PermissionPolicy> = {
  "~agcore/tools/Tool": "~agcore/tools/Tool",
  get definition() {
    return reader().definition
  },
  get schemaProblem() {
    return reader().schemaProblem
  },
  implementation: Effect.gen(function*() {
    const store = yield* ResultStore.ResultStore
    const policy = yield* PermissionPolicy
    if (store === undefined) {
      yield* Effect.logWarning(`"${NAME}" is registered where no ResultStore is: there will be nothing to read`)
    }
    // A Layer of its own for each registry: two of them may have two stores.
    const built = yield* Effect.scoped(Layer.build(reader().layer(makeHandler(store, policy))))
    return Context.get(built, reader())
  })
}

// =============================================================================
// The handler
// =============================================================================

const makeHandler = (store: ResultStore.ResultStore | undefined, policy: PermissionPolicy["Service"]) =>
  Effect.fnUntraced(function*(parameters: typeof Parameters.Type) {
    const { maxResultBytes, sessionId, toolCallId, traceId, turn } = yield* ToolContext
    if (store === undefined) return yield* fail(new Other({ description: "no results are stored here" }))
    const key = { sessionId, handle: parameters.handle }
    const { input, sizeBytes, tool } = yield* Effect.mapError(store.info(key), toToolError)

    const decision = yield* decide(policy.check, { tool, input, sessionId, traceId, toolCallId, turn })
    if (decision._tag === "Deny") {
      return yield* fail(
        new PermissionDenied({ permissions: tool.permissions, explanation: `${tool.name}: ${decision.explanation}` })
      )
    }

    const room = maxResultBytes - maxHeadBytes(sizeBytes)
    if (!(room >= MIN_ROOM_BYTES)) {
      return yield* fail(new Other({ description: `a result may have ${maxResultBytes} bytes, too few to read in` }))
    }
    if (parameters.search === undefined) {
      const length = Math.min(parameters.length ?? DEFAULT_PAGE_BYTES, room)
      const page = yield* Effect.mapError(store.read(key, { offset: parameters.offset, length }), toToolError)
      return showPage(page)
    }
    const { ignoreCase, offset, search: text } = parameters
    const found = yield* Effect.mapError(
      store.search(key, { text, ignoreCase, offset, contextBytes: CONTEXT_BYTES }),
      toToolError
    )
    return showMatches(found, room)
  })

/** How much is read where the model does not say. */
const DEFAULT_PAGE_BYTES = 16_384

/** How much is shown on each side of a match. */
const CONTEXT_BYTES = 120

/** Less than this beside the head is not worth a call. */
const MIN_ROOM_BYTES = 64

const fail = (reason: ToolErrorReason): Effect.Effect<never, ToolError> =>
  Effect.fail(new ToolError({ toolName: NAME, reason }))

const toToolError = (error: ResultStoreError): ToolError =>
  new ToolError({
    toolName: NAME,
    reason: error.reason._tag === "Io"
      ? new Io({ description: error.message, cause: error })
      : new Other({ description: error.message, cause: error })
  })

// =============================================================================
// What the model reads
// =============================================================================

const showPage = ({ nextOffset, offset, sizeBytes, text }: ResultStore.Page): string =>
  `[bytes ${offset} to ${nextOffset ?? sizeBytes} of ${sizeBytes}, ${
    nextOffset === undefined ? "the end" : `go on at offset ${nextOffset}`
  }]\n${text}`

const showMatches = ({ matches, nextOffset, sizeBytes }: ResultStore.Matches, room: number): string => {
  const shown: Array<string> = []
  let left = room
  let next = nextOffset
  for (const { excerpt, line, offset } of matches) {
    const entry = `\n\noffset ${offset}, line ${line}:\n${excerpt}`
    const sizeBytes = byteLength(entry)
    if (sizeBytes > left && shown.length > 0) {
      next = offset
      break
    }
    // Who searches on from a match that does not fit gets its start.
    shown.push(cutBytes(entry, left).kept)
    left -= sizeBytes
  }
  const count = shown.length === 0 ? "no match" : shown.length === 1 ? "1 match" : `${shown.length} matches`
  const more = next === undefined ? "" : `, search on at offset ${next}`
  return `[${count} in ${sizeBytes} bytes${more}]${shown.join("")}`
}

/** The most that stands before a page or matches: words, and up to four places in the text. */
const maxHeadBytes = (sizeBytes: number): number => 48 + 4 * String(sizeBytes).length
