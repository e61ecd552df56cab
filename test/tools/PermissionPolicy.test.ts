import { assert, describe, it } from "@effect/vitest"
import { Permission, PermissionPolicy, Question, ToolRegistry } from "agcore"
import { Context, Deferred, Duration, Effect, Fiber, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"
import { after, call, settle, succeed, tool } from "./support.ts"

const config = (options: ConstructorParameters<typeof PermissionPolicy.PermissionConfig>[0]) =>
  new PermissionPolicy.PermissionConfig(options)

const decide = (
  options: ConstructorParameters<typeof PermissionPolicy.PermissionConfig>[0],
  ...permissions: ReadonlyArray<Permission.Permission>
) => PermissionPolicy.decide(config(options), permissions)._tag

/** What becomes of a call of a tool with these permissions under a policy. */
const callUnder = (
  policy: Layer.Layer<PermissionPolicy.PermissionPolicy>,
  permissions: ReadonlyArray<Permission.Permission> = [Permission.Read],
  references: Context.Context<never> = Context.empty()
) =>
  Effect.gen(function*() {
    const registry = yield* ToolRegistry.make
    yield* registry.register(tool("probe", () => Effect.succeed("ran"), { permissions }))
    const [invocation] = yield* registry.invokeAll([call("probe")])
    return invocation!
  }).pipe(Effect.provide(policy), Effect.provideContext(references))

const explanation = (policy: Layer.Layer<PermissionPolicy.PermissionPolicy>, references?: Context.Context<never>) =>
  Effect.map(
    callUnder(policy, undefined, references),
    ({ error }) =>
      error?.reason._tag === "PermissionDenied" || error?.reason._tag === "ApprovalDenied"
        ? error.reason.explanation
        : undefined
  )

describe("PermissionPolicy", () => {
  describe("rules", () => {
    // verifies: permission.allowed, permission.not-listed
    it("white list: allows what is named, refuses what is not", () => {
      const rules = { allowed: ["read", "custom:billing"], denied: [] } as const
      assert.strictEqual(decide(rules, "read"), "Allow")
      assert.strictEqual(decide(rules, "read", "custom:billing"), "Allow")
      assert.strictEqual(decide(rules, "write"), "Deny")
      assert.strictEqual(decide(rules, "custom:other"), "Deny")
      assert.strictEqual(decide({ ...rules, allowUnspecified: true }, "write"), "Deny")
    })

    it("black list: refuses what is named, leaves the rest to allowUnspecified", () => {
      const rules = { allowed: [], denied: ["shell"] } as const
      assert.strictEqual(decide(rules, "shell"), "Deny")
      assert.strictEqual(decide(rules, "write"), "Allow")
      assert.strictEqual(decide({ ...rules, allowUnspecified: false }, "write"), "Deny")
    })

    // verifies: permission.defaults
    it("default: allows read and network, denies delete and shell", () => {
      assert.strictEqual(decide({}, "read", "network"), "Allow")
      for (const permission of ["delete", "shell", "write", "filesystem", "custom:x"] as const) {
        assert.strictEqual(decide({}, permission), "Deny", permission)
        assert.strictEqual(decide({}, "read", permission), "Deny", permission)
      }
    })

    // verifies: permission.unspecified
    it("unspecified: a tool that declares nothing is decided by allowUnspecified", () => {
      assert.strictEqual(decide({}), "Allow")
      assert.strictEqual(decide({ allowUnspecified: false }), "Deny")
      assert.strictEqual(decide({ allowed: [], denied: [], allowUnspecified: false }), "Deny")
    })

    // verifies: permission.denied-first, permission.custom
    it("custom permission conflict: denied wins", () => {
      const rules = { allowed: ["custom:deploy", "read"], denied: ["custom:deploy"] } as const
      assert.strictEqual(decide(rules, "custom:deploy"), "Deny")
      assert.strictEqual(decide(rules, "read"), "Allow")
      assert.strictEqual(decide({ allowed: [], denied: ["custom:deploy"] }, "custom:deploy"), "Deny")
    })

    const APermission = Schema.Literals(["read", "write", "delete", "network", "shell", "filesystem", "custom:x"])
    it.effect.prop(
      "refuses a tool exactly if it refuses one of its permissions",
      {
        allowed: Schema.Array(APermission),
        denied: Schema.Array(APermission),
        allowUnspecified: Schema.Boolean,
        permissions: Schema.NonEmptyArray(APermission)
      },
      ({ permissions, ...rules }) =>
        Effect.sync(() => {
          const each = permissions.map((permission) => {
            if (rules.denied.includes(permission)) return false
            if (rules.allowed.includes(permission)) return true
            return rules.allowed.length > 0 ? false : rules.allowUnspecified
          })
          assert.strictEqual(decide(rules, ...permissions), each.every(Boolean) ? "Allow" : "Deny")
        })
    )

    it("reads rules from a file that names some of them", () => {
      const rules = Schema.decodeSync(PermissionPolicy.PermissionConfig)({ denied: ["network"] })
      assert.deepStrictEqual(rules, config({ denied: ["network"] }))
      assert.throws(() => Schema.decodeUnknownSync(PermissionPolicy.PermissionConfig)({ allowed: ["everything"] }))
    })

    it("reads permissions from text and refuses others", () => {
      const isPermission = Schema.is(Permission.Permission)
      for (const name of ["read", "custom:a", "custom:a:b"]) assert.isTrue(isPermission(name), name)
      for (const name of ["", "custom:", "admin", "__proto__", "Read"]) assert.isFalse(isPermission(name), name)
    })
  })

  describe("layer", () => {
    it.effect("decides by rules and tells people what is missing, not the model", () =>
      Effect.gen(function*() {
        const invocation = yield* callUnder(PermissionPolicy.layer(), ["read", "write", "shell"])
        assert.strictEqual(invocation.error?.reason.message, "permission denied: it needs write, shell")
        assert.strictEqual(invocation.result, "Permission denied.")
        assert.strictEqual((yield* callUnder(PermissionPolicy.layer({ allowed: [] }), ["write"])).output, "ran")
      }))

    it.effect("allows everything where that is asked for", () =>
      Effect.gen(function*() {
        assert.strictEqual((yield* callUnder(PermissionPolicy.layerAllowAll, ["delete", "shell"])).output, "ran")
      }))

    // verifies: permission.shared
    it.effect("is shared by two registries", () =>
      Effect.gen(function*() {
        const asked: Array<string> = []
        const policy = PermissionPolicy.layerCheck(({ sessionId, tool }) =>
          Effect.sync(() => {
            asked.push(`${sessionId}:${tool.name}`)
            return tool.name === "a" ? PermissionPolicy.allow : PermissionPolicy.deny("not this one")
          })
        )
        yield* Effect.gen(function*() {
          const [one, two] = [yield* ToolRegistry.make, yield* ToolRegistry.make]
          yield* one.register(succeed("a"))
          yield* two.register(succeed("b"))
          assert.strictEqual((yield* one.invoke(call("a"), { sessionId: "1" })).output, "a")
          const error = yield* Effect.flip(two.invoke(call("b"), { sessionId: "2" }))
          assert.strictEqual(error.reason._tag, "PermissionDenied")
        }).pipe(Effect.provide(policy))
        assert.deepStrictEqual(asked, ["1:a", "2:b"])
      }))

    // verifies: admit.json-arguments
    it.effect("sees the arguments as they came, and the circumstances", () =>
      Effect.gen(function*() {
        const seen: Array<PermissionPolicy.Request> = []
        const policy = PermissionPolicy.layerCheck((request) => {
          seen.push(request)
          return Effect.succeed(PermissionPolicy.allow)
        })
        yield* Effect.gen(function*() {
          const registry = yield* ToolRegistry.make
          yield* registry.register(succeed("a"))
          yield* registry.invokeAll([{ ...call("a", "{not json"), id: "call-1", turn: 7 }], {
            sessionId: "s",
            traceId: "t"
          })
        }).pipe(Effect.provide(policy))
        const { tool, ...rest } = seen[0]!
        assert.strictEqual(tool.name, "a")
        assert.deepStrictEqual(rest, {
          input: "{not json",
          sessionId: "s",
          traceId: "t",
          toolCallId: "call-1",
          turn: 7
        })
      }))
  })

  // verifies: permission.failing-policy
  describe("faults deny", () => {
    const policies: Record<string, () => Effect.Effect<PermissionPolicy.Decision, unknown>> = {
      "a failure": () => Effect.fail("no database"),
      "a defect": () => Effect.die(new Error("bug")),
      "an exception": () => {
        throw new Error("bug")
      },
      "an interruption of itself": () => Effect.interrupt,
      "no decision": () => Effect.succeed(undefined as never),
      "an unknown decision": () => Effect.succeed({ _tag: "Maybe" } as never)
    }
    for (const [what, check] of Object.entries(policies)) {
      it.effect(`of the policy: ${what}`, () =>
        Effect.gen(function*() {
          for (
            const policy of [
              PermissionPolicy.layerCheck(check),
              Layer.succeed(PermissionPolicy.PermissionPolicy, { check: check as never })
            ]
          ) {
            const invocation = yield* callUnder(policy)
            assert.strictEqual(invocation.error?.reason._tag, "PermissionDenied")
            assert.isUndefined(invocation.output)
          }
        }))
    }

    const asking = PermissionPolicy.layerCheck(() => Effect.succeed(PermissionPolicy.ask("Really?")))
    type Approver = (question: Question.Question) => Effect.Effect<Question.Answer>
    const approvers: Record<string, Approver> = {
      "no": (question) => Effect.succeed(Question.deny(question, "no")),
      "a value that is nearly yes": () => Effect.succeed(true as never),
      "nothing": () => Effect.succeed(undefined as never),
      "yes to something else": () => Effect.succeed(new Question.Approve({ questionId: "another" })),
      "what looks like yes": (question) => Effect.succeed({ _tag: "approve", questionId: question.id } as never),
      "input that was not asked for": (question) => Effect.succeed(Question.reply(question, true)),
      "yes, with arguments that do not fit": (question) => Effect.succeed(Question.approve(question, { input: "x" })),
      "a defect": () => Effect.die("bug"),
      "an exception": () => {
        throw new Error("bug")
      },
      "an interruption of itself": () => Effect.interrupt
    }
    for (const [what, approver] of Object.entries(approvers)) {
      it.effect(`of the approver: ${what}`, () =>
        Effect.gen(function*() {
          const invocation = yield* callUnder(asking, undefined, Context.make(PermissionPolicy.Approver, approver))
          assert.strictEqual(invocation.error?.reason._tag, "ApprovalDenied")
          assert.isUndefined(invocation.output)
        }))
    }

    // verifies: permission.ask
    it.effect("where nobody is there to approve", () =>
      Effect.gen(function*() {
        const invocation = yield* callUnder(asking)
        assert.strictEqual(invocation.error?.reason._tag, "AwaitingAnswer")
        assert.isUndefined(invocation.output)
      }))

    for (
      const [what, approver] of Object.entries({
        "is silent": () => Effect.never,
        "cannot be interrupted": () => Effect.uninterruptible(Effect.never)
      })
    ) {
      it.effect(`after its time, where the approver ${what}`, () =>
        Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(explanation(
            asking,
            Context.make(PermissionPolicy.Approver, approver).pipe(
              Context.add(PermissionPolicy.ApprovalTimeout, Duration.minutes(1))
            )
          ))
          yield* settle
          yield* TestClock.adjust("59 seconds")
          assert.isUndefined(fiber.pollUnsafe())
          assert.strictEqual(yield* after(fiber, "1 second"), "nobody answered in time")
        }))
    }
  })

  it.effect("asks the approver and lets an approved call run", () =>
    Effect.gen(function*() {
      const questions: Array<string> = []
      const policy = PermissionPolicy.layerCheck(() => Effect.succeed(PermissionPolicy.ask("May it?")))
      const invocation = yield* callUnder(
        policy,
        undefined,
        Context.make(PermissionPolicy.Approver, (question) =>
          Effect.sync(() => {
            questions.push(`${question.toolName}: ${question.prompt}`)
            return Question.approve(question)
          }))
      )
      assert.strictEqual(invocation.output, "ran")
      assert.deepStrictEqual(questions, ["probe: May it?"])
    }))

  it.effect("stops asking when the caller is interrupted", () =>
    Effect.gen(function*() {
      const asked = yield* Deferred.make<void>()
      const stopped = yield* Deferred.make<void>()
      const fiber = yield* callUnder(
        PermissionPolicy.layerCheck(() => Effect.succeed(PermissionPolicy.ask("?"))),
        undefined,
        Context.make(PermissionPolicy.Approver, () =>
          Deferred.succeed(asked, undefined).pipe(
            Effect.andThen(Effect.never),
            Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
          ))
      ).pipe(Effect.forkChild)
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(fiber)
      yield* Deferred.await(stopped)
    }))

  it.effect("keeps the services a check was built with", () =>
    Effect.gen(function*() {
      class Level extends Context.Service<Level, number>()("test/Level") {}
      const policy = PermissionPolicy.layerCheck(() =>
        Level.useSync((level) => level > 1 ? PermissionPolicy.allow : PermissionPolicy.deny("too low"))
      )
      const invocation = yield* callUnder(Layer.provide(policy, Layer.succeed(Level, 2))).pipe(
        Effect.provideService(Level, 0)
      )
      assert.strictEqual(invocation.output, "ran")
    }))
})
