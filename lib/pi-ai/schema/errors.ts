// What is wrong with a value, as TypeBox 1 says it, in its order and with its limit: pi 0.73's refusals. It must never change the value, nor follow a
// reference out of the schema.

import { hasType } from './coerce.ts'
import { FORMATS, stable } from './limits.ts'
import type { Schema } from './types.ts'

interface SchemaError {
  /** `/a/0`: the keys to the value. */
  path: string
  message: string
  /** The first property that is missing. */
  missing?: string
}

/** Of a schema, and of each alternative by itself. */
const MAX_ERRORS = 8
const MAX_DEPTH = 200

/** Where references lead. */
interface Scope {
  root: unknown
  /** Schemas by the names that references of a recursive type have. */
  defs: Schema
  depth: number
}

type Found = SchemaError[]

function errorsOf(schema: unknown, value: unknown, defs: Schema = {}): Found {
  const found: Found = []
  visit(schema, value, '', { root: schema, defs, depth: 0 }, found)
  return found
}

function fits(schema: unknown, value: unknown, defs?: Schema): boolean {
  return errorsOf(schema, value, defs).length === 0
}

/** Adds what is wrong, and returns whether nothing is. */
function visit(given: unknown, value: unknown, path: string, outer: Scope, found: Found): boolean {
  if (found.length >= MAX_ERRORS) return false
  if (given === false) return refused(found, path, 'schema is false')
  if (!isRecord(given)) return true
  if (outer.depth >= MAX_DEPTH) return refused(found, path, 'is nested too deeply')
  const schema = given as Schema
  const defs = isRecord(schema.$defs) ? { ...outer.defs, ...(schema.$defs as Schema) } : outer.defs
  const scope = { root: outer.root, defs, depth: outer.depth + 1 }
  const results = [typed(schema, value, path, found)]
  if (hasType(value, 'object')) results.push(object(schema, value as Schema, path, scope, found))
  else if (Array.isArray(value)) results.push(list(schema, value, path, scope, found))
  else if (typeof value === 'string') results.push(text(schema, value, path, found))
  else if (hasType(value, 'number')) results.push(number(schema, value as number, path, found))
  results.push(joined(schema, value, path, scope, found))
  return results.every(Boolean) && refined(schema, value, path, found)
}

function refused(found: Found, path: string, message: string, missing?: string): false {
  if (found.length < MAX_ERRORS) {
    found.push({ path, message, ...(missing !== undefined && { missing }) })
  }
  return false
}

function typed({ type }: Schema, value: unknown, path: string, found: Found): boolean {
  if (Array.isArray(type)) {
    if (type.some((name) => hasType(value, String(name)))) return true
    return refused(found, path, `must be either ${type.join(' or ')}`)
  }
  if (typeof type !== 'string' || hasType(value, type)) return true
  return refused(found, path, `must be ${type}`)
}

function object(schema: Schema, value: Schema, path: string, scope: Scope, found: Found): boolean {
  const results: boolean[] = []
  const { additionalProperties, patternProperties, properties, propertyNames } = schema
  const required = Array.isArray(schema.required) ? schema.required.map(String) : []
  const missing = required.filter((name) => !has(value, name))
  if (missing.length > 0) {
    const message = `must have required properties ${missing.join(', ')}`
    results.push(refused(found, path, message, missing[0]))
  }
  const known = isRecord(properties) ? properties : {}
  const patterns = entriesOf(patternProperties).map(
    ([pattern, each]) => [new RegExp(pattern, 'u'), each] as const,
  )
  if (additionalProperties !== undefined) {
    const isKnown = (key: string) =>
      Object.hasOwn(known, key) || patterns.some(([pattern]) => pattern.test(key))
    const bad = Object.keys(value).filter(
      (key) =>
        !isKnown(key) && !visit(additionalProperties, value[key], below(path, key), scope, found),
    )
    if (bad.length > 0) {
      results.push(refused(found, path, 'must not have additional properties'))
    }
  }
  results.push(dependents(schema, value, path, scope, found))
  for (const [pattern, each] of patterns) {
    for (const key of Object.keys(value).filter((key) => pattern.test(key))) {
      results.push(visit(each, value[key], below(path, key), scope, found))
    }
  }
  for (const [key, each] of entriesOf(known)) {
    if (!has(value, key) || (value[key] === undefined && !required.includes(key))) continue
    results.push(visit(each, value[key], below(path, key), scope, found))
  }
  if (propertyNames !== undefined) {
    const bad = Object.keys(value).filter(
      (key) => !visit(propertyNames, key, below(path, key), scope, found),
    )
    if (bad.length > 0) {
      results.push(refused(found, path, `property names ${bad.join(', ')} are invalid`))
    }
  }
  const { length } = Object.keys(value)
  results.push(bounded(schema, 'Properties', length, 'properties', path, found))
  return results.every(Boolean)
}

/** What a property demands of others. */
function dependents(
  { dependencies, dependentRequired, dependentSchemas }: Schema,
  value: Schema,
  path: string,
  scope: Scope,
  found: Found,
): boolean {
  const results: boolean[] = []
  for (const group of [dependencies, dependentRequired, dependentSchemas]) {
    for (const [key, each] of entriesOf(group).filter(([name]) => has(value, name))) {
      if (Array.isArray(each)) {
        const lacking = each.filter((name) => !has(value, String(name)))
        const most = group === dependencies ? 1 : lacking.length
        for (const _ of lacking.slice(0, most)) {
          const message = `must have properties ${each.join(', ')} when property ${key} is present`
          results.push(refused(found, path, message))
        }
      } else {
        results.push(visit(each, value, path, scope, found))
      }
    }
  }
  return results.every(Boolean)
}

function list(
  schema: Schema,
  value: readonly unknown[],
  path: string,
  scope: Scope,
  found: Found,
): boolean {
  const results: boolean[] = []
  const { items, prefixItems, additionalItems, contains } = schema
  const each = (of: unknown, index: number) =>
    visit(of, value[index], `${path}/${index}`, scope, found)
  if (Array.isArray(items) && additionalItems !== undefined) {
    // It stops at the first.
    for (let index = items.length; index < value.length; index++) {
      if (each(additionalItems, index)) continue
      results.push(false)
      break
    }
  }
  const containing =
    contains === undefined ? 0 : value.filter((item) => fits(contains, item, scope.defs)).length
  const least = schema.minContains
  if (contains !== undefined && least !== 0 && containing === 0) {
    results.push(refused(found, path, 'must contain at least 1 valid item'))
  }
  if (Array.isArray(items)) {
    const sized = items.slice(0, value.length)
    for (const [index, of] of sized.entries()) results.push(each(of, index))
  } else if (items !== undefined) {
    const first = Array.isArray(prefixItems) ? prefixItems.length : 0
    for (let index = first; index < value.length; index++) results.push(each(items, index))
  }
  if (contains !== undefined && typeof least === 'number' && containing < least) {
    results.push(refused(found, path, 'must contain at least 1 valid item'))
  }
  if (contains !== undefined && containing > (limit(schema, 'maxContains') ?? containing)) {
    results.push(refused(found, path, 'must contain at least 1 valid item'))
  }
  results.push(bounded(schema, 'Items', value.length, 'items', path, found))
  if (Array.isArray(prefixItems)) {
    const sized = prefixItems.slice(0, value.length)
    for (const [index, of] of sized.entries()) results.push(each(of, index))
  }
  if (schema.uniqueItems === true && new Set(value.map(stable)).size < value.length) {
    results.push(refused(found, path, 'must not have duplicate items'))
  }
  return results.every(Boolean)
}

function text(schema: Schema, value: string, path: string, found: Found): boolean {
  const isLimited = schema.minLength !== undefined || schema.maxLength !== undefined
  const length = isLimited ? [...value].length : 0
  const results = [bounded(schema, 'Length', length, 'characters', path, found)]
  const { format, pattern } = schema
  if (typeof format === 'string' && FORMATS[format]?.test(value) === false) {
    results.push(refused(found, path, `must match format "${format}"`))
  }
  if (typeof pattern === 'string' && !new RegExp(pattern, 'u').test(value)) {
    results.push(refused(found, path, `must match pattern "${pattern}"`))
  }
  return results.every(Boolean)
}

/** The least and the most of something that is counted. */
function bounded(
  schema: Schema,
  what: 'Items' | 'Length' | 'Properties',
  count: number,
  unit: string,
  path: string,
  found: Found,
): boolean {
  const least = limit(schema, `min${what}`)
  const most = limit(schema, `max${what}`)
  const results = [true]
  if (least !== undefined && count < least) {
    results.push(refused(found, path, `must not have fewer than ${least} ${unit}`))
  }
  if (most !== undefined && count > most) {
    results.push(refused(found, path, `must not have more than ${most} ${unit}`))
  }
  return results.every(Boolean)
}

const TOLERANCE = 1e-10

function number(schema: Schema, value: number, path: string, found: Found): boolean {
  const over = limit(schema, 'exclusiveMinimum')
  const under = limit(schema, 'exclusiveMaximum')
  const least = limit(schema, 'minimum')
  const most = limit(schema, 'maximum')
  const step = limit(schema, 'multipleOf')
  const results = [true]
  const refuse = (message: string) => results.push(refused(found, path, `must be ${message}`))
  if (over !== undefined && value <= over) refuse(`> ${over}`)
  if (under !== undefined && value >= under) refuse(`< ${under}`)
  if (least !== undefined && value < least) refuse(`>= ${least}`)
  if (most !== undefined && value > most) refuse(`<= ${most}`)
  if (step !== undefined && !isMultiple(value, step)) refuse(`multiple of ${step}`)
  return results.every(Boolean)
}

function isMultiple(value: number, step: number): boolean {
  if (Number.isInteger(value) && (1 / step) % 1 === 0) return true
  const rest = value % step
  return [rest, rest - step, rest + step].some((part) => Math.abs(part) < TOLERANCE)
}

/** The keywords for any value: references, fixed values, and what joins schemas. */
function joined(schema: Schema, value: unknown, path: string, scope: Scope, found: Found): boolean {
  const results: boolean[] = []
  const { $ref, allOf, anyOf, oneOf } = schema
  const alone = (each: unknown) => {
    const own: Found = []
    const isFitting = visit(each, value, path, scope, own)
    return { own, isFitting }
  }
  const adopt = (failed: Found) => {
    for (const each of failed) refused(found, each.path, each.message, each.missing)
  }
  if (typeof $ref === 'string') {
    const { own, isFitting } = alone(referred($ref, scope))
    if (!isFitting) adopt(own)
    results.push(isFitting)
  }
  if ('const' in schema && stable(schema.const) !== stable(value)) {
    results.push(refused(found, path, 'must be equal to constant'))
  }
  if (Array.isArray(schema.enum) && !schema.enum.some((each) => stable(each) === stable(value))) {
    results.push(refused(found, path, 'must be equal to one of the allowed values'))
  }
  if (schema.if !== undefined) {
    const branch = alone(schema.if).isFitting ? 'then' : 'else'
    const wanted = schema[branch] ?? true
    const isFitting =
      branch === 'then' ? alone(wanted).isFitting : visit(wanted, value, path, scope, found)
    results.push(isFitting || refused(found, path, `must match "${branch}" schema`))
  }
  if (schema.not !== undefined && alone(schema.not).isFitting) {
    results.push(refused(found, path, 'must not be valid'))
  }
  for (const [keyword, schemas] of Object.entries({ allOf, anyOf, oneOf })) {
    if (!Array.isArray(schemas)) continue
    const tried = schemas.map(alone)
    const count = tried.filter(({ isFitting }) => isFitting).length
    const isFitting =
      keyword === 'allOf' ? count === tried.length : keyword === 'anyOf' ? count > 0 : count === 1
    results.push(isFitting)
    if (isFitting) continue
    // Several of `oneOf` have no error of their own.
    if (keyword !== 'oneOf' || count === 0) for (const { own } of tried) adopt(own)
    if (keyword === 'anyOf') refused(found, path, 'must match a schema in anyOf')
    if (keyword === 'oneOf') refused(found, path, 'must match exactly one schema in oneOf')
  }
  return results.every(Boolean)
}

/** The schema that a reference means; false, which nothing fits, where it leads nowhere. */
function referred($ref: string, { root, defs }: Scope): unknown {
  if (!$ref.startsWith('#')) return Object.hasOwn(defs, $ref) ? defs[$ref] : false
  let at: unknown = root
  for (const key of $ref.slice(1).split('/').filter(Boolean)) {
    const name = decodeURIComponent(key).replace(/~1/g, '/').replace(/~0/g, '~')
    if (!isRecord(at) || !Object.hasOwn(at, name)) return false
    at = (at as Schema)[name]
  }
  return at
}

/** The functions that a schema of TypeBox checks a value with. */
function refined(schema: Schema, value: unknown, path: string, found: Found): boolean {
  const refinements = schema['~refine']
  if (!Array.isArray(refinements)) return true
  const failed = refinements.filter(({ check }) => !check(value))
  for (const { error } of failed) refused(found, path, String(error(value)))
  return failed.length === 0
}

function limit(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  return typeof value === 'number' ? value : undefined
}

function has(value: object, key: string): boolean {
  return Object.hasOwn(value, key)
}

function below(path: string, key: string): string {
  return `${path}/${key.replace(/~/g, '~0').replace(/\//g, '~1')}`
}

function entriesOf(group: unknown): [string, unknown][] {
  return isRecord(group) ? Object.entries(group as Schema) : []
}

function isRecord(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export type { SchemaError }
export { errorsOf, fits, isRecord }
