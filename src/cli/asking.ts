/*
 * Asks the person at the terminal: whether a call may run, and what a tool wants
 * to know.
 *
 * A question shows the whole call, with control characters and what cannot be
 * seen made visible. Only a clear yes approves. Where there is no terminal to
 * ask on, nothing is approved, unless `--yes` has approved everything.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { createInterface, type Interface } from "node:readline"
import { visible } from "../internal/shown.ts"
import * as PermissionPolicy from "../tools/PermissionPolicy.ts"
import * as Question from "../tools/Question.ts"
import { style, write } from "./output.ts"

/** Answers questions as the flags say: by a person, by `--yes`, or with a no. */
export const approverLayer = (flags: { readonly yes: boolean }): Layer.Layer<never> =>
  Layer.effectContext(
    Effect.map(makeApprover(flags.yes), (approver) => Context.make(PermissionPolicy.Approver, approver))
  )

const makeApprover = (yes: boolean) =>
  Effect.zipWith(
    Semaphore.make(1),
    makeLines,
    (semaphore, lines) => (question: Question.Question): Effect.Effect<Question.Answer> =>
      yes && question._tag === "Approval"
        ? Effect.succeed(Question.approve(question))
        : isInteractive()
        // One question at a time: there is one person.
        ? semaphore.withPermit(question._tag === "Approval" ? askApproval(question, lines) : askInput(question, lines))
        : Effect.succeed(Question.deny(question, nobody(question)))
  )

const isInteractive = (): boolean => process.stdin.isTTY === true && process.stderr.isTTY === true

const nobody = (question: Question.Question): string =>
  question._tag === "Input"
    ? "the tool asks for input, and nobody can be asked here"
    : `nobody can be asked here; ${
      question.permissions.length === 0 ? "" : `grant it with --allow ${question.permissions.join(" --allow ")}, or `
    }approve every call with --yes`

// -----------------------------------------------------------------------------
// Questions
// -----------------------------------------------------------------------------

const askApproval = Effect.fnUntraced(function*(question: Question.Approval, lines: Lines) {
  yield* show(question)
  while (true) {
    const line = yield* lines.next("Run it? [y]es, [n]o, [e]dit the arguments: ")
    const [word = ""] = (line ?? "no").trim().toLowerCase().split(/\s/, 1)
    if (word === "y" || word === "yes") return Question.approve(question)
    if (word === "n" || word === "no" || word === "") {
      const reason = line === undefined || word === ""
        ? undefined
        : yield* lines.next("Why, for the model (may be empty): ")
      return Question.deny(question, reason?.trim() || "the user said no")
    }
    if (word === "e" || word === "edit") {
      const input = parse((yield* lines.next("The arguments as JSON, in one line: ")) ?? "")
      if (isObject(input)) return Question.approve(question, { input })
      yield* tell("That is no JSON object.")
    }
  }
})

const askInput = Effect.fnUntraced(function*(question: Question.Input, lines: Lines) {
  yield* show(question)
  yield* tell(`The answer has to fit: ${visible(JSON.stringify(question.answerSchema))}`)
  const line = yield* lines.next("> ")
  if (line === undefined) return Question.deny(question, "the user gave no answer")
  const value = parse(line)
  return Question.reply(question, value === undefined ? line : value)
})

const show = (question: Question.Question): Effect.Effect<void> => {
  const paint = style(process.stderr)
  return tell([
    `${paint.yellow("?")} ${paint.bold(visible(question.toolName))}  ${visible(question.prompt)}`,
    visible(JSON.stringify(question.input, null, 2) ?? "").replace(/^/gm, "  ")
  ].join("\n"))
}

// Nobody sees it when standard error is gone; the question is asked all the same.
const tell = (text: string): Effect.Effect<void> => Effect.ignore(write(process.stderr, `${text}\n`))

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value)

/** Reads what is typed, a line at a time. */
interface Lines {
  /** `undefined` at the end of input. */
  readonly next: (prompt: string) => Effect.Effect<string | undefined>
}

// One reader for all questions: what was typed ahead stays for the next one.
const makeLines = Effect.sync((): Lines => {
  let reader: Interface | undefined
  const typed: Array<string> = []
  let isOver = false
  let waiting: ((line: string | undefined) => void) | undefined

  const give = (line: string | undefined) => {
    const take = waiting
    waiting = undefined
    if (take !== undefined) take(line)
    else if (line !== undefined) typed.push(line)
  }
  const open = (): Interface => {
    const lines = createInterface({ input: process.stdin, output: process.stderr })
    lines.on("line", give)
    lines.on("close", () => {
      isOver = true
      give(undefined)
    })
    // A terminal in raw mode raises no signal: it is passed on to the process.
    lines.on("SIGINT", () => process.kill(process.pid, "SIGINT"))
    return lines
  }
  return {
    next: (prompt) =>
      Effect.callback<string | undefined>((resume) => {
        const line = typed.shift()
        if (line !== undefined || isOver) return resume(Effect.succeed(line))
        reader ??= open()
        waiting = (line) => resume(Effect.succeed(line))
        reader.setPrompt(prompt)
        reader.prompt()
        return Effect.sync(() => {
          waiting = undefined
        })
      }).pipe(Effect.onExit(() => Effect.sync(() => isOver ? undefined : reader?.pause())))
  }
})
