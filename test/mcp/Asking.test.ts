import { assert, describe, it } from "@effect/vitest"
import { McpElicitation, McpRoots, McpSampling } from "agcore/mcp"
import { McpPeer } from "agcore/testing"
import { Effect, Fiber, Layer, Queue, Stream } from "effect"
import { LanguageModel, type Response } from "effect/ai"
import { TestClock } from "effect/testing"
import { reasonOf, textOf } from "./support.ts"

const started = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })

const schema = {
  type: "object",
  properties: {
    name: { type: "string", default: "Ada" },
    age: { type: "integer", default: 36, minimum: 0 },
    colour: { type: "string", enum: ["red", "green"], default: "red" },
    fast: { type: "boolean", default: true },
    note: { type: "string" }
  },
  required: ["name"]
}

/** How a server of either era asks: by a request, or inside the answer to a call. */
const eras = {
  legacy: Effect.fnUntraced(function*(method: string, params: unknown) {
    const peer: McpPeer.McpPeer = yield* McpPeer.make({
      tools: [{
        definition: { name: "ask" },
        call: () =>
          Effect.match(peer.request(method, params as McpElicitationParams), {
            onSuccess: (answer) => JSON.stringify(answer),
            onFailure: (error) => JSON.stringify({ code: error.code })
          })
      }]
    })
    return peer
  }),
  modern: (method: string, params: unknown) =>
    McpPeer.make({
      protocolVersion: "2026-07-28",
      tools: [{
        definition: { name: "ask" },
        call: (_, { params: call }) =>
          call["inputResponses"] === undefined
            ? Effect.succeed({ resultType: "input_required", inputRequests: { q: { method, params } } })
            : Effect.succeed(JSON.stringify((call["inputResponses"] as { q: unknown }).q))
      }]
    })
}
type McpElicitationParams = Record<string, unknown>

for (const [era, make] of Object.entries(eras)) {
  /** What a client with these services answers, and what it advertised. */
  const ask = (method: string, params: unknown, services: Layer.Layer<never> | Layer.Layer<AnyService>) =>
    Effect.gen(function*() {
      const peer = yield* make(method, params)
      const client = yield* peer.connect()
      const answer = yield* Effect.result(client.callTool("ask"))
      const handshake = (yield* peer.received).find(({ method }) => method === "initialize" || method === "tools/call")
      const meta = (handshake?.params?.["_meta"] ?? {}) as Record<string, unknown>
      const capabilities = handshake?.params?.["capabilities"] ?? meta["io.modelcontextprotocol/clientCapabilities"]
      return {
        answer: answer._tag === "Success" ? JSON.parse(textOf(answer.success)) : answer.failure.reason,
        capabilities
      }
    }).pipe(Effect.scoped, Effect.provide(services as Layer.Layer<never>))

  describe(`a question of a ${era} server`, () => {
    for (const method of ["roots/list", "elicitation/create", "sampling/createMessage", "evil/do"]) {
      // verifies: mcp.asking
      it.effect(`${method} is declined, and nothing is advertised, where nobody answers`, () =>
        Effect.gen(function*() {
          const { answer, capabilities } = yield* ask(method, {}, Layer.empty)
          assert.deepStrictEqual(capabilities, {})
          if (era === "legacy") assert.deepStrictEqual(answer, { code: -32601 })
          else assert.deepStrictEqual([answer._tag, answer.method], ["NotSupported", method])
        }))
    }

    it.effect("for roots gets them", () =>
      Effect.gen(function*() {
        const roots = [{ uri: "file:///work", name: "Work" }]
        const { answer, capabilities } = yield* ask("roots/list", undefined, McpRoots.layer(roots))
        assert.deepStrictEqual(answer, { roots })
        assert.deepStrictEqual(capabilities, { roots: { listChanged: true } })
      }))

    const form = (answer: (request: McpElicitation.FormRequest) => McpElicitation.Answer) =>
      McpElicitation.layer({ form: (request) => Effect.sync(() => answer(request)) })

    it.effect("by a form is shown what it asks and fills in the defaults", () =>
      Effect.gen(function*() {
        let seen: unknown
        const services = form((request) => {
          seen = request
          return McpElicitation.accept({ note: "x", age: 7, fast: undefined })
        })
        const params = { message: "Who?\u001b[2J", requestedSchema: schema }
        const { answer, capabilities } = yield* ask("elicitation/create", params, services)
        assert.deepStrictEqual(answer, {
          action: "accept",
          content: { name: "Ada", age: 7, colour: "red", fast: true, note: "x" }
        })
        const defaults = { name: "Ada", age: 36, colour: "red", fast: true }
        assert.deepStrictEqual(seen, { mode: "form", server: "peer", message: "Who?", schema, defaults })
        assert.deepStrictEqual(capabilities, { elicitation: { form: {} } })
      }))

    for (const [answer, action] of [[McpElicitation.decline, "decline"], [McpElicitation.cancel, "cancel"]] as const) {
      it.effect(`by a form may be met with ${action}`, () =>
        Effect.gen(function*() {
          const asked = yield* ask(
            "elicitation/create",
            { mode: "form", message: "?", requestedSchema: schema },
            form(() => answer)
          )
          assert.deepStrictEqual(asked.answer, { action })
        }))
    }

    it.effect("by a form is not answered with what does not fit it", () =>
      Effect.gen(function*() {
        const services = form(() => McpElicitation.accept({ age: -1 }))
        const { answer } = yield* ask("elicitation/create", { message: "?", requestedSchema: schema }, services)
        if (era === "legacy") assert.deepStrictEqual(answer, { code: -32603 })
        else assert.strictEqual(answer._tag, "InvalidAnswer")
      }))

    it.effect("by a link goes to the person only when it is safe to open", () =>
      Effect.gen(function*() {
        const opened: Array<string> = []
        const services = McpElicitation.layer({
          url: ({ url }) =>
            Effect.sync(() => {
              opened.push(url)
              return McpElicitation.accept()
            })
        })
        const answers: Array<unknown> = []
        const urls = [
          "https://example.com/a",
          "http://localhost:80/b",
          "http://127.0.0.1/c",
          "http://example.com/",
          "javascript:alert(1)",
          "file:///etc/passwd",
          "https://user:pw@example.com",
          "no url"
        ]
        for (const url of urls) {
          const params = { mode: "url", message: "open", url, elicitationId: "e" }
          answers.push((yield* ask("elicitation/create", params, services)).answer)
        }
        assert.deepStrictEqual(opened, urls.slice(0, 3))
        assert.deepStrictEqual(answers.slice(0, 3), [{ action: "accept" }, { action: "accept" }, { action: "accept" }])
      }))

    it.effect("to a model is put in its words, and answered in the server's", () =>
      Effect.gen(function*() {
        const model = yield* scriptedModel([{ type: "text", text: "Paris" }])
        const services = McpSampling.layerLanguageModel().pipe(Layer.provide(model.layer))
        const { answer, capabilities } = yield* ask("sampling/createMessage", {
          systemPrompt: "Be brief",
          messages: [
            { role: "user", content: { type: "text", text: "Capital of France?" } },
            { role: "assistant", content: { type: "text", text: "Which France?" } },
            {
              role: "user",
              content: [{ type: "image", data: "aGk=", mimeType: "image/png" }, { type: "text", text: null }]
            }
          ],
          maxTokens: 10
        }, services)
        assert.deepStrictEqual(answer, {
          role: "assistant",
          content: { type: "text", text: "Paris" },
          model: "scripted-1",
          stopReason: "endTurn"
        })
        assert.deepStrictEqual(capabilities, { sampling: { tools: {} } })
        assert.deepStrictEqual(model.roles(), ["system", "user", "assistant", "user"])
      }))

    it.effect("to a model may bring tools, which the server runs", () =>
      Effect.gen(function*() {
        const model = yield* scriptedModel([{
          type: "tool-call",
          id: "c1",
          name: "weather",
          params: { city: "Paris" }
        }])
        const services = McpSampling.layerLanguageModel().pipe(Layer.provide(model.layer))
        const { answer } = yield* ask("sampling/createMessage", {
          messages: [
            { role: "user", content: { type: "text", text: "Weather?" } },
            { role: "assistant", content: [{ type: "tool_use", id: "c0", name: "weather", input: { city: "Rome" } }] },
            {
              role: "user",
              content: [{ type: "tool_result", toolUseId: "c0", content: [{ type: "text", text: "18°" }] }]
            }
          ],
          tools: [{ name: "weather", inputSchema: { type: "object", properties: { city: { type: "string" } } } }],
          toolChoice: { mode: "auto" },
          maxTokens: 10
        }, services)
        assert.deepStrictEqual(answer, {
          role: "assistant",
          content: { type: "tool_use", id: "c1", name: "weather", input: { city: "Paris" } },
          model: "scripted-1",
          stopReason: "toolUse"
        })
        assert.deepStrictEqual(model.roles(), ["user", "assistant", "tool"])
      }))

    it.effect("to a model is not put where it was not approved", () =>
      Effect.gen(function*() {
        const model = yield* scriptedModel([])
        const services = McpSampling.layerLanguageModel({ approve: () => Effect.succeed(false) }).pipe(
          Layer.provide(model.layer)
        )
        const { answer } = yield* ask("sampling/createMessage", { messages: [], maxTokens: 1 }, services)
        if (era === "legacy") assert.deepStrictEqual(answer, { code: -1 })
        else assert.strictEqual(answer._tag, "InvalidAnswer")
        assert.deepStrictEqual(model.roles(), [])
      }))

    it.effect("that breaks its handler is answered all the same", () =>
      Effect.gen(function*() {
        const services = McpElicitation.layer({ form: () => Effect.die("bug") })
        const { answer } = yield* ask("elicitation/create", { message: "?", requestedSchema: schema }, services)
        if (era === "legacy") assert.deepStrictEqual(answer, { code: -32603 })
        else assert.strictEqual(answer._tag, "InvalidAnswer")
      }))

    it.effect("may take a person longer than a call may take the server", () =>
      Effect.gen(function*() {
        const peer = yield* make("elicitation/create", { message: "?", requestedSchema: schema })
        const services = McpElicitation.layer({
          form: () => Effect.delay(Effect.succeed(McpElicitation.accept()), "5 minutes")
        })
        const client = yield* Effect.provide(peer.connect(), services)
        const call = yield* started(client.callTool("ask"))
        yield* TestClock.adjust("5 minutes")
        assert.strictEqual(JSON.parse(textOf(yield* Fiber.join(call))).action, "accept")
      }))

    it.effect("cannot be left open for ever", () =>
      Effect.gen(function*() {
        const peer = yield* make("elicitation/create", { message: "?", requestedSchema: schema })
        const client = yield* Effect.provide(peer.connect(), McpElicitation.layer({ form: () => Effect.never }))
        const call = yield* started(Effect.exit(client.callTool("ask")))
        yield* TestClock.adjust("11 minutes")
        assert.isDefined(call.pollUnsafe())
      }))
  })
}

describe("a question of an older server", () => {
  it.effect("can be taken back", () =>
    Effect.gen(function*() {
      let interrupted = false
      const services = McpElicitation.layer({
        form: () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (interrupted = true)))
      })
      const peer = yield* McpPeer.make()
      yield* Effect.provide(peer.connect(), services)
      yield* peer.send({ jsonrpc: "2.0", id: "q", method: "elicitation/create", params: { message: "?" } })
      yield* Effect.yieldNow
      yield* peer.notify("notifications/cancelled", { requestId: "q" })
      yield* Effect.yieldNow
      assert.isTrue(interrupted)
    }))

  it.effect("is one of at most 32", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make()
      yield* Effect.provide(peer.connect(), McpElicitation.layer({ form: () => Effect.never }))
      for (let id = 0; id < 40; id++) {
        yield* peer.send({ jsonrpc: "2.0", id, method: "elicitation/create", params: { message: "?" } })
      }
      yield* Effect.yieldNow
      assert.strictEqual((yield* peer.received).filter(({ error }) => error !== undefined).length, 8)
    }))

  it.effect("has an id that goes back as it came, 0 included", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make()
      yield* peer.connect()
      for (const id of [0, "0", "a b", -1]) yield* peer.send({ jsonrpc: "2.0", id, method: "ping" })
      const answers = (yield* peer.received).filter(({ result }) => result !== undefined)
      assert.deepStrictEqual(answers.map(({ id }) => id), [0, "0", "a b", -1])
    }))

  it.effect("is told when the roots change", () =>
    Effect.gen(function*() {
      const changes = yield* Queue.unbounded<void>()
      const services = Layer.succeed(McpRoots.McpRoots, {
        list: Effect.succeed([]),
        changes: Stream.fromQueue(changes)
      })
      const peer = yield* McpPeer.make()
      yield* Effect.provide(peer.connect(), services)
      yield* Queue.offer(changes, undefined)
      yield* Effect.repeat(Effect.yieldNow, { times: 10 })
      assert.include((yield* peer.received).map(({ method }) => method), "notifications/roots/list_changed")
    }))
})

describe("a refusal until a link was followed", () => {
  const link = { mode: "url", elicitationId: "e1", url: "https://example.com/connect", message: "Connect" }
  const refusal = { code: -32042, message: "first connect", data: { elicitations: [link] } }

  const ask = (answer: McpElicitation.Answer, tell: boolean) =>
    Effect.gen(function*() {
      let calls = 0
      const peer = yield* McpPeer.make({
        handlers: {
          "tools/call": () =>
            calls++ === 0 ? Effect.fail(refusal) : Effect.succeed({ content: [{ type: "text", text: "connected" }] })
        }
      })
      const services = McpElicitation.layer({
        url: ({ elicitationId }) =>
          Effect.as(tell ? peer.notify("notifications/elicitation/complete", { elicitationId }) : Effect.void, answer)
      })
      const client = yield* Effect.provide(peer.connect(), services)
      return { call: yield* started(Effect.result(client.callTool("t"))), calls: () => calls }
    })

  it.effect("is got over when the server says that it is complete", () =>
    Effect.gen(function*() {
      const { call } = yield* ask(McpElicitation.accept(), true)
      const result = yield* Fiber.join(call)
      assert.strictEqual(result._tag === "Success" && textOf(result.success), "connected")
    }))

  it.effect("is got over after a while when the server says nothing", () =>
    Effect.gen(function*() {
      const { call, calls } = yield* ask(McpElicitation.accept(), false)
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(calls(), 1)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(call))._tag, "Success")
    }))

  it.effect("stands when the person declines", () =>
    Effect.gen(function*() {
      const { call, calls } = yield* ask(McpElicitation.decline, false)
      const result = yield* Fiber.join(call)
      const reason = result._tag === "Failure" ? result.failure.reason : undefined
      assert.deepStrictEqual([reason?._tag, calls()], ["Refused", 1])
    }))

  it.effect("stands when nobody can be asked", () =>
    Effect.gen(function*() {
      const peer = yield* McpPeer.make({ handlers: { "tools/call": () => Effect.fail(refusal) } })
      const reason = yield* reasonOf((yield* peer.connect()).callTool("t"))
      assert.strictEqual(reason._tag === "Refused" && reason.code, -32042)
    }))
})

describe("input that a modern server requires", () => {
  const modern = (call: (round: number, params: Record<string, unknown>) => unknown) => {
    let round = 0
    return McpPeer.make({
      protocolVersion: "2026-07-28",
      handlers: { "tools/call": (params) => Effect.sync(() => call(++round, params)) }
    })
  }
  const done = { content: [{ type: "text", text: "done" }] }

  // verifies: mcp.input-required
  it.effect("is sent with new ids and the state exactly as it came, or none", () =>
    Effect.gen(function*() {
      const state = "S T\u00e9\" \u2028\u0000 {}"
      const peer = yield* modern((round) =>
        round === 1
          ? { resultType: "input_required", requestState: state }
          : round === 2
          ? { resultType: "input_required", inputRequests: { a: { method: "roots/list" } } }
          : done
      )
      const client = yield* Effect.provide(peer.connect(), McpRoots.layer([]))
      assert.strictEqual(textOf(yield* client.callTool("t", { x: 1 })), "done")
      const calls = (yield* peer.received).filter(({ method }) => method === "tools/call")
      assert.strictEqual(new Set(calls.map(({ id }) => id)).size, 3)
      assert.deepStrictEqual(
        calls.map(({ params }) => [params?.["arguments"], params?.["requestState"], params?.["inputResponses"]]),
        [[{ x: 1 }, undefined, undefined], [{ x: 1 }, state, undefined], [{ x: 1 }, undefined, { a: { roots: [] } }]]
      )
    }))

  it.effect("ends after ten rounds", () =>
    Effect.gen(function*() {
      const peer = yield* modern(() => ({ resultType: "input_required", requestState: "x" }))
      const reason = yield* reasonOf((yield* peer.connect()).callTool("t"))
      assert.deepStrictEqual(reason._tag === "LimitExceeded" && reason.max, 10)
      assert.strictEqual((yield* peer.received).filter(({ method }) => method === "tools/call").length, 11)
    }))

  it.effect("is given for at most 32 requests at once", () =>
    Effect.gen(function*() {
      const asks = (count: number) =>
        Object.fromEntries(Array.from({ length: count }, (_, n) => [`r${n}`, { method: "roots/list" }]))
      for (const [count, fits] of [[32, true], [33, false]] as const) {
        const peer = yield* modern((round) =>
          round === 1 ? { resultType: "input_required", inputRequests: asks(count) } : done
        )
        const client = yield* peer.connect().pipe(Effect.provide(McpRoots.layer([{ uri: "file:///a" }])))
        if (fits) assert.strictEqual(textOf(yield* client.callTool("t")), "done")
        else assert.strictEqual((yield* reasonOf(client.callTool("t")))._tag, "LimitExceeded")
      }
    }))

  const invalid: Record<string, unknown> = {
    "names nothing": { resultType: "input_required" },
    "names null": { resultType: "input_required", inputRequests: null, requestState: null },
    "is of a kind nobody knows": { resultType: "hologram", ...done }
  }
  for (const [title, result] of Object.entries(invalid)) {
    it.effect(`fails the call when it ${title}, and the connection goes on`, () =>
      Effect.gen(function*() {
        const peer = yield* modern((round) => round === 1 ? result : done)
        const client = yield* peer.connect()
        assert.strictEqual((yield* reasonOf(client.callTool("t")))._tag, "InvalidAnswer")
        assert.strictEqual(textOf(yield* client.callTool("t")), "done")
      }))
  }

  it.effect("is allowed for prompts and resources too, and for nothing else", () =>
    Effect.gen(function*() {
      const required = { resultType: "input_required", requestState: "x" }
      const twice = (answer: unknown) => (params: Record<string, unknown>) =>
        Effect.succeed(params["requestState"] === undefined ? required : answer)
      const peer = yield* McpPeer.make({
        protocolVersion: "2026-07-28",
        handlers: {
          "prompts/get": twice({ messages: [{ role: "user", content: { type: "text", text: "p" } }] }),
          "resources/read": twice({ contents: [{ uri: "x://y", text: "r" }] }),
          "tools/list": twice({ tools: [] })
        }
      })
      const client = yield* peer.connect()
      assert.strictEqual((yield* client.getPrompt("p")).messages.length, 1)
      assert.strictEqual((yield* client.readResource("x://y")).length, 1)
      assert.strictEqual((yield* reasonOf(client.listTools))._tag, "InvalidAnswer")
    }))

  it.effect("is not asked for by requests: those are passed over", () =>
    Effect.gen(function*() {
      const peer = yield* modern(() => done)
      const client = yield* peer.connect()
      const before = (yield* peer.received).length
      yield* peer.send({ jsonrpc: "2.0", id: 9, method: "sampling/createMessage", params: {} })
      assert.strictEqual((yield* peer.received).length, before)
      assert.deepStrictEqual((yield* client.diagnostics).map(({ kind }) => kind), ["declined-request"])
    }))
})

type AnyService = McpRoots.McpRoots | McpElicitation.McpElicitation | McpSampling.McpSampling

/** A model that always says the same, and remembers the roles of the last prompt. */
const scriptedModel = (parts: ReadonlyArray<Record<string, unknown>>) =>
  Effect.gen(function*() {
    let roles: ReadonlyArray<string> = []
    const content = [
      { type: "response-metadata", id: "r", modelId: "scripted-1", timestamp: undefined, request: undefined },
      ...parts,
      {
        type: "finish",
        reason: "stop",
        usage: {
          inputTokens: { uncached: undefined, total: undefined, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: undefined, text: undefined, reasoning: undefined }
        },
        response: undefined
      }
    ] as unknown as Array<Response.PartEncoded>
    const model = yield* LanguageModel.make({
      generateText: ({ prompt }) =>
        Effect.sync(() => {
          roles = prompt.content.map(({ role }) => role)
          return content
        }),
      streamText: () => Stream.empty
    })
    return { layer: Layer.succeed(LanguageModel.LanguageModel, model), roles: () => roles }
  })
