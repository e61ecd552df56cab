/*
 * What a transcript must look like for a provider to take it, as a pure check. `docs/transcripts.md` says where each
 * rule comes from.
 */
import type { Prompt } from "effect/ai"

// =============================================================================
// Rules
// =============================================================================

/** Whose rules: those that all providers share, or these and one provider's own. */
export type Provider = "any" | "openai" | "anthropic" | "gemini" | "mistral"

interface Rule {
  /** Who refuses a transcript that breaks it. */
  readonly providers: ReadonlyArray<Provider> | "all"
  readonly find: (entries: ReadonlyArray<Entry>) => ReadonlyArray<Found>
}

interface Found {
  /** The entry it is about. */
  readonly at: number
  readonly problem: string
}

export interface Violation extends Found {
  readonly rule: RuleId
}

/** A message of either form; the results of one turn are an entry each. */
interface Entry {
  readonly role: "system" | "user" | "assistant" | "tool"
  /** Whether it says anything beside calls and results. */
  readonly hasContent: boolean
  /** Whether a part of it is a text of no characters. */
  readonly hasEmptyText: boolean
  readonly calls: ReadonlyArray<Call>
  readonly result: Result | undefined
}

interface Call {
  readonly id: string
  readonly name: string
  /** Whether the arguments are a JSON object. */
  readonly isObject: boolean
}

interface Result {
  readonly id: string
  /** Where the form has one. */
  readonly name: string | undefined
}

/** The calls of a response, and the results that follow it at once. */
interface Batch {
  readonly at: number
  readonly calls: ReadonlyArray<Call>
  readonly results: ReadonlyArray<Result>
}

const batches = (entries: ReadonlyArray<Entry>): ReadonlyArray<Batch> =>
  entries.flatMap(({ calls, role }, at) => {
    if (role !== "assistant") return []
    const end = entries.findIndex((entry, position) => position > at && entry.role !== "tool")
    const following = entries.slice(at + 1, end === -1 ? undefined : end)
    return [{ at, calls, results: following.flatMap(({ result }) => result ?? []) }]
  })

const each =
  (test: (entry: Entry, at: number, entries: ReadonlyArray<Entry>) => string | false | undefined) =>
  (entries: ReadonlyArray<Entry>): ReadonlyArray<Found> =>
    entries.flatMap((entry, at) => {
      const problem = test(entry, at, entries)
      return problem === false || problem === undefined ? [] : [{ at, problem }]
    })

const eachBatch = (test: (batch: Batch) => string | undefined) => (entries: ReadonlyArray<Entry>) =>
  batches(entries).flatMap((batch): ReadonlyArray<Found> => {
    const problem = test(batch)
    return problem === undefined ? [] : [{ at: batch.at, problem }]
  })

const eachId = (pattern: RegExp) =>
  each(({ calls, result }) => {
    const ids = [...calls.map(({ id }) => id), ...(result === undefined ? [] : [result.id])]
    const bad = ids.find((id) => !pattern.test(id))
    return bad !== undefined && `the id "${bad}" is not ${pattern}`
  })

const repeated = (values: ReadonlyArray<string>): string | undefined =>
  values.find((value, index) => values.indexOf(value) !== index)

const isSpoken = ({ role }: Entry): boolean => role !== "system"

const RULES = {
  "says-something": {
    providers: "all",
    find: (entries) => entries.some(isSpoken) ? [] : [{ at: 0, problem: "there is no message" }]
  },
  "system-first": {
    providers: "all",
    find: each(({ role }, at, entries) =>
      role === "system" && entries.slice(0, at).some(isSpoken) && "instructions in the middle"
    )
  },
  "user-first": {
    providers: "all",
    find: (entries) => {
      const at = entries.findIndex(isSpoken)
      return at === -1 || entries[at]?.role === "user" ? [] : [{ at, problem: `begins with ${entries[at]?.role}` }]
    }
  },
  "user-or-tool-last": {
    providers: "all",
    find: (entries) => {
      const role = entries.at(-1)?.role
      return role === "user" || role === "tool" ? [] : [{ at: entries.length - 1, problem: `ends with ${role}` }]
    }
  },
  "no-empty-message": {
    providers: "all",
    find: each(({ calls, hasContent, role }) =>
      (role === "user" || role === "assistant") && !hasContent && calls.length === 0 && `an empty message of ${role}`
    )
  },
  "no-empty-text": { providers: "all", find: each(({ hasEmptyText }) => hasEmptyText && "a text of no characters") },
  "calls-answered": {
    providers: "all",
    find: eachBatch(({ calls, results }) => {
      const open = calls.filter(({ id }) => !results.some((result) => result.id === id))
      return open.length === 0 ? undefined : `no result right after it for ${open.map(({ id }) => id).join()}`
    })
  },
  "answered-once": {
    providers: "all",
    find: eachBatch(({ results }) => {
      const twice = repeated(results.map(({ id }) => id))
      return twice === undefined ? undefined : `${twice} is answered twice`
    })
  },
  "results-answer-calls": {
    providers: "all",
    find: (entries) =>
      entries.flatMap(({ result }, at) => {
        if (result === undefined) return []
        const response = entries.slice(0, at).findLast(({ role }) => role !== "tool")
        const answers = response?.role === "assistant" && response.calls.some(({ id }) => id === result.id)
        return answers ? [] : [{ at, problem: `${result.id} was not called right before` }]
      })
  },
  "as-many-results": {
    providers: "all",
    find: eachBatch(({ calls, results }) =>
      calls.length === results.length ? undefined : `${calls.length} calls, ${results.length} results`
    )
  },
  "results-in-order": {
    providers: "all",
    find: eachBatch(({ calls, results }) => {
      const known = results.filter(({ id }) => calls.some((call) => call.id === id))
      return known.every(({ id }, index) => id === calls[index]?.id) ? undefined : "results in another order"
    })
  },
  "results-named": {
    providers: "all",
    find: eachBatch(({ calls, results }) => {
      const other = results.find(({ id, name }) =>
        name !== undefined && calls.some((call) => call.id === id && call.name !== name)
      )
      return other === undefined ? undefined : `${other.id} is answered as "${other.name}"`
    })
  },
  "ids-present": {
    providers: "all",
    find: each(({ calls, result }) =>
      (calls.some(({ id }) => id === "") || result?.id === "") && "an id of no characters"
    )
  },
  "ids-unique": {
    providers: "all",
    find: (entries) => {
      const twice = repeated(entries.flatMap(({ calls }) => calls.map(({ id }) => id)))
      const at = entries.findLastIndex(({ calls }) => calls.some(({ id }) => id === twice))
      return twice === undefined ? [] : [{ at, problem: `${twice} is called twice` }]
    }
  },
  "names": {
    providers: "all",
    find: each(({ calls }) => {
      const bad = calls.find(({ name }) => !/^[A-Za-z0-9_-]{1,64}$/.test(name))
      return bad !== undefined && `"${bad.name}" is no name of a function`
    })
  },
  "object-arguments": {
    providers: ["anthropic", "gemini", "mistral"],
    find: each(({ calls }) => calls.some(({ isObject }) => !isObject) && "arguments that are no JSON object")
  },
  "ids-of-forty": { providers: ["openai"], find: eachId(/^.{1,40}$/s) },
  "ids-of-nine": { providers: ["mistral"], find: eachId(/^[A-Za-z0-9]{9}$/) },
  "ids-plain": { providers: ["anthropic"], find: eachId(/^[A-Za-z0-9_-]+$/) },
  "assistant-after-tool": {
    providers: ["mistral"],
    find: each(({ role }, at, entries) =>
      role === "user" && entries[at - 1]?.role === "tool" && "a user right after results"
    )
  },
  "calls-after-input": {
    providers: ["gemini"],
    find: each(({ calls }, at, entries) => {
      const before = entries.slice(0, at).findLast(isSpoken)?.role
      return calls.length > 0 && before !== "user" && before !== "tool" && `calls after ${before ?? "nothing"}`
    })
  }
} satisfies Record<string, Rule>

export type RuleId = keyof typeof RULES

export const ruleIds = Object.keys(RULES) as ReadonlyArray<RuleId>

const violations = (entries: ReadonlyArray<Entry>, provider: Provider): ReadonlyArray<Violation> =>
  ruleIds.flatMap((rule) => {
    const { find, providers }: Rule = RULES[rule]
    return providers === "all" || providers.includes(provider)
      ? find(entries).map(({ at, problem }) => ({ rule, at, problem }))
      : []
  })

// =============================================================================
// Messages of effect/ai
// =============================================================================

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const NOTHING = { hasContent: false, hasEmptyText: false, calls: [], result: undefined }

const fromMessage = (message: Prompt.Message): ReadonlyArray<Entry> => {
  switch (message.role) {
    case "system":
      return [{ ...NOTHING, role: "system", hasContent: true, hasEmptyText: message.content === "" }]
    case "user":
      return [{
        ...NOTHING,
        role: "user",
        hasContent: message.content.length > 0,
        hasEmptyText: message.content.some((part) => part.type === "text" && part.text === "")
      }]
    case "assistant":
      return [{
        ...NOTHING,
        role: "assistant",
        hasContent: message.content.some((part) => part.type !== "tool-call" || part.providerExecuted),
        hasEmptyText: message.content.some((part) => part.type === "text" && part.text === ""),
        calls: message.content.flatMap((part) =>
          part.type === "tool-call" && !part.providerExecuted
            ? [{ id: part.id, name: part.name, isObject: isRecord(part.params) }]
            : []
        )
      }]
    case "tool":
      return message.content.map((part): Entry => ({
        ...NOTHING,
        role: "tool",
        hasContent: true,
        result: part.type === "tool-result"
          ? { id: part.id, name: part.name }
          : { id: part.approvalId, name: undefined }
      }))
  }
}

/** What a provider would refuse in a prompt; `any`: what all of them would. */
export const checkPrompt = (
  messages: ReadonlyArray<Prompt.Message>,
  provider: Provider = "any"
): ReadonlyArray<Violation> => violations(messages.flatMap(fromMessage), provider)

// =============================================================================
// Chat Completions
// =============================================================================

const text = (value: unknown): string => typeof value === "string" ? value : ""

const list = (value: unknown): ReadonlyArray<Record<string, unknown>> =>
  Array.isArray(value) ? value.filter(isRecord) : []

const isObjectText = (json: unknown): boolean => {
  try {
    return typeof json === "string" && isRecord(JSON.parse(json))
  } catch {
    return false
  }
}

const fromChat = (message: Record<string, unknown>): Entry => {
  const { content, role, tool_call_id, tool_calls } = message
  const parts = list(content)
  const entry = {
    ...NOTHING,
    hasContent: parts.length > 0 || text(content) !== "",
    hasEmptyText: parts.some((part) => part["type"] === "text" && text(part["text"]) === "")
  }
  switch (role) {
    case "assistant":
      return {
        ...entry,
        role,
        calls: list(tool_calls).map(({ function: called, id }) => ({
          id: text(id),
          name: isRecord(called) ? text(called["name"]) : "",
          isObject: isRecord(called) && isObjectText(called["arguments"])
        }))
      }
    case "tool":
      return { ...entry, role, result: { id: text(tool_call_id), name: undefined } }
    case "system":
    case "developer":
      return { ...entry, role: "system" }
    default:
      return { ...entry, role: "user" }
  }
}

/** What a provider would refuse in the body of a request for Chat Completions. */
export const checkChat = (body: Record<string, unknown>, provider: Provider): ReadonlyArray<Violation> =>
  violations(list(body["messages"]).map(fromChat), provider)

// =============================================================================
// In tests
// =============================================================================

/** Throws where a provider would refuse. */
export const accept = (found: ReadonlyArray<Violation>): void => {
  if (found.length > 0) throw new Error(found.map(({ at, problem, rule }) => `${rule} at ${at}: ${problem}`).join("; "))
}
