/**
 * `@openai/agents` over its model for Chat Completions, without tracing.
 */
import {
  Agent,
  type Model,
  type ModelResponse,
  OpenAIChatCompletionsModel,
  run,
  setTracingDisabled,
  type Tool,
  tool,
  Usage
} from "@openai/agents"
import OpenAI from "openai"
import { z } from "zod"
import type { ModelContestant, Setup } from "../rows/conversation.ts"
import { callsOf, deltasOf, PROMPT, type Script, TOOL } from "../script.ts"

setTracingDisabled(true)

const inMemory = (script: Script): Model => {
  const answers = Array.from({ length: script.turns }, (_, turn) => answerOf(script, turn))
  let count = 0
  return {
    getResponse: async () => answers[count++ % script.turns]!,
    getStreamedResponse: () => {
      throw new Error("only whole answers are asked for in memory")
    }
  }
}

const answerOf = (script: Script, turn: number): ModelResponse => {
  const calls = callsOf(script, turn)
  return {
    usage: new Usage({ requests: 1, inputTokens: 100, outputTokens: 20, totalTokens: 120 }),
    output: calls.length === 0
      ? [{
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: deltasOf(script).join("") }]
      }]
      : calls.map(({ arguments: args, id }) => ({
        type: "function_call",
        callId: id,
        name: TOOL,
        status: "completed",
        arguments: JSON.stringify(args)
      }))
  }
}

const agentOf = ({ baseUrl, model, script, sink }: Setup) => {
  const add = tool({
    name: TOOL,
    description: "Adds two numbers and the length of a note",
    parameters: z.object({ a: z.number(), b: z.number(), note: z.string() }),
    execute: async (args) => sink.add(args)
  })
  const tools: Array<Tool> = script.tools === 0 ? [] : [add]
  return new Agent({
    name: "bench",
    model: baseUrl === undefined
      ? inMemory(script)
      : new OpenAIChatCompletionsModel(new OpenAI({ apiKey: "none", baseURL: baseUrl }), model),
    tools
  })
}

export const plain: ModelContestant["plain"] = async (setup) => {
  const agent = agentOf(setup)
  return async () => (await run(agent, PROMPT, { maxTurns: setup.script.turns })).finalOutput ?? ""
}

export const streamed: ModelContestant["streamed"] = async (setup) => {
  const agent = agentOf(setup)
  return async () => {
    const result = await run(agent, PROMPT, { maxTurns: setup.script.turns, stream: true })
    for await (const delta of result.toTextStream()) setup.sink.delta(delta)
    await result.completed
    return result.finalOutput ?? ""
  }
}
