'use strict'
// The ledger as a broker sees it: reads and writes as promises, answered by the native side off this thread.
// It must never open the file itself: a second SQLite in the process destroys it (FAULTS §0.1).

const hub = require('./hub.js')
const { readContext, toJson } = require('./context.js')
const { AgentEngineError } = require('./errors.js')
const { watch } = require('./follow.js')

class Ledger {
  #native

  constructor(native) {
    this.#native = native
  }

  #ask(method, args) {
    return hub.request((id) => this.#native.ledger(id, method, toJson(args, 'arguments')))
  }

  async writeTurn(context, result) {
    if (result === null || typeof result !== 'object') throw wrong('result', 'an object')
    return this.#ask('writeTurn', { context: readContext(context).fields, result })
  }

  async session(label) {
    return this.#ask('session', { label: text('label', label, 'invalid_label') })
  }

  async history(labelOrTurnId) {
    return this.#ask('history', { label: text('labelOrTurnId', labelOrTurnId) })
  }

  async turn(id) {
    return this.#ask('turn', { id: text('id', id) })
  }

  async fork(turnId, label) {
    const given = label !== undefined && label !== null
    return this.#ask('fork', {
      turnId: text('turnId', turnId),
      label: given ? text('label', label, 'invalid_label') : undefined,
    })
  }

  async uncompact(label) {
    return this.#ask('uncompact', { label: text('label', label, 'invalid_label') })
  }

  watch(label) {
    return watch(this.#native, text('label', label, 'invalid_label'))
  }

  async query(sql, params = []) {
    text('sql', sql, 'invalid_query')
    if (!Array.isArray(params)) throw wrong('params', 'an array of values', 'invalid_query')
    for (let index = 0; index < params.length; index++) {
      if (!bindable(params[index])) {
        const what = 'a string, a finite number, a boolean or null'
        throw wrong(`params[${index}]`, what, 'invalid_query')
      }
    }
    return this.#ask('query', { sql, params })
  }
}

function wrong(field, what, code = 'invalid_context') {
  return new AgentEngineError(code, `\`${field}\`: is not ${what}`, field)
}

function text(field, value, code) {
  if (typeof value !== 'string') throw wrong(field, 'a string', code)
  return value
}

/** What SQLite can be given as it is. JSON would turn the rest into null or into nothing. */
function bindable(value) {
  if (typeof value === 'number') return Number.isFinite(value)
  return value === null || typeof value === 'string' || typeof value === 'boolean'
}

module.exports = { Ledger }
