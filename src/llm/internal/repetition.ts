/*
 * Finds a model that goes in circles: turn after turn it makes a call it has
 * made before, and is told what it was told before.
 *
 * Arguments alone do not show that. Tests are run again after each edit, a page
 * is scrolled further, a job is asked whether it is done. So a call is compared
 * with what came of it, and any turn with something new in it begins the count
 * again.
 */
import * as Equal from "effect/Equal"
import * as Hash from "effect/Hash"
import { exceedsDepth } from "../../internal/depth.ts"
import type { ToolInvocation } from "../../tools/ToolInvocation.ts"
import type { Repetition } from "../CycleConfig.ts"

/** Nothing deeper is compared: it would not fit the stack. */
const MAX_DEPTH = 100

interface Seen {
  readonly invocation: ToolInvocation
  count: number
  /** Which count it belongs to. */
  round: number
}

/** Reads a submit's invocations as they grow; each is read once. */
export const makeTracker = (invocations: ReadonlyArray<ToolInvocation>): () => Repetition | undefined => {
  const buckets = new Map<number, Array<Seen>>()
  let position = 0
  let round = 0
  let current: Repetition | undefined

  const find = (invocation: ToolInvocation): Seen | undefined => {
    const hash = hashOf(invocation)
    const bucket = buckets.get(hash) ?? []
    const seen = bucket.find((seen) => isSame(seen.invocation, invocation))
    if (seen !== undefined) return seen
    bucket.push({ invocation, count: 1, round: round + 1 })
    buckets.set(hash, bucket)
    return undefined
  }

  const takeTurn = (turn: ReadonlyArray<ToolInvocation>) => {
    const seen = turn.map((invocation) => isComparable(invocation) ? find(invocation) : undefined)
    if (seen.includes(undefined)) {
      round++
      // What is new stands at one already.
      for (const each of seen) if (each !== undefined) begin(each)
      current = { toolName: turn[0]!.toolName, count: 1 }
      return
    }
    current = undefined
    for (const each of new Set(seen)) {
      if (each === undefined) continue
      if (each.round === round) each.count++
      else begin(each)
      if (current === undefined || each.count > current.count) {
        current = { toolName: each.invocation.toolName, count: each.count }
      }
    }
  }

  const begin = (seen: Seen) => {
    seen.round = round
    seen.count = 1
  }

  return () => {
    while (position < invocations.length) {
      const { turn } = invocations[position]!
      let end = position + 1
      while (invocations[end]?.turn === turn) end++
      takeTurn(invocations.slice(position, end))
      position = end
    }
    return current
  }
}

const isComparable = ({ input, result }: ToolInvocation) =>
  !exceedsDepth(input, MAX_DEPTH) && !exceedsDepth(result, MAX_DEPTH)

// Keys of objects come in any order.
const hashOf = ({ input, result, toolName }: ToolInvocation): number =>
  Hash.combine(Hash.combine(Hash.hash(input), Hash.hash(result)), Hash.string(toolName))

// What a model is shown may be a picture, beside a result that is always "ok".
const isSame = (a: ToolInvocation, b: ToolInvocation): boolean =>
  a.toolName === b.toolName && Equal.equals(a.input, b.input) && Equal.equals(a.result, b.result) &&
  Equal.equals(a.modelOutput, b.modelOutput)
