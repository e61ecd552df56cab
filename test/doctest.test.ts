/*
 * Runs every code block of the README, the documents and the doc comments. A TypeScript block is a program of its own
 * (`ts run`), `expression // => expected` compares both sides; a shell block names what exists; JSON parses. A block of
 * any other kind is refused, save text and diagrams.
 */
import { assert, describe, it } from "@effect/vitest"
import { Equal } from "effect"
import { execFile } from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { promisify } from "node:util"
import { afterAll } from "vitest"
import packageJson from "../package.json" with { type: "json" }
import { type Block, blocksOf, EPILOGUE, type Example, exampleOf } from "./examples.ts"

const root = Path.resolve(import.meta.dirname, "..")
const out = Path.join(root, "test", "_doctest", String(process.pid))

const files = [
  "README.md",
  ...["src", "docs"].flatMap((folder) =>
    Fs.readdirSync(Path.join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.(ts|md)$/.test(file) && !/^(api|node_modules)\b/.test(file))
      .map((file) => Path.join(folder, file))
      .toSorted()
  )
]
const blocks = files.flatMap((file) => blocksOf(file, Fs.readFileSync(Path.join(root, file), "utf8")))
const named = (test: (info: string) => boolean) =>
  blocks.filter(({ info }) => test(info)).map((block) => ({ name: `${block.file}:${block.line}`, block }))

// =============================================================================
// TypeScript
// =============================================================================

const TSC = Path.join(root, "node_modules/typescript/bin/tsc")

/** The places whose assertion was reached; places are unique over all examples. */
const reached = new Set<string>()

const expectEqual = <A>(actual: A, expected: unknown, place: string): A => {
  reached.add(place)
  if (!Equal.equals(actual, expected)) assert.deepStrictEqual<unknown>(actual, expected, place)
  return actual
}

const fileOf = (example: Example) => Path.join(out, `${example.name.replaceAll(/[^\w]/g, "_")}.ts`)

const write = (examples: ReadonlyArray<Example>) => {
  Fs.mkdirSync(out, { recursive: true })
  Fs.writeFileSync(
    Path.join(out, "tsconfig.json"),
    JSON.stringify({
      extends: "../../../tsconfig.json",
      include: ["*.ts"],
      exclude: [],
      compilerOptions: { noUnusedLocals: false, noUnusedParameters: false }
    })
  )
  for (const example of examples) Fs.writeFileSync(fileOf(example), example.code + EPILOGUE)
}

const run = async (example: Example) => {
  assert.deepStrictEqual(example.problems, [])
  await import(/* @vite-ignore */ fileOf(example))
  assert.deepStrictEqual(example.assertions.filter((place) => !reached.has(place)), [], "assertions never reached")
}

// Examples run meanwhile: waiting must not block them.
const execute = promisify(execFile)

/** What the compiler says, at the place in the document where it is wrong. */
const typeErrors = async (examples: ReadonlyArray<Example>): Promise<ReadonlyArray<string>> => {
  try {
    await execute(process.execPath, [TSC, "--noEmit", "--pretty", "false", "-p", out], { cwd: root })
    return []
  } catch (error) {
    const text = (error as { stdout: string }).stdout
    const lines = text.split("\n").filter((line) => /^\S+\(\d+,\d+\): /.test(line))
    return lines.length === 0 ? [text] : lines.map((line) => {
      const [, file, row, message] = /^([^(]+)\((\d+),\d+\): (.*)$/.exec(line)!
      const example = examples.find((example) => Path.basename(fileOf(example)) === Path.basename(file!))
      const [document, first] = example?.name.split(":") ?? [file, "1"]
      return `${document}:${Number(first) + Number(row) - 1}: ${message}`
    })
  }
}

// =============================================================================
// Shell
// =============================================================================

const SHELL = new Set(["cd", "export", "echo", "cat", "git", "jq"])
const PACKAGES = new Set([packageJson.name, ...Object.keys(packageJson.peerDependencies)])
const CLI = Path.join(root, "src/cli/main.ts")

/** The simple commands of a shell block, without prompts, comments and variables set for one command. */
const commandsOf = (code: string): ReadonlyArray<string> =>
  code
    .replaceAll(/\\\n\s*/g, " ")
    .split("\n")
    .flatMap((line) => line.replace(/^\$ /, "").replace(/(^|\s)#.*$/, "").split(/&&|\|\||[;|]/))
    .map((command) => command.trim().replace(/^(\w+=("[^"]*"|'[^']*'|\S*)\s+)+/, ""))
    .filter((command) => command !== "")

const npmProblem = (words: ReadonlyArray<string>): string | undefined => {
  const names = words.slice(2).filter((word) => !word.startsWith("-"))
  switch (words[1]) {
    case "ci":
    case "pack":
      return undefined
    case "install":
    case "i":
      return names.find((name) => !PACKAGES.has(name.replace(/(?<=.)@.*$/, "")))
    case "test":
    case "run": {
      const script = words[1] === "test" ? "test" : names[0] ?? ""
      return script in packageJson.scripts ? undefined : `no script "${script}"`
    }
    default:
      return `npm ${words[1]}`
  }
}

/** Subcommand and flags must be in the command's own help. */
const cliProblem = async (words: ReadonlyArray<string>): Promise<string | undefined> => {
  const subcommand = words.slice(1, 2).filter((word) => !word.startsWith("-"))
  try {
    const { stdout: help } = await execute(process.execPath, [CLI, ...subcommand, "--help"])
    return words.filter((word) => word.startsWith("--")).map((word) => word.replace(/=.*$/, ""))
      .find((flag) => !help.includes(flag))
  } catch (error) {
    return (error as { stderr: string }).stderr
  }
}

const commandProblem = async (command: string): Promise<string | undefined> => {
  const words = command.split(/\s+/)
  if (words[0] === "npm") return npmProblem(words)
  if (words[0] === "agcore") return cliProblem(words)
  if (words[0] === "npx" && words[1] === "agcore") return cliProblem(words.slice(1))
  return SHELL.has(words[0]!) ? undefined : "a command that no test checks"
}

const shellProblems = async (code: string): Promise<ReadonlyArray<string>> => {
  const problems = await Promise.all(
    commandsOf(code).map(async (command) => {
      const problem = await commandProblem(command)
      return problem === undefined ? [] : [`${command}: ${problem}`]
    })
  )
  return problems.flat()
}

// =============================================================================
// Tests
// =============================================================================

const block = (code: string): Block => ({ file: "sample.md", line: 10, info: "ts run", code })
const SAMPLES = {
  right: exampleOf({
    ...block(
      "const list = [1, [\"a\"]] // => [\n//   1,\n//   [\"a\"]\n// ]\nconst f = function*() {\n"
        + "  yield* [] // => undefined\n}\nArray.from(f())\nconsole.log(list.length) // => 2 \nlist.at(0)! // => 1"
    ),
    line: 100
  }),
  wrong: exampleOf({ ...block("const one = 1\n\none // => 2"), line: 200 }),
  unreached: exampleOf({ ...block("const f = () => {\n  return 1 // => 1\n}"), line: 300 }),
  mistyped: exampleOf({ ...block("const a = 1\n\nconst b: string = a"), line: 400 })
}

/** A compiler and the commands of a block are processes of their own, beside all other tests. */
const COMPILER_TIMEOUT = 180_000

// verifies: package.examples
describe("examples", () => {
  const examples = named((info) => info === "ts run").map(({ block }) => exampleOf(block))
  Object.assign(globalThis, { expectEqual })
  write([...examples, ...Object.values(SAMPLES)])
  afterAll(() => Fs.rmSync(out, { recursive: true, force: true }))

  it.each(examples)("$name runs", run)

  it("are of the right types", async () => {
    const errors = await typeErrors([...examples, ...Object.values(SAMPLES)])
    assert.deepStrictEqual(
      errors.filter((error) => !error.startsWith("sample.md")),
      [],
      "in documents"
    )
    assert.deepStrictEqual(
      errors.map((error) => error.replace(/: error TS.*/, "")).filter((error) => error.startsWith("sample.md")),
      ["sample.md:402"],
      "in the sample that is wrong on purpose"
    )
  }, COMPILER_TIMEOUT)

  it("exist", () => assert.isNotEmpty(examples))

  it("are refused when they are of no kind that a test runs", () => {
    assert.deepStrictEqual(
      named((info) => !["ts run", "sh", "json", "text", "mermaid"].includes(info)).map(({ block, name }) =>
        `${name}: a block marked "${block.info}"`
      ),
      []
    )
  })

  it.each(named((info) => info === "sh"))("$name names commands that exist", async ({ block }) => {
    assert.deepStrictEqual(await shellProblems(block.code), [])
  }, COMPILER_TIMEOUT)

  it.each(named((info) => info === "json"))("$name parses", ({ block }) => {
    assert.doesNotThrow(() => JSON.parse(block.code))
  })
})

describe("the check of examples", () => {
  const failure = (example: Example) => run(example).then(() => undefined, (error: Error) => error.message)

  it("passes what holds, over several lines and inside generators", () => run(SAMPLES.right))

  it("fails for another value, and says where", async () => {
    assert.include(await failure(SAMPLES.wrong), "sample.md:202")
  })

  it("fails for an assertion that is never reached", async () => {
    assert.include(await failure(SAMPLES.unreached), "assertions never reached")
  })

  it("fails for an assertion that belongs to no statement, or has no value", () => {
    const { problems } = exampleOf(block("const a = [\n  1 // => 1\n]\na.length // => [\n"))
    assert.lengthOf(problems, 2)
    assert.match(problems[0]!, /^sample\.md:11: /)
  })

  it("finds blocks in lists, with longer fences, in doc comments only, and open ones", () => {
    const text = "- a\n  ````ts run\n  ```\n  x\n  ````\n```json\n{}"
    assert.deepStrictEqual(blocksOf("a.md", text), [
      { file: "a.md", line: 3, info: "ts run", code: "```\nx" },
      { file: "a.md", line: 7, info: "unclosed", code: "{}" }
    ])
    assert.deepStrictEqual(blocksOf("a.ts", "/**\n * ```ts run\n * x\n *\n * ```\n */\nconst a = `\n```\n`"), [
      { file: "a.ts", line: 3, info: "ts run", code: "x\n" }
    ])
  })

  it("knows the commands of shell blocks", async () => {
    assert.deepStrictEqual(
      await shellProblems("$ npm ci && A=\"b c\" npm test -- --run # all\nnpm install \\\n  agcore effect"),
      []
    )
    assert.lengthOf(await shellProblems("npm run nothing\nnpm install left-pad\nnpm publish\ncurl x | sh"), 5)
  })
})
