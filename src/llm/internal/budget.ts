/*
 * The running account of a submit: what it has spent, against what it may spend.
 *
 * A submit that runs inside a tool of another cycle has that one's account as
 * its parent: what it spends is charged to both, and it is held to the tightest
 * of their limits. Each prices tokens by its own table, in its own currency.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Option from "effect/Option"
import { FIBER_STATE } from "../../internal/handlerContext.ts"
import { type Budget, Spent } from "../Budget.ts"
import { BudgetExceeded, InvalidLimit } from "../CycleError.ts"
import { find, ModelUnpriced, type Price, type PriceTable } from "../Pricing.ts"
import { costOf, sumOf, type Tokens } from "./usage.ts"

export interface Account {
  readonly limits: Limits
  readonly pricing: PriceTable | undefined
  readonly parent: Account | undefined
  tokens: number
  /** `undefined` once something had no price. */
  cost: number | undefined
  readonly stopwatch: Stopwatch
}

/** The account of the submit that the current fiber works for. */
export const CurrentAccount: Context.Reference<Account | undefined> = Context.Reference<Account | undefined>(
  `${FIBER_STATE}Account`,
  { defaultValue: () => undefined }
)

export const makeAccount = (options: {
  readonly limits: Limits
  readonly pricing: PriceTable | undefined
  readonly parent: Account | undefined
  readonly spent?: Spent | undefined
}): Account => ({
  limits: options.limits,
  pricing: options.pricing,
  parent: options.parent,
  tokens: options.spent?.tokens ?? 0,
  cost: options.spent === undefined ? 0 : options.spent.cost,
  stopwatch: makeStopwatch(options.spent?.millis ?? 0)
})

// -----------------------------------------------------------------------------
// Limits
// -----------------------------------------------------------------------------

/** `Infinity` where there is none. */
export interface Limits {
  readonly tokens: number
  readonly cost: number
  readonly millis: number
}

export const limitsOf = (budget: Budget | undefined): Limits | InvalidLimit => {
  const millis = toMillis(budget?.duration)
  const { cost = Infinity, tokens = Infinity } = budget ?? {}
  if (!isLimit(tokens)) return new InvalidLimit({ limit: "tokens", value: String(tokens) })
  if (!isLimit(cost)) return new InvalidLimit({ limit: "cost", value: String(cost) })
  if (millis === undefined) return new InvalidLimit({ limit: "duration", value: String(budget?.duration) })
  return { tokens, cost, millis }
}

const isLimit = (limit: number): boolean => typeof limit === "number" && limit >= 0

const toMillis = (input: Duration.Input | undefined): number | undefined => {
  if (input === undefined) return Infinity
  // effect reads it as no time at all.
  if (typeof input === "number" && Number.isNaN(input)) return undefined
  const millis = Option.getOrUndefined(Option.map(Duration.fromInput(input), Duration.toMillis))
  return millis !== undefined && isLimit(millis) ? millis : undefined
}

// -----------------------------------------------------------------------------
// Spending
// -----------------------------------------------------------------------------

/** The account and those it is charged to as well, the nearest first. */
const lineOf = (account: Account): ReadonlyArray<Account> => {
  const line: Array<Account> = []
  for (let each: Account | undefined = account; each !== undefined; each = each.parent) line.push(each)
  return line
}

/** Charges tokens of a model, which may go by several names: the first that has a price counts. */
export const spend = (account: Account, tokens: Tokens, models: ReadonlyArray<string>): void => {
  for (const each of lineOf(account)) {
    each.tokens += sumOf(tokens)
    const price = priceOf(each, models)
    each.cost = each.cost === undefined || price === undefined ? undefined : each.cost + costOf(price, tokens)
  }
}

const priceOf = ({ pricing }: Account, models: ReadonlyArray<string>): Price | undefined =>
  pricing === undefined ? undefined : find(pricing, ...models)

/** Why a model must not be asked: somebody counts money and has no price for it. */
export const findUnpriced = (account: Account, model: string | undefined): ModelUnpriced | undefined => {
  const models = model === undefined ? [] : [model]
  return lineOf(account).some((each) => Number.isFinite(each.limits.cost) && priceOf(each, models) === undefined)
    ? new ModelUnpriced(model === undefined ? {} : { model })
    : undefined
}

/** Which limit is reached, its own or one it is held to. */
export const exceeded = (account: Account): Effect.Effect<BudgetExceeded | undefined> =>
  Effect.map(now, (at) => {
    for (const each of lineOf(account)) {
      const { limits } = each
      const millis = each.stopwatch.read(at)
      if (each.tokens >= limits.tokens) {
        return new BudgetExceeded({ limit: "tokens", budget: limits.tokens, used: each.tokens })
      }
      // Money that was spent and could not be counted may be any amount.
      if ((each.cost ?? Infinity) >= limits.cost && Number.isFinite(limits.cost)) {
        return new BudgetExceeded({ limit: "cost", budget: limits.cost, used: each.cost ?? limits.cost })
      }
      if (millis >= limits.millis) {
        return new BudgetExceeded({ limit: "duration", budget: limits.millis, used: millis })
      }
    }
    return undefined
  })

export const spentOf = (account: Account): Effect.Effect<Spent> =>
  Effect.map(now, (at) =>
    new Spent({
      tokens: account.tokens,
      millis: account.stopwatch.read(at),
      ...(account.cost === undefined ? undefined : { cost: account.cost })
    }))

// -----------------------------------------------------------------------------
// Time
// -----------------------------------------------------------------------------

const now: Effect.Effect<number> = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1_000_000)

/** Counts while it runs and nobody holds it. Times are milliseconds. */
interface Stopwatch {
  readonly read: (at: number) => number
  readonly hold: (at: number) => void
  readonly release: (at: number) => void
  /** Opened while it counts. */
  readonly counting: Latch.Latch
}

const makeStopwatch = (before: number): Stopwatch => {
  let elapsed = before
  let since: number | undefined
  let holds = 1
  const counting = Latch.makeUnsafe(false)
  const read = (at: number) => elapsed + (since === undefined ? 0 : Math.max(0, at - since))
  return {
    read,
    hold: (at) => {
      elapsed = read(at)
      since = undefined
      holds++
      counting.closeUnsafe()
    },
    release: (at) => {
      if (--holds > 0) return
      since = at
      counting.openUnsafe()
    },
    counting
  }
}

/** Starts and stops the time of an account; it stands still before. */
export const start = (account: Account): Effect.Effect<void> => Effect.map(now, (at) => account.stopwatch.release(at))

export const stop = (account: Account): Effect.Effect<void> => Effect.map(now, (at) => account.stopwatch.hold(at))

/** While a person is waited for, time stands still, for parents too. */
export const waitingForPeople = <A, E, R>(wait: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(CurrentAccount, (account) =>
    account === undefined ? wait : Effect.acquireUseRelease(
      Effect.map(now, (at) => {
        for (const each of lineOf(account)) each.stopwatch.hold(at)
      }),
      () => wait,
      () =>
        Effect.map(now, (at) => {
          for (const each of lineOf(account)) each.stopwatch.release(at)
        })
    ))

/**
 * Ends when the time of an account is up. That of a parent stops the tool in
 * which the account is spent.
 */
export const timeIsUp = ({ limits, stopwatch }: Account): Effect.Effect<void> =>
  Number.isFinite(limits.millis)
    ? Effect.flatMap(now, function wait(at): Effect.Effect<void> {
      const left = limits.millis - stopwatch.read(at)
      if (left <= 0) return Effect.void
      return stopwatch.counting.await.pipe(
        Effect.andThen(Effect.sleep(Duration.millis(left))),
        Effect.andThen(Effect.flatMap(now, wait))
      )
    })
    : Effect.never
