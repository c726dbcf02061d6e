'use strict'
// The one error class of the package, and its making from what the native side throws.
// It must never carry a value of the caller beyond a short name.

/** The longest that is told of what was thrown. */
const MAX_MESSAGE = 65536

/** A call was refused before anything was written or sent, or the ledger failed. `code` is stable. */
class AgentEngineError extends Error {
  constructor(code, message, field, error) {
    super(message)
    this.name = 'AgentEngineError'
    this.code = code
    if (field !== undefined && field !== null) this.field = field
    if (error !== undefined && error !== null) this.error = error
  }
}

/** What was thrown, in words, at most 65,536 characters of them; of what has none, what `who` did. Never throws. */
function messageOf(error, who) {
  try {
    const message = wordsOf(error)
    return message === '' ? `${who} failed without a message` : message.slice(0, MAX_MESSAGE)
  } catch {
    return `${who} failed with an error that cannot be read`
  }
}

function wordsOf(error) {
  if (error === undefined || error === null) return ''
  if (typeof error.message === 'string') return error.message
  if (typeof error === 'object' && !(error instanceof Error)) return JSON.stringify(error) ?? ''
  return String(error)
}

/** Turns what the native side threw (JSON in the message) into an AgentEngineError. */
function fromNative(error) {
  if (error instanceof AgentEngineError) return error
  try {
    const { code, message, field, error: failure } = JSON.parse(error.message)
    return new AgentEngineError(code, message, field, failure)
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

module.exports = { AgentEngineError, fromNative, guarded, messageOf }
