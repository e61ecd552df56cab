/**
 * Lists what is wrong with the documentation of a public interface: everything that can be reached from an entry point.
 */
import * as Path from "node:path"
import ts from "../docs/node_modules/typescript/lib/typescript.js"

export interface Rules {
  readonly root: string
  /** Entry points, relative to `root`. */
  readonly entries: ReadonlyArray<string>
  readonly categories: ReadonlySet<string>
}

/** `text` is the description, `tags` the block tags and their text. */
interface Doc {
  readonly text: string
  readonly tags: ReadonlyMap<string, string>
}

const docOf = (node: ts.Node): Doc | undefined => {
  const doc = ts.getJSDocCommentsAndTags(node).findLast(ts.isJSDoc)
  return doc && {
    text: ts.getTextOfJSDocComment(doc.comment) ?? "",
    tags: new Map(doc.tags?.map((tag) => [tag.tagName.text, ts.getTextOfJSDocComment(tag.comment)?.trim() ?? ""]))
  }
}

/** The comment at the head of a module. */
const moduleDocOf = (file: ts.SourceFile): Doc | undefined => {
  const head = ts.getLeadingCommentRanges(file.text, 0)?.[0]
  if (head === undefined) return undefined
  const text = `${file.text.slice(head.pos, head.end)}\nvoid 0`
  const parsed = ts.createSourceFile("head.ts", text, ts.ScriptTarget.Latest, true)
  return docOf(parsed.statements[0]!)
}

const isSentence = (text: string): boolean => /^\S+\s[\s\S]*[.:?!)`]/.test(text.trim())

const docProblems = (doc: Doc | undefined, needs: ReadonlyArray<"sentence" | "category" | "since">, rules: Rules) => {
  if (doc === undefined) return ["no doc comment"]
  const category = doc.tags.get("category")
  const since = doc.tags.get("since")
  return [
    ...(needs.includes("sentence") && !isSentence(doc.text) ? ["no sentence"] : []),
    ...(needs.includes("category") && category === undefined ? ["no @category"] : []),
    ...(category !== undefined && !rules.categories.has(category) ? [`an unknown @category "${category}"`] : []),
    ...(needs.includes("since") && !/^\d+\.\d+\.\d+$/.test(since ?? "") ? ["no @since"] : [])
  ]
}

// =============================================================================
// Members
// =============================================================================

type Member = ts.PropertySignature | ts.MethodSignature | ts.PropertyDeclaration | ts.MethodDeclaration

const isMember = (node: ts.Node): node is Member =>
  ts.isPropertySignature(node) || ts.isMethodSignature(node) || ts.isPropertyDeclaration(node)
  || ts.isMethodDeclaration(node)

const HIDDEN = ts.ModifierFlags.Private | ts.ModifierFlags.Protected | ts.ModifierFlags.Override

const isHidden = (node: Member): boolean =>
  (ts.getCombinedModifierFlags(node) & HIDDEN) !== 0 || !ts.isIdentifier(node.name) || node.name.text.startsWith("_")

/** The end of a name that says the unit of a number. */
const UNIT = /(?:Bytes|Characters|Millis|Seconds|Tokens)$/

/** Why a name alone does not tell what a member means, or `undefined` if it does. */
const needsDoc = (node: Member): string | undefined => {
  if (node.questionToken !== undefined) return "optional: what does its absence mean?"
  if (ts.isMethodSignature(node) || ts.isMethodDeclaration(node)) return "a function: what does it do?"
  if (node.type !== undefined && ts.isFunctionTypeNode(node.type)) return "a function: what does it do?"
  if (node.type?.kind === ts.SyntaxKind.NumberKeyword && !UNIT.test(node.name.getText())) return "a number: of what?"
  return undefined
}

/** The members that a declaration shows: those in its types, never those in its code. */
const memberProblems = (declaration: ts.Node): ReadonlyArray<{ node: Member; problem: string }> => {
  const found: Array<{ node: Member; problem: string }> = []
  const visit = (node: ts.Node): void => {
    if (ts.isBlock(node) || ts.isObjectLiteralExpression(node)) return
    if (isMember(node)) {
      const problem = isHidden(node) ? undefined : needsDoc(node)
      if (problem !== undefined && docOf(node) === undefined) found.push({ node, problem })
      if (node.type !== undefined) visit(node.type)
      return
    }
    if (ts.isArrowFunction(node) || ts.isFunctionDeclaration(node)) {
      node.parameters.forEach(visit)
      if (node.type !== undefined) visit(node.type)
      return
    }
    if (ts.isVariableDeclaration(node) && node.type !== undefined) return visit(node.type)
    ts.forEachChild(node, visit)
  }
  visit(declaration)
  return found
}

// =============================================================================
// Exports
// =============================================================================

const hasWrittenType = (node: ts.Declaration): boolean => {
  if (ts.isFunctionDeclaration(node)) return node.type !== undefined
  if (!ts.isVariableDeclaration(node)) return true
  const { initializer } = node
  return node.type !== undefined
    || (initializer !== undefined && ts.isArrowFunction(initializer) && initializer.type !== undefined)
}

/** Overloads after the first, and their implementation, share its comment. */
const isFirst = (node: ts.Declaration, index: number): boolean => index === 0 || !ts.isFunctionDeclaration(node)

/** Only files that import each other by path: what packages export is documented there. */
const programOf = (files: ReadonlyArray<string>): ts.Program => {
  const options: ts.CompilerOptions = { allowImportingTsExtensions: true, noEmit: true, noLib: true, types: [] }
  const host = ts.createCompilerHost(options)
  host.resolveModuleNameLiterals = (literals, from) =>
    literals.map(({ text }) => ({
      resolvedModule: text.startsWith(".")
        ? { resolvedFileName: Path.resolve(Path.dirname(from), text), extension: ts.Extension.Ts }
        : undefined
    }))
  return ts.createProgram(files, options, host)
}

/** Every problem as `file:line Name: problem`, in order of the source; `names` is what was looked at. */
export const inspect = (
  rules: Rules
): { readonly names: ReadonlyArray<string>; readonly problems: ReadonlyArray<string> } => {
  const program = programOf(rules.entries.map((entry) => Path.join(rules.root, entry)))
  const checker = program.getTypeChecker()
  const names = new Set<string>()
  const problems = new Set<string>()

  const report = (node: ts.Node, name: string, problem: string) => {
    const file = node.getSourceFile()
    const line = file.getLineAndCharacterOfPosition(node.getStart()).line + 1
    problems.add(`${Path.relative(rules.root, file.fileName)}:${line} ${name}: ${problem}`)
  }

  const inspectModule = (symbol: ts.Symbol, prefix: string): void => {
    for (const exported of checker.getExportsOfModule(symbol)) inspectExport(exported, prefix)
  }

  const inspectExport = (exported: ts.Symbol, prefix: string): void => {
    const name = `${prefix}${exported.name}`
    const target = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
    const declarations = target.declarations ?? []
    const file = declarations.find(ts.isSourceFile)
    const at = exported.declarations?.[0]
    if (file !== undefined && at !== undefined) {
      const isAlias = ts.isNamespaceExport(at)
      for (const problem of docProblems(docOf(isAlias ? at.parent : at), ["since"], rules)) report(at, name, problem)
      for (const problem of docProblems(moduleDocOf(file), ["sentence", "since"], rules)) {
        report(file, Path.basename(file.fileName), problem)
      }
      return inspectModule(target, `${name}.`)
    }
    for (const [index, declaration] of declarations.entries()) {
      names.add(name)
      if (isFirst(declaration, index)) {
        for (const problem of docProblems(docOf(declaration), ["sentence", "category", "since"], rules)) {
          report(declaration, name, problem)
        }
      }
      if (!hasWrittenType(declaration)) report(declaration, name, "its type is not written out")
      if (ts.isModuleDeclaration(declaration)) {
        inspectModule(target, `${name}.`)
        continue
      }
      for (const { node, problem } of memberProblems(declaration)) {
        report(node, `${name}.${node.name.getText()}`, `no doc comment (${problem})`)
      }
    }
  }

  for (const entry of rules.entries) {
    const file = program.getSourceFile(Path.join(rules.root, entry))
    const symbol = file && checker.getSymbolAtLocation(file)
    if (file === undefined || symbol === undefined) {
      problems.add(`${entry}: not a module`)
      continue
    }
    for (const problem of docProblems(moduleDocOf(file), ["sentence", "since"], rules)) report(file, entry, problem)
    inspectModule(symbol, "")
  }

  return { names: Array.from(names), problems: Array.from(problems) }
}
