/**
 * What was measured, and on what.
 */
import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { here, root } from "../prepare.ts"

const versionAt = (folder: string): string =>
  JSON.parse(Fs.readFileSync(Path.join(folder, "package.json"), "utf8")).version

export const versions = (): Readonly<Record<string, string>> => {
  const { dependencies }: { readonly dependencies: Readonly<Record<string, string>> } = JSON.parse(
    Fs.readFileSync(Path.join(here, "package.json"), "utf8")
  )
  return { agcore: versionAt(root), effect: versionAt(Path.join(root, "node_modules/effect")), ...dependencies }
}

/** The state of a checkout, `-dirty` where something is not committed. */
export const commit = (checkout: string): string => {
  try {
    const options = { cwd: checkout, encoding: "utf8", stdio: "pipe" } as const
    return execFileSync("git", ["describe", "--always", "--dirty"], options).trim()
  } catch {
    return "unknown"
  }
}

/** With the load at the end of the run: above 1, or 2 with the server, others were at work as well. */
export const machine = (): string =>
  `${Os.cpus()[0]?.model ?? "unknown processor"}, ${Os.availableParallelism()} cores, ${Os.platform()} ${Os.arch()}, `
  + `Node ${process.versions.node}, load ${Os.loadavg()[0]!.toFixed(1)}`
