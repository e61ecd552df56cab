/*
 * What the command prints: for people on a terminal, as NDJSON on request.
 *
 * The answer goes to standard output, everything about it to standard error, so
 * that a pipe carries the answer alone. Colours only where a terminal shows
 * them. A reader that goes away ends the command without a complaint.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { shown, shownName } from "../internal/shown.ts"
import { excerpt } from "../internal/text.ts"
import { CycleEvent } from "../llm/CycleEvent.ts"

/** Nobody reads any more. */
export class OutputClosed extends Data.TaggedError("agcore/cli/output/OutputClosed") {}

/** Writes and waits until it is taken. */
export const write = (stream: NodeJS.WriteStream, text: string): Effect.Effect<void, OutputClosed> =>
  text === "" ? Effect.void : Effect.callback((resume) => {
    stream.write(text, (error) => resume(error ? Effect.fail(new OutputClosed()) : Effect.void))
  })

export const print = (text: string): Effect.Effect<void, OutputClosed> => write(process.stdout, `${text}\n`)

// -----------------------------------------------------------------------------
// Style
// -----------------------------------------------------------------------------

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const

export type Style = { readonly [Name in keyof typeof CODES]: (text: string) => string }

/** Colours for a stream, none unless it is a terminal that wants them (Node asks TERM and https://no-color.org). */
export const style = (stream: NodeJS.WriteStream): Style => {
  const colours = stream.isTTY === true && stream.hasColors()
  const paint = (code: number) => (text: string) => colours ? `\u001b[${code}m${text}\u001b[0m` : text
  return {
    bold: paint(CODES.bold),
    dim: paint(CODES.dim),
    red: paint(CODES.red),
    green: paint(CODES.green),
    yellow: paint(CODES.yellow),
    cyan: paint(CODES.cyan)
  }
}

// -----------------------------------------------------------------------------
// Events
// -----------------------------------------------------------------------------

export type Mode = "human" | "json" | "quiet"

/** Prints events as they come: the answer on standard output, what tools do on `aside`. */
export const printer = (
  mode: Mode,
  aside: NodeJS.WriteStream
): (events: ReadonlyArray<CycleEvent>) => Effect.Effect<void, OutputClosed> => {
  switch (mode) {
    case "json":
      return (events) =>
        write(process.stdout, events.map((event) => `${JSON.stringify(encodeEvent(event))}\n`).join(""))
    case "quiet":
      return (events) => write(process.stdout, events.map(quiet).join(""))
    case "human":
      return humanPrinter(aside)
  }
}

const encodeEvent = Schema.encodeUnknownSync(Schema.toCodecJson(CycleEvent))

const quiet = (event: CycleEvent): string => event._tag === "CycleComplete" ? `${shown(event.text).trimEnd()}\n` : ""

const humanPrinter = (aside: NodeJS.WriteStream) => {
  const paint = style(aside)
  let lineIsOpen = false

  return Effect.fnUntraced(function*(events: ReadonlyArray<CycleEvent>) {
    let text = ""
    for (const event of events) {
      if (event._tag === "AssistantTextDelta") {
        text += shown(event.delta)
        continue
      }
      const line = describe(event, paint)
      if (line === undefined) continue
      if (text !== "") lineIsOpen = !text.endsWith("\n")
      yield* write(process.stdout, lineIsOpen ? `${text}\n` : text)
      text = ""
      lineIsOpen = false
      yield* write(aside, line)
    }
    if (text === "") return
    lineIsOpen = !text.endsWith("\n")
    yield* write(process.stdout, text)
  })
}

const describe = (event: CycleEvent, paint: Style): string | undefined => {
  switch (event._tag) {
    case "ToolExecutionStarted":
      return `${paint.cyan("→")} ${name(event)} ${paint.dim(compact(event.input))}\n`
    case "ToolExecutionProgress":
      return `${paint.dim(`  ${name(event)} ${compact(event.value)}`)}\n`
    case "ToolExecutionCompleted":
      return event.isFailure
        ? `${paint.red("✗")} ${name(event)} ${paint.dim(duration(event.durationMillis))} ${
          reason(event.error?.reason)
        }\n`
        : `${paint.green("✓")} ${name(event)} ${
          paint.dim(`${duration(event.durationMillis)} ${compact(event.output)}`)
        }\n`
    case "ToolCallRejected":
      return `${paint.yellow("⊘")} ${name(event)} ${paint.dim(compact(event.input))} ${reason(event.error.reason)}\n`
    case "HistoryCompacted":
      return paint.dim(`  the conversation was shortened to ${event.messagesAfter} messages\n`)
    case "SubAgentEvent": {
      const line = describe(event.event, paint)
      return line === undefined || line === "" ? undefined : `${paint.dim(`${name(event)} ›`)} ${line}`
    }
    // Ends the line of the answer, which may not end with one itself.
    case "CycleComplete":
      return ""
    default:
      return undefined
  }
}

/** How much of arguments, results and reasons is shown. */
const MAX_SHOWN_CHARACTERS = 120

const name = (event: { readonly toolName: string }): string => shownName(event.toolName)

const compact = (value: unknown): string =>
  excerpt(shownName(typeof value === "string" ? value : JSON.stringify(value) ?? ""), MAX_SHOWN_CHARACTERS)

const duration = (millis: number): string => millis < 1_000 ? `${millis} ms` : `${(millis / 1_000).toFixed(1)} s`

const reason = (error: { readonly message: string } | undefined): string => compact(error?.message ?? "failed")
