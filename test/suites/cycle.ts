/*
 * What a submit does, whichever loop takes its turns.
 */
import { assert, describe, it } from "@effect/vitest"
import { CycleConfig, LlmCycle, PermissionPolicy, Tool, ToolContext, ToolError, ToolOutput, ToolRegistry } from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Context, Deferred, Duration, Effect, Fiber, Ref, Schedule, Schema } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  callsOf,
  checkMessages,
  type Cycle,
  type Driver,
  makeCycle,
  outline,
  overloaded,
  reasonOf,
  refused,
  results,
  untilEnd
} from "../llm/support.ts"
import { makeGate, settle, succeed, tool } from "../tools/support.ts"

const { calls, text } = ScriptedModel

class Add extends Tool.Service<Add>()("add", {
  description: "Adds two numbers",
  parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
  success: Schema.Finite
}) {}

const AddLive = Add.layer(({ a, b }) => Effect.succeed(a + b))

const failing = (name: string, reason: ToolError.ToolErrorReason) =>
  tool(name, () => Effect.fail(new ToolError.ToolError({ toolName: name, reason })))

const denyAll = PermissionPolicy.layerCheck(() => Effect.succeed(PermissionPolicy.deny("no")))

export const cycleSuite = ({ name, submit }: Driver): void => {
  // ---------------------------------------------------------------------------

  const acceptance = () =>
    describe("acceptance", () => {
      // verifies: cycle.tools
      it.effect("a two-round tool conversation", () =>
        Effect.gen(function*() {
          const { check, cycle, requests } = yield* makeCycle({
            tools: [Add],
            script: [
              { text: "Let me see.", calls: [{ name: "add", params: { a: 1, b: 2 } }] },
              calls({ name: "add", params: { a: 3, b: 4 } }),
              text("3 and 7.")
            ]
          })
          const result = yield* submit(cycle, "1 + 2, then 3 + 4?")
          assert.strictEqual(result.text, "3 and 7.")
          assert.strictEqual(result.turns, 3)
          assert.strictEqual(result.reason, "stop")
          assert.deepStrictEqual(outline(yield* cycle.messages), [
            "user:1 + 2, then 3 + 4?",
            "assistant:Let me see.+add()",
            "tool:3",
            "assistant:add()",
            "tool:7",
            "assistant:3 and 7."
          ])
          assert.deepStrictEqual(
            outline((yield* requests)[2]!.prompt.content),
            outline(yield* cycle.messages).slice(0, 5)
          )
          yield* check
        }).pipe(Effect.provide(AddLive)))

      // verifies: cycle.max-turns
      it.effect("maxTurns ends with a typed error", () =>
        Effect.gen(function*() {
          let runs = 0
          const { check, cycle, requests } = yield* makeCycle({
            tools: [tool("again", () => Effect.sync(() => ++runs))],
            config: { maxTurns: 3 },
            script: (request, count) => request.toolChoice === "none" || count > 3 ? text("done") : callsOf("again")
          })
          const error = yield* Effect.flip(submit(cycle, "go"))
          assert.strictEqual(error.reason._tag, "MaxTurnsExceeded")
          assert.strictEqual(error.message, "no answer within 3 turns")
          assert.strictEqual(error.turns, 3)
          assert.strictEqual(error.invocations.length, 3)
          assert.strictEqual((yield* requests).length, 3)
          assert.strictEqual(runs, 2)
          const last = results(yield* cycle.messages).at(-1)
          assert.strictEqual(last?.isFailure, true)
          assert.strictEqual(last?.result, "Error: not executed: the limit of turns was reached")
          yield* check
          assert.strictEqual((yield* submit(cycle, "and now?")).text, "done")
        }))

      // verifies: cycle.max-turns-answer
      it.effect("the last allowed turn may answer", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [succeed("look")],
            config: { maxTurns: 2 },
            script: [callsOf("look"), text("seen")]
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "seen")
        }))

      it.effect("ten turns are allowed where nothing is said", () =>
        Effect.gen(function*() {
          const { cycle, requests } = yield* makeCycle({ tools: [succeed("look")], script: () => callsOf("look") })
          assert.strictEqual((yield* reasonOf(submit(cycle, "go")))._tag, "MaxTurnsExceeded")
          assert.strictEqual((yield* requests).length, CycleConfig.defaultMaxTurns)
          assert.strictEqual(CycleConfig.defaultMaxTurns, 10)
        }))

      // verifies: cycle.messages
      it.effect("tool messages are in the history", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [succeed("a", { n: 1 }), succeed("b")],
            script: [callsOf("a", "b"), text("done")]
          })
          yield* submit(cycle, "go")
          const messages = yield* cycle.messages
          assert.deepStrictEqual(messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"])
          assert.deepStrictEqual(
            results(messages).map(({ id, isFailure, name, result }) => ({ id, isFailure, name, result })),
            [
              { id: "call-1-1", isFailure: false, name: "a", result: { n: 1 } },
              { id: "call-1-2", isFailure: false, name: "b", result: "b" }
            ]
          )
        }))

      it.effect("the context reaches execute with session, trace and cancellation", () =>
        Effect.gen(function*() {
          const seen: Array<ToolContext.ToolContext["Service"]> = []
          const aborted = yield* Deferred.make<void>()
          const { cycle } = yield* makeCycle({
            tools: [
              tool("look", () =>
                Effect.gen(function*() {
                  const context = yield* ToolContext.ToolContext
                  seen.push(context)
                  yield* Ref.update(context.sharedState, (state) => new Map(state).set(`${state.size}`, true))
                  return (yield* Ref.get(context.sharedState)).size
                })),
              tool("hang", () =>
                Effect.gen(function*() {
                  const context = yield* ToolContext.ToolContext
                  seen.push(context)
                  context.signal.addEventListener("abort", () => Deferred.doneUnsafe(aborted, Effect.void))
                  return yield* Effect.never
                }))
            ],
            config: { sessionId: "session-7" },
            script: [callsOf("look", "look"), callsOf("look"), text("done"), callsOf("hang")]
          })
          const span = yield* Effect.makeSpan("test")
          yield* submit(cycle, "go").pipe(Effect.withParentSpan(span))
          assert.strictEqual(cycle.sessionId, "session-7")
          assert.deepStrictEqual(
            seen.map(({ idempotencyKey, index, sessionId, toolCallId, traceId, turn }) => [
              sessionId,
              traceId === span.traceId,
              toolCallId,
              turn,
              index,
              idempotencyKey
            ]),
            [
              ["session-7", true, "call-1-1", 1, 0, "session-7/1/0"],
              ["session-7", true, "call-1-2", 1, 1, "session-7/1/1"],
              ["session-7", true, "call-2-1", 2, 0, "session-7/2/0"]
            ]
          )
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), [1, 2, 3])
          const fiber = yield* Effect.forkChild(submit(cycle, "again"))
          yield* settle
          assert.strictEqual(seen.at(-1)?.turn, 4)
          yield* Fiber.interrupt(fiber)
          yield* Deferred.await(aborted)
        }))
    })

  // ---------------------------------------------------------------------------

  const deciding = () =>
    // verifies: cycle.incomplete, cycle.finish-words, cycle.done
    describe("what decides", () => {
      for (const reason of ["stop", "other", "length", "content-filter"] as const) {
        it.effect(`${reason} without calls is an answer`, () =>
          Effect.gen(function*() {
            const { cycle } = yield* makeCycle({ script: [{ text: "so far", finishReason: reason }] })
            const result = yield* submit(cycle, "go")
            assert.deepStrictEqual([result.text, result.reason], ["so far", reason])
          }))
      }

      for (const reason of ["error", "unknown", null] as const) {
        it.effect(`${reason} without calls is incomplete, and its text is kept`, () =>
          Effect.gen(function*() {
            const { check, cycle } = yield* makeCycle({
              script: [{ text: "so far", finishReason: reason }, text("ok")]
            })
            const error = yield* reasonOf(submit(cycle, "go"))
            assert.strictEqual(error._tag, "IncompleteResponse")
            assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:so far"])
            assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
            yield* check
          }))
      }

      for (const reason of ["tool-calls", "stop", "other"] as const) {
        it.effect(`${reason} with calls runs them`, () =>
          Effect.gen(function*() {
            const { cycle } = yield* makeCycle({
              tools: [succeed("look")],
              script: [{ ...callsOf("look"), finishReason: reason }, text("seen")]
            })
            assert.strictEqual((yield* submit(cycle, "go")).text, "seen")
          }))
      }

      for (const reason of ["length", "content-filter", "error", "unknown", "pause", null] as const) {
        it.effect(`${reason} with calls runs none of them`, () =>
          Effect.gen(function*() {
            const { check, cycle } = yield* makeCycle({
              tools: [tool("look", () => Effect.die("it ran"))],
              script: [{ ...callsOf("look", "look"), finishReason: reason }, text("ok")]
            })
            const error = yield* Effect.flip(submit(cycle, "go"))
            assert.strictEqual(error.reason._tag, "IncompleteResponse")
            assert.deepStrictEqual(error.invocations.map(({ error }) => error?.reason._tag), [
              "NotExecuted",
              "NotExecuted"
            ])
            assert.deepStrictEqual(results(yield* cycle.messages).map(({ isFailure }) => isFailure), [true, true])
            assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
            yield* check
          }))
      }

      // verifies: cycle.pause
      it.effect("pause asks again", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ script: [{ text: "wait", finishReason: "pause" }, text("done")] })
          const result = yield* submit(cycle, "go")
          assert.deepStrictEqual([result.text, result.turns], ["done", 2])
          assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:wait", "assistant:done"])
        }))

      it.effect("pause is bounded by maxTurns", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ script: () => ({ text: "wait", finishReason: "pause" }) })
          assert.strictEqual((yield* reasonOf(submit(cycle, "go")))._tag, "MaxTurnsExceeded")
        }))

      it.effect("tool-calls without calls is an answer", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ script: [{ text: "done", finishReason: "tool-calls" }] })
          assert.strictEqual((yield* submit(cycle, "go")).text, "done")
        }))

      it.effect("an empty answer adds no message", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({ script: [{}, text("ok")] })
          assert.strictEqual((yield* submit(cycle, "go")).text, "")
          assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
          assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "user:on", "assistant:ok"])
          yield* check
        }))
    })

  // ---------------------------------------------------------------------------

  const refusing = () =>
    describe("a refused call", () => {
      // verifies: cycle.fatal, cycle.fatal-before-run
      it.effect("that is unknown ends the submit before anything ran", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({
            tools: [tool("look", () => Effect.die("it ran"))],
            script: [callsOf("look", "nothing", "look"), text("ok")]
          })
          const error = yield* Effect.flip(submit(cycle, "go"))
          assert.strictEqual(error.reason._tag, "ToolFailed")
          assert.strictEqual(error.message, "Tool \"nothing\": not found; available: look")
          assert.deepStrictEqual(error.invocations.map(({ error }) => error?.reason._tag), [
            "NotExecuted",
            "NotFound",
            "NotExecuted"
          ])
          yield* check
          assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
        }))

      it.effect("that is denied ends the submit before anything ran, and names nothing to the model", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({ tools: [succeed("look")], policy: denyAll, script: [callsOf("look")] })
          const error = yield* Effect.flip(submit(cycle, "go"))
          assert.strictEqual(error.message, "Tool \"look\": permission denied: no")
          assert.deepStrictEqual(outline(yield* cycle.messages), [
            "user:go",
            "assistant:look()",
            "tool:!Permission denied."
          ])
        }))

      // verifies: error.policy
      it.effect("is told to the model where the policy says so", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [succeed("look")],
            policy: denyAll,
            config: { errorPolicy: { PermissionDenied: "tell", NotFound: "tell" } },
            script: [callsOf("look", "nothing"), text("I may not.")]
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "I may not.")
        }))

      // verifies: cycle.recoverable
      it.effect("for its arguments leaves its siblings alone", () =>
        Effect.gen(function*() {
          const { cycle, requests } = yield* makeCycle({
            tools: [Add],
            script: [
              calls(
                { name: "add", params: { a: "one" } },
                { name: "add", params: "{\"a\": 1, \"b\"" },
                { name: "add", params: [1, 2] },
                { name: "add", params: null },
                { name: "add", params: { a: 1, b: 2 } }
              ),
              text("3")
            ]
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "3")
          const told = results((yield* requests)[1]!.prompt.content)
          assert.deepStrictEqual(told.map(({ isFailure }) => isFailure), [true, true, true, true, false])
          assert.match(String(told[1]?.result), /^Error: invalid arguments: expected a JSON object, got text/)
        }).pipe(Effect.provide(AddLive)))

      it.effect("asks the policy before it looks at the arguments", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [Add],
            policy: denyAll,
            script: [calls({ name: "add", params: "no JSON" })]
          })
          const reason = yield* reasonOf(submit(cycle, "go"))
          assert.strictEqual(reason._tag === "ToolFailed" && reason.error.reason._tag, "PermissionDenied")
        }).pipe(Effect.provide(AddLive)))

      // verifies: cycle.plain-calls
      it.effect("because no tools were offered is unknown, or too late in a submit without tools", () =>
        Effect.gen(function*() {
          const none = yield* makeCycle({ script: [callsOf("look")] })
          const reason = yield* reasonOf(submit(none.cycle, "go"))
          assert.strictEqual(reason.message, "Tool \"look\": not found; no tools are available")
          const { check, cycle, requests } = yield* makeCycle({ tools: [succeed("look")], script: [callsOf("look")] })
          assert.strictEqual((yield* reasonOf(submit(cycle, "go", { tools: false })))._tag, "MaxTurnsExceeded")
          assert.deepStrictEqual((yield* requests)[0]!.tools, [])
          yield* check
        }))
    })

  // ---------------------------------------------------------------------------

  const REASONS: { readonly [Reason in keyof CycleConfig.ErrorPolicy]: ToolError.ToolErrorReason } = {
    NotFound: new ToolError.NotFound({ available: [] }),
    ExecutionFailed: new ToolError.ExecutionFailed({ origin: "failure", failure: "no" }),
    InvalidArguments: new ToolError.InvalidArguments({ issue: "no", input: {} }),
    PermissionDenied: new ToolError.PermissionDenied({ permissions: [], explanation: "no" }),
    ApprovalDenied: new ToolError.ApprovalDenied({ explanation: "no" }),
    TimedOut: new ToolError.TimedOut({ timeoutMillis: 1, stopped: true }),
    NotExecuted: new ToolError.NotExecuted({ why: "busy" }),
    McpError: new ToolError.McpError({ server: "s", description: "no" }),
    McpNotInitialized: new ToolError.McpNotInitialized({ server: "s" }),
    McpTimeout: new ToolError.McpTimeout({ server: "s", timeoutMillis: 1 }),
    Io: new ToolError.Io({ description: "no" }),
    Other: new ToolError.Other({ description: "no" })
  }

  const failures = () =>
    describe("a call that fails", () => {
      for (const [tag, fate] of Object.entries(CycleConfig.defaultErrorPolicy)) {
        const reason = REASONS[tag as keyof typeof REASONS]
        it.effect(`with ${reason._tag} ${fate === "tell" ? "is told to the model" : "ends the submit"}`, () =>
          Effect.gen(function*() {
            const { check, cycle } = yield* makeCycle({
              tools: [failing("work", reason)],
              script: [callsOf("work"), text("I see.")]
            })
            const submitted = submit(cycle, "go")
            if (fate === "tell") {
              assert.strictEqual((yield* submitted).text, "I see.")
            } else {
              const error = yield* reasonOf(submitted)
              assert.strictEqual(error._tag === "ToolFailed" && error.error.reason._tag, reason._tag)
            }
            assert.strictEqual(results(yield* cycle.messages)[0]?.isFailure, true)
            yield* check
          }))

        it.effect(`with ${reason._tag} does the opposite where the policy says so`, () =>
          Effect.gen(function*() {
            const { cycle } = yield* makeCycle({
              tools: [failing("work", reason)],
              config: { errorPolicy: { [reason._tag]: fate === "tell" ? "fail" : "tell" } },
              script: [callsOf("work"), text("I see.")]
            })
            const outcome = yield* Effect.result(submit(cycle, "go"))
            assert.strictEqual(outcome._tag, fate === "tell" ? "Failure" : "Success")
          }))
      }

      // verifies: cycle.fatal-siblings
      it.effect("fatally lets its siblings settle first", () =>
        Effect.gen(function*() {
          const slow = makeGate("slow")
          const { check, cycle } = yield* makeCycle({
            tools: [failing("work", REASONS.Io), slow.tool],
            script: [callsOf("work", "slow")]
          })
          const fiber = yield* Effect.forkChild(Effect.flip(submit(cycle, "go")))
          yield* slow.entered
          yield* settle
          assert.strictEqual(fiber.pollUnsafe(), undefined)
          yield* slow.leave
          const error = yield* Fiber.join(fiber)
          assert.strictEqual(error.reason._tag, "ToolFailed")
          assert.deepStrictEqual(error.invocations.map(({ output }) => output), [undefined, "slow"])
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ isFailure }) => isFailure), [true, false])
          yield* check
        }))

      // verifies: tool.defect
      it.effect("by a defect or its own interruption tells the model little", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({
            tools: [tool("die", () => Effect.die(new Error("/secret/path"))), tool("leave", () => Effect.interrupt)],
            script: [callsOf("die", "leave"), text("I see.")]
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "I see.")
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), [
            "The tool failed unexpectedly.",
            "The tool failed unexpectedly."
          ])
          yield* check
        }))

      it.effect("by a timeout tells the model whether its work stopped", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [tool("hang", () => Effect.never), tool("stubborn", () => Effect.uninterruptible(Effect.never))],
            config: { toolTimeout: "3 seconds" },
            script: [callsOf("hang", "stubborn"), text("I see.")]
          })
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          yield* untilEnd(fiber)
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), [
            "Error: timed out after 3000 ms; its work was stopped",
            "Error: timed out after 3000 ms; its work is still running and may yet take effect"
          ])
        }))

      for (const hints of [{ readonly: true }, { idempotent: true }, {}]) {
        it.effect(`with McpTimeout runs ${"readonly" in hints || "idempotent" in hints ? "twice" : "once"} with ${JSON.stringify(hints)}`, () =>
          Effect.gen(function*() {
            let runs = 0
            const keys = new Set<string>()
            const { cycle } = yield* makeCycle({
              tools: [
                tool("remote", () =>
                  Effect.gen(function*() {
                    keys.add((yield* ToolContext.ToolContext).idempotencyKey)
                    runs++
                    return yield* new ToolError.ToolError({ toolName: "remote", reason: REASONS.McpTimeout })
                  }), hints)
              ],
              script: [callsOf("remote")]
            })
            assert.strictEqual((yield* reasonOf(submit(cycle, "go")))._tag, "ToolFailed")
            assert.strictEqual(runs, Object.keys(hints).length === 0 ? 1 : 2)
            assert.strictEqual(keys.size, 1)
          }))
      }

      // verifies: retry.readonly-mcp
      it.effect("with McpTimeout once may succeed the second time", () =>
        Effect.gen(function*() {
          let runs = 0
          const { cycle } = yield* makeCycle({
            tools: [
              tool("remote", () =>
                ++runs === 1
                  ? Effect.fail(new ToolError.ToolError({ toolName: "remote", reason: REASONS.McpTimeout }))
                  : Effect.succeed("there"), { readonly: true })
            ],
            script: [callsOf("remote"), text("ok")]
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "ok")
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), ["there"])
        }))
    })

  // ---------------------------------------------------------------------------

  const configuration = () =>
    describe("configuration", () => {
      // verifies: cycle.system
      it.effect("system precedes every request and is not part of the history", () =>
        Effect.gen(function*() {
          const { cycle, requests } = yield* makeCycle({
            tools: [succeed("look")],
            config: { system: "Be brief." },
            script: [callsOf("look"), text("ok"), text("ok")]
          })
          yield* submit(cycle, "go")
          yield* submit(cycle, "on", { tools: false })
          for (const { prompt } of yield* requests) assert.strictEqual(outline(prompt.content)[0], "system:Be brief.")
          assert.isFalse((yield* cycle.messages).some(({ role }) => role === "system"))
        }))

      it.effect("messages are the same objects from request to request", () =>
        Effect.gen(function*() {
          const { cycle, requests } = yield* makeCycle({
            tools: [succeed("look")],
            config: { system: "Be brief." },
            script: [callsOf("look"), callsOf("look"), text("ok")]
          })
          yield* submit(cycle, "go")
          const [first, second, third] = (yield* requests).map(({ prompt }) => prompt.content)
          first!.forEach((message, index) => assert.strictEqual(second![index], message))
          second!.forEach((message, index) => assert.strictEqual(third![index], message))
        }))

      // verifies: history.restore
      it.effect("history continues what was said before, repaired", () =>
        Effect.gen(function*() {
          const before = Prompt.make([
            { role: "user", content: "before" },
            { role: "assistant", content: [{ type: "tool-call", id: "1", name: "look", params: {} }] }
          ])
          const { check, cycle, requests } = yield* makeCycle({
            config: { history: before.content },
            script: [text("ok")]
          })
          yield* submit(cycle, "go")
          assert.deepStrictEqual(outline((yield* requests)[0]!.prompt.content), [
            "user:before",
            "assistant:look()",
            "tool:!No result was recorded for this call.",
            "user:go"
          ])
          assert.strictEqual((yield* cycle.history).turns, 2)
          yield* check
        }))

      it.effect("turns lets a restarted conversation give no call the key of an earlier one", () =>
        Effect.gen(function*() {
          const keys: Array<string> = []
          const work = tool("work", () =>
            Effect.map(ToolContext.ToolContext, ({ idempotencyKey }) => {
              keys.push(idempotencyKey)
              return null
            }))
          const script = [callsOf("work"), text("ok")]
          const config: CycleConfig.CycleConfig = {
            sessionId: "s",
            compaction: ({ messages }) => Effect.succeed(messages.slice(-1))
          }
          const first = yield* makeCycle({ tools: [work], config, script })
          yield* submit(first.cycle, "go")
          const { turns } = yield* first.cycle.history
          const history = yield* first.cycle.messages
          const second = yield* makeCycle({ tools: [work], config: { ...config, history, turns }, script })
          yield* submit(second.cycle, "on")
          assert.deepStrictEqual(keys, ["s/1/0", "s/3/0"])
        }))

      it.effect("tools narrows what is offered and what may be called", () =>
        Effect.gen(function*() {
          const { cycle, requests } = yield* makeCycle({
            tools: [succeed("a"), succeed("b")],
            config: { tools: { names: ["a"] } },
            script: [callsOf("a"), callsOf("b")]
          })
          const reason = yield* reasonOf(submit(cycle, "go"))
          assert.strictEqual(reason.message, "Tool \"b\": not found; available: a")
          assert.deepStrictEqual((yield* requests)[0]!.tools.map((tool) => tool.name), ["a"])
        }))

      for (
        const [choice, after] of [
          ["auto", "auto"],
          ["required", "auto"],
          [{ tool: "a" }, "auto"],
          [{ oneOf: ["a"] }, { oneOf: ["a"] }],
          [{ oneOf: ["a"], mode: "required" }, { oneOf: ["a"], mode: "auto" }]
        ] as const
      ) {
        it.effect(`toolChoice ${JSON.stringify(choice)} forces the first turn only`, () =>
          Effect.gen(function*() {
            const { cycle, requests } = yield* makeCycle({
              tools: [succeed("a"), succeed("b")],
              config: { toolChoice: choice },
              script: [callsOf("a"), text("ok"), text("ok")]
            })
            yield* submit(cycle, "go")
            yield* submit(cycle, "on")
            assert.deepStrictEqual((yield* requests).map(({ toolChoice }) => toolChoice), [choice, after, choice])
          }))
      }

      // verifies: cycle.tool-choice
      it.effect("toolChoice bounds what may be called", () =>
        Effect.gen(function*() {
          for (const toolChoice of ["none", { oneOf: ["a"] }] as const) {
            const { cycle } = yield* makeCycle({
              tools: [succeed("a"), succeed("b")],
              config: { toolChoice },
              script: [callsOf("b")]
            })
            const reason = yield* reasonOf(submit(cycle, "go"))
            assert.strictEqual(reason._tag === "ToolFailed" && reason.error.reason._tag, "NotFound")
          }
        }))

      // verifies: cycle.prepare-turn
      it.effect("prepareTurn chooses tools, choice, instructions, model and services of a turn", () =>
        Effect.gen(function*() {
          class Locale extends Context.Service<Locale, string>()("test/Locale") {}
          const Temperature = Context.Reference<number>("test/Temperature", { defaultValue: () => 1 })
          const other = yield* ScriptedModel.make([text("from the other")])
          let heard = 0
          const states: Array<unknown> = []
          const model = yield* ScriptedModel.make([{
            ...callsOf("b"),
            before: Effect.map(Temperature, (temperature) => {
              heard = temperature
            })
          }])
          const { registry } = yield* makeCycle({ script: [], tools: [succeed("a"), succeed("b")] })
          const cycle = yield* LlmCycle.make({
            system: "default",
            prepareTurn: ({ invocations, messages, turn, usage }) =>
              Effect.map(Locale, (locale): CycleConfig.TurnOptions => {
                states.push([turn, messages.length, invocations.length, usage.inputTokens.total])
                return turn > 1 ? { model: other.model } : {
                  tools: { names: ["b"] },
                  toolChoice: "required",
                  system: `Speak ${locale}.`,
                  context: Context.make(Temperature, 0)
                }
              })
          }).pipe(
            Effect.provideService(LanguageModel.LanguageModel, model.model),
            Effect.provideService(ToolRegistry.ToolRegistry, registry),
            Effect.provideService(Locale, "French")
          )
          assert.strictEqual((yield* submit(cycle, "go")).text, "from the other")
          const [first] = yield* model.requests
          const [second] = yield* other.requests
          assert.deepStrictEqual(first!.tools.map((tool) => tool.name), ["b"])
          assert.strictEqual(first!.toolChoice, "required")
          assert.strictEqual(outline(first!.prompt.content)[0], "system:Speak French.")
          assert.strictEqual(heard, 0)
          assert.strictEqual(outline(second!.prompt.content)[0], "system:default")
          assert.deepStrictEqual(second!.tools.map((tool) => tool.name), ["a", "b"])
          assert.deepStrictEqual(states, [[1, 1, 0, undefined], [2, 3, 1, undefined]])
        }))

      it.effect("functions keep the services they were made with, and see their caller's span", () =>
        Effect.gen(function*() {
          class Name extends Context.Service<Name, string>()("test/Name") {}
          const seen: Array<string> = []
          const look = Effect.gen(function*() {
            seen.push(`${yield* Name} in ${(yield* Effect.currentSpan.pipe(Effect.orDie)).name}`)
          })
          const { model } = yield* ScriptedModel.make([text("ok")])
          const { registry } = yield* makeCycle({ script: [] })
          const cycle = yield* LlmCycle.make({
            prepareTurn: () => Effect.as(look, {}),
            compaction: () => Effect.as(look, undefined)
          }).pipe(
            Effect.provideService(LanguageModel.LanguageModel, model),
            Effect.provideService(ToolRegistry.ToolRegistry, registry),
            Effect.provideService(Name, "made"),
            Effect.withSpan("make")
          )
          yield* submit(cycle, "go").pipe(Effect.provideService(Name, "called"), Effect.withSpan("program"))
          assert.deepStrictEqual(seen, ["made in invoke_agent", "made in invoke_agent"])
        }))

      it.effect("a compaction that asks its own cycle is told that it is busy", () =>
        Effect.gen(function*() {
          const target: { cycle: Cycle | undefined } = { cycle: undefined }
          const answers: Array<string> = []
          const { cycle } = yield* makeCycle({
            config: {
              compaction: () =>
                submit(target.cycle!, "Summarise.").pipe(
                  Effect.match({
                    onFailure: ({ reason }) => void answers.push(reason._tag),
                    onSuccess: () => void answers.push("it was let in")
                  }),
                  Effect.as(undefined)
                )
            },
            script: [text("ok")]
          })
          target.cycle = cycle
          yield* submit(cycle, "go")
          assert.deepStrictEqual(answers, ["Busy"])
        }))

      // verifies: cycle.stop-when
      it.effect("stopWhen ends the submit when the calls of a turn have settled", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({
            tools: [succeed("look"), succeed("finish")],
            config: { stopWhen: ({ invocations }) => invocations.some(({ toolName }) => toolName === "finish") },
            script: [callsOf("look"), { text: "Bye.", ...callsOf("finish") }]
          })
          const result = yield* submit(cycle, "go")
          assert.deepStrictEqual([result.text, result.turns, result.reason], ["Bye.", 2, "tool-calls"])
          yield* check
        }))

      // verifies: cycle.budget
      it.effect("budget ends the submit before more calls, not before an answer", () =>
        Effect.gen(function*() {
          const usage = { input: 60, output: 10 }
          const { check, cycle } = yield* makeCycle({
            tools: [succeed("look")],
            config: { budget: { tokens: 100 } },
            script: [{ ...callsOf("look"), usage }, { ...callsOf("look"), usage }, { text: "ok", usage }]
          })
          const error = yield* Effect.flip(submit(cycle, "go"))
          assert.deepInclude(error.reason, { _tag: "BudgetExceeded", budget: 100, used: 140 })
          assert.strictEqual(error.usage.inputTokens.total, 120)
          assert.strictEqual(error.usage.outputTokens.total, 20)
          assert.deepStrictEqual(error.invocations.map(({ error }) => error?.reason.message), [
            undefined,
            "not executed: the budget is used up"
          ])
          yield* check
          assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
        }))

      // verifies: cycle.usage
      it.effect("usage is summed over the turns, as far as it is told", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [succeed("look")],
            script: [{ ...callsOf("look"), usage: { input: 5, output: 1 } }, callsOf("look"), {
              text: "ok",
              usage: { input: 7, output: 2 }
            }]
          })
          const { usage } = yield* submit(cycle, "go")
          assert.deepStrictEqual([usage.inputTokens.total, usage.outputTokens.total], [12, 3])
          assert.strictEqual(usage.inputTokens.cacheRead, undefined)
        }))

      // verifies: cycle.compaction
      it.effect("compaction replaces the transcript, and no call loses its answer", () =>
        Effect.gen(function*() {
          const { check, cycle, requests } = yield* makeCycle({
            tools: [succeed("look")],
            config: {
              compaction: ({ messages, turn }) =>
                Effect.succeed(
                  turn === 2
                    // Cuts between a call and its result, and leaves a result without its call.
                    ? [
                      Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "summary" })] }),
                      messages[1]!
                    ]
                    : turn === 3
                    ? messages.slice(2)
                    : undefined
                )
            },
            script: [callsOf("look"), callsOf("look"), text("ok")]
          })
          yield* submit(cycle, "go")
          const prompts = (yield* requests).map(({ prompt }) => outline(prompt.content))
          assert.deepStrictEqual(prompts[1], [
            "user:summary",
            "assistant:look()",
            "tool:!No result was recorded for this call."
          ])
          assert.deepStrictEqual(prompts[2], ["assistant:look()", "tool:look"])
          yield* check
          // Turn numbers go on, so that no call takes the identity of an earlier one.
          assert.strictEqual((yield* cycle.history).turns, 3)
        }))

      it.effect("maxToolResultBytes cuts what the model is told", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [succeed("much", "äöü".repeat(10))],
            config: { maxToolResultBytes: 9 },
            script: [callsOf("much"), text("ok")]
          })
          yield* submit(cycle, "go")
          assert.strictEqual(results(yield* cycle.messages)[0]?.result, "äöüä\n[truncated: 52 more bytes]")
        }))

      it.effect("toolConcurrency bounds how many calls run at a time", () =>
        Effect.gen(function*() {
          for (const [toolConcurrency, expected] of [[1, 1], [2, 2], ["unbounded", 5], [undefined, 5]] as const) {
            let inside = 0
            let most = 0
            const { cycle } = yield* makeCycle({
              tools: [
                tool("work", () =>
                  Effect.suspend(() => {
                    most = Math.max(most, ++inside)
                    return Effect.map(settle, () => inside--)
                  }))
              ],
              config: { toolConcurrency },
              script: [callsOf("work", "work", "work", "work", "work"), text("ok")]
            })
            yield* submit(cycle, "go")
            assert.strictEqual(most, expected)
          }
        }))

      it.effect("toolTimeout does not count waiting for a permit, and a tool's own comes first", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [
              tool("work", () => Effect.as(Effect.sleep("40 seconds"), "done")),
              tool("quick", () => Effect.never, { timeout: "1 second" })
            ],
            config: { toolConcurrency: 1 },
            script: [callsOf("work", "work", "quick"), text("ok")]
          })
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          yield* untilEnd(fiber)
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ result }) => result), [
            "done",
            "done",
            "Error: timed out after 1000 ms; its work was stopped"
          ])
        }))
    })

  // ---------------------------------------------------------------------------

  const retrying = () =>
    describe("a model that fails", () => {
      it.effect("is asked again after 0.5, 1 and 2 seconds or so, then the submit fails", () =>
        Effect.gen(function*() {
          const { check, cycle, requests } = yield* makeCycle({
            script: (_, count) => count <= 4 ? { error: overloaded() } : text("ok")
          })
          const fiber = yield* Effect.forkChild(Effect.flip(submit(cycle, "go")))
          yield* settle
          assert.strictEqual((yield* requests).length, 1)
          yield* TestClock.adjust("700 millis")
          assert.strictEqual((yield* requests).length, 2)
          yield* TestClock.adjust("10 seconds")
          const error = yield* Fiber.join(fiber)
          assert.strictEqual((yield* requests).length, 4)
          assert.strictEqual(error.reason._tag === "ModelFailed" && error.reason.error.reason._tag, "RateLimitError")
          assert.strictEqual(error.turns, 0)
          assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
          yield* check
        }))

      // verifies: retry.after
      it.effect("is asked again when it says, not before", () =>
        Effect.gen(function*() {
          const { cycle, requests } = yield* makeCycle({
            script: [{ error: overloaded(Duration.seconds(90)) }, text("ok")]
          })
          const fiber = yield* Effect.forkChild(submit(cycle, "go"))
          yield* settle
          yield* TestClock.adjust("89 seconds")
          assert.strictEqual((yield* requests).length, 1)
          yield* TestClock.adjust("1 second")
          assert.strictEqual((yield* Fiber.join(fiber)).text, "ok")
        }))

      it.effect("and wants a longer wait than the limit is not asked again", () =>
        Effect.gen(function*() {
          const retryAfter = Duration.sum(CycleConfig.maxRetryAfter, Duration.seconds(1))
          const { cycle, requests } = yield* makeCycle({ script: [{ error: overloaded(retryAfter) }] })
          const reason = yield* reasonOf(submit(cycle, "go"))
          assert.deepStrictEqual(reason._tag === "ModelFailed" && reason.error.retryAfter, retryAfter)
          assert.strictEqual((yield* requests).length, 1)
        }))

      it.effect("for good is not asked again", () =>
        Effect.gen(function*() {
          const { cycle, requests } = yield* makeCycle({ script: [{ error: refused }] })
          assert.strictEqual((yield* reasonOf(submit(cycle, "go")))._tag, "ModelFailed")
          assert.strictEqual((yield* requests).length, 1)
        }))

      it.effect("is asked again by the schedule of the configuration", () =>
        Effect.gen(function*() {
          const never = yield* makeCycle({ config: { retry: Schedule.recurs(0) }, script: [{ error: overloaded() }] })
          yield* reasonOf(submit(never.cycle, "go"))
          const often = yield* makeCycle({
            config: { retry: Schedule.recurs(7) },
            script: (_, count) => count <= 7 ? { error: overloaded() } : text("ok")
          })
          assert.strictEqual((yield* submit(often.cycle, "go")).text, "ok")
        }))

      // verifies: retry.model-only
      it.effect("after a tool has run does not make it run again", () =>
        Effect.gen(function*() {
          let runs = 0
          const { check, cycle } = yield* makeCycle({
            tools: [tool("once", () => Effect.sync(() => ++runs))],
            config: { retry: Schedule.recurs(3) },
            script: (_, count) => count === 1 ? callsOf("once") : count < 4 ? { error: overloaded() } : text("ok")
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "ok")
          assert.strictEqual(runs, 1)
          yield* check
        }))

      it.effect("by a defect is a defect, and the conversation can go on", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({
            script: (_, count) => count === 1 ? { before: Effect.die("broken") } : text("ok")
          })
          const exit = yield* Effect.exit(submit(cycle, "go"))
          assert.isTrue(exit._tag === "Failure" && exit.cause.reasons.every((reason) => reason._tag === "Die"))
          assert.strictEqual((yield* submit(cycle, "on")).text, "ok")
          yield* check
        }))

      it.effect("carries what happened before", () =>
        Effect.gen(function*() {
          const { check, cycle } = yield* makeCycle({
            tools: [succeed("look")],
            script: [{ ...callsOf("look"), usage: { input: 5, output: 5 } }, { error: refused }]
          })
          const error = yield* Effect.flip(submit(cycle, "go"))
          assert.deepStrictEqual([error.turns, error.invocations.length, error.usage.inputTokens.total], [1, 1, 5])
          yield* check
        }))
    })

  // ---------------------------------------------------------------------------

  const calling = () =>
    describe("calls", () => {
      // verifies: history.call-ids
      it.effect("with repeated and empty ids get their own", () =>
        Effect.gen(function*() {
          const twice = calls(
            { id: "same", name: "a", params: {} },
            { id: "same", name: "b", params: {} },
            { id: "", name: "a", params: {} },
            { id: "", name: "b", params: {} }
          )
          const { check, cycle } = yield* makeCycle({
            tools: [succeed("a"), succeed("b")],
            script: [twice, twice, text("ok"), twice, text("ok")]
          })
          yield* submit(cycle, "go")
          yield* submit(cycle, "on")
          const told = results(yield* cycle.messages)
          assert.deepStrictEqual(told.map(({ result }) => result), [1, 2, 3].flatMap(() => ["a", "b", "a", "b"]))
          assert.strictEqual(new Set(told.map(({ id }) => id)).size, 12)
          yield* check
        }))

      it.effect("that share an exclusivity key run one after the other", () =>
        Effect.gen(function*() {
          let inside = 0
          const { cycle } = yield* makeCycle({
            tools: [
              tool("work", () =>
                Effect.suspend(() => {
                  assert.strictEqual(++inside, 1)
                  return Effect.map(settle, () => inside--)
                }), { exclusive: "key" })
            ],
            script: [callsOf("work", "work", "work"), text("ok")]
          })
          yield* submit(cycle, "go")
          assert.deepStrictEqual(results(yield* cycle.messages).map(({ isFailure }) => isFailure), [
            false,
            false,
            false
          ])
        }))

      // verifies: registry.snapshot
      it.effect("resolve against the tools of their turn, whatever changed meanwhile", () =>
        Effect.gen(function*() {
          let change: Effect.Effect<unknown> = Effect.void
          const { check, cycle, registry, requests } = yield* makeCycle({
            tools: [succeed("a")],
            script: [{ ...callsOf("a"), before: Effect.suspend(() => change) }, callsOf("b"), callsOf("a")]
          })
          change = Effect.andThen(registry.unregister("a"), Effect.orDie(registry.register(succeed("b"))))
          const reason = yield* reasonOf(submit(cycle, "go"))
          assert.strictEqual(reason.message, "Tool \"a\": not found; available: b")
          assert.deepStrictEqual((yield* requests).map(({ tools }) => tools.map((tool) => tool.name)), [
            ["a"],
            ["b"],
            ["b"]
          ])
          assert.deepStrictEqual(results(yield* cycle.messages).slice(0, 2).map(({ result }) => result), ["a", "b"])
          yield* check
        }))

      // verifies: cycle.provider-executed
      it.effect("of the provider's own pass through and are not answered again", () =>
        Effect.gen(function*() {
          const { check, cycle, requests } = yield* makeCycle({
            tools: [tool("search", () => Effect.die("it ran"))],
            script: [{
              text: "Found.",
              parts: [
                { type: "tool-call", id: "p1", name: "search", params: {}, providerExecuted: true },
                {
                  type: "tool-result",
                  id: "p1",
                  name: "search",
                  result: "hit",
                  isFailure: false,
                  providerExecuted: true
                }
              ]
            }, text("ok")]
          })
          assert.strictEqual((yield* submit(cycle, "go")).text, "Found.")
          yield* submit(cycle, "on")
          assert.deepStrictEqual(outline((yield* requests)[1]!.prompt.content), [
            "user:go",
            "assistant:Found.+search()+tool-result",
            "user:on"
          ])
          yield* check
        }))

      it.effect("are shown what a tool shows in place of its value", () =>
        Effect.gen(function*() {
          const { cycle } = yield* makeCycle({
            tools: [
              tool("see", () =>
                Effect.succeed(ToolOutput.final({ width: 1 }, {
                  modelOutput: [Prompt.makePart("text", { text: "one pixel" })]
                })))
            ],
            script: [callsOf("see"), text("ok")]
          })
          yield* submit(cycle, "go")
          const [result] = results(yield* cycle.messages)
          assert.deepStrictEqual(result?.result, { width: 1 })
          assert.strictEqual(result?.modelOutput?.[0]?.type, "text")
        }))

      // verifies: history.provisional
      it.effect("see a sound transcript, with provisional answers", () =>
        Effect.gen(function*() {
          let read: Effect.Effect<ReadonlyArray<Prompt.Message>> = Effect.succeed([])
          const seen: Array<ReadonlyArray<string>> = []
          const look = tool("look", () =>
            Effect.map(Effect.suspend(() => read), (messages) => {
              checkMessages(messages)
              seen.push(outline(messages))
              return "seen"
            }))
          const { check, cycle } = yield* makeCycle({
            tools: [look],
            config: { toolConcurrency: 1 },
            script: [callsOf("look", "look"), text("ok")]
          })
          read = cycle.messages
          yield* submit(cycle, "go")
          const running = "!Interrupted while running: whether it took effect is unknown."
          const waiting = "!Error: not executed: the conversation was interrupted before it ran"
          assert.deepStrictEqual(seen.map((messages) => messages.at(-1)), [
            `tool:${running}+${waiting}`,
            `tool:seen+${running}`
          ])
          yield* check
        }))

      // verifies: cycle.no-own-resolution
      it.effect("keep approvals out of every prompt", () =>
        Effect.gen(function*() {
          let runs = 0
          const approval = Prompt.make([
            { role: "user", content: "before" },
            {
              role: "assistant",
              content: [
                { type: "tool-call", id: "1", name: "danger", params: {} },
                { type: "tool-approval-request", approvalId: "a1", toolCallId: "1" }
              ]
            },
            { role: "tool", content: [{ type: "tool-approval-response", approvalId: "a1", approved: true }] }
          ])
          const { check, cycle } = yield* makeCycle({
            tools: [tool("danger", () => Effect.sync(() => ++runs))],
            config: { history: approval.content, compaction: () => Effect.succeed(approval.content) },
            script: [text("ok")]
          })
          yield* submit(cycle, approval)
          assert.strictEqual(runs, 0)
          yield* check
        }))
    })

  describe(name, () => {
    acceptance()
    deciding()
    refusing()
    failures()
    configuration()
    retrying()
    calling()
  })
}
