/*
 * The compiler of JSON Schema, loaded with the first schema: importing it takes a tenth of the time that all of agcore
 * takes, and what Schema describes needs none.
 */
import * as Effect from "effect/Effect"
import type { compile } from "./jsonSchema.ts"

export type Compile = typeof compile

let loaded: Compile | undefined

/** Asynchronous the first time only. The mark lets bundlers leave it out, and with it the compiler. */
export const compiler: Effect.Effect<Compile> = /* @__PURE__ */ Effect.suspend(() =>
  loaded === undefined
    ? Effect.promise(() => import("./jsonSchema.ts").then(({ compile }) => loaded = compile))
    : Effect.succeed(loaded)
)
