/**
 * The transcript of a conversation, as a type that cannot break it.
 *
 * A tool call cannot be here without its answer: a turn is recorded together
 * with a provisional answer for each of its calls, which is replaced when the
 * call settles. So at every instant each call is followed, in the very next
 * message, by exactly one result per call, in call order.
 *
 * @since 0.1.0
 */
import * as Prompt from "effect/ai/Prompt"
import * as HashSet from "effect/HashSet"

// =============================================================================
// Models
// =============================================================================

/**
 * What a call is answered with.
 *
 * @category models
 * @since 0.1.0
 */
export interface Answer {
  readonly isFailure: boolean
  /** JSON, or text. */
  readonly result: unknown
  /** Text and files shown to the model in place of `result`. */
  readonly modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
  /** What a provider wants with the result. Default: nothing. */
  readonly options?: Prompt.ToolResultPart["options"] | undefined
}

/**
 * The text of a response while it arrives: nothing in it can be a call.
 *
 * @category models
 * @since 0.1.0
 */
export interface Draft {
  /** What has arrived so far. */
  readonly content: () => ReadonlyArray<Prompt.TextPart | Prompt.ReasoningPart>
}

/**
 * A transcript. Values are immutable, save for the text of a draft.
 *
 * @category models
 * @since 0.1.0
 */
export interface History {
  /** How many turns the model has taken; the last one has this number. */
  readonly turns: number
  /** Messages that do not change any more. */
  readonly closed: ReadonlyArray<Prompt.Message>
  /** The last turn, while its calls may still settle or its text still arrives. */
  readonly open: OpenTurn | Draft | undefined
  /** Ids of all calls so far. */
  readonly callIds: HashSet.HashSet<string>
}

/**
 * A response with calls, each with its answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface OpenTurn {
  readonly content: ReadonlyArray<Prompt.AssistantMessagePart>
  /** What a provider wants with the message. Default: nothing. */
  readonly options?: Prompt.AssistantMessage["options"] | undefined
  readonly calls: ReadonlyArray<{ readonly call: Prompt.ToolCallPart; readonly answer: Answer }>
}

// =============================================================================
// Constructors
// =============================================================================

/**
 * A transcript without messages.
 *
 * @category constructors
 * @since 0.1.0
 */
export const empty: History = { turns: 0, closed: [], open: undefined, callIds: HashSet.empty() }

/**
 * Reads messages from elsewhere: a store, another library, a compaction.
 *
 * What would break the conversation is repaired: a call without a result is
 * answered as lost, a result without a call is dropped, results are put in call
 * order, a repeated call id is made unique, approvals are left out.
 *
 * `turns` is how many turns they stand for, where that is more than they show:
 * numbers of turns must not be given out again, since calls are known by them.
 *
 * **Example** (An orphaned call gets an answer)
 *
 * ```ts run
 * import { History } from "agcore"
 * import { Prompt } from "effect/ai"
 *
 * const stored = Prompt.make([
 *   { role: "user", content: "What time is it?" },
 *   { role: "assistant", content: [{ type: "tool-call", id: "1", name: "clock", params: {} }] }
 * ])
 *
 * const history = History.fromMessages(stored.content)
 * History.messages(history).map((message) => message.role) // => ["user", "assistant", "tool"]
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromMessages = (messages: ReadonlyArray<Prompt.Message>, turns: number = 0): History => {
  const history = append(empty, messages)
  return { ...history, turns: Math.max(turns, history.turns) }
}

/**
 * Adds messages from elsewhere, repaired as by `fromMessages`.
 *
 * @category combinators
 * @since 0.1.0
 */
export const append = (self: History, messages: ReadonlyArray<Prompt.Message>): History => {
  let { callIds, closed, turns } = close(self)
  if (messages.length === 0) return { turns, closed, open: undefined, callIds }
  const all = [...closed]
  messages.forEach((message, position) => {
    switch (message.role) {
      case "system":
      case "user":
        return void all.push(message)
      case "assistant": {
        const results = resultsOf(messages, position)
        const take = (call: Prompt.ToolCallPart): Answer => {
          const found = results.findIndex((result) => result.id === call.id)
          const [result = LOST] = found === -1 ? [] : results.splice(found, 1)
          return result
        }
        const turn = makeTurn(message.content, ++turns, callIds, take)
        callIds = turn.callIds
        return void all.push(...(asTheyStand(turn, messages, position) ?? render(turn, message.options)))
      }
      // Results are taken with the calls they answer; these answer none.
      case "tool":
    }
  })
  return { turns, closed: all, open: undefined, callIds }
}

/**
 * Opens the last turn again, so that its calls can be settled: a conversation
 * that was stored while one waited. Nothing happens when the transcript does not
 * end with the results of calls.
 *
 * @category combinators
 * @since 0.1.0
 */
export const reopen = (self: History): History => {
  const { callIds, closed, turns } = close(self)
  const [response, results] = closed.slice(-2)
  if (response?.role !== "assistant" || results?.role !== "tool") return self
  const answers = new Map(results.content.filter(isOwnResult).map((result) => [result.id, result]))
  const calls = response.content.filter(isCall).flatMap((call) => {
    const answer = answers.get(call.id)
    return answer === undefined ? [] : [{ call, answer }]
  })
  const { content, options } = response
  return { turns, closed: closed.slice(0, -2), open: { content, options, calls }, callIds }
}

/**
 * Adds a response of the model. Each of its calls is answered at once by what
 * `answer` says, to be settled later; calls the provider has run itself are not
 * among them. An empty response adds no message.
 *
 * @category combinators
 * @since 0.1.0
 */
export const respond = (
  self: History,
  content: ReadonlyArray<Prompt.AssistantMessagePart>,
  answer: (call: Prompt.ToolCallPart, index: number) => Answer
): History => {
  const { callIds: taken, closed, turns } = seal(self)
  const { callIds, ...open } = makeTurn(content, turns + 1, taken, answer)
  return { turns: turns + 1, closed, open, callIds }
}

/**
 * Shows a response as far as its text has arrived, until it is complete.
 *
 * @category combinators
 * @since 0.1.0
 */
export const draft = (self: History, draft: Draft): History => ({ ...close(self), open: draft })

/**
 * Replaces the answer of one call of the last turn. Other calls cannot be
 * reached, so nothing happens when there is no such call.
 *
 * @category combinators
 * @since 0.1.0
 */
export const settle = (self: History, index: number, answer: Answer): History => {
  const calls = openCalls(self)
  const call = calls[index]?.call
  return isOpenTurn(self.open) && call !== undefined
    ? { ...self, open: { ...self.open, calls: calls.with(index, { call, answer }) } }
    : self
}

// =============================================================================
// Destructors
// =============================================================================

/**
 * The transcript as messages.
 *
 * @category destructors
 * @since 0.1.0
 */
export const messages = (self: History): ReadonlyArray<Prompt.Message> => close(self).closed

/**
 * The calls of the last turn, with the ids they have in the transcript.
 *
 * @category destructors
 * @since 0.1.0
 */
export const openCalls = (self: History): OpenTurn["calls"] => isOpenTurn(self.open) ? self.open.calls : []

// =============================================================================
// Internals
// =============================================================================

const LOST: Answer = { isFailure: true, result: "No result was recorded for this call." }

const isOpenTurn = (open: History["open"]): open is OpenTurn => open !== undefined && "calls" in open

const isCall = (part: Prompt.AssistantMessagePart): part is Prompt.ToolCallPart =>
  part.type === "tool-call" && !part.providerExecuted

// What stands in a response is one of three: a call to be answered, something
// to keep, or what has no place in a prompt. effect/ai runs tools by itself when
// it finds approvals there.
const makeTurn = (
  content: ReadonlyArray<Prompt.AssistantMessagePart>,
  turn: number,
  taken: History["callIds"],
  answer: (call: Prompt.ToolCallPart, index: number) => Answer
): OpenTurn & Pick<History, "callIds"> => {
  const parts: Array<Prompt.AssistantMessagePart> = []
  const calls: Array<OpenTurn["calls"][number]> = []
  let callIds = taken
  for (const part of content) {
    if (isCall(part)) {
      const id = uniqueId(callIds, part.id, turn, calls.length)
      const call = id === part.id ? part : Prompt.makePart("tool-call", { ...part, id })
      callIds = HashSet.add(callIds, id)
      calls.push({ call, answer: answer(part, calls.length) })
      parts.push(call)
    } else if (part.type !== "tool-approval-request" && !isOwnResult(part)) {
      parts.push(part)
    }
  }
  return { content: parts, calls, callIds }
}

const isOwnResult = (part: Prompt.AssistantMessagePart | Prompt.ToolMessagePart): part is Prompt.ToolResultPart =>
  part.type === "tool-result" && !part.providerExecuted

// Results of the response at a position: in the messages that follow it, or,
// as some libraries keep them, beside the calls.
const resultsOf = (messages: ReadonlyArray<Prompt.Message>, position: number): Array<Prompt.ToolResultPart> => {
  let end = position + 1
  while (messages[end]?.role === "tool") end++
  return messages.slice(position, end).flatMap((message) =>
    message.role === "assistant" || message.role === "tool" ? message.content.filter(isOwnResult) : []
  )
}

// A turn in which nothing had to be repaired stays the same objects: prompt
// caches and effect/ai's `ResponseIdTracker` go by that.
const asTheyStand = (
  { calls, content }: OpenTurn,
  messages: ReadonlyArray<Prompt.Message>,
  position: number
): ReadonlyArray<Prompt.Message> | undefined => {
  const [response, results, next] = messages.slice(position, position + 3)
  if (response?.role !== "assistant" || content.length === 0 || !isSame(response.content, content)) return undefined
  if (results?.role !== "tool") return calls.length === 0 ? [response] : undefined
  const areAnswers = isSame(results.content, calls.map(({ answer }) => answer)) &&
    calls.every(({ call, answer }) => "name" in answer && answer.name === call.name)
  return areAnswers && calls.length > 0 && next?.role !== "tool" ? [response, results] : undefined
}

const isSame = (a: ReadonlyArray<unknown>, b: ReadonlyArray<unknown>): boolean =>
  a.length === b.length && a.every((each, index) => each === b[index])

// A draft that is followed by something else was interrupted: its text stays.
const close = (self: History): History => {
  if (self.open === undefined) return self
  if (isOpenTurn(self.open)) {
    return { ...self, closed: [...self.closed, ...render(self.open, self.open.options)], open: undefined }
  }
  const content = self.open.content()
  // Reasoning that nothing follows is refused by some providers.
  if (!content.some((part) => part.type === "text")) return { ...self, open: undefined }
  return {
    ...self,
    turns: self.turns + 1,
    closed: [...self.closed, Prompt.makeMessage("assistant", { content })],
    open: undefined
  }
}

// A draft that is followed by its own response is replaced by it.
const seal = (self: History): History =>
  self.open !== undefined && !isOpenTurn(self.open) ? { ...self, open: undefined } : close(self)

const render = (
  { calls, content }: OpenTurn,
  options?: Prompt.AssistantMessage["options"]
): ReadonlyArray<Prompt.Message> => {
  if (content.length === 0) return []
  const response = Prompt.makeMessage("assistant", { content, options })
  if (calls.length === 0) return [response]
  return [
    response,
    Prompt.makeMessage("tool", {
      content: calls.map(({ answer: { isFailure, modelOutput, options, result }, call: { id, name } }) =>
        Prompt.makePart("tool-result", {
          id,
          name,
          isFailure,
          result,
          providerExecuted: false,
          ...(modelOutput === undefined ? undefined : { modelOutput }),
          options
        })
      )
    })
  ]
}

// A call's identity is its turn and index; the provider's id is a label that
// some servers repeat, which strict ones refuse.
const uniqueId = (taken: HashSet.HashSet<string>, id: string, turn: number, index: number): string => {
  if (id !== "" && !HashSet.has(taken, id)) return id
  let candidate = `${id}_${turn}_${index}`
  while (HashSet.has(taken, candidate)) candidate += "_"
  return candidate
}
