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
import type { Head } from "../HttpTransport.ts"
import type * as Assembler from "./assembler.ts"
import * as Body from "./body.ts"
import * as Chunks from "./chunks.ts"
import * as Events from "./events.ts"
import type { Failures } from "./failures.ts"
import * as Json from "./json.ts"
import type { StreamPart } from "./part.ts"
import { annotateResponse } from "./telemetry.ts"
import type * as Watch from "./watch.ts"

type Parts = Arr.NonEmptyReadonlyArray<StreamPart>
type Next = Watch.Next<Parts, AiError.AiError | Cause.Done>

/** An answer that is being read. */
export interface Answer {
  /** Its parts, in the arrays they arrived in. */
  readonly pull: Pull.Pull<Parts, AiError.AiError>
  /** Whether all of it was pulled: spares a pull that only says so. */
  readonly isOver: () => boolean
}

/** An answer that has begun. */
interface Begun extends Answer {
  /** The first wait for its body. */
  readonly first: () => Next
}

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

export const make = (exchange: Body.Exchange, options: Options): Answer => {
  const { failures, streamed } = options
  let begun: Begun | undefined

  const begin = ({ header, status }: Head): Next => {
    if (status < 200 || status > 299) {
      return exchange.beginning((body) =>
        Effect.flatMap(DateTime.now, (now) => Effect.fail(failures.status({ header, status, body }, now)))
      )
    }
    switch (kind(header("content-type"), streamed)) {
      case "events":
        begun = events(exchange, options)
        return begun.first()
      case "json":
        begun = document(exchange, options)
        return begun.first()
      case "other":
        return exchange.beginning((body) => Effect.fail(failures.unexpectedContent({ header, status, body }, streamed)))
    }
  }

  const first = exchange.wait(() => exchange.head(begin))
  return {
    pull: Effect.suspend(() => begun?.pull ?? first),
    isOver: () => begun?.isOver() === true
  }
}

const kind = (contentType: string | null, streamed: boolean): "events" | "json" | "other" => {
  const type = contentType?.split(";")[0]?.trim().toLowerCase() ?? ""
  if (type === "") return streamed ? "events" : "json"
  if (type === "text/event-stream") return "events"
  return type === "application/json" || type.endsWith("+json") ? "json" : "other"
}

// =============================================================================
// One document
// =============================================================================

const document = (exchange: Body.Exchange, options: Options): Begun => {
  const reader = makeReader(options, Json.parseObject)

  const told = (): Answer["pull"] => {
    const failure = reader.failure()
    if (failure !== undefined) return Effect.fail(failure)
    const out = reader.take()
    return Arr.isReadonlyArrayNonEmpty(out) ? Effect.succeed(out) : Cause.done()
  }

  const readText = (): Next =>
    exchange.text((text) =>
      Effect.suspend(() => {
        reader.read(text)
        reader.end("document")
        return told()
      })
    )

  return {
    first: readText,
    pull: Effect.suspend(() => reader.isEnded() ? told() : exchange.wait(readText)),
    isOver: reader.isOver
  }
}

// =============================================================================
// An event stream
// =============================================================================

const events = (exchange: Body.Exchange, options: Options): Begun => {
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

  const receive = (chunks: ReadonlyArray<Uint8Array>) =>
    Effect.suspend((): Answer["pull"] => {
      if (chunks.length > 0) {
        feed(decoder.add(chunks))
      } else {
        // The last event counts even if its blank line is missing, unless it is cut itself.
        atEnd = true
        feed(`${decoder.end()}\n\n`)
        reader.end("connection")
      }
      return flush()
    })

  const first = (): Next => exchange.read(receive)
  const next = exchange.wait(first)

  /** After the finish reason there is only usage to wait for, and nothing is missing from a response that is cut. */
  const rest = exchange.wait((): Next => exchange.readRest(receive))

  /** What was read so far, before a failure or an end is told. */
  const flush = (): Answer["pull"] => {
    const out = reader.take()
    if (Arr.isReadonlyArrayNonEmpty(out)) return Effect.succeed(out)
    const failure = reader.failure()
    if (failure !== undefined) return Effect.fail(failure)
    if (reader.isEnded()) return Cause.done()
    return reader.isFinished() ? rest : next
  }

  return { first, pull: Effect.suspend(flush), isOver: reader.isOver }
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
  /** Whether it ended well. */
  readonly isOver: () => boolean
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
    isEnded: () => ended,
    isOver: () => ended && failure === undefined && out.length === 0
  }
}
