/**
 * What npm installs for a package: it and everything it needs, by the locks and the folders that are there.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import type { Facts } from "./harness.ts"
import { here, root } from "./prepare.ts"

interface Locked {
  readonly link?: boolean
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

/** An install, and where in it a package is: `""` is the project itself. */
interface Place {
  readonly install: string
  readonly path: string
}

const locks = new Map<string, Readonly<Record<string, Locked>>>()

const lockOf = (install: string): Readonly<Record<string, Locked>> => {
  const known = locks.get(install)
  if (known !== undefined) return known
  const { packages } = JSON.parse(Fs.readFileSync(Path.join(install, "package-lock.json"), "utf8"))
  locks.set(install, packages)
  return packages
}

const nameOf = (specifier: string) => specifier.split("/").slice(0, specifier.startsWith("@") ? 2 : 1).join("/")

/** What a package needs to run. What is optional counts where it is installed, as npm does by platform. */
const needsOf = ({ dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta }: Locked) => [
  ...Object.keys(dependencies ?? {}),
  ...Object.keys(optionalDependencies ?? {}),
  ...Object.keys(peerDependencies ?? {}).filter((name) => peerDependenciesMeta?.[name]?.optional !== true)
]

/** Finds a package as Node does: in the folder of who needs it, then in those above. */
const find = ({ install, path }: Place, name: string): Place | undefined => {
  const lock = lockOf(install)
  for (let folder = path;; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
    const candidate = `${folder === "" ? "" : `${folder}/`}node_modules/${name}`
    if (lock[candidate] !== undefined && Fs.existsSync(Path.join(install, candidate))) {
      return { install, path: candidate }
    }
    if (folder === "") return undefined
    if (!folder.includes("/node_modules/")) folder = ""
  }
}

/** Where what the benches import is: the package itself, a peer, or what the package is developed with. */
const start = (name: string): Place =>
  (name === "agcore" ? { install: root, path: "" } : find({ install: here, path: "" }, name))
    ?? find({ install: root, path: "" }, name)
    ?? missing(name)

const missing = (name: string): never => {
  throw new Error(`${name} is not installed`)
}

const bytesOf = (folder: string): number =>
  Fs.readdirSync(folder, { withFileTypes: true }).reduce((bytes, entry) => {
    const path = Path.join(folder, entry.name)
    if (entry.isDirectory()) return entry.name === "node_modules" ? bytes : bytes + bytesOf(path)
    return bytes + (entry.isFile() ? Fs.statSync(path).size : 0)
  }, 0)

/** The package as it is published: its `files`, of which only folders weigh. */
const ownBytes = () => ["dist", "src"].reduce((bytes, folder) => bytes + bytesOf(Path.join(root, folder)), 0)

/** Counts the packages behind some imports, and weighs them. */
export const installedOf = (specifiers: ReadonlyArray<string>): Facts => {
  const found = new Map<string, number>()
  const visit = (place: Place): void => {
    const folder = Path.join(place.install, place.path)
    if (found.has(folder)) return
    found.set(folder, folder === root ? ownBytes() : bytesOf(folder))
    const locked = lockOf(place.install)[place.path]!
    for (const name of needsOf(locked)) {
      const needed = find(place, name)
      if (needed !== undefined) visit(needed)
    }
  }
  for (const name of new Set(specifiers.map(nameOf))) visit(start(name))
  return { packages: found.size, mebibytes: Array.from(found.values()).reduce((a, b) => a + b, 0) / 2 ** 20 }
}
