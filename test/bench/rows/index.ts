/**
 * All rows, in the order of the report.
 */
import type { Row } from "../harness.ts"
import { loops } from "./loop.ts"
import { mcpRows } from "./mcp.ts"
import { streams } from "./stream.ts"

export const rows: ReadonlyArray<Row> = [...loops, ...streams, ...mcpRows]
