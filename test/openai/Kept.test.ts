/**
 * What is kept of earlier requests changes nothing in the next.
 */
import { assert, describe, it } from "@effect/vitest"
import { type HttpTransport, OpenAiModel, ProviderProfile } from "agcore/openai"
import { Effect, Redacted, Schema } from "effect"
import { Prompt, Tool, Toolkit } from "effect/ai"
import { Get, Put } from "./support.ts"

/** A server in memory that answers everything and remembers what it was asked. */
const remembering = () => {
  const bodies: Array<string> = []
  const answer = new TextEncoder().encode(JSON.stringify({ choices: [{ message: { content: "hi" } }] }))
  const transport: HttpTransport.HttpTransport = ({ body }) => {
    bodies.push(body.map(({ text }) => text).join(""))
    const pieces = [[answer], []]
    return {
      head: Promise.resolve({ status: 200, header: () => "application/json" }),
      read: () => Promise.resolve(pieces.shift() ?? []),
      cancel: () => {}
    }
  }
  return { bodies, transport }
}

const Other = Tool.make("get", { description: "Gets otherwise", parameters: Schema.Struct({ y: Schema.String }) })

interface Asked {
  readonly prompt: Prompt.Prompt
  readonly tools?: ReadonlyArray<typeof Get | typeof Put | typeof Other>
  readonly parameters?: OpenAiModel.Parameters
}

/** The bodies of some requests, all to one model or each to a new one. */
const bodies = (profile: ProviderProfile.ProviderProfile, asked: ReadonlyArray<Asked>, together: boolean) =>
  Effect.gen(function*() {
    const server = remembering()
    const make = OpenAiModel.make({
      model: "m",
      profile,
      baseUrl: "http://model.test/v1",
      apiKey: Redacted.make("sk-0123456789"),
      transport: server.transport
    })
    const one = yield* make
    for (const { parameters = {}, prompt, tools = [] } of asked) {
      const model = together ? one : yield* make
      yield* model.generateText({
        prompt,
        toolkit: Toolkit.make(...tools),
        disableToolCallResolution: true,
        toolCallValidation: "deferred"
      }).pipe(Effect.provideService(OpenAiModel.CurrentParameters, parameters))
    }
    return server.bodies
  })

const presets = Object.entries(ProviderProfile).filter((entry): entry is [string, ProviderProfile.ProviderProfile] =>
  typeof entry[1] === "object"
).map(([name, profile]) => ({ name, profile }))

const image = { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2, 3]) } as const
const result = (id: string, value: unknown, more = {}) =>
  ({ type: "tool-result", id, name: "get", isFailure: false, result: value, ...more }) as const
const thinking = (text: string) =>
  ({ type: "reasoning", text, options: { openai: { field: "reasoning", details: [{ type: "x", text }] } } }) as const
const call = (id: string) => ({ type: "tool-call", id, name: "get", params: { x: 1 } }) as const

const conversation = Prompt.make([
  { role: "system", content: "Be brief" },
  { role: "user", content: [{ type: "text", text: "look" }, image] },
  { role: "assistant", content: [thinking("first"), { type: "text", text: "I look" }, call("a"), call("b")] },
  { role: "tool", content: [result("a", 1, { modelOutput: [{ type: "text", text: "a chart" }, image] })] },
  { role: "tool", content: [result("b", { ok: true })] },
  { role: "assistant", content: [thinking("second"), call("c")] },
  { role: "tool", content: [result("c", null, { modelOutput: [image] })] },
  { role: "assistant", content: "so" },
  { role: "user", content: "x".repeat(100_000) },
  { role: "assistant", content: [thinking("third"), { type: "text", text: "yes" }] },
  { role: "user", content: "and?" }
])

describe("what is kept", () => {
  // verifies: openai-speed.kept
  it.effect.each(presets)(
    "of the messages of $name is what they would be written as anew",
    ({ profile }) =>
      Effect.gen(function*() {
        const prefixes = conversation.content.map((_, position) => ({
          prompt: Prompt.fromMessages(conversation.content.slice(0, position + 1))
        }))
        // To and fro: messages before a new user message, and without it.
        const asked = [...prefixes, ...prefixes.toReversed(), ...prefixes]
        assert.deepStrictEqual(yield* bodies(profile, asked, true), yield* bodies(profile, asked, false))
      })
  )

  it.effect("of tools is what they are now", () =>
    Effect.gen(function*() {
      const prompt = Prompt.make("hello")
      const asked = [[Get], [Get, Put], [Put, Get], [Put], [], [Other], [Get], [Get]].map((tools) => ({
        prompt,
        tools
      }))
      for (const { profile } of presets) {
        assert.deepStrictEqual(yield* bodies(profile, asked, true), yield* bodies(profile, asked, false))
      }
    }))

  it.effect("gives way to the fields of the body that were asked for", () =>
    Effect.gen(function*() {
      const asked: ReadonlyArray<Asked> = [
        { prompt: conversation },
        { prompt: conversation, parameters: { temperature: 1, body: { messages: [], tools: [1], temperature: 0 } } },
        { prompt: conversation, parameters: { body: { model: "n" } } }
      ]
      const [, second, third] = yield* bodies(ProviderProfile.tolerant, asked, true)
      assert.deepStrictEqual(JSON.parse(second!), { model: "m", messages: [], temperature: 0, tools: [1] })
      assert.strictEqual(JSON.parse(third!).model, "n")
    }))
})
