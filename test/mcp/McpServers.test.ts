import { assert, describe, it } from "@effect/vitest"
import { PermissionPolicy, ToolRegistry } from "agcore"
import { type McpConfig, McpServers } from "agcore/mcp"
import { Effect, FileSystem, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import { randomUUID } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { scoped, type Script, SERVER, SLOW } from "./support.ts"

const registry = ToolRegistry.layer().pipe(Layer.provide(PermissionPolicy.layerAllowAll))

const scripted = (script: Script = {}): McpConfig.Server => ({
  type: "stdio",
  command: process.execPath,
  args: [SERVER, JSON.stringify(script)],
  connectTimeout: "2 seconds",
  probeTimeout: "300 millis"
})

const running = (mark: string): number =>
  readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "utf8").includes(mark)
    } catch {
      return false
    }
  }).length

const use = <A, E>(
  config: McpConfig.McpConfig,
  test: Effect.Effect<A, E, McpServers.McpServers | ToolRegistry.ToolRegistry>
) =>
  scoped(Effect.scopedWith((scope) =>
    Effect.gen(function*() {
      const context = yield* Layer.buildWithScope(
        McpServers.layer(config).pipe(Layer.provideMerge(registry), Layer.provide(FetchHttpClient.layer)),
        scope
      )
      return yield* Effect.provideContext(test, context)
    })
  ))

describe("several servers", SLOW, () => {
  // verifies: mcp.isolation
  it.live("share a registry, and one that is broken costs the others nothing", () =>
    use(
      {
        good: scripted(),
        missing: { type: "stdio", command: "no-such-command" },
        dead: scripted({ die: { on: "initialize", code: 3, say: "no key" } }),
        silent: scripted({ silent: ["initialize", "server/discover"] }),
        unlistable: scripted({ errors: { "tools/list": { code: -32603, message: "broken" } } }),
        nowhere: { type: "http", url: "http://127.0.0.1:9/mcp" },
        "no url": { type: "http", url: "not a url" },
        off: { ...scripted(), disabled: true },
        other: { ...scripted(), tools: { prefix: "second", filter: ({ name }) => name === "echo" } }
      },
      Effect.gen(function*() {
        const { states } = yield* McpServers.McpServers
        assert.deepStrictEqual(
          Array.from(states, ([name, state]) => [name, state._tag === "Failed" ? state.error.reason._tag : state._tag]),
          [
            ["good", "Connected"],
            ["missing", "SpawnFailed"],
            ["dead", "ProcessExited"],
            ["silent", "TimedOut"],
            ["unlistable", "Refused"],
            ["nowhere", "ConnectionFailed"],
            ["no url", "ConnectionFailed"],
            ["off", "Disabled"],
            ["other", "Connected"]
          ]
        )
        const tools = yield* ToolRegistry.ToolRegistry
        const names = (yield* tools.list).map(({ name }) => name)
        assert.include(names, "good__echo")
        assert.deepStrictEqual(names.filter((name) => !name.startsWith("good__")), ["second__echo"])
        const invocation = yield* tools.invoke({ id: "1", name: "good__echo", params: { text: "hi" } })
        assert.strictEqual(invocation.output, "hi")
      })
    ))

  it.live("that cannot be used are not left running, and those that can leave with the Layer", () =>
    Effect.gen(function*() {
      const [broken, whole] = [randomUUID(), randomUUID()]
      yield* use(
        {
          broken: scripted({ mark: broken, errors: { "tools/list": { code: -32603, message: "broken" } } }),
          whole: scripted({ mark: whole })
        },
        Effect.sync(() => assert.deepStrictEqual([running(broken), running(whole)], [0, 1]))
      )
      assert.strictEqual(running(whole), 0)
    }))

  it.live("are read from a file", () =>
    scoped(Effect.gen(function*() {
      const files = yield* FileSystem.FileSystem
      const file = `${yield* files.makeTempDirectoryScoped()}/mcp.json`
      yield* files.writeFileString(
        file,
        JSON.stringify({ mcpServers: { s: { command: process.execPath, args: [SERVER, "{}"] } } })
      )
      const layer = McpServers.layerFile(file).pipe(Layer.provideMerge(registry), Layer.provide(FetchHttpClient.layer))
      const names = yield* Effect.provide(
        ToolRegistry.ToolRegistry.use((registry) =>
          Effect.map(registry.list, (tools) => tools.map(({ name }) => name))
        ),
        layer
      )
      assert.include(names, "s__echo")
      yield* files.writeFileString(file, "{")
      const error = yield* Effect.flip(Effect.provide(Effect.void, layer))
      assert.strictEqual(error._tag, "McpConfigError")
    })))
})
