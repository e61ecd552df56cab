import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import {
  type AuditEntry,
  AuditError,
  AuditLog,
  LlmCycle,
  PermissionPolicy,
  Question,
  Tool,
  ToolOutput,
  ToolRegistry,
  type ToolSnapshot
} from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Context, Deferred, Duration, Effect, Fiber, FileSystem, Layer, Logger, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as ChildProcess from "node:child_process"
import * as Path from "node:path"
import { after, call, makeGate, settle, succeed, tool } from "./support.ts"

const caller = Path.resolve(import.meta.dirname, "../fixtures/audit/caller.ts")

type Entries = ReadonlyArray<AuditEntry.AuditEntry>

/** A registry that writes into an array. */
const audited = (
  tools: ReadonlyArray<Tool.Tool>,
  options?: {
    readonly write?: (entry: AuditEntry.AuditEntry, entries: Entries) => Effect.Effect<void, AuditError.AuditError>
    readonly policy?: Layer.Layer<PermissionPolicy.PermissionPolicy>
    readonly references?: Context.Context<never>
  }
) =>
  Effect.gen(function*() {
    const entries: Array<AuditEntry.AuditEntry> = []
    const registry = yield* ToolRegistry.make.pipe(
      Effect.provideContext(options?.references ?? Context.empty()),
      Effect.provideService(AuditLog.AuditLog, {
        write: (entry) =>
          Effect.andThen(
            options?.write?.(entry, entries) ?? Effect.void,
            Effect.sync(() => void entries.push(entry))
          ),
        head: Effect.undefined
      }),
      Effect.provide(options?.policy ?? PermissionPolicy.layerAllowAll)
    )
    yield* registry.registerAll(tools)
    const invoke = (name: string, params: unknown = {}, options?: ToolSnapshot.InvokeOptions) =>
      Effect.map(registry.invokeAll([call(name, params)], options), ([invocation]) => invocation!)
    return { registry, invoke, entries }
  })

/** What entries say, in short. */
const told = (entries: Entries) =>
  entries.map((entry) => {
    if (entry._tag === "CallEnded") {
      return [entry.outcome, entry.reason, entry.detail].filter((part) => part !== undefined).join(" ")
    }
    const { _tag, ...facts } = entry.verdict
    return [_tag, ...Object.values(facts)].join(" ")
  })

const argumentsOf = (entries: Entries) =>
  entries.flatMap((entry) => entry._tag === "CallDecided" ? [entry.arguments] : [])

const unavailable = new AuditError.AuditError({ reason: new AuditError.Unavailable({ description: "disk on fire" }) })

/** What is logged as an error while an effect runs. */
const errorsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const messages: Array<string> = []
  const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
    if (logLevel === "Error") messages.push(String(Array.isArray(message) ? message[0] : message))
  })
  return Effect.map(Effect.provide(effect, Logger.layer([logger])), (result) => ({ result, messages }))
}

describe("an audited call", () => {
  // verifies: audit.entries
  it.effect("leaves who, where, which tool and arguments, and how it ended", () =>
    Effect.gen(function*() {
      const { entries, registry } = yield* audited([tool("work", () => Effect.as(Effect.sleep("2 seconds"), "done"))])
      const fiber = yield* Effect.forkChild(registry.invoke(
        { id: "label", name: "work", params: { n: 1 }, turn: 3, index: 2 },
        { sessionId: "session", traceId: "trace", actor: "ada" }
      ))
      yield* after(fiber, "2 seconds")
      const [decided, ended] = entries
      const common = {
        invocationId: decided!.invocationId,
        actor: "ada",
        sessionId: "session",
        traceId: "trace",
        turn: 3,
        index: 2,
        toolCallId: "label",
        toolName: "work"
      }
      assert.lengthOf(entries, 2)
      assert.deepInclude(decided, {
        ...common,
        _tag: "CallDecided",
        at: "1970-01-01T00:00:00.000Z",
        arguments: { n: 1 }
      })
      assert.deepInclude(ended, {
        ...common,
        _tag: "CallEnded",
        at: "1970-01-01T00:00:02.000Z",
        outcome: "success",
        durationMillis: 2_000
      })
      assert.match(decided!.invocationId, /^[\da-f-]{36}$/)
    }))

  // verifies: audit.before
  it.effect("has its first entry before anything runs", () =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      const { entries, registry } = yield* audited([
        tool("work", () =>
          Effect.sync(() => {
            seen.push(`ran after ${entries.length}`)
            return null
          }))
      ])
      const admission = yield* registry.admit(call("work"))
      assert.lengthOf(entries, 0)
      assert.strictEqual(admission._tag, "Accepted")
      if (admission._tag === "Accepted") {
        yield* admission.run({ onStart: () => void seen.push(`started after ${entries.length}`) })
      }
      assert.deepStrictEqual(seen, ["started after 1", "ran after 1"])
      assert.strictEqual(entries[0]?.actor, undefined)
      assert.notStrictEqual(entries[0]?.invocationId, undefined)
    }))

  // verifies: audit.verdicts
  it.effect("that is refused leaves who refused it and why", () =>
    Effect.gen(function*() {
      const { entries, invoke } = yield* audited(
        [
          succeed("fine"),
          tool("erase", () => Effect.succeed(1), { permissions: ["delete"] }),
          tool("strict", () => Effect.succeed(1), { inputSchema: { type: "object", required: ["a"] } })
        ],
        { policy: PermissionPolicy.layer() }
      )
      yield* invoke("fine")
      yield* invoke("erase")
      yield* invoke("strict")
      yield* invoke("fine", "no JSON")
      yield* invoke("unknown")
      assert.deepStrictEqual(told(entries), [
        "Allowed",
        "success",
        "Denied policy it needs delete",
        "Rejected InvalidArguments",
        "Rejected InvalidArguments",
        "Rejected NotFound"
      ])
      assert.deepStrictEqual(argumentsOf(entries).at(-2), "<no JSON object: 9 characters>")
    }))

  const needsApproval = tool("work", ({ n }) => Effect.succeed(Number(n)), { needsApproval: true })

  const answering = (answer: (question: Question.Question) => Question.Answer) =>
    Context.make(PermissionPolicy.Approver, (question) => Effect.succeed(answer(question)))

  // verifies: audit.people
  it.effect("that a person decides on says so", () =>
    Effect.gen(function*() {
      const told_ = (answer: (question: Question.Question) => Question.Answer) =>
        Effect.gen(function*() {
          const { entries, invoke } = yield* audited([needsApproval], { references: answering(answer) })
          yield* invoke("work", { n: 1 })
          return [...told(entries), argumentsOf(entries).at(-1)]
        })
      const asked = "Asked This tool needs approval."
      assert.deepStrictEqual(yield* told_((question) => Question.approve(question)), [
        asked,
        "Approved false",
        "success",
        { n: 1 }
      ])
      assert.deepStrictEqual(yield* told_((question) => Question.approve(question, { input: { n: 2 } })), [
        asked,
        "Approved true",
        "success",
        { n: 2 }
      ])
      assert.deepStrictEqual(yield* told_((question) => Question.deny(question, "not today")), [
        asked,
        "Denied person not today",
        { n: 1 }
      ])
    }))

  it.effect("that waits, or asks back, says so", () =>
    Effect.gen(function*() {
      const asking = Tool.dynamic({
        name: "asks",
        description: "Asks",
        inputSchema: { type: "object" },
        handler: (_, reply) =>
          Effect.succeed(
            reply === undefined ? ToolOutput.awaitingInput({ context: null, prompt: "Which?" }) : String(reply.answer)
          )
      })
      const { entries, invoke, registry } = yield* audited([needsApproval, asking])
      yield* invoke("work")
      const invocation = yield* invoke("asks")
      const reason = invocation.error?.reason
      assert.strictEqual(reason?._tag, "AwaitingAnswer")
      if (reason?._tag !== "AwaitingAnswer") return
      const { question } = reason
      yield* registry.invoke(call("asks"), { answered: { question, answer: Question.reply(question, "this") } })
      assert.deepStrictEqual(told(entries), [
        "Asked This tool needs approval.",
        "Allowed",
        "suspended AwaitingAnswer",
        "Answered",
        "success"
      ])
    }))

  // verifies: audit.outcomes
  it.effect("says how it failed", () =>
    Effect.gen(function*() {
      const gate = makeGate("gate", { exclusive: "key" })
      const { entries, invoke } = yield* audited([
        Tool.dynamic({
          name: "fails",
          description: "Fails",
          inputSchema: { type: "object" },
          failure: Schema.String,
          handler: () => Effect.fail("no")
        }),
        tool("dies", () => Effect.die("bug")),
        tool("slow", () => Effect.never, { timeout: "1 second" }),
        tool("stuck", () => Effect.as(Effect.uninterruptible(Effect.sleep("1 hour")), null), {
          timeout: "1 second",
          exclusive: "key"
        }),
        gate.tool
      ])
      yield* invoke("fails")
      yield* Effect.provide(invoke("dies"), Logger.layer([]))
      yield* after(yield* Effect.forkChild(invoke("slow")), "1 second")
      yield* after(yield* Effect.forkChild(invoke("stuck")), "2 seconds")
      yield* invoke("gate")
      assert.deepStrictEqual(told(entries), [
        "Allowed",
        "failure ExecutionFailed failure",
        "Allowed",
        "failure ExecutionFailed defect",
        "Allowed",
        "failure TimedOut stopped",
        "Allowed",
        "failure TimedOut still running",
        "Rejected NotExecuted"
      ])
      yield* TestClock.adjust("1 hour")
    }))

  // verifies: audit.interrupted
  it.effect("that is interrupted says so, and for how long it ran", () =>
    Effect.gen(function*() {
      const gate = makeGate("gate")
      const { entries, invoke } = yield* audited([gate.tool])
      const fiber = yield* Effect.forkChild(invoke("gate"))
      yield* gate.entered
      yield* TestClock.adjust("3 seconds")
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(told(entries), ["Allowed", "interrupted"])
      assert.deepInclude(entries[1], { durationMillis: 3_000 })
    }))

  it.effect("that is interrupted while its first entry is written never runs, and has both", () =>
    Effect.gen(function*() {
      const writing = yield* Deferred.make<void>()
      const written = yield* Deferred.make<void>()
      let ran = false
      const { entries, invoke } = yield* audited([tool("work", () => Effect.sync(() => (ran = true)))], {
        write: (entry) =>
          entry._tag === "CallDecided"
            ? Effect.andThen(Deferred.succeed(writing, undefined), Deferred.await(written))
            : Effect.void
      })
      const fiber = yield* Effect.forkChild(invoke("work"))
      yield* Deferred.await(writing)
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* settle
      yield* Deferred.succeed(written, undefined)
      yield* Fiber.join(interrupting)
      assert.deepStrictEqual(told(entries), ["Allowed", "interrupted"])
      assert.isFalse(ran)
    }))

  it.effect("whose turn never comes leaves nothing", () =>
    Effect.gen(function*() {
      const { entries, registry } = yield* audited([succeed("work")])
      yield* registry.admit(call("work"))
      assert.lengthOf(entries, 0)
    }))

  describe("whose log fails", () => {
    const fails = (of: AuditEntry.AuditEntry["_tag"], how: Effect.Effect<void, AuditError.AuditError>) => ({
      write: (entry: AuditEntry.AuditEntry) => entry._tag === of ? how : Effect.void
    })

    // verifies: audit.fails-closed
    it.effect("does not run", () =>
      Effect.gen(function*() {
        let runs = 0
        const work = tool("work", () => Effect.sync(() => ++runs))
        for (const how of [Effect.fail(unavailable), Effect.die("bug"), Effect.interrupt]) {
          const { entries, invoke, registry } = yield* audited([work], fails("CallDecided", how))
          const { messages, result } = yield* errorsOf(invoke("work"))
          assert.deepInclude(result.error?.reason, { _tag: "NotExecuted", why: "unaudited" })
          assert.strictEqual(result.result, "Error: not executed: it could not be recorded before it ran")
          assert.isFalse(result.error?.isRecoverable)
          assert.deepStrictEqual(messages, ["A call of \"work\" does not run: the audit log failed"])
          assert.lengthOf(entries, 0)
          assert.deepStrictEqual((yield* registry.stats).get("work")?.failures, { NotExecuted: 1 })
        }
        assert.strictEqual(runs, 0)
      }))

    // verifies: audit.bounded
    it.effect("in silence does not run, and is answered in time", () =>
      Effect.gen(function*() {
        for (const hangs of [Effect.never, Effect.uninterruptible(Effect.never)]) {
          const { invoke } = yield* audited([succeed("work")], {
            ...fails("CallDecided", hangs),
            references: Context.make(AuditLog.WriteTimeout, Duration.seconds(2))
          })
          const fiber = yield* Effect.forkChild(errorsOf(invoke("work")))
          const { result } = yield* after(fiber, "2 seconds")
          assert.deepInclude(result.error?.reason, { _tag: "NotExecuted", why: "unaudited" })
        }
      }))

    // verifies: audit.end-lost
    it.effect("after it ran keeps its result, and the failure is logged", () =>
      Effect.gen(function*() {
        const { invoke } = yield* audited([succeed("work")], fails("CallEnded", Effect.fail(unavailable)))
        const { messages, result } = yield* errorsOf(invoke("work"))
        assert.strictEqual(result.output, "work")
        assert.deepStrictEqual(messages, ["The end of a call of \"work\" could not be written to the audit log"])
      }))

    it.effect("in silence after it ran keeps its result", () =>
      Effect.gen(function*() {
        const { invoke } = yield* audited([succeed("work")], fails("CallEnded", Effect.never))
        const { result } = yield* after(yield* Effect.forkChild(errorsOf(invoke("work"))), "5 seconds")
        assert.strictEqual(result.output, "work")
      }))

    it.effect("and that is refused anyway stays refused", () =>
      Effect.gen(function*() {
        const { invoke } = yield* audited([succeed("work")], {
          ...fails("CallDecided", Effect.fail(unavailable)),
          policy: PermissionPolicy.layerCheck(() => Effect.succeed(PermissionPolicy.deny("no")))
        })
        const { messages, result } = yield* errorsOf(invoke("work"))
        assert.strictEqual(result.error?.reason._tag, "PermissionDenied")
        assert.deepStrictEqual(messages, ["A refused call of \"work\" could not be written to the audit log"])
      }))
  })

  describe("with secrets", () => {
    const shown = (
      input: unknown,
      tools: ReadonlyArray<Tool.Tool> = [succeed("work")],
      references?: Context.Context<never>
    ) =>
      Effect.gen(function*() {
        const { entries, invoke } = yield* audited(tools, { references: references ?? Context.empty() })
        yield* Effect.provide(invoke("work", input), Logger.layer([]))
        return argumentsOf(entries)[0]
      })

    // verifies: audit.redacted
    it.effect("shows none that has the name of one", () =>
      Effect.gen(function*() {
        const input = {
          password: "s",
          apiKey: "s",
          "x-api-key": ["s"],
          access_token: { value: "s" },
          dbSecret: 1,
          Authorization: "Bearer s",
          nested: [{ sshKey: "s", name: "shown" }],
          key: "shown",
          primaryKey: "shown",
          keywords: ["shown"],
          maxTokens: 100,
          author: "shown"
        }
        const redacted = "<redacted>"
        assert.deepStrictEqual(yield* shown(input), {
          ...input,
          password: redacted,
          apiKey: redacted,
          "x-api-key": redacted,
          access_token: redacted,
          dbSecret: redacted,
          Authorization: redacted,
          nested: [{ sshKey: redacted, name: "shown" }]
        })
      }))

    it.effect("shows none in commands, URLs and headers", () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(
          yield* shown({
            args: ["--api-key", "s-1", "--token=s-2", `--secret=${"s".repeat(1_000)}`, "-v", "plain"],
            url: "postgres://ada:s-3@db.example.com/x",
            command: "curl -H 'Authorization: Bearer s-4s-4s-4' https://example.com/a@b"
          }),
          {
            args: ["--api-key", "<redacted>", "--token=<redacted>", "--secret=<redacted>", "-v", "plain"],
            url: "postgres://<redacted>@db.example.com/x",
            command: "curl -H 'Authorization: Bearer <redacted>' https://example.com/a@b"
          }
        )
      }))

    it.effect("shows none that the tool's schema declares", () =>
      Effect.gen(function*() {
        class Login extends Schema.Class<Login>("Login")({ phrase: Schema.Redacted(Schema.String) }) {}
        class Work extends Tool.Service<Work>()("work", {
          description: "Works",
          parameters: Schema.Struct({
            plain: Schema.String,
            a: Schema.Redacted(Schema.String),
            b: Schema.optionalKey(Schema.Array(Schema.Redacted(Schema.String))),
            c: Schema.Record(Schema.String, Schema.RedactedFromValue(Schema.String)),
            login: Login
          })
        }) {}
        const program = Effect.gen(function*() {
          const { entries, registry } = yield* audited([])
          yield* registry.register(Work)
          const secret = "s"
          yield* registry.invoke(
            call("work", { plain: "p", a: secret, b: [secret], c: { x: secret }, login: { phrase: secret } })
          )
          return argumentsOf(entries)[0]
        })
        const redacted = "<redacted>"
        assert.deepStrictEqual(
          yield* program.pipe(Effect.provide(Work.layer(() => Effect.void))),
          { plain: "p", a: redacted, b: redacted, c: redacted, login: { phrase: redacted } }
        )
      }))

    it.effect("shows nothing where what is secret has no name that stays", () =>
      Effect.gen(function*() {
        class Work extends Tool.Service<Work>()("work", {
          description: "Works",
          parameters: Schema.Struct({ a: Schema.Redacted(Schema.String) }).pipe(Schema.encodeKeys({ a: "b" }))
        }) {}
        const { entries, registry } = yield* audited([])
        yield* registry.register(Work).pipe(Effect.provide(Work.layer(() => Effect.void)))
        yield* registry.invoke(call("work", { b: "s" }))
        assert.deepStrictEqual(argumentsOf(entries), ["<redacted>"])
      }))

    it.effect("shows none that JSON Schema marks", () =>
      Effect.gen(function*() {
        const work = tool("work", () => Effect.succeed(null), {
          inputSchema: {
            type: "object",
            properties: {
              pass: { type: "string", format: "password" },
              deep: { type: "array", items: { anyOf: [{ $ref: "#/$defs/inner" }] } }
            },
            $defs: {
              inner: { type: "object", properties: { once: { writeOnly: true }, more: { $ref: "#/$defs/inner" } } }
            }
          }
        })
        assert.deepStrictEqual(
          yield* shown({ pass: "s", deep: [{ once: "s", more: { once: "s", plain: 1 } }] }, [work]),
          { pass: "<redacted>", deep: [{ once: "<redacted>", more: { once: "<redacted>", plain: 1 } }] }
        )
      }))

    // verifies: audit.redact-custom
    it.effect("is shown as the application says", () =>
      Effect.gen(function*() {
        const custom = Context.make(AuditLog.Redact, ({ toolName }) => Effect.succeed(`of ${toolName}`))
        assert.strictEqual(yield* shown({ a: 1 }, undefined, custom), "of work")
        const hash = Context.make(AuditLog.Redact, AuditLog.hashArguments)
        assert.deepStrictEqual(yield* shown({ b: 1, a: 2 }, undefined, hash), {
          bytes: 13,
          sha256: "d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772"
        })
      }))

    it.effect("is not run if it cannot be shown", () =>
      Effect.gen(function*() {
        const { entries, invoke } = yield* audited([succeed("work")], {
          references: Context.make(AuditLog.Redact, () => Effect.die("bug"))
        })
        const { result } = yield* errorsOf(invoke("work"))
        assert.deepInclude(result.error?.reason, { why: "unaudited" })
        assert.lengthOf(entries, 0)
      }))

    // verifies: audit.bounded-entries
    it.effect("keeps entries small, whatever a model makes up", () =>
      Effect.gen(function*() {
        const large = { text: "x".repeat(20_000) }
        const first = yield* shown(large)
        assert.deepInclude(first, { bytes: 20_011 })
        assert.deepStrictEqual(
          yield* shown(large, undefined, Context.make(AuditLog.MaxArgumentsBytes, 30_000)),
          large
        )
        // What looks like the beginning of a secret over and over costs no more than it is long.
        for (const text of ["x".repeat(300_000), "a.".repeat(150_000), "--key".repeat(60_000)]) {
          assert.property(yield* shown({ text, args: [text] }), "sha256")
        }
        let deep: unknown = 1
        for (let depth = 0; depth < 100; depth++) deep = { deep }
        assert.include(JSON.stringify(yield* shown({ deep })), "<nested too deep>")
        const { entries, invoke } = yield* audited([])
        yield* invoke("y".repeat(5_000))
        assert.lengthOf(entries[0]!.toolName, 1_001)
      }))
  })

  // verifies: audit.custom
  it.effect("goes to a log of one's own, which keeps its services", () =>
    Effect.gen(function*() {
      class Sink extends Context.Service<Sink, (text: string) => void>()("test/Sink") {}
      const texts: Array<string> = []
      const Log = AuditLog.layer((entry) => Sink.useSync((sink) => sink(entry._tag))).pipe(
        Layer.provide(Layer.succeed(Sink, (text) => void texts.push(text)))
      )
      const Failing = AuditLog.layer(() => Effect.fail("full" as const))
      const invoke = (log: Layer.Layer<never>) =>
        Effect.provide(
          ToolRegistry.ToolRegistry.use((registry) => registry.invoke(call("work"))),
          Layer.merge(
            ToolRegistry.layer(succeed("work")).pipe(Layer.provide([PermissionPolicy.layerAllowAll, log])),
            Logger.layer([])
          )
        )
      yield* invoke(Log)
      assert.deepStrictEqual(texts, ["CallDecided", "CallEnded"])
      const error = yield* Effect.flip(invoke(Failing))
      assert.deepInclude(error.reason, { why: "unaudited" })
    }))

  it.effect("of a conversation says which turn and place it has", () =>
    Effect.gen(function*() {
      const entries: Array<AuditEntry.AuditEntry> = []
      const Model = ScriptedModel.layer([
        ScriptedModel.calls({ name: "a", params: {} }, { name: "b", params: {} }),
        ScriptedModel.calls({ name: "a", params: {} }),
        ScriptedModel.text("Done.")
      ])
      const Registry = ToolRegistry.layer(succeed("a"), succeed("b")).pipe(
        Layer.provide([
          PermissionPolicy.layerAllowAll,
          AuditLog.layer((entry) => Effect.sync(() => void entries.push(entry)))
        ])
      )
      yield* LlmCycle.LlmCycle.use((cycle) => cycle.submitWithTools("Go")).pipe(
        Effect.provide(LlmCycle.layer({ actor: "ada" }).pipe(Layer.provide([Model, Registry])))
      )
      const places = entries.filter(({ _tag }) => _tag === "CallEnded").map(({ index, turn }) => [turn, index])
      assert.deepStrictEqual(places, [[1, 0], [1, 1], [2, 0]])
      assert.lengthOf(new Set(entries.map(({ sessionId }) => sessionId)), 1)
      assert.deepStrictEqual(new Set(entries.map(({ actor }) => actor)), new Set(["ada"]))
      assert.lengthOf(new Set(entries.map(({ invocationId }) => invocationId)), 3)
    }))

  // verifies: audit.trace
  it.live("whose process is killed leaves a trace", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = `${yield* fs.makeTempDirectoryScoped()}/audit.jsonl`
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          ChildProcess.spawn(process.execPath, [caller, path], { stdio: ["ignore", "pipe", "inherit"] })
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      yield* Effect.callback<void>((resume) => {
        child.stdout.on("data", () => resume(Effect.void))
        child.on("close", () => resume(Effect.void))
      })
      child.kill("SIGKILL")
      const { broken, head } = yield* AuditLog.verifyFile(path)
      assert.isUndefined(broken)
      assert.strictEqual(head?.count, 1)
      const { entry } = JSON.parse(yield* fs.readFileString(path))
      assert.deepInclude(entry, { _tag: "CallDecided", sessionId: "killed", actor: "ada", toolName: "hang" })
    }).pipe(Effect.provide(NodeServices.layer)), 120_000)
})
