/**
 * The wire recordings in `fixtures/chat-completions`, and what they must give.
 */
import { assert } from "@effect/vitest"
import { Toolkit } from "effect/ai"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Get, type Outcome, Put } from "./support.ts"

interface ExpectedCall {
  readonly id: string
  readonly name: string
  readonly arguments?: unknown
  readonly invalidArguments?: string
}

export interface Recording {
  readonly file: string
  readonly title: string
  readonly tools: ReadonlyArray<string>
  readonly status: number
  readonly contentType: string
  readonly chunks: ReadonlyArray<string>
  readonly chunkEncoding?: "base64"
  readonly connectionCutAfterLastChunk?: boolean
  readonly expect: {
    readonly outcome: "tool-calls" | "stop" | "length" | "other" | "incomplete" | "error"
    readonly text?: string
    readonly reasoning?: string
    readonly calls?: ReadonlyArray<ExpectedCall>
    readonly usage?: Readonly<Record<string, number>>
    readonly error?: string
  }
}

const folder = join(import.meta.dirname, "../fixtures/chat-completions")

export const recordings: ReadonlyArray<Recording> = readdirSync(folder).sort().map((file) =>
  Object.assign(JSON.parse(readFileSync(join(folder, file), "utf8")), { file })
)

export const toolkit = ({ tools }: Recording): Toolkit.Any | undefined =>
  tools.length === 0 ? undefined : Toolkit.make(...[Get, Put].filter((tool) => tools.includes(tool.name)))

export const bytes = ({ chunkEncoding, chunks }: Recording): ReadonlyArray<Buffer> =>
  chunks.map((chunk) => Buffer.from(chunk, chunkEncoding ?? "utf8"))

export const end = (recording: Recording): "end" | "cut" => recording.connectionCutAfterLastChunk ? "cut" : "end"

const finishWords = {
  "tool-calls": "tool_calls",
  stop: "stop",
  length: "length",
  other: "eos",
  incomplete: null,
  error: "error"
}

/** The whole answer a server would give if it did not stream. */
export const toDocument = ({ expect }: Recording): object => ({
  id: "c1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{
    index: 0,
    message: {
      role: "assistant",
      content: expect.text ?? null,
      ...(expect.reasoning ? { reasoning_content: expect.reasoning } : {}),
      ...(expect.calls?.length
        ? {
          tool_calls: expect.calls.map((call) => ({
            ...(call.id === "generated" ? {} : { id: call.id }),
            type: "function",
            function: { name: call.name, arguments: call.invalidArguments ?? JSON.stringify(call.arguments) }
          }))
        }
        : {})
    },
    finish_reason: finishWords[expect.outcome]
  }],
  ...(expect.usage === undefined ? {} : { usage: expect.usage })
})

export const verify = ({ expect }: Recording, got: Outcome): void => {
  assert.strictEqual(got.text, expect.text ?? "")
  assert.strictEqual(got.reasoning, expect.reasoning ?? "")
  if (expect.outcome === "error") {
    assert.isDefined(got.error)
    assert.include(got.error.message, expect.error ?? "")
    assert.deepStrictEqual(got.calls, [])
    return
  }
  assert.isUndefined(got.error)
  assert.strictEqual(got.finish, expect.outcome === "incomplete" ? "unknown" : expect.outcome)
  const calls = expect.calls ?? []
  assert.deepStrictEqual(
    got.calls.map(({ name, params }) => ({ name, params })),
    calls.map((call) => ({ name: call.name, params: call.invalidArguments ?? call.arguments }))
  )
  assert.strictEqual(new Set(got.calls.map((call) => call.id)).size, calls.length)
  for (const [position, call] of calls.entries()) {
    const id = got.calls[position]?.id
    assert.notStrictEqual(id, "")
    if (call.id !== "generated" && call.id !== "made unique") assert.strictEqual(id, call.id)
  }
  assert.strictEqual(got.usage?.inputTokens.total, expect.usage?.["prompt_tokens"])
  assert.strictEqual(got.usage?.outputTokens.total, expect.usage?.["completion_tokens"])
}
