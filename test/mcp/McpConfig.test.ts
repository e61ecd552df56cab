import { assert, describe, it } from "@effect/vitest"
import { McpConfig } from "agcore/mcp"
import { ConfigProvider, Duration, Effect, FileSystem, Redacted } from "effect"
import { scoped } from "./support.ts"

const provided = ConfigProvider.fromEnv({ env: { TOKEN: "s3cret-token", HOME: "/home/ada", EMPTY: "" } })

const parse = (text: string) =>
  Effect.provideService(McpConfig.parse(text, "mcp.json"), ConfigProvider.ConfigProvider, provided)

const server = (entry: unknown) =>
  Effect.map(parse(JSON.stringify({ mcpServers: { s: entry } })), (config) => config["s"]!)

/** Plain values in the place of hidden ones. */
const open = (value: unknown): unknown =>
  Redacted.isRedacted(value)
    ? Redacted.value(value)
    : Array.isArray(value)
    ? value.map(open)
    : typeof value === "object" && value !== null && !Duration.isDuration(value)
    ? Object.fromEntries(
      Object.entries(value).filter(([, value]) => value !== undefined).map(([key, value]) => [key, open(value)])
    )
    : value

describe("an mcp.json", () => {
  it.effect("names processes and URLs, in the shapes programs use", () =>
    Effect.gen(function*() {
      const config = yield* parse(JSON.stringify({
        $schema: "https://example.com/schema",
        inputs: [],
        mcpServers: {
          files: {
            command: "npx",
            args: ["-y", "server", "${HOME}/notes"],
            env: { KEY: "${TOKEN}" },
            cwd: "/work",
            gallery: true
          },
          search: { type: "http", url: "https://example.com/${TOKEN}", headers: { Authorization: "Bearer ${TOKEN}" } },
          old: { type: "sse", url: "https://example.com/sse" }
        }
      }))
      assert.deepStrictEqual(Object.keys(config), ["files", "search", "old"])
      assert.deepInclude(open(config["files"]), {
        type: "stdio",
        name: "files",
        command: "npx",
        args: ["-y", "server", "/home/ada/notes"],
        env: { KEY: "s3cret-token" },
        cwd: "/work"
      })
      assert.deepInclude(open(config["search"]), {
        type: "http",
        url: "https://example.com/s3cret-token",
        headers: { Authorization: "Bearer s3cret-token" }
      })
      assert.deepInclude(open(config["old"]), { type: "http", url: "https://example.com/sse" })
    }))

  it.effect("keeps values of the environment out of what is shown", () =>
    Effect.gen(function*() {
      const shown = JSON.stringify(
        yield* server({ command: "c", args: ["--key", "${TOKEN}"], env: { A: "${TOKEN}", B: "plain" } })
      )
      assert.notInclude(shown, "s3cret")
    }))

  it.effect("takes null for what is left out", () =>
    Effect.gen(function*() {
      const optional = ["disabled", "timeout", "tools", "prefix", "permissions", "trustHints", "restart"]
      const nulls = Object.fromEntries(optional.map((name) => [name, null]))
      assert.deepInclude(open(yield* server({ command: "c", args: null, env: null, cwd: null, ...nulls })), {
        type: "stdio",
        command: "c"
      })
      assert.deepInclude(open(yield* server({ url: "https://example.com", headers: null, ...nulls })), { type: "http" })
    }))

  const texts: Record<string, readonly [string, string]> = {
    "several variables": ["${HOME}:${TOKEN}:${HOME}", "/home/ada:s3cret-token:/home/ada"],
    "a text for one that is not set": ["${MISSING:-else}", "else"],
    "an empty text for one that is not set": ["a${MISSING:-}b", "ab"],
    "what only looks like one": ["$HOME ${} ${1x} {HOME}", "$HOME ${} ${1x} {HOME}"]
  }
  for (const [title, [text, expanded]] of Object.entries(texts)) {
    it.effect(`expands ${title}`, () =>
      Effect.gen(function*() {
        assert.deepInclude(open(yield* server({ command: "c", args: [text] })), { args: [expanded] })
      }))
  }

  it.effect("does not expand what a variable holds", () =>
    Effect.gen(function*() {
      const config = yield* Effect.provideService(
        McpConfig.parse(JSON.stringify({ mcpServers: { s: { command: "c", args: ["${A}"] } } })),
        ConfigProvider.ConfigProvider,
        ConfigProvider.fromEnv({ env: { A: "${B}", B: "no" } })
      )
      assert.deepInclude(open(config["s"]), { args: ["${B}"] })
    }))

  it.effect("says how tools are registered", () =>
    Effect.gen(function*() {
      const { timeout, tools } = yield* server({
        command: "c",
        timeout: "45 seconds",
        tools: { allow: ["a", "b"], deny: ["b"] },
        prefix: "p",
        permissions: { a: ["network"] },
        trustHints: true
      })
      const wanted = (name: string) => tools?.filter?.({ name } as never)
      const may = (name: string) =>
        typeof tools?.permissions === "function" ? tools.permissions({ name } as never) : undefined
      assert.deepStrictEqual(["a", "b", "c"].map(wanted), [true, false, false])
      assert.deepStrictEqual([may("a"), may("z")], [["network"], []])
      assert.deepInclude(tools, { prefix: "p", trustHints: true })
      assert.strictEqual(timeout === undefined ? 0 : Duration.toMillis(Duration.fromInputUnsafe(timeout)), 45_000)
      assert.deepStrictEqual((yield* server({ command: "c", permissions: ["read"] })).tools?.permissions, ["read"])
      assert.strictEqual((yield* server({ command: "c", prefix: false })).tools?.prefix, false)
      const milliseconds = (yield* server({ command: "c", timeout: 1_500 })).timeout
      assert.strictEqual(
        milliseconds === undefined ? 0 : Duration.toMillis(Duration.fromInputUnsafe(milliseconds)),
        1_500
      )
    }))

  it.effect("asks nothing of the environment for a server that is left out", () =>
    Effect.gen(function*() {
      assert.isTrue((yield* server({ command: "c", env: { A: "${MISSING}" }, disabled: true })).disabled)
    }))
})

describe("a mistake in an mcp.json", () => {
  const mistakes: Record<string, readonly [text: string, line: number, path: string, detail: RegExp]> = {
    "that is no JSON": ["{\n  \"mcpServers\": {\n    oops\n  }\n}", 3, "", /JSON/],
    "that is empty": ["", 1, "", /JSON/],
    "that is a list": ["[]", 1, "", /[Oo]bject|Expected/],
    "without servers": ["{\n}", 1, "mcpServers", /[Mm]issing|Expected/],
    "with null for servers": ["{\n  \"mcpServers\": null\n}", 2, "mcpServers", /Expected/],
    "in a server that is null": ["{\"mcpServers\": {\n\"s\": null}}", 2, "mcpServers.s", /expected an object/],
    "in a server with neither": ["{\"mcpServers\": {\n\"s\": {}}}", 2, "mcpServers.s", /either "command"/],
    "in a server with both": [
      "{\"mcpServers\":\n{\"s\":\n{\"command\": \"c\", \"url\": \"u\"}}}",
      3,
      "mcpServers.s",
      /it has both/
    ],
    "in a command": ["{\"mcpServers\": {\"s\": {\n\"command\": 7}}}", 2, "mcpServers.s.command", /[Ss]tring/],
    "in an empty command": ["{\"mcpServers\": {\"s\": {\n\"command\": \"\"}}}", 2, "mcpServers.s.command", /.+/],
    "in an argument": [
      "{\"mcpServers\": {\"s\": {\"command\": \"c\",\n\"args\": [\n\"a,]}\\\"\",\n 5]}}}",
      4,
      "mcpServers.s.args.1",
      /[Ss]tring/
    ],
    "in a variable": [
      "{\"mcpServers\": {\"s\": {\"command\": \"c\",\n\"env\": {\n\"A\": 1}}}}",
      3,
      "mcpServers.s.env.A",
      /[Ss]tring/
    ],
    "in a header": [
      "{\"mcpServers\": {\"s\": {\"url\": \"u\",\n\"headers\": {\n\"A\": 1}}}}",
      3,
      "mcpServers.s.headers.A",
      /[Ss]tring/
    ],
    "in a time": [
      "{\"mcpServers\": {\"s\": {\"command\": \"c\",\n\"timeout\": \"soon\"}}}",
      2,
      "mcpServers.s.timeout",
      /30 seconds/
    ],
    "in a permission": [
      "{\"mcpServers\": {\"s\": {\"command\": \"c\",\n\"permissions\": [\"fly\"]}}}",
      2,
      "mcpServers.s.permissions",
      /.+/
    ],
    "in the name of a variable that is not set": [
      "{\"mcpServers\": {\n\"s\": {\"command\": \"c\", \"args\": [\"${NOT_SET}\"]}}}",
      2,
      "mcpServers.s",
      /no NOT_SET/
    ]
  }
  for (const [title, [text, line, path, detail]] of Object.entries(mistakes)) {
    // verifies: mcp.config
    it.effect(`${title} is told with its line, its path and what was expected`, () =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(parse(text))
        assert.strictEqual(error.line, line)
        assert.isTrue(error.path.join(".").startsWith(path), error.path.join("."))
        assert.match(error.detail, detail)
        assert.isTrue(error.message.startsWith(`mcp.json:${line}: `), error.message)
      }))
  }

  it.live("is told of a file", () =>
    scoped(Effect.gen(function*() {
      const files = yield* FileSystem.FileSystem
      const file = `${yield* files.makeTempDirectoryScoped()}/mcp.json`
      const missing = yield* Effect.flip(McpConfig.fromFile(file))
      assert.deepStrictEqual([missing.file, missing.line], [file, 0])
      yield* files.writeFileString(file, "\ufeff{\n\"mcpServers\": {\n\"s\": 1}}")
      const wrong = yield* Effect.flip(McpConfig.fromFile(file))
      assert.strictEqual(wrong.line, 3)
    })))
})
