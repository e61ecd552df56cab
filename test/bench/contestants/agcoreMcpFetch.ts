/**
 * agcore's MCP client, with the HTTP client that every runtime has.
 */
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import { over } from "./agcoreMcp.ts"

export const connect = over(FetchHttpClient.layer)
