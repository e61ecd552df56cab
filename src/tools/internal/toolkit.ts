/*
 * A snapshot as an effect/ai toolkit, for code that calls a `LanguageModel` itself.
 */
import * as AiTool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Definition } from "../Tool.ts"
import type { ToolCall, ToolInvocation } from "../ToolInvocation.ts"
import type { InvokeOptions, RegistryToolkit, ToolSnapshot } from "../ToolSnapshot.ts"

export const makeToolkit = (snapshot: ToolSnapshot): RegistryToolkit => {
  const tools: Record<string, RegistryToolkit["tools"][string]> = Object.create(null)
  for (const entry of snapshot.entries) tools[entry.name] = toAiTool(entry.definition)

  return {
    tools,
    handle: (name, params, toolCallId) => Effect.succeed(results(snapshot, { id: toolCallId ?? name, name, params }))
  }
}

// Partial results are preliminary ones there; the oldest give way where nobody takes them.
const results = (snapshot: ToolSnapshot, call: ToolCall): Stream.Stream<AiTool.HandlerResult<AiTool.Any>> =>
  Stream.callback((queue) => {
    const options: InvokeOptions = {
      onPartialResult: (value) => {
        Queue.offerUnsafe(queue, preliminary(value))
      }
    }
    return snapshot.admit(call, options).pipe(
      Effect.flatMap((admission) => snapshot.settle(admission, options)),
      Effect.flatMap((invocation) => Queue.offer(queue, toHandlerResult(invocation))),
      Effect.andThen(Queue.end(queue))
    )
  }, { bufferSize: PARTIAL_CAPACITY, strategy: "sliding" })

/** How many results one call may be ahead of who takes them. */
const PARTIAL_CAPACITY = 16

const preliminary = (value: Schema.Json): AiTool.HandlerResult<AiTool.Any> => ({
  result: value,
  encodedResult: value,
  isFailure: false,
  preliminary: true
})

const toHandlerResult = (invocation: ToolInvocation): AiTool.HandlerResult<AiTool.Any> => ({
  result: invocation.result,
  encodedResult: invocation.result,
  isFailure: invocation.isFailure,
  preliminary: false,
  ...(invocation.isFailure ? { failureOrigin: "handler" as const } : undefined),
  ...(invocation.modelOutput === undefined ? undefined : { modelOutput: invocation.modelOutput })
})

// Failures are results that the model reads, so the toolkit never fails.
const toAiTool = (definition: Definition): RegistryToolkit["tools"][string] =>
  AiTool.dynamic(definition.name, {
    description: definition.description,
    parameters: definition.inputSchema,
    success: Schema.Json,
    failure: Schema.Json,
    failureMode: "return"
  })
    .annotate(AiTool.Readonly, definition.readonly)
    .annotate(AiTool.Destructive, definition.destructive)
    .annotate(AiTool.Idempotent, definition.idempotent)
    .annotate(AiTool.OpenWorld, definition.openWorld)
    .annotate(AiTool.Strict, isStrict(definition.inputSchema) ? undefined : false)

// Providers that default to strict schemas refuse objects that leave anything open.
const isStrict = (schema: unknown): boolean => {
  if (!Predicate.isObjectOrArray(schema)) return true
  if ("properties" in schema && Predicate.isObject(schema.properties)) {
    const required = "required" in schema && Array.isArray(schema.required) ? schema.required : []
    if (!("additionalProperties" in schema) || schema.additionalProperties !== false) return false
    if (!Object.keys(schema.properties).every((key) => required.includes(key))) return false
  }
  return Object.values(schema).every(isStrict)
}
