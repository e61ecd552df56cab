/**
 * How figures read.
 */
import type { Facts, Target } from "../harness.ts"
import type { Result, Verdict } from "../results.ts"

/** µs, in the unit that reads best. */
export const time = (micros: number): string => {
  if (micros >= 10_000) return `${digits(micros / 1_000)} ms`
  return `${digits(micros)} µs`
}

/** Three digits that count. */
const digits = (value: number) => value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)

export const times = (ratio: number): string => `${ratio.toFixed(2)}x`

export const mebibytes = (value: number): string => `${value.toFixed(0)} MiB`

export const growth = (value: number): string => `+${value.toFixed(1)} MiB`

export const installed = ({ mebibytes, packages }: Facts): string =>
  `${packages} ${packages === 1 ? "package" : "packages"}, ${mebibytes.toFixed(1)} MiB`

export const percent = (share: number): string => `${(share * 100).toFixed(0)} %`

const limit = ({ limit, of }: Target): string => {
  switch (of) {
    case "ratio":
      return `${limit.toFixed(1)}x`
    case "micros":
      return time(limit)
    case "heapGrowth":
      return `${growth(limit)} of heap`
    case "packages":
      return `${limit} packages`
    default:
      return `${limit.toFixed(1)}x of ${of.ratioTo}`
  }
}

export const verdict = ({ actual, isMet, target }: Verdict): string =>
  `at most ${limit(target)}: ${isMet ? "holds" : "missed"}${typeof target.of === "object" ? `, ${times(actual)}` : ""}`

/** A figure, or nothing where there is none. */
export const shown = <A>(value: A | undefined, show: (value: A) => string): string =>
  value === undefined ? "" : show(value)

/** Why a contestant has no figure, in one line. */
export const failure = ({ failures }: Result): string | undefined => {
  const [first] = failures
  return first === undefined ? undefined : `WRONG: ${first.split("\n")[0]}`
}

export const byRow = (results: ReadonlyArray<Result>) => Array.from(Map.groupBy(results, ({ row }) => row))

export const byFamily = (results: ReadonlyArray<Result>) => Array.from(Map.groupBy(results, ({ row }) => row.family))
