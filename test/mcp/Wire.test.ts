import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { connect, reasonOf, scoped, type Script, SLOW, textOf } from "./support.ts"

const works = (script: Script, diagnostic?: string) =>
  scoped(Effect.gen(function*() {
    const client = yield* connect(script)
    const tools = yield* client.listTools
    assert.include(tools.map((tool) => tool.name), "echo")
    const result = yield* client.callTool("echo", { text: "grüße 世界 🙂 \u2028 end" })
    assert.strictEqual(textOf(result), "grüße 世界 🙂 \u2028 end")
    const kinds = (yield* client.diagnostics).map(({ kind }) => kind)
    if (diagnostic === undefined) assert.deepStrictEqual(kinds, [])
    else assert.include(kinds, diagnostic)
  }))

describe("what arrives on standard output", SLOW, () => {
  const harmless: Record<string, Script> = {
    "a plain line": {},
    "CRLF at the end": { wire: { eol: "\r\n" } },
    "blank lines between messages": { wire: { eol: "\n\n \n" } },
    "a byte order mark": { wire: { bom: true } },
    "an id that comes back as a string": { wire: { id: "string" } },
    "an answer without jsonrpc": { wire: { version: "none" } },
    "a null error beside the result": { wire: { also: { error: null } } },
    "the id behind the result": { wire: { id: "last" } },
    "a batch of one": { wire: { batch: true } },
    "characters split anywhere": { wire: { split: 1 } },
    "pieces of seven bytes": { wire: { split: 7 } },
    "a flood on standard error": { say: { flood: 3_000_000 } }
  }
  for (const [title, script] of Object.entries(harmless)) it.live(`takes ${title}`, () => works(script))

  const odd: Record<string, readonly [Script, string]> = {
    "log lines": [{ say: { stdout: "Server starting…\nlistening {not json\n" }, wire: { stray: "log\n" } }, "noise"],
    "JSON that is no message": [{ wire: { stray: "{\"level\":\"info\"}\n123\nnull\n\"s\"\n[]\n" } }, "noise"],
    "log text in front of a message": [{ wire: { around: ["12:00 INFO ", ""] } }, "noise"],
    "log text behind a message": [{ wire: { around: ["", " sent"] } }, "noise"],
    "every answer twice": [{ wire: { twice: true } }, "unexpected-answer"],
    "answers to requests never sent": [
      { wire: { stray: "{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n" } },
      "unexpected-answer"
    ]
  }
  for (const [title, [script, kind]] of Object.entries(odd)) {
    // verifies: mcp.tolerant
    it.live(`passes over ${title}, and says so`, () => works(script, kind))
  }

  it.live("takes notifications it does not know, and many of them", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect()
      yield* client.callTool("notify", { method: "notifications/whatever", params: { x: 1 }, times: 20_000 })
      assert.strictEqual(textOf(yield* client.callTool("echo", { text: "on" })), "on")
    })))

  it.live("answers ping of the server, with the server's own id", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect()
      assert.strictEqual(textOf(yield* client.callTool("ask", { method: "ping" })), "{}")
    })))

  it.live("sends large arguments whole, and many of them", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect()
      const text = "é".repeat(600_000)
      const results = yield* Effect.forEach(
        Array.from({ length: 24 }, (_, n) => `${n}:${text}`),
        (text) => client.callTool("echo", { text }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        results.map((result) => textOf(result).slice(0, 3)),
        results.map((_, n) => `${n}:é`.slice(0, 3))
      )
    })))
})

describe("an answer that is no answer", SLOW, () => {
  const broken: Record<string, readonly [Script, string]> = {
    "both a result and an error": [
      { wire: { also: { error: { code: 1, message: "no" } } } },
      "both a result and an error"
    ],
    "an error that is no object": [{ errors: { "tools/list": "broken" } }, "an error without a numeric code"],
    "an error with words for a code": [
      { errors: { "tools/list": { code: "E_FAIL", message: "x" } } },
      "an error without a numeric code"
    ],
    "a result that is no object": [{ answers: { "tools/list": "tools" } }, "the result is not an object"],
    "a null result": [{ answers: { "tools/list": null } }, "the result is not an object"]
  }
  for (const [title, [script, detail]] of Object.entries(broken)) {
    it.live(`fails its call at once: ${title}`, () =>
      scoped(Effect.gen(function*() {
        const whole = "wire" in script
        // The handshake is hit as well where every answer is broken.
        const reason = yield* reasonOf(Effect.flatMap(connect(script), (client) => client.listTools))
        assert.strictEqual(reason._tag, "InvalidAnswer")
        assert.strictEqual(reason._tag === "InvalidAnswer" && reason.detail, detail)
        assert.strictEqual(reason._tag === "InvalidAnswer" && reason.method, whole ? "initialize" : "tools/list")
      })))
  }

  it.live("without an id goes to the only call there is", () =>
    scoped(Effect.gen(function*() {
      const reason = yield* reasonOf(connect({ wire: { id: "null" } }))
      assert.strictEqual(reason._tag, "InvalidAnswer")
    })))

  it.live("leaves the neighbours alone", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect({ errors: { "tools/list": { code: -32000, message: "later" } } })
      const [listed, called] = yield* Effect.all([
        Effect.exit(client.listTools),
        client.callTool("echo", { text: "a" })
      ], {
        concurrency: "unbounded"
      })
      assert.strictEqual(listed._tag, "Failure")
      assert.strictEqual(textOf(called), "a")
    })))

  it.live("that is an error keeps code, words and data", () =>
    scoped(Effect.gen(function*() {
      const error = { code: -32602, message: "Unknown\u001b[31m tool\u0007", data: { a: 1 } }
      const client = yield* connect({ errors: { "tools/call": error } })
      const reason = yield* reasonOf(client.callTool("echo"))
      assert.deepStrictEqual(
        reason._tag === "Refused" && { code: reason.code, detail: reason.detail, data: reason.data },
        { code: -32602, detail: "Unknown tool", data: { a: 1 } }
      )
    })))
})

describe("a message over the limit", SLOW, () => {
  for (const [title, wire] of [["first", {}], ["last", { id: "last" }]] as const) {
    // verifies: mcp.limits
    it.live(`fails the call it answers, and no other; its id comes ${title}`, () =>
      scoped(Effect.gen(function*() {
        const client = yield* connect({ wire }, { maxMessageBytes: 100_000, timeout: "20 seconds" })
        const [big, small] = yield* Effect.all([
          reasonOf(client.callTool("big", { bytes: 200_000 })),
          client.callTool("wait", { millis: 50, text: "unhurt" })
        ], { concurrency: "unbounded" })
        assert.deepStrictEqual(
          big._tag === "LimitExceeded" && { limit: big.limit, max: big.max },
          { limit: "maxMessageBytes", max: 100_000 }
        )
        assert.strictEqual(textOf(small), "unhurt")
        assert.strictEqual(textOf(yield* client.callTool("echo", { text: "on" })), "on")
      })))
  }

  it.live("is not one of 8 MiB", () =>
    scoped(Effect.gen(function*() {
      const client = yield* connect()
      const bytes = 8 * 1024 * 1024
      assert.strictEqual(textOf(yield* client.callTool("big", { bytes })).length, bytes)
    })))
})
