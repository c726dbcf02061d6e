// The one reader of what a caller passes: each value once, guardedly, and what cannot be read is refused at its path.
// It must never let a throw of the caller's code through, or a value that JSON would drop or change.

import { types } from 'node:util'
import { clip, messageOf, refusal } from './errors.js'

const { isPromise } = types

const UNREADABLE = 'cannot be read'
/** Entries of a list that a caller passes. A length may be made up. */
const MAX_ENTRIES = 100_000
/** Levels that are looked into to find out what JSON cannot hold. */
const MAX_DEPTH = 1_000
/** Values that are looked at to find it. */
const MAX_VALUES = 1_000_000
const HALF = 'has half of a surrogate pair, as a cut through a character leaves it; pass whole text'

/** Whether a value is an object that is no list, as far as that can be told. */
function isObject(value) {
  try {
    return value !== null && typeof value === 'object' && !Array.isArray(value)
  } catch {
    // A revoked proxy: whatever is read of it is refused at its path.
    return true
  }
}

/** The own fields of an object, each read once, as a plain object. `root` is its path; its fields' begin with `prefix`. */
function readFields(value, root, code, prefix = '') {
  if (!isObject(value)) throw refusal(code, root, 'is not an object')
  const names = attempt(() => Object.keys(value), root, code)
  const fields = {}
  for (const name of names) {
    // An own field of this name says nothing to us, and set here it would change the object itself.
    if (name === '__proto__') continue
    fields[name] = attempt(() => value[name], `${prefix}${name}`, code)
  }
  return fields
}

/** Some fields of an object, its prototype's as well, each read once. */
function readNamed(value, names, root, code, prefix = '') {
  if (!isObject(value)) throw refusal(code, root, 'is not an object')
  const fields = {}
  for (const name of names) {
    fields[name] = attempt(() => value[name], `${prefix}${name}`, code)
  }
  return fields
}

/** The entries of a list, each read once. `undefined` where it is no list. */
function readList(value, root, code) {
  const length = attempt(() => (Array.isArray(value) ? value.length : undefined), root, code)
  if (length === undefined) return undefined
  if (!(length <= MAX_ENTRIES)) {
    throw refusal(code, root, `has more than ${MAX_ENTRIES} entries`)
  }
  const list = []
  for (let index = 0; index < length; index++) {
    list.push(attempt(() => value[index], `${root}[${index}]`, code))
  }
  return list
}

/** What `read` gives; what it throws is a refusal of the value at `path`. */
function attempt(read, path, code) {
  try {
    return heard(read())
  } catch (error) {
    throw refusal(code, path, `${UNREADABLE}: ${reason(error)}`)
  }
}

/** A value of the caller's that is looked at and not waited for: a promise among them is no unhandled rejection of the process. */
function heard(value) {
  if (isPromise(value)) Reflect.apply(Promise.prototype.then, value, [undefined, () => {}])
  return value
}

/** A string of the caller's that names something. */
function readName(value, path, code) {
  if (typeof value !== 'string') throw refusal(code, path, 'is not a string')
  if (!value.isWellFormed()) throw refusal(code, path, HALF)
  return value
}

/** Refuses what JSON would lose. */
function refuseLost(value, field, code) {
  const type = typeof value
  if (type === 'function' || type === 'symbol' || (type === 'number' && !Number.isFinite(value))) {
    const what = type === 'number' ? 'is not a finite number' : `is a ${type}`
    throw refusal(code, field, `${what}; leave it out for the default`)
  }
}

/** Refuses a list where an object belongs. */
function refuseList(value, field, code) {
  if (attempt(() => Array.isArray(value), field, code)) {
    throw refusal(code, field, 'is a list, not an object')
  }
}

/**
 * JSON of what the caller gave; what JSON cannot hold is a typed error at its field, or else at `root`. `codeOf(path)` is its
 * code. Half a surrogate pair is refused, except where `repairs(path, key)`: there it becomes U+FFFD.
 */
function toJson(value, root, codeOf, repairs = () => false) {
  let json
  try {
    json = JSON.stringify(value)
  } catch (error) {
    const found = defect(value)
    const path = found?.path || root
    throw refusal(codeOf(path), path, `cannot be written as JSON: ${found?.why ?? reason(error)}`)
  }
  // JSON.stringify writes half a pair, and nothing else, as an escape that begins so; a text may have one of its own.
  if (json.includes('\\ud')) {
    const found = find(JSON.parse(json), (text, path, key) =>
      text.isWellFormed() || repairs(path, key) ? undefined : HALF,
    )
    if (found !== undefined)
      throw refusal(codeOf(found.path || root), found.path || root, found.why)
  }
  return json
}

/** The first value that JSON cannot hold, and why. Of what cannot be read a second time, nothing. */
function defect(value) {
  try {
    return find(value, () => undefined)
  } catch {
    return undefined
  }
}

/** The first value below `root` that has no JSON, or of which `judge` says something. */
function find(root, judge) {
  let values = MAX_VALUES
  const ancestors = []
  const visit = (given, path, key) => {
    if (--values < 0) return undefined
    let value = given
    try {
      if (value !== null && typeof value === 'object' && typeof value.toJSON === 'function') {
        value = value.toJSON(key)
      }
    } catch (error) {
      return { path, why: reason(error) }
    }
    if (typeof value === 'bigint') return { path, why: 'it is a bigint' }
    if (typeof value === 'string') {
      const why = judge(value, path, key)
      return why === undefined ? undefined : { path, why }
    }
    if (value === null || typeof value !== 'object') return undefined
    if (ancestors.includes(value)) return { path, why: 'it refers back to itself (circular)' }
    if (ancestors.length > MAX_DEPTH) {
      // The whole way down would say nothing.
      return { path: /^tools\[\d+\]\.[^.[]+|^[^.[]+|/.exec(path)[0], why: 'it is nested too deep' }
    }
    ancestors.push(value)
    const found = visitInner(value, path)
    ancestors.pop()
    return found
  }
  const visitInner = (value, path) => {
    let keys
    let list
    try {
      list = Array.isArray(value)
      keys = list ? value.length : Object.keys(value)
    } catch (error) {
      return { path, why: reason(error) }
    }
    const count = list ? keys : keys.length
    for (let index = 0; index < count; index++) {
      const key = list ? index : keys[index]
      const at = list ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`
      const why = list ? undefined : judge(key, at, undefined)
      if (why !== undefined) return { path: at, why }
      let inner
      try {
        inner = value[key]
      } catch (error) {
        return { path: at, why: reason(error) }
      }
      const found = visit(inner, at, key)
      if (found !== undefined || values < 0) return found
    }
    return undefined
  }
  return visit(root, '', '')
}

/** The first line, short: V8 draws a circle in those that follow. */
function reason(error) {
  return clip(messageOf(error, 'it').split('\n', 1)[0], 80).toWellFormed()
}

export {
  attempt,
  heard,
  isObject,
  readFields,
  readList,
  readName,
  readNamed,
  refuseList,
  refuseLost,
  toJson,
}
