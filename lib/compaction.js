'use strict'
// A compaction that somebody asks for: arguments in, a promise of its result, ended by an AbortSignal.
// It must never leave a listener on the caller's signal.

const { refuseOther, toJson } = require('./context.js')
const { AgentEngineError } = require('./errors.js')
const { lookedAt } = require('./request.js')

const CODE = 'invalid_options'

async function compact(native, label, options, onRequest) {
  if (typeof label !== 'string') {
    throw new AgentEngineError('invalid_label', '`label`: is not a string', 'label')
  }
  refuseOther(options, 'options', CODE)
  const { signal, ...fields } = options
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new AgentEngineError(CODE, '`signal`: is not an AbortSignal', 'signal')
  }
  signal?.throwIfAborted()
  const json = toJson({ ...fields, label }, 'options', CODE)
  let cancel
  try {
    const result = await lookedAt(native, onRequest, (id, hooked) => {
      native.compact(id, json, hooked)
      cancel = () => native.cancelCompaction(id)
      signal?.addEventListener('abort', cancel, { once: true })
    })
    // What was written before the signal came stays, and is told.
    if (result === null) signal?.throwIfAborted()
    return result
  } finally {
    if (cancel !== undefined) signal?.removeEventListener('abort', cancel)
  }
}

module.exports = { compact }
