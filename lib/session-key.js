'use strict'
// What a session's label says. It must never throw for a label, whatever it is.

const native = require('../binding.js')
const { guarded } = require('./errors.js')

function parseSessionKey(label) {
  return JSON.parse(guarded(() => native.NativeEngine.parseSessionKey(String(label))))
}

module.exports = { parseSessionKey }
