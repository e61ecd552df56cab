/**
 * One sample: `worker.ts <row> <contestant> <environment>`. The result goes to the parent as a message.
 */
import { readFileSync } from "node:fs"
import { registerHooks } from "node:module"
import { pathToFileURL } from "node:url"
import { type Environment, take } from "./harness.ts"
import { rows } from "./rows/index.ts"

const [, , id, name, json] = process.argv
const environment: Environment = JSON.parse(json!)

// Never alone: when the parent goes, however, so does the sample, and with its pipes the servers it started.
process.on("disconnect", () => process.exit(1))

/** Leads imports of the package to another checkout. */
const redirect = (folder: string) => {
  const { exports } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"))
  registerHooks({
    resolve: (specifier, context, next) =>
      /^agcore(\/|$)/.test(specifier)
        ? {
          url: pathToFileURL(`${folder}/${exports[specifier.replace("agcore", ".")].default}`).href,
          shortCircuit: true
        }
        : next(specifier, context)
  })
}

try {
  if (environment.package !== undefined) redirect(environment.package)
  const row = rows.find((row) => row.id === id)!
  const work = await row.prepare(row.contestants[name!]!, environment)
  const sample = await take(work)
  process.send!({ sample }, () => process.exit(0))
} catch (error) {
  process.send!({ failure: error instanceof Error ? error.stack : String(error) }, () => process.exit(1))
}
