/**
 * The options of a client with their defaults filled in.
 */
import * as Duration from "effect/Duration"
import type { ClientOptions } from "../McpClient.ts"
import type { ConnectionOptions } from "./connection.ts"
import { MAX_ITEMS, MAX_PAGES, NOTIFICATION_BACKLOG } from "./limits.ts"
import type { PageLimits } from "./paginate.ts"

export interface Settings {
  readonly server: string
  readonly clientInfo: { readonly name: string; readonly version: string; readonly title?: string | undefined }
  readonly timeoutMillis: number
  readonly toolTimeoutMillis: ReadonlyMap<string, number>
  /** `undefined` where progress does not push deadlines. */
  readonly maxTotalMillis: number | undefined
  readonly pages: PageLimits
  readonly notificationBacklog: number
  readonly listTtlMillis: number
  readonly validateOutput: boolean
  readonly connection: Omit<ConnectionOptions, "identity" | "server">
}

const DEFAULT_TIMEOUT: Duration.Input = "30 seconds"
const DEFAULT_PROBE_TIMEOUT: Duration.Input = "3 seconds"
const DEFAULT_MAX_TOTAL: Duration.Input = "10 minutes"

export const millis = (input: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(input))

export const settingsOf = (options: ClientOptions, label: string): Settings => {
  const timeoutMillis = millis(options.timeout ?? DEFAULT_TIMEOUT)
  return {
    server: options.name ?? label,
    clientInfo: options.clientInfo ?? { name: "agcore", version: "0.1.0" },
    timeoutMillis,
    toolTimeoutMillis: new Map(
      Object.entries(options.toolTimeouts ?? {}).map(([name, timeout]) => [name, millis(timeout)])
    ),
    maxTotalMillis: options.resetTimeoutOnProgress === true
      ? millis(options.maxTotalTimeout ?? DEFAULT_MAX_TOTAL)
      : undefined,
    pages: { maxPages: options.maxPages ?? MAX_PAGES, maxItems: options.maxItems ?? MAX_ITEMS },
    notificationBacklog: options.notificationBacklog ?? NOTIFICATION_BACKLOG,
    listTtlMillis: options.listTtl === undefined ? Number.POSITIVE_INFINITY : millis(options.listTtl),
    validateOutput: options.validateOutput ?? true,
    connection: {
      protocol: options.protocol ?? "auto",
      connectMillis: millis(options.connectTimeout ?? DEFAULT_TIMEOUT),
      probeMillis: millis(options.probeTimeout ?? DEFAULT_PROBE_TIMEOUT),
      restart: options.restart === undefined || options.restart === false ? undefined : {
        maxAttempts: (options.restart === true ? undefined : options.restart.maxAttempts) ?? 5,
        baseMillis: millis((options.restart === true ? undefined : options.restart.delay) ?? "500 millis"),
        maxMillis: millis((options.restart === true ? undefined : options.restart.maxDelay) ?? "30 seconds")
      }
    }
  }
}
