/*
 * A result over the limit goes to the store whole; the model is shown its start
 * and how to read on. Where it cannot be stored it is cut, and that is logged.
 */
import * as Prompt from "effect/ai/Prompt"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { cutBytes } from "../../internal/text.ts"
import * as ResultStore from "../ResultStore.ts"
import type { Definition } from "../Tool.ts"
import { ToolInvocation } from "../ToolInvocation.ts"
import * as ResultLimit from "./resultLimit.ts"
import { supervise } from "./supervise.ts"
import { byteLength } from "./textScanner.ts"

/** The name of the tool that reads stored results. */
export const READER = "read_result"

type Parts = ReadonlyArray<Prompt.ToolModelOutputPart>

/** The call whose result it is. */
interface Origin {
  readonly tool: Definition
  readonly identity: { readonly sessionId: string; readonly idempotencyKey: string }
  /** The names of the tools that are offered beside it. */
  readonly available: () => ReadonlyArray<string>
}

/** What the model would have been shown without a limit. */
export interface Whole {
  readonly value: Schema.Json
  readonly modelOutput: Parts | undefined
}

/** Stores what a truncated invocation lacks, if it can. */
export type Spill = (
  invocation: ToolInvocation,
  origin: Origin,
  whole: Whole,
  maxResultBytes: number
) => Effect.Effect<ToolInvocation>

export const makeSpill: (gracePeriod: Duration.Duration) => Effect.Effect<Spill> = Effect.fnUntraced(
  function*(gracePeriod) {
    const store = yield* ResultStore.ResultStore
    const timeout = yield* ResultStore.PutTimeout
    if (store === undefined) return (invocation) => Effect.succeed(invocation)

    const put = (result: ResultStore.NewResult) =>
      Effect.flatMap(
        supervise(Effect.suspend(() => store.put(result)), {
          timeout,
          gracePeriod,
          onStop: () => {},
          onAbandon: () => {}
        }),
        (outcome) => outcome._tag === "Ended" ? outcome.exit : Effect.die(new Error("the store did not answer in time"))
      )

    return (invocation, { available, identity, tool }, whole, maxResultBytes) =>
      // What reads results keeps to the limit by itself.
      !invocation.truncated || tool.name === READER ? Effect.succeed(invocation) : put({
        sessionId: identity.sessionId,
        idempotencyKey: identity.idempotencyKey,
        tool,
        input: invocation.input,
        mediaType: mediaTypeOf(whole),
        text: wholeText(whole)
      }).pipe(
        Effect.map((stored) => show(invocation, whole, stored, available().includes(READER), maxResultBytes)),
        Effect.catchCause((cause) =>
          Effect.as(
            Effect.logWarning(`A result of tool "${invocation.toolName}" could not be stored and is cut`, cause),
            invocation
          )
        )
      )
  }
)

/** Between parts of text in the stored whole. */
const SEPARATOR = "\n"

const textParts = (parts: Parts): ReadonlyArray<string> =>
  parts.flatMap((part) => part.type === "text" ? [part.text] : [])

const wholeText = ({ modelOutput, value }: Whole): string =>
  modelOutput === undefined ? ResultLimit.textOf(value) : textParts(modelOutput).join(SEPARATOR)

const mediaTypeOf = ({ modelOutput, value }: Whole): string =>
  modelOutput === undefined && typeof value !== "string" ? "application/json" : "text/plain"

/** The invocation as a model is shown it when the whole is stored. */
const show = (
  invocation: ToolInvocation,
  { modelOutput, value }: Whole,
  { handle, mediaType, sizeBytes }: ResultStore.StoredResult,
  isReadable: boolean,
  maxResultBytes: number
): ToolInvocation => {
  const mark = (shownBytes: number) => marker(handle, shownBytes, sizeBytes, isReadable)
  // Start and marker keep to the limit together, so that nobody cuts the marker off.
  const maxBytes = Math.max(0, ResultLimit.toBytes(maxResultBytes) - byteLength(mark(sizeBytes)))
  const stored = { handle, mediaType, sizeBytes }
  if (modelOutput === undefined) {
    const { kept, keptBytes } = cutBytes(ResultLimit.textOf(value), maxBytes)
    return new ToolInvocation({ ...invocation, result: `${kept}${mark(keptBytes)}`, stored })
  }
  return new ToolInvocation({ ...invocation, modelOutput: startOf(modelOutput, maxBytes, mark), stored })
}

/** Parts up to the limit and the marker after them. Files are not cut, nor left out. */
const startOf = (parts: Parts, maxBytes: number, mark: (shownBytes: number) => string): Parts => {
  let left = maxBytes
  let shownBytes = 0
  let isCut = false
  return parts.flatMap((part): Parts => {
    if (part.type !== "text") return [part]
    if (isCut) return []
    const { kept, keptBytes, missingBytes } = cutBytes(part.text, left)
    left -= keptBytes
    shownBytes += keptBytes
    if (missingBytes === 0) {
      shownBytes += SEPARATOR.length
      return [part]
    }
    isCut = true
    return [Prompt.makePart("text", { text: `${kept}${mark(shownBytes)}`, options: part.options })]
  })
}

const marker = (handle: string, shownBytes: number, sizeBytes: number, isReadable: boolean): string => {
  const shown = `\n[truncated: bytes 0 to ${shownBytes} of ${sizeBytes} are shown`
  return isReadable
    ? `${shown}; the whole result is stored as ${handle}. To read on, call ${READER} with this handle and offset `
      + `${shownBytes}; to find something in it, add a text to search for]`
    : `${shown}; the rest cannot be read here]`
}
