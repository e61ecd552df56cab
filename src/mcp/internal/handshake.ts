/**
 * Asks a server which protocol it speaks, one question after the other, on the process or the endpoint that will be used.
 *
 * - A verdict of the probe is followed.
 * - The process died of the probe: one new process, legacy.
 * - Silence: `initialize` is sent with the probe still in flight. If it succeeds the connection is legacy, whatever the probe
 *   says later; if it fails, the probe's outcome counts: a modern answer, or a process that died of it after all.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { type McpError, type McpErrorReason, VersionMismatch } from "../McpError.ts"
import { type ClientIdentity, requestMeta } from "./clientMeta.ts"
import type { JsonObject } from "./jsonrpc.ts"
import {
  type Agreement,
  judgeDiscovery,
  judgeFailure,
  judgeInitialize,
  LEGACY_VERSIONS,
  MODERN_VERSIONS,
  otherLegacyVersion,
  PREFERRED_LEGACY,
  PREFERRED_MODERN,
  type Verdict
} from "./negotiate.ts"
import { excerpt } from "./quote.ts"
import type { Agreed } from "./transport.ts"

export interface Handshake {
  readonly identity: ClientIdentity
  readonly protocol: "auto" | "legacy" | "modern"
  /** How long the probe may stay unanswered before `initialize` is tried beside it. */
  readonly probeMillis: number
  readonly call: (method: string, params: JsonObject, protocol: Agreed) => Effect.Effect<unknown, McpError>
  readonly notify: (method: string, protocol: Agreed) => Effect.Effect<void, McpError>
  readonly agreed: (protocol: Agreed) => void
  /** Starts the server's process anew. */
  readonly reopen: Effect.Effect<void, McpError>
  readonly fail: (reason: McpErrorReason) => McpError
}

/** What the probe found, and the failure it was read from, if it was one. */
interface Finding {
  readonly verdict: Verdict
  readonly error?: McpError
}

export const negotiate = Effect.fnUntraced(function*(self: Handshake): Effect.fn.Return<Agreement, McpError> {
  if (self.protocol === "legacy") return yield* initialize(self, [])
  const probing = yield* Effect.forkChild(probe(self), { startImmediately: true })
  const finding = yield* Effect.timeoutOption(Fiber.join(probing), self.probeMillis)
  if (Option.isSome(finding)) return yield* follow(self, finding.value)
  if (self.protocol === "modern") return yield* follow(self, yield* Fiber.join(probing))
  const attempt = yield* Effect.exit(initialize(self, []))
  if (Exit.isSuccess(attempt)) {
    yield* Fiber.interrupt(probing)
    return attempt.value
  }
  const late = yield* Fiber.join(probing)
  return late.verdict._tag === "Modern" || late.verdict._tag === "Restart" ? yield* follow(self, late) : yield* attempt
})

/** Legacy only: for a session the server forgot, or a server known to be of that era. */
export const initialize = (
  self: Handshake,
  serverVersions: ReadonlyArray<string>
): Effect.Effect<Agreement, McpError> =>
  Effect.gen(function*() {
    const result = yield* Effect.catch(askLegacy(self, PREFERRED_LEGACY), (error) => {
      const other = otherLegacyVersion(error.reason)
      return other === undefined ? Effect.fail(error) : askLegacy(self, other)
    })
    const agreement = judgeInitialize(result)
    if ("unknownVersion" in agreement) return yield* noCommonVersion(self, [agreement.unknownVersion])
    // The headers of the notification depend on it already.
    self.agreed(agreement)
    yield* self.notify("notifications/initialized", agreement)
    return agreement
  }).pipe(
    // What the server named when it was probed says more than how it refuses the handshake.
    Effect.catchIf(
      (error) => serverVersions.length > 0 && error.reason._tag === "Refused",
      () => noCommonVersion(self, serverVersions)
    )
  )

/** For a server known to be modern. */
export const discover = (self: Handshake): Effect.Effect<Agreement, McpError> =>
  Effect.flatMap(probe(self), (finding) => follow({ ...self, protocol: "modern" }, finding))

const probe = Effect.fnUntraced(function*(self: Handshake): Effect.fn.Return<Finding> {
  const first = yield* askModern(self, PREFERRED_MODERN)
  if (first.verdict._tag !== "Retry") return first
  const second = yield* askModern(self, first.verdict.version)
  return second.verdict._tag === "Retry"
    ? { verdict: { _tag: "NoCommonVersion", serverVersions: [second.verdict.version] } }
    : second
})

const askModern = (self: Handshake, version: string): Effect.Effect<Finding> =>
  Effect.match(
    self.call("server/discover", { _meta: requestMeta(self.identity, version, undefined) }, { era: "modern", version }),
    {
      onSuccess: (result): Finding => ({ verdict: judgeDiscovery(result) }),
      onFailure: (error): Finding => ({ verdict: judgeFailure(error.reason), error })
    }
  )

const askLegacy = (self: Handshake, version: string): Effect.Effect<unknown, McpError> =>
  self.call("initialize", {
    protocolVersion: version,
    capabilities: self.identity.capabilities,
    clientInfo: self.identity.info
  }, { era: "legacy", version })

const follow = (self: Handshake, { error, verdict }: Finding): Effect.Effect<Agreement, McpError> => {
  switch (verdict._tag) {
    case "Modern":
      self.agreed(verdict.agreement)
      return Effect.succeed(verdict.agreement)
    case "Legacy":
      return self.protocol !== "modern"
        ? initialize(self, verdict.serverVersions)
        : error === undefined || verdict.serverVersions.length > 0
        ? noCommonVersion(self, verdict.serverVersions)
        : Effect.fail(error)
    case "Restart":
      return self.protocol === "modern" && error !== undefined
        ? Effect.fail(error)
        : Effect.andThen(self.reopen, initialize(self, []))
    case "NoCommonVersion":
      return noCommonVersion(self, verdict.serverVersions)
    case "Retry":
      return noCommonVersion(self, [verdict.version])
    case "Failed":
      return error === undefined ? noCommonVersion(self, []) : Effect.fail(error)
  }
}

const noCommonVersion = (self: Handshake, server: ReadonlyArray<string>): Effect.Effect<never, McpError> =>
  Effect.fail(self.fail(
    new VersionMismatch({
      client: [
        ...(self.protocol === "legacy" ? [] : MODERN_VERSIONS),
        ...(self.protocol === "modern" ? [] : LEGACY_VERSIONS)
      ],
      server: server.map((version) => excerpt(version, 40)).filter((version) => version !== "")
    })
  ))
