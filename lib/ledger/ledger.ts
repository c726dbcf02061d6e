// The public ledger API: reads and writes as promises, executed by the native side on other threads.
// It must never open the file itself: a second SQLite in the process destroys it (docs/rules/faults.md#no-second-sqlite).

import { resolve } from 'node:path'
import type { NativeEngine as Native } from '../../binding.d.ts'
import type * as types from '../../index.d.ts'
import { abortableRequest, signalOf } from '../native/abortable.ts'
import { NativeEngine } from '../native/addon.ts'
import * as hub from '../native/hub.ts'
import { contextJson, noteProblems, readContext } from '../run/context.ts'
import { watch } from '../run/follow.ts'
import { SMALLEST } from '../run/smallest-context.ts'
import { type AgentEngineError, type Code, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { listed, noted, type Problems } from '../values/problems.ts'
import { attempt, type Fields, readFields, readList, readName } from '../values/reader.ts'
import { copyLedger } from './copy.ts'

const CODE = 'invalid_context'
/** The maximum number of parameters of a statement in SQLite. */
const MAX_PARAMS = 32_766

class Ledger implements types.Ledger {
  #native: Native

  constructor(native: Native) {
    this.#native = native
  }

  #request<Value>(
    method: string,
    args: Fields,
    signal: unknown,
    code: Code = 'invalid_query',
  ): Promise<Value> {
    return this.#send(
      method,
      toJson(args, 'arguments', () => code),
      signal,
    )
  }

  #send<Value>(method: string, json: string, signal: unknown): Promise<Value> {
    return abortableRequest(signal, (id) => this.#native.ledger(id, method, json))
  }

  async writeTurn(
    context: types.AssembledContext,
    result: types.AgentResultInput,
    options: types.CallOptions = {},
  ): Promise<string> {
    const signal = signalOf(options)
    try {
      const turn = {
        context: readContext(readFields(context, 'context', CODE)).fields,
        result: readFields(result, 'result', CODE, 'result.'),
      }
      return await this.#send<string>('writeTurn', contextJson(turn, 'arguments'), signal)
    } catch (error) {
      throw listed(error, (problems) => noteTurnProblems(context, result, problems))
    }
  }

  async session(label: string, options: types.CallOptions = {}): Promise<types.SessionRow | null> {
    const named = text('label', label, 'invalid_label')
    return this.#request('session', { label: named }, signalOf(options))
  }

  async history(
    labelOrTurnId: string,
    options: types.CallOptions = {},
  ): Promise<types.HistoryMessage[]> {
    const label = text('labelOrTurnId', labelOrTurnId)
    return this.#request('history', { label }, signalOf(options))
  }

  async turn(id: string, options: types.CallOptions = {}): Promise<types.TurnRow | null> {
    return this.#request('turn', { id: text('id', id) }, signalOf(options))
  }

  async ancestry(
    turnId: string,
    page: types.PageOptions & types.CallOptions = {},
  ): Promise<types.Page<types.TurnSummary>> {
    const { signal, ...rest } = object('page', page)
    return this.#request('ancestry', { turnId: text('turnId', turnId), page: rest }, signal)
  }

  async children(
    turnId: string,
    page: types.PageOptions & types.CallOptions = {},
  ): Promise<types.Page<types.TurnSummary>> {
    const { signal, ...rest } = object('page', page)
    return this.#request('children', { turnId: text('turnId', turnId), page: rest }, signal)
  }

  async diff(
    turnA: string,
    turnB: string,
    options: types.DiffOptions & types.CallOptions = {},
  ): Promise<types.TurnDiff> {
    const { signal, ...rest } = object('options', options)
    const args = {
      turnA: text('turnA', turnA, 'invalid_query'),
      turnB: text('turnB', turnB, 'invalid_query'),
      options: rest,
    }
    return this.#request('diff', args, signal)
  }

  async sessionHistory(
    label: string,
    page: types.PageOptions & types.CallOptions = {},
  ): Promise<types.Page<types.SessionMove>> {
    const { signal, ...rest } = object('page', page)
    return this.#request('sessionHistory', { label: name('label', label), page: rest }, signal)
  }

  async asOf(
    label: string,
    time: Date | number,
    options: types.CallOptions = {},
  ): Promise<types.SessionMove | null> {
    const args = { label: name('label', label), time: timeOf('time', time) }
    return this.#request('asOf', args, signalOf(options))
  }

  async search(
    words: string,
    options: types.SearchOptions & types.CallOptions = {},
  ): Promise<types.Page<types.SearchHit, number>> {
    const { signal, ...rest } = object('options', options)
    const query = { text: text('text', words, 'invalid_query'), options: rest }
    return this.#request('search', query, signal)
  }

  async usage(filter: types.UsageFilter & types.CallOptions): Promise<types.Page<types.UsageRow>> {
    return this.#list('usage', filter)
  }

  async sessions(
    filter: types.SessionFilter & types.CallOptions = {},
  ): Promise<types.Page<types.SessionRow>> {
    return this.#list('sessions', filter)
  }

  async turns(
    filter: types.TurnFilter & types.CallOptions = {},
  ): Promise<types.Page<types.TurnSummary>> {
    return this.#list('turns', filter)
  }

  async createSession(
    label: string,
    session: types.SessionChange & types.CallOptions = {},
  ): Promise<types.SessionRow> {
    const { signal, ...rest } = object('session', session)
    return this.#request('createSession', { label: name('label', label), session: rest }, signal)
  }

  async updateSession(
    label: string,
    session: types.SessionChange & types.CallOptions,
  ): Promise<types.SessionRow> {
    const { signal, ...rest } = object('session', session)
    return this.#request('updateSession', { label: name('label', label), session: rest }, signal)
  }

  async indexMetadata(key: string, options: types.CallOptions = {}): Promise<boolean> {
    const args = { key: text('key', key, 'invalid_query'), indexed: true }
    return this.#request('indexMetadata', args, signalOf(options))
  }

  async unindexMetadata(key: string, options: types.CallOptions = {}): Promise<boolean> {
    const args = { key: text('key', key, 'invalid_query'), indexed: false }
    return this.#request('indexMetadata', args, signalOf(options))
  }

  async deleteSession(
    label: string,
    options: types.DeleteSessionOptions & types.CallOptions = {},
  ): Promise<types.LedgerDeletion> {
    const { signal, ...rest } = object('options', options)
    const session = { label: name('label', label), options: rest }
    return this.#request('delete', { session }, signal)
  }

  async deleteTurns(
    filter: types.TurnSelection,
    options: types.DeleteTurnsOptions & types.CallOptions = {},
  ): Promise<types.LedgerDeletion> {
    const { signal, ...rest } = object('options', options)
    const turns = { filter: object('filter', filter), options: rest }
    return this.#request('delete', { turns }, signal)
  }

  async prune(options: types.PruneOptions & types.CallOptions): Promise<types.LedgerDeletion> {
    const { before, signal, ...rest } = object('options', options)
    const prune = { options: { ...rest, before: timeOf('options.before', before) } }
    return this.#request('delete', { prune }, signal)
  }

  async toolCalls(
    filter: types.ToolCallFilter & types.CallOptions = {},
  ): Promise<types.Page<types.ToolCallRow>> {
    return this.#list('toolCalls', filter)
  }

  #list<Row>(method: string, filter: unknown): Promise<types.Page<Row>> {
    const { signal, ...rest } = object('filter', filter)
    return this.#request(method, { filter: rest }, signal)
  }

  async fork(
    turnId: string,
    options: string | (types.ForkOptions & types.CallOptions) = {},
  ): Promise<types.SessionRow> {
    // A label is allowed in place of the options.
    const given = options !== null && typeof options === 'object' ? options : { label: options }
    const { label, atToolCall, signal, ...rest } = object('options', given)
    const args = {
      turnId: text('turnId', turnId),
      options: {
        ...rest,
        label: label === undefined || label === null ? undefined : name('label', label),
        atToolCall: atToolCall === undefined ? undefined : text('options.atToolCall', atToolCall),
      },
    }
    return this.#request('fork', args, signal)
  }

  async resolve(label: string, options: types.CallOptions = {}): Promise<string> {
    return this.#request('resolve', { label: name('label', label) }, signalOf(options))
  }

  async alias(
    alias: string,
    label: string,
    options: types.CallOptions = {},
  ): Promise<types.AliasRow> {
    const args = { alias: name('alias', alias), label: name('label', label) }
    return this.#request('alias', args, signalOf(options))
  }

  async removeAlias(alias: string, options: types.CallOptions = {}): Promise<boolean> {
    return this.#request('removeAlias', { alias: name('alias', alias) }, signalOf(options))
  }

  async aliases(
    page: types.PageOptions & { sessionLabel?: string } & types.CallOptions = {},
  ): Promise<types.Page<types.AliasRow>> {
    const { sessionLabel, signal, ...rest } = object('page', page)
    const label = sessionLabel === undefined ? undefined : name('page.sessionLabel', sessionLabel)
    return this.#request('aliases', { label, page: rest }, signal)
  }

  async archive(label: string, options: types.CallOptions = {}): Promise<types.SessionRow> {
    return this.#request('archive', { label: name('label', label) }, signalOf(options))
  }

  async unarchive(label: string, options: types.CallOptions = {}): Promise<types.SessionRow> {
    return this.#request('unarchive', { label: name('label', label) }, signalOf(options))
  }

  async persona(id: string, options: types.CallOptions = {}): Promise<types.PersonaRow | null> {
    return this.#request('persona', { id: name('id', id) }, signalOf(options))
  }

  async personas(
    page: types.PageOptions & types.CallOptions = {},
  ): Promise<types.Page<types.PersonaRow>> {
    const { signal, ...rest } = object('page', page)
    return this.#request('personas', { page: rest }, signal)
  }

  async putPersona(
    id: string,
    options: { mainSessionLabel?: string } & types.CallOptions = {},
  ): Promise<types.PersonaRow> {
    const { signal, ...rest } = object('options', options)
    return this.#request('putPersona', { id: name('id', id), options: rest }, signal)
  }

  async moveSession(
    label: string,
    turnId: string,
    options: types.MoveOptions & types.CallOptions = {},
  ): Promise<types.SessionRow> {
    const { expectedHead, signal, ...rest } = object('options', options)
    const args = {
      label: name('label', label),
      turnId: text('turnId', turnId),
      options: {
        ...rest,
        expectedHead:
          expectedHead === undefined ? undefined : text('options.expectedHead', expectedHead),
      },
    }
    return this.#request('moveSession', args, signal)
  }

  async uncompact(
    label: string,
    options: types.CallOptions = {},
  ): Promise<types.SessionRow | null> {
    const named = text('label', label, 'invalid_label')
    return this.#request('uncompact', { label: named }, signalOf(options))
  }

  watch(label: string): AsyncIterableIterator<types.SessionEvent> {
    return watch(this.#native, text('label', label, 'invalid_label'))
  }

  async query(
    sql: string,
    params: readonly (string | number | boolean | null)[] = [],
    options: types.CallOptions = {},
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
    return this.#request('query', { sql, params: values }, signalOf(options))
  }

  async verify(options: types.CallOptions = {}): Promise<types.LedgerReport> {
    return this.#request('verify', {}, signalOf(options))
  }

  async backup(path: string, options: types.CallOptions = {}): Promise<types.LedgerBackup> {
    return this.#request('backup', { path: file('path', path) }, signalOf(options))
  }

  async stats(options: types.CallOptions = {}): Promise<types.LedgerStats> {
    return this.#request('stats', {}, signalOf(options))
  }

  async vacuum(options: types.CallOptions = {}): Promise<types.LedgerVacuum> {
    return this.#request('vacuum', {}, signalOf(options))
  }

  async export(
    path: string,
    options: types.ExportOptions & types.CallOptions = {},
  ): Promise<types.LedgerExport> {
    const { signal, ...given } = readTransfer(options)
    const transfer = { path: file('path', path), ...given }
    if (transfer.format !== 'ledger' && transfer.session === undefined) {
      throw wrong('session', 'a string; this format holds one session', 'invalid_options')
    }
    return this.#request('export', transfer, signal)
  }

  async copyTo(
    target: types.LedgerOptions | types.PostgresLedgerOptions,
    options: types.CopyOptions & types.CallOptions = {},
  ): Promise<types.LedgerCopy> {
    return copyLedger((args, signal) => this.#request('copy', args, signal), target, options)
  }

  async import(
    path: string,
    options: types.ImportOptions & types.CallOptions = {},
  ): Promise<types.LedgerImport> {
    const { signal, ...given } = readTransfer(options)
    const transfer = { path: file('path', path), ...given }
    if (transfer.format === 'ledger' && transfer.session !== undefined) {
      const why = 'the sessions of this format keep their labels; leave it out'
      throw refusal('invalid_options', 'session', why)
    }
    return this.#request('import', transfer, signal)
  }
}

/** Notes all problems of a broker's own turn. */
function noteTurnProblems(context: unknown, result: unknown, problems: Problems): void {
  const given = noted(problems.note, () => readFields(context, 'context', CODE))
  if (given !== undefined) noteProblems(given, problems, (json) => NativeEngine.fieldProblems(json))
  const fields = noted(problems.note, () => readFields(result, 'result', CODE, 'result.'))
  if (fields === undefined) return
  const turn = { context: readContext({ ...SMALLEST }).fields, result: fields }
  const json = noted(problems.note, () => contextJson(turn, 'arguments'))
  if (json !== undefined) problems.add(NativeEngine.turnProblems(json))
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
  signal: unknown
}

/** The options of an import or an export, each checked by name. */
function readTransfer(options: unknown): Transfer {
  const fields = readFields(options, 'options', 'invalid_options')
  const { format = 'ledger', session, signal, ...rest } = fields
  const [other] = Object.keys(rest)
  if (other !== undefined) {
    throw refusal('invalid_options', other, 'is no option; pass `format`, `session` or `signal`')
  }
  if (!FORMATS.includes(format))
    throw wrong('format', `one of ${FORMATS.join(', ')}`, 'invalid_options')
  const label =
    session === undefined || session === null
      ? undefined
      : text('session', session, 'invalid_label')
  return { format: format as types.LedgerFormat, session: label, signal }
}

/** The path of a file, made absolute now: the process may change its folder before Rust opens it. */
function file(field: string, value: unknown): string {
  const path = text(field, value, 'invalid_options')
  if (path === '' || path.includes('\0'))
    throw wrong(field, 'the path of a file', 'invalid_options')
  // The native side says what there is for a server.
  if (/^postgres(ql)?:/.test(path)) return path
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
async function salvageLedger(
  damaged: string,
  fresh: string,
  options: types.CallOptions = {},
): Promise<types.LedgerSalvage> {
  const [from, to] = [file('damaged', damaged), file('fresh', fresh)]
  return abortableRequest(signalOf(options), (id) => hub.nativeHub().salvage(id, from, to))
}

export { Ledger, salvageLedger }
