/**
 * Questions of a server to the person who uses the application.
 *
 * A client whose context has `McpElicitation` offers its server what the service can do: forms, links, or both. Without it no
 * server can ask. A server's words are a stranger's: show which server asks, and never open a link without consent.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { JsonObject } from "./McpModel.ts"

/**
 * A form to be filled in.
 *
 * @category models
 * @since 0.1.0
 */
export interface FormRequest {
  /** The configured name of the server that asks. */
  readonly server: string
  readonly message: string
  /** A flat JSON Schema object: strings, numbers, booleans and choices. */
  readonly schema: JsonObject
  /** The defaults the schema names, to fill the form with. */
  readonly defaults: JsonObject
}

/**
 * A link to be opened by the person, outside of this application.
 *
 * @category models
 * @since 0.1.0
 */
export interface UrlRequest {
  /** The configured name of the server that asks. */
  readonly server: string
  readonly message: string
  /** `https:`, or `http:` on a loopback address. */
  readonly url: string
  /** Names the question in a later `ElicitationComplete` notification; only some revisions have it. */
  readonly elicitationId: string | undefined
}

/**
 * What the person decided. What an accepted form leaves out is filled in with its defaults.
 *
 * @category models
 * @since 0.1.0
 */
export type Answer =
  | { readonly _tag: "Accept"; readonly content: JsonObject }
  | { readonly _tag: "Decline" }
  | { readonly _tag: "Cancel" }

/**
 * The person agreed, and gave this.
 *
 * @category constructors
 * @since 0.1.0
 */
export const accept = (content: JsonObject = {}): Answer => ({ _tag: "Accept", content })

/**
 * The person said no.
 *
 * @category constructors
 * @since 0.1.0
 */
export const decline: Answer = { _tag: "Decline" }

/**
 * The person gave no answer.
 *
 * @category constructors
 * @since 0.1.0
 */
export const cancel: Answer = { _tag: "Cancel" }

/**
 * How questions are put to the person. What is left out is not offered to servers.
 *
 * https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
 *
 * @category services
 * @since 0.1.0
 */
export class McpElicitation extends Context.Service<McpElicitation, {
  /** Fills in a form. Without it servers cannot ask for one. */
  readonly form?: ((request: FormRequest) => Effect.Effect<Answer>) | undefined
  /** Sends the user to a page. Without it servers cannot ask for that. */
  readonly url?: ((request: UrlRequest) => Effect.Effect<Answer>) | undefined
}>()("agcore/mcp/McpElicitation") {}

/**
 * Answers questions with functions.
 *
 * **Example** (Agreeing with the defaults of every form)
 *
 * ```ts run
 * import { McpElicitation } from "agcore/mcp"
 * import { Effect } from "effect"
 *
 * const Elicitation = McpElicitation.layer({
 *   form: (request) => Effect.succeed(McpElicitation.accept(request.defaults))
 * })
 *
 * const program = McpElicitation.McpElicitation.useSync((service) => service.url === undefined)
 * Effect.runSync(Effect.provide(program, Elicitation)) // => true
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (handlers: McpElicitation["Service"]): Layer.Layer<McpElicitation> =>
  Layer.succeed(McpElicitation, handlers)
