/*
 * How the command ends when it does not succeed.
 */
import * as Data from "effect/Data"

/** Exit codes: what a script can tell apart. */
export const EXIT = { failed: 1, usage: 2, interrupted: 130, terminated: 143 } as const

/** Something a person has to act on; `message` says what. */
export class CliFailure extends Data.TaggedError("agcore/cli/failure/CliFailure")<{
  readonly message: string
  readonly exitCode: number
}> {}

export const failed = (message: string): CliFailure => new CliFailure({ message, exitCode: EXIT.failed })

export const usage = (message: string): CliFailure => new CliFailure({ message, exitCode: EXIT.usage })
