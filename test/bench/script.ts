/**
 * What the model of a bench says, and what follows from it: the same for the server, for the models in memory and for
 * the checks.
 */

/** A conversation: in each turn but the last the model calls the tool, in the last it answers with a text. */
export interface Script {
  readonly turns: number
  /** Calls of each turn but the last. */
  readonly calls: number
  /** Tools a request offers; only the first is ever called. */
  readonly tools: number
  /** Characters of the argument `note`. */
  readonly note: number
  /** Deltas that the arguments of a call are streamed in. */
  readonly fragments: number
  /** Deltas that the text is streamed in. */
  readonly deltas: number
  /** Deltas in one chunk of the HTTP body. */
  readonly perChunk: number
  /** Microseconds between two chunks, so that each read finds one and not many; 0: all of them at once. */
  readonly pace: number
}

/** One turn, one delta. */
export const plain: Script = {
  turns: 1,
  calls: 0,
  tools: 1,
  note: 20,
  fragments: 1,
  deltas: 1,
  perChunk: 1,
  pace: 0
}

/** Arguments of the tool that all contestants have. */
export interface Arguments {
  readonly a: number
  readonly b: number
  readonly note: string
}

export interface Call {
  readonly id: string
  readonly arguments: Arguments
}

export const TOOL = "add"
export const PROMPT = "Add up, please."
export const MODEL = "bench-model"

/** What the tool answers. */
export const add = ({ a, b, note }: Arguments): number => a + b + note.length

/** The calls of a turn, counted from 0; none in the last. */
export const callsOf = (script: Script, turn: number): ReadonlyArray<Call> =>
  turn >= script.turns - 1 ? [] : Array.from({ length: script.calls }, (_, index) => ({
    id: `call_${turn}_${index}`,
    arguments: { a: turn, b: index, note: "n".repeat(script.note) }
  }))

/** The pieces of the last turn's text. */
export const deltasOf = (script: Script): ReadonlyArray<string> =>
  Array.from({ length: script.deltas }, (_, index) => ` word${index % 1000}`)

/** A tool as JSON Schema, the way the wire has it. */
export interface Definition {
  readonly name: string
  readonly description: string
  readonly parameters: {
    readonly type: "object"
    readonly properties: Readonly<Record<string, { readonly type: string; readonly description: string }>>
    readonly required: ReadonlyArray<string>
    readonly additionalProperties: false
  }
}

/** The definitions of a request: the tool, then others of the size that tools have. */
export const definitionsOf = (count: number): ReadonlyArray<Definition> =>
  Array.from({ length: count }, (_, index) =>
    index === 0
      ? definition(TOOL, "Adds two numbers and the length of a note", {
        a: { type: "number", description: "The first number" },
        b: { type: "number", description: "The second number" },
        note: { type: "string", description: "Any text" }
      })
      : definition(`tool_${index}`, `Looks up record ${index} of the archive and tells what it holds`, {
        key: { type: "string", description: "The key of the record, as the index lists it" },
        limit: { type: "number", description: "How many lines to return at most" },
        format: { type: "string", description: "How to lay the lines out: plain, table or json" }
      }))

const definition = (
  name: string,
  description: string,
  properties: Definition["parameters"]["properties"]
): Definition => ({
  name,
  description,
  parameters: { type: "object", properties, required: Object.keys(properties), additionalProperties: false }
})
