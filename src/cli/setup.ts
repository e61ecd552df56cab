/*
 * What the commands share: their flags, and the Layers these stand for.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import { Flag } from "effect/cli"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Schema from "effect/Schema"
import * as Path from "node:path"
import { pathToFileURL } from "node:url"
import { messageOf } from "../internal/text.ts"
import * as OpenAiModel from "../openai/OpenAiModel.ts"
import { Permission } from "../tools/Permission.ts"
import * as PermissionPolicy from "../tools/PermissionPolicy.ts"
import * as ToolRegistry from "../tools/ToolRegistry.ts"
import { approverLayer } from "./asking.ts"
import { type CliFailure, failed, usage } from "./failure.ts"
import * as Servers from "./servers.ts"

/** Used where neither `--model` nor `OPENAI_MODEL` names one. */
const DEFAULT_MODEL = "gpt-5-mini"

// -----------------------------------------------------------------------------
// Flags
// -----------------------------------------------------------------------------

const PERMISSIONS = "read, write, delete, network, shell, filesystem or custom:<name>"

const permissions = (name: string, description: string) =>
  Flag.String(name).pipe(
    Flag.filterMap(Schema.decodeUnknownOption(Permission), () => `a permission: ${PERMISSIONS}`),
    Flag.withDescription(description),
    Flag.withMetavar("permission"),
    Flag.atLeast(0)
  )

export const toolFlags = {
  mcp: Flag.File("mcp", { mustExist: true }).pipe(
    Flag.withDescription("Tools of the MCP servers in this file (the usual mcp.json)"),
    Flag.withMetavar("mcp.json"),
    Flag.optional
  ),
  tools: Flag.File("tools", { mustExist: true }).pipe(
    Flag.withDescription("Tools of this module: its default export is a Layer that provides a ToolRegistry"),
    Flag.withMetavar("module"),
    Flag.optional
  ),
  allow: permissions("allow", `Grants a permission: ${PERMISSIONS}`),
  deny: permissions("deny", "Refuses a permission, whatever grants it; nobody is asked"),
  yes: Flag.Boolean("yes").pipe(
    Flag.withAlias("y"),
    Flag.withDescription("Approves every call that somebody would be asked about"),
    Flag.withDefault(false)
  )
}

export const modelFlags = {
  model: Flag.String("model").pipe(
    Flag.withAlias("m"),
    Flag.withDescription(`The model's name. Default: OPENAI_MODEL, or ${DEFAULT_MODEL}`),
    Flag.optional
  ),
  baseUrl: Flag.String("base-url").pipe(
    Flag.withDescription("An OpenAI-compatible API. Default: OPENAI_BASE_URL, or OpenAI's own"),
    Flag.withMetavar("url"),
    Flag.optional
  )
}

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** What a model is reached by; the key comes from the environment alone, where other users do not see it. */
const environment = Config.all({
  apiKey: Config.option(Config.Redacted("OPENAI_API_KEY")),
  baseUrl: Config.option(Config.String("OPENAI_BASE_URL")),
  model: Config.String("OPENAI_MODEL").pipe(Config.withDefault(DEFAULT_MODEL))
})

/** Whether the environment names a model of its own. */
export const hasModel: Effect.Effect<boolean> = Effect.match(environment, {
  onFailure: () => false,
  onSuccess: ({ apiKey, baseUrl }) => Option.isSome(apiKey) || Option.isSome(baseUrl)
})

export const modelLayer = (flags: {
  readonly model: Option.Option<string>
  readonly baseUrl: Option.Option<string>
}): Layer.Layer<LanguageModel.LanguageModel, CliFailure> =>
  environment.pipe(
    Effect.mapError((error) => usage(error.message)),
    Effect.map(({ apiKey, baseUrl, model }) =>
      OpenAiModel.layer({
        model: Option.getOrElse(flags.model, () => model),
        baseUrl: Option.getOrUndefined(Option.orElse(flags.baseUrl, () => baseUrl)),
        apiKey: Option.getOrUndefined(apiKey)
      })
    ),
    Layer.unwrap
  )

/** What the tools of the flags need of the platform. */
export type Platform = ChildProcessSpawner | FileSystem.FileSystem

/**
 * The tools of `--tools` and `--mcp` in one registry, under the policy of `--allow` and `--deny`. What neither of them
 * names and the default rules do not grant is asked about.
 */
export const registryLayer = (flags: {
  readonly mcp: Option.Option<string>
  readonly tools: Option.Option<string>
  readonly allow: ReadonlyArray<Permission>
  readonly deny: ReadonlyArray<Permission>
  readonly yes: boolean
}): Layer.Layer<ToolRegistry.ToolRegistry, CliFailure, Platform> => {
  const registry = moduleLayer(flags.tools)
  return Option.match(flags.mcp, {
    onNone: () => Layer.provide(registry, policyLayer(flags)),
    onSome: (file) =>
      Layer.unwrap(Effect.map(Servers.read(file), (config) =>
        Servers.layer(config).pipe(
          Layer.provideMerge(registry),
          Layer.provide(policyLayer({ ...flags, allow: [...flags.allow, ...Servers.permissions(config)] }))
        )))
  })
}

/** Who decides about calls: what is granted may run, what is refused may not, and somebody is asked about the rest. */
export const policyLayer = (flags: {
  readonly allow: ReadonlyArray<Permission>
  readonly deny: ReadonlyArray<Permission>
  readonly yes: boolean
}): Layer.Layer<PermissionPolicy.PermissionPolicy> => {
  const { allowed } = new PermissionPolicy.PermissionConfig({})
  const rules = new PermissionPolicy.PermissionConfig({ allowed: [...allowed, ...flags.allow], denied: flags.deny })
  return PermissionPolicy.layerCheck(({ tool }) => {
    const refused = tool.permissions.filter((permission) => flags.deny.includes(permission))
    const open = tool.permissions.filter((permission) => !PermissionPolicy.isAllowed(rules, permission))
    return Effect.succeed(
      refused.length > 0
        ? PermissionPolicy.deny(`it needs ${refused.join(", ")}`)
        : open.length > 0
        ? PermissionPolicy.ask(`It needs ${open.join(", ")}.`)
        : PermissionPolicy.allow
    )
  }).pipe(Layer.merge(approverLayer(flags)))
}

const moduleLayer = (
  file: Option.Option<string>
): Layer.Layer<ToolRegistry.ToolRegistry, CliFailure, PermissionPolicy.PermissionPolicy> =>
  Option.match(file, {
    onNone: () => ToolRegistry.layer(),
    onSome: (file) =>
      Layer.effect(
        ToolRegistry.ToolRegistry,
        Effect.flatMap(
          Effect.serviceOption(ToolRegistry.ToolRegistry),
          Option.match({
            onNone: () => Effect.fail(usage(`${file}: the Layer it exports provides no ToolRegistry`)),
            onSome: Effect.succeed
          })
        )
      ).pipe(Layer.provide(Layer.unwrap(importRegistry(file))))
  })

const importRegistry = (file: string) =>
  Effect.tryPromise({
    try: (): Promise<{ readonly default?: unknown }> => import(pathToFileURL(Path.resolve(file)).href),
    catch: (cause) => failed(`${file}: ${messageOf(cause)}`)
  }).pipe(
    Effect.map((module) => module.default),
    Effect.filterOrFail(
      isRegistryLayer,
      () => usage(`${file}: the default export is no Layer; export the one that provides your ToolRegistry`)
    )
  )

// What a Layer provides is known when it is built: a registry, or a defect that
// names the service it lacks.
const isRegistryLayer = (
  u: unknown
): u is Layer.Layer<ToolRegistry.ToolRegistry, never, PermissionPolicy.PermissionPolicy> => Layer.isLayer(u)
