#!/usr/bin/env node
/*
 * The entry of the `agcore` command: the platform, signals and exit codes.
 *
 * Whatever ends it, scopes are closed first and the process exits afterwards,
 * so that nothing it started keeps it alive.
 */
import * as NodeChildProcessSpawner from "@effect/platform-node-shared/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node-shared/NodeFileSystem"
import * as NodePath from "@effect/platform-node-shared/NodePath"
import * as NodeRuntime from "@effect/platform-node-shared/NodeRuntime"
import * as NodeStdio from "@effect/platform-node-shared/NodeStdio"
import * as NodeTerminal from "@effect/platform-node-shared/NodeTerminal"
import * as Cause from "effect/Cause"
import { CliError, Command } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { readFileSync } from "node:fs"
import { agcore } from "./commands.ts"
import { CliFailure, EXIT } from "./failure.ts"
import { OutputClosed, style, write } from "./output.ts"

const { version }: { readonly version: string } = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8")
)

const platform = NodeChildProcessSpawner.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(NodeFileSystem.layer, NodePath.layer, NodeStdio.layer, NodeTerminal.layer))
)

const complain = (message: string) =>
  write(process.stderr, `${style(process.stderr).red("agcore:")} ${message}\n`).pipe(Effect.ignore)

const program = Command.runWith(agcore, { version })(process.argv.slice(2)).pipe(
  Effect.as(0),
  Effect.catchCause((cause) => {
    const error = Cause.squash(cause)
    if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
    if (error instanceof OutputClosed) return Effect.succeed(0)
    if (error instanceof CliFailure) return Effect.as(complain(error.message), error.exitCode)
    // The parser has told its own errors, with the help they belong to.
    if (CliError.isCliError(error)) {
      return Effect.succeed(error._tag === "ShowHelp" && error.errors.length === 0 ? 0 : EXIT.usage)
    }
    return Effect.as(complain(`unexpected: ${Cause.pretty(cause)}`), EXIT.failed)
  }),
  Effect.provide(Layer.merge(platform, Logger.layer([])))
)

// Writes that fail say so to whoever wrote; the stream itself has nobody to tell.
process.stdout.on("error", () => {})
process.stderr.on("error", () => {})

let exitCode: number = EXIT.interrupted
process.once("SIGTERM", () => {
  exitCode = EXIT.terminated
})

NodeRuntime.runMain(program, {
  disableErrorReporting: true,
  teardown: (exit) => process.exit(Exit.isSuccess(exit) && typeof exit.value === "number" ? exit.value : exitCode)
})
