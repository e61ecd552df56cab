import { assert, describe, it } from "@effect/vitest"
import { History } from "agcore"
import { Effect, Schema } from "effect"
import { Prompt } from "effect/ai"
import { checkMessages, outline, results } from "./support.ts"

const call = (id: string, name: string, providerExecuted = false) =>
  Prompt.makePart("tool-call", { id, name, params: {}, providerExecuted })

const result = (id: string, name: string, value: string, providerExecuted = false) =>
  Prompt.makePart("tool-result", { id, name, result: value, isFailure: false, providerExecuted })

const text = (value: string) => Prompt.makePart("text", { text: value })

const user = (value: string) => Prompt.makeMessage("user", { content: [text(value)] })

const assistant = (...content: ReadonlyArray<Prompt.AssistantMessagePart>) =>
  Prompt.makeMessage("assistant", { content })

const toolMessage = (...content: ReadonlyArray<Prompt.ToolMessagePart>) => Prompt.makeMessage("tool", { content })

const read = (...messages: ReadonlyArray<Prompt.Message>) => {
  const history = History.fromMessages(messages)
  checkMessages(History.messages(history))
  return outline(History.messages(history))
}

const LOST = "!No result was recorded for this call."

describe("messages from elsewhere", () => {
  it("that are sound stay as they are", () => {
    const messages = [user("go"), assistant(text("Look."), call("1", "a")), toolMessage(result("1", "a", "ok"))]
    const kept = History.messages(History.fromMessages(messages))
    assert.deepStrictEqual(kept, messages)
    kept.forEach((message, index) => assert.strictEqual(message, messages[index]))
  })

  it("keep what providers have written on them", () => {
    const options = { test: { cache: true } }
    const messages = History.messages(History.fromMessages([
      Prompt.makeMessage("user", { content: [], options }),
      Prompt.makeMessage("assistant", { content: [call("1", "a")], options }),
      toolMessage(Prompt.makePart("tool-result", {
        id: "1",
        name: "a",
        result: "ok",
        isFailure: false,
        providerExecuted: false,
        options
      }))
    ]))
    assert.deepStrictEqual([messages[0]?.options, messages[1]?.options, results(messages)[0]?.options], [
      options,
      options,
      options
    ])
  })

  it("get an answer to each call, in call order", () => {
    assert.deepStrictEqual(
      read(
        assistant(call("1", "a"), call("2", "b"), call("3", "c")),
        toolMessage(result("3", "c", "C")),
        toolMessage(result("1", "a", "A"))
      ),
      ["assistant:a()+b()+c()", `tool:A+${LOST}+C`]
    )
  })

  it("lose results that answer nothing", () => {
    assert.deepStrictEqual(
      read(
        toolMessage(result("1", "a", "too early")),
        user("go"),
        assistant(call("1", "a")),
        user("interrupted"),
        toolMessage(result("1", "a", "too late")),
        assistant(text("ok")),
        toolMessage(result("1", "a", "nobody asked"))
      ),
      ["user:go", "assistant:a()", `tool:${LOST}`, "user:interrupted", "assistant:ok"]
    )
  })

  it("with results beside the calls get a message for them", () => {
    assert.deepStrictEqual(read(assistant(call("1", "a"), result("1", "a", "ok"))), ["assistant:a()", "tool:ok"])
  })

  it("with repeated and empty ids are told apart by their order", () => {
    assert.deepStrictEqual(
      read(
        assistant(call("", "a"), call("", "b")),
        toolMessage(result("", "a", "A"), result("", "b", "B")),
        assistant(call("x", "a"), call("x", "b")),
        toolMessage(result("x", "a", "A"), result("x", "b", "B")),
        assistant(call("x", "c")),
        toolMessage(result("x", "c", "C"))
      ),
      ["assistant:a()+b()", "tool:A+B", "assistant:a()+b()", "tool:A+B", "assistant:c()", "tool:C"]
    )
  })

  it("keep what the provider has run, and leave out approvals and empty responses", () => {
    assert.deepStrictEqual(
      read(
        assistant(call("1", "search", true), result("1", "search", "hit", true), text("Found.")),
        assistant(Prompt.makePart("tool-approval-request", { approvalId: "a", toolCallId: "1" })),
        toolMessage(Prompt.makePart("tool-approval-response", { approvalId: "a", approved: true })),
        assistant()
      ),
      ["assistant:search()+tool-result+Found."]
    )
  })

  it("are added in linear time", () => {
    const many = Array.from({ length: 50_000 }, (_, index) => [
      user("go"),
      assistant(call("same", "a")),
      toolMessage(result("same", "a", `${index}`))
    ]).flat()
    const history = History.fromMessages(many)
    assert.strictEqual(history.turns, 50_000)
    assert.strictEqual(History.messages(history).length, 150_000)
  }, 30_000)
})

describe("a turn", () => {
  const answer = { isFailure: true, result: "waiting" }
  const open = History.respond(History.fromMessages([user("go")]), [call("1", "a"), call("1", "b")], () => answer)

  it("has an answer to each call from the start", () => {
    assert.deepStrictEqual(outline(History.messages(open)), ["user:go", "assistant:a()+b()", "tool:!waiting+!waiting"])
    assert.deepStrictEqual(History.openCalls(open).map(({ call }) => call.id), ["1", "1_1_1"])
  })

  it("settles call by call, and no other can be reached", () => {
    const settled = [1, 7, -1].reduce(
      (history, index) => History.settle(history, index, { isFailure: false, result: "done" }),
      open
    )
    assert.deepStrictEqual(outline(History.messages(settled)).at(-1), "tool:!waiting+done")
    const next = History.append(settled, [user("on")])
    assert.strictEqual(History.settle(next, 0, { isFailure: false, result: "late" }), next)
    assert.deepStrictEqual(outline(History.messages(open)).at(-1), "tool:!waiting+!waiting")
  })

  it("replaces its own draft, and keeps that of another", () => {
    let arrived = ""
    const draft = History.draft(open, { content: () => arrived === "" ? [] : [text(arrived)] })
    assert.strictEqual(History.messages(draft).length, 3)
    arrived = "so far"
    assert.deepStrictEqual(outline(History.messages(draft)).at(-1), "assistant:so far")
    const whole = History.respond(draft, [text("so far, so good")], () => answer)
    assert.deepStrictEqual(outline(History.messages(whole)).slice(3), ["assistant:so far, so good"])
    const interrupted = History.append(draft, [user("on")])
    assert.deepStrictEqual(outline(History.messages(interrupted)).slice(3), ["assistant:so far", "user:on"])
    assert.deepStrictEqual([draft.turns, whole.turns, interrupted.turns], [1, 2, 2])
  })

  it("of reasoning alone leaves nothing when it is interrupted", () => {
    const draft = History.draft(open, { content: () => [Prompt.makePart("reasoning", { text: "Hm." })] })
    assert.strictEqual(History.messages(History.append(draft, [])).length, 3)
  })
})

describe("any sequence of messages", () => {
  const Id = Schema.Literals(["", "1", "2", "1_1_0"])
  const Part = Schema.Struct({ type: Schema.Literals(["text", "call", "result", "own", "approval"]), id: Id })
  const Message = Schema.Struct({
    role: Schema.Literals(["system", "user", "assistant", "tool"]),
    parts: Schema.Array(Part).check(Schema.isMaxLength(5))
  })

  const toMessage = ({ parts, role }: typeof Message.Type): Prompt.Message => {
    switch (role) {
      case "system":
        return Prompt.makeMessage("system", { content: "s" })
      case "user":
        return user("u")
      case "assistant":
        return assistant(...parts.map(({ id, type }) => {
          switch (type) {
            case "text":
              return text(id)
            case "call":
              return call(id, "a")
            case "result":
              return result(id, "a", "ok")
            case "own":
              return call(id, "search", true)
            case "approval":
              return Prompt.makePart("tool-approval-request", { approvalId: id, toolCallId: id })
          }
        }))
      case "tool":
        return toolMessage(...parts.map(({ id, type }) =>
          type === "approval"
            ? Prompt.makePart("tool-approval-response", { approvalId: id, approved: true })
            : result(id, "a", "ok", type === "own")
        ))
    }
  }

  it.effect.prop(
    "is made sound, once and for all, in one piece or in two",
    { messages: Schema.Array(Message).check(Schema.isMaxLength(12)), cut: Schema.Int },
    ({ cut, messages }) =>
      Effect.sync(() => {
        const all = messages.map(toMessage)
        const whole = History.fromMessages(all)
        checkMessages(History.messages(whole))
        const again = History.messages(History.fromMessages(History.messages(whole)))
        assert.deepStrictEqual(JSON.stringify(again), JSON.stringify(History.messages(whole)))
        const at = Math.abs(cut % 13)
        checkMessages(History.messages(History.append(History.fromMessages(all.slice(0, at)), all.slice(at))))
        // Nothing anybody has said is lost.
        const kept = (list: ReadonlyArray<Prompt.Message>) =>
          list.flatMap((message) =>
            message.role === "tool"
              ? []
              : message.role === "assistant"
              ? message.content.filter((part) => part.type === "text" || part.type === "tool-call").map(({ type }) =>
                type
              )
              : [message.role]
          )
        assert.deepStrictEqual(kept(History.messages(whole)), kept(all))
      }),
    { arbitrary: { runs: 300 } }
  )
})
