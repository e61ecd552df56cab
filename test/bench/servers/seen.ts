/**
 * What a server saw of one sample, and what it found wrong with it.
 */
export interface Seen {
  requests: number
  /** The first few things that were not as they must be. */
  readonly problems: Array<string>
}

/** One record for each sample, by the key in its URL. */
export class Book {
  readonly #seen = new Map<string, Seen>()

  of(key: string): Seen {
    const known = this.#seen.get(key)
    if (known !== undefined) return known
    const seen: Seen = { requests: 0, problems: [] }
    this.#seen.set(key, seen)
    return seen
  }

  take(key: string): Seen {
    const seen = this.of(key)
    this.#seen.delete(key)
    return seen
  }
}

/** Notes a request and what is wrong with it. */
export const note = (seen: Seen, problems: ReadonlyArray<string>): void => {
  seen.requests++
  if (seen.problems.length < 3) seen.problems.push(...problems)
}
