'use strict'
// The ledger as a broker sees it: reads and writes as promises, answered by the native side off this thread.
// It must never open the file itself: a second SQLite in the process destroys it (FAULTS §0.1).

const hub = require('./hub.js')
const { readContext, toJson } = require('./context.js')
const { AgentEngineError } = require('./errors.js')

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

  async ancestry(turnId, page = {}) {
    return this.#ask('ancestry', { turnId: text('turnId', turnId), page: object('page', page) })
  }

  async children(turnId, page = {}) {
    return this.#ask('children', { turnId: text('turnId', turnId), page: object('page', page) })
  }

  async sessionHistory(label, page = {}) {
    return this.#ask('sessionHistory', { label: name('label', label), page: object('page', page) })
  }

  async asOf(label, time) {
    const at = time instanceof Date ? time.getTime() : time
    if (!Number.isSafeInteger(at)) {
      throw wrong('time', 'a Date or whole milliseconds since 1970', 'invalid_query')
    }
    return this.#ask('asOf', { label: name('label', label), time: at })
  }

  async search(words, options = {}) {
    const asked = {
      text: text('text', words, 'invalid_query'),
      options: object('options', options),
    }
    return this.#ask('search', asked)
  }

  async usage(filter) {
    return this.#ask('usage', { filter: object('filter', filter) })
  }

  async sessions(filter = {}) {
    return this.#ask('sessions', { filter: object('filter', filter) })
  }

  async toolCalls(filter = {}) {
    return this.#ask('toolCalls', { filter: object('filter', filter) })
  }

  async fork(turnId, options = {}) {
    // A label alone is enough.
    const given = options !== null && typeof options === 'object' ? options : { label: options }
    const { label, atToolCall, ...rest } = given
    return this.#ask('fork', {
      turnId: text('turnId', turnId),
      options: {
        ...rest,
        label: label === undefined || label === null ? undefined : name('label', label),
        atToolCall: atToolCall === undefined ? undefined : text('options.atToolCall', atToolCall),
      },
    })
  }

  async resolve(label) {
    return this.#ask('resolve', { label: name('label', label) })
  }

  async alias(alias, label) {
    return this.#ask('alias', { alias: name('alias', alias), label: name('label', label) })
  }

  async removeAlias(alias) {
    return this.#ask('removeAlias', { alias: name('alias', alias) })
  }

  async aliases(page = {}) {
    const { sessionLabel, ...rest } = object('page', page)
    const label = sessionLabel === undefined ? undefined : name('page.sessionLabel', sessionLabel)
    return this.#ask('aliases', { label, page: rest })
  }

  async archive(label) {
    return this.#ask('archive', { label: name('label', label) })
  }

  async unarchive(label) {
    return this.#ask('unarchive', { label: name('label', label) })
  }

  async persona(id) {
    return this.#ask('persona', { id: name('id', id) })
  }

  async personas(page = {}) {
    return this.#ask('personas', { page: object('page', page) })
  }

  async putPersona(id, options = {}) {
    return this.#ask('putPersona', { id: name('id', id), options: object('options', options) })
  }

  async uncompact(label) {
    return this.#ask('uncompact', { label: text('label', label, 'invalid_label') })
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

/** A label, an alias or a persona: its form is checked by the native side. */
function name(field, value) {
  return text(field, value, 'invalid_label')
}

function object(field, value, code = 'invalid_query') {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw wrong(field, 'an object', code)
  }
  return value
}

/** What SQLite can be given as it is. JSON would turn the rest into null or into nothing. */
function bindable(value) {
  if (typeof value === 'number') return Number.isFinite(value)
  return value === null || typeof value === 'string' || typeof value === 'boolean'
}

module.exports = { Ledger }
