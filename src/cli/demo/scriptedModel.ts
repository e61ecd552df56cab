/*
 * A stand-in for a language model: rules instead of weights.
 *
 * It decides from the request alone. The last user message is cut into steps;
 * each step takes the tool whose name and description share most words with
 * it, and its arguments from the step's words or from earlier results. A call
 * that failed with a suggestion is made again with it. When nothing is left to
 * call, the results are summed up.
 */
import { excerpt } from "../../internal/text.ts"

/** A message of a Chat Completions request, as far as the rules read it. */
export interface ChatMessage {
  readonly role: string
  readonly content?: unknown
  readonly tool_calls?: ReadonlyArray<{ readonly id: string; readonly function: { name: string; arguments: string } }>
  readonly tool_call_id?: string
}

export interface ChatTool {
  readonly function: {
    readonly name: string
    readonly description?: string
    readonly parameters?: {
      readonly properties?: Readonly<Record<string, Parameter>>
      readonly required?: ReadonlyArray<string>
    }
  }
}

interface Parameter {
  readonly type?: string
  readonly description?: string
  readonly enum?: ReadonlyArray<unknown>
}

interface Call {
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

export type Decision =
  | { readonly _tag: "Call"; readonly text: string; readonly calls: ReadonlyArray<Call> }
  | { readonly _tag: "Answer"; readonly text: string }

/** A call that was made since the last user message, with its result. */
interface Made extends Call {
  readonly result: string
}

export const decide = (messages: ReadonlyArray<ChatMessage>, tools: ReadonlyArray<ChatTool>): Decision => {
  const lastUser = messages.findLastIndex((message) => message.role === "user")
  const prompt = textOf(messages[lastUser]?.content)
  const made = callsSince(messages.slice(lastUser + 1))
  const folder = /folder:\s*(\S+)/.exec(textOf(messages.find((message) => message.role === "system")?.content))?.[1]

  const calls: Array<Call> = []
  const earlier = new Set<string>()
  for (const step of stepsOf(prompt)) {
    const tool = bestTool(step, tools)
    if (tool === undefined) continue
    // What a step says of results has to wait for them.
    if (needsResults(step) && calls.length > 0) break
    const results = made.filter(({ name }) => earlier.has(name))
    calls.push(...callsFor(step, tool, results, folder).flatMap((call) => nextTry(call, made)))
    earlier.add(tool.name)
  }
  return calls.length === 0
    ? { _tag: "Answer", text: summary(prompt, made, tools) }
    : { _tag: "Call", text: made.length === 0 ? "Let me look that up. " : "", calls }
}

// -----------------------------------------------------------------------------
// Reading the request
// -----------------------------------------------------------------------------

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : Array.isArray(content)
    ? content.map((part: { readonly text?: unknown }) => typeof part.text === "string" ? part.text : "").join("")
    : ""

const callsSince = (messages: ReadonlyArray<ChatMessage>): ReadonlyArray<Made> =>
  messages.flatMap((message) => message.tool_calls ?? []).map(({ id, function: { arguments: args, name } }) => ({
    name,
    args: parseObject(args),
    result: textOf(messages.find((message) => message.role === "tool" && message.tool_call_id === id)?.content)
  }))

const parseObject = (text: string): Record<string, unknown> => {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

const stepsOf = (prompt: string): ReadonlyArray<string> =>
  prompt.split(/[.;?!](?:\s|$)|,?\s+then\s+|\n/).map((step) => step.trim()).filter((step) => step !== "")

// -----------------------------------------------------------------------------
// Choosing a tool
// -----------------------------------------------------------------------------

const STOP_WORDS = new Set(
  "a an and at by for from in into is it its of on or that the this to what with you your".split(" ")
)

const wordsOf = (text: string): ReadonlySet<string> =>
  new Set(
    text.toLowerCase().split(/[^a-z0-9]+/)
      .filter((word) => word.length > 1 && !STOP_WORDS.has(word))
      .map((word) => word.replace(/(ing|es|s|d)$/, ""))
  )

const bestTool = (step: string, tools: ReadonlyArray<ChatTool>): ChatTool["function"] | undefined => {
  const words = wordsOf(step)
  const overlap = (text: string) => Array.from(wordsOf(text)).filter((word) => words.has(word)).length
  const scored = tools.map(({ function: tool }) => ({
    tool,
    // A name says more than a description.
    score: 3 * overlap(tool.name.replaceAll("_", " ")) + Math.min(2, overlap(tool.description ?? ""))
  }))
  const best = scored.reduce<typeof scored[number] | undefined>(
    (best, next) => best === undefined || next.score > best.score ? next : best,
    undefined
  )
  return best === undefined || best.score < 3 ? undefined : best.tool
}

// -----------------------------------------------------------------------------
// Finding arguments
// -----------------------------------------------------------------------------

/** Whether a step speaks of earlier results instead of naming its own values. */
const needsResults = (step: string): boolean =>
  /\b(it|them|that|results?|warmer|warmest|colder|coldest|higher|lower|answer)\b/i.test(step)

const callsFor = (
  step: string,
  tool: ChatTool["function"],
  made: ReadonlyArray<Made>,
  folder: string | undefined
): ReadonlyArray<Call> => {
  const properties = Object.entries(tool.parameters?.properties ?? {})
  const required = tool.parameters?.required ?? properties.map(([name]) => name)
  let calls: ReadonlyArray<Record<string, unknown>> = [{}]
  for (const [name, parameter] of properties) {
    if (!required.includes(name)) continue
    const values = valuesFor(name, parameter, step, made, folder)
    calls = calls.flatMap((args) => values.map((value) => Object.assign({}, args, { [name]: value })))
  }
  return calls.map((args) => ({ name: tool.name, args }))
}

const valuesFor = (
  name: string,
  parameter: Parameter,
  step: string,
  made: ReadonlyArray<Made>,
  folder: string | undefined
): ReadonlyArray<unknown> => {
  if (parameter.enum !== undefined) {
    return parameter.enum.filter((value) => step.toLowerCase().includes(String(value).toLowerCase()))
  }
  switch (parameter.type) {
    case "number":
    case "integer":
      return numbersFor(step, made)
    case "boolean":
      return [!/\b(not|no|without)\b/i.test(step)]
    case "array":
      return [numbersIn(step)]
    default:
      return textsFor(name, step, made, folder)
  }
}

const numbersIn = (text: string): ReadonlyArray<number> => (text.match(/-?\d+(\.\d+)?/g) ?? []).map(Number)

const numbersFor = (step: string, made: ReadonlyArray<Made>): ReadonlyArray<number> => {
  const own = numbersIn(step)
  if (own.length > 0) return own.slice(0, 1)
  const earlier = made.filter(({ result }) => result.startsWith("{")).flatMap(({ result }) => numbersIn(result))
  const last = earlier.at(-1)
  if (last === undefined) return []
  if (/\b(colder|coldest|lower|lowest|smaller|least)\b/i.test(step)) return [Math.min(...earlier)]
  return [/\b(warmer|warmest|higher|highest|larger|most)\b/i.test(step) ? Math.max(...earlier) : last]
}

const textsFor = (
  name: string,
  step: string,
  made: ReadonlyArray<Made>,
  folder: string | undefined
): ReadonlyArray<string> => {
  if (/path|file|director|folder/i.test(name)) {
    const file = /[\w-]+(\/[\w-]+)*\.[a-z]{1,4}\b/i.exec(step)?.[0]
    const path = file ?? (folder === undefined ? undefined : "")
    return path === undefined ? [] : [folder === undefined ? path : `${folder}/${path}`.replace(/\/$/, "")]
  }
  const quoted = Array.from(step.matchAll(/"([^"]+)"/g), ([, text = ""]) => text)
  if (quoted.length > 0) return quoted
  if (/content|text|body|note|message/i.test(name)) {
    const known = made.filter(({ result }) => succeeded(result)).map(({ result }) => result)
    return known.length === 0 ? (needsResults(step) ? [] : [step]) : [known.join("\n")]
  }
  const names = step.replace(/^\W*\w+/, "").match(/[A-Z][\w-]+(?: [A-Z][\w-]+)*/g) ?? []
  return names.length > 0 ? Array.from(new Set(names)) : [step]
}

// -----------------------------------------------------------------------------
// Learning from results
// -----------------------------------------------------------------------------

const SUGGESTION = /did you mean \\?"([^"\\]+)/i

const succeeded = (result: string): boolean =>
  !/^(error|permission denied|not executed|interrupted|unknown)\b/i.test(result) && !SUGGESTION.test(result)

/** The call, if it was not made yet; with another value, if its failure suggested one. */
const nextTry = (call: Call, made: ReadonlyArray<Made>): ReadonlyArray<Call> => {
  const before = made.find((other) => isSame(call, other))
  if (before === undefined) return [call]
  const suggestion = SUGGESTION.exec(before.result)?.[1]
  const wrong = Object.keys(call.args).find((name) => typeof call.args[name] === "string")
  if (suggestion === undefined || wrong === undefined) return []
  const corrected = { ...call, args: { ...call.args, [wrong]: suggestion } }
  return made.some((other) => isSame(corrected, other)) ? [] : [corrected]
}

const isSame = (a: Call, b: Call): boolean => a.name === b.name && JSON.stringify(a.args) === JSON.stringify(b.args)

const summary = (prompt: string, made: ReadonlyArray<Made>, tools: ReadonlyArray<ChatTool>): string => {
  if (made.length === 0) {
    return tools.length === 0
      ? `You said: ${prompt}`
      : `None of my tools fits that. I have ${tools.map((tool) => tool.function.name).join(", ")}.`
  }
  const lines = made.map(({ args, name, result }) =>
    `- ${name}(${Object.values(args).map((value) => shorten(String(value), 40)).join(", ")}): ${shorten(result, 160)}`
  )
  return `Here is what I found:\n${lines.join("\n")}\n`
}

const shorten = (text: string, max: number): string => excerpt(text.replaceAll(/\s+/g, " "), max)
