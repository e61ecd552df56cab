/**
 * What agcore keeps in SQL databases, over the `SqlClient` of effect.
 *
 * @since 0.1.0
 */

/**
 * @since 0.1.0
 */
export * as SqlAuditLog from "./SqlAuditLog.ts"
