// Plain data: what JSON has of a caller's value, as objects of our own, read once and compared with what was read before.
// It must never call a value the same that JSON would write otherwise, or hold on to an object of the caller's.

import { types } from 'node:util'

const { isProxy } = types
const { isArray } = Array
const { getPrototypeOf } = Object
const PLAIN = Object.prototype
/** Levels that are copied; what is deeper is left to JSON. */
const MAX_DEPTH = 64

/** Entries of a list that are read one by one. A length may be made up. */
const MAX_ENTRIES = 1_000_000

type Properties = Record<string, unknown>

/** Whether objects and lists are what the language has them as: a library may have given all of them a `toJSON` or a property. */
function isUsualLanguage(): boolean {
  for (const _ in PLAIN) return false
  return !('toJSON' in PLAIN) && !('toJSON' in Array.prototype)
}

/** The entries of a list, each read once; undefined where it is no list, or one that JSON might write in its own way. */
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
  /** Something was read that is not plain: it stands in the copy as it is, and only JSON knows what becomes of it. */
  unusual = false
  /** Characters of the texts that were copied. */
  size = 0

  /** `known` itself, where JSON of `value` is the same as JSON of `known`, which is plain data; else a copy of `value`. */
  read(value: unknown, known: unknown, depth = 0): unknown {
    if (typeof value !== 'object' || value === null) return this.#leaf(value, known)
    if (depth > MAX_DEPTH || isProxy(value)) return this.#unusual(value)
    const before = typeof known === 'object' && known !== null ? known : undefined
    if (isArray(value)) {
      if ('toJSON' in value) return this.#unusual(value)
      return this.#list(value, isArray(before) ? before : undefined, depth + 1)
    }
    if (getPrototypeOf(value) !== PLAIN || 'toJSON' in value) return this.#unusual(value)
    const fields = isArray(before) ? undefined : before
    return this.#object(value as Properties, fields as Properties | undefined, depth + 1)
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
        // JSON has no other word for what is not finite, and NaN is not even the same as itself.
        return Number.isFinite(value) ? value : null
      case 'bigint':
      case 'function':
      case 'symbol':
        return this.#unusual(value)
      default:
        return value
    }
  }

  #list(value: readonly unknown[], known: readonly unknown[] | undefined, depth: number): unknown {
    const { length } = value
    let copy: unknown[] | undefined = known?.length === length ? undefined : []
    for (let index = 0; index < length; index++) {
      const before = known?.[index]
      const now = this.#inner(value[index], before, depth)
      if (copy === undefined) {
        if (now === before) continue
        copy = known?.slice(0, index) ?? []
      }
      copy.push(now)
    }
    return copy ?? known
  }

  #object(value: Properties, known: Properties | undefined, depth: number): unknown {
    let copy: Properties | undefined = known === undefined ? {} : undefined
    let same = 0
    // As its prototype is the plain one, and that has nothing to enumerate, these are its own.
    for (const key in value) {
      // In a copy it would be the prototype.
      if (key === '__proto__') return this.#unusual(value)
      const given = value[key]
      if (given === undefined) {
        // JSON leaves it out, which is a difference where it was there.
        if (copy === undefined && known !== undefined && Object.hasOwn(known, key)) {
          copy = fieldsBefore(key, value, known)
        }
        continue
      }
      const before = known?.[key]
      const now = this.#inner(given, before, depth)
      if (copy === undefined) {
        if (now === before) {
          same++
          continue
        }
        copy = fieldsBefore(key, value, known)
      }
      copy[key] = now
    }
    if (copy !== undefined || known === undefined) return copy
    for (const _ in known) same--
    return same === 0 ? known : fieldsBefore(undefined, value, known)
  }

  #inner(value: unknown, known: unknown, depth: number): unknown {
    return value === known && typeof value !== 'object' ? known : this.read(value, known, depth)
  }
}

/** A copy of the fields of `value` before `key`, or of all: each of them is as in `known`. */
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
