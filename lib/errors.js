'use strict'
// The one error class of the package, and its making from what the native side throws.
// It must never carry a value of the caller beyond a short name.

/** A call was refused before anything was written or sent, or the ledger failed. `code` is stable. */
class AgentEngineError extends Error {
  constructor(code, message, field) {
    super(message)
    this.name = 'AgentEngineError'
    this.code = code
    if (field !== undefined && field !== null) this.field = field
  }
}

/** Turns what the native side threw (JSON in the message) into an AgentEngineError. */
function fromNative(error) {
  if (error instanceof AgentEngineError) return error
  try {
    const { code, message, field } = JSON.parse(error.message)
    return new AgentEngineError(code, message, field)
  } catch {
    return new AgentEngineError('internal', String(error?.message ?? error))
  }
}

/** Calls the native side; what it throws becomes an AgentEngineError with the caller's stack. */
function guarded(call) {
  try {
    return call()
  } catch (error) {
    const typed = fromNative(error)
    Error.captureStackTrace?.(typed, guarded)
    throw typed
  }
}

module.exports = { AgentEngineError, fromNative, guarded }
