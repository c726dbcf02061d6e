// Plain data: a caller's value as JSON represents it, copied to new objects, read once and compared with an earlier copy. It
// must never treat two values as equal whose JSON differs, nor store an object of the caller.

import { types } from 'node:util'

const { isProxy } = types
const { isArray } = Array
const { getPrototypeOf } = Object
const PLAIN = Object.prototype
/** The number of levels that are copied; deeper values are left to JSON. */
const MAX_DEPTH = 64

/** The limit of a list's entries that are read one by one, because an object may claim any length. */
const MAX_ENTRIES = 1_000_000

type Properties = Record<string, unknown>

/** Whether the prototypes of objects and lists are unmodified: a library may have added a `toJSON` or a property. */
function isUsualLanguage(): boolean {
  for (const _ in PLAIN) return false
  return !('toJSON' in PLAIN) && !('toJSON' in Array.prototype)
}

/** The entries of a list, each read once; undefined if the value is not a list, or JSON might write it differently. */
function plainEntries(value: unknown): unknown[] | undefined {
  if (isProxy(value) || !isArray(value) || 'toJSON' in value) return undefined
  const { length } = value
  if (length > MAX_ENTRIES) return undefined
  const entries: unknown[] = []
  for (let index = 0; index < length; index++) entries.push(value[index])
  return entries
}

/** Reads values of a caller, each property once. */
class PlainReader {
  /** Whether a value was read that is not plain: the copy contains the value itself, and only JSON can convert it. */
  unusual = false
  /** The characters of the copied texts. */
  size = 0

  /**
   * `known` itself, where JSON of `value` is the same as JSON of `known`, which is plain data; else a copy of `value`. One function that calls itself, because
   * the compiler of V8 puts several that call each other into each other, which takes longer than a run.
   */
  read(value: unknown, known: unknown, depth = 0): unknown {
    if (typeof value !== 'object' || value === null) return this.#leaf(value, known)
    if (depth > MAX_DEPTH || isProxy(value)) return this.#unusual(value)
    const isList = isArray(value)
    if ((!isList && getPrototypeOf(value) !== PLAIN) || 'toJSON' in value) {
      return this.#unusual(value)
    }
    const isKind = typeof known === 'object' && known !== null && isArray(known) === isList
    if (isList) {
      const list = isKind ? (known as readonly unknown[]) : undefined
      const { length } = value
      let copy: unknown[] | undefined = list?.length === length ? undefined : []
      for (let index = 0; index < length; index++) {
        const given: unknown = value[index]
        const before = list?.[index]
        const isSame = given === before && typeof given !== 'object'
        const now = isSame ? before : this.read(given, before, depth + 1)
        if (copy === undefined) {
          if (now === before) continue
          copy = list?.slice(0, index) ?? []
        }
        copy.push(now)
      }
      return copy ?? list
    }
    const fields = isKind ? (known as Properties) : undefined
    let copy: Properties | undefined = fields === undefined ? {} : undefined
    let same = 0
    // The prototype is the plain one without enumerable properties, so these are own properties.
    for (const key in value) {
      // In a copy this key would set the prototype.
      if (key === '__proto__') return this.#unusual(value)
      const given = (value as Properties)[key]
      if (given === undefined) {
        // JSON omits the field, which is a difference if the earlier value had it.
        if (copy === undefined && fields !== undefined && Object.hasOwn(fields, key)) {
          copy = fieldsBefore(key, value as Properties, fields)
        }
        continue
      }
      const before = fields?.[key]
      const isSame = given === before && typeof given !== 'object'
      const now = isSame ? before : this.read(given, before, depth + 1)
      if (copy === undefined) {
        if (now === before) {
          same++
          continue
        }
        copy = fieldsBefore(key, value as Properties, fields)
      }
      copy[key] = now
    }
    if (copy !== undefined || fields === undefined) return copy
    for (const _ in fields) same--
    return same === 0 ? fields : fieldsBefore(undefined, value as Properties, fields)
  }

  #unusual<Value>(value: Value): Value {
    this.unusual = true
    return value
  }

  #leaf(value: unknown, known: unknown): unknown {
    if (value === known) return known
    switch (typeof value) {
      case 'string':
        this.size += value.length
        return value
      case 'number':
        // JSON writes null for numbers that are not finite, and NaN does not equal itself.
        return Number.isFinite(value) ? value : null
      case 'bigint':
      case 'function':
      case 'symbol':
        return this.#unusual(value)
      default:
        return value
    }
  }
}

/** A copy of the fields of `value` before `key`, or of all: each of them equals that of `known`. */
function fieldsBefore(
  key: string | undefined,
  value: Properties,
  known: Properties | undefined,
): Properties {
  const copy: Properties = {}
  for (const name in value) {
    if (name === key) break
    const before = known?.[name]
    if (before !== undefined) copy[name] = before
  }
  return copy
}

export { isUsualLanguage, PlainReader, plainEntries }
