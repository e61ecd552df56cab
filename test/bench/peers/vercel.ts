/**
 * Vercel's `ai` with its provider for compatible servers.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { generateText, isStepCount, jsonSchema, type LanguageModel, streamText, tool, type ToolSet } from "ai"
import { z } from "zod"
import type { ModelContestant, Setup } from "../rows/conversation.ts"
import { callsOf, definitionsOf, deltasOf, PROMPT, type Script, TOOL } from "../script.ts"

type Model = Extract<LanguageModel, { readonly specificationVersion: "v4" }>

const inMemory = (script: Script): Model => {
  const answers = Array.from({ length: script.turns }, (_, turn) => answerOf(script, turn))
  let count = 0
  return {
    specificationVersion: "v4",
    provider: "memory",
    modelId: "memory",
    supportedUrls: {},
    doGenerate: async () => answers[count++ % script.turns]!,
    doStream: async () => {
      throw new Error("only whole answers are asked for in memory")
    }
  }
}

const answerOf = (script: Script, turn: number): Awaited<ReturnType<Model["doGenerate"]>> => {
  const calls = callsOf(script, turn)
  return {
    content: calls.length === 0
      ? [{ type: "text", text: deltasOf(script).join("") }]
      : calls.map(({ arguments: args, id }) => ({
        type: "tool-call",
        toolCallId: id,
        toolName: TOOL,
        input: JSON.stringify(args)
      })),
    finishReason: { unified: calls.length === 0 ? "stop" : "tool-calls", raw: undefined },
    usage: {
      inputTokens: { total: 100, noCache: 100, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: 20, text: 20, reasoning: undefined }
    },
    warnings: []
  }
}

const modelOf = ({ baseUrl, model, script }: Setup): Model =>
  baseUrl === undefined
    ? inMemory(script)
    : createOpenAICompatible({ name: "bench", baseURL: baseUrl }).chatModel(model)

const toolsOf = ({ script, sink }: Setup): ToolSet => {
  const add = tool({
    description: "Adds two numbers and the length of a note",
    inputSchema: z.object({ a: z.number(), b: z.number(), note: z.string() }),
    execute: async (args) => sink.add(args)
  })
  const more = definitionsOf(script.tools).slice(1).map(({ description, name, parameters }) =>
    [name, tool({ description, inputSchema: jsonSchema({ ...parameters }), execute: async () => null })] as const
  )
  return script.tools === 0 ? {} : { [TOOL]: add, ...Object.fromEntries(more) }
}

const optionsOf = (setup: Setup) => ({
  model: modelOf(setup),
  tools: toolsOf(setup),
  stopWhen: isStepCount(setup.script.turns),
  prompt: PROMPT
})

export const plain: ModelContestant["plain"] = async (setup) => {
  const options = optionsOf(setup)
  return async () => (await generateText(options)).text
}

export const streamed: ModelContestant["streamed"] = async (setup) => {
  const options = optionsOf(setup)
  return async () => {
    const result = streamText(options)
    for await (const delta of result.textStream) setup.sink.delta(delta)
    return await result.text
  }
}
