// The decisions of a broker as plain functions: labels, agents and prompts. They must never start anything.

import type {
  AgentConfig,
  AgentModel,
  AgentsConfig,
  PromptParts,
  RoutedEvent,
  SessionKeyOptions,
} from '../../index.d.ts'
import * as addon from '../native/addon.ts'
import { guarded, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { type Fields, isObject, readFields, readNamed, withoutUndefined } from '../values/reader.ts'

const CODE = 'invalid_options'

/** The fields of an agent that the native side reads. */
const MODEL_FIELDS = ['model', 'provider', 'fallbacks'] as const
const PERSONA_FIELDS = ['agentId', 'mainSession', 'files'] as const
const CONFIG_FIELDS = [
  'agents',
  'defaults',
  'defaultAgent',
  'bindings',
  'personas',
  'dmScope',
] as const

/** The label of an event's session. */
function buildSessionKey(event: RoutedEvent, options: SessionKeyOptions = {}): string {
  if (event !== undefined && !isObject(event)) throw refusal(CODE, 'event', 'is not an object')
  const args = json({ event, options }, 'event')
  return guarded(() => addon.NativeEngine.buildSessionKey(args))
}

/** A system prompt of its parts. */
function buildSystemPrompt(parts: PromptParts): string {
  const args = json({ parts }, 'parts')
  return guarded(() => addon.NativeEngine.buildSystemPrompt(args))
}

/** The ids of all agents. */
function listAgentIds(config: AgentsConfig): string[] {
  const args = directory(config)
  return JSON.parse(guarded(() => addon.NativeEngine.listAgentIds(args)))
}

/** The agent of a session. */
function resolveSessionAgentId(config: AgentsConfig, label: string): string {
  const args = directory(config)
  const text = name(label, 'label')
  return guarded(() => addon.NativeEngine.resolveSessionAgentId(args, text))
}

/** What a session's label says about its prompt. */
interface SessionScope {
  agentId: string
  /** The files that its persona names. */
  files?: string[]
  /** Whether it is the main session of an agent or of a persona. */
  isMain: boolean
  /** Whether it works for another session. */
  isWorker: boolean
}

/** `routes` is the JSON of what routes depend on. */
function sessionScope(routes: string, label: string): SessionScope {
  const args = `{"config":${routes}}`
  return JSON.parse(guarded(() => addon.NativeEngine.sessionScope(args, label)))
}

/** An agent's fields over those of all agents. */
function resolveAgentConfig<Config extends AgentConfig>(
  config: AgentsConfig<Config>,
  agentId: string,
): Config | undefined {
  const { agents, defaults } = readNamed(config, CONFIG_FIELDS, 'config', CODE, 'config.')
  const id = name(agentId, 'agentId')
  const all = readFields(agents, 'config.agents', CODE, 'config.agents.')
  if (!Object.hasOwn(all, id)) return undefined
  const path = `config.agents.${id}`
  const own = readFields(all[id], path, CODE, `${path}.`)
  const shared = readFields(defaults ?? {}, 'config.defaults', CODE, 'config.defaults.')
  // The models are one decision: a model of its own does not belong to the provider of another one.
  const models = resolveAgentModel(config, id) ?? {}
  const { model, provider, fallbacks, ...rest } = { ...shared, ...withoutUndefined(own) }
  return { ...rest, ...models } as Config
}

/** An agent's models. */
function resolveAgentModel(config: AgentsConfig, agentId: string): AgentModel | undefined {
  const args = directory(config)
  const id = name(agentId, 'agentId')
  return JSON.parse(guarded(() => addon.NativeEngine.resolveAgentModel(args, id))) ?? undefined
}

/** The JSON of what the routes depend on. */
function directory(config: unknown): string {
  return json({ config: directoryOf(config) }, 'config')
}

/** What the routes depend on: other fields of an agent may be functions. */
function directoryOf(config: unknown): Fields {
  const fields = readNamed(config, CONFIG_FIELDS, 'config', CODE, 'config.')
  const each = (value: unknown, path: string, names: readonly string[]) => {
    if (value === undefined) return undefined
    const all = Object.entries(readFields(value, path, CODE, `${path}.`))
    return Object.fromEntries(
      all.map(([id, it]) => [id, readNamed(it, names, `${path}.${id}`, CODE, `${path}.${id}.`)]),
    )
  }
  const { defaults } = fields
  const agents = each(fields.agents, 'config.agents', MODEL_FIELDS)
  const personas = each(fields.personas, 'config.personas', PERSONA_FIELDS)
  const shared =
    defaults === undefined
      ? undefined
      : readNamed(defaults, MODEL_FIELDS, 'config.defaults', CODE, 'config.defaults.')
  return { ...fields, agents, personas, defaults: shared }
}

function json(args: unknown, root: string): string {
  return toJson(args, root, () => CODE)
}

function name(value: unknown, path: string): string {
  if (typeof value !== 'string') throw refusal(CODE, path, 'is not a string')
  return value
}

export type { SessionScope }
export {
  buildSessionKey,
  buildSystemPrompt,
  directoryOf,
  listAgentIds,
  resolveAgentConfig,
  resolveAgentModel,
  resolveSessionAgentId,
  sessionScope,
}
