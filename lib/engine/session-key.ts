// Parses a session's label. It must never throw for any label.

import type { SessionKey } from '../../index.d.ts'
import * as addon from '../native/addon.ts'
import { guarded } from '../values/errors.ts'
import { attempt } from '../values/reader.ts'

/** The parts of a label, parsed by the native side. */
function parseSessionKey(label: string): SessionKey {
  const text = attempt(() => String(label), 'label', 'invalid_label')
  return JSON.parse(guarded(() => addon.NativeEngine.parseSessionKey(text)))
}

export { parseSessionKey }
