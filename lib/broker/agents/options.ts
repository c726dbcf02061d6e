// What an agent may do with other agents: read once, completed, and checked. It must never start anything.

import type { BrokerAgent, SubagentOptions } from '../../../index.d.ts'
import { refusal } from '../../values/errors.ts'
import { readFields, readList } from '../../values/reader.ts'

const CODE = 'invalid_options'
const FIELDS = [
  'allowAgents',
  'allowModels',
  'maxDepth',
  'maxChildren',
  'maxConcurrent',
  'timeoutMs',
] satisfies (keyof SubagentOptions)[]
const ROLES: readonly unknown[] = ['manager', 'worker', 'unified']

/** The options of an agent's children, complete. */
interface ReadSubagents {
  allowAgents: readonly string[]
  /** Undefined for the models of the agent that gets the task. */
  allowModels: readonly string[] | undefined
  limits: { maxDepth: number; maxChildren: number; maxConcurrent: number }
  timeoutMs: number | undefined
}

/** The options of the children of agent `id`; undefined for an agent that may have none. */
function readSubagents(
  agent: BrokerAgent,
  id: string,
  known: readonly string[],
): ReadSubagents | undefined {
  const { subagents, role } = agent
  if (role !== undefined && !ROLES.includes(role)) {
    throw refusal(CODE, `agents.${id}.role`, `is not one of ${ROLES.join(', ')}`)
  }
  if (subagents === undefined || subagents === null) return undefined
  const path = `agents.${id}.subagents`
  const fields = readFields(subagents, path, CODE, `${path}.`)
  for (const name of Object.keys(fields)) {
    if (!(FIELDS as string[]).includes(name)) {
      throw refusal(
        CODE,
        `${path}.${name}`,
        `is not an option; the options are ${FIELDS.join(', ')}`,
      )
    }
  }
  const allowAgents = names(fields.allowAgents, `${path}.allowAgents`) ?? [id]
  for (const [at, other] of allowAgents.entries()) {
    if (!known.includes(other)) {
      throw refusal(CODE, `${path}.allowAgents[${at}]`, `is not one of ${known.join(', ')}`)
    }
  }
  return {
    allowAgents,
    allowModels: names(fields.allowModels, `${path}.allowModels`),
    limits: {
      maxDepth: count(fields.maxDepth, `${path}.maxDepth`) ?? 3,
      maxChildren: count(fields.maxChildren, `${path}.maxChildren`) ?? 5,
      maxConcurrent: count(fields.maxConcurrent, `${path}.maxConcurrent`) ?? 8,
    },
    timeoutMs: count(fields.timeoutMs, `${path}.timeoutMs`),
  }
}

/** What the turns of agent `id` may spend. */
function checkBudgets(agent: BrokerAgent, id: string): void {
  const { budgets } = agent
  if (budgets === undefined || budgets === null) return
  const path = `agents.${id}.budgets`
  const fields = readFields(budgets, path, CODE, `${path}.`)
  for (const name of Object.keys(fields)) {
    if (name !== 'maxTokens' && name !== 'maxCost') {
      throw refusal(CODE, `${path}.${name}`, 'is not one of maxTokens, maxCost')
    }
  }
  const { maxTokens, maxCost } = fields
  count(maxTokens, `${path}.maxTokens`, Number.MAX_SAFE_INTEGER)
  const isCost = typeof maxCost === 'number' && Number.isFinite(maxCost) && maxCost > 0
  if (maxCost !== undefined && maxCost !== null && !isCost) {
    throw refusal(CODE, `${path}.maxCost`, 'is no amount of US dollars')
  }
  if ((maxTokens ?? maxCost ?? undefined) === undefined) {
    throw refusal(CODE, path, 'has neither maxTokens nor maxCost')
  }
}

function names(given: unknown, path: string): string[] | undefined {
  if (given === undefined || given === null) return undefined
  const list = readList(given, path, CODE)
  if (list === undefined) throw refusal(CODE, path, 'is not a list of names')
  for (const [at, name] of list.entries()) {
    if (typeof name !== 'string' || name === '') {
      throw refusal(CODE, `${path}[${at}]`, 'is not a name')
    }
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
export { checkBudgets, readSubagents }
