/**
 * Which protocol a server speaks.
 *
 * A dual-era server pins itself by what it sees first, so questions are put one after the other: `server/discover`, and
 * `initialize` where the verdict is legacy. What the probe's outcome means is decided here, by pure functions.
 *
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
 */
import type { McpErrorReason } from "../McpError.ts"
import type { Capabilities, Implementation } from "../McpModel.ts"
import { decodeCapabilities, decodeImplementation, optionalText } from "./decode.ts"
import { ErrorCode, isObject, type JsonObject, type JsonRpcErrorObject } from "./jsonrpc.ts"
import type { Agreed } from "./transport.ts"

/** Newest first. */
export const MODERN_VERSIONS: ReadonlyArray<string> = ["2026-07-28"]
export const LEGACY_VERSIONS: ReadonlyArray<string> = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]

export const PREFERRED_MODERN = "2026-07-28"
export const PREFERRED_LEGACY = "2025-11-25"

/** What is known of a server once the protocol is settled. */
export interface Agreement extends Agreed {
  readonly capabilities: Capabilities
  readonly serverInfo: Implementation | undefined
  readonly instructions: string | undefined
}

export type Verdict =
  | { readonly _tag: "Modern"; readonly agreement: Agreement }
  /** The server refused the version it was asked for, but names this one. */
  | { readonly _tag: "Retry"; readonly version: string }
  /** `serverVersions` is what it named, for the error in case `initialize` fails as well. */
  | { readonly _tag: "Legacy"; readonly serverVersions: ReadonlyArray<string> }
  /** The question was its end; it may do better without. */
  | { readonly _tag: "Restart" }
  | { readonly _tag: "NoCommonVersion"; readonly serverVersions: ReadonlyArray<string> }
  /** Nothing about the protocol follows from it. */
  | { readonly _tag: "Failed" }

const legacy: Verdict = { _tag: "Legacy", serverVersions: [] }

/** The verdict of an answer to `server/discover`. */
export const judgeDiscovery = (result: unknown): Verdict => {
  if (!isObject(result)) return legacy
  const versions = strings(result["supportedVersions"])
  const version = MODERN_VERSIONS.find((version) => versions.includes(version))
  if (version === undefined) return { _tag: "Legacy", serverVersions: versions }
  const meta = isObject(result["_meta"]) ? result["_meta"] : {}
  return {
    _tag: "Modern",
    agreement: {
      era: "modern",
      version,
      capabilities: decodeCapabilities(result["capabilities"]),
      serverInfo: decodeImplementation(meta["io.modelcontextprotocol/serverInfo"] ?? result["serverInfo"]),
      instructions: optionalText(result["instructions"])
    }
  }
}

/** The verdict of a failed `server/discover`. */
export const judgeFailure = (reason: McpErrorReason): Verdict => {
  switch (reason._tag) {
    case "ProcessExited":
      return { _tag: "Restart" }
    case "HttpStatus":
      if (reason.error?.code === ErrorCode.unsupportedVersion) return judgeRefusedVersion(reason.error.data)
      return reason.status >= 500 || reason.status === 429 ? { _tag: "Failed" } : legacy
    case "Refused":
      return reason.code === ErrorCode.unsupportedVersion ? judgeRefusedVersion(reason.data) : legacy
    case "InvalidAnswer":
    case "NoAnswer":
    case "TimedOut":
      return legacy
    default:
      return { _tag: "Failed" }
  }
}

const judgeRefusedVersion = (data: unknown): Verdict => {
  const versions = strings(isObject(data) ? data["supported"] : undefined)
  const version = MODERN_VERSIONS.find((version) => versions.includes(version))
  if (version !== undefined) return { _tag: "Retry", version }
  return versions.length === 0 || versions.some((version) => LEGACY_VERSIONS.includes(version))
    ? { _tag: "Legacy", serverVersions: versions }
    : { _tag: "NoCommonVersion", serverVersions: versions }
}

/** What an answer to `initialize` agrees on, or the version it insists on. */
export const judgeInitialize = (result: unknown): Agreement | { readonly unknownVersion: string } => {
  const answer: JsonObject = isObject(result) ? result : {}
  const version = typeof answer["protocolVersion"] === "string" ? answer["protocolVersion"] : ""
  if (!LEGACY_VERSIONS.includes(version)) return { unknownVersion: version }
  return {
    era: "legacy",
    version,
    capabilities: decodeCapabilities(answer["capabilities"]),
    serverInfo: decodeImplementation(answer["serverInfo"]),
    instructions: optionalText(answer["instructions"])
  }
}

/** The version to try next when `initialize` was refused for its version. */
export const otherLegacyVersion = (reason: McpErrorReason): string | undefined => {
  const error = remoteError(reason)
  const supported = strings(isObject(error?.data) ? error.data["supported"] : undefined)
  return LEGACY_VERSIONS.find((version) => version !== PREFERRED_LEGACY && supported.includes(version))
}

/** The server's JSON-RPC error, whichever way it came. */
export const remoteError = (reason: McpErrorReason): JsonRpcErrorObject | undefined => {
  switch (reason._tag) {
    case "Refused":
      return { code: reason.code, message: reason.detail, data: reason.data }
    case "HttpStatus":
      return reason.error
    default:
      return undefined
  }
}

const strings = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : []
