/**
 * The MCP client: connections to servers of every protocol revision, and their tools.
 *
 * @since 0.1.0
 */

/**
 * @since 0.1.0
 */
export * as McpError from "./McpError.ts"
