/**
 * Every process the benches start: all of them end with this one, whatever happens.
 */
import { type ChildProcess, fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { Environment, Sample } from "./harness.ts"

const running = new Set<ChildProcess>()

const start = (file: string, args: ReadonlyArray<string>, execArgv: ReadonlyArray<string>): ChildProcess => {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, {
    execArgv: [...execArgv],
    // What contestants print and warn of is of no interest, unless they fail.
    stdio: ["ignore", "ignore", "pipe", "ipc"]
  })
  running.add(child)
  child.once("exit", () => running.delete(child))
  return child
}

/** Ends them all at once. Samples and servers also leave by themselves when this process is gone. */
export const endAll = (): void => {
  for (const child of running) child.kill("SIGKILL")
}

/** Starts a server; answers where it listens. */
export const startServer = (file: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const child = start(file, [], [])
    child.stderr?.pipe(process.stderr)
    child.once("message", (message: { readonly url: string }) => resolve(message.url))
    child.once("exit", (code) => reject(new Error(`${file} left with ${code}`)))
  })

/** What a sample may take before it is given up. */
const SAMPLE_MILLIS = 300_000

type Report = { readonly sample: Sample } | { readonly failure: string }

/** Takes one sample in a process of its own, profiled into a folder if one is given; a text says why there is none. */
export const sampleOf = (
  row: string,
  contestant: string,
  environment: Environment,
  profiles: string | undefined
): Promise<Sample | string> =>
  new Promise((resolve) => {
    const profiling = profiles === undefined
      ? []
      : [
        "--cpu-prof",
        `--cpu-prof-dir=${profiles}`,
        `--cpu-prof-name=${row}.${contestant.replaceAll("/", "-")}.cpuprofile`
      ]
    const child = start("./worker.ts", [row, contestant, JSON.stringify(environment)], ["--expose-gc", ...profiling])
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      resolve(`no result after ${SAMPLE_MILLIS / 1_000} seconds`)
    }, SAMPLE_MILLIS)
    let warned = ""
    child.stderr?.on("data", (text) => {
      warned = `${warned}${text}`.slice(-1_000)
    })
    let result: Sample | string | undefined
    child.once("message", (report: Report) => {
      result = "sample" in report ? report.sample : report.failure
    })
    child.once("exit", () => {
      clearTimeout(timer)
      resolve(result ?? `no result: ${warned}`)
    })
  })
