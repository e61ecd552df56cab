/**
 * What must be there before the first sample: the peers, and agcore as its users get it.
 */
import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"

export const here = import.meta.dirname
export const root = Path.resolve(here, "../..")

const run = (command: string, args: ReadonlyArray<string>, cwd: string) =>
  execFileSync(command, args, { cwd, stdio: ["ignore", 2, 2] })

/** When anything in the folder last changed. */
const changedAt = (folder: string): number =>
  Fs.readdirSync(folder, { recursive: true, encoding: "utf8" })
    .reduce((latest, file) => Math.max(latest, Fs.statSync(Path.join(folder, file)).mtimeMs), 0)

/** Installs the peers by their lock, unless what is installed is newer than it. */
const install = () => {
  const installed = Path.join(here, "node_modules/.package-lock.json")
  const lock = Path.join(here, "package-lock.json")
  if (Fs.existsSync(installed) && Fs.statSync(installed).mtimeMs >= Fs.statSync(lock).mtimeMs) return
  run("npm", ["ci", "--ignore-scripts"], here)
}

/** Lets contestants import the package by its name, which leads to `dist`. */
const link = () => {
  const path = Path.join(here, "node_modules/agcore")
  if (!Fs.existsSync(path)) Fs.symlinkSync(root, path, "dir")
}

/** Builds a checkout of the package, unless what is built is newer than its sources. */
const build = (folder: string) => {
  const built = Path.join(folder, "dist/index.js")
  if (Fs.existsSync(built) && Fs.statSync(built).mtimeMs >= changedAt(Path.join(folder, "src"))) return
  run("npm", ["run", "build", "--silent"], folder)
}

export const prepare = (options: { readonly package: string; readonly build: boolean }): void => {
  install()
  link()
  if (options.build) build(options.package)
}
