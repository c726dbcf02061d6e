'use strict'
// The engine's options, made ready to cross: what the native side would misread is refused here, the rest is its to check.
// It must never keep or print a key.

const { toJson, refuseList, refuseLost } = require('./context.js')
const { AgentEngineError } = require('./errors.js')

const CODE = 'invalid_options'

/** The JSON of the options. A list is refused wherever an object stands: natively it would be read as fields in order. */
function readOptions(options) {
  if (options === null || typeof options !== 'object' || Array.isArray(options)) {
    throw new AgentEngineError(CODE, '`options`: is not an object', 'options')
  }
  for (const [field, value] of Object.entries(options)) refuseLost(value, field, CODE)
  for (const field of ['ledger', 'providers']) refuseList(options[field], field, CODE)
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
  return toJson(options, 'options', CODE)
}

module.exports = { readOptions }
