// TypeBox 1's conversion of a value to one of its types: what pi 0.73 does first. Only its own schemas carry their kind, and a copy of one through JSON does not. It
// must never convert for a schema without one.

import { put } from './check.ts'
import { fits, isRecord } from './errors.ts'
import type { Schema } from './types.ts'

/** The schemas of a recursive type, by their names. */
type Defs = Schema

/** The value as the type; where that cannot be it is returned as it was. Objects are changed in place. */
function convert(given: unknown, value: unknown, defs: Defs = {}): unknown {
  if (!isRecord(given)) return value
  const schema = given
  switch (schema['~kind']) {
    case 'Array':
      return (Array.isArray(value) ? value : [value]).map((item) =>
        convert(schema.items, item, defs),
      )
    case 'Boolean':
      return boolean(value) ?? value
    case 'Cyclic': {
      const own = { ...defs, ...(schema.$defs as Schema) }
      return convert(own[String(schema.$ref)], value, own)
    }
    case 'Enum':
      return union(literalsOf(schema), value, defs)
    case 'Integer': {
      const read = number(value)
      return read === undefined ? value : Math.trunc(read)
    }
    case 'Intersect':
      return listOf(schema.allOf).reduce<unknown>((read, each) => convert(each, read, defs), value)
    case 'Literal':
      return literal(schema.const, value)
    case 'Null':
      return isNothing(value) ? null : value
    case 'Number':
      return number(value) ?? value
    case 'Object':
      return isRecord(value) ? properties(schema, schema.properties, value, defs) : value
    case 'Record':
      return isRecord(value) ? properties(schema, schema.patternProperties, value, defs) : value
    case 'Ref':
      return convert(defs[String(schema.$ref)], value, defs)
    case 'String':
      return text(value) ?? value
    case 'Tuple':
      return tuple(schema, value, defs)
    case 'Undefined':
    case 'Void':
      return isNothing(value) ? undefined : value
    case 'Union':
      return union(schema, value, defs)
    default:
      return value
  }
}

function properties(schema: Schema, of: unknown, value: Schema, defs: Defs): Schema {
  const known = isRecord(of) ? Object.entries(of) : []
  // The names of an object are patterns as well, as in TypeBox.
  const patterns = known.map(([name, each]) => [new RegExp(`^${name}$`), each] as const)
  const keys = Object.keys(value)
  for (const [pattern, each] of patterns) {
    const isOptional = isRecord(each) && each['~optional'] !== undefined
    for (const key of keys.filter((key) => pattern.test(key))) {
      if (isOptional && value[key] === undefined) continue
      put(value, key, convert(each, value[key], defs))
    }
  }
  const { additionalProperties: others } = schema
  if (!isRecord(others)) return value
  for (const [pattern] of patterns) {
    for (const key of keys.filter((key) => !pattern.test(key))) {
      put(value, key, convert(others, value[key], defs))
    }
  }
  return value
}

function tuple({ items }: Schema, value: unknown, defs: Defs): unknown {
  if (!Array.isArray(value)) return value
  for (const [index, each] of listOf(items).slice(0, value.length).entries()) {
    value[index] = convert(each, value[index], defs)
  }
  return value
}

/** The first alternative that fits the value, or else one that fits what becomes of it. */
function union(schema: Schema, value: unknown, defs: Defs): unknown {
  const alternatives = listOf(schema.anyOf)
  if (alternatives.some((each) => fits(each, value, defs))) return value
  for (const each of alternatives) {
    const read = convert(each, structuredClone(value), defs)
    if (fits(schema, read, defs)) return read
  }
  return value
}

function literalsOf(schema: Schema): Schema {
  const literal = (value: unknown) => ({ '~kind': 'Literal', const: value })
  return { anyOf: listOf(schema.enum).map(literal) }
}

function literal(wanted: unknown, value: unknown): unknown {
  const readers: Record<string, (value: unknown) => unknown> = { boolean, number, string: text }
  const read = readers[typeof wanted]?.(value)
  return read === wanted ? read : value
}

function boolean(value: unknown): boolean | undefined {
  if (typeof value === 'boolean') return value
  if (value === null || value === undefined) return false
  const word = typeof value === 'string' ? value.toLowerCase() : value
  if (word === 'true' || word === '1' || word === 1) return true
  return word === 'false' || word === '0' || word === 0 ? false : undefined
}

function number(value: unknown): number | undefined {
  if (value === null || value === undefined) return 0
  if (typeof value === 'boolean') return value ? 1 : 0
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return undefined
  if (Number.isFinite(Number(value))) return Number(value)
  const word = value.toLowerCase()
  if (word === 'true' || word === 'false') return word === 'true' ? 1 : 0
  const read = /^-?(?:0|[1-9]\d*)n$/.test(value) ? Number(value.slice(0, -1)) : Number.NaN
  return Number.isSafeInteger(read) ? read : undefined
}

function text(value: unknown): string | undefined {
  if (value === undefined) return ''
  if (value === null) return 'null'
  return ['boolean', 'number', 'string'].includes(typeof value) ? String(value) : undefined
}

const NOTHING: ReadonlySet<unknown> = new Set([null, undefined, false, 0, '', '0'])

function isNothing(value: unknown): boolean {
  const word = typeof value === 'string' ? value.toLowerCase() : value
  return NOTHING.has(value) || word === 'null' || word === 'undefined'
}

function listOf(given: unknown): readonly unknown[] {
  return Array.isArray(given) ? given : []
}

export { convert }
