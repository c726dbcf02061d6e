// The options of a broker: read once, completed, and checked. It must never start anything.

import type {
  AgentsConfig,
  BrokerAgent,
  BrokerOptions,
  ContextOptions,
  OutboxOptions,
  QueueMode,
  QueueOptions,
  Toolset,
} from '../../index.d.ts'
import { refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { listing, noted, type Refuse, throwing } from '../values/problems.ts'
import { type Fields, isObject, readFields, readName } from '../values/reader.ts'
import { agentIds, type EngineModels, noteDirectory, readAgents } from './agents/directory.ts'
import { type ReadSubagents, refuseUnknown } from './agents/options.ts'
import { directoryOf, resolveAgentConfig } from './decisions.ts'

const CODE = 'invalid_options'
const FIELDS = [
  'agents',
  'defaults',
  'defaultAgent',
  'bindings',
  'personas',
  'dmScope',
  'toolsets',
  'queue',
  'outbox',
  'lanes',
  'smartRoute',
  'smartRouteConfidence',
  'context',
  'beforeToolCall',
] satisfies (keyof BrokerOptions)[]
const CONTEXT = ['layers', 'memory', 'timeZone'] satisfies (keyof ContextOptions)[]
const QUEUE = [
  'mode',
  'bySource',
  'steerPolicy',
  'debounceMs',
  'cap',
  'drop',
  'pulseMs',
] satisfies (keyof QueueOptions)[]
const MODES: readonly unknown[] = [
  'queue',
  'followup',
  'collect',
  'interrupt',
  'steer',
  'steer-backlog',
] satisfies QueueMode[]
const OUTBOX = ['silent', 'timeoutMs'] satisfies (keyof OutboxOptions)[]
const SILENT: readonly string[] = ['NO_REPLY', 'HEARTBEAT_OK']
/** How long a delivery has, in milliseconds. */
const DELIVERY = 60_000
/** The longest time of a timer. */
const LONGEST = 0x7fffffff
const STEERS: readonly unknown[] = ['inject', 'interrupt']
const DROPS: readonly unknown[] = ['old', 'new', 'summarize']
/** Messages of users interrupt a manager, those of workers and timers follow. */
const NEXUS: QueueOptions = {
  bySource: { user: 'interrupt', worker: 'followup', timer: 'followup' },
}
/** The largest number that the native side takes. */
const MOST = 0xffffffff

/** The options of a broker, complete. */
interface ReadOptions {
  config: AgentsConfig<BrokerAgent>
  /** What routes depend on: JSON, written once and not for each message. */
  routes: string
  /** Each agent with the defaults, by id. */
  agents: ReadonlyMap<string, BrokerAgent>
  toolsets: ReadonlyMap<string, Toolset>
  /** What the agents that may have children may do with them. */
  subagents: ReadonlyMap<string, ReadSubagents>
  mode: QueueMode
  bySource: Readonly<Record<string, QueueMode>>
  /** Whether a message with the mode `steer` interrupts. */
  steerInterrupts: boolean
  /** Decides about the calls of all turns. */
  beforeToolCall: BrokerOptions['beforeToolCall']
  smartRoute: BrokerOptions['smartRoute']
  confidence: number | undefined
  /** What the host makes of the layers of a context. */
  layers: ContextOptions['layers']
  /** What contexts get of the memory; undefined for nothing. */
  memory: { limit: number; tokens: number } | undefined
  /** The zone of times in contexts. */
  timeZone: string
  /** The answers that are not delivered. */
  silent: readonly string[]
  /** How long the function of the deliveries has for one, in milliseconds. */
  deliveryMs: number
  /** The JSON for the native side. */
  native: string
}

/** The options; a refusal lists all of their problems. */
function readBrokerOptions(options: unknown, models: EngineModels): ReadOptions {
  return listing(
    () => {
      const { config, ids, ...others } = read(options, models, throwing)
      const routes = toJson(directoryOf(config), 'options', () => CODE)
      const agents = new Map(ids.map((id) => [id, resolveAgentConfig(config, id) ?? {}]))
      return { config, routes, agents, ...others }
    },
    (problems) => {
      read(options, models, problems.note)
      const { agents, defaults, defaultAgent, bindings, personas, dmScope } = options as Fields
      noteDirectory({ agents, defaults, defaultAgent, bindings, personas, dmScope }, problems)
    },
  )
}

/** The options without what follows from them. */
function read(
  options: unknown,
  models: EngineModels,
  refuse: Refuse,
): Omit<ReadOptions, 'routes' | 'agents'> & { ids: readonly string[] } {
  const fields = readFields(options, 'options', CODE)
  refuseUnknown(fields, FIELDS, '', refuse)
  const { agents, defaults, defaultAgent, bindings, personas, dmScope } = fields
  const config = {
    agents: copies(agents, refuse),
    defaults: copy(defaults, 'defaults', refuse),
    defaultAgent,
    bindings,
    personas,
    dmScope,
  } as AgentsConfig<BrokerAgent>
  // Reads everything that routes depend on, and refuses what is wrong in it.
  const ids = noted(refuse, () => agentIds(config), isObject(agents) ? Object.keys(agents) : [])
  if (ids.length === 0) refuse(refusal(CODE, 'agents', 'has no agent'))
  if (ids.includes('')) refuse(refusal(CODE, 'agents', 'has an agent whose id is empty'))
  if (isObject(personas) && Object.hasOwn(personas, '')) {
    refuse(refusal(CODE, 'personas', 'has a persona whose id is empty'))
  }
  if (defaultAgent !== undefined && !ids.includes(defaultAgent as string)) {
    refuse(refusal(CODE, 'defaultAgent', `is not one of ${ids.join(', ')}`))
  }
  const { beforeToolCall, smartRoute } = fields
  refuseNoFunction(smartRoute, 'smartRoute', refuse)
  refuseNoFunction(beforeToolCall, 'beforeToolCall', refuse)
  const toolsets = readToolsets(fields.toolsets, refuse)
  const subagents = readAgents(config, ids, toolsets, models, refuse)
  const queue = noted(refuse, () => readQueue(fields.queue, refuse), {})
  const lanes = noted(
    refuse,
    () => (fields.lanes === undefined ? {} : readFields(fields.lanes, 'lanes', CODE, 'lanes.')),
    {},
  )
  refuseUnknown(lanes, ['main', 'worker'], 'lanes.', refuse)
  const { smartRouteConfidence: confidence } = fields
  const isShare = typeof confidence === 'number' && confidence >= 0 && confidence <= 1
  if (confidence !== undefined && !isShare) {
    refuse(refusal(CODE, 'smartRouteConfidence', 'is not a number from 0 to 1'))
  }
  const context = readContextOptions(fields.context, refuse)
  const number = (value: unknown, path: string, fallback: number, least: number) =>
    noted(refuse, () => count(value, path, fallback, least), fallback)
  return {
    config,
    ids,
    toolsets,
    subagents,
    mode: queue.mode ?? 'queue',
    bySource: queue.bySource ?? {},
    steerInterrupts: queue.steerPolicy === 'interrupt',
    beforeToolCall: (beforeToolCall ?? undefined) as BrokerOptions['beforeToolCall'],
    smartRoute: (smartRoute ?? undefined) as BrokerOptions['smartRoute'],
    confidence: confidence as number | undefined,
    ...context,
    ...readOutbox(fields.outbox, refuse),
    native: JSON.stringify({
      cap: number(queue.cap, 'queue.cap', 20, 1),
      drop: queue.drop ?? 'summarize',
      debounceMs: number(queue.debounceMs, 'queue.debounceMs', 1_000, 0),
      pulseMs: number(queue.pulseMs, 'queue.pulseMs', 2_000, 1),
      main: number(lanes.main, 'lanes.main', 4, 1),
      worker: number(lanes.worker, 'lanes.worker', 8, 1),
      composes: context.layers !== undefined,
    }),
  }
}

/** Copies of the agents: what the host changes later has no effect. */
function copies(agents: unknown, refuse: Refuse): unknown {
  const all = copy(agents, 'agents', refuse)
  if (!isObject(all)) return all
  const each = Object.entries(all).map(([id, agent]) => [id, copy(agent, `agents.${id}`, refuse)])
  return Object.fromEntries(each)
}

function copy(given: unknown, path: string, refuse: Refuse): unknown {
  return isObject(given)
    ? noted(refuse, () => readFields(given, path, CODE, `${path}.`), {})
    : given
}

function readContextOptions(
  given: unknown,
  refuse: Refuse,
): Pick<ReadOptions, 'layers' | 'memory' | 'timeZone'> {
  const fields = noted(
    refuse,
    () => (given === undefined ? {} : readFields(given, 'context', CODE, 'context.')),
    {},
  )
  refuseUnknown(fields, CONTEXT, 'context.', refuse)
  const { layers, memory, timeZone } = fields
  refuseNoFunction(layers, 'context.layers', refuse)
  return {
    layers: (layers ?? undefined) as ContextOptions['layers'],
    memory: noted(refuse, () => readMemory(memory, refuse)),
    timeZone: noted(refuse, () => readTimeZone(timeZone), 'UTC'),
  }
}

/** How much of the memory contexts get. */
function readMemory(given: unknown, refuse: Refuse): ReadOptions['memory'] {
  if (given === false) return undefined
  if (given === undefined || given === null || given === true) return { limit: 10, tokens: 1_000 }
  const path = 'context.memory'
  const memory = readFields(given, path, CODE, `${path}.`)
  refuseUnknown(memory, ['limit', 'tokens'], `${path}.`, refuse)
  const limit = noted(refuse, () => count(memory.limit, `${path}.limit`, 10, 1), 10)
  if (limit > 100) refuse(refusal(CODE, `${path}.limit`, 'is more than 100'))
  return {
    limit,
    tokens: noted(refuse, () => count(memory.tokens, `${path}.tokens`, 1_000, 1), 1),
  }
}

/** The name of a time zone; that of the process where none is given. */
function readTimeZone(given: unknown): string {
  if (given !== undefined && given !== null && typeof given !== 'string') {
    throw refusal(CODE, 'context.timeZone', 'is not a string')
  }
  try {
    const timeZone = given ?? undefined
    return new Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone
  } catch {
    throw refusal(CODE, 'context.timeZone', 'is no time zone; pass a name like Europe/Berlin')
  }
}

function readQueue(given: unknown, refuse: Refuse): QueueOptions {
  if (given === undefined || given === null) return {}
  if (given === 'nexus') return NEXUS
  if (typeof given === 'string') {
    throw refusal(CODE, 'queue', "is neither `'nexus'` nor an object")
  }
  const queue: Fields = readFields(given, 'queue', CODE, 'queue.')
  refuseUnknown(queue, QUEUE, 'queue.', refuse)
  noted(refuse, () => readMode(queue.mode, 'queue.mode'))
  if (queue.drop !== undefined && !DROPS.includes(queue.drop)) {
    refuse(refusal(CODE, 'queue.drop', `is not one of ${DROPS.join(', ')}`))
  }
  if (queue.steerPolicy !== undefined && !STEERS.includes(queue.steerPolicy)) {
    refuse(refusal(CODE, 'queue.steerPolicy', `is not one of ${STEERS.join(', ')}`))
  }
  if (queue.bySource !== undefined) {
    const path = 'queue.bySource'
    const bySource = noted(refuse, () => readFields(queue.bySource, path, CODE, `${path}.`), {})
    for (const [source, mode] of Object.entries(bySource)) {
      noted(refuse, () => readMode(mode, `${path}.${source}`))
    }
    queue.bySource = bySource
  }
  return queue
}

function readOutbox(given: unknown, refuse: Refuse): Pick<ReadOptions, 'silent' | 'deliveryMs'> {
  const outbox = noted(
    refuse,
    () =>
      given === undefined || given === null ? {} : readFields(given, 'outbox', CODE, 'outbox.'),
    {},
  )
  refuseUnknown(outbox, OUTBOX, 'outbox.', refuse)
  const { silent = SILENT, timeoutMs } = outbox
  if (!Array.isArray(silent)) refuse(refusal(CODE, 'outbox.silent', 'is not a list of texts'))
  const texts: readonly unknown[] = Array.isArray(silent) ? silent : []
  const path = 'outbox.timeoutMs'
  const deliveryMs = noted(refuse, () => count(timeoutMs, path, DELIVERY, 1), DELIVERY)
  if (deliveryMs > LONGEST) refuse(refusal(CODE, path, 'is more than 2,147,483,647'))
  return {
    silent: texts.map((text, at) =>
      noted(refuse, () => readName(text, `outbox.silent[${at}]`, CODE), ''),
    ),
    deliveryMs,
  }
}

/** A mode of a queue; undefined where there is none. */
function readMode(mode: unknown, path: string): QueueMode | undefined {
  if (mode === undefined || MODES.includes(mode)) return mode as QueueMode | undefined
  throw refusal(CODE, path, `is not one of ${MODES.join(', ')}`)
}

function readToolsets(given: unknown, refuse: Refuse): ReadonlyMap<string, Toolset> {
  const toolsets = new Map<string, Toolset>()
  if (given === undefined || given === null) return toolsets
  const fields = noted(refuse, () => readFields(given, 'toolsets', CODE, 'toolsets.'), {})
  for (const [name, tools] of Object.entries(fields)) {
    toolsets.set(name, tools as Toolset)
    if (typeof tools === 'function' || Array.isArray(tools)) continue
    refuse(refusal(CODE, `toolsets.${name}`, 'is neither a list of tools nor a function'))
  }
  return toolsets
}

function refuseNoFunction(value: unknown, path: string, refuse: Refuse): void {
  if (value === undefined || value === null || typeof value === 'function') return
  refuse(refusal(CODE, path, 'is not a function'))
}

function count(value: unknown, path: string, fallback: number, least: number): number {
  if (value === undefined || value === null) return fallback
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= MOST) {
    return value
  }
  throw refusal(CODE, path, `is not a whole number from ${least} on`)
}

export type { ReadOptions }
export { readBrokerOptions, readMode }
