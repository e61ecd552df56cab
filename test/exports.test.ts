/*
 * The exports map, the index files and the source name the same modules, and each public export is documented.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Fs from "node:fs"
import * as Path from "node:path"
import typedoc from "../docs/typedoc.json" with { type: "json" }
import packageJson from "../package.json" with { type: "json" }
import { inspect } from "./publicApi.ts"

const root = Path.resolve(import.meta.dirname, "..")
const categories = new Set(typedoc.categoryOrder.filter((category) => category !== "*"))

/** Which folders an entry point shows. */
const FOLDERS: Record<string, ReadonlyArray<string>> = {
  ".": ["tools", "llm"],
  "./openai": ["openai"],
  "./mcp": ["mcp"],
  "./sql": ["sql"],
  "./testing": ["testing"]
}

const sourceOf = (key: string) => Path.posix.join("src", key, "index.ts")

const modulesOf = (folder: string) =>
  Fs.readdirSync(Path.join(root, "src", folder))
    .filter((file) => file.endsWith(".ts") && file !== "index.ts")
    .map((file) => ({ name: Path.basename(file, ".ts"), path: Path.join(root, "src", folder, file) }))

// verifies: package.exports
describe("exports", () => {
  it("of the package are the entry points and its manifest", () => {
    const { "./package.json": manifest, ...entries } = packageJson.exports
    assert.strictEqual(manifest, "./package.json")
    assert.deepStrictEqual(
      entries,
      Object.fromEntries(
        Object.keys(FOLDERS).map((key) => {
          const file = `./${Path.posix.join("dist", key, "index")}`
          return [key, { types: `${file}.d.ts`, default: `${file}.js` }]
        })
      )
    )
  })

  it("are what typedoc documents", () => {
    assert.deepStrictEqual(typedoc.entryPoints, Object.keys(FOLDERS).map((key) => `../${sourceOf(key)}`))
  })

  it.each(Object.entries(FOLDERS))("of %s are its modules, each under its file's name", (key, folders) => {
    const file = Path.join(root, sourceOf(key))
    const lines = Array.from(
      Fs.readFileSync(file, "utf8").matchAll(/^export \* as (\w+) from "(.+)"$/gm),
      ([, name, path]) => ({ name: name!, path: Path.resolve(Path.dirname(file), path!) })
    )
    const byName = (a: { name: string }, b: { name: string }) => a.name < b.name ? -1 : 1
    assert.deepStrictEqual(lines.toSorted(byName), folders.flatMap(modulesOf).toSorted(byName))
  })

  // verifies: package.documented
  it("are documented", () => {
    const { names, problems } = inspect({ root, entries: Object.keys(FOLDERS).map(sourceOf), categories })
    assert.isNotEmpty(names)
    assert.deepStrictEqual(problems, [])
  })
})

describe("the check of documentation", () => {
  it("finds everything that is missing, and nothing else", () => {
    const { names, problems } = inspect({
      root: Path.join(root, "test/fixtures/public-api"),
      entries: ["index.ts", "missing.ts"],
      categories
    })
    assert.includeMembers(Array.from(names), ["Good.run", "Good.say", "Bad.Members", "Bad.Shown"])
    assert.deepStrictEqual(problems, [
      "index.ts:12 Bad: no doc comment",
      "Bad.ts:1 Bad.ts: no doc comment",
      "Bad.ts:1 Bad.nothing: no doc comment",
      "Bad.ts:7 Bad.NoSentence: no sentence",
      "Bad.ts:12 Bad.NoTags: no @category",
      "Bad.ts:12 Bad.NoTags: no @since",
      "Bad.ts:22 Bad.untyped: an unknown @category \"odds\"",
      "Bad.ts:22 Bad.untyped: no @since",
      "Bad.ts:22 Bad.untyped: its type is not written out",
      "Bad.ts:32 Bad.Members.optional: no doc comment (optional: what does its absence mean?)",
      "Bad.ts:33 Bad.Members.call: no doc comment (a function: what does it do?)",
      "Bad.ts:34 Bad.Members.method: no doc comment (a function: what does it do?)",
      "Bad.ts:35 Bad.Members.count: no doc comment (a number: of what?)",
      "Bad.ts:36 Bad.Members.size: no doc comment (a number: of what?)",
      "Bad.ts:48 Bad.Shown.size: no doc comment (a number: of what?)",
      "Bad.ts:49 Bad.Shown.show: no doc comment (a function: what does it do?)",
      "Bad.ts:61 Bad.take.limit: no doc comment (optional: what does its absence mean?)",
      "missing.ts: not a module"
    ])
  })
})
