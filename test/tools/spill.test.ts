import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import {
  PermissionPolicy,
  Question,
  ReadResult,
  ResultStore,
  ResultStoreError,
  Tool,
  ToolContext,
  ToolError,
  ToolInvocation,
  ToolOutput,
  ToolRegistry
} from "agcore"
import { Deferred, Effect, Fiber, FileSystem, Layer, Logger, References, Schema } from "effect"
import { Prompt } from "effect/ai"
import { after, call, settle, tool } from "./support.ts"

const bytes = (text: string) => new TextEncoder().encode(text).length

const MARKER =
  /\n\[truncated: bytes 0 to (\d+) of (\d+) are shown; the whole result is stored as (res_[0-9a-f]{24})\. To read on, call read_result with this handle and offset \1; to find something in it, add a text to search for\]$/

/** What nobody lets read says so. */
const CLOSED = /\n\[truncated: bytes 0 to (\d+) of (\d+) are shown; the rest cannot be read here\]$/

/** A registry with a store in memory, or the one given. */
const make = Effect.fnUntraced(function*(
  tools: ReadonlyArray<Tool.Tool<PermissionPolicy.PermissionPolicy>>,
  options?: {
    readonly store?: ResultStore.ResultStore
    readonly policy?: Layer.Layer<PermissionPolicy.PermissionPolicy>
  }
) {
  const store = options?.store ?? (yield* ResultStore.makeMemory())
  const registry = yield* ToolRegistry.make.pipe(
    Effect.tap((registry) => registry.registerAll(tools)),
    Effect.provideService(ResultStore.ResultStore, store),
    Effect.provide(options?.policy ?? PermissionPolicy.layerAllowAll)
  )
  const read = (
    params: Readonly<Record<string, unknown>>,
    options?: { readonly sessionId?: string; readonly maxResultBytes?: number }
  ) => registry.invoke(call(ReadResult.NAME, params), options)
  return { registry, read, store }
})

const says = (value: Schema.Json | ToolOutput.Final<Schema.Json>) => tool("say", () => Effect.succeed(value))

const reasonOf = <A>(effect: Effect.Effect<A, ToolError.ToolError>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason)

const withLog = <A, E, R>(use: (logged: ReadonlyArray<string>) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const logged: Array<string> = []
    return Effect.provideService(
      use(logged),
      References.CurrentLoggers,
      new Set([Logger.make(({ message }) => logged.push(String(Array.isArray(message) ? message[0] : message)))])
    )
  })

/** Reads on from a shown start until the end, as a model would, and gives the whole. */
const readOn = Effect.fnUntraced(function*(
  { read }: Effect.Success<ReturnType<typeof make>>,
  shown: string,
  maxResultBytes: number
) {
  const [marker, offset, , handle] = MARKER.exec(shown)!
  let whole = shown.slice(0, shown.length - marker.length)
  let next: string | undefined = offset
  while (next !== undefined) {
    const page = yield* read({ handle, offset: Number(next), length: 1_000_000 }, { maxResultBytes })
    assert.isFalse(page.truncated)
    assert.isAtMost(bytes(String(page.result)), maxResultBytes)
    const [head, begin, more] = /^\[bytes (\d+) to \d+ of \d+, (?:the end|go on at offset (\d+))\]\n/.exec(
      String(page.result)
    )!
    assert.strictEqual(begin, next)
    whole += String(page.result).slice(head.length)
    next = more
  }
  return whole
})

const Pieces = Schema.NonEmptyArray(Schema.Union([
  Schema.NonEmptyString,
  Schema.Literals(["é", "漢", "🙂", "👩‍👩‍👧", "\ufeff", "\ud83d", "\ude42", "e\u0301", "\u0000", "\n"])
]))

describe("a result over the limit", () => {
  // verifies: spill.whole, spill.within-limit
  it.effect.prop(
    "is stored whole, and shown as a start that leads to the rest",
    { pieces: Pieces, maxBytes: Schema.Int.check(Schema.isBetween({ minimum: 150, maximum: 700 })) },
    ({ maxBytes, pieces }) =>
      Effect.gen(function*() {
        const text = pieces.join("").repeat(200)
        const whole = text.toWellFormed()
        const own = yield* make([says(text), ReadResult.tool])
        const invocation = yield* own.registry.invoke(call("say"), { maxResultBytes: maxBytes })
        assert.strictEqual(invocation.output, text)
        if (bytes(text) <= maxBytes) {
          assert.strictEqual(invocation.result, text)
          assert.isUndefined(invocation.stored)
          return
        }
        const shown = String(invocation.result)
        const [marker, offset, size, handle] = MARKER.exec(shown)!
        assert.isTrue(invocation.truncated)
        assert.deepStrictEqual(invocation.stored, { handle: handle!, sizeBytes: bytes(text), mediaType: "text/plain" })
        assert.strictEqual(Number(size), bytes(text))
        assert.isAtMost(bytes(shown), Math.max(maxBytes, bytes(marker)))
        assert.strictEqual(bytes(shown) - bytes(marker), Number(offset))
        assert.strictEqual(yield* readOn(own, shown, maxBytes), whole)
      }),
    { timeout: 60_000 }
  )

  // verifies: spill.whole
  it.effect("is stored as the JSON it would have been", () =>
    Effect.gen(function*() {
      const value = { list: Array.from({ length: 100 }, (_, i) => `item ${i} 漢字`) }
      const own = yield* make([says(value), ReadResult.tool])
      const { output, result, stored } = yield* own.registry.invoke(call("say"), { maxResultBytes: 500 })
      assert.deepStrictEqual(output, value)
      assert.strictEqual(stored?.mediaType, "application/json")
      assert.strictEqual(yield* readOn(own, String(result), 500), JSON.stringify(value))
    }))

  // verifies: spill.model-output
  it.effect("is the text that a model is shown in place of the value, and files stay whole", () =>
    Effect.gen(function*() {
      const file = Prompt.makePart("file", { mediaType: "image/png", data: "x".repeat(1_000) })
      const text = (content: string) => Prompt.makePart("text", { text: content })
      const long = "漢字\n".repeat(500)
      const output = ToolOutput.final("short", { modelOutput: [text("first"), file, text(long), file, text("last")] })
      const own = yield* make([says(output), ReadResult.tool])
      const { modelOutput, result, stored, truncated } = yield* own.registry.invoke(call("say"), {
        maxResultBytes: 600
      })
      assert.isTrue(truncated)
      assert.strictEqual(result, "short")
      assert.deepStrictEqual(modelOutput?.map(({ type }) => type), ["text", "file", "text", "file"])
      const shown = modelOutput!.flatMap((part) => part.type === "text" ? [part.text] : [])
      assert.strictEqual(shown[0], "first")
      assert.isAtMost(bytes(shown.join("")), 600)
      assert.strictEqual(stored?.mediaType, "text/plain")
      assert.strictEqual(`first\n${yield* readOn(own, shown[1]!, 600)}`, `first\n${long}\nlast`)
    }))

  it.effect("of many parts is stored once, and shown up to the limit", () =>
    Effect.gen(function*() {
      const modelOutput = Array.from(
        { length: 50 },
        (_, i) => Prompt.makePart("text", { text: `part ${i}`.repeat(10) })
      )
      const { registry, store } = yield* make([
        says(ToolOutput.final("v".repeat(9_000), { modelOutput })),
        ReadResult.tool
      ])
      const invocation = yield* registry.invoke(call("say"), { maxResultBytes: 1_000, sessionId: "s" })
      const shown = invocation.modelOutput?.flatMap((part) => part.type === "text" ? [part.text] : []) ?? []
      assert.isAtMost(bytes(shown.join("")), 1_000)
      const [, offset] = MARKER.exec(shown.at(-1)!)!
      const all = modelOutput.map(({ text }) => text).join("\n")
      assert.isTrue(all.startsWith(shown.join("\n").replace(MARKER, "")))
      assert.strictEqual(Number(offset), bytes(shown.join("\n").replace(MARKER, "")))
      assert.strictEqual(yield* store.removeSession("s"), 1)
    }))

  // verifies: spill.failure
  it.effect("is stored for failures too: a compiler says much when it fails", () =>
    Effect.gen(function*() {
      const errors = "error: é\n".repeat(1_000)
      const typed = Tool.dynamic({
        name: "typed",
        description: "Fails",
        inputSchema: { type: "object" },
        failure: Schema.String,
        handler: () => Effect.fail(errors)
      })
      const told = tool("told", () => Effect.succeed(ToolOutput.final({ errors }, { isFailure: true })))
      const own = yield* make([typed, told, ReadResult.tool])
      const [one, two] = yield* own.registry.invokeAll([call("typed"), call("told")], { maxResultBytes: 1_000 })
      assert.strictEqual(yield* readOn(own, String(one!.result), 1_000), errors)
      assert.strictEqual(yield* readOn(own, String(two!.result), 1_000), JSON.stringify({ errors }))
      for (const invocation of [one!, two!]) {
        assert.strictEqual(invocation.error?.reason._tag, "ExecutionFailed")
        assert.isTrue(invocation.truncated)
      }
    }))

  it.effect("is not stored for a call that never ran", () =>
    Effect.gen(function*() {
      const { registry } = yield* make([says("x"), ReadResult.tool])
      const [unknown] = yield* registry.invokeAll([call("nobody")], { maxResultBytes: 10 })
      assert.isTrue(unknown!.truncated)
      assert.isUndefined(unknown!.stored)
    }))

  // verifies: spill.no-reader
  it.effect("says that its rest is out of reach where no tool reads it", () =>
    Effect.gen(function*() {
      const { registry, store } = yield* make([says("x".repeat(5_000))])
      const { result, stored } = yield* registry.invoke(call("say"), { maxResultBytes: 500, sessionId: "s" })
      assert.match(String(result), CLOSED)
      assert.isAtMost(bytes(String(result)), 500)
      assert.strictEqual((yield* store.read({ sessionId: "s", handle: stored!.handle })).text, "x".repeat(5_000))

      const hidden = yield* make([says("x".repeat(5_000)), ReadResult.tool])
      const view = hidden.registry.view({ names: ["say"] })
      assert.match(String((yield* view.invoke(call("say"), { maxResultBytes: 500 })).result), CLOSED)
    }))

  it.effect("is nothing but the marker where the limit has no room for more", () =>
    Effect.gen(function*() {
      const { registry, store } = yield* make([says("x".repeat(100)), ReadResult.tool])
      for (const maxResultBytes of [10, 0, -1, Number.NaN, -Infinity]) {
        const { result, stored } = yield* registry.invoke(call("say"), { maxResultBytes, sessionId: "s" })
        const [marker, offset] = MARKER.exec(String(result))!
        assert.strictEqual(marker, result)
        assert.strictEqual(offset, "0")
        assert.strictEqual((yield* store.info({ sessionId: "s", handle: stored!.handle })).sizeBytes, 100)
      }
    }))

  // verifies: spill.once
  it.effect("is stored once, also where one registry's tools are another's", () =>
    Effect.gen(function*() {
      const inner = yield* make([says("é".repeat(5_000)), ReadResult.tool])
      const again = Tool.dynamic({
        name: "again",
        description: "Passes on what another registry says",
        inputSchema: { type: "object" },
        handler: () => Effect.map(inner.registry.invoke(call("say"), { maxResultBytes: 1_000 }), ({ result }) => result)
      })
      const outer = yield* make([again, ReadResult.tool])
      const { result, stored, truncated } = yield* outer.registry.invoke(call("again"), { maxResultBytes: 1_000 })
      assert.isFalse(truncated)
      assert.isUndefined(stored)
      assert.match(String(result), MARKER)
    }))

  it.effect("leaves a record that can be stored itself", () =>
    Effect.gen(function*() {
      const { registry } = yield* make([says("x".repeat(5_000)), ReadResult.tool])
      const invocation = yield* registry.invoke(call("say"), { maxResultBytes: 500 })
      const codec = Schema.toCodecJson(ToolInvocation.ToolInvocation)
      const json = JSON.parse(JSON.stringify(yield* Schema.encodeUnknownEffect(codec)(invocation)))
      assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(codec)(json), invocation)
    }))
})

describe("a store that fails", () => {
  const failing = (put: ResultStore.ResultStore["put"]) =>
    Effect.map(ResultStore.makeMemory(), (store): ResultStore.ResultStore => ({ ...store, put }))

  const cut = `${"x".repeat(500)}\n[truncated: 4500 more bytes]`

  const failures: ReadonlyArray<readonly [name: string, put: ResultStore.ResultStore["put"]]> = [
    ["fails", () =>
      Effect.fail(
        new ResultStoreError.ResultStoreError({ reason: new ResultStoreError.Io({ description: "the disk is full" }) })
      )],
    ["dies", () => Effect.die(new Error("a bug"))],
    ["throws", () => {
      throw new Error("a bug")
    }],
    ["interrupts itself", () => Effect.interrupt]
  ]

  // verifies: spill.fallback
  it.effect.each(failures)(
    "%s: the result is cut as without one, and that is logged",
    ([, put]) =>
      withLog((logged) =>
        Effect.gen(function*() {
          const { registry } = yield* make([says("x".repeat(5_000)), ReadResult.tool], { store: yield* failing(put) })
          const invocation = yield* registry.invoke(call("say"), { maxResultBytes: 500 })
          assert.strictEqual(invocation.result, cut)
          assert.strictEqual(invocation.output, "x".repeat(5_000))
          assert.isTrue(invocation.truncated)
          assert.isUndefined(invocation.stored)
          assert.deepStrictEqual(logged, ["A result of tool \"say\" could not be stored and is cut"])
        })
      )
  )

  // verifies: spill.fallback
  it.effect("has too little room: the result is cut", () =>
    Effect.gen(function*() {
      const store = yield* ResultStore.makeMemory({ maxBytes: 1_000 })
      const { registry } = yield* make([says("x".repeat(5_000)), ReadResult.tool], { store })
      assert.strictEqual((yield* registry.invoke(call("say"), { maxResultBytes: 500 })).result, cut)
    }))

  // verifies: spill.fallback
  it.effect("does not answer: the call does, in bounded time", () =>
    Effect.gen(function*() {
      for (const put of [() => Effect.never, () => Effect.uninterruptible(Effect.never)]) {
        const { registry } = yield* make([says("x".repeat(5_000)), ReadResult.tool], { store: yield* failing(put) })
        const fiber = yield* Effect.forkChild(registry.invoke(call("say"), { maxResultBytes: 500 }))
        assert.strictEqual((yield* after(fiber, "11 seconds")).result, cut)
      }
    }))

  it.effect("is not waited for by a call that is interrupted", () =>
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const stopped = yield* Deferred.make<void>()
      const put = () =>
        Deferred.succeed(begun, undefined).pipe(
          Effect.andThen(Effect.never),
          Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
        )
      const { registry } = yield* make([says("x".repeat(5_000))], { store: yield* failing(put) })
      const fiber = yield* Effect.forkChild(registry.invoke(call("say"), { maxResultBytes: 500 }))
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      yield* Deferred.await(stopped)
      yield* settle
    }))
})

describe("the tool that reads results", () => {
  const spilled = Effect.fnUntraced(function*(
    text: string,
    options?: Parameters<typeof make>[1] & { readonly tool?: Tool.Tool }
  ) {
    const own = yield* make([options?.tool ?? says(text), ReadResult.tool], options)
    const { stored } = yield* own.registry.invoke(call(options?.tool?.definition.name ?? "say", { path: "/home/a" }), {
      sessionId: "s-1",
      maxResultBytes: 10
    })
    return { ...own, handle: stored!.handle }
  })

  // verifies: read-result.pages
  it.effect.prop(
    "never gives more than one result may have",
    {
      maxResultBytes: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_500 })),
      length: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3_000 })),
      search: Schema.Literals(["", "漢", "é\n", "nothing", "e"])
    },
    ({ length, maxResultBytes, search }) =>
      Effect.gen(function*() {
        const { handle, read } = yield* spilled("漢字 é\n".repeat(400))
        const params = search === "" ? { handle, length } : { handle, length, search }
        const invocation = yield* read(params, { sessionId: "s-1", maxResultBytes }).pipe(
          Effect.catch((error) => Effect.succeed(error))
        )
        if (ToolError.isToolError(invocation)) {
          assert.isBelow(maxResultBytes, 150)
          assert.match(invocation.message, /too few to read in/)
        } else {
          assert.isFalse(invocation.truncated)
          assert.isUndefined(invocation.stored)
          assert.isAtMost(bytes(String(invocation.result)), maxResultBytes)
        }
      })
  )

  // verifies: read-result.pages
  it.effect("reads a page, the next one, and says where the end is", () =>
    Effect.gen(function*() {
      const { handle, read } = yield* spilled("漢字".repeat(10))
      const page = (params: object) =>
        Effect.map(read({ handle, ...params }, { sessionId: "s-1" }), ({ output }) => output)
      assert.strictEqual(yield* page({}), `[bytes 0 to 60 of 60, the end]\n${"漢字".repeat(10)}`)
      assert.strictEqual(yield* page({ length: 8 }), "[bytes 0 to 6 of 60, go on at offset 6]\n漢字")
      assert.strictEqual(yield* page({ offset: 55 }), "[bytes 54 to 60 of 60, the end]\n漢字")
      assert.strictEqual(yield* page({ offset: 60 }), "[bytes 60 to 60 of 60, the end]\n")
      assert.strictEqual(yield* page({ offset: 9_999 }), "[bytes 60 to 60 of 60, the end]\n")
      const long = yield* spilled("x".repeat(50_000))
      const { output } = yield* long.read({ handle: long.handle }, { sessionId: "s-1" })
      assert.match(String(output), /^\[bytes 0 to 16384 of 50000, go on at offset 16384\]\nx/)
    }))

  // verifies: read-result.search
  it.effect("finds a text, with line, offset and what stands around it", () =>
    Effect.gen(function*() {
      const text = Array.from({ length: 1_000 }, (_, i) => `line ${i + 1} ${i % 100 === 7 ? "Needle (" : "hay"}\n`)
        .join("")
      const { handle, read } = yield* spilled(text)
      const find = (params: object) =>
        Effect.map(read({ handle, ...params }, { sessionId: "s-1" }), ({ output }) => String(output))
      const found = yield* find({ search: "needle (", ignoreCase: true })
      assert.match(found, /^\[10 matches in \d+ bytes\]\n/)
      assert.include(found, `\n\noffset ${bytes(text.slice(0, text.indexOf("Needle")))}, line 8:\n`)
      assert.include(found, "line 8 Needle (\nline 9 hay")
      assert.strictEqual(yield* find({ search: "needle" }), `[no match in ${bytes(text)} bytes]`)
      assert.match(yield* find({ search: "hay" }), /^\[20 matches in \d+ bytes, search on at offset \d+\]/)
    }))

  // verifies: read-result.search
  it.effect("finds every match by searching on, however little fits", () =>
    Effect.gen(function*() {
      const { handle, read } = yield* spilled("needle and some hay\n".repeat(30))
      const lines: Array<number> = []
      let offset: number | undefined = 0
      while (offset !== undefined) {
        const { output }: ToolInvocation.ToolInvocation = yield* read({ handle, search: "needle", offset }, {
          sessionId: "s-1",
          maxResultBytes: 200
        })
        const text = String(output)
        lines.push(...Array.from(text.matchAll(/^offset \d+, line (\d+):$/gm), ([, line]) => Number(line)))
        const next: RegExpExecArray | null = /search on at offset (\d+)/.exec(text.split("\n")[0]!)
        offset = next === null ? undefined : Number(next[1])
      }
      assert.deepStrictEqual(lines, Array.from({ length: 30 }, (_, index) => index + 1))
    }))

  it.effect("is for reading, and says so", () =>
    Effect.gen(function*() {
      const { description, idempotent, inputSchema, openWorld, permissions, readonly: isReadonly } =
        ReadResult.tool.definition
      assert.deepStrictEqual(
        { idempotent, openWorld, isReadonly, permissions },
        { idempotent: true, openWorld: false, isReadonly: true, permissions: ["read"] }
      )
      assert.include(description, "too large")
      assert.deepStrictEqual(Object.keys(Object(inputSchema.properties)), [
        "handle",
        "offset",
        "length",
        "search",
        "ignoreCase"
      ])
      const { handle, read } = yield* spilled("text".repeat(10))
      for (
        const params of [{}, { handle, offset: -1 }, { handle, length: 0 }, { handle, search: "" }, {
          handle,
          offset: 0.5
        }]
      ) {
        assert.strictEqual((yield* reasonOf(read(params)))._tag, "InvalidArguments")
      }
    }))

  // verifies: read-result.session
  it.effect("knows no result of another session", () =>
    Effect.gen(function*() {
      const { handle, read } = yield* spilled("secret".repeat(10))
      const told = (params: object, sessionId?: string) =>
        Effect.map(
          Effect.flip(read({ handle, ...params }, sessionId === undefined ? {} : { sessionId })),
          (error) => error.modelMessage
        )
      const missing = yield* told({ handle: `res_${"0".repeat(24)}` }, "s-1")
      assert.match(missing, /there is no stored result "res_0+" here/)
      for (const params of [{}, { search: "secret" }]) {
        for (const sessionId of ["s-2", undefined]) {
          assert.strictEqual(yield* told(params, sessionId), missing.replace(/res_0+/, handle))
        }
      }
      const long = yield* told({ handle: "../".repeat(10_000) }, "s-1")
      assert.isBelow(long.length, 300)
    }))

  // verifies: read-result.policy
  it.effect("is denied what the policy denies by now", () =>
    Effect.gen(function*() {
      let isDenied = false
      const requests: Array<PermissionPolicy.Request> = []
      const policy = PermissionPolicy.layerCheck((request) =>
        Effect.sync(() => {
          requests.push(request)
          return isDenied && request.tool.name === "say" ? PermissionPolicy.deny("no longer") : PermissionPolicy.allow
        })
      )
      const { handle, read } = yield* spilled("secret".repeat(10), { policy })
      yield* read({ handle }, { sessionId: "s-1" })
      // The question is the one that was asked when the call was made.
      const [first, , again] = requests
      assert.deepStrictEqual([again!.tool, again!.input, again!.sessionId], [first!.tool, first!.input, "s-1"])
      isDenied = true
      const reason = yield* reasonOf(read({ handle }, { sessionId: "s-1" }))
      assert.isTrue(reason._tag === "PermissionDenied" && reason.explanation === "say: no longer")
      const searched = yield* reasonOf(read({ handle, search: "secret" }, { sessionId: "s-1" }))
      assert.strictEqual(searched._tag, "PermissionDenied")
    }))

  // verifies: read-result.policy
  it.effect("is denied itself like any other tool", () =>
    Effect.gen(function*() {
      const own = yield* spilled("secret".repeat(10), { policy: PermissionPolicy.layer({ denied: ["read"] }) })
      assert.strictEqual(
        (yield* reasonOf(own.read({ handle: own.handle }, { sessionId: "s-1" })))._tag,
        "PermissionDenied"
      )
    }))

  // verifies: read-result.policy
  it.effect("may read what somebody was asked for and said yes to, and nothing when the policy breaks", () =>
    Effect.gen(function*() {
      let breaks = false
      const policy = PermissionPolicy.layerCheck((request) =>
        request.tool.name === ReadResult.NAME
          ? Effect.succeed(PermissionPolicy.allow)
          : breaks
          ? Effect.die(new Error("a bug"))
          : Effect.succeed(PermissionPolicy.ask("Really?"))
      )
      const approver = Layer.succeed(
        PermissionPolicy.Approver,
        (question) => Effect.succeed(Question.approve(question))
      )
      const { handle, read } = yield* Effect.provide(spilled("secret".repeat(10), { policy }), approver)
      assert.include(String((yield* read({ handle }, { sessionId: "s-1" })).output), "secret")
      breaks = true
      assert.strictEqual((yield* reasonOf(read({ handle }, { sessionId: "s-1" })))._tag, "PermissionDenied")
    }))

  // verifies: read-result.policy
  it.effect.each([{}, undefined, { _tag: "Maybe" }])(
    "is closed where the policy's answer is not clear: %j",
    (unclear) =>
      Effect.gen(function*() {
        let isClear = true
        const policy = PermissionPolicy.layerCheck((request) =>
          Effect.succeed(
            isClear || request.tool.name === ReadResult.NAME
              ? PermissionPolicy.allow
              // What a policy written without types may answer.
              : unclear as PermissionPolicy.Decision
          )
        )
        const { handle, read } = yield* spilled("secret".repeat(10), { policy })
        isClear = false
        assert.strictEqual((yield* reasonOf(read({ handle }, { sessionId: "s-1" })))._tag, "PermissionDenied")
      })
  )

  it.effect("warns where there is nothing to read", () =>
    withLog((logged) =>
      Effect.gen(function*() {
        const registry = yield* ToolRegistry.make.pipe(
          Effect.tap((registry) => registry.register(ReadResult.tool)),
          Effect.provide(PermissionPolicy.layerAllowAll)
        )
        assert.match(logged[0]!, /read_result.*no ResultStore/)
        const error = yield* Effect.flip(registry.invoke(call(ReadResult.NAME, { handle: "res_1" })))
        assert.strictEqual(error.modelMessage, "Error: no results are stored here")
      })
    ))

  it.effect("reads from the store of its own registry", () =>
    Effect.gen(function*() {
      const [one, two] = [yield* spilled("1".repeat(100)), yield* spilled("2".repeat(100))]
      assert.include(String((yield* one.read({ handle: one.handle }, { sessionId: "s-1" })).output), "111")
      assert.include(String((yield* two.read({ handle: two.handle }, { sessionId: "s-1" })).output), "222")
      assert.strictEqual((yield* reasonOf(one.read({ handle: two.handle }, { sessionId: "s-1" })))._tag, "Other")
    }))

  // verifies: spill.restart
  it.effect("reads what a process stored that is gone", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped({ prefix: "agcore-results-" })
      const process = Effect.map(ResultStore.makeFileSystem({ directory }), (store) => ({ store }))
      const { handle } = yield* spilled("é".repeat(1_000), yield* process)
      const later = yield* make([ReadResult.tool], yield* process)
      const { output } = yield* later.read({ handle, offset: 1_990 }, { sessionId: "s-1" })
      assert.strictEqual(output, "[bytes 1990 to 2000 of 2000, the end]\nééééé")
      for (const name of yield* fs.readDirectory(directory)) yield* fs.truncate(`${directory}/${name}`, 100)
      const error = yield* Effect.flip(later.read({ handle }, { sessionId: "s-1" }))
      assert.strictEqual(error.reason._tag, "Io")
      assert.notInclude(error.modelMessage, directory)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})

describe("a tool", () => {
  it.effect("can know how much of its result is shown", () =>
    Effect.gen(function*() {
      const asks = tool("asks", () => ToolContext.ToolContext.useSync(({ maxResultBytes }) => maxResultBytes))
      const { registry } = yield* make([asks])
      const told = (maxResultBytes?: number) =>
        Effect.map(registry.invoke(call("asks"), { maxResultBytes }), ({ output }) => output)
      assert.deepStrictEqual([yield* told(), yield* told(99.9), yield* told(-1)], [65_536, 99, 0])
    }))
})
