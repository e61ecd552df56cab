/**
 * What this client says about itself in every request of the modern era, and once in the handshake of the legacy one.
 */
import type { LogLevel } from "../McpModel.ts"
import type { JsonObject } from "./jsonrpc.ts"

export interface ClientIdentity {
  readonly info: JsonObject
  readonly capabilities: JsonObject
}

/** https://modelcontextprotocol.io/specification/2026-07-28/basic/index#_meta */
export const requestMeta = (
  identity: ClientIdentity,
  version: string,
  logLevel: LogLevel | undefined
): JsonObject => ({
  "io.modelcontextprotocol/protocolVersion": version,
  "io.modelcontextprotocol/clientInfo": identity.info,
  "io.modelcontextprotocol/clientCapabilities": identity.capabilities,
  ...(logLevel === undefined ? {} : { "io.modelcontextprotocol/logLevel": logLevel })
})
