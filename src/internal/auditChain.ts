/*
 * A chain of entries, one line of JSON each. A line holds the hash of the line before it and its own, so that whoever
 * changes, removes, adds or moves one leaves a line that does not fit.
 *
 * The hash is SHA-256 over the canonical text of the line without `hash`. A line is written in that canonical form, and
 * what is written in any other does not count.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { canonical, sha256 } from "./digest.ts"

/** The form of a line. Another one is another number. */
const VERSION = 1

/** The end of a chain: how many entries it has, and the hash of the last. */
export interface Head {
  readonly count: number
  readonly hash: string
}

/** What is wrong with a line, and what that means. */
export interface Problem {
  readonly kind: "unreadable" | "malformed" | "edited" | "missing" | "reordered" | "replaced" | "cut"
  readonly explanation: string
}

/** An entry as it stands in a chain. */
export interface Link extends Head {
  readonly previous: string | null
  readonly entry: Schema.Json
}

export interface Sealed {
  readonly text: string
  readonly head: Head
}

/** Puts an entry at the end of a chain. */
const seal = (head: Head | undefined, entry: Schema.Json): Effect.Effect<Sealed> => {
  const count = (head?.count ?? 0) + 1
  const body = { entry, previous: head?.hash ?? null, sequence: count, version: VERSION }
  return Effect.map(Effect.suspend(() => sha256(canonical(body))), (hash) => ({
    text: canonical({ ...body, hash }),
    head: { count, hash }
  }))
}

/** Puts entries at the end of a chain, one after the other. */
export const sealAll = Effect.fnUntraced(function*(head: Head | undefined, entries: ReadonlyArray<Schema.Json>) {
  const sealed: Array<Sealed> = []
  for (const entry of entries) sealed.push(yield* seal(sealed.at(-1)?.head ?? head, entry))
  return sealed
})

const UNREADABLE = problem("unreadable", "it is not JSON")
const MALFORMED = problem("malformed", "it is not an entry of an audit log")

/** Reads a line by itself: whether it is what its own hash says. */
export const read = (text: string): Effect.Effect<Result.Result<Link, Problem>> =>
  Effect.suspend(() => {
    const line = Result.try((): unknown => JSON.parse(text))
    if (Result.isFailure(line)) return Effect.succeed(Result.fail(UNREADABLE))
    const parsed = line.success
    if (!isLine(parsed)) return Effect.succeed(Result.fail(MALFORMED))
    if (parsed.version !== VERSION) {
      const explanation = `it is of version ${parsed.version}, and only version ${VERSION} is known`
      return Effect.succeed(Result.fail(problem("malformed", explanation)))
    }
    const { hash, ...body } = parsed
    // Nesting that nobody wrote may be too deep to be walked.
    const texts = Result.try(() => ({ whole: canonical(parsed), body: canonical(body) }))
    if (Result.isFailure(texts)) return Effect.succeed(Result.fail(MALFORMED))
    return Effect.map(sha256(texts.success.body), (actual) =>
      actual !== hash
        ? Result.fail(problem("edited", "its content does not match its hash"))
        : texts.success.whole !== text
        ? Result.fail(problem("edited", "it is not written as the log writes it"))
        : Result.succeed({ count: parsed.sequence, hash, previous: parsed.previous, entry: parsed.entry }))
  })

/** Why a line cannot follow the end of a chain, if it cannot. */
const follows = (head: Head | undefined, link: Link): Problem | undefined => {
  const expected = (head?.count ?? 0) + 1
  if (link.count > expected) {
    const last = link.count - 1
    return problem(
      "missing",
      expected === last ? `entry ${last} is missing` : `entries ${expected} to ${last} are missing`
    )
  }
  if (link.count < expected) {
    return problem("reordered", `it is entry ${link.count}, where entry ${expected} belongs`)
  }
  return link.previous === (head?.hash ?? null)
    ? undefined
    : problem(
      "replaced",
      "it follows another line than the one before it, which was exchanged or written at the same time"
    )
}

// -----------------------------------------------------------------------------
// What an interrupted writer leaves
// -----------------------------------------------------------------------------

/** What stands between two lines, as one text. */
const tornText = (lines: ReadonlyArray<string>): string => lines.join("\n")

/**
 * The entry that notes what stands before it and is none: the line of a writer that was stopped while it wrote. `torn`
 * is the SHA-256 of that text.
 */
export const recovered = (at: string, lines: ReadonlyArray<string>): Effect.Effect<Schema.Json> =>
  Effect.map(sha256(tornText(lines)), (torn) => ({ _tag: "Recovered", at, torn }))

const tornOf = (entry: Schema.Json): string | undefined =>
  Predicate.isObject(entry) && entry["_tag"] === "Recovered" && typeof entry["torn"] === "string"
    ? entry["torn"]
    : undefined

// -----------------------------------------------------------------------------
// Reading a chain
// -----------------------------------------------------------------------------

/** How far a chain was read. It ends at the first line that is `broken`. */
export interface Progress {
  readonly head: Head | undefined
  /** How many lines were read. */
  readonly lines: number
  /** Lines since the last entry that are none: an entry that follows has to account for them. */
  readonly torn: ReadonlyArray<string>
  /** Where lines were accounted for. */
  readonly recovered: ReadonlyArray<number>
  readonly broken: (Problem & { readonly line: number }) | undefined
}

export const begin = (head?: Head): Progress => ({ head, lines: 0, torn: [], recovered: [], broken: undefined })

/** How many lines may stand between two entries, and how many such places are told. */
const MAX_TORN_LINES = 16

/** Reads the next line. */
export const next = Effect.fnUntraced(function*(progress: Progress, text: string) {
  if (progress.broken !== undefined) return progress
  const line = progress.lines + 1
  const { head, torn } = progress
  const firstTorn = line - torn.length
  const breaks = (at: number, found: Problem): Progress => ({
    ...progress,
    lines: line,
    broken: { ...found, line: at }
  })

  const result = yield* read(text)
  if (Result.isFailure(result)) {
    if (result.failure !== UNREADABLE) return breaks(line, result.failure)
    return torn.length < MAX_TORN_LINES
      ? { ...progress, lines: line, torn: [...torn, text] }
      : breaks(firstTorn, UNREADABLE)
  }
  const link = result.success
  const accountedFor = tornOf(link.entry)
  if (torn.length > 0 && accountedFor === undefined) return breaks(firstTorn, UNREADABLE)
  const misfit = follows(head, link)
  if (misfit !== undefined) return breaks(line, misfit)
  if (accountedFor !== undefined && accountedFor !== (yield* sha256(tornText(torn)))) {
    return breaks(
      firstTorn,
      torn.length === 0
        ? problem("missing", "the incomplete line that it speaks of is not there")
        : problem("edited", "it is not the incomplete line that the next entry speaks of")
    )
  }
  return {
    ...progress,
    head: { count: link.count, hash: link.hash },
    lines: line,
    torn: [],
    recovered: accountedFor === undefined || progress.recovered.length >= MAX_TORN_LINES
      ? progress.recovered
      : [...progress.recovered, firstTorn]
  }
})

/** What is wrong with the end, if nothing follows. */
export const brokenEnd = ({ broken, lines, torn }: Progress): Progress["broken"] =>
  broken ?? (torn.length === 0 ? undefined : {
    kind: "unreadable",
    explanation: "it is not JSON: a writer was stopped while it wrote, or the end was changed",
    line: lines - torn.length + 1
  })

// -----------------------------------------------------------------------------
// Internals
// -----------------------------------------------------------------------------

function problem(kind: Problem["kind"], explanation: string): Problem {
  return { kind, explanation }
}

interface Line {
  readonly entry: Schema.Json
  readonly hash: string
  readonly previous: string | null
  readonly sequence: number
  readonly version: number
}

// Of what came from JSON, an entry of any shape is JSON too.
const isLine = (parsed: unknown): parsed is Line =>
  Predicate.isObject(parsed) && Object.keys(parsed).length === 5 && "entry" in parsed &&
  typeof parsed["hash"] === "string" && (parsed["previous"] === null || typeof parsed["previous"] === "string") &&
  Number.isSafeInteger(parsed["sequence"]) && typeof parsed["version"] === "number"
