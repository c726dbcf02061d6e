// Approvals: what the methods of an engine are called with, as JSON for the native side.
// It must never decide anything: every process of the ledger sees the same rows.

import type { NativeEngine } from '../../binding.d.ts'
import type {
  Approval,
  ApprovalFilter,
  ApproveOptions,
  CallOptions,
  DenyOptions,
  Page,
  ProvideOptions,
} from '../../index.d.ts'
import { abortableRequest } from '../native/abortable.ts'
import { answer, failure, isError } from '../tools/result.ts'
import { messageOf, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { type Fields, isObject, readFields, readName } from '../values/reader.ts'

const CODE = 'invalid_options'
const NO_REASON = 'The call was denied.'

/** The fields of `options`, each one of `known`. */
function read(options: unknown, known: readonly string[]): Fields {
  if (options === undefined) return {}
  const fields = readFields(options, 'options', CODE)
  for (const name of Object.keys(fields)) {
    if (!known.includes(name)) {
      throw refusal(CODE, name, `is not an option; the options are ${known.join(', ')}`)
    }
    if (fields[name] === undefined || fields[name] === null) delete fields[name]
  }
  const { by } = fields
  if (by !== undefined && (typeof by !== 'string' || by === '')) {
    throw refusal(CODE, 'by', 'is not a name')
  }
  return fields
}

function send(native: NativeEngine, decision: Fields, signal: unknown): Promise<Approval> {
  const json = toJson(decision, 'decision', () => CODE)
  return abortableRequest(signal, (id) => native.decide(id, json))
}

/** A page of the approvals that match a filter. */
async function list(
  native: NativeEngine,
  filter: ApprovalFilter & CallOptions,
): Promise<Page<Approval>> {
  const { signal, ...rest } = readFields(filter, 'filter', CODE)
  const json = toJson(rest, 'filter', () => CODE)
  return abortableRequest(signal, (id) => native.approvals(id, json))
}

async function approve(
  native: NativeEngine,
  id: string,
  options?: ApproveOptions & CallOptions,
): Promise<Approval> {
  readName(id, 'id', 'unknown_approval')
  const { params, by, signal } = read(options, ['params', 'by', 'signal'])
  if (params !== undefined && !isObject(params)) {
    throw refusal('invalid_params', 'params', 'is not an object of arguments')
  }
  const json =
    params === undefined ? undefined : toJson(params, 'params', () => 'invalid_params' as const)
  return send(native, { verdict: 'approve', id, params: json, by }, signal)
}

async function deny(
  native: NativeEngine,
  id: string,
  options?: DenyOptions & CallOptions,
): Promise<Approval> {
  readName(id, 'id', 'unknown_approval')
  const { reason = NO_REASON, by, signal } = read(options, ['reason', 'by', 'signal'])
  if (typeof reason !== 'string') throw refusal(CODE, 'reason', 'is not a string')
  return send(native, { verdict: 'deny', id, reason, by }, signal)
}

/** The result of a call, as a tool would return it; an `Error` is a failure. */
async function provide(
  native: NativeEngine,
  callId: string,
  value: unknown,
  options?: ProvideOptions & CallOptions,
): Promise<Approval> {
  readName(callId, 'callId', 'unknown_approval')
  const { by, signal } = read(options, ['by', 'signal'])
  let json: string
  if (isError(value)) {
    json = failure(messageOf(value, 'the tool'))
  } else {
    try {
      json = answer(value)
    } catch (error) {
      throw refusal('invalid_params', 'result', messageOf(error, 'it'))
    }
  }
  return send(native, { verdict: 'provide', callId, answer: json, by }, signal)
}

export { approve, deny, list, provide }
