'use strict'
// The ledger as a broker sees it: reads and writes as promises, answered by the native side off this thread.
// It must never open the file itself: a second SQLite in the process destroys it (FAULTS §0.1).

const hub = require('./hub.js')
const { AgentEngineError } = require('./errors.js')
const { readTools } = require('./tools.js')

class Ledger {
  #native

  constructor(native) {
    this.#native = native
  }

  #ask(method, args) {
    return hub.request((id) => this.#native.ledger(id, method, toJson(args)))
  }

  async writeTurn(context, result) {
    return this.#ask('writeTurn', { context: contextJson(context), result })
  }

  async session(label) {
    return this.#ask('session', { label })
  }

  async history(labelOrTurnId) {
    return this.#ask('history', { label: labelOrTurnId })
  }

  async turn(id) {
    return this.#ask('turn', { id })
  }

  async fork(turnId, label) {
    return this.#ask('fork', { turnId, label })
  }

  async query(sql, params = []) {
    return this.#ask('query', { sql, params })
  }
}

/** A context as it crosses: without functions and signals. */
function contextJson(context) {
  if (context === null || typeof context !== 'object') {
    throw new AgentEngineError('invalid_context', '`context`: is not an object', 'context')
  }
  const { abortSignal, tools, ...rest } = context
  return { ...rest, tools: readTools(tools).definitions }
}

/** JSON of what the caller gave; what JSON cannot hold is a typed error. */
function toJson(value, code = 'invalid_context') {
  try {
    return JSON.stringify(value)
  } catch (error) {
    throw new AgentEngineError(
      code,
      `the argument cannot be written as JSON: ${error.message}`,
      'context',
    )
  }
}

module.exports = { Ledger, toJson }
