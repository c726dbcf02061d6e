'use strict'
// The ledger as a broker sees it: reads and writes as promises, answered by the native side off this thread.
// It must never open the file itself: a second SQLite in the process destroys it (FAULTS §0.1).

const hub = require('./hub.js')
const { readContext, toJson } = require('./context.js')

class Ledger {
  #native

  constructor(native) {
    this.#native = native
  }

  #ask(method, args) {
    return hub.request((id) => this.#native.ledger(id, method, toJson(args, 'arguments')))
  }

  async writeTurn(context, result) {
    return this.#ask('writeTurn', { context: readContext(context).fields, result })
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

module.exports = { Ledger }
