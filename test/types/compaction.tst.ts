import {
  Compaction,
  type CompactionError,
  CompactionStrategy,
  type CycleConfig,
  LlmCycle,
  type ToolRegistry
} from "agcore"
import { Context, Effect, type Layer } from "effect"
import type { LanguageModel } from "effect/ai"
import { describe, expect, it } from "tstyche"

class Archive extends Context.Service<Archive, { readonly keep: Effect.Effect<void> }>()("test/types/Archive") {}
class Index extends Context.Service<Index, { readonly size: number }>()("test/types/Index") {}

const archived = CompactionStrategy.custom("archive", ({ messages }) =>
  Effect.gen(function*() {
    const archive = yield* Archive
    yield* archive.keep
    return messages.slice(-1)
  }))

const indexed = CompactionStrategy.custom("index", () => Effect.as(Index, undefined))

describe("what a strategy requires", () => {
  it("is inferred, and nothing for those that come along", () => {
    expect(archived).type.toBe<CompactionStrategy.Strategy<Archive>>()
    expect(CompactionStrategy.dropOldest()).type.toBe<CompactionStrategy.Strategy>()
    expect(CompactionStrategy.sequence(CompactionStrategy.dropOldest(), archived, indexed))
      .type.toBe<CompactionStrategy.Strategy<Archive | Index>>()
    expect(CompactionStrategy.summarise({ fallback: archived })).type.toBe<CompactionStrategy.Strategy<Archive>>()
    expect(archived.compact).type.toBeAssignableTo<
      (state: CompactionStrategy.CompactionState) => Effect.Effect<
        CompactionStrategy.Compacted | undefined,
        CompactionError.CompactionError,
        Archive
      >
    >()
  })

  it("is required by the compaction, its layer and the cycle", () => {
    const compaction = Compaction.make({ strategy: archived })
    expect(compaction).type.toBe<Compaction.Compaction<Archive>>()
    expect(Compaction.make({ contextWindow: 1 })).type.toBe<Compaction.Compaction>()
    expect(Compaction.layer({ strategy: archived })).type.toBe<Layer.Layer<never, never, Archive>>()
    expect(Compaction.provided(compaction)).type.toBe<Effect.Effect<Compaction.Compaction, never, Archive>>()
    expect(LlmCycle.make({ compaction })).type.toBe<
      Effect.Effect<
        LlmCycle.LlmCycle["Service"],
        never,
        Archive | LanguageModel.LanguageModel | ToolRegistry.ToolRegistry
      >
    >()
    expect(compaction).type.not.toBeAssignableTo<CycleConfig.CycleConfig["compaction"]>()
  })
})
