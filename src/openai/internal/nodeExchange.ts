/*
 * A request through Node's HTTP client.
 *
 * Its parser tells of each chunk of a body in a callback, all chunks of one read of the socket in a row. They are
 * gathered until whoever reads gets its turn, so what arrived together is read together.
 */
import type {
  BodyPart,
  Exchange,
  Head,
  HttpTransport,
  NodeModule,
  NodeModules,
  NodeResponse,
  Request
} from "../HttpTransport.ts"

/** What may wait to be read before the socket has to wait too, in bytes. */
const MAX_WAITING = 256 * 1024

/** What is longer, in characters, and is the same in many requests is kept in bytes; short texts are encoded as fast. */
const MIN_KEPT_LENGTH = 16 * 1024

const encoder = new TextEncoder()

export const open = ({ http, https }: NodeModules): HttpTransport => {
  const kept = new WeakMap<BodyPart, Uint8Array>()

  /** The fewest pieces, for each is a write: short parts are joined. */
  const encode = (parts: ReadonlyArray<BodyPart>): ReadonlyArray<Uint8Array> => {
    const pieces: Array<Uint8Array> = []
    let short = ""
    for (const part of parts) {
      if (part.text.length < MIN_KEPT_LENGTH) {
        short += part.text
        continue
      }
      if (short !== "") pieces.push(encoder.encode(short))
      short = ""
      const bytes = kept.get(part) ?? encoder.encode(part.text)
      kept.set(part, bytes)
      pieces.push(bytes)
    }
    if (short !== "") pieces.push(encoder.encode(short))
    return pieces
  }

  return (request) => send(request, encode(request.body), request.url.startsWith("https:") ? https : http)
}

const send = (request: Request, body: ReadonlyArray<Uint8Array>, module: NodeModule): Exchange => {
  const head = Promise.withResolvers<Head>()
  const inbox = makeInbox()
  let response: NodeResponse | undefined
  let isGivenUp = false

  const length = body.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const sent = module.request(
    request.url,
    {
      method: "POST",
      headers: { ...request.headers, "accept-encoding": "identity", "content-length": length }
    },
    (incoming) => {
      response = incoming
      const header = (name: string): string | null => {
        const value = incoming.headers[name]
        return value === undefined ? null : String(value)
      }
      const encoding = header("content-encoding") ?? "identity"
      if (encoding !== "identity") {
        head.reject(new Error(`the answer is encoded as ${encoding}, which was not asked for`))
        return void sent.destroy()
      }
      incoming.on("data", (chunk) => {
        if (!isGivenUp && inbox.add(chunk) > MAX_WAITING) incoming.pause()
      })
      incoming.on("end", () => inbox.end())
      incoming.on("error", (cause) => inbox.fail(cause))
      head.resolve({ status: incoming.statusCode ?? 0, header })
    }
  )
  sent.on("error", (cause) => {
    head.reject(cause)
    inbox.fail(cause)
  })
  for (const part of body) sent.write(part)
  sent.end()

  return {
    head: head.promise,
    read: () => {
      response?.resume()
      return inbox.take()
    },
    cancel: () => {
      isGivenUp = true
      // What has arrived in full needs only to be read off, and the connection serves the next request.
      if (response?.complete === true) response.resume()
      else sent.destroy()
    }
  }
}

interface Inbox {
  /** Answers how many bytes are waiting now. */
  readonly add: (chunk: Uint8Array) => number
  readonly end: () => void
  readonly fail: (cause: Error) => void
  readonly take: Exchange["read"]
}

const makeInbox = (): Inbox => {
  let chunks: Array<Uint8Array> = []
  let size = 0
  let failure: Error | undefined
  let isEnded = false
  let awaited: PromiseWithResolvers<void> | undefined

  const isReady = (): boolean => chunks.length > 0 || isEnded || failure !== undefined
  const wake = (): void => {
    awaited?.resolve()
    awaited = undefined
  }
  const taken = (): ReadonlyArray<Uint8Array> => {
    if (chunks.length === 0 && failure !== undefined) throw failure
    const all = chunks
    chunks = []
    size = 0
    return all
  }

  return {
    add(chunk) {
      chunks.push(chunk)
      size += chunk.byteLength
      wake()
      return size
    },
    end() {
      isEnded = true
      wake()
    },
    fail(cause) {
      failure ??= cause
      wake()
    },
    take() {
      if (isReady()) return Promise.resolve().then(taken)
      awaited = Promise.withResolvers()
      return awaited.promise.then(taken)
    }
  }
}
