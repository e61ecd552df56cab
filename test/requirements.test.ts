/*
 * Every promise is verified by a test that says so, and no test names a promise that was never made.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { requirements } from "./requirements.ts"

interface Claim {
  readonly id: string
  readonly place: string
  /** Whether a test stands below the comment. */
  readonly isAttached: boolean
}

const CLAIM = /^\s*\/\/ verifies: (.+)$/
const TEST = /\b(?:it|describe)\b|Suite\b/

const claimsOf = (file: string, text: string): ReadonlyArray<Claim> => {
  const lines = text.split("\n")
  return lines.flatMap((line, index) => {
    const ids = CLAIM.exec(line)?.[1]?.split(/[,\s]+/).filter((id) => id !== "") ?? []
    const below = lines.slice(index + 1).find((line) => !/^\s*(?:\/\/|$)/.test(line)) ?? ""
    return ids.map((id) => ({ id, place: `${file}:${index + 1}`, isAttached: TEST.test(below) }))
  })
}

// What is installed there may lead back here.
const claims = Fs.globSync("**/*.ts", { cwd: import.meta.dirname, exclude: (file) => file.endsWith("node_modules") })
  .filter((file) => !/^_doctest|^requirements/.test(file))
  .flatMap((file) => claimsOf(file, Fs.readFileSync(Path.join(import.meta.dirname, file), "utf8")))

describe("requirements", () => {
  const ids = requirements.map(({ id }) => id)

  it("have an id each", () => {
    assert.deepStrictEqual(ids.filter((id, index) => ids.indexOf(id) !== index), [])
    assert.deepStrictEqual(ids.filter((id) => !/^[a-z]+(?:-[a-z]+)*\.[a-z]+(?:-[a-z]+)*$/.test(id)), [])
  })

  it("are all verified", () => {
    const verified = new Set(claims.map(({ id }) => id))
    assert.deepStrictEqual(
      requirements.filter(({ id }) => !verified.has(id)).map(({ behaviour, id }) => `${id}: ${behaviour}`),
      []
    )
  })

  it("are the only ones that tests name", () => {
    assert.deepStrictEqual(claims.filter(({ id }) => !ids.includes(id)).map(({ id, place }) => `${place} ${id}`), [])
  })

  it("are verified by tests, not by comments", () => {
    assert.deepStrictEqual(claims.filter(({ isAttached }) => !isAttached).map(({ id, place }) => `${place} ${id}`), [])
  })
})

describe("the check of requirements", () => {
  it("reads several ids, and sees what stands below", () => {
    const text = "// verifies: a.b, c.d\n// more\nit(\"works\", () => {})\n  // verifies: e.f\nconst x = 1"
    assert.deepStrictEqual(claimsOf("A.test.ts", text), [
      { id: "a.b", place: "A.test.ts:1", isAttached: true },
      { id: "c.d", place: "A.test.ts:1", isAttached: true },
      { id: "e.f", place: "A.test.ts:4", isAttached: false }
    ])
  })
})
