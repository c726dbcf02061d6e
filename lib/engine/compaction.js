// A compaction that somebody asks for: arguments in, a promise of its result, ended by an AbortSignal.
// It must never leave a listener on the caller's signal.

import { lookedAt } from '../native/request-hook.js'
import { refusal } from '../values/errors.js'
import { attempt, readFields, readName, toJson } from '../values/reader.js'
import * as signals from '../values/signals.js'

const CODE = 'invalid_options'

async function compact(native, label, options, onRequest) {
  readName(label, 'label', 'invalid_label')
  const { signal: given, ...fields } = readFields(options, 'options', CODE)
  const signal = signals.readSignal(given, 'signal', CODE)
  if (signal !== undefined && !attempt(() => signal instanceof AbortSignal, 'signal', CODE)) {
    throw refusal(CODE, 'signal', 'is not an AbortSignal')
  }
  signal?.throwIfAborted()
  const json = toJson({ ...fields, label }, 'options', () => CODE)
  let listening
  try {
    const result = await lookedAt(native, onRequest, (id, hooked) => {
      const cancel = { abort: () => native.cancelCompaction(id) }
      if (signal !== undefined) {
        signals.listen(signal, cancel, 'signal', CODE)
        listening = cancel
      }
      native.compact(id, json, hooked)
    })
    // What was written before the signal came stays, and is handed on.
    if (result === null) signal?.throwIfAborted()
    return result
  } finally {
    if (listening !== undefined) unlisten(signal, listening)
  }
}

function unlisten(signal, listener) {
  try {
    signals.unlisten(signal, listener)
  } catch {
    // The compaction has ended, whatever its caller's signal does.
  }
}

export { compact }
