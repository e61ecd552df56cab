import { assert, describe, it } from "@effect/vitest"
import { challenges } from "../../../src/mcp/internal/http/headers.ts"
import { headerProblem, headerValue, paramHeaders } from "../../../src/mcp/internal/http/paramHeaders.ts"

describe("a value in a header", () => {
  it.each([
    ["us-west1", "us-west1"],
    ["", ""],
    ["a b", "a b"],
    ["=?base64?", "=?base64?"],
    ["Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="],
    [" padded ", "=?base64?IHBhZGRlZCA=?="],
    ["line1\nline2", "=?base64?bGluZTEKbGluZTI=?="],
    ["a\tb", "=?base64?YQli?="],
    ["\u007f", "=?base64?fw==?="],
    ["=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="]
  ])("of %j is %j", (text, expected) => {
    assert.strictEqual(headerValue(text), expected)
  })
})

const annotated = (name: unknown, type: unknown = "string") => ({ type, "x-mcp-header": name })
const withProperties = (properties: object) => ({ type: "object", properties })

describe("an annotation of a schema", () => {
  it.each<readonly [string, unknown]>([
    ["nothing annotated", withProperties({ a: { type: "number" } })],
    ["no schema", null],
    ["true", true],
    ["a nested property", withProperties({ a: withProperties({ b: annotated("B", "integer") }) })],
    ["a type that may be null", withProperties({ a: annotated("A", ["null", "boolean"]) })],
    ["every token character", withProperties({ a: annotated("!#$%&'*+-.^_`|~09aZ") })],
    ["a property of that name", withProperties({ "x-mcp-header": { type: "string" } })],
    ["data that looks like one", {
      type: "object",
      default: annotated(""),
      examples: [annotated("")],
      enum: [annotated(1)]
    }],
    ["null where schemas stand", { type: "object", properties: null, items: null, allOf: null, $defs: null }]
  ])("is fine: %s", (_, schema) => {
    assert.strictEqual(headerProblem(schema), undefined)
  })

  it.each<readonly [string, unknown]>([
    ["an empty name", withProperties({ a: annotated("") })],
    ["a name with a space", withProperties({ a: annotated("a b") })],
    ["a name with a line break", withProperties({ a: annotated("a\r\nb") })],
    ["a name that is none", withProperties({ a: annotated(null) })],
    ["a name used twice", withProperties({ a: annotated("X"), b: withProperties({ c: annotated("x") }) })],
    ["a number", withProperties({ a: annotated("A", "number") })],
    ["an object", withProperties({ a: annotated("A", "object") })],
    ["two types", withProperties({ a: annotated("A", ["string", "integer"]) })],
    ["no type", withProperties({ a: { "x-mcp-header": "A" } })],
    ["the root", { ...annotated("A"), type: "object" }],
    ["an item", withProperties({ a: { type: "array", items: annotated("A") } })],
    ["a property of an item", withProperties({ a: { type: "array", items: withProperties({ b: annotated("A") }) } })],
    ["an item of a tuple", withProperties({ a: { prefixItems: [annotated("A")] } })],
    ["an alternative", { oneOf: [withProperties({ a: annotated("A") })] }],
    ["a condition", { if: withProperties({ a: annotated("A") }) }],
    ["a negation", { not: annotated("A") }],
    ["a definition", { $defs: { a: annotated("A") } }],
    ["other properties", { additionalProperties: annotated("A") }],
    ["properties by pattern", { patternProperties: { "^a": annotated("A") } }]
  ])("is not allowed: %s", (_, schema) => {
    assert.match(headerProblem(schema) ?? "", /^x-mcp-header: /)
  })

  it("is found at any depth without running out of stack", () => {
    let schema: object = annotated("A", "number")
    for (let depth = 0; depth < 20_000; depth++) schema = { properties: { a: schema } }
    assert.isDefined(headerProblem(schema))
  })

  it("mirrors arguments as they are, and none that are absent", () => {
    const schema = withProperties({
      text: annotated("Text"),
      count: annotated("Count", "integer"),
      flag: annotated("Flag", "boolean"),
      none: annotated("None"),
      odd: annotated("Odd"),
      constructor: annotated("Ctor"),
      at: withProperties({ city: annotated("City") })
    })
    assert.deepStrictEqual(
      paramHeaders(schema, { text: "", count: -7, flag: true, none: null, odd: ["a"], at: { city: "Köln" } }),
      {
        "mcp-param-text": "",
        "mcp-param-count": "-7",
        "mcp-param-flag": "true",
        "mcp-param-city": `=?base64?${Buffer.from("Köln").toString("base64")}?=`
      }
    )
    for (const args of [undefined, null, [], "x", { at: null }, { at: "x" }]) {
      assert.deepStrictEqual(paramHeaders(schema, args), {})
    }
  })
})

describe("a challenge", () => {
  it.each<readonly [string | undefined, ReadonlyArray<{ scheme: string; params: Record<string, string> }>]>([
    [undefined, []],
    ["", []],
    ["Bearer", [{ scheme: "bearer", params: {} }]],
    ["Bearer realm=\"a, b\", scope=\"x y\"", [{ scheme: "bearer", params: { realm: "a, b", scope: "x y" } }]],
    ["Bearer error=invalid_token , Error = twice", [{ scheme: "bearer", params: { error: "invalid_token" } }]],
    ["Bearer realm=\"quo\\\"te\"", [{ scheme: "bearer", params: { realm: "quo\"te" } }]],
    ["Basic realm=x, Bearer scope=y", [
      { scheme: "basic", params: { realm: "x" } },
      { scheme: "bearer", params: { scope: "y" } }
    ]],
    ["Negotiate YWJj==, DPoP algs=\"ES256\"", [
      { scheme: "negotiate", params: {} },
      { scheme: "dpop", params: { algs: "ES256" } }
    ]],
    ["Bearer __proto__=x", [{ scheme: "bearer", params: Object.fromEntries([["__proto__", "x"]]) }]],
    ["Bearer realm=\"never closed, scope=x", [{ scheme: "bearer", params: { realm: "never closed, scope=x" } }]],
    ["=,=\";;\u0001 Bearer scope=x", [{ scheme: "bearer", params: { scope: "x" } }]]
  ])("of %j is read as %j", (header, expected) => {
    assert.deepStrictEqual(challenges(header), expected)
  })

  it("of any length costs little", () => {
    assert.isBelow(challenges("Bearer x=\"".repeat(100_000)).length, 5000)
  })
})
