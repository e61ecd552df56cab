/**
 * The results for a document: what counts first, every figure after it.
 */
import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { BASELINE, OURS } from "../harness.ts"
import { root } from "../prepare.ts"
import type { Result } from "../results.ts"
import {
  byFamily,
  byRow,
  failure,
  growth,
  installed,
  mebibytes,
  percent,
  shown,
  time,
  times,
  verdict
} from "./figures.ts"
import { commit, machine, versions } from "./machine.ts"

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const line = (cells: ReadonlyArray<string>) => `| ${cells.join(" | ")} |`
  return [line(head), line(head.map((_, column) => column === 0 ? "---" : "---:")), ...rows.map(line)].join("\n")
}

// =============================================================================
// Overview
// =============================================================================

/** CPU beside the baseline, whose own is given; where there is none, CPU. */
const overviewCell = (result: Result): string => {
  const { contestant, facts, median, ratio } = result
  if (failure(result) !== undefined) return "wrong"
  const main = contestant === BASELINE || ratio === undefined ? shown(median?.cpu, time) : times(ratio)
  return [main, shown(median?.heapGrowth, growth), shown(facts, installed)].filter((text) => text !== "").join(", ")
}

const overview = (family: string, results: ReadonlyArray<Result>): string => {
  const names = Array.from(new Set(results.map(({ contestant }) => contestant)))
  const rows = byRow(results).map(([row, group]) => {
    const cells = names.map((name) => shown(group.find(({ contestant }) => contestant === name), overviewCell))
    return [row.title].concat(cells, group.flatMap(({ verdicts }) => verdicts.map(verdict)).join("; "))
  })
  return `### ${family}\n\n${table(["", ...names, "target of agcore"], rows)}`
}

// =============================================================================
// Where others are better
// =============================================================================

/** Rows in which another contestant needs less CPU than ours; the baseline does only what it must and does not count. */
const lost = (results: ReadonlyArray<Result>): ReadonlyArray<string> =>
  byRow(results).flatMap(([row, group]) => {
    const ours = group.find(({ contestant }) => contestant === OURS)?.median?.cpu
    const [best] = group
      .filter(({ contestant }) => contestant !== BASELINE && !contestant.startsWith(OURS))
      .flatMap(({ contestant, median }) => median === undefined ? [] : [{ contestant, cpu: median.cpu }])
      .toSorted((a, b) => a.cpu - b.cpu)
    if (ours === undefined || best === undefined || best.cpu >= ours) return []
    return [`- ${row.title}: ${best.contestant} ${time(best.cpu)}, agcore ${time(ours)} per ${row.unit}`]
  })

// =============================================================================
// Everything
// =============================================================================

const HEAD = ["contestant", "CPU", "ratio", "spread", "wall", "peak RSS"]

const details = (results: ReadonlyArray<Result>): string =>
  byRow(results).map(([row, group]) => {
    const rows = group.map((result) => [
      result.contestant,
      failure(result) ?? shown(result.median?.cpu, time),
      shown(result.ratio, times),
      shown(result.spread, percent),
      shown(result.median?.wall, time),
      shown(result.median?.rss, mebibytes)
    ])
    return `#### ${row.title}, per ${row.unit}\n\n${table(HEAD, rows)}`
  }).join("\n\n")

export const asMarkdown = (results: ReadonlyArray<Result>, checkout: string): string => {
  const better = lost(results)
  const samples = Math.max(...results.map((result) => result.samples.length))
  return [
    `${machine()}. ${samples === 1 ? "One sample" : `Medians of ${samples} samples`} each, commit \`${
      commit(checkout)
    }\`.`,
    Object.entries(versions()).map(([name, version]) => `\`${name}\` ${version}`).join(", ") + ".",
    ...byFamily(results).map(([family, group]) => overview(family, group)),
    "### Where another contestant needs less CPU",
    better.length === 0 ? "Nowhere in this run." : better.join("\n"),
    "### All figures",
    details(results)
  ].join("\n\n")
}

// =============================================================================
// The document
// =============================================================================

const DOCUMENT = Path.join(root, "docs/benchmarks.md")
const BEGIN = "<!-- figures: written by npm run bench -- --update -->"
const END = "<!-- end of figures -->"

/** Puts the figures into the document, in the place of those that were there. */
export const updateDocument = (results: ReadonlyArray<Result>, checkout: string): void => {
  const text = Fs.readFileSync(DOCUMENT, "utf8")
  const [before, after] = [text.indexOf(BEGIN), text.indexOf(END)]
  if (before < 0 || after < before) throw new Error(`${DOCUMENT} has lost the marks around its figures`)
  const figures = `${BEGIN}\n\n${asMarkdown(results, checkout)}\n\n`
  Fs.writeFileSync(DOCUMENT, text.slice(0, before) + figures + text.slice(after))
  execFileSync(Path.join(root, "node_modules/.bin/dprint"), ["fmt", DOCUMENT], { cwd: root, stdio: "ignore" })
}
