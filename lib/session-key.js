// What a session's label says. It must never throw for a label, whatever it is.

import { guarded } from './errors.js'
import * as native from './native.js'
import { attempt } from './reader.js'

function parseSessionKey(label) {
  const text = attempt(() => String(label), 'label', 'invalid_label')
  return JSON.parse(guarded(() => native.NativeEngine.parseSessionKey(text)))
}

export { parseSessionKey }
