/**
 * The baseline: what a careful programmer writes by hand with `fetch` and nothing else.
 */
import type { ModelContestant, Setup } from "../rows/conversation.ts"
import { type Arguments, definitionsOf, PROMPT } from "../script.ts"
import { bodyOf } from "../servers/chatCompletions.ts"

interface ToolCall {
  id: string
  type: "function"
  function: { name: string; arguments: string }
}

type Message =
  | { role: "user"; content: string }
  | { role: "assistant"; content: string | null; tool_calls?: Array<ToolCall> }
  | { role: "tool"; tool_call_id: string; content: string }

interface Completion {
  readonly choices: ReadonlyArray<{ readonly message: Extract<Message, { role: "assistant" }> }>
}

interface Chunk {
  readonly choices: ReadonlyArray<{
    readonly delta: {
      readonly content?: string | null
      readonly tool_calls?: ReadonlyArray<{
        readonly index: number
        readonly id?: string
        readonly function: { readonly name?: string; readonly arguments: string }
      }>
    }
  }>
}

const toolsOf = ({ script }: Setup) => definitionsOf(script.tools).map((tool) => ({ type: "function", function: tool }))

const post = async (baseUrl: string, body: string): Promise<Response> => {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return response
}

/** Asks until there are no calls. */
const loop = async ({ sink }: Setup, ask: (messages: ReadonlyArray<Message>) => Promise<Completion>) => {
  const messages: Array<Message> = [{ role: "user", content: PROMPT }]
  for (;;) {
    const { message } = (await ask(messages)).choices[0]!
    messages.push(message)
    if (message.tool_calls === undefined || message.tool_calls.length === 0) return message.content ?? ""
    for (const call of message.tool_calls) {
      const args: Arguments = JSON.parse(call.function.arguments)
      messages.push({ role: "tool", tool_call_id: call.id, content: String(sink.add(args)) })
    }
  }
}

export const plain: ModelContestant["plain"] = async (setup) => {
  const { baseUrl, model, script } = setup
  const tools = toolsOf(setup)
  if (baseUrl === undefined) {
    const bodies = Array.from({ length: script.turns }, (_, turn) => bodyOf(script, turn))
    return () => {
      let turn = 0
      // The request is written and the answer read, as over the wire.
      return loop(setup, async (messages) => {
        JSON.stringify({ model, messages, tools })
        return JSON.parse(bodies[turn++]!)
      })
    }
  }
  return () =>
    loop(setup, async (messages) => {
      const response = await post(baseUrl, JSON.stringify({ model, messages, tools }))
      return await response.json() as Completion
    })
}

/** The payloads of server-sent events, as far as Chat Completions uses them. */
async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Chunk> {
  const decoder = new TextDecoder()
  let begun = ""
  for await (const bytes of body) {
    const lines = (begun + decoder.decode(bytes, { stream: true })).split("\n")
    begun = lines.pop() ?? ""
    for (const line of lines) {
      if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6))
    }
  }
}

export const streamed: ModelContestant["streamed"] = async (setup) => {
  const { model, sink } = setup
  const tools = toolsOf(setup)
  const offered = tools.length === 0 ? {} : { tools }
  return () =>
    loop(setup, async (messages) => {
      const response = await post(setup.baseUrl!, JSON.stringify({ model, messages, stream: true, ...offered }))
      let content = ""
      const calls: Array<ToolCall> = []
      for await (const { choices } of events(response.body!)) {
        const delta = choices[0]?.delta
        if (delta?.content) {
          content += delta.content
          sink.delta(delta.content)
        }
        for (const { function: part, id, index } of delta?.tool_calls ?? []) {
          const call = calls[index] ??= {
            id: id ?? "",
            type: "function",
            function: { name: part.name ?? "", arguments: "" }
          }
          call.function.arguments += part.arguments
        }
      }
      const message: Message = { role: "assistant", content, ...(calls.length === 0 ? {} : { tool_calls: calls }) }
      return { choices: [{ message }] }
    })
}
