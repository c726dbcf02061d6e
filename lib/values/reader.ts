// The only reader of a caller's values: reads each value once, and refuses unreadable ones by their path.
// It must never pass on a throw of the caller's code, or a value that JSON would drop or change.

import { types } from 'node:util'
import { type AgentEngineError, type Code, clip, messageOf, refusal } from './errors.ts'

const { isPromise } = types

/** The fields of a caller's object, with unchecked values. */
type Fields = Record<string, unknown>

const UNREADABLE = 'cannot be read'
/** The maximum number of entries of a caller's list, whose `length` may be false. */
const MAX_ENTRIES = 100_000
/** Why a text with a lone surrogate is refused. */
const HALF = 'has half of a surrogate pair, as a cut through a character leaves it; pass whole text'

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** The fields that are not undefined. */
function withoutUndefined(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** The fields that are neither undefined nor null. */
function givenFields<Value extends object>(fields: Value): Partial<Value> {
  const given = Object.entries(fields).filter(([, value]) => isGiven(value))
  return Object.fromEntries(given) as Partial<Value>
}

/** Whether a value is an object and no list, as far as this can be determined. */
function isObject(value: unknown): value is Fields {
  try {
    return value !== null && typeof value === 'object' && !Array.isArray(value)
  } catch {
    // A revoked proxy: every read of it is refused at its path.
    return true
  }
}

/** The own fields of an object, each read once, as a plain object. `root` is its path; its fields' begin with `prefix`. */
function readFields(value: unknown, root: string, code: Code, prefix = ''): Fields {
  if (!isObject(value)) throw refusal(code, root, 'is not an object')
  const names = attempt(() => Object.keys(value), root, code)
  const fields: Fields = {}
  let at = ''
  try {
    for (const name of names) {
      // A field of this name has no meaning here, and setting it would change the prototype of the copy.
      if (name === '__proto__') continue
      at = name
      fields[name] = ignoreRejection(value[name])
    }
  } catch (error) {
    throw unreadable(`${prefix}${at}`, code, error)
  }
  return fields
}

/** Some fields of an object, its prototype's as well, each read once. */
function readNamed<Name extends string>(
  value: unknown,
  names: readonly Name[],
  root: string,
  code: Code,
  prefix = '',
): Record<Name, unknown> {
  if (!isObject(value)) throw refusal(code, root, 'is not an object')
  const fields = {} as Record<Name, unknown>
  let at: string = root
  try {
    for (const name of names) {
      at = name
      fields[name] = ignoreRejection(value[name])
    }
  } catch (error) {
    throw unreadable(`${prefix}${at}`, code, error)
  }
  return fields
}

/** The entries of a list, each read once. `undefined` where it is no list. */
function readList(value: unknown, root: string, code: Code): unknown[] | undefined {
  const length = attempt(() => (Array.isArray(value) ? value.length : undefined), root, code)
  if (length === undefined) return undefined
  const entries = value as unknown[]
  if (!(length <= MAX_ENTRIES)) {
    throw refusal(code, root, `has more than ${MAX_ENTRIES} entries`)
  }
  const list: unknown[] = []
  for (let index = 0; index < length; index++) {
    list.push(attempt(() => entries[index], `${root}[${index}]`, code))
  }
  return list
}

/** The result of `read`; a throw is a refusal of the value at `path`. */
function attempt<Value>(read: () => Value, path: string, code: Code): Value {
  try {
    return ignoreRejection(read())
  } catch (error) {
    throw unreadable(path, code, error)
  }
}

function unreadable(path: string, code: Code, error: unknown): AgentEngineError {
  return refusal(code, path, `${UNREADABLE}: ${reason(error)}`)
}

/** Marks a caller's value as handled if it is a promise, so that its rejection is no unhandled rejection of the process. */
function ignoreRejection<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null && isPromise(value))
    Reflect.apply(Promise.prototype.then, value, [undefined, () => {}])
  return value
}

/** A caller's string that names something. */
function readName(value: unknown, path: string, code: Code): string {
  if (typeof value !== 'string') throw refusal(code, path, 'is not a string')
  if (!value.isWellFormed()) throw refusal(code, path, HALF)
  return value
}

/** The id of something: a name that is not empty. */
function readId(value: unknown, path: string, code: Code): string {
  const id = readName(value, path, code)
  if (id === '') throw refusal(code, path, 'is empty')
  return id
}

/** Refuses a value that JSON would lose. */
function refuseLost(value: unknown, field: string, code: Code): void {
  const type = typeof value
  if (type === 'function' || type === 'symbol' || (type === 'number' && !Number.isFinite(value))) {
    const what = type === 'number' ? 'is not a finite number' : `is a ${type}`
    throw refusal(code, field, `${what}; leave it out for the default`)
  }
}

/** Refuses a list where an object belongs. */
function refuseList(value: unknown, field: string, code: Code): void {
  if (attempt(() => Array.isArray(value), field, code)) {
    throw refusal(code, field, 'is a list, not an object')
  }
}

/** The first line, shortened: V8 draws the circular structure in the following lines. */
function reason(error: unknown): string {
  return clip(messageOf(error, 'it').split('\n', 1)[0] ?? '', 80).toWellFormed()
}

export type { Fields }
export {
  attempt,
  givenFields,
  HALF,
  ignoreRejection,
  isGiven,
  isObject,
  readFields,
  readId,
  readList,
  readName,
  readNamed,
  reason,
  refuseList,
  refuseLost,
  withoutUndefined,
}
