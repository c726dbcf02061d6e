// The engine's options, prepared for the native side: refuses what it would misread; it checks everything else itself.
// It must never store or print a key.

import type { OnRequest } from '../../index.d.ts'
import { readHook } from '../run/context.ts'
import { readDefaults } from '../run/run-input.ts'
import { toJson } from '../values/json.ts'
import { type Fields, isObject, readFields, refuseList, refuseLost } from '../values/reader.ts'
import { type KeyFunction, readProfiles } from './key-functions.ts'
import { type Recovery, readRecovery } from './recovery.ts'

const CODE = 'invalid_options'

/** The options after reading: JSON for the native side, and the values that stay in JavaScript. */
interface ReadOptions {
  json: string
  /** The key functions, by the index of their profile. */
  functions: Map<number, KeyFunction>
  onRequest: OnRequest | undefined
  /** The providers as they were passed. */
  providers: Fields
  recovery: Recovery & { ledger: boolean }
  /** The defaults of contexts. */
  defaults: Readonly<Fields>
}

/** Reads the options. A list is refused where an object belongs: the native side would read it as fields in order. */
function readOptions(given: unknown): ReadOptions {
  const read = readFields(given, 'options', CODE)
  const { recovery, rest } = readRecovery(read)
  const { onRequest, defaults, ...options } = rest
  for (const [field, value] of Object.entries(options)) refuseLost(value, field, CODE)
  const { profiles, functions } = readProfiles(options.authProfiles)
  const providers = isObject(options.providers)
    ? readFields(options.providers, 'providers', CODE, 'providers.')
    : options.providers
  const crossing = { ...options, authProfiles: profiles, providers }
  const json = toJson(crossing, 'options', () => CODE)
  refuseLists(JSON.parse(json))
  return {
    json,
    functions,
    onRequest: readHook(onRequest, CODE),
    providers: isObject(providers) ? providers : {},
    recovery: { ...recovery, ledger: isObject(options.ledger) },
    defaults: readDefaults(defaults),
  }
}

/** Refuses lists in the options after reading, so that no code of the caller runs. */
function refuseLists(options: Fields): void {
  for (const field of ['ledger', 'providers', 'failover', 'rateGovernor', 'pruning']) {
    refuseList(options[field], field, CODE)
  }
  const { events } = (options.ledger ?? {}) as Fields
  refuseList(events, 'ledger.events', CODE)
  for (const [name, provider] of Object.entries(options.providers ?? {})) {
    refuseList(provider, `providers.${name}`, CODE)
  }
  for (const field of ['authProfiles', 'models']) {
    const items = options[field]
    if (!Array.isArray(items)) continue
    items.forEach((item, index) => {
      refuseList(item, `${field}[${index}]`, CODE)
    })
  }
}

export { readOptions }
