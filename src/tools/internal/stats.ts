/*
 * Counters of calls, by tool name.
 */
import type { ToolInvocation } from "../ToolInvocation.ts"
import type { ToolStats } from "../ToolRegistry.ts"

export interface Stats {
  readonly record: (invocation: ToolInvocation) => void
  readonly read: () => ReadonlyMap<string, ToolStats>
}

const NONE: ToolStats = { calls: 0, failures: {}, totalDurationMillis: 0, maxDurationMillis: 0 }

export const make = (): Stats => {
  const counters = new Map<string, ToolStats>()
  return {
    record: ({ durationMillis, error, toolName }) => {
      const before = counters.get(toolName) ?? NONE
      const reason = error?.reason._tag
      counters.set(toolName, {
        calls: before.calls + 1,
        failures: reason === undefined
          ? before.failures
          : { ...before.failures, [reason]: (before.failures[reason] ?? 0) + 1 },
        totalDurationMillis: before.totalDurationMillis + durationMillis,
        maxDurationMillis: Math.max(before.maxDurationMillis, durationMillis)
      })
    },
    read: () => new Map(counters)
  }
}
