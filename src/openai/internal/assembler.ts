/*
 * Turns the chunks of a Chat Completions answer into effect/ai response parts.
 *
 * A state machine without effects: the same chunks give the same parts, however they arrived. A whole (not streamed)
 * answer is one chunk whose choice has a `message` instead of a `delta`.
 * https://platform.openai.com/docs/api-reference/chat-streaming
 */
import type * as Response from "effect/ai/Response"
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import { isComplete } from "../../internal/finishReason.ts"
import * as Json from "./json.ts"
import type { StreamPart } from "./part.ts"
import * as ReasoningDetails from "./reasoningDetails.ts"
import * as ToolCalls from "./toolCalls.ts"

export interface Assembler {
  /** Adds the parts a chunk gives to `out`. */
  readonly push: (chunk: Json.JsonObject, out: Array<StreamPart>) => void
  /** Closes what is open and answers the last parts; `missingFinish` is the reason if the server gave none. */
  readonly end: (missingFinish: Response.FinishReason, out: Array<StreamPart>) => Ending
  /** Whether the server has said why it stopped; only usage can follow. */
  readonly isFinished: () => boolean
  /** Whether any choice has been seen. */
  readonly hasStarted: () => boolean
}

/** The last parts, to be judged by someone who knows the request before they are told. */
interface Ending {
  readonly calls: ReadonlyArray<Response.ToolCallPartEncoded>
  readonly finish: Response.FinishPartEncoded
  /** A call that is to run came without a name. */
  readonly nameless: boolean
}

const reasoningFields = ["reasoning_content", "reasoning"] as const

type Block = { readonly type: "text" | "reasoning"; readonly id: string }

export const make = (options: ToolCalls.Options): Assembler => {
  const toolCalls = ToolCalls.make(options)
  let hasMetadata = false
  let started = false
  let finish: string | undefined
  let refused = false
  let usage: Json.JsonObject | undefined
  let blocks = 0
  let block: Block | undefined
  let reasoningField = "reasoning_content"
  let details: Array<Json.JsonObject> = []

  const close = (out: Array<StreamPart>): void => {
    if (block === undefined) return
    if (block.type === "text") {
      out.push({ type: "text-end", id: block.id })
    } else {
      out.push({
        type: "reasoning-end",
        id: block.id,
        metadata: { openai: { field: reasoningField, ...(details.length === 0 ? undefined : { details }) } }
      })
      details = []
    }
    block = undefined
  }

  const enter = (type: Block["type"], out: Array<StreamPart>): Block => {
    if (block?.type === type) return block
    close(out)
    block = { type, id: `${type}-${blocks++}` }
    out.push({ type: `${type}-start`, id: block.id })
    return block
  }

  const say = (type: Block["type"], delta: string | undefined, out: Array<StreamPart>): void => {
    if (delta !== undefined) out.push({ type: `${type}-delta`, id: enter(type, out).id, delta })
  }

  /** Mistral sends `content` as a list that can hold thoughts. */
  const content = (value: Json.Json | undefined, out: Array<StreamPart>): void => {
    if (typeof value === "string") return say("text", Json.text(value), out)
    for (const item of Json.array(value)) {
      const part = Json.object(item)
      say("text", Json.text(part?.["text"]), out)
      for (const thought of Json.array(part?.["thinking"])) {
        say("reasoning", Json.text(Json.object(thought)?.["text"]), out)
      }
    }
  }

  const reasoning = (delta: Json.JsonObject, out: Array<StreamPart>): void => {
    for (const field of reasoningFields) {
      const thought = Json.text(delta[field])
      if (thought === undefined) continue
      reasoningField = field
      say("reasoning", thought, out)
      break
    }
    ReasoningDetails.append(details, Json.array(delta["reasoning_details"]))
  }

  const choice = (value: Json.JsonObject, out: Array<StreamPart>): void => {
    // A message beside or after deltas says the same again.
    const delta = Json.object(value["delta"]) ?? (started ? undefined : Json.object(value["message"]))
    if (delta !== undefined) {
      started = true
      reasoning(delta, out)
      content(delta["content"], out)
      const refusal = Json.text(delta["refusal"])
      refused ||= refusal !== undefined
      say("text", refusal, out)
      for (const call of Json.array(delta["tool_calls"])) toolCalls.push(call, out)
      if (delta["function_call"] !== undefined) toolCalls.push(delta["function_call"], out)
    }
    finish ??= Json.text(value["finish_reason"])
  }

  const metadata = (chunk: Json.JsonObject, out: Array<StreamPart>): void => {
    const id = Json.text(chunk["id"])
    const modelId = Json.text(chunk["model"])
    if (id === undefined && modelId === undefined) return
    hasMetadata = true
    const created = Json.count(chunk["created"])
    const timestamp = created === undefined ? undefined : Option.getOrUndefined(DateTime.make(created * 1000))
    out.push({ type: "response-metadata", id, modelId, timestamp })
  }

  return {
    push(chunk, out) {
      if (!hasMetadata) metadata(chunk, out)
      usage = Json.object(chunk["usage"]) ?? Json.object(Json.object(chunk["x_groq"])?.["usage"]) ?? usage
      // Only the first choice: more were not asked for, and their text must not be joined to it.
      for (const item of Json.array(chunk["choices"])) {
        const value = Json.object(item)
        if ((value?.["index"] ?? 0) !== 0) continue
        if (value !== undefined) choice(value, out)
        break
      }
    },
    end(missingFinish, out) {
      close(out)
      if (details.length > 0) {
        enter("reasoning", out)
        close(out)
      }
      const calls = toolCalls.end(out)
      const reason = finishReason(finish, refused, calls.length > 0, missingFinish)
      return {
        calls,
        finish: {
          type: "finish",
          reason,
          usage: toUsage(usage ?? {}),
          metadata: {
            openai: {
              ...(finish === undefined ? undefined : { finishReason: finish }),
              ...(usage !== undefined && Json.isShallow(usage) ? { usage } : undefined)
            }
          }
        },
        nameless: isComplete(reason) && toolCalls.hasNameless()
      }
    },
    isFinished: () => finish !== undefined,
    hasStarted: () => started
  }
}

const finishReasons = new Map<string, Response.FinishReason>([
  ["stop", "stop"],
  ["end_turn", "stop"],
  ["tool_calls", "tool-calls"],
  ["function_call", "tool-calls"],
  ["length", "length"],
  ["max_tokens", "length"],
  ["model_length", "length"],
  ["content_filter", "content-filter"],
  ["safety", "content-filter"],
  ["error", "error"],
  ["insufficient_system_resource", "error"]
])

/** Servers say `stop` where they called tools, and `tool_calls` where they didn't: the calls decide between the two. */
const finishReason = (
  word: string | undefined,
  refused: boolean,
  hasCalls: boolean,
  missing: Response.FinishReason
): Response.FinishReason => {
  const reason = word === undefined ? missing : finishReasons.get(word.toLowerCase()) ?? "other"
  if (reason !== "stop" && reason !== "tool-calls") return reason
  if (refused) return "content-filter"
  return hasCalls ? "tool-calls" : "stop"
}

/** Usage is cumulative where it comes more than once: the last one counts. */
const toUsage = (usage: Json.JsonObject): typeof Response.Usage.Encoded => {
  const input = Json.count(usage["prompt_tokens"])
  const cached = Json.count(Json.object(usage["prompt_tokens_details"])?.["cached_tokens"]) ??
    Json.count(usage["prompt_cache_hit_tokens"])
  const output = Json.count(usage["completion_tokens"])
  const reasoning = Json.count(Json.object(usage["completion_tokens_details"])?.["reasoning_tokens"])
  return {
    inputTokens: { total: input, cacheRead: cached, cacheWrite: undefined, uncached: less(input, cached) },
    outputTokens: { total: output, reasoning, text: less(output, reasoning) }
  }
}

const less = (total: number | undefined, part: number | undefined): number | undefined =>
  total === undefined ? undefined : Math.max(0, total - (part ?? 0))
