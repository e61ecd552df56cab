/**
 * Why a tool was not accepted into a registry.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The name is taken. Nothing is ever replaced silently: unregister first.
 *
 * @category reasons
 * @since 0.1.0
 */
export class DuplicateName
  extends Schema.TaggedError<DuplicateName>("agcore/tools/RegistrationError/DuplicateName")("DuplicateName", {})
{
  override get message(): string {
    return "the name is already registered"
  }
}

/**
 * The name does not fit `^[a-zA-Z0-9_-]{1,64}$`, which providers require, and
 * the caller did not ask for it to be mapped.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidName
  extends Schema.TaggedError<InvalidName>("agcore/tools/RegistrationError/InvalidName")("InvalidName", {})
{
  override get message(): string {
    return "the name must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -; register with `names: \"map\"` to adapt it"
  }
}

/**
 * The parameters cannot be described to a model or validated. `problem` says
 * what is wrong with their schema.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidSchema
  extends Schema.TaggedError<InvalidSchema>("agcore/tools/RegistrationError/InvalidSchema")("InvalidSchema", {
    problem: Schema.String
  })
{
  override get message(): string {
    return `its parameters cannot be used: ${this.problem}`
  }
}

/**
 * Schema of every reason a tool is refused for.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RegistrationErrorReason: Schema.Union<[
  typeof DuplicateName,
  typeof InvalidName,
  typeof InvalidSchema
]> = Schema.Union([DuplicateName, InvalidName, InvalidSchema])

/**
 * Why a tool is refused.
 *
 * @category models
 * @since 0.1.0
 */
export type RegistrationErrorReason = typeof RegistrationErrorReason.Type

/**
 * The single failure type of registration.
 *
 * **Example** (Keeping the first of two tools)
 *
 * ```ts run
 * import { RegistrationError } from "agcore"
 * import { Effect } from "effect"
 *
 * const register = Effect.fail(
 *   new RegistrationError.RegistrationError({ toolName: "search", reason: new RegistrationError.DuplicateName() })
 * )
 *
 * const program = register.pipe(
 *   Effect.catchReason("RegistrationError", "DuplicateName", () => Effect.succeed("kept the first"))
 * )
 *
 * await Effect.runPromise(program) // => "kept the first"
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class RegistrationError
  extends Schema.TaggedError<RegistrationError>("agcore/tools/RegistrationError")("RegistrationError", {
    toolName: Schema.String,
    reason: RegistrationErrorReason
  })
{
  override readonly cause = this.reason

  override get message(): string {
    return `Tool "${this.toolName}" was not registered: ${this.reason.message}`
  }
}
