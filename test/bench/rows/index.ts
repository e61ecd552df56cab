/**
 * All rows, in the order of the report.
 */
import type { Row } from "../harness.ts"
import { loops } from "./loop.ts"
import { mcpRows } from "./mcp.ts"
import { starts } from "./start.ts"
import { streams } from "./stream.ts"
import { toolRows } from "./tools.ts"

export const rows: ReadonlyArray<Row> = [...loops, ...streams, ...toolRows, ...mcpRows, ...starts]
