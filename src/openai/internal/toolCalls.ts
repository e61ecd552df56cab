/*
 * Puts streamed fragments of tool calls together.
 *
 * The API says that `index` names the call a fragment belongs to and that `id` and `name` come once, first. Servers
 * leave out the index, repeat it, send a new id with every fragment, split or repeat the name, send arguments as an
 * object, or send the whole call again at the end. The rules below read all of that, and change nothing for a server
 * that keeps to the API: https://platform.openai.com/docs/api-reference/chat-streaming
 */
import type * as Response from "effect/ai/Response"
import * as Predicate from "effect/Predicate"
import * as Json from "./json.ts"
import type { StreamPart } from "./part.ts"

/** What one element of `tool_calls` says; absent is what it leaves out, as `null` or `""` too. */
interface Fragment {
  readonly index: number | undefined
  readonly id: string | undefined
  readonly name: string | undefined
  readonly args: string
  readonly unknown: Json.JsonObject | undefined
}

interface Call {
  /** As the server sent it; `undefined` while it has not. */
  serverId: string | undefined
  /** The one it is told by: unique in the response, and fixed once it has been told. */
  id: string | undefined
  name: string
  args: string
  /** Arguments that have not been told yet. */
  pending: string
  unknown: Json.JsonObject | undefined
}

export interface ToolCalls {
  /** Takes one element of `tool_calls`, or a legacy `function_call`, and tells what can be told already. */
  readonly push: (value: Json.Json, out: Array<StreamPart>) => void
  /** Ends all calls: tells the rest of their parameters, then the calls themselves. */
  readonly end: (out: Array<StreamPart>) => ReadonlyArray<Response.ToolCallPartEncoded>
  /** Whether there is arguments text that no name ever came for. */
  readonly hasNameless: () => boolean
}

export interface Options {
  /** Names the request declared. A name that is one of them is complete. */
  readonly declared: ReadonlySet<string>
  /** Starts the ids made for calls that have none. */
  readonly idPrefix: string
}

export const make = ({ declared, idPrefix }: Options): ToolCalls => {
  const calls: Array<Call> = []
  const byIndex = new Map<number, Call>()
  const byId = new Map<string, Call>()
  const ids = new Set<string>()

  const open = (fragment: Fragment): Call => {
    const call: Call = {
      serverId: fragment.id,
      id: undefined,
      name: "",
      args: "",
      pending: "",
      unknown: undefined
    }
    calls.push(call)
    if (fragment.index !== undefined) byIndex.set(fragment.index, call)
    if (fragment.id !== undefined) byId.set(fragment.id, call)
    return call
  }

  /** The call a fragment continues, if it continues one. */
  const continued = (fragment: Fragment): Call | undefined => {
    const last = calls.at(-1)
    const known = fragment.index !== undefined
      ? byIndex.get(fragment.index)
      : fragment.id !== undefined
      ? byId.get(fragment.id)
      : undefined
    if (known !== undefined) return startsAnother(known, fragment, declared) ? undefined : known
    // An index never seen is a new call, unless it comes without a name or an id.
    if (fragment.index !== undefined) return fragment.id === undefined && fragment.name === undefined ? last : undefined
    if (last === undefined) return undefined
    // An id never seen is a new call, unless it is only an id: then the server changes ids as it goes.
    if (fragment.id !== undefined && last.serverId !== undefined) {
      return fragment.name === undefined && !isComplete(last.args) ? last : undefined
    }
    return startsAnother(last, fragment, declared) ? undefined : last
  }

  const identify = (call: Call): string => {
    if (call.id === undefined) {
      const wanted = call.serverId ?? `${idPrefix}_${ids.size}`
      let id = wanted
      for (let copy = ids.size + 1; ids.has(id); copy++) id = `${wanted}_${copy}`
      ids.add(id)
      call.id = id
    }
    return call.id
  }

  /** Tells what is known of a call once its name can't change any more. */
  const tell = (call: Call, out: Array<StreamPart>): void => {
    if (call.id === undefined) out.push({ type: "tool-params-start", id: identify(call), name: call.name })
    if (call.pending === "") return
    out.push({ type: "tool-params-delta", id: identify(call), delta: call.pending })
    call.pending = ""
  }

  return {
    push(value, out) {
      const fragment = readFragment(value)
      if (fragment === undefined) return
      const call = continued(fragment) ?? open(fragment)
      if (call.serverId === undefined && fragment.id !== undefined) {
        call.serverId = fragment.id
        byId.set(fragment.id, call)
      }
      if (fragment.unknown !== undefined) call.unknown = { ...call.unknown, ...fragment.unknown }
      if (fragment.name !== undefined) call.name = joinName(call, fragment.name, declared)
      if (fragment.args !== "" && !isRepetition(call.args, fragment.args)) {
        call.args += fragment.args
        call.pending += fragment.args
      }
      if (call.name !== "" && (call.args !== "" || declared.has(call.name))) tell(call, out)
    },
    end(out) {
      // What has neither name nor arguments is a placeholder some servers send; without a name it can't be answered.
      const named = calls.filter((call) => call.name !== "")
      for (const call of named) {
        tell(call, out)
        out.push({ type: "tool-params-end", id: identify(call) })
      }
      return named.map((call) => ({
        type: "tool-call",
        id: identify(call),
        name: call.name,
        params: parameters(call.args),
        metadata: call.unknown && { openai: { unknown: call.unknown } }
      }))
    },
    hasNameless: () => calls.some((call) => call.name === "" && call.args !== "")
  }
}

const standardFields = new Set(["index", "id", "type", "function", "name", "arguments"])

const readFragment = (value: Json.Json): Fragment | undefined => {
  const call = Json.object(value)
  if (call === undefined) return undefined
  // A legacy `function_call` holds name and arguments itself.
  const fn = Json.object(call["function"]) ?? call
  const args = fn["arguments"]
  const unknown = Object.entries(call).filter(([key, field]) =>
    !standardFields.has(key) && field !== null && Json.isShallow(field)
  )
  return {
    index: Json.count(call["index"]),
    id: Json.text(call["id"]),
    name: Json.text(fn["name"]),
    args: typeof args === "string" ? args : Predicate.isNullish(args) ? "" : Json.write(args),
    unknown: unknown.length === 0 ? undefined : Object.fromEntries(unknown)
  }
}

/**
 * Whether a fragment that is addressed like `call` begins another call: only a name can begin one.
 *
 * With ids, a new id begins one if the name differs or the arguments are complete; otherwise the server sends a new id
 * with every fragment of the same call. Without, a name after complete arguments does.
 */
const startsAnother = (call: Call, fragment: Fragment, declared: ReadonlySet<string>): boolean => {
  if (fragment.name === undefined || call.name === "") return false
  const otherName = fragment.name !== call.name
  if (fragment.id !== undefined && call.serverId !== undefined && fragment.id !== call.serverId) {
    return otherName || isComplete(call.args)
  }
  if (otherName) return isComplete(call.args) || (call.args === "" && declared.has(call.name))
  // The same call again, as some servers send it at the end, has the same arguments, or none.
  return fragment.id === undefined && fragment.args !== "" && isComplete(call.args) &&
    !isRepetition(call.args, fragment.args)
}

/** A name may come in pieces, until arguments come or it is the name of a tool. */
const joinName = (call: Call, piece: string, declared: ReadonlySet<string>): string =>
  call.name === "" || (call.args === "" && piece !== call.name && !declared.has(call.name))
    ? call.name + piece
    : call.name

const isComplete = (args: string): boolean => args.endsWith("}") && Json.parseObject(args) !== undefined

const isRepetition = (args: string, fragment: string): boolean =>
  (fragment === args || (fragment.length > args.length && fragment === JSON.stringify(args))) && isComplete(args)

/** An object, or the text as it came: what can't be read must never become `{}`, and run. */
const parameters = (args: string): unknown => {
  if (args.trim() === "") return {}
  const value = Json.parse(args)
  if (Json.isObject(value)) return value
  // Encoded twice. Once is undone; more is the model's own doing.
  return (typeof value === "string" ? Json.parseObject(value) : undefined) ?? args
}
