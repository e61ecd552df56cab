/**
 * Reads the imports of a file.
 */
import ts from "../docs/node_modules/typescript/lib/typescript.js"

export interface ImportedFrom {
  readonly from: string
  /** Whether nothing of it is left at run time. */
  readonly isType: boolean
}

/** Imports, re-exports and `import("…")`, in values and in types. */
export const importsOf = (text: string): ReadonlyArray<ImportedFrom> => {
  const found: Array<ImportedFrom> = []
  const add = (node: ts.Node | undefined, isType: boolean) => {
    if (node !== undefined && ts.isStringLiteral(node)) found.push({ from: node.text, isType })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword)
    }
    if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly)
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) add(node.arguments[0], false)
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal, true)
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile("file.ts", text, ts.ScriptTarget.Latest, true))
  return found
}
