/*
 * What an application does with each entry point. Compiled and run from the packed package.
 */
import { LlmCycle, Permission, PermissionPolicy, Tool, ToolError, ToolRegistry } from "agcore"
import * as Mcp from "agcore/mcp"
import { OpenAiModel } from "agcore/openai"
import * as Sql from "agcore/sql"
import * as Testing from "agcore/testing"
import { Effect, Layer, Redacted, Schema } from "effect"

class Add extends Tool.Service<Add>()("add", {
  description: "Adds two numbers",
  parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
  success: Schema.Finite,
  permissions: [Permission.Read]
}) {}

const AddLive = Add.layer(({ a, b }) => Effect.succeed(a + b))
const Tools = ToolRegistry.layer(Add).pipe(Layer.provide([AddLive, PermissionPolicy.layer()]))

const Model = OpenAiModel.layer({ model: "any", apiKey: Redacted.make("none") })

export const App = LlmCycle.layer().pipe(Layer.provide([Tools, Model]))

const invoke = (params: { readonly a: number; readonly b: number }) =>
  Effect.gen(function*() {
    const registry = yield* ToolRegistry.ToolRegistry
    const invocation = yield* registry.invoke({ id: "1", name: "add", params })
    return invocation.output
  }).pipe(Effect.catchTag("ToolError", (error: ToolError.ToolError) => Effect.succeed(error.message)))

console.log(JSON.stringify({
  output: await Effect.runPromise(invoke({ a: 1, b: 2 }).pipe(Effect.provide(Tools))),
  isError: ToolError.isToolError(new Error("not a tool error")),
  mcp: Object.keys(Mcp).length > 0,
  sql: Object.keys(Sql).length > 0,
  testing: Object.keys(Testing).length > 0
}))
