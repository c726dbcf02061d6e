// What an agent may do with other agents: read once, completed, and checked. It must never start anything.

import type { SubagentOptions } from '../../../index.d.ts'
import { refusal } from '../../values/errors.ts'
import { noted, type Refuse } from '../../values/problems.ts'
import { type Fields, readFields, readList } from '../../values/reader.ts'

const CODE = 'invalid_options'
const FIELDS = [
  'allowAgents',
  'allowModels',
  'maxDepth',
  'maxChildren',
  'maxConcurrent',
  'timeoutMs',
] satisfies (keyof SubagentOptions)[]

/** The options of an agent's children, complete. */
interface ReadSubagents {
  allowAgents: readonly string[]
  /** Undefined for the models of the agent that gets the task. */
  allowModels: readonly string[] | undefined
  limits: { maxDepth: number; maxChildren: number; maxConcurrent: number }
  timeoutMs: number | undefined
}

/** The options of an agent's children; undefined for an agent that may have none. `path` is that of the options. */
function readSubagents(
  subagents: unknown,
  path: string,
  id: string,
  known: readonly string[],
  refuse: Refuse,
): ReadSubagents | undefined {
  if (subagents === undefined || subagents === null) return undefined
  const fields = readFields(subagents, path, CODE, `${path}.`)
  refuseUnknown(fields, FIELDS, `${path}.`, refuse)
  const list = (name: string) => noted(refuse, () => names(fields[name], `${path}.${name}`, refuse))
  const number = (name: string) => noted(refuse, () => count(fields[name], `${path}.${name}`))
  const allowAgents = list('allowAgents') ?? [id]
  for (const [at, other] of allowAgents.entries()) {
    if (known.includes(other)) continue
    refuse(refusal(CODE, `${path}.allowAgents[${at}]`, `is not one of ${known.join(', ')}`))
  }
  return {
    allowAgents,
    allowModels: list('allowModels'),
    limits: {
      maxDepth: number('maxDepth') ?? 3,
      maxChildren: number('maxChildren') ?? 5,
      maxConcurrent: number('maxConcurrent') ?? 8,
    },
    timeoutMs: number('timeoutMs'),
  }
}

/** What the turns of an agent may spend. */
function checkBudgets(budgets: unknown, path: string, refuse: Refuse): void {
  if (budgets === undefined || budgets === null) return
  const fields = readFields(budgets, path, CODE, `${path}.`)
  refuseUnknown(fields, ['maxTokens', 'maxCost'], `${path}.`, refuse)
  const { maxTokens, maxCost } = fields
  noted(refuse, () => count(maxTokens, `${path}.maxTokens`, Number.MAX_SAFE_INTEGER))
  const isCost = typeof maxCost === 'number' && Number.isFinite(maxCost) && maxCost > 0
  if (maxCost !== undefined && maxCost !== null && !isCost) {
    refuse(refusal(CODE, `${path}.maxCost`, 'is no amount of US dollars'))
  }
  if ((maxTokens ?? maxCost ?? undefined) === undefined) {
    refuse(refusal(CODE, path, 'has neither maxTokens nor maxCost'))
  }
}

/** Refuses the fields that are no options. */
function refuseUnknown(
  fields: Fields,
  names: readonly string[],
  prefix: string,
  refuse: Refuse,
): void {
  for (const name of Object.keys(fields)) {
    if (names.includes(name)) continue
    const why = `is not an option; the options are ${names.join(', ')}`
    refuse(refusal(CODE, `${prefix}${name}`, why))
  }
}

function names(given: unknown, path: string, refuse: Refuse): string[] | undefined {
  if (given === undefined || given === null) return undefined
  const list = readList(given, path, CODE)
  if (list === undefined) throw refusal(CODE, path, 'is not a list of names')
  for (const [at, name] of list.entries()) {
    if (typeof name === 'string' && name !== '') continue
    refuse(refusal(CODE, `${path}[${at}]`, 'is not a name'))
  }
  return list as string[]
}

function count(given: unknown, path: string, most = 2 ** 31 - 1): number | undefined {
  if (given === undefined || given === null) return undefined
  if (typeof given === 'number' && Number.isInteger(given) && given >= 1 && given <= most) {
    return given
  }
  throw refusal(CODE, path, 'is not a whole number from 1 on')
}

export type { ReadSubagents }
export { checkBudgets, readSubagents, refuseUnknown }
