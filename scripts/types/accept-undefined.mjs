// Owns how a host passes fields that it may lack: each optional field of a type that only goes into the engine accepts `undefined`, also under
// `exactOptionalPropertyTypes`. It must never change a type that the engine returns: there an absent field is absent.
import ts from 'typescript'

/** What the engine returns; all types that these name are returned as well. */
const RETURNED = [
  'AgentResult',
  'StreamEvent',
  'AgentEngineError',
  'Page',
  'TurnRow',
  'SessionEvent',
]
/** What a host passes, to the engine or to its ledger. */
const PASSED = ['AgentEngineOptions', 'AssembledContext', 'AgentEngineCallbacks']
const NAMED = /(?:Options|Filter)$/

/** The text of the declarations with `| undefined` at optional fields. */
export function acceptUndefined(text) {
  const source = ts.createSourceFile('index.d.ts', text, ts.ScriptTarget.Latest, true)
  const declared = new Map()
  for (const node of source.statements) {
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) {
      declared.set(node.name.text, node)
    }
  }
  const returned = reached(declared, RETURNED)
  const named = [...declared.keys()].filter((name) => NAMED.test(name))
  const ends = []
  for (const name of reached(declared, [...PASSED, ...named])) {
    if (!returned.has(name)) optionalFields(declared.get(name), ends)
  }
  let changed = text
  for (const { at, added } of ends.sort((one, other) => other.at - one.at)) {
    changed = changed.slice(0, at) + added + changed.slice(at)
  }
  return changed
}

/** The declarations that `names` lead to. */
function reached(declared, names) {
  const found = new Set()
  const visit = (node) => {
    if (ts.isTypeReferenceNode(node)) add(node.typeName.getText())
    if (ts.isExpressionWithTypeArguments(node)) add(node.expression.getText())
    ts.forEachChild(node, visit)
  }
  const add = (name) => {
    const node = declared.get(name)
    if (node === undefined || found.has(name)) return
    found.add(name)
    ts.forEachChild(node, visit)
  }
  for (const name of names) add(name)
  return found
}

const ANY_VALUE = [
  ts.SyntaxKind.NeverKeyword,
  ts.SyntaxKind.UnknownKeyword,
  ts.SyntaxKind.AnyKeyword,
]

/** What is to be added to a declaration. What a function receives comes from the engine. */
function optionalFields(node, ends) {
  const visit = (inner) => {
    if (ts.isFunctionTypeNode(inner) || ts.isMethodSignature(inner)) return
    ts.forEachChild(inner, visit)
    if (!ts.isPropertySignature(inner) || inner.questionToken === undefined) return
    const { type } = inner
    if (type === undefined || ANY_VALUE.includes(type.kind)) return
    const parts = ts.isUnionTypeNode(type) ? type.types : [type]
    if (parts.some((part) => part.kind === ts.SyntaxKind.UndefinedKeyword)) return
    if (ts.isFunctionTypeNode(type)) {
      ends.push({ at: type.getStart(), added: '(' }, { at: type.end, added: ') | undefined' })
    } else {
      ends.push({ at: type.end, added: ' | undefined' })
    }
  }
  ts.forEachChild(node, visit)
}
