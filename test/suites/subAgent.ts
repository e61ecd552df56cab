/*
 * Cycles as tools, whichever loop takes the turns of the cycle above.
 */
import { assert, describe, it } from "@effect/vitest"
import { type CycleConfig, PermissionPolicy, Question, SubAgent, Tool, ToolContext } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Deferred, Effect, Fiber } from "effect"
import { callsOf, type Driver, makeCycle, results } from "../llm/support.ts"
import { succeed, tool } from "../tools/support.ts"

const { calls, text } = ScriptedModel

const handOver = (prompt = "Do it.") => calls({ name: "helper", params: { prompt } })

const helper = (config?: SubAgent.Options["config"], options?: Partial<SubAgent.Options>) =>
  SubAgent.tool({ name: "helper", description: "Helps", config, ...options })

/** A model that plays both: what it is asked tells which one is meant. */
const both = (
  above: ReadonlyArray<ScriptedModel.ScriptedTurn>,
  below:
    | ReadonlyArray<ScriptedModel.ScriptedTurn>
    | ((request: ScriptedModel.ScriptedRequest) => ScriptedModel.ScriptedTurn)
): ScriptedModel.Script => {
  let a = 0
  let b = 0
  return (request) =>
    request.prompt.content.some((message) => message.role === "system" && message.content === "below")
      ? typeof below === "function" ? below(request) : below[b++] ?? text("below is done")
      : above[a++] ?? text("above is done")
}

export const subAgentSuite = ({ name, resume, submit }: Driver): void => {
  describe(name, () => {
    // verifies: sub-agent.answer
    it.effect("is told the task, uses its tools, and answers with its text", () =>
      Effect.gen(function*() {
        const { check, cycle, requests } = yield* makeCycle({
          tools: [helper({ system: "below" }), succeed("look", "a cat")],
          script: both([handOver("What is there?"), text("A cat.")], [callsOf("look"), text("I see a cat.")])
        })
        assert.strictEqual((yield* submit(cycle, "go")).text, "A cat.")
        assert.strictEqual(results(yield* cycle.messages)[0]?.result, "I see a cat.")
        const first = (yield* requests)[1]
        assert.deepStrictEqual(first?.prompt.content.map(({ role }) => role), ["system", "user"])
        yield* check
      }))

    // verifies: sub-agent.tools
    it.effect("is offered tools of the turn that calls it, narrowed, and never itself", () =>
      Effect.gen(function*() {
        const { cycle, requests } = yield* makeCycle({
          tools: [
            helper({ system: "below", tools: { tags: ["safe"] } }, { tags: ["safe"] }),
            succeed("a"),
            succeed("b")
          ].concat(
            tool("c", () => Effect.succeed(1), { tags: ["safe"] }),
            tool("d", () => Effect.succeed(1), { tags: ["safe"] })
          ),
          config: { prepareTurn: () => Effect.succeed({ tools: { names: ["helper", "a", "c"] } }) },
          script: both([handOver()], [])
        })
        yield* submit(cycle, "go")
        assert.deepStrictEqual((yield* requests)[1]?.tools.map((each) => each.name), ["c"])
      }))

    // verifies: sub-agent.policy
    it.effect("is held to the policy, and to the restrictions of every cycle above it and its own", () =>
      Effect.gen(function*() {
        const only = (...allowed: ReadonlyArray<string>): CycleConfig.CycleConfig["restrict"] => ({ tool }) =>
          Effect.succeed(
            allowed.includes(tool.name) ? PermissionPolicy.allow : PermissionPolicy.deny("restricted")
          )
        const policy = PermissionPolicy.layerCheck(({ tool }) =>
          Effect.succeed(tool.name === "never" ? PermissionPolicy.deny("no") : PermissionPolicy.allow)
        )
        for (
          const [called, above, below, runs] of [
            ["look", undefined, undefined, true],
            ["look", only("helper", "look"), only("look"), true],
            ["look", only("helper"), only("look"), false],
            ["look", only("helper", "look"), only(), false],
            ["look", only("helper"), undefined, false],
            ["look", undefined, only(), false],
            ["never", only("helper", "never"), only("never"), false]
          ] as const
        ) {
          let ran = 0
          const count = Effect.sync(() => ++ran)
          const { cycle } = yield* makeCycle({
            policy,
            tools: [
              helper({ system: "below", restrict: below, errorPolicy: { PermissionDenied: "tell" } }),
              tool("look", () => count),
              tool("never", () => count)
            ],
            config: { restrict: above },
            script: both([handOver()], [callsOf(called)])
          })
          yield* submit(cycle, "go")
          assert.strictEqual(ran, runs ? 1 : 0)
        }
      }))

    // verifies: sub-agent.usage
    it.effect("counts its tokens in the cycle above, and in its budget", () =>
      Effect.gen(function*() {
        const usage = { input: 10, output: 5 }
        const script = () =>
          both([{ ...handOver(), usage }, { text: "done", usage }], [{ ...callsOf("look"), usage }, {
            text: "done",
            usage
          }])
        const { cycle } = yield* makeCycle({ tools: [helper({ system: "below" }), succeed("look")], script: script() })
        const done = yield* submit(cycle, "go")
        assert.deepStrictEqual([done.usage.inputTokens.total, done.usage.outputTokens.total], [40, 20])
        assert.strictEqual((yield* cycle.usage).inputTokens.total, 40)

        const limited = yield* makeCycle({
          tools: [helper({ system: "below" }), succeed("look")],
          config: { budget: { tokens: 30 } },
          script: script()
        })
        const error = yield* Effect.flip(submit(limited.cycle, "go"))
        assert.strictEqual(error.reason._tag, "BudgetExceeded")
        assert.isAtMost((yield* limited.requests).length, 3)
      }))

    it.effect("tells the model above when it fails", () =>
      Effect.gen(function*() {
        const { cycle } = yield* makeCycle({
          tools: [helper({ system: "below", maxTurns: 1 }), succeed("look")],
          script: both([handOver()], [callsOf("look")])
        })
        assert.strictEqual((yield* submit(cycle, "go")).text, "above is done")
        assert.strictEqual(results(yield* cycle.messages)[0]?.result, "Error: no answer within 1 turn")
      }))

    // verifies: sub-agent.asking
    it.effect("waits with its calls: the answers go through the cycle above", () =>
      Effect.gen(function*() {
        let ran = 0
        const { check, cycle } = yield* makeCycle({
          tools: [
            helper({ system: "below" }),
            tool("pay", () => Effect.sync(() => `paid ${++ran}`), { needsApproval: true })
          ],
          script: both([handOver(), text("Thanks.")], [callsOf("pay", "pay"), text("Paid.")])
        })
        const suspended = yield* submit(cycle, "go")
        assert.strictEqual(suspended.reason, "awaiting-input")
        const [question] = suspended.pending
        const inner = yield* SubAgent.questions(question!)
        assert.deepStrictEqual(inner.map((each) => [each.toolName, each._tag]), [
          ["pay", "Approval"],
          ["pay", "Approval"]
        ])
        assert.strictEqual(ran, 0)
        const again = yield* resume(cycle, [SubAgent.reply(question!, [Question.approve(inner[0]!)])])
        assert.strictEqual(again.reason, "awaiting-input")
        assert.strictEqual(ran, 1)
        const [left] = again.pending
        assert.deepStrictEqual((yield* SubAgent.questions(left!)).map(({ id }) => id), [inner[1]?.id])
        // An answer to nothing loses nothing.
        const [still] = (yield* resume(cycle, [SubAgent.reply(left!, [Question.approve(inner[0]!)])])).pending
        assert.strictEqual(ran, 1)
        const done = yield* resume(cycle, [SubAgent.reply(still!, [Question.deny(inner[1]!, "no")])])
        assert.strictEqual(done.text, "Thanks.")
        assert.strictEqual(ran, 1)
        assert.strictEqual(results(yield* cycle.messages)[0]?.result, "Paid.")
        yield* check
      }))

    it.effect("is offered no more when it goes on than it was when it began", () =>
      Effect.gen(function*() {
        const { cycle, requests } = yield* makeCycle({
          tools: [
            helper({ system: "below" }),
            tool("pay", () => Effect.succeed("paid"), { needsApproval: true }),
            succeed("delete")
          ],
          config: { prepareTurn: () => Effect.succeed({ tools: { names: ["helper", "pay"] } }) },
          script: both([handOver()], [callsOf("pay")])
        })
        const [question] = (yield* submit(cycle, "go")).pending
        const inner = yield* SubAgent.questions(question!)
        yield* resume(cycle, [SubAgent.reply(question!, inner.map((each) => Question.approve(each)))])
        assert.deepStrictEqual((yield* requests)[2]?.tools.map((each) => each.name), ["pay"])
      }))

    it.effect("fails where its budget has paused it: what it said is no answer", () =>
      Effect.gen(function*() {
        const { cycle } = yield* makeCycle({
          tools: [helper({ system: "below", budget: { tokens: 1, onExceeded: "pause" } }), succeed("look")],
          script: both([handOver()], [{ ...callsOf("look"), text: "Let me look.", usage: { input: 10, output: 5 } }])
        })
        yield* submit(cycle, "go")
        const [result] = results(yield* cycle.messages)
        assert.isTrue(result?.isFailure)
        assert.match(String(result?.result), /paused before it had an answer: 15 tokens used of a budget of 1/)
      }))

    it.effect("is stopped with the cycle above", () =>
      Effect.gen(function*() {
        const entered = yield* Deferred.make<void>()
        const stopped = yield* Deferred.make<void>()
        const { check, cycle } = yield* makeCycle({
          tools: [
            helper({ system: "below" }),
            tool("hang", () =>
              Deferred.succeed(entered, undefined).pipe(
                Effect.andThen(Effect.never),
                Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
              ))
          ],
          script: both([handOver()], [callsOf("hang")])
        })
        const fiber = yield* Effect.forkChild(submit(cycle, "go"))
        yield* Deferred.await(entered)
        yield* Fiber.interrupt(fiber)
        yield* Deferred.await(stopped)
        yield* check
      }))

    it.effect("gives its calls identities of their own", () =>
      Effect.gen(function*() {
        const keys: Array<string> = []
        const { cycle } = yield* makeCycle({
          config: { sessionId: "s" },
          tools: [
            helper({ system: "below" }),
            tool("note", () =>
              ToolContext.ToolContext.useSync(({ idempotencyKey }) => {
                keys.push(idempotencyKey)
                return 1
              }))
          ],
          script: both(
            [calls({ name: "helper", params: { prompt: "a" } }, { name: "helper", params: { prompt: "b" } }, {
              name: "note",
              params: {}
            })],
            // Which of the two asks first is open.
            ({ prompt }) => prompt.content.some(({ role }) => role === "tool") ? text("done") : callsOf("note")
          )
        })
        yield* submit(cycle, "go")
        assert.deepStrictEqual(keys.toSorted(), ["s/1.0/1/0", "s/1.1/1/0", "s/1/2"])
      }))

    it.effect("runs nowhere else", () =>
      Effect.gen(function*() {
        const { registry } = yield* makeCycle({ tools: [helper()], script: [] })
        const error = yield* Effect.flip(registry.invoke({ id: "1", name: "helper", params: { prompt: "?" } }))
        assert.strictEqual(error.reason.message, "a sub-agent runs inside of a cycle only")
        assert.isTrue(Tool.isTool(helper()))
      }))
  })
}
