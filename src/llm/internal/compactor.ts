/*
 * What one conversation knows about the length of its requests, and shortens its
 * transcript by.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type * as Tokenizer from "effect/ai/Tokenizer"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Definition } from "../../tools/Tool.ts"
import type { Compaction } from "../Compaction.ts"
import type { CompactionState } from "../CompactionStrategy.ts"
import * as TokenEstimate from "../TokenEstimate.ts"
import { check } from "./compactCheck.ts"
import { withNote } from "./compactDrop.ts"
import type { Overflow } from "./compactOverflow.ts"
import { type Plan, plan, type Size } from "./compactPlan.ts"
import { attempt } from "./compactRun.ts"
import { messagesOf, unitsOf } from "./compactUnits.ts"

/** A request before it is sent. */
interface Outgoing {
  /** The transcript. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** What precedes it. */
  readonly system: ReadonlyArray<Prompt.Message>
  readonly tools: ReadonlyArray<Definition>
  readonly model: LanguageModel.LanguageModel
}

export type Outcome =
  /** It is sent as it is: it fits, or nothing could be done. */
  | { readonly _tag: "Unchanged" }
  | {
    readonly _tag: "Compacted"
    readonly messages: ReadonlyArray<Prompt.Message>
    readonly strategy: string
    /** Tokens of the whole request. */
    readonly tokensBefore: number
    readonly tokensAfter: number
  }
  /** Even what has to stay is more than fits. */
  | { readonly _tag: "Exceeded"; readonly tokens: number; readonly contextWindow: number }

export interface Compactor {
  /** Looks at a request, and shortens its transcript if that is due. */
  readonly prepare: (outgoing: Outgoing, how: How) => Effect.Effect<Outcome>
  /** Learns from what the provider has counted for the request that was looked at last. */
  readonly learn: (inputTokens: number | undefined) => void
}

interface How {
  readonly spend: (usage: Response.Usage) => void
  /** What a provider said when it refused the request: then it is due, and has to become shorter than usual. */
  readonly refusal?: Overflow | undefined
  /** Whether it is due in any case. */
  readonly force?: boolean | undefined
}

const UNCHANGED: Outcome = { _tag: "Unchanged" }

/** What is known of a model. */
interface Known {
  calibration: TokenEstimate.Calibration
  /** Less than was said, if it has refused less. */
  contextWindow: number
}

export const makeCompactor = (compaction: Compaction, tokenizer: Option.Option<Tokenizer.Service>): Compactor => {
  const models = new WeakMap<LanguageModel.LanguageModel, Known>()
  const knownOf = (model: LanguageModel.LanguageModel): Known => {
    const known = models.get(model) ?? {
      calibration: TokenEstimate.uncalibrated,
      contextWindow: compaction.contextWindow
    }
    models.set(model, known)
    return known
  }
  const counter = makeCounter(tokenizer)
  let last: { readonly known: Known; readonly estimated: number } | undefined

  const prepare = Effect.fnUntraced(function*(
    { messages, model, system, tools }: Outgoing,
    { force = false, refusal, spend }: How
  ): Effect.fn.Return<Outcome> {
    const known = knownOf(model)
    if (refusal?.used !== undefined) learn(refusal.used)
    const { ratio } = known.calibration
    yield* counter.measure([...system, ...messages])
    const overhead = counter.count(system) + TokenEstimate.ofTools(tools)
    const remember = (estimated: number) => {
      last = { known, estimated: overhead + estimated }
    }
    const counted = counter.count(messages)
    remember(counted)

    const keeping = { pin: compaction.pin, keepTurns: refusal === undefined ? compaction.keepTurns : 1 }
    const tokens = (some: ReadonlyArray<Prompt.Message>) => counter.count(some) * ratio
    // Whoever wants it now wants it shorter than it is.
    const contextWindow = force ? Math.min(known.contextWindow, (overhead + counted) * ratio) : known.contextWindow
    const limits = { ...compaction, contextWindow }
    const sizeOf = (kept: number): Size => ({ overhead: overhead * ratio, messages: counted * ratio, kept })
    if (!force && !plan(limits, sizeOf(0), refusal).isDue) return UNCHANGED

    const units = unitsOf(messages, keeping)
    const kept = tokens(messagesOf(units.filter((unit) => unit.isKept)))
    const due = plan(limits, sizeOf(kept), refusal)
    if (refusal !== undefined) known.contextWindow = due.window
    const state = stateOf({ messages, units, due, tokens, model, spend, split: (some) => unitsOf(some, keeping) })
    const compacted = yield* attempt(compaction.strategy, state)
    if (compacted === undefined) return exceeded(overhead * ratio + kept, due)

    const checked = check(units, compacted.messages)
    if (checked._tag === "Unsound") {
      yield* Effect.logWarning(`The compaction "${compacted.strategy}" is not used: ${checked.why}`)
      return UNCHANGED
    }
    const shorter = messagesOf(withNote(unitsOf(checked.messages, keeping)))
    yield* counter.measure(shorter)
    const after = counter.count(shorter)
    const tokensAfter = Math.ceil((overhead + after) * ratio)
    if (after >= counted) return exceeded(overhead * ratio + kept, due)
    if (tokensAfter > due.window) {
      yield* Effect.logWarning(
        `The compaction "${compacted.strategy}" is not used: ${tokensAfter} tokens are left, more than ${due.window}`
      )
      return exceeded(overhead * ratio + kept, due)
    }
    remember(after)
    return {
      _tag: "Compacted",
      messages: shorter,
      strategy: compacted.strategy,
      tokensBefore: Math.ceil((overhead + counted) * ratio),
      tokensAfter
    }
  })

  const learn = (inputTokens: number | undefined) => {
    if (last === undefined || inputTokens === undefined) return
    last.known.calibration = TokenEstimate.calibrate(last.known.calibration, {
      estimated: last.estimated,
      reported: inputTokens
    })
    last = undefined
  }

  return {
    prepare: (outgoing, how) =>
      prepare(outgoing, how).pipe(
        Effect.timeoutOrElse({
          duration: compaction.timeout,
          orElse: () => Effect.as(Effect.logWarning("The compaction took too long; nothing of it is used"), UNCHANGED)
        }),
        Effect.catchCause((cause) =>
          Effect.as(Effect.logWarning("The compaction failed; nothing of it is used", cause), UNCHANGED)
        )
      ),
    learn
  }
}

const exceeded = (kept: number, { window }: Plan): Outcome =>
  kept > window ? { _tag: "Exceeded", tokens: Math.ceil(kept), contextWindow: window } : UNCHANGED

const stateOf = (from: {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly units: CompactionState["units"]
  readonly due: Plan
  readonly tokens: CompactionState["tokens"]
  readonly model: LanguageModel.LanguageModel
  readonly spend: CompactionState["spend"]
  readonly split: (messages: ReadonlyArray<Prompt.Message>) => CompactionState["units"]
}): CompactionState => {
  const { due: { limit, target }, messages, model, spend, split, tokens, units } = from
  return {
    messages,
    units,
    target,
    limit,
    tokens,
    model,
    spend,
    after: (messages) => stateOf({ ...from, messages, units: split(messages) })
  }
}

// =============================================================================
// Counting
// =============================================================================

interface Counter {
  /** Asks the tokenizer about messages it has not seen. */
  readonly measure: (messages: ReadonlyArray<Prompt.Message>) => Effect.Effect<void>
  /** What the tokenizer said, else the estimate. */
  readonly count: (messages: ReadonlyArray<Prompt.Message>) => number
}

const makeCounter = (tokenizer: Option.Option<Tokenizer.Service>): Counter => {
  if (Option.isNone(tokenizer)) return { measure: () => Effect.void, count: TokenEstimate.ofMessages }
  const counts = new WeakMap<Prompt.Message, number>()
  return {
    measure: (messages) =>
      Effect.forEach(
        messages.filter((message) => !counts.has(message)),
        (message) =>
          tokenizer.value.tokenize(Prompt.fromMessages([message])).pipe(
            Effect.map(({ length }) => length),
            Effect.catchCause((cause) =>
              Effect.as(
                Effect.logWarning("The tokenizer failed; the message is estimated", cause),
                TokenEstimate.ofMessage(message)
              )
            ),
            Effect.map((count) => {
              counts.set(message, count)
            })
          ),
        { discard: true }
      ),
    count: (messages) =>
      messages.reduce((sum, message) => sum + (counts.get(message) ?? TokenEstimate.ofMessage(message)), 0)
  }
}
