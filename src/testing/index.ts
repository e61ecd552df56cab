/**
 * Doubles for tests of applications that use agcore.
 *
 * @since 0.1.0
 */

/**
 * @since 0.1.0
 */
export * as McpPeer from "./McpPeer.ts"

/**
 * @since 0.1.0
 */
export * as ScriptedModel from "./ScriptedModel.ts"
