/**
 * The schema of a tool's arguments as models get it.
 *
 * Servers list schemas that model providers refuse: no `type`, no `properties`, a root that is not an object, `null` where a
 * keyword is meant to be absent. The model gets a copy whose root is an object with `properties`; the original stays what
 * arguments are checked against. Nothing below the root is touched except `null` keywords.
 */
import { isObject, type JsonObject } from "./jsonrpc.ts"

export const normaliseSchema = (schema: unknown): JsonObject => {
  const source = isObject(schema) ? withoutNulls(schema) : {}
  const { properties, required, type: _, ...rest } = source
  return {
    type: "object",
    properties: isObject(properties) ? properties : {},
    ...(Array.isArray(required) ? { required: required.filter((name) => typeof name === "string") } : {}),
    ...rest
  }
}

// A keyword that is `null` says nothing. `default`, `const`, `enum` and `examples` may hold it as a value.
const withoutNulls = (schema: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(schema).filter(([keyword, value]) => value !== null || keyword === "default" || keyword === "const")
  )
