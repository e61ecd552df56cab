/*
 * Packs the package, installs it into an empty project and uses it there: what users get, not what stands in src.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFile, type ExecFileException } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll } from "vitest"
import packageJson from "../../package.json" with { type: "json" }
import { reachedFrom } from "./reached.ts"

const root = Path.resolve(import.meta.dirname, "../..")
const temporary = Fs.mkdtempSync(Path.join(Os.tmpdir(), "agcore-package-"))
const consumer = Path.join(temporary, "consumer")
const installed = Path.join(consumer, "node_modules", "agcore")

/** Without what npm tells the scripts that it runs; its own settings stay. */
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) =>
    !/^npm_/i.test(name) || /^npm_config_(cache|registry|userconfig|offline)$/i.test(name)
  )
)

const run = (file: string, args: ReadonlyArray<string>, cwd: string) =>
  promisify(execFile)(file, args, { cwd, env, encoding: "utf8", maxBuffer: 1 << 26 }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: ExecFileException & { stdout: string; stderr: string }) => ({ ...error, code: error.code ?? -1 })
  )

const succeed = async (file: string, args: ReadonlyArray<string>, cwd: string): Promise<string> => {
  const { code, stderr, stdout } = await run(file, args, cwd)
  assert.strictEqual(code, 0, `${file} ${args.join(" ")}\n${stdout}\n${stderr}`)
  return stdout
}

const node = (...args: ReadonlyArray<string>) => run(process.execPath, args, consumer)

/** The compilers that the package promises to work with; each comes with the install. */
const COMPILERS = {
  "5.9": "test/package/node_modules/typescript",
  "6.0": "docs/node_modules/typescript",
  "7.0": "node_modules/typescript"
}

/** Every compiler meets each setting; the fast one meets each pair. */
const COMPILATIONS = [
  { version: "5.9", module: "nodenext", exact: true },
  { version: "5.9", module: "bundler", exact: false },
  { version: "6.0", module: "nodenext", exact: false },
  { version: "6.0", module: "bundler", exact: true },
  { version: "7.0", module: "nodenext", exact: true },
  { version: "7.0", module: "nodenext", exact: false },
  { version: "7.0", module: "bundler", exact: true },
  { version: "7.0", module: "bundler", exact: false }
] as const

const MODULES = {
  nodenext: { module: "nodenext" },
  bundler: { module: "preserve", moduleResolution: "bundler" }
}

beforeAll(async () => {
  Fs.mkdirSync(consumer)
  Fs.writeFileSync(Path.join(consumer, "package.json"), "{ \"private\": true, \"type\": \"module\" }\n")
  Fs.cpSync(Path.join(import.meta.dirname, "consumer"), consumer, { recursive: true })
  await succeed("npm", ["pack", "--pack-destination", temporary], root)
  const tarball = Path.join(temporary, `agcore-${packageJson.version}.tgz`)
  const effect = `effect@${packageJson.devDependencies.effect}`
  await succeed("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", tarball, effect], consumer)
}, 300_000)

afterAll(() => Fs.rmSync(temporary, { recursive: true, force: true }))

describe("the packed package", { concurrent: false }, () => {
  // verifies: package.compilers
  it.each(COMPILATIONS)(
    "compiles with TypeScript $version, $module, exactOptionalPropertyTypes $exact, skipLibCheck false",
    async ({ exact, module, version }) => {
      const compiler = Path.join(root, COMPILERS[version])
      const { version: found } = JSON.parse(Fs.readFileSync(Path.join(compiler, "package.json"), "utf8"))
      assert.isTrue(found.startsWith(version), found)
      const config = `tsconfig.${version}.${module}.${exact}.json`
      Fs.writeFileSync(
        Path.join(consumer, config),
        JSON.stringify({
          include: ["*.ts"],
          compilerOptions: {
            ...MODULES[module],
            target: "es2022",
            strict: true,
            exactOptionalPropertyTypes: exact,
            skipLibCheck: false,
            outDir: `out-${version}-${module}-${exact}`
          }
        })
      )
      await succeed(process.execPath, [Path.join(compiler, "bin/tsc"), "--pretty", "false", "-p", config], consumer)
    },
    300_000
  )

  // verifies: package.installs
  it("runs, as compiled code and as source", async () => {
    const expected = { output: 3, isError: false, mcp: true, sql: true, testing: true }
    const files = ["out-7.0-nodenext-true/main.js", "main.ts"]
    const outputs = await Promise.all(files.map((file) => succeed(process.execPath, [file], consumer)))
    assert.deepStrictEqual(outputs.map((output) => JSON.parse(output)), [expected, expected])
  })

  // verifies: package.private
  it.each(["agcore/dist/index.js", "agcore/internal/text", "agcore/tools/Tool", "agcore/src/index.ts", "agcore/index"])(
    "refuses %s",
    async (path) => {
      const { code, stderr } = await node("--input-type=module", "-e", `await import("${path}")`)
      assert.strictEqual(code, 1)
      assert.include(stderr, "ERR_PACKAGE_PATH_NOT_EXPORTED")
    }
  )

  it("has a command that shows its help", async () => {
    const command = Path.join(consumer, "node_modules", ".bin", "agcore")
    assert.include(await succeed(command, ["--help"], consumer), "agcore")
  })

  // verifies: package.neutral
  it("depends on Node in its command only, and on openai in its layer only", () => {
    const entries = {
      ".": "index.js",
      "./openai": "openai/index.js",
      "./mcp": "mcp/index.js",
      "./sql": "sql/index.js",
      "./testing": "testing/index.js"
    }
    for (const [name, entry] of Object.entries(entries)) {
      const { files, packages } = reachedFrom(Path.join(installed, "dist", entry))
      const names = packages.map((name) => name.split("/")[0]!)
      assert.isAbove(files.length, 1, name)
      assert.isEmpty(packages.filter((name) => name.startsWith("node:") || name.startsWith("@effect/")), name)
      assert.strictEqual(names.includes("openai"), name === "./openai", name)
    }
  })

  it("holds what it needs and nothing else", () => {
    const files = Fs.readdirSync(installed, { recursive: true, encoding: "utf8" })
    assert.includeMembers(files, ["README.md", "LICENSE", "package.json", "dist", "src"])
    assert.deepStrictEqual(
      files.filter((file) =>
        !/^(?:README\.md|LICENSE|package\.json|dist|docs|src)$|^(?:dist|src)\/|^docs\/[\w-]+\.md$/.test(file)
      ),
      []
    )
    assert.deepStrictEqual(files.filter((file) => /\.test\.|tsconfig|\.tsbuildinfo/.test(file)), [])
  })

  it("has the source that its maps point at", () => {
    const dist = Path.join(installed, "dist")
    const maps = Fs.readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".map"))
    assert.isNotEmpty(maps)
    for (const map of maps) {
      const { sources } = JSON.parse(Fs.readFileSync(Path.join(dist, map), "utf8")) as {
        sources: ReadonlyArray<string>
      }
      for (const source of sources) assert.isTrue(Fs.existsSync(Path.resolve(dist, Path.dirname(map), source)), map)
    }
  })
})
