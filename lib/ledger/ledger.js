// The ledger as a broker sees it: reads and writes as promises, answered by the native side off this thread.
// It must never open the file itself: a second SQLite in the process destroys it (docs/rules/faults.md#no-second-sqlite).

import { resolve } from 'node:path'
import * as hub from '../native/hub.js'
import { contextJson, readContext } from '../run/context.js'
import { watch } from '../run/follow.js'
import { refusal } from '../values/errors.js'
import { attempt, readFields, readList, readName, toJson } from '../values/reader.js'

/** Values that a statement may be given: SQLite takes no more. */
const MAX_PARAMS = 32_766

class Ledger {
  #native

  constructor(native) {
    this.#native = native
  }

  #ask(method, args, code = 'invalid_query') {
    return this.#send(
      method,
      toJson(args, 'arguments', () => code),
    )
  }

  #send(method, json) {
    return hub.request((id) => this.#native.ledger(id, method, json))
  }

  async writeTurn(context, result) {
    const turn = {
      context: readContext(context).fields,
      result: readFields(result, 'result', 'invalid_context', 'result.'),
    }
    return this.#send('writeTurn', contextJson(turn, 'arguments'))
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
    const at = typeof time === 'object' ? milliseconds(time) : time
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
    const { label, atToolCall, ...rest } = object('options', given)
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

  watch(label) {
    return watch(this.#native, text('label', label, 'invalid_label'))
  }

  async query(sql, params = []) {
    text('sql', sql, 'invalid_query')
    const values = readList(params, 'params', 'invalid_query')
    if (values === undefined) throw wrong('params', 'an array of values', 'invalid_query')
    if (values.length > MAX_PARAMS) {
      throw refusal('invalid_query', 'params', `has more than ${MAX_PARAMS} values`)
    }
    values.forEach((value, index) => {
      if (!bindable(value)) {
        const what = 'a string, a finite number, a boolean or null'
        throw wrong(`params[${index}]`, what, 'invalid_query')
      }
    })
    return this.#ask('query', { sql, params: values })
  }

  async verify() {
    return this.#ask('verify', {})
  }

  async backup(path) {
    return this.#ask('backup', { path: file('path', path) })
  }

  async stats() {
    return this.#ask('stats', {})
  }

  async vacuum() {
    return this.#ask('vacuum', {})
  }

  async export(path, options = {}) {
    const transfer = { path: file('path', path), ...readTransfer(options) }
    if (transfer.format !== 'ledger' && transfer.session === undefined) {
      throw wrong('session', 'a string; this format holds one session', 'invalid_options')
    }
    return this.#ask('export', transfer)
  }

  async import(path, options = {}) {
    const transfer = { path: file('path', path), ...readTransfer(options) }
    if (transfer.format === 'ledger' && transfer.session !== undefined) {
      const why = 'the sessions of this format keep their labels; leave it out'
      throw refusal('invalid_options', 'session', why)
    }
    return this.#ask('import', transfer)
  }
}

function wrong(field, what, code = 'invalid_context') {
  return refusal(code, field, `is not ${what}`)
}

function text(field, value, code = 'invalid_context') {
  return readName(value, field, code)
}

/** A Date's time; nothing of what is none. */
function milliseconds(time) {
  try {
    return Date.prototype.getTime.call(time)
  } catch {
    return undefined
  }
}

const FORMATS = ['ledger', 'pi', 'myclaw']

/** The options of an import or an export, each checked by name. */
function readTransfer(options) {
  const fields = readFields(options, 'options', 'invalid_options')
  const { format = 'ledger', session, ...rest } = fields
  const [other] = Object.keys(rest)
  if (other !== undefined) {
    throw refusal('invalid_options', other, 'is no option; pass `format` or `session`')
  }
  if (!FORMATS.includes(format))
    throw wrong('format', `one of ${FORMATS.join(', ')}`, 'invalid_options')
  const label = session === null ? undefined : session
  if (label !== undefined) text('session', label, 'invalid_label')
  return { format, session: label }
}

/** The path of a file, as the process's folder makes it: what Rust would resolve is the same, but may be later. */
function file(field, value) {
  text(field, value, 'invalid_options')
  if (value === '' || value.includes('\0'))
    throw wrong(field, 'the path of a file', 'invalid_options')
  return attempt(() => resolve(value), field, 'invalid_options')
}

/** A label, an alias or a persona: its form is checked by the native side. */
function name(field, value) {
  return text(field, value, 'invalid_label')
}

/** The fields of an object, each read once. */
function object(field, value, code = 'invalid_query') {
  return readFields(value, field, code, `${field}.`)
}

/** What SQLite can be given as it is. JSON would turn the rest into null or into nothing. */
function bindable(value) {
  if (typeof value === 'number') return Number.isFinite(value)
  return value === null || typeof value === 'string' || typeof value === 'boolean'
}

/** A fresh ledger of what can still be read of a damaged one. No engine can have it open. */
async function salvageLedger(damaged, fresh) {
  const [from, to] = [file('damaged', damaged), file('fresh', fresh)]
  return hub.request((id) => hub.nativeHub().salvage(id, from, to))
}

export { Ledger, salvageLedger }
