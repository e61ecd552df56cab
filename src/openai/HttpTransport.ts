/**
 * How a request reaches its server: one way in, one way out, nothing of any protocol above HTTP.
 *
 * @since 0.1.0
 */

// =============================================================================
// Models
// =============================================================================

/**
 * A `POST` that is ready to be sent.
 *
 * @category models
 * @since 0.1.0
 */
export interface Request {
  readonly url: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * How an answer begins.
 *
 * @category models
 * @since 0.1.0
 */
export interface Head {
  /** The HTTP status code. */
  readonly status: number
  /** A header by its name in lower case; `null` where there is none. */
  readonly header: (name: string) => string | null
}

/**
 * A request under way, and its answer.
 *
 * These are promises and not effects because a stream is read tens of thousands of times a second: whoever waits here
 * bounds the wait, and turns what is thrown into an error.
 *
 * @category models
 * @since 0.1.0
 */
export interface Exchange {
  /** Waits for status and headers, whatever the status; a redirect is not followed. Rejects where none come. */
  readonly head: Promise<Head>
  /**
   * All bytes that have arrived since the last time, at least one; nothing once the answer is complete. Rejects when it
   * is cut. Called after `head`, and not again before it has settled.
   */
  readonly read: () => Promise<ReadonlyArray<Uint8Array>>
  /** Gives the exchange up, at any time and any number of times. Closes the connection unless all was read. */
  readonly cancel: () => void
}

/**
 * Sends a request at once.
 *
 * @category models
 * @since 0.1.0
 */
export type HttpTransport = (request: Request) => Exchange

// =============================================================================
// Constructors
// =============================================================================

/**
 * Sends requests with a `fetch`, which every runtime has.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromFetch = (fetch: typeof globalThis.fetch): HttpTransport => (request) => {
  const controller = new AbortController()
  const response = Promise.resolve().then(() =>
    fetch(request.url, {
      method: "POST",
      headers: new Headers(request.headers),
      body: request.body,
      // Following one would carry the key to another server.
      redirect: "manual",
      signal: controller.signal
    })
  )
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  let isComplete = false
  return {
    head: response.then(({ body, headers, status }) => {
      reader = body?.getReader()
      return { status, header: (name) => headers.get(name) }
    }),
    read: () =>
      reader === undefined ? Promise.resolve([]) : reader.read().then(({ done, value }) => {
        if (!done) return [value]
        isComplete = true
        return []
      }),
    cancel: () => {
      if (!isComplete) controller.abort()
    }
  }
}
