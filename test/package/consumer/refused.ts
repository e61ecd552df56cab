/*
 * Paths that the exports map keeps private. The compiler must refuse each.
 */
// @ts-expect-error TS2307
export type * as Dist from "agcore/dist/index.js"
// @ts-expect-error TS2307
export type * as Internal from "agcore/internal/text"
// @ts-expect-error TS2307
export type * as Module from "agcore/tools/Tool"
// @ts-expect-error TS2307
export type * as Source from "agcore/src/index.ts"
