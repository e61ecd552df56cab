/**
 * What the samples say: medians, ratios, spread and targets.
 */
import { BASELINE, type Facts, type Row, type Sample, type Target } from "./harness.ts"

/** A sample that was asked for, and what came of it: a text says why there is none. */
export interface Taken {
  readonly row: Row
  readonly contestant: string
  readonly result: Sample | string
}

export interface Result {
  readonly row: Row
  readonly contestant: string
  readonly samples: ReadonlyArray<Sample>
  /** Why samples are missing. */
  readonly failures: ReadonlyArray<string>
  /** Medians of the samples; absent if there are none. */
  readonly median: Sample | undefined
  /** CPU as a multiple of the baseline's. */
  readonly ratio: number | undefined
  /** How far the samples' CPU lies apart: the largest less the smallest, as a share of the median. */
  readonly spread: number | undefined
  readonly facts: Facts | undefined
  readonly verdicts: ReadonlyArray<Verdict>
}

export interface Verdict {
  readonly target: Target
  readonly actual: number
  readonly isMet: boolean
}

export const resultsOf = (rows: ReadonlyArray<Row>, taken: ReadonlyArray<Taken>): ReadonlyArray<Result> =>
  rows.flatMap((row) => {
    const groups = Map.groupBy(taken.filter((each) => each.row === row), ({ contestant }) => contestant)
    const measured = Array.from(groups, ([contestant, taken]) => measuredOf(row, contestant, taken))
    const cpuOf = (name: string) => measured.find(({ contestant }) => contestant === name)?.median?.cpu
    return measured.map((each): Result => {
      const ratioTo = (name: string): number | undefined => quotient(each.median?.cpu, cpuOf(name))
      const targets = targetsOf(row, each.contestant)
      const ratio = ratioTo(BASELINE)
      return Object.assign(each, {
        ratio,
        verdicts: targets.flatMap((target) => verdictOf(target, { ...each, ratio }, ratioTo))
      })
    })
  })

const targetsOf = ({ targets }: Row, contestant: string): ReadonlyArray<Target> => targets?.[contestant] ?? []

const measuredOf = (row: Row, contestant: string, taken: ReadonlyArray<Taken>) => {
  const samples = taken.flatMap(({ result }) => typeof result === "string" ? [] : [result])
  const of = (read: (sample: Sample) => number) => medianOf(samples.map(read))
  const cpus = samples.map(({ cpu }) => cpu)
  const median: Sample | undefined = samples.length === 0 ? undefined : {
    cpu: of(({ cpu }) => cpu),
    wall: of(({ wall }) => wall),
    rss: of(({ rss }) => rss),
    heapGrowth: samples[0]?.heapGrowth === undefined ? undefined : of(({ heapGrowth }) => heapGrowth ?? 0)
  }
  return {
    row,
    contestant,
    samples,
    failures: taken.flatMap(({ result }) => typeof result === "string" ? [result] : []),
    median,
    spread: median && (Math.max(...cpus) - Math.min(...cpus)) / median.cpu,
    facts: row.facts?.(contestant)
  }
}

const verdictOf = (
  target: Target,
  { facts, median, ratio }: Pick<Result, "facts" | "median" | "ratio">,
  ratioTo: (name: string) => number | undefined
): ReadonlyArray<Verdict> => {
  const actual = typeof target.of === "object" ? ratioTo(target.of.ratioTo) : {
    ratio,
    micros: median?.cpu,
    heapGrowth: median?.heapGrowth,
    packages: facts?.packages
  }[target.of]
  return actual === undefined ? [] : [{ target, actual, isMet: actual <= target.limit }]
}

const quotient = (a: number | undefined, b: number | undefined) =>
  a === undefined || b === undefined || b === 0 ? undefined : a / b

const medianOf = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return sorted.length % 2 === 1 ? sorted[Math.floor(middle)]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
