// The engine's options, made ready to cross: what the native side would misread is refused here, the rest is its to check.
// It must never keep or print a key.

import { readHook } from '../run/context.js'
import { isObject, readFields, refuseList, refuseLost, toJson } from '../values/reader.js'
import { readProfiles } from './key-functions.js'
import { readRecovery } from './recovery.js'

const CODE = 'invalid_options'

/**
 * The options as they cross, the functions among them, and the providers as they were given. A list is refused wherever an
 * object stands: natively it would be read as fields in order.
 */
function readOptions(given) {
  const read = readFields(given, 'options', CODE)
  const { recovery, rest } = readRecovery(read)
  const { onRequest, ...options } = rest
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
  }
}

/** Of the options as they were read: nothing of the caller's runs any more. */
function refuseLists(options) {
  for (const field of ['ledger', 'providers', 'failover', 'rateGovernor', 'pruning']) {
    refuseList(options[field], field, CODE)
  }
  refuseList(options.ledger?.events, 'ledger.events', CODE)
  for (const [name, provider] of Object.entries(options.providers ?? {})) {
    refuseList(provider, `providers.${name}`, CODE)
  }
  for (const field of ['authProfiles', 'models']) {
    if (!Array.isArray(options[field])) continue
    options[field].forEach((item, index) => {
      refuseList(item, `${field}[${index}]`, CODE)
    })
  }
}

export { readOptions }
