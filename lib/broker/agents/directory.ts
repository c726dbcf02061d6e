// The agents of a broker: each is read once and checked, with what routes depend on. It must never start anything.

import type {
  AgentConfig,
  AgentModel,
  AgentsConfig,
  BrokerAgent,
  Toolset,
} from '../../../index.d.ts'
import * as addon from '../../native/addon.ts'
import { AgentEngineError, refusal } from '../../values/errors.ts'
import { toJson } from '../../values/json.ts'
import { noted, type Problems, type Refuse } from '../../values/problems.ts'
import {
  type Fields,
  isGiven,
  isObject,
  readList,
  readName,
  refuseLost,
  withoutUndefined,
} from '../../values/reader.ts'
import { directoryOf, listAgentIds, resolveAgentModel } from '../decisions.ts'
import { readReset } from '../resets.ts'
import { checkBudgets, type ReadSubagents, readSubagents, refuseUnknown } from './options.ts'

const CODE = 'invalid_options'
const FIELDS = [
  'model',
  'provider',
  'fallbacks',
  'identity',
  'systemPrompt',
  'prompt',
  'toolset',
  'role',
  'workspace',
  'files',
  'thinking',
  'maxIterations',
  'maxResponseTokens',
  'temperature',
  'timeoutMs',
  'policy',
  'reset',
  'subagents',
  'budgets',
] satisfies (keyof BrokerAgent)[]
const PERSONA = ['agentId', 'mainSession', 'files'] as const
/** The fields of an agent that are fields of its contexts, by their names there. */
const OF_CONTEXT = {
  fallbacks: 'fallbacks',
  systemPrompt: 'systemPrompt',
  role: 'role',
  workspacePath: 'workspace',
  thinkingConfig: 'thinking',
  maxIterations: 'maxIterations',
  maxResponseTokens: 'maxResponseTokens',
  temperature: 'temperature',
  timeoutMs: 'timeoutMs',
  policy: 'policy',
} satisfies Record<string, keyof BrokerAgent>
/** A context without problems, but for the fields of an agent. */
const CONTEXT = {
  runId: '01ARZ3NDEKTSV4RRFFQ69G5FAV',
  sessionLabel: 'main',
  currentMessage: { role: 'user', content: 'Hello' },
  systemPrompt: '',
  tools: [],
  toolsetName: '',
  workspacePath: '',
  permissionsGranted: [],
  model: 'test-model',
  provider: 'test',
  role: 'unified',
  timeoutMs: 1,
}

/** What is wrong with a context, as the native side lists it. */
interface FieldProblem {
  path: string
  message: string
}

/** The ids of all agents. What routes depend on is refused by its path in the options. */
function agentIds(config: AgentsConfig<BrokerAgent>): string[] {
  try {
    return listAgentIds(config)
  } catch (error) {
    if (!(error instanceof AgentEngineError)) throw error
    const [issue] = error.issues
    if (issue === undefined) throw error
    throw refusal(error.code, ownPath(issue.path), issue.message)
  }
}

/** Notes all problems of what routes depend on. */
function noteDirectory(given: Fields, problems: Problems): void {
  const { agents, defaults, personas } = given
  const readable = {
    ...given,
    agents: objects(agents, 'agents', problems),
    defaults: isObject(defaults) ? defaults : undefined,
    personas: objects(personas, 'personas', problems),
  }
  if (defaults !== undefined && !isObject(defaults)) {
    problems.note(refusal(CODE, 'defaults', 'is not an object'))
  }
  const args = toJson({ config: directoryOf(readable) }, 'config', () => CODE)
  const found: FieldProblem[] = JSON.parse(addon.NativeEngine.routeProblems(args))
  problems.add(JSON.stringify(found.map((it) => ({ ...it, path: ownPath(it.path) }))))
}

/** The objects among the fields of an object; the others are noted. */
function objects(given: unknown, path: string, problems: Problems): Fields | undefined {
  if (!isObject(given)) return undefined
  const isUsable = ([name, value]: [string, unknown]) => {
    if (isObject(value)) return true
    problems.note(refusal(CODE, `${path}.${name}`, 'is not an object'))
    return false
  }
  return Object.fromEntries(Object.entries(given).filter(isUsable))
}

function ownPath(path: string): string {
  return path.startsWith('config.') ? path.slice('config.'.length) : path
}

/** The models of an engine, as far as agents depend on them. */
interface EngineModels {
  defaults: Readonly<Fields>
  /** The names of its providers. */
  providers: readonly string[]
}

/** What the agents that may have children may do with them. */
function readAgents(
  config: AgentsConfig<BrokerAgent>,
  ids: readonly string[],
  toolsets: ReadonlyMap<string, Toolset>,
  models: EngineModels,
  refuse: Refuse,
): Map<string, ReadSubagents> {
  const subagents = new Map<string, ReadSubagents>()
  checkRoutes({ ...config }, ids, refuse)
  const shared = isObject(config.defaults) ? (config.defaults as Fields) : {}
  refuseUnknown(shared, FIELDS, 'defaults.', refuse)
  for (const id of ids) {
    // What is no object was refused with the routes.
    const given: unknown = config.agents[id]
    const own = isObject(given) ? given : {}
    const path = `agents.${id}`
    refuseUnknown(own, FIELDS, `${path}.`, refuse)
    const at = (name: string) => ((own[name] ?? undefined) === undefined ? 'defaults' : path)
    const agent: Fields = { ...shared, ...withoutUndefined(own) }
    const read = checkAgent(agent, id, (name) => `${at(name)}.${name}`, ids, toolsets, refuse)
    if (read !== undefined) subagents.set(id, read)
  }
  for (const id of ids) checkModel(config, id, isSpawned(id, subagents), models, refuse)
  return subagents
}

/** Whether the tasks of an agent may name a model of theirs. */
function isSpawned(id: string, subagents: ReadonlyMap<string, ReadSubagents>): boolean {
  const names = ({ allowAgents, allowModels }: ReadSubagents) =>
    allowModels !== undefined && allowAgents.includes(id)
  return [...subagents.values()].some(names)
}

/** Refuses an agent with which no turn could begin: it has no model, or the engine does not have its provider. */
function checkModel(
  config: AgentsConfig<BrokerAgent>,
  id: string,
  isSpawned: boolean,
  { defaults, providers }: EngineModels,
  refuse: Refuse,
): void {
  const of = (given: unknown) => {
    if (!isObject(given)) return given
    const { model, provider, fallbacks } = given
    return { model, provider, fallbacks }
  }
  let read: AgentModel | undefined
  try {
    const agents = { [id]: of(config.agents[id]) } as AgentsConfig['agents']
    read = resolveAgentModel({ agents, defaults: of(config.defaults ?? {}) as AgentConfig }, id)
  } catch {
    // What cannot be read was refused with the routes.
    return
  }
  const { model = defaults.model, provider = defaults.provider } = read ?? {}
  const path = `agents.${id}`
  if (!isGiven(model)) {
    if (!isSpawned) refuse(refusal(CODE, `${path}.model`, 'is missing, also in the defaults'))
  } else if (!isGiven(provider)) {
    refuse(refusal(CODE, `${path}.provider`, 'is missing, also in the defaults'))
  } else if (!providers.includes(provider as string)) {
    refuse(refusal(CODE, `${path}.provider`, unknownProvider(provider, providers)))
  }
  for (const [n, fallback] of (read?.fallbacks ?? []).entries()) {
    // One without a provider has that of the agent.
    const own = typeof fallback === 'string' ? undefined : fallback.provider
    if (own === undefined || own === null || providers.includes(own)) continue
    refuse(refusal(CODE, `${path}.fallbacks[${n}]`, unknownProvider(own, providers)))
  }
}

function unknownProvider(provider: unknown, providers: readonly string[]): string {
  return `\`${provider}\` is not among the engine's providers (${providers.join(', ')})`
}

/** Refuses agents of bindings and personas that are not configured, and unknown fields of personas. */
function checkRoutes({ bindings, personas }: Fields, ids: readonly string[], refuse: Refuse): void {
  const check = (given: unknown, path: string) => {
    const agentId = isObject(given) ? given.agentId : undefined
    if (typeof agentId !== 'string' || ids.includes(agentId)) return
    refuse(refusal(CODE, `${path}.agentId`, `is not one of ${ids.join(', ')}`))
  }
  const list = Array.isArray(bindings) ? bindings : []
  for (const [at, binding] of list.entries()) check(binding, `bindings[${at}]`)
  for (const [id, persona] of isObject(personas) ? Object.entries(personas) : []) {
    const path = `personas.${id}`
    if (isObject(persona)) refuseUnknown(persona, PERSONA, `${path}.`, refuse)
    check(persona, path)
  }
}

/** Refuses what is wrong in an agent. `pathOf` is the path of a field: its own, or that of the defaults. */
function checkAgent(
  agent: Fields,
  id: string,
  pathOf: (name: string) => string,
  ids: readonly string[],
  toolsets: ReadonlyMap<string, Toolset>,
  refuse: Refuse,
): ReadSubagents | undefined {
  const { toolset, identity, prompt, files, reset, budgets, subagents } = agent
  if (isGiven(toolset) && !toolsets.has(toolset as string)) {
    const names = [...toolsets.keys()].join(', ') || 'none'
    refuse(refusal(CODE, pathOf('toolset'), `is not one of \`toolsets\`: ${names}`))
  }
  if (isGiven(identity)) noted(refuse, () => readName(identity, pathOf('identity'), CODE))
  if (isGiven(prompt)) noted(refuse, () => checkPrompt(prompt, pathOf('prompt'), refuse))
  if (isGiven(files)) noted(refuse, () => checkFiles(files, pathOf('files'), refuse))
  if (typeof reset !== 'function') noted(refuse, () => readReset(reset, pathOf('reset'), refuse))
  checkContextFields(agent, pathOf, refuse)
  noted(refuse, () => checkBudgets(budgets, pathOf('budgets'), refuse))
  return noted(refuse, () => readSubagents(subagents, pathOf('subagents'), id, ids, refuse))
}

/** Refuses the fields with which no context could be made. */
function checkContextFields(agent: Fields, pathOf: (name: string) => string, refuse: Refuse): void {
  const names = Object.entries(OF_CONTEXT)
  const own = names.filter(([, name]) => isGiven(agent[name]))
  if (own.length === 0) return
  const crossing: Fields = { ...CONTEXT }
  for (const [field, name] of own) {
    const path = pathOf(name)
    const json = noted(refuse, () => {
      refuseLost(agent[name], path, CODE)
      return toJson(agent[name], path, () => CODE)
    })
    if (json !== undefined) crossing[field] = JSON.parse(json)
  }
  const context = JSON.stringify(crossing)
  for (const { path, message } of JSON.parse(addon.NativeEngine.fieldProblems(context))) {
    const [field = ''] = /^\w+/.exec(path) ?? []
    const name = OF_CONTEXT[field as keyof typeof OF_CONTEXT]
    refuse(refusal(CODE, `${pathOf(name)}${path.slice(field.length)}`, message))
  }
}

function checkPrompt(prompt: unknown, path: string, refuse: Refuse): void {
  const args = toJson({ parts: prompt }, path, () => CODE)
  const found: FieldProblem[] = JSON.parse(addon.NativeEngine.promptProblems(args))
  for (const { path: at, message } of found) {
    refuse(
      refusal(
        CODE,
        at.replace(/^parts/, () => path),
        message,
      ),
    )
  }
}

function checkFiles(files: unknown, path: string, refuse: Refuse): void {
  const names = readList(files, path, CODE)
  if (names === undefined) throw refusal(CODE, path, 'is not a list of paths')
  for (const [at, name] of names.entries()) {
    noted(refuse, () => readName(name, `${path}[${at}]`, CODE))
  }
}

export type { EngineModels }
export { agentIds, noteDirectory, readAgents }
