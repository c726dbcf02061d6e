// Copies of plain data, and whether a value still has what its copy has. It must never call two values the same whose JSON differs, nor hold an object of
// the host.

/** The levels that are copied. */
const MAX_DEPTH = 32
/** What is not plain: it may be another value when it is read again. */
const UNUSUAL = Symbol('unusual')

/** Whether a value is as the plain one: fields in the same order, because JSON has them in that order. */
function isSameValue(value: unknown, plain: unknown, depth = 0): boolean {
  if (value === plain) return typeof value !== 'object' || value === null
  if (typeof value !== 'object' || value === null) return false
  if (typeof plain !== 'object' || plain === null || depth > MAX_DEPTH) return false
  if (Array.isArray(plain)) {
    if (!isPlainList(value) || value.length !== plain.length) return false
    for (let at = 0; at < plain.length; at++) {
      if (!isSameValue(value[at], plain[at], depth + 1)) return false
    }
    return true
  }
  if (!isPlainObject(value)) return false
  const names = Object.keys(value)
  const before = Object.keys(plain)
  if (names.length !== before.length) return false
  for (let at = 0; at < names.length; at++) {
    const name = names[at] as string
    if (name !== before[at]) return false
    const given = (value as Record<string, unknown>)[name]
    if (!isSameValue(given, (plain as Record<string, unknown>)[name], depth + 1)) return false
  }
  return true
}

/** A copy of a value that JSON writes as it is; else `UNUSUAL`. */
function plainOf(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null) return isJson(value) ? value : UNUSUAL
  if (depth > MAX_DEPTH) return UNUSUAL
  if (Array.isArray(value)) {
    if (!isPlainList(value)) return UNUSUAL
    const list: unknown[] = []
    for (let at = 0; at < value.length; at++) {
      const item = plainOf(value[at], depth + 1)
      if (item === UNUSUAL) return UNUSUAL
      list.push(item)
    }
    return list
  }
  if (!isPlainObject(value)) return UNUSUAL
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(value)) {
    const field = plainOf((value as Record<string, unknown>)[name], depth + 1)
    // This name would set the prototype of the copy.
    if (field === UNUSUAL || name === '__proto__') return UNUSUAL
    copy[name] = field
  }
  return copy
}

/** Whether JSON has the value itself. */
function isJson(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  return typeof value === 'string' || typeof value === 'boolean' || value === null
}

function isLeaf(value: unknown): boolean {
  return value === undefined || isJson(value)
}

function isPlainObject(value: object): boolean {
  return Object.getPrototypeOf(value) === Object.prototype && !('toJSON' in value)
}

function isPlainList(value: object): value is unknown[] {
  if (!Array.isArray(value) || Object.getPrototypeOf(value) !== Array.prototype) return false
  return !('toJSON' in value)
}

export { isLeaf, isPlainList, isPlainObject, isSameValue, plainOf, UNUSUAL }
