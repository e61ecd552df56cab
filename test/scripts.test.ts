/*
 * The scripts of the package: which Node runs them, and that the check of types fails for what it should.
 */
import { assert, describe, it } from "@effect/vitest"
import { type ExecException, execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { afterAll, beforeAll } from "vitest"
import packageJson from "../package.json" with { type: "json" }

const root = Path.resolve(import.meta.dirname, "..")
const project = Path.join(root, "test", "_doctest", `check-${process.pid}`)
const bin = Path.join(root, "node_modules", ".bin")

const run = (file: string, args: ReadonlyArray<string>, path: string) => {
  try {
    const env = { ...process.env, PATH: path }
    return { code: 0, output: execFileSync(file, args, { cwd: root, encoding: "utf8", stdio: "pipe", env }) }
  } catch (error) {
    const { status, stderr, stdout } = error as ExecException & { status: number | null }
    return { code: status, output: `${stdout}${stderr}` }
  }
}

/** The path of a shell that knows nothing of the project. */
const systemPath = (process.env["PATH"] ?? "").split(Path.delimiter).filter((part) => !part.includes("node_modules"))
  .join(Path.delimiter)

describe("scripts", () => {
  // verifies: package.node
  it("run on the Node that comes with the install", () => {
    const { output } = run("npm", ["exec", "--no", "--", "node", "--version"], systemPath)
    assert.strictEqual(output.trim(), `v${packageJson.devDependencies.node}`)
  })

  it("of the package never run when it is installed", () => {
    assert.doesNotHaveAnyKeys(packageJson.scripts, ["preinstall", "install", "postinstall", "prepare"])
  })

  it("are all part of verify, save those that start something", () => {
    const apart = new Set(["bench", "demo", "format", "prepack", "verify"])
    for (const name of Object.keys(packageJson.scripts).filter((name) => !apart.has(name))) {
      assert.include(packageJson.scripts.verify.split(" && "), `npm run ${name}`)
    }
  })
})

describe("npm run check", () => {
  const check = (text: string) => {
    Fs.writeFileSync(Path.join(project, "sample.ts"), text)
    return run("sh", ["-c", `${packageJson.scripts.check} -p ${project}`], [bin, systemPath].join(Path.delimiter))
  }

  beforeAll(() => {
    Fs.mkdirSync(project, { recursive: true })
    const config = { extends: "../../../tsconfig.json", include: ["*.ts"], exclude: [] }
    Fs.writeFileSync(Path.join(project, "tsconfig.json"), JSON.stringify(config))
  })
  afterAll(() => Fs.rmSync(project, { recursive: true, force: true }))

  it("passes right code", { concurrent: false }, () => {
    assert.deepStrictEqual(check("export const one: number = 1\n"), { code: 0, output: "" })
  })

  it("fails for a wrong type", { concurrent: false }, () => {
    const { code, output } = check("export const one: string = 1\n")
    assert.include(output, "TS2322")
    assert.notStrictEqual(code, 0)
  })

  it("fails for what Effect would write otherwise, where its compiler exists", { concurrent: false }, () => {
    const scope = Path.join(root, "node_modules/@effect")
    const hasEffect = Fs.readdirSync(scope).some((name) => name.startsWith("tsgo-"))
    const { code, output } = check(`import { Effect } from "effect"
export const one: Effect.Effect<number> = Effect.succeed(1).pipe(
  Effect.matchEffect({ onFailure: () => Effect.succeed(2), onSuccess: (n) => Effect.succeed(n) })
)
`)
    assert.strictEqual(code !== 0, hasEffect)
    assert.include(output, hasEffect ? "matchEffectToMatch" : "types only")
  })
})
