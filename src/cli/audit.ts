/*
 * `agcore audit`: looks at audit logs.
 */
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { shownName } from "../internal/shown.ts"
import { messageOf } from "../internal/text.ts"
import * as AuditLog from "../tools/AuditLog.ts"
import { CliFailure, EXIT, usage } from "./failure.ts"
import { print, style } from "./output.ts"

const HASH = /^[\da-f]{64}$/i

const verify = Command.make(
  "verify",
  {
    file: Argument.String("file").pipe(Argument.withDescription("The log, JSON with one entry a line")),
    json: Flag.Boolean("json").pipe(Flag.withDescription("Print the report as JSON"), Flag.withDefault(false)),
    head: Flag.String("head").pipe(
      Flag.withDescription("The hash of an entry that was noted earlier: it has to be in the log"),
      Flag.filter((hash) => HASH.test(hash), () => "64 hexadecimal digits"),
      Flag.optional
    )
  },
  Effect.fnUntraced(function*({ file, head, json }) {
    const report = yield* Effect.mapError(
      AuditLog.verifyFile(file, { anchor: Option.getOrUndefined(head) }),
      ({ reason }) =>
        usage(`cannot read ${shownName(file)}${"cause" in reason ? `: ${shownName(messageOf(reason.cause))}` : ""}`)
    )
    if (json) yield* print(JSON.stringify(toJson(report)))
    else yield* print(describe(report, Option.isSome(head)))
    // What is wrong has been printed.
    if (report.broken !== undefined) {
      return yield* new CliFailure({ message: "the log is broken", exitCode: EXIT.failed })
    }
  })
).pipe(
  Command.withDescription("Checks that nothing in an audit log was changed, removed, added or moved"),
  Command.withExamples([
    { command: "agcore audit verify audit.jsonl", description: "Ends with 1 if the log is broken" },
    {
      command: "agcore audit verify audit.jsonl --head \"$(cat head.txt)\"",
      description: "Notices an end that was cut off as well"
    }
  ])
)

export const audit = Command.make("audit").pipe(
  Command.withDescription("Looks at audit logs"),
  Command.withSubcommands([verify])
)

const toJson = ({ broken, head, recovered }: AuditLog.Report) => ({
  valid: broken === undefined,
  entries: head?.count ?? 0,
  head: head?.hash ?? null,
  recovered,
  broken: broken ?? null
})

const describe = ({ broken, head, recovered }: AuditLog.Report, isAnchored: boolean): string => {
  const paint = style(process.stdout)
  const entries = head?.count ?? 0
  const count = entries === 1 ? "1 entry" : `${entries} entries`
  return [
    broken === undefined
      ? `${paint.green("✓")} ${count} in order`
      : `${paint.red("✗")} line ${broken.line} (${broken.kind}): ${broken.explanation}`,
    ...(broken === undefined ? [] : [paint.dim(`  ${count} before it in order`)]),
    ...(head === undefined ? [] : [paint.dim(`  ${broken === undefined ? "head" : "last of them"} ${head.hash}`)]),
    ...(recovered.length === 0
      ? []
      : [paint.dim(`  a writer was stopped while it wrote line ${recovered.join(", ")}; the log accounts for it`)]),
    ...(broken === undefined && !isAnchored
      ? [paint.dim("  Note the head elsewhere: with --head it shows later whether the end was cut off.")]
      : [])
  ].join("\n")
}
