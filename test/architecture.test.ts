/*
 * The direction of imports. A new edge is a design decision and is made here first.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Fs from "node:fs"
import * as Path from "node:path"
import packageJson from "../package.json" with { type: "json" }
import { importsOf } from "./imports.ts"

/** The folders a folder may import from, besides itself. */
const FOLDERS: Record<string, ReadonlyArray<string>> = {
  internal: [],
  tools: ["internal"],
  llm: ["tools", "internal"],
  openai: ["internal"],
  mcp: ["tools", "internal"],
  sql: ["tools", "internal"],
  testing: ["tools", "llm", "mcp", "internal"],
  cli: ["tools", "llm", "openai", "mcp", "testing", "internal"]
}

/** Where a package may be imported; every other package but `effect` is refused. */
const PACKAGES: Record<string, ReadonlyArray<string>> = {
  "node:": ["cli/"],
  "@effect/platform-node": ["cli/"],
  openai: ["openai/"],
  ajv: ["internal/"]
}

/** The parts of effect that its authors may still change, and the few places that would notice. */
const UNSTABLE: Record<string, ReadonlyArray<string>> = {
  "effect/ai/Mcp": [],
  "effect/cli": ["cli/"],
  "effect/encoding/Base64": ["openai/internal/", "mcp/internal/"],
  "effect/encoding/Sse": ["openai/internal/answer.ts", "mcp/internal/http/sse.ts"],
  "effect/http": ["openai/OpenAiModel.ts", "mcp/McpClient.ts", "mcp/McpServers.ts", "mcp/internal/http/", "cli/"],
  "effect/persistence": ["llm/CycleStore.ts", "llm/internal/storeKeys.ts"],
  "effect/process": [
    "mcp/McpClient.ts",
    "mcp/McpServers.ts",
    "mcp/internal/stdio.ts",
    "mcp/internal/reaper.ts",
    "cli/"
  ],
  "effect/rpc": [],
  "effect/socket": [],
  "effect/sql": ["sql/"],
  "effect/workflow": []
}

interface Import {
  readonly file: string
  /** A file of `src`, or what is imported from a package. */
  readonly to: string
  readonly isType: boolean
}

const src = Path.resolve(import.meta.dirname, "../src")

/** Types count as well. */
const edgesOf = (file: string, text: string): ReadonlyArray<Import> =>
  importsOf(text).map(({ from, isType }) => ({
    file,
    to: from.startsWith(".") ? Path.posix.join(Path.posix.dirname(file), from) : from,
    isType
  }))

const folderOf = (file: string) => file.includes("/") ? file.slice(0, file.indexOf("/")) : "."
const isIndex = (file: string) => Path.posix.basename(file) === "index.ts"
const isWithin = (places: ReadonlyArray<string>, file: string) => places.some((place) => file.startsWith(place))
const entryOf = (table: Record<string, ReadonlyArray<string>>, name: string) =>
  Object.entries(table).find(([prefix]) => name === prefix || name.startsWith(prefix))?.[1]

const problemOf = ({ file, to }: Import): string | undefined => {
  if (!to.endsWith(".ts")) {
    if (to === "effect" || to === "effect/ai") return "imports a whole package"
    const places = entryOf(PACKAGES, to) ?? (to.startsWith("effect/") ? entryOf(UNSTABLE, to) ?? [""] : [])
    return isWithin(places, file) ? undefined : "imports a package that has its place elsewhere"
  }
  if (to.startsWith("../")) return "imports from outside of src"
  if (isIndex(to)) return "imports an index"
  const [from, target] = [folderOf(file), folderOf(to)]
  if (to.slice(target.length).includes("/internal/") && from !== target) return "imports what is private to a folder"
  if (from === target || (isIndex(file) && from === ".")) return undefined
  return FOLDERS[from]?.includes(target) ? undefined : "imports against the direction of the folders"
}

const problemsOf = (imports: ReadonlyArray<Import>): ReadonlyArray<string> =>
  imports.flatMap((each) => {
    const problem = problemOf(each)
    return problem === undefined ? [] : [`${each.file} ${problem}: ${each.to}`]
  })

/** The first cycle found at run time, as the files it goes through. */
const cycleOf = (imports: ReadonlyArray<Import>): ReadonlyArray<string> => {
  const graph = Map.groupBy(imports.filter(({ isType, to }) => !isType && to.endsWith(".ts")), ({ file }) => file)
  const done = new Set<string>()
  const visit = (file: string, path: ReadonlyArray<string>): ReadonlyArray<string> => {
    const seen = path.indexOf(file)
    if (seen >= 0) return [...path.slice(seen), file]
    if (done.has(file)) return []
    for (const { to } of graph.get(file) ?? []) {
      const cycle = visit(to, [...path, file])
      if (cycle.length > 0) return cycle
    }
    done.add(file)
    return []
  }
  return Array.from(graph.keys()).map((file) => visit(file, [])).find((cycle) => cycle.length > 0) ?? []
}

// verifies: package.direction
describe("architecture", () => {
  const files = Fs.readdirSync(src, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"))
  const imports = files.flatMap((file) => edgesOf(file, Fs.readFileSync(Path.join(src, file), "utf8")))

  it("has no folder without a place in it", () => {
    assert.includeMembers([".", ...Object.keys(FOLDERS)], files.map(folderOf))
  })

  it("holds for every import", () => {
    assert.isNotEmpty(imports)
    assert.deepStrictEqual(problemsOf(imports), [])
  })

  it("has no cycles at run time", () => {
    assert.deepStrictEqual(cycleOf(imports), [])
  })

  it("names every dependency of the package, and no other", () => {
    const names = [...Object.keys(packageJson.dependencies), ...Object.keys(packageJson.peerDependencies)]
    const used = new Set(
      imports.filter(({ to }) => !/\.ts$|^node:/.test(to)).map(({ to }) =>
        to.split("/").slice(0, to.startsWith("@") ? 2 : 1).join("/")
      )
    )
    assert.deepStrictEqual(Array.from(used).toSorted(), names.toSorted())
  })
})

describe("the check of the architecture", () => {
  it("finds each kind of wrong import", () => {
    const wrong: ReadonlyArray<readonly [file: string, text: string]> = [
      ["tools/A.ts", "import * as Fs from \"node:fs\""],
      ["tools/A.ts", "const a = import(\"openai\")"],
      ["tools/A.ts", "export * from \"left-pad\""],
      ["llm/A.ts", "import type { X } from \"effect/ai/McpSchema\""],
      ["llm/A.ts", "import { X } from \"effect\""],
      ["tools/A.ts", "import type { B } from \"../llm/B.ts\""],
      ["tools/A.ts", "export type B = import(\"../llm/B.ts\").B"],
      ["llm/A.ts", "import { B } from \"../tools/internal/b.ts\""],
      ["llm/A.ts", "import * as Mcp from \"../mcp/index.ts\""],
      ["internal/a.ts", "import * as Tool from \"../tools/Tool.ts\""],
      ["cli/main.ts", "import * as Package from \"../../test/a.ts\""]
    ]
    assert.lengthOf(problemsOf(wrong.flatMap(([file, text]) => edgesOf(file, text))), wrong.length)
  })

  it("allows what is meant", () => {
    const right: ReadonlyArray<readonly [file: string, text: string]> = [
      ["index.ts", "export * as Tool from \"./tools/Tool.ts\""],
      ["tools/internal/a.ts", "import { b } from \"./b.ts\"\nimport * as Tool from \"../Tool.ts\""],
      ["llm/A.ts", "import * as Tool from \"../tools/Tool.ts\"\nimport * as Prompt from \"effect/ai/Prompt\""],
      ["openai/internal/a.ts", "import OpenAI from \"openai\""],
      ["cli/main.ts", "import { readFileSync } from \"node:fs\"\nimport * as Cycle from \"../llm/Cycle.ts\""]
    ]
    assert.deepStrictEqual(problemsOf(right.flatMap(([file, text]) => edgesOf(file, text))), [])
  })

  it("finds a cycle, however long", () => {
    const edges = [["a.ts", "b.ts"], ["b.ts", "c.ts"], ["c.ts", "d.ts"], ["d.ts", "b.ts"]] as const
    assert.deepStrictEqual(cycleOf(edges.map(([file, to]) => ({ file, to, isType: false }))), [
      "b.ts",
      "c.ts",
      "d.ts",
      "b.ts"
    ])
    assert.deepStrictEqual(cycleOf(edges.slice(0, 3).map(([file, to]) => ({ file, to, isType: false }))), [])
  })
})
