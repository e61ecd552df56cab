/**
 * The results for people and for programs.
 */
import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import type { Target } from "./harness.ts"
import { here, root } from "./prepare.ts"
import type { Result, Verdict } from "./results.ts"

// =============================================================================
// Figures
// =============================================================================

/** µs, in the unit that reads best. */
const time = (micros: number): string =>
  micros >= 100_000 ? `${(micros / 1_000).toFixed(0)} ms` : micros >= 10_000
    ? `${(micros / 1_000).toFixed(1)} ms`
    : micros >= 100
    ? `${micros.toFixed(0)} µs`
    : `${micros.toFixed(micros >= 10 ? 1 : 2)} µs`

const figure = <A>(value: A | undefined, show: (value: A) => string): string => value === undefined ? "" : show(value)

const limitOf = ({ limit, of }: Target): string => {
  switch (of) {
    case "ratio":
      return `${limit.toFixed(1)}x`
    case "micros":
      return time(limit)
    case "heapGrowth":
      return `heap +${limit} MiB`
    case "packages":
      return `${limit} packages`
    default:
      return `${limit.toFixed(1)}x of ${of.ratioTo}`
  }
}

const verdictText = ({ actual, isMet, target }: Verdict): string => {
  const shown = typeof target.of === "object" ? ` (${actual.toFixed(2)}x)` : ""
  return `${isMet ? "holds" : "MISSED"}: at most ${limitOf(target)}${shown}`
}

const firstLine = (text: string) => text.split("\n")[0] ?? ""

const HEAD = ["contestant", "CPU", "ratio", "spread", "wall", "peak RSS", "heap", "installed", "target"]

const cells = (result: Result): ReadonlyArray<string> => {
  const { contestant, facts, failures, median, ratio, spread, verdicts } = result
  return [
    contestant,
    figure(median?.cpu, time),
    figure(ratio, (value) => `${value.toFixed(2)}x`),
    figure(spread, (value) => `${(value * 100).toFixed(0)} %`),
    figure(median?.wall, time),
    figure(median?.rss, (value) => `${value.toFixed(0)} MiB`),
    figure(median?.heapGrowth, (value) => `+${value.toFixed(1)} MiB`),
    figure(facts, ({ mebibytes, packages }) => `${packages} packages, ${mebibytes.toFixed(1)} MiB`),
    failures.length > 0 ? `WRONG: ${firstLine(failures[0]!)}` : verdicts.map(verdictText).join("; ")
  ]
}

/** Columns that some row has something in. */
const usedColumns = (table: ReadonlyArray<ReadonlyArray<string>>) =>
  HEAD.map((_, column) => column).filter((column) => table.some((row) => row[column] !== ""))

const rowsOf = (results: ReadonlyArray<Result>) => Array.from(Map.groupBy(results, ({ row }) => row))

// =============================================================================
// Formats
// =============================================================================

export const asTable = (results: ReadonlyArray<Result>): string => {
  const columns = usedColumns(results.map(cells))
  const all = [HEAD, ...results.map(cells)]
  const widths = HEAD.map((_, column) => Math.max(...all.map((row) => row[column]!.length)))
  const last = columns.at(-1)
  const line = (row: ReadonlyArray<string>) =>
    columns.map((column) => {
      if (column === last && column === HEAD.length - 1) return row[column]
      return column === 0 ? row[column]!.padEnd(widths[column]!) : row[column]!.padStart(widths[column]!)
    }).join("  ").trimEnd()
  const groups = rowsOf(results).map(([row, group]) =>
    `\n${row.title}, per ${row.unit}  [${row.id}]\n${group.map((result) => `  ${line(cells(result))}`).join("\n")}`
  )
  return [machine(), "", `  ${line(HEAD)}`, ...groups].join("\n")
}

export const asMarkdown = (results: ReadonlyArray<Result>): string => {
  const row = (values: ReadonlyArray<string>) => `| ${values.join(" | ")} |`
  const groups = rowsOf(results).map(([{ title, unit }, group]) => {
    const table = group.map(cells)
    const columns = usedColumns(table)
    const pick = (values: ReadonlyArray<string>) => row(columns.map((column) => values[column]!))
    const heading = `### ${title[0]!.toUpperCase()}${title.slice(1)}\n\nPer ${unit}.`
    const rule = row(columns.map((column) => column === 0 || column === HEAD.length - 1 ? "---" : "---:"))
    return `\n${heading}\n\n${pick(HEAD)}\n${rule}\n${table.map(pick).join("\n")}`
  })
  return [machine(), ...groups].join("\n")
}

export const asJson = (results: ReadonlyArray<Result>): string =>
  JSON.stringify(
    {
      machine: machine(),
      versions: versions(),
      results: results.map(({ row, ...rest }) => ({ row: row.id, unit: row.unit, ...rest }))
    },
    null,
    2
  )

// =============================================================================
// What was measured
// =============================================================================

const versionAt = (folder: string): string =>
  JSON.parse(Fs.readFileSync(Path.join(folder, "package.json"), "utf8")).version

const versions = (): Readonly<Record<string, string>> => {
  const { dependencies } = JSON.parse(Fs.readFileSync(Path.join(here, "package.json"), "utf8")) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  return { ...dependencies, effect: versionAt(Path.join(root, "node_modules/effect")), agcore: versionAt(root) }
}

const commit = (): string => {
  try {
    return execFileSync("git", ["describe", "--always", "--dirty"], { cwd: root, encoding: "utf8" }).trim()
  } catch {
    return "no commit"
  }
}

const machine = (): string =>
  `${
    Os.cpus()[0]?.model ?? "unknown processor"
  }, ${Os.availableParallelism()} cores, ${Os.platform()} ${Os.arch()}, Node ${process.versions.node}; ${
    Object.entries(versions()).map(([name, version]) => `${name} ${version}`).join(", ")
  } (${commit()})`
