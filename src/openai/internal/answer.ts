/*
 * An HTTP answer as response parts, whatever shape it came in: an event stream, one JSON document, or an error.
 *
 * The request decides only what is expected: servers answer a streamed request with JSON and the reverse.
 */
import type * as AiError from "effect/ai/AiError"
import type * as AiResponse from "effect/ai/Response"
import * as Arr from "effect/Array"
import * as ByteSize from "effect/ByteSize"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import type * as Assembler from "./assembler.ts"
import * as Body from "./body.ts"
import type { Failures } from "./failures.ts"
import * as Json from "./json.ts"

type Part = AiResponse.StreamPartEncoded
type Parts = Arr.NonEmptyReadonlyArray<Part>

export interface Options {
  readonly assembler: Assembler.Assembler
  readonly failures: Failures
  readonly limits: Body.Limits
  readonly streamed: boolean
  /** When the request was sent, in milliseconds. */
  readonly startedAt: number
  /** What `[DONE]` without a finish reason means; the end of a connection without either always means `unknown`. */
  readonly missingFinish: "incomplete" | "stop"
  /** The names calls may use; any, if absent. */
  readonly callable: ReadonlySet<string> | undefined
}

/** The parts of an answer, in the arrays they arrived in. */
export const parts = (response: Response, options: Options): Stream.Stream<Part, AiError.AiError> => {
  const source = Body.bytes(response, options.limits, options.startedAt, options.failures)
  if (!response.ok) return Stream.fromEffect(refused(response, source, options))
  switch (kind(response.headers, options.streamed)) {
    case "events":
      return events(source, options)
    case "json":
      return Stream.unwrap(Effect.map(document(source, options), Stream.fromArray))
    case "other":
      return Stream.fromEffect(unexpected(response, source, options))
  }
}

const kind = (headers: Headers, streamed: boolean): "events" | "json" | "other" => {
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() ?? ""
  if (type === "") return streamed ? "events" : "json"
  if (type === "text/event-stream") return "events"
  return type === "application/json" || type.endsWith("+json") ? "json" : "other"
}

const refused = Effect.fnUntraced(function*(
  { headers, status }: Response,
  source: Stream.Stream<Uint8Array, AiError.AiError>,
  { failures }: Options
): Effect.fn.Return<never, AiError.AiError> {
  const body = yield* Body.beginning(source)
  return yield* failures.status({ status, headers, body }, yield* DateTime.now)
})

const unexpected = Effect.fnUntraced(function*(
  { headers, status }: Response,
  source: Stream.Stream<Uint8Array, AiError.AiError>,
  { failures, streamed }: Options
): Effect.fn.Return<never, AiError.AiError> {
  const body = yield* Body.beginning(source)
  return yield* failures.unexpectedContent({ status, headers, body }, streamed)
})

// =============================================================================
// One document
// =============================================================================

const document = Effect.fnUntraced(function*(
  source: Stream.Stream<Uint8Array, AiError.AiError>,
  options: Options
): Effect.fn.Return<ReadonlyArray<Part>, AiError.AiError> {
  const reader = makeReader(options)
  reader.read(yield* Body.text(source))
  reader.end("document")
  const failure = reader.failure()
  return failure === undefined ? reader.take() : yield* failure
})

// =============================================================================
// An event stream
// =============================================================================

const events = (
  source: Stream.Stream<Uint8Array, AiError.AiError>,
  options: Options
): Stream.Stream<Part, AiError.AiError> =>
  Stream.transformPull(Stream.decodeText(source), (pull) =>
    Effect.sync(() => {
      const { failures, limits } = options
      const reader = makeReader(options)
      const parser = Sse.makeParser(
        (event) => event._tag === "Event" && reader.read(event.data, event.event, atEnd),
        { maxEventSize: ByteSize.toNumberUnsafe(limits.maxEventBytes) }
      )
      let finishedAt: number | undefined
      let atEnd = false

      /** After the finish reason there is only usage to wait for, and some servers leave the connection open. */
      const awaited = Effect.suspend(() => {
        if (!reader.isFinished()) return pull
        return Effect.flatMap(Clock.currentTimeMillis, (now) => {
          finishedAt ??= now
          return Effect.timeoutOrElse(pull, {
            duration: Duration.subtract(limits.finishGrace, Duration.millis(now - finishedAt)),
            orElse: () => Cause.done()
          })
        })
      })

      /** What was read so far, before a failure or an end is told. */
      const flush: Pull.Pull<Parts, AiError.AiError> = Effect.suspend(() => {
        const out = reader.take()
        if (Arr.isReadonlyArrayNonEmpty(out)) return Effect.succeed(out)
        const failure = reader.failure()
        if (failure !== undefined) return Effect.fail(failure)
        return reader.isEnded() ? Cause.done() : step
      })

      const feed = (text: string): void => {
        if (parser.feed(text) !== undefined) {
          reader.fail(failures.tooLarge("pending event", ByteSize.format(limits.maxEventBytes)))
        }
      }

      const end = (): Pull.Pull<Parts, AiError.AiError> => {
        // The last event counts even if its blank line is missing, unless it is cut itself.
        atEnd = true
        feed("\n\n")
        reader.end("connection")
        return flush
      }

      const step: Pull.Pull<Parts, AiError.AiError> = Pull.matchEffect(awaited, {
        onSuccess(texts) {
          texts.forEach(feed)
          return flush
        },
        // Nothing is missing from a response that is cut after its finish reason.
        onFailure: (cause) => reader.isFinished() && !Cause.hasInterrupts(cause) ? end() : Effect.failCause(cause),
        onDone: end
      })

      return flush
    }))

// =============================================================================
// Reading
// =============================================================================

interface Reader {
  /** Takes the data of one event, or a whole document; `isLast` is one that may be cut. */
  readonly read: (data: string, event?: string, isLast?: boolean) => void
  readonly fail: (error: AiError.AiError) => void
  readonly end: (how: "done" | "document" | "connection") => void
  /** The parts since the last time. */
  readonly take: () => ReadonlyArray<Part>
  readonly failure: () => AiError.AiError | undefined
  readonly isFinished: () => boolean
  readonly isEnded: () => boolean
}

/** Feeds an assembler and judges its end. After an end or a failure nothing more is read. */
const makeReader = ({ assembler, callable, failures, missingFinish }: Options): Reader => {
  let out: Array<Part> = []
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
    const chunk = Json.parseObject(text)
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
      return taken
    },
    failure: () => failure,
    isFinished: assembler.isFinished,
    isEnded: () => ended
  }
}
