/**
 * The results for a terminal, and for programs.
 */
import type { Result } from "../results.ts"
import { byRow, failure, growth, installed, mebibytes, percent, shown, time, times, verdict } from "./figures.ts"
import { commit, machine, versions } from "./machine.ts"

const HEAD = ["contestant", "CPU", "ratio", "spread", "wall", "peak RSS", "heap", "installed", "target"]

const cells = (result: Result): ReadonlyArray<string> => {
  const { contestant, facts, median, ratio, spread, verdicts } = result
  return [
    contestant,
    shown(median?.cpu, time),
    shown(ratio, times),
    shown(spread, percent),
    shown(median?.wall, time),
    shown(median?.rss, mebibytes),
    shown(median?.heapGrowth, growth),
    shown(facts, installed),
    failure(result) ?? verdicts.map(verdict).join("; ")
  ]
}

/** One table; columns in which no row has anything are left out. */
export const asTable = (results: ReadonlyArray<Result>, checkout: string): string => {
  const all = [HEAD, ...results.map(cells)]
  const columns = HEAD.map((_, column) => column).filter((column) => all.slice(1).some((row) => row[column] !== ""))
  const widths = HEAD.map((_, column) => Math.max(...all.map((row) => row[column]!.length)))
  const padded = (text: string, column: number) => {
    if (column === HEAD.length - 1) return text
    return column === 0 ? text.padEnd(widths[column]!) : text.padStart(widths[column]!)
  }
  const line = (row: ReadonlyArray<string>) =>
    `  ${columns.map((column) => padded(row[column]!, column)).join("  ").trimEnd()}`
  const groups = byRow(results).map(([row, group]) =>
    `\n${row.title}, per ${row.unit} [${row.id}]\n${group.map((result) => line(cells(result))).join("\n")}`
  )
  const names = Object.entries(versions()).map(([name, version]) => `${name} ${version}`).join(", ")
  return [`${machine()}, commit ${commit(checkout)}`, names, "", line(HEAD), ...groups].join("\n")
}

export const asJson = (results: ReadonlyArray<Result>, checkout: string): string =>
  JSON.stringify(
    {
      machine: machine(),
      commit: commit(checkout),
      versions: versions(),
      results: results.map(({ row, ...rest }) => ({ row: row.id, unit: row.unit, ...rest }))
    },
    null,
    2
  )
