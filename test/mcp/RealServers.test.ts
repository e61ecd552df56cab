import { assert, describe, it } from "@effect/vitest"
import { McpClient, McpElicitation, McpRoots, McpSampling } from "agcore/mcp"
import { Effect, Fiber, FileSystem, Layer, Schedule, Stream } from "effect"
import { createRequire } from "node:module"
import { reasonOf, scoped, SLOW, textOf } from "./support.ts"

const require = createRequire(import.meta.url)

const server = (
  name: string,
  args: ReadonlyArray<string> = [],
  options: Partial<McpClient.StdioOptions> = {}
) =>
  McpClient.stdio({
    name,
    command: process.execPath,
    args: [require.resolve(`@modelcontextprotocol/server-${name}/dist/index.js`), ...args],
    timeout: "60 seconds",
    connectTimeout: "60 seconds",
    ...options
  })

const handlers = Layer.mergeAll(
  McpRoots.layer([{ uri: "file:///work", name: "Work" }]),
  McpElicitation.layer({
    form: (request) => Effect.succeed(McpElicitation.accept({ ...request.defaults, name: "Ada" })),
    url: () => Effect.succeed(McpElicitation.decline)
  }),
  Layer.succeed(McpSampling.McpSampling, {
    createMessage: (request) =>
      Effect.succeed({
        content: [{ type: "text", text: `${request.messages.length} message from ${request.server}` }],
        model: "scripted",
        stopReason: "endTurn"
      })
  })
)

describe("server-everything", SLOW, () => {
  /** Arguments for each tool that needs some. */
  const args: Record<string, Record<string, unknown>> = {
    echo: { message: "hi" },
    "get-annotated-message": { messageType: "success", includeImage: true },
    "get-structured-content": { location: "Chicago" },
    "get-sum": { a: 2, b: 3 },
    "gzip-file-as-resource": { name: "x.gz", data: "data:text/plain,hello", outputType: "resource" },
    "trigger-long-running-operation": { duration: 0.3, steps: 3 },
    "trigger-sampling-request": { prompt: "Say something", maxTokens: 10 },
    "trigger-url-elicitation": { url: "https://example.com/form" }
  }

  // verifies: mcp.real-servers
  it.live("every tool can be called", () =>
    scoped(Effect.gen(function*() {
      const client = yield* Effect.provide(server("everything", ["stdio"]), handlers)
      assert.strictEqual(client.protocolVersion, "2025-11-25")
      // It adds tools for what the client can do once the handshake is over.
      const tools = yield* Effect.repeat(client.refreshTools, {
        until: (tools) => tools.some(({ name }) => name === "get-roots-list"),
        schedule: Schedule.spaced("50 millis")
      })
      assert.isAtLeast(tools.length, 15)
      const answers = new Map<string, string>()
      for (const tool of tools) {
        if (tool.requiresTask) {
          assert.strictEqual((yield* reasonOf(client.callTool(tool.name)))._tag, "NotSupported")
          continue
        }
        const result = yield* client.callTool(tool.name, args[tool.name] ?? {}, { timeout: "20 seconds" })
        assert.isFalse(result.isError, `${tool.name}: ${textOf(result)}`)
        answers.set(tool.name, textOf(result))
      }
      assert.strictEqual(answers.get("echo"), "Echo: hi")
      assert.include(answers.get("get-sum"), "5")
      assert.include(answers.get("trigger-sampling-request"), "1 message from everything")
      assert.include(answers.get("trigger-elicitation-request"), "Ada")
      assert.include(answers.get("get-roots-list"), "file:///work")
      assert.deepStrictEqual((yield* client.diagnostics).filter(({ kind }) => kind !== "connection"), [])
    })))

  it.live("progress, structured content, images and resources arrive", () =>
    scoped(Effect.gen(function*() {
      const client = yield* server("everything", ["stdio"])
      yield* client.listTools
      const steps: Array<number> = []
      yield* client.callTool("trigger-long-running-operation", { duration: 0.4, steps: 4 }, {
        onProgress: ({ progress }) => Effect.sync(() => void steps.push(progress))
      })
      assert.deepStrictEqual(steps, [1, 2, 3, 4])
      const weather = yield* client.callTool("get-structured-content", { location: "Chicago" })
      assert.isObject(weather.structuredContent)
      const image = yield* client.callTool("get-tiny-image")
      assert.include(image.content.map(({ type }) => type), "image")
      const links = yield* client.callTool("get-resource-links", { count: 3 })
      assert.strictEqual(links.content.filter(({ type }) => type === "resource_link").length, 3)
      const reference = yield* client.callTool("get-resource-reference", { resourceType: "Blob", resourceId: 1 })
      assert.include(reference.content.map(({ type }) => type), "resource")
    })))

  it.live("prompts, resources, completion and logging work", () =>
    scoped(Effect.gen(function*() {
      const client = yield* server("everything", ["stdio"])
      const prompts = yield* client.listPrompts
      assert.include(prompts.map(({ name }) => name), "args-prompt")
      const prompt = yield* client.getPrompt("args-prompt", { city: "Paris" })
      assert.include(JSON.stringify(prompt.messages), "Paris")
      const resources = yield* client.listResources
      assert.isAbove(resources.length, 0)
      const [contents] = yield* client.readResource(resources[0]?.uri ?? "")
      assert.strictEqual(contents?.type, "text")
      const templates = yield* client.listResourceTemplates
      assert.include(templates.map(({ uriTemplate }) => uriTemplate), "demo://resource/dynamic/text/{resourceId}")
      const [blob] = yield* client.readResource("demo://resource/dynamic/blob/1")
      assert.strictEqual(blob?.type, "blob")
      const completion = yield* client.complete({
        ref: { prompt: "completable-prompt" },
        argument: { name: "department", value: "E" }
      })
      assert.include(completion.values, "Engineering")
      yield* client.setLogLevel("debug")
      const logged = yield* Effect.forkChild(
        Stream.runHead(Stream.filter(client.notifications, ({ _tag }) => _tag === "Log")),
        { startImmediately: true }
      )
      yield* client.callTool("toggle-simulated-logging")
      assert.strictEqual((yield* Fiber.join(logged))._tag, "Some")
      yield* Effect.scoped(client.subscribe(resources[0]?.uri ?? ""))
      yield* client.ping
    })))
})

describe("server-filesystem", SLOW, () => {
  it.live("reads and writes, and keeps to its directory", () =>
    scoped(Effect.gen(function*() {
      const files = yield* FileSystem.FileSystem
      const root = yield* files.realPath(yield* files.makeTempDirectoryScoped())
      const client = yield* server("filesystem", [root])
      const tools = yield* client.listTools
      assert.isAbove(tools.length, 10)
      yield* client.callTool("write_file", { path: `${root}/a.txt`, content: "grüße" })
      assert.strictEqual(yield* files.readFileString(`${root}/a.txt`), "grüße")
      assert.include(textOf(yield* client.callTool("read_text_file", { path: `${root}/a.txt` })), "grüße")
      assert.include(textOf(yield* client.callTool("list_directory", { path: root })), "a.txt")
      const outside = yield* client.callTool("read_text_file", { path: "/etc/passwd" })
      assert.isTrue(outside.isError)
      assert.notInclude(textOf(outside), "root:")
    })))
})

describe("server-memory", SLOW, () => {
  it.live("remembers", () =>
    scoped(Effect.gen(function*() {
      const files = yield* FileSystem.FileSystem
      const file = `${yield* files.makeTempDirectoryScoped()}/memory.jsonl`
      const client = yield* server("memory", [], { env: { MEMORY_FILE_PATH: file } })
      assert.strictEqual((yield* client.listTools).length, 9)
      yield* client.callTool("create_entities", {
        entities: [{ name: "Ada", entityType: "person", observations: ["writes programs"] }]
      })
      const found = yield* client.callTool("search_nodes", { query: "Ada" })
      assert.include(JSON.stringify(found.structuredContent), "writes programs")
    })))
})

describe("server-sequential-thinking", SLOW, () => {
  it.live("takes a thought", () =>
    scoped(Effect.gen(function*() {
      const client = yield* server("sequential-thinking")
      assert.deepStrictEqual((yield* client.listTools).map(({ name }) => name), ["sequentialthinking"])
      const result = yield* client.callTool("sequentialthinking", {
        thought: "first",
        thoughtNumber: 1,
        totalThoughts: 1,
        nextThoughtNeeded: false
      })
      assert.isFalse(result.isError)
    })))
})

describe("server-github", SLOW, () => {
  it.live("speaks the first revision only, and is understood", () =>
    scoped(Effect.gen(function*() {
      const client = yield* server("github", [], { env: { GITHUB_PERSONAL_ACCESS_TOKEN: "none" } })
      assert.strictEqual(client.protocolVersion, "2024-11-05")
      assert.strictEqual((yield* client.listTools).length, 26)
    })))
})
