/*
 * The state of a registry: an immutable set of tools, and the snapshot made of
 * it once per revision.
 */
import type * as Effect from "effect/Effect"
import type { Implementation } from "../Tool.ts"
import type { ToolCall } from "../ToolInvocation.ts"
import type { RegistryChange } from "../ToolRegistry.ts"
import type { Admission, InvokeOptions, ToolEntry, ToolFilter, ToolSnapshot } from "../ToolSnapshot.ts"
import { type Ask, makeSettle } from "./settle.ts"
import { makeToolkit } from "./toolkit.ts"

export interface Item extends ToolEntry {
  readonly implementation: Implementation
}

/** Admits a call of a tool that was found, or not. */
export type Admit = (
  item: Item | undefined,
  available: () => ReadonlyArray<string>,
  call: ToolCall,
  options: InvokeOptions | undefined
) => Effect.Effect<Admission>

/** What a registry does with calls. */
export interface Calls {
  readonly admit: Admit
  readonly ask: Ask
}

export interface Catalogue {
  readonly calls: Calls
  readonly revision: number
  readonly items: ReadonlyMap<string, Item>
  readonly snapshot: ToolSnapshot
}

/** How many narrowed snapshots of one revision are kept. */
const MAX_FILTERED = 16

export const empty = (calls: Calls): Catalogue => fromItems(calls, 0, new Map())

/** Adds the tools whose names are free; the others are returned. */
export const add = (
  self: Catalogue,
  items: Iterable<Item>
): { readonly catalogue: Catalogue; readonly refused: ReadonlyArray<Item> } => {
  const all = new Map(self.items)
  const refused: Array<Item> = []
  for (const item of items) {
    if (all.has(item.name)) refused.push(item)
    else all.set(item.name, item)
  }
  return {
    catalogue: all.size === self.items.size ? self : fromItems(self.calls, self.revision + 1, all),
    refused
  }
}

/** Removes exactly these tools, not others that took their names since. */
export const remove = (self: Catalogue, items: Iterable<Item>): Catalogue => {
  const left = new Map(self.items)
  for (const item of items) {
    if (left.get(item.name) === item) left.delete(item.name)
  }
  return left.size === self.items.size ? self : fromItems(self.calls, self.revision + 1, left)
}

export const difference = (before: Catalogue, after: Catalogue): RegistryChange => ({
  revision: after.revision,
  registered: Array.from(after.items.values())
    .filter((item) => before.items.get(item.name) !== item).map((item) => item.name),
  unregistered: Array.from(before.items.values())
    .filter((item) => after.items.get(item.name) !== item).map((item) => item.name)
})

const fromItems = (calls: Calls, revision: number, items: ReadonlyMap<string, Item>): Catalogue => {
  let snapshot: ToolSnapshot | undefined
  return {
    calls,
    revision,
    items,
    get snapshot() {
      return snapshot ??= makeSnapshot(calls, revision, items)
    }
  }
}

const makeSnapshot = (calls: Calls, revision: number, items: ReadonlyMap<string, Item>): ToolSnapshot => {
  const entries = Array.from(items.values()).sort((a, b) => a.name < b.name ? -1 : 1)
  const names = entries.map((entry) => entry.name)
  const filtered = new Map<string, ToolSnapshot>()
  let toolkit: ToolSnapshot["toolkit"] | undefined
  const admit: ToolSnapshot["admit"] = (call, options) => calls.admit(items.get(call.name), () => names, call, options)

  const self: ToolSnapshot = {
    revision,
    entries,
    definitions: entries.map((entry) => entry.definition),
    get: (name) => items.get(name),
    admit,
    settle: makeSettle(calls.ask, admit),
    get toolkit() {
      return toolkit ??= makeToolkit(self)
    },
    filter: (filter) => {
      const kept = entries.filter((entry) => matches(filter, entry))
      if (kept.length === entries.length) return self
      const key = kept.map((entry) => entry.name).join("\n")
      const known = filtered.get(key)
      if (known !== undefined) return known
      const narrowed = makeSnapshot(calls, revision, new Map(kept.map((entry) => [entry.name, entry])))
      if (filtered.size >= MAX_FILTERED) filtered.clear()
      filtered.set(key, narrowed)
      return narrowed
    }
  }
  return self
}

const matches = (filter: ToolFilter, { definition, name }: ToolEntry): boolean =>
  (filter.names?.includes(name) ?? true) &&
  (filter.tags?.some((tag) => definition.tags.includes(tag)) ?? true) &&
  (filter.categories?.some((category) => category === definition.category) ?? true) &&
  (filter.where?.(definition) ?? true)
