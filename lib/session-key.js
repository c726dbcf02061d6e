'use strict'
// What a session's label says. It must never throw for a label, whatever it is.

const native = require('./native.js')
const { guarded } = require('./errors.js')
const { attempt } = require('./reader.js')

function parseSessionKey(label) {
  const text = attempt(() => String(label), 'label', 'invalid_label')
  return JSON.parse(guarded(() => native.NativeEngine.parseSessionKey(text)))
}

module.exports = { parseSessionKey }
