/*
 * The check of transcripts finds what providers refuse, and nothing else; and what is sent to a server keeps to it.
 */
import { assert, describe, it } from "@effect/vitest"
import { Question, Tool } from "agcore"
import { ProviderProfile } from "agcore/openai"
import { Effect, Fiber, Redacted } from "effect"
import { Prompt } from "effect/ai"
import * as Fs from "node:fs"
import { fileURLToPath } from "node:url"
import { makeGate, succeed } from "../tools/support.ts"
import { inOrder, makeHttpCycle, says } from "./http.ts"
import { accept, checkChat, checkPrompt, type Provider, type RuleId, ruleIds } from "./transcriptRules.ts"

type Json = Record<string, unknown>

const system = { role: "system", content: "Be brief." }
const user = { role: "user", content: "go" }
const said = { role: "assistant", content: "done" }
const calls = (...ids: ReadonlyArray<string>): Json => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "look", arguments: "{}" } }))
})
const calling = (name: string, args: string): Json => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: "aaaaaaaa1", type: "function", function: { name, arguments: args } }]
})
const result = (id: string): Json => ({ role: "tool", tool_call_id: id, content: "" })
const [a, b] = ["aaaaaaaa1", "aaaaaaaa2"] as const

const check = (messages: ReadonlyArray<Json>, provider: Provider = "any") =>
  Array.from(new Set(checkChat({ messages }, provider).map(({ rule }) => rule)))

/** A transcript that breaks each rule, and whose rule it is; what else it breaks follows from that. */
const broken: Record<RuleId, readonly [ReadonlyArray<Json>, Provider, ReadonlyArray<RuleId>?]> = {
  "says-something": [[system], "any", ["user-or-tool-last"]],
  "system-first": [[user, system, user], "any"],
  "user-first": [[system, said, user], "any"],
  "user-or-tool-last": [[user, said], "any"],
  "no-empty-message": [[user, { role: "assistant", content: "" }, user], "any"],
  "no-empty-text": [[{ role: "user", content: [{ type: "text", text: "" }] }], "any"],
  "calls-answered": [[user, calls(a, b), result(a), user, said, user], "any", ["as-many-results"]],
  "answered-once": [[user, calls(a, b), result(a), result(b), result(b)], "any", [
    "as-many-results",
    "results-in-order"
  ]],
  "results-answer-calls": [[user, calls(a), result(a), said, user, result(a)], "any"],
  "as-many-results": [[user, calls(a), result(a), result("other")], "any", ["results-answer-calls"]],
  "results-in-order": [[user, calls(a, b), result(b), result(a)], "any"],
  "results-named": [[], "any"],
  "ids-present": [[user, calls(""), result("")], "any"],
  "ids-unique": [[user, calls(a), result(a), calls(a), result(a)], "any"],
  "names": [[user, calling("a b", "{}"), result(a)], "any"],
  "object-arguments": [[user, calling("look", "[1]"), result(a)], "gemini"],
  "ids-of-forty": [[user, calls("a".repeat(41)), result("a".repeat(41))], "openai"],
  "ids-of-nine": [[user, calls("call_1"), result("call_1")], "mistral"],
  "ids-plain": [[user, calls("a.1"), result("a.1")], "anthropic"],
  "assistant-after-tool": [[user, calls(a), result(a), user], "mistral"],
  "calls-after-input": [[user, said, calls(a), result(a)], "gemini"]
}

describe("the check of transcripts", () => {
  // verifies: transcript.rules
  it("finds each violation, and for whom it is one", () => {
    for (const rule of ruleIds) {
      const [messages, provider, others = []] = broken[rule]
      if (messages.length === 0) continue
      assert.sameMembers(check(messages, provider), [rule, ...others], rule)
      if (provider !== "any") assert.deepStrictEqual(check(messages), [], rule)
    }
  })

  it("takes what every provider takes", () => {
    const whole = [system, user, calls(a, b), result(a), result(b), said, user, calls("aaaaaaaa3"), result("aaaaaaaa3")]
    for (const provider of ["any", "openai", "anthropic", "gemini", "mistral"] as const) {
      assert.deepStrictEqual(check(whole, provider), [], provider)
    }
  })

  it("reads prompts of effect/ai", () => {
    const of = (id: string, name: string) =>
      Prompt.make([
        { role: "user", content: [{ type: "text", text: "go" }] },
        { role: "assistant", content: [{ type: "tool-call", id: "1", name: "look", params: {} }] },
        { role: "tool", content: [{ type: "tool-result", id, name, isFailure: false, result: 1 }] }
      ]).content
    const rules = (messages: ReadonlyArray<Prompt.Message>) => checkPrompt(messages).map(({ rule }) => rule)
    assert.deepStrictEqual(rules(of("1", "look")), [])
    assert.deepStrictEqual(rules(of("1", "see")), ["results-named"])
    assert.deepStrictEqual(rules(of("2", "look")), ["calls-answered", "results-answer-calls"])
    assert.deepStrictEqual(rules(of("1", "look").slice(0, 2)), [
      "user-or-tool-last",
      "calls-answered",
      "as-many-results"
    ])
    assert.throws(() => accept(checkPrompt([])), "says-something at 0")
  })

  it("is what the document says", () => {
    const document = Fs.readFileSync(fileURLToPath(new URL("../../docs/transcripts.md", import.meta.url)), "utf8")
    const rows = document.split("\n").filter((line) => line.startsWith("| `"))
    assert.sameMembers(rows.map((line) => /^\| `([^`]+)`/.exec(line)?.[1] ?? ""), [...ruleIds])
    const sources = new Set(Array.from(document.matchAll(/^\[([^\]]+)\]: https:/gm), ([, name]) => name))
    for (const line of rows) {
      const named = Array.from((line.split("|")[3] ?? "").matchAll(/\]\[([^\]]+)\]/g), ([, name]) => name)
      assert.isNotEmpty(named, line)
      for (const name of named) assert.isTrue(sources.has(name), name)
    }
  })
})

const PROFILES: ReadonlyArray<readonly [Provider, ProviderProfile.ProviderProfile]> = [
  ["openai", ProviderProfile.openai],
  ["mistral", ProviderProfile.mistral],
  ["gemini", ProviderProfile.gemini]
]

describe("what a server is sent", () => {
  for (const [provider, profile] of PROFILES) {
    // verifies: transcript.accepted
    it.live(`is what ${profile.name} takes, when calls fail, wait, repeat their ids and are no JSON`, () =>
      Effect.gen(function*() {
        const pay = Tool.dynamic({
          name: "pay",
          description: "Pays",
          inputSchema: { type: "object" },
          needsApproval: true,
          handler: () => Effect.succeed("paid")
        })
        // The server gives every batch the same ids.
        const look = { name: "look", arguments: "{}" }
        const { cycle, server } = yield* makeHttpCycle({
          tools: [succeed("look"), pay],
          config: { system: "Be brief.", errorPolicy: { NotFound: "tell" } },
          model: { profile, apiKey: Redacted.make("key") },
          respond: inOrder(
            says({ text: "Well.", calls: [look, { name: "pay", arguments: "{}" }, look] }),
            says({ calls: [{ name: "nowhere", arguments: "{}" }, { name: "look", arguments: "{\"n\":" }] }),
            says({ calls: [look, look] })
          )
        })
        const { pending } = yield* cycle.submitWithTools("go")
        yield* cycle.resume(pending.map((question) => Question.deny(question, "no")))
        yield* cycle.submitWithTools("on")
        for (let request = 0; request < 5; request++) {
          const { body } = yield* server.received
          accept(checkChat(body, provider))
        }
      }).pipe(Effect.scoped))
  }

  it.live("is what openai and gemini take after an interruption", () =>
    Effect.forEach(
      PROFILES.filter(([provider]) => provider !== "mistral"),
      ([provider, profile]) =>
        Effect.gen(function*() {
          const gate = makeGate("wait")
          const { cycle, server } = yield* makeHttpCycle({
            tools: [gate.tool],
            model: { profile, apiKey: Redacted.make("key") },
            respond: inOrder(says({ calls: [{ name: "wait", arguments: "{}" }] }))
          })
          const fiber = yield* Effect.forkChild(cycle.submitWithTools("go"))
          yield* gate.entered
          yield* Fiber.interrupt(fiber)
          yield* cycle.submitWithTools("on")
          yield* server.received
          accept(checkChat((yield* server.received).body, provider))
        }).pipe(Effect.scoped),
      { discard: true }
    ))
})
