/**
 * Finds the code blocks of documents and doc comments, and turns an example into a program that checks itself.
 */
import ts from "../docs/node_modules/typescript/lib/typescript.js"

/** One fenced block; `line` is where its code begins, counted from 1. */
export interface Block {
  readonly file: string
  readonly line: number
  /** What stands behind the opening fence, such as `ts run`. */
  readonly info: string
  readonly code: string
}

/** A block as a program. `problems` are the assertions that cannot be checked. */
export interface Example {
  readonly name: string
  readonly code: string
  /** Where the assertions stand, as `file:line`. */
  readonly assertions: ReadonlyArray<string>
  readonly problems: ReadonlyArray<string>
}

const DOC_LINE = /^\s*\* ?(.*)$/
const FENCE = /^(\s*)(`{3,}|~{3,})(.*)$/

/** The text of a Markdown line, or of a line inside a doc comment; other lines of source are empty. */
const proseOf = (file: string, text: string): ReadonlyArray<string> => {
  const lines = text.split("\n")
  if (!file.endsWith(".ts")) return lines
  let inside = false
  return lines.map((line) => {
    if (line.trimStart().startsWith("/**")) inside = true
    const prose = inside ? (DOC_LINE.exec(line)?.[1] ?? "") : ""
    if (line.includes("*/")) inside = false
    return prose
  })
}

/** Every fenced block of a file. A fence that is never closed is a block that ends with the file. */
export const blocksOf = (file: string, text: string): ReadonlyArray<Block> => {
  const blocks: Array<Block> = []
  let open: { indent: number; fence: string; info: string; line: number; code: Array<string> } | undefined
  const close = (info: string) => {
    if (open !== undefined) blocks.push({ file, line: open.line, info, code: open.code.join("\n") })
    open = undefined
  }
  for (const [index, line] of proseOf(file, text).entries()) {
    const match = FENCE.exec(line)
    if (open === undefined) {
      if (match !== null) {
        open = { indent: match[1]!.length, fence: match[2]!, info: match[3]!.trim(), line: index + 2, code: [] }
      }
    } else if (match !== null && match[2]!.startsWith(open.fence) && match[3]!.trim() === "") {
      close(open.info)
    } else {
      open.code.push(line.slice(open.indent))
    }
  }
  close("unclosed")
  return blocks
}

const parses = (expression: string): boolean => {
  const { diagnostics } = ts.transpileModule(`void (${expression}\n)`, {
    reportDiagnostics: true,
    compilerOptions: { target: ts.ScriptTarget.Latest, module: ts.ModuleKind.ESNext }
  })
  return diagnostics === undefined || diagnostics.length === 0
}

/** The value behind `// =>`, which goes on in the comments of the next lines until it is a whole expression. */
const expectedAt = (code: string, comment: ts.CommentRange): { text: string; end: number } | undefined => {
  let text = code.slice(comment.pos, comment.end).replace(/^\/\/ ?=>/, "")
  let end = comment.end
  while (!parses(text)) {
    const next = /^\n\s*\/\/(.*)/.exec(code.slice(end))
    if (next === null) return undefined
    text += `\n${next[1]}`
    end += next[0].length
  }
  return text.trim() === "" ? undefined : { text: text.trim(), end }
}

/** The expression that an assertion behind a statement is about. */
const subjectOf = (statement: ts.Node): ts.Expression | undefined => {
  if (ts.isReturnStatement(statement)) return statement.expression
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.at(-1)?.initializer
  if (!ts.isExpressionStatement(statement)) return undefined
  const { expression } = statement
  const isLog = ts.isCallExpression(expression) && expression.expression.getText() === "console.log"
  return isLog && expression.arguments.length === 1 ? expression.arguments[0] : expression
}

/**
 * Replaces `expression // => expected` by a call of `expectEqual`, also for `const x = …`, `return …`, `yield* …` and
 * `console.log(…)`. Lines keep their numbers.
 */
export const exampleOf = (block: Block): Example => {
  const { code, file, line } = block
  const source = ts.createSourceFile("example.ts", code, ts.ScriptTarget.Latest, true)
  const placeOf = (position: number) => `${file}:${line + source.getLineAndCharacterOfPosition(position).line}`
  const edits: Array<{ start: number; end: number; text: string }> = []
  const assertions: Array<string> = []
  const seen = new Set<number>()

  const visit = (node: ts.Node): void => {
    const subject = subjectOf(node)
    const comment = subject && ts.getTrailingCommentRanges(code, node.end)?.at(0)
    if (subject !== undefined && comment !== undefined && /^\/\/ ?=>/.test(code.slice(comment.pos))) {
      const expected = expectedAt(code, comment)
      if (expected !== undefined) {
        const place = placeOf(comment.pos)
        seen.add(comment.pos)
        assertions.push(place)
        edits.push({ start: subject.getStart(), end: subject.getStart(), text: "expectEqual(" })
        edits.push({ start: subject.end, end: subject.end, text: `, ${expected.text}, "${place}")` })
        edits.push({ start: comment.pos, end: expected.end, text: "" })
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(source)

  const problems = Array.from(code.matchAll(/\/\/ ?=>/g))
    .filter((match) => !seen.has(match.index))
    .map((match) => `${placeOf(match.index)}: "// =>" is not behind a statement, or is followed by no value`)

  const text = edits
    .toSorted((a, b) => b.start - a.start || b.end - a.end)
    .reduce((all, edit) => all.slice(0, edit.start) + edit.text + all.slice(edit.end), code)

  return { name: `${file}:${line}`, code: text, assertions, problems }
}

/** What a program made by `exampleOf` may call; appended, so that lines keep their numbers. */
export const EPILOGUE = `
declare const expectEqual: <A>(actual: A, expected: unknown, place: string) => A
export {}
`
