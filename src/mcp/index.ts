/**
 * The MCP client: connections to servers of every protocol revision, and their tools.
 *
 * @since 0.1.0
 */

/**
 * @since 0.1.0
 */
export * as McpClient from "./McpClient.ts"

/**
 * @since 0.1.0
 */
export * as McpConfig from "./McpConfig.ts"

/**
 * @since 0.1.0
 */
export * as McpElicitation from "./McpElicitation.ts"

/**
 * @since 0.1.0
 */
export * as McpError from "./McpError.ts"

/**
 * @since 0.1.0
 */
export * as McpModel from "./McpModel.ts"

/**
 * @since 0.1.0
 */
export * as McpRoots from "./McpRoots.ts"

/**
 * @since 0.1.0
 */
export * as McpSampling from "./McpSampling.ts"

/**
 * @since 0.1.0
 */
export * as McpServers from "./McpServers.ts"

/**
 * @since 0.1.0
 */
export * as McpTools from "./McpTools.ts"

/**
 * @since 0.1.0
 */
export * as McpTransport from "./McpTransport.ts"
