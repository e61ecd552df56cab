/**
 * Follows the imports of built files.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { importsOf } from "../imports.ts"

/** The files that an entry point loads, and what those import from packages. */
export const reachedFrom = (
  entry: string
): { readonly files: ReadonlyArray<string>; readonly packages: ReadonlyArray<string> } => {
  const files = new Set([entry])
  const packages = new Set<string>()
  // A set yields what is added to it while it is walked.
  for (const file of files) {
    for (const { from } of importsOf(Fs.readFileSync(file, "utf8"))) {
      if (from.startsWith(".")) files.add(Path.resolve(Path.dirname(file), from))
      else packages.add(from)
    }
  }
  return { files: Array.from(files), packages: Array.from(packages) }
}
