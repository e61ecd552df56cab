/**
 * What rows and contestants are, and how one sample is taken in a process of its own.
 */

/** The contestant that the ratios of a row are to. */
export const BASELINE = "raw"

/** The contestant all this is about. */
export const OURS = "agcore"

/** Where the servers are, and the name this sample has to them. */
export interface Environment {
  readonly modelUrl: string
  readonly mcpUrl: string
  readonly key: string
  /** The checkout of the package to measure, if it is not this one. */
  readonly package: string | undefined
}

/** The work of one sample. */
export interface Work {
  /** How many units of the row one run is. */
  readonly units: number
  /** Runs before the measured ones, unless preparing has warmed up as well. */
  readonly warmup: number | "done"
  readonly runs: number
  /** Fails if the result is not what it must be. */
  readonly run: () => Promise<void>
  /** Checks what the servers saw, then lets go of everything. Not measured. */
  readonly finish: () => Promise<void>
  /** The most that the heap had grown by near the end of a run, in MiB, where the row is about that. */
  readonly heapGrowth?: () => number
}

/** Figures that are known without a sample. */
export interface Facts {
  readonly packages: number
  readonly mebibytes: number
}

/** What a figure of ours must not exceed. */
export interface Target {
  readonly limit: number
  /** CPU as a ratio to the baseline or to another contestant, CPU in µs per unit, growth of the heap in MiB, packages. */
  readonly of: "ratio" | "micros" | "heapGrowth" | "packages" | { readonly ratioTo: string }
}

export interface Row {
  readonly id: string
  /** Rows of one family stand in one table. */
  readonly family: string
  readonly title: string
  /** What the figures are for one of. */
  readonly unit: string
  /** Their names, and the modules that hold them, in the order of the report. */
  readonly contestants: Readonly<Record<string, string>>
  readonly prepare: (module: string, environment: Environment) => Promise<Work>
  /** The most samples that are taken, where more would tell nothing more. */
  readonly maxSamples?: number
  readonly facts?: (contestant: string) => Facts
  /** By contestant. */
  readonly targets?: Readonly<Record<string, ReadonlyArray<Target>>>
}

/** What one sample has measured. */
export interface Sample {
  /** µs of user and system time per unit, of all threads of the process. */
  readonly cpu: number
  /** µs per unit. */
  readonly wall: number
  /** Peak resident memory of the whole process, in MiB. */
  readonly rss: number
  readonly heapGrowth: number | undefined
}

const MICROS = 1_000

/** What of a warm-up precedes the collection of its garbage. */
const BEFORE_COLLECTION = 0.75

/**
 * Does some of the work, so that code is compiled; then nobody pays for its garbage. The collection also throws away
 * compiled code that nothing else refers to, so it is not the last thing to happen: no server begins there.
 */
export const warmUp = async (count: number, run: (from: number, to: number) => Promise<unknown>): Promise<void> => {
  const collectAt = Math.floor(count * BEFORE_COLLECTION)
  await run(0, collectAt)
  globalThis.gc?.()
  await run(collectAt, count)
}

/** Runs the work in this process. */
export const take = async ({ finish, heapGrowth, run, runs, units, warmup }: Work): Promise<Sample> => {
  if (warmup !== "done") {
    await warmUp(warmup, async (from, to) => {
      for (let index = from; index < to; index++) await run()
    })
  }
  const cpuBefore = process.cpuUsage()
  const startedAt = performance.now()
  for (let index = 0; index < runs; index++) await run()
  const wall = performance.now() - startedAt
  const { system, user } = process.cpuUsage(cpuBefore)
  const rss = process.resourceUsage().maxRSS / 1024
  await finish()
  const count = units * runs
  return { cpu: (user + system) / count, wall: wall * MICROS / count, rss, heapGrowth: heapGrowth?.() }
}

/** Fails with both values, cut short, unless they are equal as JSON. */
export const expectEqual = (actual: unknown, expected: unknown, what: string): void => {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)]
  if (left !== right) throw new Error(`${what}: ${shortened(left)} instead of ${shortened(right)}`)
}

const shortened = (text = "nothing") => text.length <= 200 ? text : `${text.slice(0, 200)}… (${text.length} characters)`

/** A contestant's module. Which interface it has is known by the row that names it. */
export const load = async <A>(module: string): Promise<A> => await import(new URL(module, import.meta.url).href) as A
