// pi 0.73's validation of arguments: TypeBox's conversion, then coercions by JSON Schema, then TypeBox's errors. It must never change the arguments of the call.

import { put } from './check.ts'
import { coerced, hasType } from './coerce.ts'
import { convert } from './convert.ts'
import { errorsOf, fits, isRecord, type SchemaError } from './errors.ts'
import type { Schema } from './types.ts'

/** Schemas of TypeBox before 1.0 carry it: they are not coerced. */
const KIND = Symbol.for('TypeBox.Kind')

/** The arguments, coerced, and what is wrong with them, a line each. `args` is changed. */
function checkLater(parameters: unknown, args: unknown): { value: unknown; lines: string[] } {
  convert(parameters, args)
  let value = args
  if (isRecord(parameters) && !(KIND in parameters)) {
    const read = coerce(args, parameters)
    if (read === args || (isRecord(args) && isRecord(read))) value = read
    // A value of another shape is taken only where it fits: its faults are not shown.
    else return { value: fits(parameters, read) ? read : args, lines: [] }
  }
  return { value, lines: errorsOf(parameters, value).map(line) }
}

function line({ path, message, missing }: SchemaError): string {
  const at = path.slice(1).replace(/\//g, '.')
  const full = missing === undefined ? at : at === '' ? missing : `${at}.${missing}`
  return `  - ${full || 'root'}: ${message}`
}

/** The value as a plain schema wants it. Objects and lists are changed in place. */
function coerce(value: unknown, given: unknown): unknown {
  if (!isRecord(given)) return value
  const { allOf, anyOf, oneOf, type } = given
  let read = value
  if (Array.isArray(allOf)) for (const each of allOf) read = coerce(read, each)
  if (Array.isArray(anyOf)) read = union(read, anyOf)
  if (Array.isArray(oneOf)) read = union(read, oneOf)
  const types = (Array.isArray(type) ? type : [type]).filter((name) => typeof name === 'string')
  if (types.length < 2 || !types.some((name) => matches(read, name))) read = primitive(read, types)
  if (types.includes('object') && isRecord(read)) properties(read, given)
  if (types.includes('array') && Array.isArray(read)) items(read, given)
  return read
}

function matches(value: unknown, type: string): boolean {
  return type === 'number' ? typeof value === 'number' : hasType(value, type)
}

/** As the first type that changes the value. */
function primitive(value: unknown, types: readonly string[]): unknown {
  for (const type of types) {
    if (matches(value, type)) continue
    const isNumber = type === 'number' || type === 'integer'
    const read = isNumber && typeof value === 'string' ? number(value, type) : coerced(value, type)
    if (read !== undefined) return read.value
  }
  return value
}

/** Any form of a number that JavaScript reads. */
function number(value: string, type: string): { value: number } | undefined {
  const read = value.trim() === '' ? Number.NaN : Number(value)
  const isFitting = type === 'integer' ? Number.isInteger(read) : Number.isFinite(read)
  return isFitting ? { value: read } : undefined
}

/** As the first alternative that fits then. */
function union(value: unknown, schemas: readonly unknown[]): unknown {
  for (const schema of schemas) {
    const read = coerce(structuredClone(value), schema)
    if (isRecord(schema) && fits(schema, read)) return read
  }
  return value
}

function properties(value: Schema, { properties: known, additionalProperties: others }: Schema) {
  const own = isRecord(known) ? known : {}
  for (const [key, schema] of Object.entries(own)) {
    if (Object.hasOwn(value, key)) put(value, key, coerce(value[key], schema))
  }
  if (!isRecord(others)) return
  for (const key of Object.keys(value)) {
    if (!Object.hasOwn(own, key)) put(value, key, coerce(value[key], others))
  }
}

function items(value: unknown[], { items: of }: Schema): void {
  for (const [index, item] of value.entries()) {
    const schema = Array.isArray(of) ? of[index] : of
    value[index] = coerce(item, schema)
  }
}

export { checkLater }
