/**
 * agcore's cycle, over its OpenAI layer as it is without a transport: with the global `fetch`.
 */
import { HttpTransport } from "agcore/openai"
import { over, sending } from "./agcore.ts"

export const { plain, streamed } = over(sending(HttpTransport.fromFetch(fetch)))
