// The options of a broker: read once, completed, and checked. It must never start anything.

import type {
  AgentsConfig,
  BrokerAgent,
  BrokerOptions,
  ContextOptions,
  QueueMode,
  QueueOptions,
  Toolset,
} from '../../index.d.ts'
import { refusal } from '../values/errors.ts'
import { type Fields, readFields, readList, readName } from '../values/reader.ts'
import { checkBudgets, type ReadSubagents, readSubagents } from './agents/options.ts'
import { listAgentIds } from './decisions.ts'
import { readReset } from './resets.ts'

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
const SILENT: readonly string[] = ['NO_REPLY', 'HEARTBEAT_OK']
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
  /** The JSON for the native side. */
  native: string
}

function readBrokerOptions(options: unknown): ReadOptions {
  const fields = readFields(options, 'options', CODE)
  known(fields, FIELDS, '')
  const { agents, defaults, defaultAgent, bindings, personas, dmScope, smartRoute } = fields
  const directory = { agents, defaults, defaultAgent, bindings, personas, dmScope }
  const config = directory as AgentsConfig<BrokerAgent>
  // Reads everything that routes depend on, and refuses what is wrong in it.
  const ids = listAgentIds(config)
  if (ids.length === 0) throw refusal(CODE, 'agents', 'has no agent')
  if (defaultAgent !== undefined && !ids.includes(defaultAgent as string)) {
    throw refusal(CODE, 'defaultAgent', `is not one of ${ids.join(', ')}`)
  }
  if (smartRoute !== undefined && smartRoute !== null && typeof smartRoute !== 'function') {
    throw refusal(CODE, 'smartRoute', 'is not a function')
  }
  const { beforeToolCall } = fields
  if (
    beforeToolCall !== undefined &&
    beforeToolCall !== null &&
    typeof beforeToolCall !== 'function'
  ) {
    throw refusal(CODE, 'beforeToolCall', 'is not a function')
  }
  const toolsets = readToolsets(fields.toolsets)
  const subagents = new Map<string, ReadSubagents>()
  for (const id of ids) {
    checkAgent(config, id, toolsets)
    checkReset(config, id)
    const whole = { ...config.defaults, ...config.agents[id] }
    checkBudgets(whole, id)
    const read = readSubagents(whole, id, ids)
    if (read !== undefined) subagents.set(id, read)
  }
  const queue = readQueue(fields.queue)
  const lanes = fields.lanes === undefined ? {} : readFields(fields.lanes, 'lanes', CODE, 'lanes.')
  known(lanes, ['main', 'worker'], 'lanes.')
  const { smartRouteConfidence: confidence } = fields
  if (
    confidence !== undefined &&
    !(typeof confidence === 'number' && confidence >= 0 && confidence <= 1)
  ) {
    throw refusal(CODE, 'smartRouteConfidence', 'is not a number from 0 to 1')
  }
  const context = readContextOptions(fields.context)
  return {
    config,
    toolsets,
    subagents,
    mode: queue.mode ?? 'queue',
    bySource: queue.bySource ?? {},
    steerInterrupts: queue.steerPolicy === 'interrupt',
    beforeToolCall: (beforeToolCall ?? undefined) as BrokerOptions['beforeToolCall'],
    smartRoute: (smartRoute ?? undefined) as BrokerOptions['smartRoute'],
    confidence,
    ...context,
    silent: readSilent(fields.outbox),
    native: JSON.stringify({
      cap: count(queue.cap, 'queue.cap', 20, 1),
      drop: queue.drop ?? 'summarize',
      debounceMs: count(queue.debounceMs, 'queue.debounceMs', 1_000, 0),
      pulseMs: count(queue.pulseMs, 'queue.pulseMs', 2_000, 1),
      main: count(lanes.main, 'lanes.main', 4, 1),
      worker: count(lanes.worker, 'lanes.worker', 8, 1),
      composes: context.layers !== undefined,
    }),
  }
}

function readContextOptions(given: unknown): Pick<ReadOptions, 'layers' | 'memory' | 'timeZone'> {
  const fields = given === undefined ? {} : readFields(given, 'context', CODE, 'context.')
  known(fields, CONTEXT, 'context.')
  const { layers, memory, timeZone } = fields
  if (layers !== undefined && layers !== null && typeof layers !== 'function') {
    throw refusal(CODE, 'context.layers', 'is not a function')
  }
  return {
    layers: (layers ?? undefined) as ContextOptions['layers'],
    memory: readMemory(memory),
    timeZone: readTimeZone(timeZone),
  }
}

/** How much of the memory contexts get. */
function readMemory(given: unknown): ReadOptions['memory'] {
  if (given === false) return undefined
  if (given === undefined || given === null || given === true) return { limit: 10, tokens: 1_000 }
  const memory = readFields(given, 'context.memory', CODE, 'context.memory.')
  known(memory, ['limit', 'tokens'], 'context.memory.')
  const limit = count(memory.limit, 'context.memory.limit', 10, 1)
  if (limit > 100) throw refusal(CODE, 'context.memory.limit', 'is more than 100')
  return { limit, tokens: count(memory.tokens, 'context.memory.tokens', 1_000, 1) }
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

function readQueue(given: unknown): QueueOptions {
  if (given === undefined || given === null) return {}
  if (given === 'nexus') return NEXUS
  const queue: Fields = readFields(given, 'queue', CODE, 'queue.')
  known(queue, QUEUE, 'queue.')
  readMode(queue.mode, 'queue.mode')
  if (queue.drop !== undefined && !DROPS.includes(queue.drop)) {
    throw refusal(CODE, 'queue.drop', `is not one of ${DROPS.join(', ')}`)
  }
  if (queue.steerPolicy !== undefined && !STEERS.includes(queue.steerPolicy)) {
    throw refusal(CODE, 'queue.steerPolicy', `is not one of ${STEERS.join(', ')}`)
  }
  if (queue.bySource !== undefined) {
    const path = 'queue.bySource'
    queue.bySource = readFields(queue.bySource, path, CODE, `${path}.`)
    for (const [source, mode] of Object.entries(queue.bySource as Fields)) {
      readMode(mode, `${path}.${source}`)
    }
  }
  return queue
}

function readSilent(given: unknown): readonly string[] {
  if (given === undefined || given === null) return SILENT
  const outbox = readFields(given, 'outbox', CODE, 'outbox.')
  known(outbox, ['silent'], 'outbox.')
  const { silent = SILENT } = outbox
  if (!Array.isArray(silent)) throw refusal(CODE, 'outbox.silent', 'is not a list of texts')
  return silent.map((text, at) => readName(text, `outbox.silent[${at}]`, CODE))
}

/** A mode of a queue; undefined where there is none. */
function readMode(mode: unknown, path: string): QueueMode | undefined {
  if (mode === undefined || MODES.includes(mode)) return mode as QueueMode | undefined
  throw refusal(CODE, path, `is not one of ${MODES.join(', ')}`)
}

function readToolsets(given: unknown): ReadonlyMap<string, Toolset> {
  const toolsets = new Map<string, Toolset>()
  if (given === undefined || given === null) return toolsets
  for (const [name, tools] of Object.entries(readFields(given, 'toolsets', CODE, 'toolsets.'))) {
    if (typeof tools !== 'function' && !Array.isArray(tools)) {
      throw refusal(CODE, `toolsets.${name}`, 'is neither a list of tools nor a function')
    }
    toolsets.set(name, tools as Toolset)
  }
  return toolsets
}

function checkAgent(
  config: AgentsConfig<BrokerAgent>,
  id: string,
  toolsets: ReadonlyMap<string, Toolset>,
): void {
  const toolset = config.agents[id]?.toolset ?? config.defaults?.toolset
  if (toolset !== undefined && !toolsets.has(toolset)) {
    const names = [...toolsets.keys()].join(', ') || 'none'
    throw refusal(CODE, `agents.${id}.toolset`, `is not one of \`toolsets\`: ${names}`)
  }
  const files: unknown = config.agents[id]?.files ?? config.defaults?.files
  if (files === undefined || files === null) return
  const path = `agents.${id}.files`
  const names = readList(files, path, CODE)
  if (names === undefined) throw refusal(CODE, path, 'is not a list of paths')
  for (const [at, name] of names.entries()) readName(name, `${path}[${at}]`, CODE)
}

function checkReset(config: AgentsConfig<BrokerAgent>, id: string): void {
  const reset = config.agents[id]?.reset ?? config.defaults?.reset
  if (typeof reset !== 'function') readReset(reset, `agents.${id}.reset`)
}

function known(fields: Fields, names: readonly string[], prefix: string): void {
  for (const name of Object.keys(fields)) {
    if (!names.includes(name)) {
      throw refusal(
        CODE,
        `${prefix}${name}`,
        `is not an option; the options are ${names.join(', ')}`,
      )
    }
  }
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
