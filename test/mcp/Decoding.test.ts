import { assert, describe, it } from "@effect/vitest"
import type { McpModel } from "agcore/mcp"
import { McpPeer } from "agcore/testing"
import { Effect } from "effect"

const ESCAPES = "\u001b[31m\u001b]8;;http://x\u0007\u202e\u200b\u{e0041}\u0000"

/** A block without what it was read from. */
const bare = (block: object): unknown => ({ ...block, raw: undefined })

/** A client of a server that gives these results. */
const client = (results: Record<string, unknown>) =>
  Effect.flatMap(
    McpPeer.make({
      capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} },
      handlers: Object.fromEntries(
        Object.entries(results).map(([method, result]) => [method, () => Effect.succeed(result)])
      )
    }),
    (peer) => peer.connect()
  )

const tool = { name: "good", inputSchema: { type: "object" } }
const prompt = { name: "good" }
const resource = { uri: "file:///good", name: "good" }
const template = { uriTemplate: "file:///{good}", name: "good" }

/** Each kind of list: how it is read, a good item, what tells items apart, and every field that may be left out. */
const lists = {
  tools: {
    method: "tools/list",
    read: (client: McpModelClient) => client.listTools,
    good: tool,
    key: "name",
    optional: {
      title: "T",
      description: "D",
      annotations: { title: "A", readOnlyHint: true },
      outputSchema: { type: "object" },
      icons: [],
      execution: { taskSupport: "optional" },
      _meta: {},
      inputSchema: { type: "object" }
    }
  },
  prompts: {
    method: "prompts/list",
    read: (client: McpModelClient) => client.listPrompts,
    good: prompt,
    key: "name",
    optional: { title: "T", description: "D", arguments: [{ name: "a" }], icons: [], _meta: {} }
  },
  resources: {
    method: "resources/list",
    read: (client: McpModelClient) => client.listResources,
    good: resource,
    key: "uri",
    optional: { title: "T", description: "D", mimeType: "text/plain", size: 1, annotations: {}, icons: [], name: "n" }
  },
  resourceTemplates: {
    method: "resources/templates/list",
    read: (client: McpModelClient) => client.listResourceTemplates,
    good: template,
    key: "uriTemplate",
    optional: { title: "T", description: "D", mimeType: "text/plain", annotations: {}, name: "n" }
  }
} as const

type McpModelClient = Effect.Success<ReturnType<typeof client>>

describe("a list", () => {
  for (const [kind, { good, key, method, optional, read }] of Object.entries(lists)) {
    const identity = good[key as keyof typeof good]
    const listing = (items: unknown) =>
      Effect.gen(function*() {
        const made = yield* client({ [method]: { [kind]: items } })
        const read_: ReadonlyArray<{ readonly raw: McpModel.JsonObject }> = yield* read(made)
        return { items: read_, diagnostics: yield* made.diagnostics }
      })

    for (const [field, value] of Object.entries(optional)) {
      for (
        const [title, odd] of [["null", null], ["of the wrong type", typeof value === "string" ? 7 : "seven"]] as const
      ) {
        it.effect(`of ${kind} keeps an item whose ${field} is ${title}`, () =>
          Effect.gen(function*() {
            const { items } = yield* listing([{ ...good, [field]: odd }, { ...good, [key]: `${identity}2` }])
            assert.strictEqual(items.length, 2)
            // The raw item is what came.
            assert.deepStrictEqual(items[0]?.raw, { ...good, [field]: odd })
          }))
      }
    }

    const broken: Record<string, unknown> = {
      "null": null,
      "a string": "item",
      "a list": [],
      "without a name": { ...good, [key]: undefined },
      "with null for a name": { ...good, [key]: null },
      "with an empty name": { ...good, [key]: "" },
      "with a number for a name": { ...good, [key]: 5 }
    }
    for (const [title, item] of Object.entries(broken)) {
      // verifies: mcp.neighbours
      it.effect(`of ${kind} loses nothing but an item that is ${title}`, () =>
        Effect.gen(function*() {
          const { diagnostics, items } = yield* listing([item, good])
          assert.deepStrictEqual(items.map(({ raw }) => raw), [good])
          assert.deepStrictEqual(diagnostics.map(({ kind }) => kind), ["dropped-item"])
        }))
    }

    it.effect(`of ${kind} keeps the first of two with one name`, () =>
      Effect.gen(function*() {
        const { diagnostics, items } = yield* listing([{ ...good, title: "first" }, { ...good, title: "second" }])
        assert.deepStrictEqual(items.map(({ raw }) => raw["title"]), ["first"])
        assert.deepStrictEqual(diagnostics.map(({ kind }) => kind), ["dropped-item"])
      }))

    for (const nothing of [null, undefined, "list", {}]) {
      it.effect(`of ${kind} that is ${JSON.stringify(nothing)} is empty`, () =>
        Effect.gen(function*() {
          assert.deepStrictEqual((yield* listing(nothing)).items, [])
        }))
    }

    it.effect(`of ${kind} shows no control, escape or invisible characters`, () =>
      Effect.gen(function*() {
        const dirty = { ...good, name: `na${ESCAPES}me`, title: `ti${ESCAPES}tle`, description: `a${ESCAPES}b\n\tc` }
        const { items } = yield* listing([dirty])
        const { raw: _, ...shown } = items[0] ?? { raw: {} }
        assert.deepInclude(shown, { name: "name", title: "title", description: "ab\n\tc" })
      }))
  }

  it.effect("of tools takes every odd schema, and keeps it", () =>
    Effect.gen(function*() {
      const schemas = [true, null, "object", [], {}, { type: "object" }, { type: ["object", "null"] }, {
        required: null
      }]
      const made = yield* client({
        "tools/list": { tools: schemas.map((inputSchema, n) => ({ name: `t${n}`, inputSchema })) }
      })
      const tools = yield* made.listTools
      assert.strictEqual(tools.length, schemas.length)
      assert.deepStrictEqual(tools[0]?.inputSchema, { type: "object" })
      assert.deepStrictEqual(tools[6]?.inputSchema, { type: ["object", "null"] })
      assert.deepStrictEqual(tools.map((tool) => tool.raw["inputSchema"]), schemas)
    }))

  it.effect("of tools is not lost to names that mean something to JavaScript", () =>
    Effect.gen(function*() {
      const names = ["__proto__", "constructor", "toString", "then"]
      const made = yield* client({ "tools/list": { tools: names.map((name) => ({ ...tool, name })) } })
      assert.deepStrictEqual((yield* made.listTools).map(({ name }) => name), names)
    }))

  it.effect("of prompts drops a broken argument, not the prompt", () =>
    Effect.gen(function*() {
      const made = yield* client({
        "prompts/list": { prompts: [{ name: "p", arguments: [null, { name: "" }, { name: "a", required: true }] }] }
      })
      const [only] = yield* made.listPrompts
      assert.deepStrictEqual(only?.arguments, [{ name: "a", title: undefined, description: undefined, required: true }])
    }))

  it.effect("of resources drops what cannot be shown as it is used", () =>
    Effect.gen(function*() {
      const made = yield* client({
        "resources/list": { resources: [{ ...resource, uri: "file:///a\u202eb" }, resource] }
      })
      assert.deepStrictEqual((yield* made.listResources).map(({ uri }) => uri), ["file:///good"])
    }))
})

describe("a tool result", () => {
  const call = (result: unknown) =>
    Effect.gen(function*() {
      const made = yield* client({ "tools/call": result })
      const { content, isError, structuredContent } = yield* made.callTool("any")
      return {
        content: content.map(bare),
        isError,
        structuredContent,
        diagnostics: (yield* made.diagnostics).map(({ kind }): string => kind)
      }
    })
  const text = { type: "text", text: "ok" }
  const result = (content: ReadonlyArray<object>, diagnostics: Array<string> = []) => ({
    content: content.map(bare),
    isError: false,
    structuredContent: undefined,
    diagnostics
  })

  const blocks: Record<string, readonly [block: unknown, decoded: object]> = {
    "text": [text, text],
    "text with null annotations": [{ ...text, annotations: null, _meta: null }, text],
    "an image": [{ type: "image", data: "aGk=", mimeType: "image/png" }, {
      type: "image",
      data: "aGk=",
      mimeType: "image/png"
    }],
    "audio": [{ type: "audio", data: "aGk=", mimeType: "audio/wav" }, {
      type: "audio",
      data: "aGk=",
      mimeType: "audio/wav"
    }],
    "what nobody knows": [{ type: "hologram", data: 1 }, { type: "other", kind: "hologram" }]
  }
  for (const [title, [block, decoded]] of Object.entries(blocks)) {
    it.effect(`may hold ${title}`, () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* call({ content: [block, text] }), result([decoded, text]))
      }))
  }

  const broken: Record<string, unknown> = {
    "null": null,
    "a string": "text",
    "no type": {},
    "null text": { type: "text", text: null },
    "missing text": { type: "text" },
    "an image without data": { type: "image", mimeType: "image/png" },
    "an image without a type": { type: "image", data: "aGk=", mimeType: null },
    "audio without data": { type: "audio", data: null, mimeType: "audio/wav" },
    "an empty resource": { type: "resource" },
    "a resource without contents": { type: "resource", resource: { uri: "x://y" } },
    "a link to nowhere": { type: "resource_link", name: "y" }
  }
  for (const [title, block] of Object.entries(broken)) {
    // verifies: mcp.neighbours
    it.effect(`loses nothing but a block that is ${title}`, () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* call({ content: [block, text] }), result([text], ["dropped-item"]))
      }))
  }

  const odd: Record<string, readonly [unknown, unknown]> = {
    "no content": [{}, result([])],
    "null content": [{ content: null, isError: null }, result([])],
    "empty content": [{ content: [] }, result([])],
    "a bare string for content": [{ content: "ok" }, result([text])],
    "a lone block for content": [{ content: text }, result([text])]
  }
  for (const [title, [raw, decoded]] of Object.entries(odd)) {
    it.effect(`is a success with ${title}`, () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* call(raw), decoded)
      }))
  }

  it.effect("keeps embedded resources and links", () =>
    Effect.gen(function*() {
      const made = yield* client({
        "tools/call": {
          content: [
            { type: "resource", resource: { uri: "x://t", mimeType: null, text: "t" } },
            { type: "resource", resource: { uri: "x://b", blob: "aGk=" } },
            { type: "resource_link", uri: "x://l", name: "l", size: null }
          ]
        }
      })
      const { content } = yield* made.callTool("any")
      assert.deepStrictEqual(
        content.map((block) =>
          block.type === "resource"
            ? [block.resource.type, block.resource.uri, block.resource.mimeType]
            : block.type === "resource_link"
            ? [block.name, block.uri, block.size]
            : []
        ),
        [["text", "x://t", undefined], ["blob", "x://b", undefined], ["l", "x://l", undefined]]
      )
    }))

  it.effect("is not changed: what it holds may be data", () =>
    Effect.gen(function*() {
      const made = yield* client({ "tools/call": { content: [{ type: "text", text: ESCAPES }] } })
      const [block] = (yield* made.callTool("any")).content
      assert.strictEqual(block?.type === "text" && block.text, ESCAPES)
    }))
})

describe("structured content", () => {
  const outputSchema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] }
  const call = (schema: unknown, result: Record<string, unknown>) =>
    Effect.gen(function*() {
      const made = yield* client({
        "tools/list": { tools: [{ ...tool, name: "t", outputSchema: schema }] },
        "tools/call": { content: [{ type: "text", text: "shown" }], ...result }
      })
      yield* made.listTools
      const exit = yield* Effect.result(made.callTool("t"))
      return { exit, diagnostics: (yield* made.diagnostics).map(({ kind }) => kind) }
    })

  const good: Record<string, readonly [unknown, Record<string, unknown>]> = {
    "an object that fits": [outputSchema, { structuredContent: { n: 1 } }],
    "a list, which later revisions allow": [{ type: "array", items: { type: "number" } }, { structuredContent: [1] }],
    "null where the schema allows it": [{ type: ["object", "null"] }, { structuredContent: null }],
    "an error, which has its own shape": [outputSchema, { isError: true }],
    "an error with content that does not fit": [outputSchema, { isError: true, structuredContent: { n: "x" } }],
    "anything where there is no schema": [null, { structuredContent: "any" }],
    "a recursive schema": [
      {
        type: "object",
        properties: { next: { $ref: "#/$defs/N" } },
        $defs: { N: { properties: { next: { $ref: "#/$defs/N" } } } }
      },
      { structuredContent: { next: { next: {} } } }
    ]
  }
  for (const [title, [schema, result]] of Object.entries(good)) {
    it.effect(`is taken: ${title}`, () =>
      Effect.gen(function*() {
        const { diagnostics, exit } = yield* call(schema, result)
        assert.strictEqual(exit._tag, "Success")
        assert.deepStrictEqual(diagnostics, [])
      }))
  }

  it.effect("with a schema that cannot be used is not checked, and that is said once", () =>
    Effect.gen(function*() {
      const { diagnostics, exit } = yield* call({ type: "objekt" }, { structuredContent: { n: 1 } })
      assert.strictEqual(exit._tag, "Success")
      assert.deepStrictEqual(diagnostics, ["unusable-schema"])
    }))

  for (const [title, result] of [["wrong", { structuredContent: { n: "one" } }], ["missing", {}]] as const) {
    // verifies: mcp.output-schema
    it.effect(`that is ${title} fails the call and keeps the result`, () =>
      Effect.gen(function*() {
        const { exit } = yield* call(outputSchema, result)
        const reason = exit._tag === "Failure" ? exit.failure.reason : undefined
        assert.strictEqual(reason?._tag, "OutputMismatch")
        if (reason?._tag !== "OutputMismatch") return
        assert.deepStrictEqual(reason.result, { content: [{ type: "text", text: "shown" }], ...result })
        assert.strictEqual(reason.tool, "t")
      }))
  }
})

describe("other results", () => {
  it.effect("a prompt loses nothing but its broken messages", () =>
    Effect.gen(function*() {
      const made = yield* client({
        "prompts/get": {
          description: null,
          messages: [
            null,
            { role: "wizard", content: { type: "text", text: "x" } },
            { role: "user", content: { type: "text", text: null } },
            { role: "assistant", content: { type: "text", text: "hello" } },
            { role: "user", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] }
          ]
        }
      })
      const { messages } = yield* made.getPrompt("p", { a: "1" })
      assert.deepStrictEqual(
        messages.map(({ content, role }) => [role, content.type === "text" && content.text]),
        [["assistant", "hello"], ["user", "a"], ["user", "b"]]
      )
    }))

  it.effect("a resource loses nothing but its broken parts", () =>
    Effect.gen(function*() {
      const made = yield* client({
        "resources/read": {
          contents: [null, { uri: "x://a" }, { uri: "x://a", text: "t", mimeType: null }, { blob: "aGk=" }]
        }
      })
      assert.deepStrictEqual(
        (yield* made.readResource("x://a")).map((part) => part.type === "text" ? part.text : part.blob),
        ["t", "aGk="]
      )
    }))

  it.effect("a completion keeps what is text", () =>
    Effect.gen(function*() {
      const made = yield* client({
        "completion/complete": { completion: { values: ["a", null, 3, "b"], total: null } }
      })
      assert.deepStrictEqual(
        yield* made.complete({ ref: { prompt: "p" }, argument: { name: "a", value: "" } }),
        { values: ["a", "b"], total: undefined, hasMore: false }
      )
    }))
})
