/**
 * agcore's cycle, over a model in memory that hands its parts over as they are.
 */
import { over } from "./agcore.ts"
import { handingOver } from "./effectModel.ts"

export const { plain, streamed } = over(({ script }) => handingOver(script))
