/**
 * `npm run bench`: takes the samples and prints one table.
 */
import * as Path from "node:path"
import { parseArgs } from "node:util"
import { BASELINE, type Row } from "./harness.ts"
import { prepare, root } from "./prepare.ts"
import { endAll, sampleOf, startServer } from "./processes.ts"
import { asMarkdown, updateDocument } from "./report/markdown.ts"
import { asJson, asTable } from "./report/text.ts"
import { resultsOf, type Taken } from "./results.ts"
import { rows } from "./rows/index.ts"

const HELP = `npm run bench -- [options]

  --only <text>         rows whose id holds the text; may be given several times
  --contestant <text>   the baseline and contestants whose name holds the text; may be given several times
  --samples <n>         samples of each contestant and row (default 3)
  --profile <folder>    write a CPU profile of each contestant and row there
  --json | --markdown   instead of the table
  --update              also write the figures into docs/benchmarks.md
  --package <folder>    measure another checkout of agcore, for instance of an older commit
  --no-build            measure its dist as it is
  --list                the rows and their contestants

The exit code is 1 if a contestant's result was wrong.`

const { values } = parseArgs({
  allowNegative: true,
  options: {
    only: { type: "string", multiple: true, default: [] },
    contestant: { type: "string", multiple: true, default: [] },
    samples: { type: "string", default: "3" },
    profile: { type: "string" },
    json: { type: "boolean", default: false },
    markdown: { type: "boolean", default: false },
    package: { type: "string" },
    update: { type: "boolean", default: false },
    build: { type: "boolean", default: true },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false }
  }
})

const holdsAny = (text: string, parts: ReadonlyArray<string>) =>
  parts.length === 0 || parts.some((part) => text.includes(part))

const chosen = rows.filter(({ id }) => holdsAny(id, values.only))

/** The baseline and whoever else was asked for. */
const contestantsOf = (row: Row) =>
  Object.keys(row.contestants).filter((name) => name === BASELINE || holdsAny(name, values.contestant))

const checkout = Path.resolve(values.package ?? root)
const samples = Number(values.samples)

const progress = (text: string) => {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`)
}

/** Each contestant once, then each again, so that none has the quieter machine. */
const measure = async (): Promise<ReadonlyArray<Taken>> => {
  const [modelUrl, mcpUrl] = await Promise.all([startServer("./servers/model.ts"), startServer("./servers/mcpHttp.ts")])
  const taken: Array<Taken> = []
  let key = 0
  for (const row of chosen) {
    const rounds = Math.min(samples, row.maxSamples ?? samples)
    for (let round = 1; round <= rounds; round++) {
      for (const contestant of contestantsOf(row)) {
        progress(`${row.id} ${round}/${rounds} ${contestant}`)
        const environment = { modelUrl, mcpUrl, key: `s${key++}`, package: values.package && checkout }
        taken.push({ row, contestant, result: await sampleOf(row.id, contestant, environment, values.profile) })
      }
    }
  }
  progress("")
  return taken
}

const main = async () => {
  if (values.help) return console.log(HELP)
  if (!Number.isInteger(samples) || samples < 1) throw new Error("--samples takes a whole number from 1")
  if (chosen.length === 0) throw new Error(`no row is called that; there are: ${rows.map(({ id }) => id).join(", ")}`)
  if (values.update && chosen.length + values.contestant.length !== rows.length) {
    throw new Error("--update writes the whole table: it takes all rows and contestants")
  }
  if (values.list) {
    return console.log(chosen.map((row) => `${row.id}: ${contestantsOf(row).join(", ")}`).join("\n"))
  }
  prepare({ package: checkout, build: values.build })
  const results = resultsOf(chosen, await measure())
  console.log((values.json ? asJson : values.markdown ? asMarkdown : asTable)(results, checkout))
  if (values.update) updateDocument(results, checkout)
  if (results.some((result) => result.failures.length > 0)) process.exitCode = 1
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    endAll()
    process.exit(signal === "SIGINT" ? 130 : 143)
  })
}

try {
  await main()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 2
} finally {
  endAll()
}
