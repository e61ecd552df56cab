/*
 * An HTTP answer as response parts, whatever shape it came in: an event stream, one JSON document, or an error.
 *
 * The request decides only what is expected: servers answer a streamed request with JSON and the reverse.
 */
import type * as AiError from "effect/ai/AiError"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Pull from "effect/Pull"
import type { Span } from "effect/Tracer"
import type * as Assembler from "./assembler.ts"
import * as Body from "./body.ts"
import * as Chunks from "./chunks.ts"
import * as Events from "./events.ts"
import type { Failures } from "./failures.ts"
import * as Json from "./json.ts"
import type { StreamPart } from "./part.ts"
import { annotateResponse } from "./telemetry.ts"

/** The parts of an answer, in the arrays they arrived in. */
export type Answering = Pull.Pull<Arr.NonEmptyReadonlyArray<StreamPart>, AiError.AiError>

export interface Options {
  readonly assembler: Assembler.Assembler
  readonly failures: Failures
  readonly limits: Body.Limits
  readonly streamed: boolean
  /** What `[DONE]` without a finish reason means; the end of a connection without either always means `unknown`. */
  readonly missingFinish: "incomplete" | "stop"
  /** The names calls may use; any, if absent. */
  readonly callable: ReadonlySet<string> | undefined
  /** Is told what the answer says of itself. */
  readonly span: Span
}

export const parts = (answer: Body.Answer, options: Options): Answering => {
  const { header, status } = answer.head
  if (status < 200 || status > 299) return refused(answer, options)
  switch (kind(header("content-type"), options.streamed)) {
    case "events":
      return events(answer, options)
    case "json":
      return document(answer, options)
    case "other":
      return unexpected(answer, options)
  }
}

const kind = (contentType: string | null, streamed: boolean): "events" | "json" | "other" => {
  const type = contentType?.split(";")[0]?.trim().toLowerCase() ?? ""
  if (type === "") return streamed ? "events" : "json"
  if (type === "text/event-stream") return "events"
  return type === "application/json" || type.endsWith("+json") ? "json" : "other"
}

const refused = Effect.fnUntraced(function*(
  answer: Body.Answer,
  { failures }: Options
): Effect.fn.Return<never, AiError.AiError> {
  const body = yield* Body.beginning(answer)
  return yield* failures.status({ ...answer.head, body }, yield* DateTime.now)
})

const unexpected = Effect.fnUntraced(function*(
  answer: Body.Answer,
  { failures, streamed }: Options
): Effect.fn.Return<never, AiError.AiError> {
  const body = yield* Body.beginning(answer)
  return yield* failures.unexpectedContent({ ...answer.head, body }, streamed)
})

// =============================================================================
// One document
// =============================================================================

const document = (answer: Body.Answer, options: Options): Answering => {
  const reader = makeReader(options, Json.parseObject)
  return Effect.suspend(() =>
    reader.isEnded() ? Cause.done() : Effect.flatMap(Body.text(answer), (text): Answering => {
      reader.read(text)
      reader.end("document")
      const failure = reader.failure()
      if (failure !== undefined) return Effect.fail(failure)
      const out = reader.take()
      return Arr.isReadonlyArrayNonEmpty(out) ? Effect.succeed(out) : Cause.done()
    })
  )
}

// =============================================================================
// An event stream
// =============================================================================

const events = (answer: Body.Answer, options: Options): Answering => {
  const { failures, limits } = options
  const reader = makeReader(options, Chunks.makeReader())
  const decoder = Body.makeDecoder()
  const parser = Events.makeParser((data, event) => reader.read(data, event, atEnd), limits.maxEventBytes)
  let atEnd = false

  const feed = (text: string): void => {
    if (!parser.feed(text)) {
      reader.fail(failures.tooLarge("pending event", limits.maxEventBytes))
    }
  }

  const receive = (chunks: ReadonlyArray<Uint8Array>): Answering => {
    if (chunks.length === 0) return end()
    feed(decoder.add(chunks))
    return flush()
  }

  const end = (): Answering => {
    // The last event counts even if its blank line is missing, unless it is cut itself.
    atEnd = true
    feed(`${decoder.end()}\n\n`)
    reader.end("connection")
    return flush()
  }

  const next = Effect.flatMap(answer.read, receive)

  /** After the finish reason there is only usage to wait for, and nothing is missing from a response that is cut. */
  const rest = Effect.matchEffect(answer.readRest, { onFailure: end, onSuccess: receive })

  /** What was read so far, before a failure or an end is told. */
  const flush = (): Answering => {
    const out = reader.take()
    if (Arr.isReadonlyArrayNonEmpty(out)) return Effect.succeed(out)
    const failure = reader.failure()
    if (failure !== undefined) return Effect.fail(failure)
    if (reader.isEnded()) return Cause.done()
    return reader.isFinished() ? rest : next
  }

  return Effect.suspend(flush)
}

// =============================================================================
// Reading
// =============================================================================

interface Reader {
  /** Takes the data of one event, or a whole document; `isLast` is one that may be cut. */
  readonly read: (data: string, event?: string, isLast?: boolean) => void
  readonly fail: (error: AiError.AiError) => void
  readonly end: (how: "done" | "document" | "connection") => void
  /** The parts since the last time. */
  readonly take: () => ReadonlyArray<StreamPart>
  readonly failure: () => AiError.AiError | undefined
  readonly isFinished: () => boolean
  readonly isEnded: () => boolean
}

/** Feeds an assembler and judges its end. After an end or a failure nothing more is read. */
const makeReader = (
  { assembler, callable, failures, missingFinish, span }: Options,
  parse: (text: string) => Json.JsonObject | undefined
): Reader => {
  let out: Array<StreamPart> = []
  let failure: AiError.AiError | undefined
  let ended = false

  const fail = (error: AiError.AiError): void => {
    ended = true
    failure ??= error
  }

  const end: Reader["end"] = (how) => {
    if (ended) return
    ended = true
    if (!assembler.hasStarted() && !assembler.isFinished()) return fail(failures.empty())
    const { calls, finish, nameless } = assembler.end(
      how !== "connection" && missingFinish === "stop" ? "stop" : "unknown",
      out
    )
    if (nameless) return fail(failures.namelessCall())
    const unknown = calls.find((call) => callable?.has(call.name) === false)
    if (unknown !== undefined) return fail(failures.unknownTool(unknown.name, callable ?? []))
    for (const call of calls) out.push(call)
    out.push(finish)
  }

  const read: Reader["read"] = (data, event, isLast = false) => {
    if (ended) return
    const text = data.trim()
    if (text === "[DONE]") return end("done")
    // Keep-alives: nothing, or a comment that was sent as data.
    if (text === "" || text.startsWith(":")) return
    const chunk = parse(text)
    if (chunk === undefined) return isLast ? undefined : fail(failures.notJson(text))
    const error = chunk["error"] ?? (event === "error" || chunk["object"] === "error" ? chunk : null)
    if (error !== null) return fail(failures.reported(error))
    assembler.push(chunk, out)
  }

  return {
    read,
    fail,
    end,
    take() {
      const taken = out
      out = []
      annotateResponse(span, taken)
      return taken
    },
    failure: () => failure,
    isFinished: assembler.isFinished,
    isEnded: () => ended
  }
}
