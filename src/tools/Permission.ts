/**
 * What a tool may do, declared by the tool and decided by a `PermissionPolicy`.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const BUILT_IN = ["read", "write", "delete", "network", "shell", "filesystem"] as const

/**
 * One of the built-in permissions, or `custom:<name>` for an application's own.
 *
 * @category models
 * @since 0.1.0
 */
export type Permission = typeof BUILT_IN[number] | `custom:${string}`

/**
 * Schema of a permission, for configuration files and command lines.
 *
 * **Example** (Reading permissions from text)
 *
 * ```ts run
 * import { Permission } from "agcore"
 * import { Schema } from "effect"
 *
 * const parse = Schema.decodeUnknownSync(Permission.Permission)
 *
 * parse("network") // => "network"
 * parse("custom:billing") // => "custom:billing"
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const Permission: Schema.Codec<Permission> = Schema.Union([
  Schema.Literals(BUILT_IN),
  Schema.TemplateLiteral(["custom:", Schema.NonEmptyString])
])

/**
 * Reads data that belongs to the user or the system.
 *
 * @category constants
 * @since 0.1.0
 */
export const Read: Permission = "read"

/**
 * Creates or changes data.
 *
 * @category constants
 * @since 0.1.0
 */
export const Write: Permission = "write"

/**
 * Removes data.
 *
 * @category constants
 * @since 0.1.0
 */
export const Delete: Permission = "delete"

/**
 * Talks to other machines.
 *
 * @category constants
 * @since 0.1.0
 */
export const Network: Permission = "network"

/**
 * Runs commands.
 *
 * @category constants
 * @since 0.1.0
 */
export const Shell: Permission = "shell"

/**
 * Touches the file system.
 *
 * @category constants
 * @since 0.1.0
 */
export const Filesystem: Permission = "filesystem"

/**
 * An application's own permission, `custom:<name>`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const custom = <const Name extends string>(name: Name): `custom:${Name}` => `custom:${name}`
