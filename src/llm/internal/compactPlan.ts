/*
 * When a transcript is too long, and how short it should become.
 */
import type { Compaction } from "../Compaction.ts"
import type { Overflow } from "./compactOverflow.ts"

/** Tokens, all in the same measure. */
export interface Size {
  /** What a request carries besides the transcript: instructions, tools. */
  readonly overhead: number
  readonly messages: number
  /** What of the messages has to stay. */
  readonly kept: number
}

export interface Plan {
  readonly isDue: boolean
  /** What the messages should come to. */
  readonly target: number
  /** What a request may come to, its answer not counted. */
  readonly limit: number
  /** What a request comes to at the most that may succeed. */
  readonly window: number
}

/**
 * Where what has to stay leaves the target out of reach, some of the rest stays
 * too: this part of the room up to the next compaction.
 */
const ROOM = 0.25

/** After a refusal, a provider that does not say how much it takes is given this part of what it refused. */
const REFUSED_PART = 0.7
/** And the target is this part of the usual one. */
const HARDER = 0.6

type Limits = Pick<Compaction, "contextWindow" | "reserve" | "trigger" | "target">

export const plan = (limits: Limits, size: Size, refusal: Overflow | undefined): Plan => {
  const { contextWindow, target, trigger } = limits
  const total = size.overhead + size.messages
  if (refusal === undefined) {
    // Not known, or not yet reached.
    const limit = contextWindow - reserveOf(limits, contextWindow)
    const triggered = limit * trigger - size.overhead
    return {
      isDue: size.messages > triggered,
      target: Math.max(0, limit * target - size.overhead, size.kept + Math.max(0, triggered - size.kept) * ROOM),
      limit,
      window: contextWindow
    }
  }
  // What was refused is more than the window, whatever was thought of it.
  const window = Math.min(contextWindow, refusal.limit ?? Infinity, total)
  const limit = Math.min(window - reserveOf(limits, window), total * REFUSED_PART)
  return { isDue: true, target: Math.max(0, limit * target * HARDER - size.overhead), limit, window }
}

// A window that turns out to be smaller has still room for a question.
const reserveOf = ({ reserve }: Limits, window: number): number => Math.min(reserve, window / 2)
