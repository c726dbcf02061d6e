// The public ledger API: reads and writes as promises, executed by the native side on other threads.
// It must never open the file itself: a second SQLite in the process destroys it (docs/rules/faults.md#no-second-sqlite).

import { resolve } from 'node:path'
import type { NativeEngine } from '../../binding.d.ts'
import type * as types from '../../index.d.ts'
import * as hub from '../native/hub.ts'
import { contextJson, readContext } from '../run/context.ts'
import { watch } from '../run/follow.ts'
import { type AgentEngineError, type Code, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { attempt, type Fields, readFields, readList, readName } from '../values/reader.ts'

/** The maximum number of parameters of a statement in SQLite. */
const MAX_PARAMS = 32_766

class Ledger implements types.Ledger {
  #native: NativeEngine

  constructor(native: NativeEngine) {
    this.#native = native
  }

  #request<Value>(method: string, args: Fields, code: Code = 'invalid_query'): Promise<Value> {
    return this.#send(
      method,
      toJson(args, 'arguments', () => code),
    )
  }

  #send<Value>(method: string, json: string): Promise<Value> {
    return hub.request((id) => this.#native.ledger(id, method, json))
  }

  async writeTurn(
    context: types.AssembledContext,
    result: types.AgentResultInput,
  ): Promise<string> {
    const turn = {
      context: readContext(readFields(context, 'context', 'invalid_context')).fields,
      result: readFields(result, 'result', 'invalid_context', 'result.'),
    }
    return this.#send('writeTurn', contextJson(turn, 'arguments'))
  }

  async session(label: string): Promise<types.SessionRow | null> {
    return this.#request('session', { label: text('label', label, 'invalid_label') })
  }

  async history(labelOrTurnId: string): Promise<types.HistoryMessage[]> {
    return this.#request('history', { label: text('labelOrTurnId', labelOrTurnId) })
  }

  async turn(id: string): Promise<types.TurnRow | null> {
    return this.#request('turn', { id: text('id', id) })
  }

  async ancestry(
    turnId: string,
    page: types.PageOptions = {},
  ): Promise<types.Page<types.TurnSummary>> {
    return this.#request('ancestry', { turnId: text('turnId', turnId), page: object('page', page) })
  }

  async children(
    turnId: string,
    page: types.PageOptions = {},
  ): Promise<types.Page<types.TurnSummary>> {
    return this.#request('children', { turnId: text('turnId', turnId), page: object('page', page) })
  }

  async diff(
    turnA: string,
    turnB: string,
    options: types.DiffOptions = {},
  ): Promise<types.TurnDiff> {
    return this.#request('diff', {
      turnA: text('turnA', turnA, 'invalid_query'),
      turnB: text('turnB', turnB, 'invalid_query'),
      options: object('options', options),
    })
  }

  async sessionHistory(
    label: string,
    page: types.PageOptions = {},
  ): Promise<types.Page<types.SessionMove>> {
    return this.#request('sessionHistory', {
      label: name('label', label),
      page: object('page', page),
    })
  }

  async asOf(label: string, time: Date | number): Promise<types.SessionMove | null> {
    return this.#request('asOf', { label: name('label', label), time: timeOf('time', time) })
  }

  async search(
    words: string,
    options: types.SearchOptions = {},
  ): Promise<types.Page<types.SearchHit, number>> {
    const query = {
      text: text('text', words, 'invalid_query'),
      options: object('options', options),
    }
    return this.#request('search', query)
  }

  async usage(filter: types.UsageFilter): Promise<types.Page<types.UsageRow>> {
    return this.#request('usage', { filter: object('filter', filter) })
  }

  async sessions(filter: types.SessionFilter = {}): Promise<types.Page<types.SessionRow>> {
    return this.#request('sessions', { filter: object('filter', filter) })
  }

  async turns(filter: types.TurnFilter = {}): Promise<types.Page<types.TurnSummary>> {
    return this.#request('turns', { filter: object('filter', filter) })
  }

  async createSession(label: string, session: types.SessionChange = {}): Promise<types.SessionRow> {
    return this.#request('createSession', {
      label: name('label', label),
      session: object('session', session),
    })
  }

  async updateSession(label: string, session: types.SessionChange): Promise<types.SessionRow> {
    return this.#request('updateSession', {
      label: name('label', label),
      session: object('session', session),
    })
  }

  async indexMetadata(key: string): Promise<boolean> {
    return this.#request('indexMetadata', { key: text('key', key, 'invalid_query'), indexed: true })
  }

  async unindexMetadata(key: string): Promise<boolean> {
    return this.#request('indexMetadata', {
      key: text('key', key, 'invalid_query'),
      indexed: false,
    })
  }

  async deleteSession(
    label: string,
    options: types.DeleteSessionOptions = {},
  ): Promise<types.LedgerDeletion> {
    return this.#request('delete', {
      session: { label: name('label', label), options: object('options', options) },
    })
  }

  async deleteTurns(
    filter: types.TurnSelection,
    options: types.DeleteTurnsOptions = {},
  ): Promise<types.LedgerDeletion> {
    return this.#request('delete', {
      turns: { filter: object('filter', filter), options: object('options', options) },
    })
  }

  async prune(options: types.PruneOptions): Promise<types.LedgerDeletion> {
    const { before, ...rest } = object('options', options)
    return this.#request('delete', {
      prune: { options: { ...rest, before: timeOf('options.before', before) } },
    })
  }

  async toolCalls(filter: types.ToolCallFilter = {}): Promise<types.Page<types.ToolCallRow>> {
    return this.#request('toolCalls', { filter: object('filter', filter) })
  }

  async fork(turnId: string, options: string | types.ForkOptions = {}): Promise<types.SessionRow> {
    // A label is allowed in place of the options.
    const given = options !== null && typeof options === 'object' ? options : { label: options }
    const { label, atToolCall, ...rest } = object('options', given)
    return this.#request('fork', {
      turnId: text('turnId', turnId),
      options: {
        ...rest,
        label: label === undefined || label === null ? undefined : name('label', label),
        atToolCall: atToolCall === undefined ? undefined : text('options.atToolCall', atToolCall),
      },
    })
  }

  async resolve(label: string): Promise<string> {
    return this.#request('resolve', { label: name('label', label) })
  }

  async alias(alias: string, label: string): Promise<types.AliasRow> {
    return this.#request('alias', { alias: name('alias', alias), label: name('label', label) })
  }

  async removeAlias(alias: string): Promise<boolean> {
    return this.#request('removeAlias', { alias: name('alias', alias) })
  }

  async aliases(
    page: types.PageOptions & { sessionLabel?: string } = {},
  ): Promise<types.Page<types.AliasRow>> {
    const { sessionLabel, ...rest } = object('page', page)
    const label = sessionLabel === undefined ? undefined : name('page.sessionLabel', sessionLabel)
    return this.#request('aliases', { label, page: rest })
  }

  async archive(label: string): Promise<types.SessionRow> {
    return this.#request('archive', { label: name('label', label) })
  }

  async unarchive(label: string): Promise<types.SessionRow> {
    return this.#request('unarchive', { label: name('label', label) })
  }

  async persona(id: string): Promise<types.PersonaRow | null> {
    return this.#request('persona', { id: name('id', id) })
  }

  async personas(page: types.PageOptions = {}): Promise<types.Page<types.PersonaRow>> {
    return this.#request('personas', { page: object('page', page) })
  }

  async putPersona(
    id: string,
    options: { mainSessionLabel?: string } = {},
  ): Promise<types.PersonaRow> {
    return this.#request('putPersona', { id: name('id', id), options: object('options', options) })
  }

  async uncompact(label: string): Promise<types.SessionRow | null> {
    return this.#request('uncompact', { label: text('label', label, 'invalid_label') })
  }

  watch(label: string): AsyncIterableIterator<types.SessionEvent> {
    return watch(this.#native, text('label', label, 'invalid_label'))
  }

  async query(
    sql: string,
    params: readonly (string | number | boolean | null)[] = [],
  ): Promise<types.QueryResult> {
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
    return this.#request('query', { sql, params: values })
  }

  async verify(): Promise<types.LedgerReport> {
    return this.#request('verify', {})
  }

  async backup(path: string): Promise<types.LedgerBackup> {
    return this.#request('backup', { path: file('path', path) })
  }

  async stats(): Promise<types.LedgerStats> {
    return this.#request('stats', {})
  }

  async vacuum(): Promise<types.LedgerVacuum> {
    return this.#request('vacuum', {})
  }

  async export(path: string, options: types.ExportOptions = {}): Promise<types.LedgerExport> {
    const transfer = { path: file('path', path), ...readTransfer(options) }
    if (transfer.format !== 'ledger' && transfer.session === undefined) {
      throw wrong('session', 'a string; this format holds one session', 'invalid_options')
    }
    return this.#request('export', transfer)
  }

  async import(path: string, options: types.ImportOptions = {}): Promise<types.LedgerImport> {
    const transfer = { path: file('path', path), ...readTransfer(options) }
    if (transfer.format === 'ledger' && transfer.session !== undefined) {
      const why = 'the sessions of this format keep their labels; leave it out'
      throw refusal('invalid_options', 'session', why)
    }
    return this.#request('import', transfer)
  }
}

/** A refusal of a field that is not `what`. */
function wrong(field: string, what: string, code: Code = 'invalid_context'): AgentEngineError {
  return refusal(code, field, `is not ${what}`)
}

/** A text of the caller. */
function text(field: string, value: unknown, code: Code = 'invalid_context'): string {
  return readName(value, field, code)
}

/** A time of the caller in Unix milliseconds. */
function timeOf(field: string, time: unknown): number {
  const at = typeof time === 'object' && time !== null ? milliseconds(time as Date) : time
  if (typeof at === 'number' && Number.isSafeInteger(at)) return at
  throw wrong(field, 'a Date or whole milliseconds since 1970', 'invalid_query')
}

/** A Date's time; undefined for what is no Date. */
function milliseconds(time: Date): number | undefined {
  try {
    return Date.prototype.getTime.call(time)
  } catch {
    return undefined
  }
}

const FORMATS: readonly unknown[] = ['ledger', 'pi', 'myclaw']

/** The common part of an import and an export. */
interface Transfer {
  format: types.LedgerFormat
  session: string | undefined
}

/** The options of an import or an export, each checked by name. */
function readTransfer(options: unknown): Transfer {
  const fields = readFields(options, 'options', 'invalid_options')
  const { format = 'ledger', session, ...rest } = fields
  const [other] = Object.keys(rest)
  if (other !== undefined) {
    throw refusal('invalid_options', other, 'is no option; pass `format` or `session`')
  }
  if (!FORMATS.includes(format))
    throw wrong('format', `one of ${FORMATS.join(', ')}`, 'invalid_options')
  const label =
    session === undefined || session === null
      ? undefined
      : text('session', session, 'invalid_label')
  return { format: format as types.LedgerFormat, session: label }
}

/** The path of a file, made absolute now: the process may change its folder before Rust opens it. */
function file(field: string, value: unknown): string {
  const path = text(field, value, 'invalid_options')
  if (path === '' || path.includes('\0'))
    throw wrong(field, 'the path of a file', 'invalid_options')
  return attempt(() => resolve(path), field, 'invalid_options')
}

/** A label, an alias or a persona: its form is checked by the native side. */
function name(field: string, value: unknown): string {
  return text(field, value, 'invalid_label')
}

/** The fields of an object, each read exactly once. */
function object(field: string, value: unknown, code: Code = 'invalid_query'): Fields {
  return readFields(value, field, code, `${field}.`)
}

/** Whether SQLite accepts the value unchanged. JSON would drop other values or turn them into null. */
function bindable(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  return value === null || typeof value === 'string' || typeof value === 'boolean'
}

/** Copies everything that is readable in a damaged ledger to a new one. No engine may have it open. */
async function salvageLedger(damaged: string, fresh: string): Promise<types.LedgerSalvage> {
  const [from, to] = [file('damaged', damaged), file('fresh', fresh)]
  return hub.request((id) => hub.nativeHub().salvage(id, from, to))
}

export { Ledger, salvageLedger }
