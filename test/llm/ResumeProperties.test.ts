/*
 * What holds of every conversation that waits, is interrupted, crashes, is compacted or cannot be saved, whatever is
 * answered and when.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  Compaction,
  CompactionStrategy,
  type CycleConfig,
  type CycleError,
  CycleStore,
  CycleStoreError,
  LlmCycle,
  PermissionPolicy,
  Question,
  SavedCycle,
  Tool,
  ToolContext,
  ToolOutput,
  ToolRegistry
} from "agcore"
import { ScriptedModel } from "agcore/testing"
import { Effect, Exit, Fiber, Schema } from "effect"
import { LanguageModel } from "effect/ai"
import { WebCrypto } from "effect/crypto"
import { createHash } from "node:crypto"
import { settle } from "../tools/support.ts"
import {
  checkMessages,
  type Cycle,
  type Driver,
  drivers,
  makeCycle,
  outline,
  reasonOf,
  refused,
  untilEnd
} from "./support.ts"
import { accept, checkPrompt } from "./transcriptRules.ts"

// =============================================================================
// Conversations
// =============================================================================

const KINDS = ["plain", "slow", "fails", "unknown", "denied", "asks", "asks_back", "asks_and_back"] as const

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

const Turn = Schema.Struct({
  text: Schema.Literals(["", "Hello there."]),
  calls: Schema.Array(Schema.Literals(KINDS)).check(Schema.isMinLength(1), Schema.isMaxLength(4)),
  /** 0: it fails; 1: it fails after it has begun; 2: it is an answer. */
  end: upTo(9)
})
type Turn = typeof Turn.Type

/** What becomes of a question. */
const Choice = Schema.Literals(["yes", "yes", "edit", "no", "later"])
/** What is wrong with all answers together; mostly nothing. */
const Flaw = Schema.Literals(["none", "none", "none", "none", "none", "unknown", "twice", "kind", "unfit", "used"])

/** Beyond it, it runs to its end. */
const MAX_STEPS = 60

const Go = Schema.Struct({
  /** 0: does what does not fit: submits where it has to be resumed, and the other way round. */
  fits: upTo(7),
  choices: Schema.Array(Choice).check(Schema.isMinLength(1), Schema.isMaxLength(3)),
  flaw: Flaw,
  turns: Schema.Array(Turn).check(Schema.isMinLength(1), Schema.isMaxLength(3)),
  streams: Schema.Boolean,
  /** After how many steps something happens to it: it is interrupted, or its process ends. */
  steps: upTo(110),
  crashes: Schema.Boolean,
  /** Which save from now on fails: 0 to 3, others do not. */
  fullAt: upTo(11),
  /** 0: its process ends before it begins. */
  before: upTo(5)
})
type Go = typeof Go.Type

const Settings = Schema.Struct({
  /** Where it is kept: in a store as it goes, or by hand at the instant of a crash. */
  kept: Schema.Literals(["store", "json"]),
  concurrency: Schema.Literals([1, 2, "unbounded"]),
  compaction: Schema.Literals(["none", "drop", "clear", "both"])
})
type Settings = typeof Settings.Type

const strategies = {
  drop: CompactionStrategy.dropOldest(),
  clear: CompactionStrategy.clearToolResults(),
  both: CompactionStrategy.sequence(
    CompactionStrategy.clearToolResults(),
    CompactionStrategy.dropOldest()
  )
}

const SLOW = new Set<string>(["slow", "asks"])
const full = new CycleStoreError.CycleStoreError({ reason: new CycleStoreError.Io({ description: "no space" }) })
const codec = Schema.toCodecJson(SavedCycle.SavedCycle)

/** Hashes without another thread, so that each run takes the same steps. */
const promptly = new Proxy(crypto, {
  get: (target, key) =>
    key === "subtle"
      ? {
        digest: async (_: string, data: Uint8Array) =>
          Uint8Array.from(createHash("sha256").update(data).digest()).buffer
      }
      : Reflect.get(target, key)
})

// =============================================================================
// A world that sees everything
// =============================================================================

/** A call, wherever it is spoken of. */
const placeOf = ({ index, turn }: { readonly index: number; readonly turn: number }) => `${turn}/${index}`

/** A process: when it has ended, nothing of it goes on. */
interface Process {
  readonly cycle: Cycle
  isDead: boolean
}

const makeWorld = Effect.fnUntraced(function*(settings: Settings) {
  const violations: Array<string> = []
  const store = yield* CycleStore.CycleStore
  /** How often each call has begun, in each of its rounds. */
  const begun = new Map<string, number>()
  /** What a person has allowed: the rounds of calls, with the arguments they run with. */
  const allowed = new Map<string, unknown>()
  /** Questions that have been answered for good. */
  const used: Array<Question.Question> = []
  let script: ReadonlyArray<Turn> = []
  let position = 0
  let untilFull = -1
  /** Whether what is stored is what is here. */
  let isKept = true
  let wasKept = true

  const see = (check: () => void) => {
    try {
      check()
    } catch (error) {
      violations.push(String(error))
    }
  }

  const handler =
    (process: Process, name: typeof KINDS[number]) => (args: unknown, reply?: { readonly answer: unknown }) =>
      Effect.gen(function*() {
        const context = yield* ToolContext.ToolContext
        const place = placeOf(context)
        if (context.idempotencyKey !== `s/${place}`) violations.push(`${context.idempotencyKey} is the key of ${place}`)
        if (process.isDead) violations.push(`${name} starts in a process that has ended`)
        const round = reply === undefined ? "begins" : "goes on"
        const times = (begun.get(`${place} ${round}`) ?? 0) + 1
        begun.set(`${place} ${round}`, times)
        if (times > 1) violations.push(`${name} ${place} ${round} twice`)
        if (reply !== undefined || name.startsWith("asks") && name !== "asks_back") {
          const permit = allowed.get(`${place} ${round}`)
          const given = reply === undefined ? args : reply.answer
          if (JSON.stringify(permit) !== JSON.stringify(given)) {
            violations.push(
              `${name} ${place} ${round} with ${JSON.stringify(given)}, allowed is ${JSON.stringify(permit)}`
            )
          }
        }
        if (SLOW.has(name)) yield* Effect.repeat(Effect.yieldNow, { times: 5 })
        if (process.isDead) violations.push(`${name} goes on in a process that has ended`)
        if (name === "fails") return yield* Effect.fail("not today")
        return name.endsWith("back") && reply === undefined
          ? ToolOutput.awaitingInput({ context: { place }, prompt: "How?" })
          : `${name} `.repeat(100)
      })

  const toScripted = (turn: Turn): ScriptedModel.ScriptedTurn => ({
    text: turn.text,
    calls: turn.calls.map((name, n) => ({ id: "same", name, params: { n } })),
    ...(turn.end === 0 ? { error: refused, text: "", calls: [] } : undefined),
    ...(turn.end === 1 ? { error: refused, calls: [] } : undefined),
    ...(turn.end === 2 ? { calls: [] } : undefined)
  })

  const start = Effect.fnUntraced(function*(saved: SavedCycle.SavedCycle | undefined) {
    const registry = yield* Effect.provide(
      ToolRegistry.make,
      PermissionPolicy.layerCheck(({ tool: { name } }) =>
        Effect.succeed(
          name === "asks" || name === "asks_and_back"
            ? PermissionPolicy.ask(`Run ${name}?`)
            : name === "denied"
            ? PermissionPolicy.deny("no")
            : PermissionPolicy.allow
        )
      )
    )
    const { model } = yield* ScriptedModel.make(({ prompt }) => {
      see(() => accept(checkPrompt(prompt.content, "openai")))
      see(() => accept(checkPrompt(prompt.content, "anthropic")))
      see(() => accept(checkPrompt(prompt.content, "gemini")))
      see(() => checkMessages(prompt.content))
      const turn = script[position++]
      return {
        ...(turn === undefined ? { text: "done" } : toScripted(turn)),
        before: Effect.yieldNow
      }
    })
    const config: CycleConfig.CycleConfig = {
      sessionId: "s",
      system: "Be brief.",
      maxTurns: 100,
      repeatedCalls: Infinity,
      toolConcurrency: settings.concurrency,
      errorPolicy: { NotFound: "tell", PermissionDenied: "tell" },
      ...(settings.compaction === "none" ? undefined : {
        compaction: Compaction.make({
          strategy: strategies[settings.compaction],
          contextWindow: 800,
          reserve: 0,
          keepTurns: 1
        })
      })
    }
    // The cycle needs the registry, whose tools need the process, which is the cycle's.
    const process: { cycle: Cycle | undefined; isDead: boolean } = { cycle: undefined, isDead: false }
    const cycle = yield* (saved === undefined ? LlmCycle.open("s", config) : LlmCycle.restore(saved, config)).pipe(
      Effect.provideService(LanguageModel.LanguageModel, model),
      Effect.provideService(ToolRegistry.ToolRegistry, registry),
      Effect.provideService(CycleStore.CycleStore, {
        ...store,
        save: (saved) =>
          Effect.gen(function*() {
            yield* Effect.yieldNow
            if (process.isDead || untilFull-- === 0) return yield* full
            yield* store.save(saved)
            yield* Effect.yieldNow
          })
      })
    )
    const started: Process = Object.assign(process, { cycle })
    yield* Effect.orDie(registry.registerAll(
      KINDS.filter((name) => name !== "unknown").map((name) =>
        Tool.dynamic({
          name,
          description: name,
          inputSchema: { type: "object", properties: { n: { type: "number" } } },
          answerSchema: { type: "string" },
          failure: Schema.String,
          handler: handler(started, name)
        })
      )
    ))
    return started
  })

  return {
    violations,
    begun,
    allowed,
    used,
    start,
    play: (turns: ReadonlyArray<Turn>, fullAt: number) => {
      script = turns
      position = 0
      wasKept = isKept
      isKept = false
      untilFull = settings.kept === "store" && fullAt < 4 ? fullAt : -1
    },
    calm: () => {
      untilFull = -1
    },
    rested: (exit: Outcome | undefined) => {
      const isRefused = exit !== undefined && REFUSED.includes(tagOf(exit) ?? "")
      isKept = isRefused ? wasKept : exit !== undefined && Exit.isSuccess(exit)
    },
    /** The conversation as another process finds it. */
    reload: Effect.fnUntraced(function*(process: Process) {
      const json = yield* Effect.map(
        Effect.flatMap(process.cycle.saved, Schema.encodeEffect(codec)),
        (saved) => JSON.stringify(saved)
      )
      process.isDead = true
      untilFull = -1
      const saved = settings.kept === "store"
        ? undefined
        : yield* Schema.decodeUnknownEffect(codec)(JSON.parse(json))
      const next = yield* start(saved)
      const before = yield* process.cycle.pending
      const after = yield* next.cycle.pending
      if (settings.kept === "json" || isKept) assert.deepStrictEqual(after, before)
      return next
    })
  }
})
type World = Effect.Success<ReturnType<typeof makeWorld>>

// =============================================================================
// Answers
// =============================================================================

const roundOf = (question: Question.Question) =>
  `${placeOf(question)} ${question._tag === "Input" ? "goes on" : "begins"}`

/** Answers as chosen, and what they allow. */
const answer = (world: World, pending: ReadonlyArray<Question.Question>, { choices, flaw }: Go) => {
  const chosen = pending.map((question, index) => ({ question, choice: choices[index % choices.length] ?? "later" }))
  const answers = chosen.flatMap(({ choice, question }): ReadonlyArray<Question.Answer> => {
    if (choice === "later") return []
    if (choice === "no") return [Question.deny(question, "no")]
    if (question._tag === "Input") return [Question.reply(question, choice)]
    return [choice === "edit" ? Question.approve(question, { input: { n: 99 } }) : Question.approve(question)]
  })
  const permits = chosen.flatMap(({ choice, question }) =>
    choice === "later" || choice === "no"
      ? []
      : [{
        question,
        given: question._tag === "Input" ? choice : choice === "edit" ? { n: 99 } : question.input
      }]
  )
  const [first] = pending
  const wrong = ((): ReadonlyArray<Question.Answer> => {
    switch (flaw) {
      case "none":
        return []
      case "unknown":
        return [new Question.Approve({ questionId: "0".repeat(64) })]
      case "used":
        return world.used.slice(0, 1).map((question) => Question.approve(question))
      case "twice":
        return first === undefined ? [] : [Question.deny(first, "no"), Question.deny(first, "no")]
      case "kind":
        return first === undefined || answers.some(({ questionId }) => questionId === first.id)
          ? []
          : [first._tag === "Input" ? Question.approve(first) : Question.reply(first, "yes")]
      case "unfit":
        return first === undefined || answers.some(({ questionId }) => questionId === first.id)
          ? []
          : [first._tag === "Input" ? Question.reply(first, 1) : Question.approve(first, { input: { n: "text" } })]
    }
  })()
  return { answers: [...answers, ...wrong], isWrong: wrong.length > 0, permits }
}

// =============================================================================
// Actions
// =============================================================================

type Outcome = Exit.Exit<
  { readonly reason: string; readonly pending: ReadonlyArray<Question.Question> },
  CycleError.CycleError
>

const tagOf = (exit: Outcome): string | undefined =>
  Exit.isSuccess(exit) ?
    undefined :
    exit.cause.reasons.flatMap((reason) =>
      reason._tag === "Fail"
        ? [reason.error.reason._tag]
        : [`a ${reason._tag}: ${String(reason._tag === "Die" && reason.defect)}`]
    ).join()

/** What a submit may fail for here before it does anything. */
const REFUSED = ["AwaitingAnswers", "NothingToResume", "InvalidAnswer"]
/** What it may fail for at all. */
const EXPECTED = [...REFUSED, "ModelFailed", "StoreFailed"]

const act = Effect.fnUntraced(function*(world: World, before: Process, action: Go) {
  const process = action.before === 0 ? yield* world.reload(before) : before
  const { cycle } = process
  const driver: Driver = drivers[action.streams ? 1 : 0]!
  const pending = yield* cycle.pending
  const isLeft = pending.length > 0 || (yield* cycle.saved).submit !== undefined
  const resumes = isLeft === (action.fits > 0)
  const { answers, isWrong, permits } = resumes
    ? answer(world, pending, action)
    : { answers: [], isWrong: false, permits: [] }
  if (!isWrong) { for (const { given, question } of permits) world.allowed.set(roundOf(question), given) }
  const begun = new Map(world.begun)

  world.play(action.turns, action.fullAt)
  const fiber = yield* Effect.forkChild(
    resumes ? driver.resume(cycle, answers) : driver.submit(cycle, "go")
  )
  let exit: Outcome | undefined
  let next = process
  if (action.steps < MAX_STEPS) {
    yield* Effect.repeat(Effect.yieldNow, { times: action.steps })
    checkMessages(yield* cycle.messages)
    exit = fiber.pollUnsafe()
    if (exit === undefined && action.crashes) next = yield* world.reload(process)
    yield* Fiber.interrupt(fiber)
  } else {
    exit = yield* untilEnd(fiber)
  }
  yield* settle
  world.calm()
  world.rested(next === process ? exit : undefined)

  const left = yield* next.cycle.pending
  const isOpen = ({ id }: Question.Question) => left.some((question) => question.id === id)
  if (exit !== undefined) {
    const tag = tagOf(exit)
    if (tag !== undefined) assert.include(EXPECTED, tag)
    if (Exit.isSuccess(exit)) assert.deepStrictEqual(exit.value.pending, left)
    // What is refused has done nothing, and loses nothing.
    if (tag !== undefined && REFUSED.includes(tag)) {
      assert.deepStrictEqual(left, pending)
      assert.deepStrictEqual(world.begun, begun)
    }
    if (resumes !== isLeft && pending.length > 0) assert.strictEqual(tag, "AwaitingAnswers")
    if (resumes && isWrong) assert.strictEqual(tag, isLeft ? "InvalidAnswer" : "NothingToResume")
    if (resumes && isLeft && !isWrong) {
      for (const { question } of permits) {
        const ran = (world.begun.get(roundOf(question)) ?? 0) > 0
        // Where the answer could not be kept, the question is still there.
        assert.strictEqual(ran, !(tag === "StoreFailed" && isOpen(question)), `${roundOf(question)} was allowed`)
      }
      // What was put off, waits on.
      const answered = new Set(answers.map(({ questionId }) => questionId))
      for (const question of pending) if (!answered.has(question.id)) assert.isTrue(isOpen(question))
    }
  }
  // What is open again may be answered otherwise.
  for (const { question } of permits) if (isOpen(question)) world.allowed.delete(roundOf(question))
  for (const question of pending) if (!isOpen(question) && next === process) world.used.push(question)
  return next
})

const atRest = Effect.fnUntraced(function*(world: World, process: Process) {
  yield* settle
  assert.deepStrictEqual(world.violations, [])
  checkMessages(yield* process.cycle.messages)
})

describe("a conversation that waits", () => {
  for (const driver of drivers) {
    // verifies: session.cut-off
    it.effect(`asks again for text that was cut off, and does not say it twice, in ${driver.name}`, () =>
      Effect.gen(function*() {
        const { cycle, requests } = yield* makeCycle({
          script: [{ text: "Hello th", error: refused }, ScriptedModel.text("Hello there.")]
        })
        assert.strictEqual((yield* reasonOf(driver.submit(cycle, "go")))._tag, "ModelFailed")
        const { messages } = yield* cycle.saved
        assert.deepStrictEqual(outline(messages), ["user:go"])
        assert.strictEqual((yield* driver.resume(cycle)).text, "Hello there.")
        assert.deepStrictEqual(outline(yield* cycle.messages), ["user:go", "assistant:Hello there."])
        for (const { prompt } of yield* requests) accept(checkPrompt(prompt.content))
      }))
  }

  it.effect.prop(
    // verifies: asking.sound, session.sound, transcript.every-request
    "stays sound whatever is answered, wherever it is interrupted, ends or cannot be saved, and goes on",
    {
      settings: Settings,
      actions: Schema.Array(Go).check(Schema.isMinLength(2), Schema.isMaxLength(8))
    },
    ({ actions, settings }) =>
      Effect.gen(function*() {
        const world = yield* makeWorld(settings)
        let process = yield* world.start(undefined)
        for (const action of actions) {
          process = yield* act(world, process, action)
          yield* atRest(world, process)
        }
        // In the end somebody says no to everything, and it goes on.
        world.play([], -1)
        for (let round = 0; (yield* process.cycle.pending).length > 0; round++) {
          assert.isBelow(round, 3)
          const pending = yield* process.cycle.pending
          yield* drivers[0]!.resume(process.cycle, pending.map((question) => Question.deny(question, "no")))
        }
        const last = yield* untilEnd(yield* Effect.forkChild(drivers[1]!.submit(process.cycle, "on")))
        assert.isTrue(Exit.isSuccess(last))
        yield* atRest(world, process)
      }).pipe(Effect.provide(CycleStore.layerMemory), Effect.provideService(WebCrypto.WebCrypto, promptly)),
    { arbitrary: { runs: 300 }, timeout: 300_000 }
  )
})
