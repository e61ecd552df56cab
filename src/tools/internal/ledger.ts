/*
 * Who takes how much room, in the order of arrival: the first to come is the
 * first to go.
 */

export interface Ledger {
  readonly maxBytes: number
  /** Takes room for the newest; answers who has to go for it, oldest first. */
  readonly add: (name: string, sizeBytes: number) => ReadonlyArray<string>
  readonly remove: (name: string) => boolean
}

export const make = (maxBytes: number): Ledger => {
  const sizes = new Map<string, number>()
  let totalBytes = 0

  const remove = (name: string): boolean => {
    totalBytes -= sizes.get(name) ?? 0
    return sizes.delete(name)
  }

  return {
    maxBytes,
    add: (name, sizeBytes) => {
      remove(name)
      sizes.set(name, sizeBytes)
      totalBytes += sizeBytes
      const gone: Array<string> = []
      for (const oldest of sizes.keys()) {
        if (totalBytes <= maxBytes || oldest === name) break
        remove(oldest)
        gone.push(oldest)
      }
      return gone
    },
    remove
  }
}
