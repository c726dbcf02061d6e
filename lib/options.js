'use strict'
// The engine's options, made ready to cross: what the native side would misread is refused here, the rest is its to check.
// It must never keep or print a key.

const { readHook, refuseList, refuseLost, refuseOther, toJson } = require('./context.js')
const { readProfiles } = require('./keys.js')
const { readRecovery } = require('./recovery.js')

const CODE = 'invalid_options'

/** The JSON of the options, and the functions among them. A list is refused wherever an object stands: natively it would be read as fields in order. */
function readOptions(given) {
  refuseOther(given, 'options', CODE)
  const { onRequest, ...options } = readRecovery(given)
  for (const [field, value] of Object.entries(options)) refuseLost(value, field, CODE)
  for (const field of ['ledger', 'providers']) refuseList(options[field], field, CODE)
  refuseList(options.ledger?.events, 'ledger.events', CODE)
  if (options.providers !== null && typeof options.providers === 'object') {
    for (const [name, provider] of Object.entries(options.providers)) {
      refuseList(provider, `providers.${name}`, CODE)
    }
  }
  for (const field of ['authProfiles', 'models']) {
    if (!Array.isArray(options[field])) continue
    options[field].forEach((item, index) => {
      refuseList(item, `${field}[${index}]`, CODE)
    })
  }
  refuseList(options.failover, 'failover', CODE)
  refuseList(options.rateGovernor, 'rateGovernor', CODE)
  refuseList(options.pruning, 'pruning', CODE)
  const { profiles, functions } = readProfiles(options.authProfiles)
  const json = toJson({ ...options, authProfiles: profiles }, 'options', CODE)
  return { json, functions, onRequest: readHook(onRequest, CODE) }
}

module.exports = { readOptions }
