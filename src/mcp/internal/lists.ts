/**
 * The four lists of a server.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { McpError, McpErrorReason } from "../McpError.ts"
import type { Capabilities, Notification, Prompt, Resource, ResourceTemplate, Tool } from "../McpModel.ts"
import type { Connection } from "./connection.ts"
import type { Report } from "./decode.ts"
import { decodePrompts, decodeResources, decodeTemplates, decodeTools } from "./decodeLists.ts"
import { completeResult } from "./inputRequired.ts"
import { type ListCache, makeListCache } from "./listCache.ts"
import { isUnknownMethod } from "./listen.ts"
import { readPages } from "./paginate.ts"
import type { Settings } from "./settings.ts"
import type { Transport } from "./transport.ts"

export interface Lists {
  readonly tools: ListCache<Tool>
  readonly prompts: ListCache<Prompt>
  readonly resources: ListCache<Resource>
  readonly templates: ListCache<ResourceTemplate>
}

export interface ListNeeds {
  readonly connection: Connection
  readonly transport: Transport
  readonly settings: Settings
  readonly clock: Clock.Clock
  readonly fail: (reason: McpErrorReason) => McpError
  readonly report: Report
  readonly publish: (notification: Notification) => void
}

export const makeLists = (needs: ListNeeds): Lists => {
  const { connection, report, settings, transport } = needs

  const list = <A>(options: {
    readonly method: string
    readonly key: string
    readonly decode: (items: unknown, report: Report) => ReadonlyArray<A>
    readonly changed: Notification | undefined
    /** What the server says about the list; `undefined`: it has none. */
    readonly capability: (capabilities: Capabilities) => { readonly listChanged: boolean } | undefined
    /** Asked for even where it is not offered: some servers forget to say so. */
    readonly askAnyway?: boolean
    /** May be unknown to a server that offers the capability. */
    readonly optional?: boolean
  }): ListCache<A> => {
    const load = Effect.suspend(() => {
      const capability = options.capability(connection.agreement().capabilities)
      if (capability === undefined && options.askAnyway !== true) {
        return Effect.succeed({ items: [], freshMillis: Number.POSITIVE_INFINITY })
      }
      const page = (cursor: string | undefined) =>
        Effect.flatMap(
          connection.request(options.method, cursor === undefined ? {} : { cursor }, {
            timeoutMillis: settings.timeoutMillis
          }),
          (answer) => {
            const { era } = connection.agreement()
            return Effect.map(completeResult(options.method, era, answer, needs.fail), (result) => ({
              result,
              modern: era === "modern"
            }))
          }
        )
      const listing = readPages(options.key, page, settings.pages, report)
      return Effect.map(
        capability === undefined || options.optional === true
          ? Effect.catchIf(listing, isUnknownMethod, () => Effect.succeed({ items: [], ttlMillis: undefined }))
          : listing,
        ({ items, ttlMillis }) => ({
          items: options.decode(items, report),
          // A server that announces changes is believed; one that gives a time is, too; the option is the upper bound.
          freshMillis: Math.min(
            settings.listTtlMillis,
            ttlMillis === undefined || (ttlMillis === 0 && capability?.listChanged === true)
              ? Number.POSITIVE_INFINITY
              : ttlMillis
          )
        })
      )
    })
    return makeListCache({
      name: options.method,
      load,
      onChanged: () => {
        if (options.changed !== undefined) needs.publish(options.changed)
      },
      run: connection.run,
      clock: needs.clock,
      report
    })
  }

  return {
    tools: list({
      method: "tools/list",
      key: "tools",
      decode: (items, report) => decodeTools(items, report).filter((tool) => isCallable(tool)),
      changed: { _tag: "ToolsChanged" },
      capability: ({ tools }) => tools,
      askAnyway: true
    }),
    prompts: list({
      method: "prompts/list",
      key: "prompts",
      decode: decodePrompts,
      changed: { _tag: "PromptsChanged" },
      capability: ({ prompts }) => prompts
    }),
    resources: list({
      method: "resources/list",
      key: "resources",
      decode: decodeResources,
      changed: { _tag: "ResourcesChanged" },
      capability: ({ resources }) => resources
    }),
    templates: list({
      method: "resources/templates/list",
      key: "resourceTemplates",
      decode: decodeTemplates,
      // Told together with the resources.
      changed: undefined,
      capability: ({ resources }) => resources,
      optional: true
    })
  }

  function isCallable(tool: Tool): boolean {
    const refusal = transport.refuses?.(tool.raw["inputSchema"])
    if (refusal === undefined || connection.agreement().era === "legacy") return true
    report({ kind: "dropped-item", message: `tool "${tool.name}" cannot be called: ${refusal}` })
    return false
  }
}
