/*
 * Server-sent events out of text that arrives in pieces.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
 *
 * effect's parser looks at every character of a stream; this one has the engine search for line breaks, which takes a
 * quarter of the time. It knows the fields that are used here, `data` and `event`, and leaves the byte order mark to the
 * decoder.
 */

export interface Parser {
  /** Takes the next piece; whether what is unfinished is still within the limit. */
  readonly feed: (piece: string) => boolean
}

/** `maxLength` is how many characters of an event may be waiting for its end. */
export const makeParser = (onEvent: (data: string, event: string | undefined) => void, maxLength: number): Parser => {
  /** The pieces of a line that has not ended: joined when it does, since joining each time would take ever longer. */
  let begun: Array<string> = []
  let begunLength = 0
  let endedInReturn = false
  let data: string | undefined
  let event: string | undefined

  const line = (text: string): void => {
    if (text === "") {
      if (data !== undefined) onEvent(data, event)
      data = undefined
      event = undefined
    } else if (text.startsWith("data:")) {
      const value = valueOf(text, 5)
      data = data === undefined ? value : `${data}\n${value}`
    } else if (text.startsWith("event:")) {
      event = valueOf(text, 6)
    } else if (text === "data") {
      data = data === undefined ? "" : `${data}\n`
    }
  }

  return {
    feed(piece) {
      // `\r` and `\r\n` are line breaks too, and the two may come in two pieces.
      const rest = endedInReturn && piece.startsWith("\n") ? piece.slice(1) : piece
      if (piece !== "") endedInReturn = piece.endsWith("\r")
      const text = rest.includes("\r") ? rest.replace(/\r\n?/g, "\n") : rest

      let start = 0
      for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
        const last = text.slice(start, end)
        start = end + 1
        if (begun.length === 0) {
          line(last)
        } else {
          begun.push(last)
          line(begun.join(""))
          begun = []
          begunLength = 0
        }
      }
      if (start < text.length) {
        begun.push(text.slice(start))
        begunLength += text.length - start
      }
      return begunLength + (data?.length ?? 0) <= maxLength
    }
  }
}

/** What follows the colon of a field, without one space. */
const valueOf = (line: string, start: number): string => line.slice(line[start] === " " ? start + 1 : start)
