/**
 * The client the conformance suite runs: `node test/conformance/client.ts <server url>`, the scenario's name in
 * `MCP_CONFORMANCE_SCENARIO`, what a scenario gives away in `MCP_CONFORMANCE_CONTEXT`.
 *
 * Every scenario uses the client as an application would; nothing here knows what the suite checks.
 */
import { Effect, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import * as McpClient from "../../src/mcp/McpClient.ts"
import * as McpElicitation from "../../src/mcp/McpElicitation.ts"
import type { McpError } from "../../src/mcp/McpError.ts"
import * as McpRoots from "../../src/mcp/McpRoots.ts"
import * as McpSampling from "../../src/mcp/McpSampling.ts"

type Scenario = (client: McpClient.McpClient) => Effect.Effect<unknown, McpError>

const url = process.argv[2] ?? ""
const scenario = process.env["MCP_CONFORMANCE_SCENARIO"] ?? ""
const given = JSON.parse(process.env["MCP_CONFORMANCE_CONTEXT"] ?? "{}") as {
  readonly toolCalls?: ReadonlyArray<{ readonly name: string; readonly arguments: Record<string, unknown> }>
}

const listTools: Scenario = (client) => client.listTools

const call = (name: string, args: Record<string, unknown> = {}): Scenario => (client) =>
  Effect.andThen(client.listTools, client.callTool(name, args))

const scenarios: Readonly<Record<string, Scenario>> = {
  "initialize": listTools,
  "request-metadata": listTools,
  "json-schema-ref-no-deref": listTools,
  "tools_call": call("add_numbers", { a: 5, b: 3 }),
  "elicitation-sep1034-client-defaults": call("test_client_elicitation_defaults"),
  "sse-retry": call("test_reconnection"),
  "sep-2322-client-request-state": Effect.fnUntraced(function*(client) {
    yield* client.listTools
    yield* Effect.forEach(
      ["test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"],
      (name) => client.callTool(name),
      { concurrency: "unbounded" }
    )
  }),
  "http-standard-headers": Effect.fnUntraced(function*(client) {
    for (const tool of yield* client.listTools) yield* client.callTool(tool.name)
    for (const resource of yield* client.listResources) yield* client.readResource(resource.uri)
    for (const prompt of yield* client.listPrompts) yield* client.getPrompt(prompt.name)
  }),
  "http-custom-headers": Effect.fnUntraced(function*(client) {
    yield* client.listTools
    for (const { arguments: args, name } of given.toolCalls ?? []) yield* client.callTool(name, args)
  }),
  "http-invalid-tool-headers": Effect.fnUntraced(function*(client) {
    for (const tool of yield* client.listTools) {
      yield* client.callTool(tool.name, { region: "us-west1", value: "v", field1: "a", field2: "b" })
    }
  }),
  "json-schema-2020-12-preservation": Effect.fnUntraced(function*(client) {
    const tools = yield* client.listTools
    const rich = tools.find((tool) => tool.name === "json_schema_2020_12_tool")
    yield* client.callTool("json_schema_echo", { schema: rich?.raw["inputSchema"] })
  })
}

/** What a server may ask of this client: a form is accepted as it is, a question to the model is refused. */
const Answers = Layer.mergeAll(
  McpElicitation.layer({
    form: ({ schema }) => {
      const properties = Object.keys(schema["properties"] ?? {})
      return Effect.succeed(McpElicitation.accept(properties.includes("confirmed") ? { confirmed: true } : {}))
    }
  }),
  McpRoots.layer([{ uri: "file:///work" }]),
  Layer.succeed(McpSampling.McpSampling, {
    createMessage: () => Effect.fail(new McpSampling.SamplingRefused({ detail: "there is no model" }))
  })
)

const program = Effect.gen(function*() {
  const client = yield* McpClient.http({ name: "conformance", url })
  // A scenario without a part of its own is about the way to the tools.
  yield* (scenarios[scenario] ?? call("test-tool"))(client)
}).pipe(Effect.scoped, Effect.provide(Layer.merge(Answers, FetchHttpClient.layer)))

Effect.runPromise(program).then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(error)
    process.exit(1)
  }
)
