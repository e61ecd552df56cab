/**
 * The wire form of a script: JSON bodies and server-sent events of Chat Completions.
 */
import { type Call, callsOf, deltasOf, MODEL, type Script, TOOL } from "../script.ts"

const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
const head = { id: "chatcmpl-0123456789abcdef", created: 1_700_000_000, model: MODEL }

/** The body of a plain answer. */
export const bodyOf = (script: Script, turn: number): string => {
  const calls = callsOf(script, turn).map(({ arguments: args, id }) => ({
    id,
    type: "function",
    function: { name: TOOL, arguments: JSON.stringify(args) }
  }))
  const isLast = calls.length === 0
  const message = isLast
    ? { role: "assistant", content: deltasOf(script).join("") }
    : { role: "assistant", content: null, tool_calls: calls }
  return JSON.stringify({
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, message, logprobs: null, finish_reason: isLast ? "stop" : "tool_calls" }],
    usage
  })
}

/** The chunks of a streamed answer. */
export const chunksOf = (script: Script, turn: number): ReadonlyArray<string> => {
  const calls = callsOf(script, turn)
  const isLast = calls.length === 0
  const pieces = isLast
    ? deltasOf(script).map((content) => event({ content }))
    : calls.flatMap((call, index) => callEvents(call, index, script.fragments))
  return [
    event({ role: "assistant", content: null }),
    ...joined(pieces, script.perChunk),
    `${event({}, isLast ? "stop" : "tool_calls")}data: ${
      JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [], usage })
    }\n\ndata: [DONE]\n\n`
  ]
}

const event = (delta: unknown, finish: string | null = null): string =>
  `data: ${
    JSON.stringify({
      ...head,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }]
    })
  }\n\n`

const callEvents = ({ arguments: args, id }: Call, index: number, fragments: number): ReadonlyArray<string> => [
  event({ tool_calls: [{ index, id, type: "function", function: { name: TOOL, arguments: "" } }] }),
  ...fragmentsOf(JSON.stringify(args), fragments).map((piece) =>
    event({ tool_calls: [{ index, function: { arguments: piece } }] })
  )
]

const fragmentsOf = (text: string, count: number): ReadonlyArray<string> => {
  const size = Math.ceil(text.length / count)
  return Array.from(
    { length: Math.ceil(text.length / size) },
    (_, index) => text.slice(index * size, (index + 1) * size)
  )
}

const joined = (pieces: ReadonlyArray<string>, perChunk: number): ReadonlyArray<string> =>
  Array.from(
    { length: Math.ceil(pieces.length / perChunk) },
    (_, index) => pieces.slice(index * perChunk, (index + 1) * perChunk).join("")
  )
