// JSON of a caller's value, and the path of the first value in it that JSON would drop or change.
// It must never treat such a value as absent.

import { type Code, refusal } from './errors.ts'
import { HALF, reason } from './reader.ts'

/** The maximum depth of the search for a value that JSON cannot hold. */
const MAX_DEPTH = 1_000
/** The maximum number of values of that search. */
const MAX_VALUES = 1_000_000

/** A value that JSON cannot hold, and why. */
interface Defect {
  path: string
  why: string
}

/** The reason to refuse a text, if there is one. `key` is its key; absent if the text is itself a key. */
type Judge = (text: string, path: string, key: string | number | undefined) => string | undefined

/** Whether a lone surrogate in the text at `path` becomes U+FFFD. */
type Repairs = (path: string, key: string | number | undefined) => boolean

/**
 * JSON of a caller's value. A value that JSON cannot hold is a typed error at its field, or else at `root`; `codeOf(path)` is its
 * code. A lone surrogate is refused, except where `repairs(path, key)`: there it becomes U+FFFD.
 */
function toJson(
  value: unknown,
  root: string,
  codeOf: (path: string) => Code,
  repairs: Repairs = () => false,
): string {
  let json: string
  try {
    json = JSON.stringify(value)
  } catch (error) {
    const found = defect(value)
    const path = found?.path || root
    throw refusal(codeOf(path), path, `cannot be written as JSON: ${found?.why ?? reason(error)}`)
  }
  // JSON.stringify writes only lone surrogates as an escape that begins so; the text itself may contain such an escape.
  if (json.includes('\\ud')) {
    const found = find(JSON.parse(json), (text, path, key) =>
      text.isWellFormed() || repairs(path, key) ? undefined : HALF,
    )
    if (found !== undefined)
      throw refusal(codeOf(found.path || root), found.path || root, found.why)
  }
  return json
}

/** The first value that JSON cannot hold, and why; undefined where the value cannot be read a second time. */
function defect(value: unknown): Defect | undefined {
  try {
    return find(value, () => undefined)
  } catch {
    return undefined
  }
}

/** The first value below `root` that has no JSON, or a text that `judge` gives a reason against. */
function find(root: unknown, judge: Judge): Defect | undefined {
  let values = MAX_VALUES
  const ancestors: object[] = []
  const visit = (given: unknown, path: string, key: string | number): Defect | undefined => {
    if (--values < 0) return undefined
    let value = given
    try {
      if (hasToJson(value)) value = value.toJSON(key)
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
      // The full path would not help.
      const top = /^tools\[\d+\]\.[^.[]+|^[^.[]+|/.exec(path)?.[0] ?? ''
      return { path: top, why: 'it is nested too deep' }
    }
    ancestors.push(value)
    const found = visitInner(value, path)
    ancestors.pop()
    return found
  }
  const visitInner = (value: object, path: string): Defect | undefined => {
    let keys: string[] | undefined
    let count: number
    try {
      if (Array.isArray(value)) count = value.length
      else {
        keys = Object.keys(value)
        count = keys.length
      }
    } catch (error) {
      return { path, why: reason(error) }
    }
    for (let index = 0; index < count; index++) {
      const name = keys?.[index]
      const key = name ?? index
      const at = name === undefined ? `${path}[${index}]` : path === '' ? name : `${path}.${name}`
      const why = name === undefined ? undefined : judge(name, at, undefined)
      if (why !== undefined) return { path: at, why }
      let inner: unknown
      try {
        inner = (value as Record<string | number, unknown>)[key]
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

/** Whether a value has a `toJSON`. Passes on a throw of its getter. */
function hasToJson(value: unknown): value is { toJSON(key: string | number): unknown } {
  return (
    value !== null &&
    typeof value === 'object' &&
    typeof (value as { toJSON?: unknown }).toJSON === 'function'
  )
}

export { toJson }
