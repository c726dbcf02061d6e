// The fields that a tool may have. Of a plain tool an unknown one is refused; of one in pi's shape it is a warning, because
// pi's hosts add fields of their own. It must never judge the state that an instance of a class keeps in its fields.

import { isPlain } from '../values/bounded-json.ts'
import { clip, refusal } from '../values/errors.ts'
import { meant, unknownField } from '../values/field-names.ts'
import type { Refuse } from '../values/problems.ts'
import { attempt, ignoreRejection } from '../values/reader.ts'

const CODE = 'invalid_tool'

const POLICY = [
  'executionMode',
  'timeoutMs',
  'maxResultChars',
  'replay',
  'retries',
  'permission',
  'reconcile',
  'guidelines',
] as const
const PLAIN: readonly string[] = ['name', 'label', 'description', 'parameters', 'run', ...POLICY]
/** Those that `tool()` is given. */
const MADE = [
  'name',
  'label',
  'description',
  'inputSchema',
  'jsonSchema',
  'outputSchema',
  'run',
  ...POLICY,
] as const
/** Those of pi's `AgentTool` and `ToolDefinition`. */
const PI: readonly string[] = [
  ...['name', 'label', 'description', 'parameters', 'execute', 'prepareArguments'],
  ...['promptSnippet', 'promptGuidelines', 'renderCall', 'renderResult', 'renderShell'],
  ...['sourceInfo', ...POLICY],
]

/** Other names of the same fields. */
const OTHERS = { handler: 'run', func: 'run', function: 'run', callback: 'run', title: 'label' }
const PLAIN_OTHERS = { ...OTHERS, schema: 'parameters', args: 'parameters' }
const MADE_OTHERS = {
  ...OTHERS,
  execute: 'run',
  schema: 'inputSchema',
  args: 'inputSchema',
  parameters: 'inputSchema',
}
/** They need more than another name. */
const THROUGH_TOOL = ['inputSchema', 'outputSchema', 'jsonSchema']

/** The most tools that are remembered as warned of. */
const MAX_WARNED = 1_000
const warned = new Set<string>()

/** Refuses the unknown fields of a plain tool at `path`. */
function refuseUnknown(tool: object, path: string, refuse: Refuse): void {
  for (const name of unknownOf(tool, PLAIN, path)) {
    const why = THROUGH_TOOL.includes(name)
      ? 'is read by `tool()` only: pass `tool({ … })` instead of the object itself'
      : unknownField(name, 'a tool', PLAIN, PLAIN_OTHERS)
    refuse(refusal(CODE, `${path}.${clip(name)}`, why))
  }
}

/** Refuses an unknown field of what `tool()` is called with. */
function refuseUnknownOfMade(definition: object, path: string): void {
  for (const name of unknownOf(definition, MADE, path)) {
    throw refusal(CODE, `${path}.${clip(name)}`, unknownField(name, '`tool()`', MADE, MADE_OTHERS))
  }
}

/** Warns of unknown fields of a tool in pi's shape, once a process. */
function warnOfUnknown(tool: object, name: string, path: string): void {
  if (warned.has(name) || warned.size >= MAX_WARNED) return
  const names = unknownOf(tool, PI, path)
  if (names.length === 0) return
  warned.add(name)
  const list = names.slice(0, 10).map((each) => {
    const other = meant(each, PI)
    return `\`${clip(each)}\`${other === undefined ? '' : ` (did you mean \`${other}\`?)`}`
  })
  process.emitWarning(
    `the tool \`${clip(name)}\` has fields that are not known and have no effect: ${list.join(', ')}`,
    { code: 'AGENT_ENGINE_TOOL_FIELDS' },
  )
}

/** The unknown fields of a plain object. */
function unknownOf(value: object, known: readonly string[], path: string): string[] {
  return attempt(
    () => {
      if (!isPlain(value)) return []
      const fields = value as Record<string, unknown>
      return Object.keys(value).filter(
        (name) => !known.includes(name) && ignoreRejection(fields[name]) !== undefined,
      )
    },
    path,
    CODE,
  )
}

export { MADE, refuseUnknown, refuseUnknownOfMade, warnOfUnknown }
