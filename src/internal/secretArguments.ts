/*
 * Secrets in the arguments of a command: what an option such as `--api-key` is
 * given, in the same argument or the next. Whoever wrote the command, nobody
 * wants to read it in an error.
 */
const OPTION = /^-{1,2}[\w-]*(?:key|token|secret|password|passwd|auth)[\w-]*$/i

const ASSIGNMENT = /^-{0,2}[\w-]*(?:key|token|secret|password|passwd|auth)[\w-]*=(.+)$/is

export const secretArguments = (args: ReadonlyArray<string>): ReadonlyArray<string> =>
  args.flatMap((arg, index) => {
    const assigned = ASSIGNMENT.exec(arg)?.[1]
    if (assigned !== undefined) return [assigned]
    const before = args[index - 1]
    return before !== undefined && OPTION.test(before) && /^[^-]/.test(arg) ? [arg] : []
  })
