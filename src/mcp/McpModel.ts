/**
 * What servers say, as plain data.
 *
 * The shapes hold for every protocol revision. What is missing or `null` on the wire is `undefined` here; `raw` keeps each
 * item as it came. Names, titles and descriptions have lost control characters, escape sequences and invisible characters;
 * content has not been touched.
 *
 * @since 0.1.0
 */
import type { JsonObject as Json } from "./internal/jsonrpc.ts"

/**
 * An object of JSON values.
 *
 * @category models
 * @since 0.1.0
 */
export type JsonObject = Json

/**
 * A server's name and version, by its own word.
 *
 * @category models
 * @since 0.1.0
 */
export interface Implementation {
  readonly name: string
  readonly version: string | undefined
  readonly title: string | undefined
  readonly raw: JsonObject
}

/**
 * What a server offers.
 *
 * @category models
 * @since 0.1.0
 */
export interface Capabilities {
  readonly tools: { readonly listChanged: boolean } | undefined
  readonly prompts: { readonly listChanged: boolean } | undefined
  readonly resources: { readonly listChanged: boolean; readonly subscribe: boolean } | undefined
  readonly logging: boolean
  readonly completions: boolean
  readonly raw: JsonObject
}

/**
 * What a server says about a tool's behaviour. Hints: nothing holds it to them.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolHints {
  readonly readOnly: boolean | undefined
  readonly destructive: boolean | undefined
  readonly idempotent: boolean | undefined
  readonly openWorld: boolean | undefined
}

/**
 * A tool of a server.
 *
 * @category models
 * @since 0.1.0
 */
export interface Tool {
  readonly name: string
  readonly title: string | undefined
  readonly description: string | undefined
  /** The schema of its arguments as the server listed it; `{ type: "object" }` where it listed none. */
  readonly inputSchema: JsonObject
  /** The schema of its structured content, if it has one. */
  readonly outputSchema: unknown
  readonly hints: ToolHints
  /** Whether it must be run as a task, which this client does not do. */
  readonly requiresTask: boolean
  readonly raw: JsonObject
}

/**
 * A prompt template of a server.
 *
 * @category models
 * @since 0.1.0
 */
export interface Prompt {
  readonly name: string
  readonly title: string | undefined
  readonly description: string | undefined
  readonly arguments: ReadonlyArray<PromptArgument>
  readonly raw: JsonObject
}

/**
 * A value a prompt template takes.
 *
 * @category models
 * @since 0.1.0
 */
export interface PromptArgument {
  readonly name: string
  readonly title: string | undefined
  readonly description: string | undefined
  readonly required: boolean
}

/**
 * A resource of a server.
 *
 * @category models
 * @since 0.1.0
 */
export interface Resource {
  readonly uri: string
  readonly name: string
  readonly title: string | undefined
  readonly description: string | undefined
  readonly mimeType: string | undefined
  /** In bytes. */
  readonly size: number | undefined
  readonly raw: JsonObject
}

/**
 * A family of resources: an RFC 6570 template of their URIs.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResourceTemplate {
  readonly uriTemplate: string
  readonly name: string
  readonly title: string | undefined
  readonly description: string | undefined
  readonly mimeType: string | undefined
  readonly raw: JsonObject
}

/**
 * The contents of a resource, as text or as base64.
 *
 * @category models
 * @since 0.1.0
 */
export type ResourceContents =
  & { readonly uri: string; readonly mimeType: string | undefined; readonly raw: JsonObject }
  & ({ readonly type: "text"; readonly text: string } | { readonly type: "blob"; readonly blob: string })

/**
 * One piece of a result or of a prompt. `data` is base64. What this client does not know stays as it came (`other`).
 *
 * @category models
 * @since 0.1.0
 */
export type ContentBlock =
  | { readonly type: "text"; readonly text: string; readonly raw: JsonObject }
  | { readonly type: "image"; readonly data: string; readonly mimeType: string; readonly raw: JsonObject }
  | { readonly type: "audio"; readonly data: string; readonly mimeType: string; readonly raw: JsonObject }
  | { readonly type: "resource"; readonly resource: ResourceContents; readonly raw: JsonObject }
  | ({ readonly type: "resource_link" } & Resource)
  | { readonly type: "other"; readonly kind: string; readonly raw: JsonObject }

/**
 * What a tool answered. `isError` is the tool's own failure, meant for the model.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolResult {
  readonly content: ReadonlyArray<ContentBlock>
  /** Any JSON value; `undefined` if there is none. */
  readonly structuredContent: unknown
  readonly isError: boolean
  readonly raw: JsonObject
}

/**
 * One message of a prompt.
 *
 * @category models
 * @since 0.1.0
 */
export interface PromptMessage {
  readonly role: "user" | "assistant"
  readonly content: ContentBlock
}

/**
 * A prompt with its arguments filled in.
 *
 * @category models
 * @since 0.1.0
 */
export interface PromptResult {
  readonly description: string | undefined
  readonly messages: ReadonlyArray<PromptMessage>
  readonly raw: JsonObject
}

/**
 * What can be written in the place of an unfinished argument.
 *
 * @category models
 * @since 0.1.0
 */
export interface Completion {
  readonly values: ReadonlyArray<string>
  readonly total: number | undefined
  readonly hasMore: boolean
}

/**
 * How far a request has come.
 *
 * @category models
 * @since 0.1.0
 */
export interface Progress {
  /** How far, in the server's own unit; grows. */
  readonly progress: number
  readonly total: number | undefined
  readonly message: string | undefined
}

/**
 * How much a log message matters, from little to much.
 *
 * @category models
 * @since 0.1.0
 */
export type LogLevel = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency"

/**
 * What a server tells without being asked.
 *
 * The list changes come after the client's own list was brought up to date. `Reconnected` says that the server was started
 * again or the session was renewed: all lists may have changed.
 *
 * @category models
 * @since 0.1.0
 */
export type Notification =
  | { readonly _tag: "ToolsChanged" }
  | { readonly _tag: "PromptsChanged" }
  | { readonly _tag: "ResourcesChanged" }
  | { readonly _tag: "ResourceUpdated"; readonly uri: string }
  | { readonly _tag: "Log"; readonly level: LogLevel; readonly logger: string | undefined; readonly data: unknown }
  | ({ readonly _tag: "Progress"; readonly token: string | number } & Progress)
  | { readonly _tag: "ElicitationComplete"; readonly elicitationId: string }
  | { readonly _tag: "Disconnected" }
  | { readonly _tag: "Reconnected" }
  | { readonly _tag: "Other"; readonly method: string; readonly params: JsonObject }
