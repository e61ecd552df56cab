/**
 * Runs every client scenario of both versions of the MCP conformance suite against `client.ts`, two at a time: all at once, as
 * the suite would, their time limits measure the machine. Names on the command line choose scenarios.
 *
 * What may fail is named in `expected-failures.yml`. Exits with 1 when something else fails, and when something named there
 * passes.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Console, Effect, FileSystem, Stream } from "effect"
import { ChildProcess } from "effect/process"
import { fileURLToPath } from "node:url"

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const suites = ["@modelcontextprotocol/conformance", "conformance-next"].map((name) => ({
  manifest: here(`../../node_modules/${name}/package.json`),
  main: here(`../../node_modules/${name}/dist/index.js`)
}))
const baseline = here("expected-failures.yml")
const chosen = process.argv.slice(2)

/** Measures pauses to the tenth of a second, so nothing else runs beside it. */
const isTimed = (scenario: string): boolean => scenario === "sse-retry"

/** Of an extension the client does not offer; the suite counts it as passed without a check. */
const mayCheckNothing = (scenario: string): boolean => scenario.startsWith("sep-2640-")

interface Outcome {
  /** What the suite concludes from its checks and the baseline. */
  readonly ok: boolean
  readonly passed: number
  readonly failed: number
}

const verdict = ({ failed, ok, passed }: Outcome): string =>
  !ok
    ? "UNEXPECTED"
    : failed > 0
    ? "failed as expected"
    : passed === 0
    ? "not applicable"
    : "passed"

/** Runs the suite; answers its exit code and everything it printed. */
const suite = Effect.fnUntraced(function*(main: string, ...args: ReadonlyArray<string>) {
  const handle = yield* ChildProcess.make(process.execPath, ["--no-deprecation", main, ...args], {
    extendEnv: true,
    forceKillAfter: "1 second"
  })
  const output = yield* Stream.mkString(Stream.decodeText(handle.all))
  return { exitCode: Number(yield* handle.exitCode), output }
}, Effect.scoped)

const countChecks = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const files = (yield* fs.readDirectory(directory, { recursive: true })).filter((file) => file.endsWith("checks.json"))
  const texts = yield* Effect.forEach(files, (file) => fs.readFileString(`${directory}/${file}`))
  const statuses = texts.flatMap((text) => (JSON.parse(text) as ReadonlyArray<{ readonly status: string }>))
    .map(({ status }) => status)
  const count = (...wanted: ReadonlyArray<string>): number =>
    statuses.filter((status) => wanted.includes(status)).length
  return { passed: count("SUCCESS"), failed: count("FAILURE", "WARNING") }
})

const runScenario = Effect.fnUntraced(function*(main: string, scenario: string) {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped({ prefix: "conformance-" })
  const command = `${process.execPath} ${here("client.ts")}`
  const args = ["--command", command, "--scenario", scenario, "--expected-failures", baseline, "-o", directory]
  const { exitCode, output } = yield* suite(main, "client", ...args)
  const counts = yield* countChecks(directory)
  const checked = counts.passed + counts.failed > 0 || mayCheckNothing(scenario)
  const outcome: Outcome = { ok: exitCode === 0 && checked, ...counts }
  const checks = `${outcome.passed} checks passed, ${outcome.failed} failed`
  yield* Console.log(`  ${scenario.padEnd(45)} ${verdict(outcome).padEnd(18)} (${checks})`)
  if (!outcome.ok) yield* Console.log(output)
  return outcome
}, Effect.scoped)

const runSuite = Effect.fnUntraced(function*({ main, manifest }: (typeof suites)[number]) {
  const fs = yield* FileSystem.FileSystem
  const { version } = JSON.parse(yield* fs.readFileString(manifest)) as { readonly version: string }
  const { output } = yield* suite(main, "list", "--client")
  const scenarios = [...output.slice(output.indexOf("Client scenarios")).matchAll(/^\s*- (\S+)/gm)]
    .flatMap((match) => match[1] ?? [])
    .filter((name) => chosen.length === 0 || chosen.includes(name))
  yield* Console.log(`conformance ${version}: ${scenarios.length} client scenarios`)
  const alone = yield* Effect.forEach(scenarios.filter(isTimed), (scenario) => runScenario(main, scenario))
  const others = yield* Effect.forEach(
    scenarios.filter((scenario) => !isTimed(scenario)),
    (scenario) => runScenario(main, scenario),
    { concurrency: 2 }
  )
  const outcomes = [...alone, ...others]

  const counts = new Map<string, number>()
  for (const outcome of outcomes) counts.set(verdict(outcome), (counts.get(verdict(outcome)) ?? 0) + 1)
  const checks = outcomes.filter(({ failed }) => failed === 0).reduce((sum, { passed }) => sum + passed, 0)
  const summary = [...counts].map(([word, count]) => `${count} ${word}`).join(", ")
  return {
    summary: `conformance ${version}: ${summary}; ${checks} checks in what passed`,
    ok: outcomes.every(({ ok }) => ok)
  }
})

const program = Effect.gen(function*() {
  const results = yield* Effect.forEach(suites, runSuite)
  yield* Console.log(results.map(({ summary }) => summary).join("\n"))
  if (results.some(({ ok }) => !ok)) process.exitCode = 1
})

NodeRuntime.runMain(Effect.provide(program, NodeServices.layer))
