/**
 * Spans of requests, by the OpenTelemetry conventions for MCP. They are made only where a tracer is installed: without one a
 * span costs more than the call it would describe.
 *
 * https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import type { McpError } from "../McpError.ts"
import type { JsonObject } from "./jsonrpc.ts"
import type { Agreed } from "./transport.ts"

/** What the name of a request names. */
const NAME_ATTRIBUTES: Readonly<Record<string, string>> = {
  "tools/call": "gen_ai.tool.name",
  "prompts/get": "gen_ai.prompt.name",
  "resources/read": "mcp.resource.uri"
}

/** Whether anybody hears of the spans that a fiber makes. */
export const isTraced = (fiber: Fiber.Fiber<unknown, unknown>): boolean =>
  fiber.cache.tracer !== undefined && fiber.cache.tracer !== Tracer.nativeTracer

/** Runs a request in a span. What is handed to it goes into the `_meta` of the request, so that the server's spans join. */
export const traced = (
  method: string,
  name: string | undefined,
  protocol: Agreed,
  run: (meta: JsonObject | undefined) => Effect.Effect<unknown, McpError>
): Effect.Effect<unknown, McpError> => {
  const attribute = NAME_ATTRIBUTES[method]
  // A URI would make each span a kind of its own.
  const title = name === undefined || attribute === undefined || method === "resources/read"
    ? method
    : `${method} ${name}`
  return Effect.useSpan(
    title,
    {
      kind: "client",
      attributes: {
        "mcp.method.name": method,
        "mcp.protocol.version": protocol.version,
        ...(name === undefined || attribute === undefined ? {} : { [attribute]: name })
      }
    },
    (span) =>
      Effect.tapError(
        run(protocol.era === "modern" ? traceContext(span) : undefined),
        (error) => Effect.sync(() => span.attribute("error.type", error.reason._tag))
      )
  )
}

/** https://modelcontextprotocol.io/specification/2026-07-28/basic/index#_meta, https://www.w3.org/TR/trace-context/ */
const traceContext = (span: Tracer.Span): JsonObject => ({
  traceparent: `00-${span.traceId}-${span.spanId}-${span.sampled ? "01" : "00"}`
})
