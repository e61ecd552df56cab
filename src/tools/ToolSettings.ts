/**
 * Defaults of a registry. Each is a reference that the registry reads once, when
 * it is built: `Layer.succeed(ToolSettings.Timeout, …)` below it changes one.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"

/**
 * How long a tool may run when neither it nor the caller says. Default 60
 * seconds.
 *
 * @category references
 * @since 0.1.0
 */
export const Timeout: Context.Reference<Duration.Duration> = Context.Reference<Duration.Duration>(
  "agcore/tools/ToolSettings/Timeout",
  { defaultValue: () => Duration.seconds(60) }
)

/**
 * How long a tool that was told to stop may take to clean up. After that it
 * counts as still running and nobody waits for it. Default 1 second.
 *
 * @category references
 * @since 0.1.0
 */
export const GracePeriod: Context.Reference<Duration.Duration> = Context.Reference<Duration.Duration>(
  "agcore/tools/ToolSettings/GracePeriod",
  { defaultValue: () => Duration.seconds(1) }
)

/**
 * How many bytes a model is told of one result when the caller does not say.
 * Default 64 KiB.
 *
 * @category references
 * @since 0.1.0
 */
export const MaxResultBytes: Context.Reference<number> = Context.Reference<number>(
  "agcore/tools/ToolSettings/MaxResultBytes",
  { defaultValue: () => 65_536 }
)

/**
 * Whether spans carry arguments and results. They may hold personal data:
 * default `false`.
 *
 * @category references
 * @since 0.1.0
 */
export const CaptureContent: Context.Reference<boolean> = Context.Reference<boolean>(
  "agcore/tools/ToolSettings/CaptureContent",
  { defaultValue: () => false }
)
