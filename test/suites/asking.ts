/*
 * Calls that wait for a person, whichever loop takes the turns.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  CycleStore,
  CycleStoreError,
  LlmCycle,
  PermissionPolicy,
  Question,
  type RegistrationError,
  SavedCycle,
  Tool,
  ToolOutput,
  ToolRegistry
} from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Deferred, Duration, Effect, Fiber, type Layer, Schema, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { callsOf, type Cycle, type Driver, makeCycle, outline, reasonOf, results } from "../llm/support.ts"
import { after, makeGate, settle, succeed, tool } from "../tools/support.ts"

const { calls, text } = ScriptedModel

const asking = PermissionPolicy.layerCheck(({ tool }) =>
  Effect.succeed(tool.name.startsWith("ask") ? PermissionPolicy.ask(`Run ${tool.name}?`) : PermissionPolicy.allow)
)

const FULL = new CycleStoreError.CycleStoreError({ reason: new CycleStoreError.Io({ description: "no space" }) })

/** A tool that counts with which arguments it ran. */
const counting = (name: string, options?: Partial<Tool.DynamicOptions<never>>) => {
  const ran: Array<unknown> = []
  return {
    ran,
    tool: tool(name, (args) =>
      Effect.sync(() => {
        ran.push(args)
        return name
      }), options)
  }
}

const Booking = Schema.Struct({ train: Schema.String, at: Schema.Date })

class Book extends Tool.Service<Book>()("book", {
  description: "Books a seat",
  success: Schema.String,
  asks: { context: Booking, answer: Schema.Literals(["window", "aisle"]) }
}) {}

const bookLayer = (rounds = 1) => {
  let asked = 0
  return Book.layer((_, reply) =>
    Effect.sync(() =>
      asked++ < rounds
        ? ToolOutput.awaitingInput({ context: { train: `IC ${asked}`, at: new Date(0) }, prompt: "Where?" })
        : `${reply?.context.train} ${reply?.context.at.getTime()} ${reply?.answer}`
    )
  )
}

/** The conversation as another process would go on with it. */
const elsewhere = Effect.fnUntraced(function*(
  cycle: Cycle,
  tools: ReadonlyArray<Tool.Tool>,
  script: ScriptedModel.Script,
  policy: Layer.Layer<PermissionPolicy.PermissionPolicy> = asking
): Effect.fn.Return<Cycle, RegistrationError.RegistrationError | Schema.SchemaError> {
  const codec = Schema.toCodecJson(SavedCycle.SavedCycle)
  const json = JSON.stringify(yield* Schema.encodeEffect(codec)(yield* cycle.saved))
  const saved = yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json))
  const registry = yield* Effect.provide(ToolRegistry.make, policy)
  yield* registry.registerAll(tools)
  const { model } = yield* ScriptedModel.make(script)
  return yield* LlmCycle.restore(saved).pipe(
    Effect.provideService(LanguageModel.LanguageModel, model),
    Effect.provideService(ToolRegistry.ToolRegistry, registry)
  )
})

export const askingSuite = ({ name, resume, submit }: Driver): void => {
  describe(name, () => {
    describe("without an approver", () => {
      // verifies: asking.suspend, asking.siblings
      it.effect("lets the other calls run, then waits with its question", () =>
        Effect.gen(function*() {
          const { ran, tool } = counting("ask_pay")
          const { check, cycle, requests } = yield* makeCycle({
            policy: asking,
            tools: [succeed("look"), tool],
            script: [{ text: "Well.", calls: callsOf("look", "ask_pay", "look").calls }, text("done")]
          })
          const suspended = yield* submit(cycle, "go")
          assert.strictEqual(suspended.reason, "awaiting-input")
          assert.strictEqual(suspended.text, "Well.")
          assert.deepStrictEqual(suspended.pending, yield* cycle.pending)
          const [question] = suspended.pending
          assert.strictEqual(suspended.pending.length, 1)
          assert.strictEqual(question?._tag, "Approval")
          assert.strictEqual(question?.prompt, "Run ask_pay?")
          assert.deepStrictEqual([question?.toolName, question?.turn, question?.index], ["ask_pay", 1, 1])
          assert.match(question!.id, /^[0-9a-f]{64}$/)
          assert.deepStrictEqual(ran, [])
          assert.deepStrictEqual(
            outline(yield* cycle.messages).at(-1),
            [
              "tool:look+!Not executed: it waits for an answer from the user.+look"
            ][0]
          )
          yield* check

          const done = yield* resume(cycle, [Question.approve(question!)])
          assert.strictEqual(done.text, "done")
          assert.strictEqual(done.turns, 2)
          assert.deepStrictEqual(ran, [{}])
          assert.strictEqual(outline((yield* requests)[1]!.prompt.content).at(-1), "tool:look+ask_pay+look")
          assert.deepStrictEqual(yield* cycle.pending, [])
          yield* check
        }))

      // verifies: asking.deny
      it.effect("tells the model why a call was denied, and does not run it", () =>
        Effect.gen(function*() {
          const { ran, tool } = counting("ask_pay")
          const { cycle } = yield* makeCycle({
            policy: asking,
            tools: [tool],
            script: [callsOf("ask_pay"), text("Pity.")]
          })
          const { pending } = yield* submit(cycle, "go")
          assert.strictEqual((yield* resume(cycle, [Question.deny(pending[0]!, "too dear")])).text, "Pity.")
          assert.deepStrictEqual(ran, [])
          assert.strictEqual(results(yield* cycle.messages)[0]?.result, "Error: not approved: too dear")
        }))

      // verifies: asking.edit
      it.effect("runs a call with the arguments a person gives it, and tells the model", () =>
        Effect.gen(function*() {
          const { ran, tool } = counting("ask_pay", {
            inputSchema: { type: "object", properties: { n: { type: "number", maximum: 5 } } }
          })
          const { cycle } = yield* makeCycle({
            policy: asking,
            tools: [tool],
            script: [calls({ name: "ask_pay", params: { n: 3 } }), text("done")]
          })
          const [question] = (yield* submit(cycle, "go")).pending
          const unfit = yield* reasonOf(resume(cycle, [Question.approve(question!, { input: { n: 9 } })]))
          assert.strictEqual(unfit._tag, "InvalidAnswer")
          assert.deepStrictEqual(yield* cycle.pending, [question!])
          yield* resume(cycle, [Question.approve(question!, { input: { n: 1 } })])
          assert.deepStrictEqual(ran, [{ n: 1 }])
          const [result] = results(yield* cycle.messages)
          assert.deepStrictEqual(result?.modelOutput?.map((part) => part.type === "text" ? part.text : ""), [
            "The user changed the arguments of this call before it ran: {\"n\":1}",
            "ask_pay"
          ])
          const call = (yield* cycle.messages).flatMap((message) => message.role === "assistant" ? message.content : [])
            .find((part) => part.type === "tool-call")
          assert.deepStrictEqual(call?.params, { n: 3 })
        }))

      it.effect("takes no arguments that cannot be written as JSON", () =>
        Effect.gen(function*() {
          const circular: Record<string, unknown> = {}
          circular["itself"] = circular
          for (const input of [{ n: 1n }, circular, undefined]) {
            const { ran, tool } = counting("ask_pay")
            const { cycle } = yield* makeCycle({ policy: asking, tools: [tool], script: [callsOf("ask_pay")] })
            const [question] = (yield* submit(cycle, "go")).pending
            const reason = yield* reasonOf(resume(cycle, [Question.approve(question!, { input })]))
            assert.strictEqual(reason._tag, "InvalidAnswer")
            assert.deepStrictEqual([ran, yield* cycle.pending], [[], [question!]])
          }
        }))

      it.effect("says of an approved call that did not start that it was interrupted", () =>
        Effect.gen(function*() {
          const first = makeGate("ask_first")
          const { cycle } = yield* makeCycle({
            policy: asking,
            tools: [first.tool, succeed("ask")],
            config: { toolConcurrency: 1 },
            script: [callsOf("ask_first", "ask")]
          })
          const { pending } = yield* submit(cycle, "go")
          const fiber = yield* Effect.forkChild(resume(cycle, pending.map((question) => Question.approve(question))))
          yield* first.entered
          yield* Fiber.interrupt(fiber)
          assert.strictEqual(
            results(yield* cycle.messages)[1]?.result,
            "Error: not executed: the conversation was interrupted before it ran"
          )
        }))

      it.effect("does not let an edit pass what the policy denies", () =>
        Effect.gen(function*() {
          const { ran, tool } = counting("ask_pay")
          const policy = PermissionPolicy.layerCheck(({ input }) =>
            Effect.succeed(JSON.stringify(input) === "{}" ? PermissionPolicy.ask("?") : PermissionPolicy.deny("no"))
          )
          const { cycle } = yield* makeCycle({ policy, tools: [tool], script: [callsOf("ask_pay"), text("done")] })
          const [question] = (yield* submit(cycle, "go")).pending
          const reason = yield* reasonOf(resume(cycle, [Question.approve(question!, { input: { all: true } })]))
          assert.strictEqual(reason._tag, "InvalidAnswer")
          assert.deepStrictEqual(ran, [])
        }))

      // verifies: asking.partial
      it.effect("goes on waiting for the questions that got no answer", () =>
        Effect.gen(function*() {
          const { ran, tool } = counting("ask_pay")
          const { check, cycle, requests } = yield* makeCycle({
            policy: asking,
            tools: [tool],
            script: [callsOf("ask_pay", "ask_pay"), text("done")]
          })
          const [first, second] = (yield* submit(cycle, "go")).pending
          assert.notStrictEqual(first?.id, second?.id)
          const still = yield* resume(cycle, [Question.approve(second!)])
          assert.strictEqual(still.reason, "awaiting-input")
          assert.deepStrictEqual(still.pending, [first!])
          assert.strictEqual(ran.length, 1)
          assert.strictEqual((yield* requests).length, 1)
          assert.strictEqual((yield* resume(cycle)).reason, "awaiting-input")
          yield* resume(cycle, [Question.approve(first!)])
          assert.strictEqual(ran.length, 2)
          yield* check
        }))

      // verifies: asking.bound, asking.once
      it.effect("takes no answer to another question, twice, of the wrong kind, or used before", () =>
        Effect.gen(function*() {
          const { ran, tool } = counting("ask_pay")
          const { cycle } = yield* makeCycle({
            policy: asking,
            tools: [tool],
            script: [callsOf("ask_pay"), callsOf("ask_pay"), text("done")]
          })
          const [question] = (yield* submit(cycle, "go")).pending
          const wrong: Record<string, ReadonlyArray<Question.Answer>> = {
            "another question": [new Question.Approve({ questionId: "0".repeat(64) })],
            "twice": [Question.approve(question!), Question.deny(question!, "no")],
            "the wrong kind": [Question.reply(question!, true)]
          }
          for (const answers of Object.values(wrong)) {
            assert.strictEqual((yield* reasonOf(resume(cycle, answers)))._tag, "InvalidAnswer")
            assert.deepStrictEqual(yield* cycle.pending, [question!])
          }
          assert.deepStrictEqual(ran, [])
          const [next] = (yield* resume(cycle, [Question.approve(question!)])).pending
          assert.strictEqual(ran.length, 1)
          assert.notStrictEqual(next?.id, question?.id)
          assert.strictEqual((yield* reasonOf(resume(cycle, [Question.approve(question!)])))._tag, "InvalidAnswer")
          assert.strictEqual(ran.length, 1)
        }))

      // verifies: asking.exclusive
      it.effect("takes nothing but answers until it has them, and none where it does not wait", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            policy: asking,
            tools: [succeed("ask")],
            script: [callsOf("ask"), text("done")]
          })
          assert.strictEqual((yield* reasonOf(resume(cycle)))._tag, "NothingToResume")
          const { pending } = yield* submit(cycle, "go")
          const before = yield* cycle.messages
          const reason = yield* reasonOf(submit(cycle, "and?"))
          assert.deepStrictEqual(reason._tag === "AwaitingAnswers" ? reason.questions : [], pending)
          assert.deepStrictEqual(yield* cycle.messages, before)
          yield* resume(cycle, [Question.approve(pending[0]!)])
          assert.strictEqual((yield* reasonOf(resume(cycle)))._tag, "NothingToResume")
        }))

      it.effect("drops its question where a sibling fails fatally", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({
            policy: asking,
            tools: [succeed("ask")],
            script: [callsOf("ask", "unknown"), text("done")]
          })
          assert.strictEqual((yield* reasonOf(submit(cycle, "go")))._tag, "ToolFailed")
          assert.deepStrictEqual(yield* cycle.pending, [])
          yield* check
          assert.strictEqual((yield* submit(cycle, "go on")).text, "done")
        }))
    })

    describe("needsApproval", () => {
      const needs: Record<string, [Tool.DynamicOptions<never>["needsApproval"], boolean]> = {
        "true": [true, true],
        "false": [false, false],
        "a function that says yes": [({ n }) => n === 1, true],
        "a function that says no": [({ n }) => n === 2, false],
        "an effect that says yes": [({ n }) => Effect.succeed(n === 1), true],
        "an effect that says no": [() => Effect.succeed(false), false],
        "an effect that dies": [() => Effect.die("bug"), true],
        "a function that throws": [() => {
          throw new Error("bug")
        }, true]
      }
      for (const [what, [needsApproval, asks]] of Object.entries(needs)) {
        // verifies: asking.needs-approval
        it.effect(`that is ${what} ${asks ? "asks" : "does not ask"}`, () =>
          Effect.gen(function*() {
            const { ran, tool } = counting("pay", { needsApproval })
            const { cycle } = yield* makeCycle({
              tools: [tool],
              script: [calls({ name: "pay", params: { n: 1 } }), text("done")]
            })
            assert.strictEqual((yield* submit(cycle, "go")).reason, asks ? "awaiting-input" : "stop")
            assert.strictEqual(ran.length, asks ? 0 : 1)
          }))
      }

      it.effect("asks where it does not come to an answer", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [counting("pay", { needsApproval: () => Effect.never }).tool],
            script: [callsOf("pay")]
          })
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          assert.strictEqual((yield* after(fiber, "1 hour")).reason, "awaiting-input")
        }))

      it.effect("does not ask about arguments that do not fit, or what the policy denies", () =>
        Effect.gen(function*() {
          const pay = tool("pay", () => Effect.succeed(1), {
            needsApproval: true,
            inputSchema: { type: "object", required: ["n"] }
          })
          const { cycle } = yield* makeCycle({ tools: [pay], script: [callsOf("pay"), text("done")] })
          assert.strictEqual((yield* submit(cycle, "go")).reason, "stop")
          const denied = yield* makeCycle({
            policy: PermissionPolicy.layerCheck(() => Effect.succeed(PermissionPolicy.deny("no"))),
            tools: [pay],
            script: [callsOf("pay")]
          })
          assert.strictEqual((yield* reasonOf(submit(denied.cycle, "go")))._tag, "ToolFailed")
        }))
    })

    describe("elsewhere", () => {
      // verifies: asking.elsewhere
      it.effect("goes on in a conversation that was stored as JSON", () =>
        Effect.gen(function*() {
          const before = counting("ask_pay")
          const { cycle } = yield* makeCycle({
            policy: asking,
            tools: [before.tool, succeed("look")],
            script: [callsOf("look", "ask_pay")]
          })
          const { pending } = yield* submit(cycle, "go")
          const there = counting("ask_pay")
          const other = yield* elsewhere(cycle, [there.tool, succeed("look")], [text("done")])
          assert.deepStrictEqual(yield* other.pending, pending)
          const done = yield* resume(other, [Question.approve(pending[0]!)])
          assert.deepStrictEqual([done.text, done.turns], ["done", 2])
          assert.deepStrictEqual([before.ran.length, there.ran.length], [0, 1])
          assert.deepStrictEqual(outline(yield* other.messages), [
            "user:go",
            "assistant:look()+ask_pay()",
            "tool:look+ask_pay",
            "assistant:done"
          ])
        }))

      // verifies: asking.changed
      it.effect("asks anew where the tool has changed", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            policy: asking,
            tools: [succeed("ask")],
            script: [callsOf("ask")]
          })
          const [question] = (yield* submit(cycle, "go")).pending
          const changed = counting("ask", { description: "Does something else" })
          const other = yield* elsewhere(cycle, [changed.tool], [text("done")])
          const again = yield* resume(other, [Question.approve(question!)])
          assert.strictEqual(again.reason, "awaiting-input")
          assert.deepStrictEqual(changed.ran, [])
          assert.notStrictEqual(again.pending[0]?.id, question?.id)
          assert.strictEqual((yield* resume(other, [Question.approve(again.pending[0]!)])).text, "done")
          assert.strictEqual(changed.ran.length, 1)
        }))

      it.effect("takes no two questions about a call, none without a submit, and none that shows another call", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ policy: asking, tools: [succeed("ask")], script: [callsOf("ask")] })
          const [question] = (yield* submit(cycle, "go")).pending
          const { submit: begun, ...saved } = yield* cycle.saved
          const there = counting("ask")
          const open = (changes: Partial<SavedCycle.SavedCycle>) =>
            elsewhere({ ...cycle, saved: Effect.succeed({ ...saved, ...changes }) }, [there.tool], [text("done")])

          const twice = yield* open({ submit: begun!, pending: [question!, question!] })
          assert.strictEqual((yield* resume(twice, [Question.approve(question!)])).text, "done")
          assert.strictEqual(there.ran.length, 1)

          const over = yield* open({})
          assert.deepStrictEqual(yield* over.pending, [])
          assert.strictEqual((yield* submit(over, "go on")).text, "done")

          if (question?._tag !== "Approval") return assert.fail("it asks for something else")
          const shown = new Question.Approval({ ...question, input: { all: true } })
          const other = yield* open({ submit: begun!, pending: [shown] })
          assert.strictEqual((yield* resume(other, [Question.approve(shown)])).reason, "awaiting-input")
          assert.strictEqual(there.ran.length, 1)
        }))

      it.effect("runs a call once that was asked about anew when it was interrupted", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ policy: asking, tools: [succeed("ask")], script: [callsOf("ask")] })
          yield* submit(cycle, "go")
          const again = yield* Deferred.make<void>()
          let asked = 0
          const changed = counting("ask", { description: "Does something else" })
          const other = yield* elsewhere(cycle, [changed.tool], [text("done")]).pipe(
            Effect.provideService(PermissionPolicy.Approver, (question) =>
              ++asked === 2
                ? Effect.andThen(Deferred.succeed(again, undefined), Effect.never)
                : Effect.succeed(Question.approve(question)))
          )
          const fiber = yield* Effect.forkChild(resume(other))
          yield* Deferred.await(again)
          assert.strictEqual((yield* other.pending).length, 1)
          yield* Fiber.interrupt(fiber)
          assert.strictEqual((yield* resume(other)).text, "done")
          assert.strictEqual(changed.ran.length, 1)
        }))

      it.effect("keeps one question about a call that is asked about anew and cannot be saved", () =>
        Effect.gen(function*() {
          const store = yield* CycleStore.CycleStore
          const open = Effect.fnUntraced(function*(ask: Tool.Tool, script: ScriptedModel.Script) {
            const registry = yield* Effect.provide(ToolRegistry.make, asking)
            yield* registry.registerAll([ask])
            const { model } = yield* ScriptedModel.make(script)
            let isFull = false
            const cycle = yield* LlmCycle.open("s").pipe(
              Effect.provideService(LanguageModel.LanguageModel, model),
              Effect.provideService(ToolRegistry.ToolRegistry, registry),
              Effect.provideService(CycleStore.CycleStore, {
                ...store,
                save: (saved) => Effect.suspend(() => isFull ? Effect.fail(FULL) : store.save(saved))
              })
            )
            return { cycle, fill: (full: boolean) => Effect.sync(() => isFull = full) }
          })
          const before = yield* open(succeed("ask"), [callsOf("ask")])
          const { pending } = yield* submit(before.cycle, "go")
          const changed = counting("ask", { description: "Does something else" })
          const { cycle, fill } = yield* open(changed.tool, [text("done")])
          yield* fill(true)
          const failed = resume(cycle, pending.map((question) => Question.approve(question)))
          assert.strictEqual((yield* reasonOf(failed))._tag, "StoreFailed")
          yield* fill(false)
          const left = yield* cycle.pending
          assert.deepStrictEqual(left.map(({ index }) => index), [0])
          assert.notStrictEqual(left[0]?.id, pending[0]?.id)
          assert.strictEqual((yield* resume(cycle, [Question.approve(left[0]!)])).text, "done")
          assert.strictEqual(changed.ran.length, 1)
        }).pipe(Effect.provide(CycleStore.layerMemory)))

      it.effect("is held to the policy of then", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ policy: asking, tools: [succeed("ask")], script: [callsOf("ask")] })
          const [question] = (yield* submit(cycle, "go")).pending
          const there = counting("ask")
          const denies = PermissionPolicy.layerCheck(() => Effect.succeed(PermissionPolicy.deny("not any more")))
          const other = yield* elsewhere(cycle, [there.tool], [text("done")], denies)
          assert.strictEqual((yield* reasonOf(resume(other, [Question.approve(question!)])))._tag, "ToolFailed")
          assert.deepStrictEqual(there.ran, [])
        }))

      // verifies: session.running-not-repeated
      it.effect("does not run again what was running", () =>
        Effect.gen(function*() {
          const gate = makeGate("work")
          const { cycle } = yield* makeCycle({ tools: [gate.tool], script: [callsOf("work")] })
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          yield* gate.entered
          const there = counting("work")
          const other = yield* elsewhere(cycle, [there.tool], [text("done")])
          assert.strictEqual(
            results(yield* other.messages)[0]?.result,
            "Interrupted while running: whether it took effect is unknown."
          )
          assert.strictEqual((yield* resume(other)).text, "done")
          assert.deepStrictEqual(there.ran, [])
          yield* Fiber.interrupt(fiber)
        }))
    })

    describe("with an approver", () => {
      // verifies: asking.approver
      it.effect("waits for its answer while the other calls run", () =>
        Effect.gen(function*() {
          const asked = yield* Deferred.make<Question.Question>()
          const answer = yield* Deferred.make<Question.Answer>()
          const { ran, tool } = counting("ask_pay")
          const look = makeGate("look")
          const { check, cycle } = yield* makeCycle({
            policy: asking,
            tools: [tool, look.tool],
            script: [callsOf("ask_pay", "look"), text("done")]
          }).pipe(
            Effect.provideService(
              PermissionPolicy.Approver,
              (question) => Effect.andThen(Deferred.succeed(asked, question), Deferred.await(answer))
            )
          )
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          const question = yield* Deferred.await(asked)
          yield* look.entered
          yield* look.leave
          yield* settle
          assert.deepStrictEqual(yield* cycle.pending, [question!])
          assert.deepStrictEqual(
            outline(yield* cycle.messages).at(-1),
            "tool:!Not executed: it waits for an answer from the user.+look"
          )
          assert.deepStrictEqual(ran, [])
          yield* Deferred.succeed(answer, Question.approve(question))
          assert.strictEqual((yield* Fiber.join(fiber)).text, "done")
          assert.strictEqual(ran.length, 1)
          yield* check
        }))

      it.effect("takes its silence for a no", () =>
        Effect.gen(function*() {
          const { ran, tool } = counting("ask_pay")
          const { cycle } = yield* makeCycle({
            policy: asking,
            tools: [tool],
            script: [callsOf("ask_pay"), text("Pity.")]
          }).pipe(
            Effect.provideService(PermissionPolicy.Approver, () => Effect.never),
            Effect.provideService(PermissionPolicy.ApprovalTimeout, Duration.minutes(1))
          )
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          yield* settle
          assert.strictEqual((yield* after(fiber, "1 minute")).text, "Pity.")
          assert.deepStrictEqual(ran, [])
          assert.strictEqual(
            results(yield* cycle.messages)[0]?.result,
            "Error: not approved: nobody answered in time"
          )
        }))

      it.effect("keeps its question when it is interrupted", () =>
        Effect.gen(function*() {
          const asked = yield* Deferred.make<void>()
          let answers = 0
          const { ran, tool } = counting("ask_pay")
          const { check, cycle } = yield* makeCycle({
            policy: asking,
            tools: [tool],
            script: [callsOf("ask_pay"), text("done")]
          }).pipe(
            Effect.provideService(PermissionPolicy.Approver, (question) =>
              answers++ > 0
                ? Effect.succeed(Question.approve(question))
                : Effect.andThen(Deferred.succeed(asked, undefined), Effect.never))
          )
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          yield* Deferred.await(asked)
          yield* Fiber.interrupt(fiber)
          assert.strictEqual((yield* cycle.pending).length, 1)
          yield* check
          assert.strictEqual((yield* resume(cycle)).text, "done")
          assert.strictEqual(ran.length, 1)
        }))
    })

    describe("a tool that asks back", () => {
      // verifies: output.awaiting-input
      it.effect("goes on with the answer and its own context", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({ tools: [Book], script: [callsOf("book"), text("done")] })
          const [question] = (yield* submit(cycle, "go")).pending
          assert.strictEqual(question?._tag, "Input")
          assert.strictEqual(question?.prompt, "Where?")
          assert.deepStrictEqual(question?._tag === "Input" ? question.context : undefined, {
            train: "IC 1",
            at: "1970-01-01T00:00:00.000Z"
          })
          assert.deepStrictEqual(question?._tag === "Input" ? question.answerSchema : undefined, {
            type: "string",
            enum: ["window", "aisle"]
          })
          const reason = yield* reasonOf(resume(cycle, [Question.reply(question!, "roof")]))
          assert.strictEqual(reason._tag, "InvalidAnswer")
          assert.strictEqual((yield* reasonOf(resume(cycle, [Question.approve(question!)])))._tag, "InvalidAnswer")
          yield* check
          assert.strictEqual((yield* resume(cycle, [Question.reply(question!, "aisle")])).text, "done")
          assert.strictEqual(results(yield* cycle.messages)[0]?.result, "IC 1 0 aisle")
        }).pipe(Effect.provide(bookLayer())))

      it.effect("may ask again, and is another question each time", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ tools: [Book], script: [callsOf("book"), text("done")] })
          const [first] = (yield* submit(cycle, "go")).pending
          const [second] = (yield* resume(cycle, [Question.reply(first!, "aisle")])).pending
          assert.notStrictEqual(first?.id, second?.id)
          yield* resume(cycle, [Question.reply(second!, "window")])
          assert.strictEqual(results(yield* cycle.messages)[0]?.result, "IC 2 0 window")
        }).pipe(Effect.provide(bookLayer(2))))

      it.effect("is not run again when the answer is no", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ tools: [Book], script: [callsOf("book"), text("done")] })
          const [question] = (yield* submit(cycle, "go")).pending
          yield* resume(cycle, [Question.deny(question!, "neither")])
          assert.strictEqual(results(yield* cycle.messages)[0]?.result, "Error: not approved: neither")
        }).pipe(Effect.provide(bookLayer())))

      it.effect("is answered by an approver at once, and stops asking some time", () =>
        Effect.gen(function*() {
          const endless = tool(
            "endless",
            () => Effect.succeed(ToolOutput.awaitingInput({ context: null, prompt: "?" }))
          )
          const { cycle } = yield* makeCycle({
            tools: [Book, endless],
            script: [callsOf("book", "endless"), text("done")]
          })
            .pipe(
              Effect.provideService(
                PermissionPolicy.Approver,
                (question) => Effect.succeed(Question.reply(question, "aisle"))
              )
            )
          assert.strictEqual((yield* submit(cycle, "go")).text, "done")
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), [
            "IC 3 0 aisle",
            "Error: not approved: it has asked too often"
          ])
        }).pipe(Effect.provide(bookLayer(3))))
    })

    describe("a streamed result", () => {
      class Steps extends Tool.Service<Steps>()("steps", {
        description: "Counts",
        success: Schema.Date,
        failure: Schema.Literal("stuck")
      }) {}

      // verifies: output.streamed
      it.effect("tells each value and ends with the last", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ tools: [Steps], script: [callsOf("steps"), text("done")] })
          assert.strictEqual((yield* submit(cycle, "go")).text, "done")
          assert.strictEqual(results(yield* cycle.messages)[0]?.result, "1970-01-01T00:00:00.002Z")
        }).pipe(
          Effect.provide(
            Steps.layer(() =>
              Effect.succeed(ToolOutput.streamed(Stream.map(Stream.make(0, 1, 2), (millis) => new Date(millis))))
            )
          )
        ))

      it.effect("fails as its stream does, or where there is no value", () =>
        Effect.gen(function*() {
          let failing = true
          const StepsLive = Steps.layer(() =>
            Effect.sync(() => ToolOutput.streamed(failing ? Stream.fail("stuck" as const) : Stream.empty))
          )
          yield* Effect.gen(function*() {
            const { cycle } = yield* makeCycle({
              tools: [Steps],
              script: [callsOf("steps"), callsOf("steps"), text("done")]
            })
            yield* submit(cycle, "go").pipe(Effect.forkChild, Effect.flatMap(Fiber.join))
            assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), ["stuck", "stuck"])
            failing = false
          }).pipe(Effect.provide(StepsLive))
        }))

      it.effect("is stopped by its timeout", () =>
        Effect.gen(function*() {
          const stopped = yield* Deferred.make<void>()
          const { cycle } = yield* makeCycle({
            tools: [
              tool("drip", () =>
                Effect.succeed(ToolOutput.streamed(
                  Stream.concat(Stream.make(1), Stream.never).pipe(
                    Stream.ensuring(Deferred.succeed(stopped, undefined))
                  )
                )))
            ],
            config: { toolTimeout: "1 second" },
            script: [callsOf("drip"), text("done")]
          })
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          yield* settle
          yield* TestClock.adjust("1 second")
          yield* Deferred.await(stopped)
          assert.strictEqual((yield* after(fiber, "1 second")).text, "done")
        }))
    })
  })
}
