/*
 * Running accounts: what was spent, against what may be spent.
 *
 * A submit has an account, which is charged to that of its conversation, and,
 * where it runs inside a tool of another cycle, to that submit's account as well.
 * It is held to the limits of all of them. Each prices tokens by its own table, in
 * its own currency.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { FIBER_STATE } from "../../internal/handlerContext.ts"
import { type Budget, Spent } from "../Budget.ts"
import { BudgetExceeded, InvalidLimit } from "../CycleError.ts"
import { find, ModelUnpriced, type Price, type PriceTable } from "../Pricing.ts"
import * as Usage from "./usage.ts"

export interface Account {
  readonly limits: Limits
  readonly pricing: PriceTable | undefined
  /** Who is charged as well. */
  charged: ReadonlyArray<Account>
  /** Whether others are charged with it still; those who have come to rest are not. */
  isOpen: boolean
  tokens: number
  /** What had a price. */
  cost: number
  /** Whether something had none: ever, and since the limits count. */
  unpriced: { readonly ever: boolean; readonly lately: boolean }
  readonly stopwatch: Stopwatch
  /** What had been spent when the limits began to count. */
  from: Spent
}

/** The account of the submit that the current fiber works for. */
export const CurrentAccount: Context.Reference<Account | undefined> = Context.Reference<Account | undefined>(
  `${FIBER_STATE}Account`,
  { defaultValue: () => undefined }
)

export const makeAccount = (options: {
  readonly limits: Limits
  readonly pricing: PriceTable | undefined
  /** From an earlier process. Default: nothing was spent. */
  readonly spent?: Spent | undefined
  /** Default: the limits count from the beginning. */
  readonly from?: Spent | undefined
}): Account => {
  const { from = NOTHING, spent = NOTHING } = options
  const isUnpriced = spent.cost === undefined
  return {
    limits: options.limits,
    pricing: options.pricing,
    charged: [],
    isOpen: true,
    tokens: spent.tokens,
    cost: spent.cost ?? 0,
    unpriced: { ever: isUnpriced, lately: isUnpriced && from === NOTHING },
    stopwatch: makeStopwatch(spent.millis),
    from
  }
}

const NOTHING = new Spent({ tokens: 0, cost: 0, millis: 0 })

// -----------------------------------------------------------------------------
// Limits
// -----------------------------------------------------------------------------

/** `Infinity` where there is none. */
export interface Limits {
  readonly tokens: number
  readonly cost: number
  readonly millis: number
}

export const NO_LIMITS: Limits = { tokens: Infinity, cost: Infinity, millis: Infinity }

export const limitsOf = (budget: Budget | undefined): Limits | InvalidLimit => {
  const millis = toMillis(budget?.duration)
  const { cost = Infinity, tokens = Infinity } = budget ?? {}
  if (!isLimit(tokens)) return new InvalidLimit({ limit: "tokens", value: String(tokens) })
  if (!isLimit(cost)) return new InvalidLimit({ limit: "cost", value: String(cost) })
  if (millis === undefined) return new InvalidLimit({ limit: "duration", value: String(budget?.duration) })
  return { tokens, cost, millis }
}

/** A program without types may give anything. */
export const isLimit = (limit: unknown): boolean => typeof limit === "number" && limit >= 0

const toMillis = (input: Duration.Input | undefined): number | undefined => {
  if (input === undefined) return Infinity
  // effect reads it as no time at all.
  if (typeof input === "number" && Number.isNaN(input)) return undefined
  const millis = Option.getOrUndefined(Option.map(Duration.fromInput(input), Duration.toMillis))
  return isLimit(millis) ? millis : undefined
}

// -----------------------------------------------------------------------------
// Spending
// -----------------------------------------------------------------------------

/** The account and those that are charged with it, the nearest first. */
const lineOf = (account: Account): ReadonlyArray<Account> => {
  const line = [account]
  // It goes on with what is added to it meanwhile.
  for (const each of line) {
    for (const other of each.charged) if (!line.includes(other)) line.push(other)
  }
  return line.filter((each) => each === account || each.isOpen)
}

/** Whether anything depends on how many tokens are used. */
export const isCounted = (account: Account): boolean =>
  lineOf(account).some(({ limits, pricing }) => Number.isFinite(limits.tokens) || pricing !== undefined)

/** Charges tokens of a model, which may go by several names: the first that has a price counts. */
export const spend = (account: Account, tokens: Usage.Tokens, models: ReadonlyArray<string>): void => {
  for (const each of lineOf(account)) {
    each.tokens += Usage.sumOf(tokens)
    const price = priceOf(each, models)
    const cost = price === undefined ? NaN : Usage.costOf(price, tokens)
    // A table that nobody has checked may hold anything.
    if (cost >= 0) each.cost += cost
    else each.unpriced = { ever: true, lately: true }
  }
}

const priceOf = ({ pricing }: Account, models: ReadonlyArray<string>): Price | undefined =>
  pricing === undefined ? undefined : find(pricing, ...models)

/** Why a model must not be asked: somebody limits what it costs and has no price for it. */
export const findUnpriced = (account: Account, model: string | undefined): ModelUnpriced | undefined => {
  const models = model === undefined ? [] : [model]
  return lineOf(account).some((each) => Number.isFinite(each.limits.cost) && priceOf(each, models) === undefined)
    ? new ModelUnpriced(model === undefined ? {} : { model })
    : undefined
}

/** The limit that is reached: its own, or one that it is held to. */
export const exceeded = (account: Account): Effect.Effect<BudgetExceeded | undefined> => {
  const limited = lineOf(account).filter(isLimited)
  // Most are not, and are asked twice in each turn.
  return limited.length === 0 ? Effect.undefined : Effect.map(now, (at) => {
    for (const each of limited) {
      const reached = limitReached(each, at)
      if (reached !== undefined) return reached
    }
    return undefined
  })
}

const isLimited = ({ limits }: Account): boolean =>
  Number.isFinite(limits.tokens) || Number.isFinite(limits.cost) || Number.isFinite(limits.millis)

const limitReached = (account: Account, at: number): BudgetExceeded | undefined => {
  const { cost, from, limits, stopwatch, tokens, unpriced } = account
  const usedTokens = tokens - from.tokens
  if (usedTokens >= limits.tokens) {
    return new BudgetExceeded({ limit: "tokens", budget: limits.tokens, used: usedTokens })
  }
  // Money that was spent and could not be counted may be any amount.
  const usedCost = unpriced.lately ? limits.cost : cost - (from.cost ?? 0)
  if (Number.isFinite(limits.cost) && usedCost >= limits.cost) {
    return new BudgetExceeded({ limit: "cost", budget: limits.cost, used: usedCost })
  }
  const usedMillis = stopwatch.read(at) - from.millis
  return usedMillis >= limits.millis
    ? new BudgetExceeded({ limit: "duration", budget: limits.millis, used: usedMillis })
    : undefined
}

/** `undefined` where it is not known. */
export const costOf = ({ cost, pricing, unpriced }: Account): number | undefined =>
  pricing === undefined || unpriced.ever ? undefined : cost

export const spentOf = (account: Account): Effect.Effect<Spent> =>
  Effect.map(now, (at) => {
    const cost = costOf(account)
    return new Spent({
      tokens: account.tokens,
      millis: account.stopwatch.read(at),
      ...(cost === undefined ? undefined : { cost })
    })
  })

/** Whether its limits count from a later point than its beginning. */
export const isRenewed = ({ from }: Account): boolean => from !== NOTHING

/** The limits count from here. */
export const renew = (account: Account): Effect.Effect<void> =>
  Effect.map(now, (at) => {
    account.from = new Spent({ tokens: account.tokens, cost: account.cost, millis: account.stopwatch.read(at) })
    account.unpriced = { ...account.unpriced, lately: false }
  })

// -----------------------------------------------------------------------------
// Time
// -----------------------------------------------------------------------------

const now: Effect.Effect<number> = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1_000_000)

/** Counts milliseconds while nobody holds it. */
interface Stopwatch {
  readonly read: (at: number) => number
  readonly hold: (at: number) => void
  readonly release: (at: number) => void
  /** Open while it counts. */
  readonly counting: Latch.Latch
}

const makeStopwatch = (before: number): Stopwatch => {
  let elapsed = before
  let since: number | undefined
  // Until somebody works.
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

const change = (accounts: ReadonlyArray<Account>, how: "hold" | "release"): Effect.Effect<void> =>
  Effect.map(now, (at) => {
    for (const { stopwatch } of accounts) stopwatch[how](at)
  })

/** Charges the conversation, and the submit around it if there is one, and counts their time. */
export const workingScoped = (account: Account, conversation: Account): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(CurrentAccount, (around) => {
    account.charged = around === undefined ? [conversation] : [conversation, around]
    const own = [account, conversation]
    return Effect.acquireRelease(
      Effect.suspend(() => {
        account.isOpen = true
        return change(own, "release")
      }),
      () => {
        account.isOpen = false
        return change(own, "hold")
      }
    )
  })

export const working = <A, E, R>(
  account: Account,
  conversation: Account,
  work: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.scoped(
    Effect.andThen(workingScoped(account, conversation), Effect.provideService(work, CurrentAccount, account))
  )

/** While a person is waited for, time stands still for everybody who is charged. */
export const waitingForPeople = <A, E, R>(account: Account, wait: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const line = lineOf(account)
    return Effect.acquireUseRelease(change(line, "hold"), () => wait, () => change(line, "release"))
  })

/** What is said of an account whose time is up. */
export const timeExceeded = ({ from, limits, stopwatch }: Account): Effect.Effect<BudgetExceeded> =>
  Effect.map(now, (at) => {
    const used = stopwatch.read(at) - from.millis
    return new BudgetExceeded({ limit: "duration", budget: limits.millis, used })
  })

export const isTimeUp = ({ from, limits, stopwatch }: Account): Effect.Effect<boolean> =>
  Effect.map(now, (at) => stopwatch.read(at) - from.millis >= limits.millis)

/**
 * Ends when the time of an account has been up for `grace` milliseconds. The time
 * of the submit around it stops the tool in which the account is spent.
 */
export const timeIsUp = ({ from, limits, stopwatch }: Account, grace: number = 0): Effect.Effect<void> =>
  Number.isFinite(limits.millis)
    ? Effect.flatMap(now, function wait(at): Effect.Effect<void> {
      const left = limits.millis + grace + from.millis - stopwatch.read(at)
      if (left <= 0) return Effect.void
      return stopwatch.counting.await.pipe(
        Effect.andThen(Effect.sleep(Duration.millis(Math.ceil(left)))),
        Effect.andThen(Effect.flatMap(now, wait))
      )
    })
    : Effect.never
