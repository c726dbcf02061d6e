// What a session's label says. It must never throw for a label, whatever it is.

import * as native from '../native/addon.js'
import { guarded } from '../values/errors.js'
import { attempt } from '../values/reader.js'

function parseSessionKey(label) {
  const text = attempt(() => String(label), 'label', 'invalid_label')
  return JSON.parse(guarded(() => native.NativeEngine.parseSessionKey(text)))
}

export { parseSessionKey }
