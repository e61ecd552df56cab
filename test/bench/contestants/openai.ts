/**
 * A loop by hand over the `openai` package.
 */
import OpenAI from "openai"
import type { ModelContestant, Setup } from "../rows/conversation.ts"
import { definitionsOf, PROMPT } from "../script.ts"
import { bodyOf } from "../servers/chatCompletions.ts"

type Message = OpenAI.ChatCompletionMessageParam
type Assistant = OpenAI.ChatCompletionAssistantMessageParam & { content: string | null }

/** The package has no model to put in its place; in memory it gets a `fetch` that answers at once. */
const inMemory = ({ script }: Setup): typeof fetch => {
  const bodies = Array.from({ length: script.turns }, (_, turn) => bodyOf(script, turn))
  let count = 0
  return async () => new Response(bodies[count++ % script.turns], { headers: { "content-type": "application/json" } })
}

const clientOf = (setup: Setup) =>
  new OpenAI({
    apiKey: "none",
    baseURL: setup.baseUrl ?? "http://memory.test/v1",
    ...(setup.baseUrl === undefined ? { fetch: inMemory(setup) } : {})
  })

const toolsOf = ({ script }: Setup): Array<OpenAI.ChatCompletionTool> =>
  definitionsOf(script.tools).map((tool) => ({
    type: "function",
    function: { ...tool, parameters: { ...tool.parameters } }
  }))

const loop = async ({ sink }: Setup, ask: (messages: Array<Message>) => Promise<Assistant>) => {
  const messages: Array<Message> = [{ role: "user", content: PROMPT }]
  for (;;) {
    const message = await ask(messages)
    messages.push(message)
    if (message.tool_calls === undefined || message.tool_calls.length === 0) return message.content ?? ""
    for (const call of message.tool_calls) {
      if (call.type !== "function") throw new Error(`a call of type ${call.type}`)
      const content = String(sink.add(JSON.parse(call.function.arguments)))
      messages.push({ role: "tool", tool_call_id: call.id, content })
    }
  }
}

export const plain: ModelContestant["plain"] = async (setup) => {
  const client = clientOf(setup)
  const tools = toolsOf(setup)
  const { model } = setup
  return () =>
    loop(setup, async (messages) => {
      const completion = await client.chat.completions.create({ model, messages, tools })
      return completion.choices[0]!.message
    })
}

export const streamed: ModelContestant["streamed"] = async (setup) => {
  const client = clientOf(setup)
  const tools = toolsOf(setup)
  const offered = tools.length === 0 ? {} : { tools }
  const { model, sink } = setup
  return () =>
    loop(setup, async (messages) => {
      let content = ""
      const calls: Array<OpenAI.ChatCompletionMessageFunctionToolCall> = []
      for await (
        const { choices } of await client.chat.completions.create({ model, messages, stream: true, ...offered })
      ) {
        const delta = choices[0]?.delta
        if (delta?.content) {
          content += delta.content
          sink.delta(delta.content)
        }
        for (const { function: part, id, index } of delta?.tool_calls ?? []) {
          const call = calls[index] ??= {
            id: id ?? "",
            type: "function",
            function: { name: part?.name ?? "", arguments: "" }
          }
          call.function.arguments += part?.arguments ?? ""
        }
      }
      return { role: "assistant", content, ...(calls.length === 0 ? {} : { tool_calls: calls }) }
    })
}
