// The engine's options, prepared for the native side: refuses what it would misread; it checks everything else itself.
// It must never store or print a key.

import type { OnRequest } from '../../index.d.ts'
import type { EmbedFunction } from '../memory/embedder.ts'
import { readMemory } from '../memory/options.ts'
import { NativeEngine } from '../native/addon.ts'
import { readHook } from '../run/context.ts'
import { BY_DEFAULT, readSkipped } from '../run/event-groups.ts'
import { type OwnHooks, takeHooks } from '../run/hooks.ts'
import { NO_DEFAULTS, readDefaults } from '../run/run-input.ts'
import type { Code } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { noted, type Problems, type Refuse, throwing } from '../values/problems.ts'
import {
  type Fields,
  isObject,
  readFields,
  refuseList as refuseListAt,
  refuseLost,
} from '../values/reader.ts'
import { type HostFunction, readLedger, readProfiles, readServers } from './key-functions.ts'
import { type Recovery, readRecovery } from './recovery.ts'
import { Toolsets } from './toolsets.ts'

const CODE = 'invalid_options'

/** The options after reading: JSON for the native side, and the values that stay in JavaScript. */
interface ReadOptions {
  json: string
  /** The key functions, by the index of their profile. */
  functions: Map<number, HostFunction>
  /** The function that embeds the texts of the memory. */
  embed: EmbedFunction | undefined
  /** Whether the engine has a memory. */
  hasMemory: boolean
  onRequest: OnRequest | undefined
  hooks: OwnHooks | undefined
  /** The groups of events that are left out, as bits. */
  skipped: number
  /** The providers as they were passed. */
  providers: Fields
  recovery: Recovery & { ledger: boolean }
  /** The tools of contexts that pass none. */
  toolsets: Toolsets | undefined
  /** The defaults of contexts. */
  defaults: Readonly<Fields>
}

/** Reads the options. A list is refused where an object belongs: the native side would read it as fields in order. */
function readOptions(given: unknown, refuse: Refuse = throwing): ReadOptions {
  const read = readFields(given, 'options', CODE)
  const { recovery: _recovery, toolsFor: _toolsFor, ...others } = read
  const none = { recovery: {}, rest: others }
  const { recovery, rest } = noted(refuse, () => readRecovery(read), none)
  const hooks = takeHooks(rest, CODE, refuse)
  const { onRequest, events, defaults, toolsets, ...options } = rest
  for (const [field, value] of Object.entries(options)) {
    try {
      refuseLost(value, field, CODE)
    } catch (error) {
      refuse(error)
      delete options[field]
    }
  }
  const noKeys = { profiles: undefined, functions: new Map() }
  const keys = noted(refuse, () => readProfiles(options.authProfiles), noKeys)
  const { profiles, functions } = keys
  const providers = isObject(options.providers)
    ? noted(refuse, () => readFields(options.providers, 'providers', CODE, 'providers.'))
    : options.providers
  const mcp = noted(refuse, () => readServers(options.mcp, functions))
  const ledger = noted(refuse, () => readLedger(options.ledger, functions))
  const memory = noted(refuse, () => readMemory(options.memory), { crossing: undefined })
  const crossing = {
    ...options,
    authProfiles: profiles,
    providers,
    mcp,
    ledger,
    memory: memory.crossing,
  }
  const json = noted(refuse, () => toJson(crossing, 'options', () => CODE), '{}')
  refuseLists(JSON.parse(json), refuse)
  return {
    json,
    functions,
    embed: memory.embed,
    hasMemory: isObject(memory.crossing) || memory.crossing === true,
    onRequest: noted(refuse, () => readHook(onRequest, CODE)),
    hooks,
    skipped: noted(refuse, () => readSkipped(events, CODE), BY_DEFAULT),
    providers: isObject(providers) ? providers : {},
    recovery: { ...recovery, ledger: isObject(options.ledger) },
    toolsets: noted(refuse, () => Toolsets.read(toolsets, refuse), undefined),
    defaults: noted(refuse, () => readDefaults(defaults, refuse), NO_DEFAULTS),
  }
}

/** Notes all problems of options. */
function noteOptionProblems(given: unknown, problems: Problems): void {
  const { json } = readOptions(given, problems.note)
  const before = problems.list.map(({ path }) => path)
  problems.add(NativeEngine.optionProblems(json))
  const fresh = problems.list.splice(before.length)
  // Not what is missing because its problem is noted already.
  problems.list.push(...fresh.filter(({ path }) => !before.some((it) => it.startsWith(path))))
}

/** Refuses lists in the options after reading, so that no code of the caller runs. */
function refuseLists(options: Fields, refuse: Refuse): void {
  const refuseList = (value: unknown, field: string, code: Code) =>
    noted(refuse, () => refuseListAt(value, field, code))
  for (const field of [
    'ledger',
    'providers',
    'mcp',
    'failover',
    'rateGovernor',
    'pruning',
    'planner',
    'memory',
  ]) {
    refuseList(options[field], field, CODE)
  }
  const { events, ssl } = (options.ledger ?? {}) as Fields
  refuseList(events, 'ledger.events', CODE)
  refuseList(ssl, 'ledger.ssl', CODE)
  for (const field of ['providers', 'mcp']) {
    for (const [name, each] of Object.entries(options[field] ?? {})) {
      refuseList(each, `${field}.${name}`, CODE)
    }
  }
  for (const field of ['authProfiles', 'models']) {
    const items = options[field]
    if (!Array.isArray(items)) continue
    items.forEach((item, index) => {
      refuseList(item, `${field}[${index}]`, CODE)
    })
  }
}

export { noteOptionProblems, readOptions }
