// The keywords of JSON Schema that restrict one value, with what ajv writes. It must never look into another value.

import { isDeepStrictEqual } from 'node:util'
import type { Schema } from './types.ts'

/** The formats that are checked; others are accepted. */
const FORMATS: Readonly<Record<string, RegExp>> = {
  date: /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$/,
  time: /^(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:z|[+-]\d\d(?::?\d\d)?)$/i,
  'date-time':
    /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[t\s](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:z|[+-]\d\d(?::?\d\d)?)$/i,
  email:
    /^[^\s@]{1,64}@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/i,
  uri: /^[a-z][a-z0-9+.-]*:[^\s]+$/i,
  uuid: /^(?:urn:uuid:)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
  ipv4: /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/,
  hostname:
    /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/i,
}

/** What is wrong with a value itself. */
function limits(schema: Schema, value: unknown): string[] {
  const found: string[] = []
  const { enum: options, const: only } = schema
  if (Array.isArray(options) && !options.some((each) => isDeepStrictEqual(each, value))) {
    found.push('must be equal to one of the allowed values')
  }
  if ('const' in schema && !isDeepStrictEqual(only, value)) found.push('must be equal to constant')
  if (typeof value === 'number') found.push(...ofNumber(schema, value))
  else if (typeof value === 'string') found.push(...ofText(schema, value))
  else if (Array.isArray(value)) found.push(...ofList(schema, value))
  else if (typeof value === 'object' && value !== null) found.push(...ofObject(schema, value))
  return found
}

/** The value of a keyword that is a number. */
function limit(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  return typeof value === 'number' ? value : undefined
}

function ofNumber(schema: Schema, value: number): string[] {
  const found: string[] = []
  const {
    minimum,
    maximum,
    exclusiveMinimum: over,
    exclusiveMaximum: under,
  } = {
    minimum: limit(schema, 'minimum'),
    maximum: limit(schema, 'maximum'),
    exclusiveMinimum: limit(schema, 'exclusiveMinimum'),
    exclusiveMaximum: limit(schema, 'exclusiveMaximum'),
  }
  if (minimum !== undefined && value < minimum) found.push(`must be >= ${minimum}`)
  if (maximum !== undefined && value > maximum) found.push(`must be <= ${maximum}`)
  if (over !== undefined && value <= over) found.push(`must be > ${over}`)
  if (under !== undefined && value >= under) found.push(`must be < ${under}`)
  const step = limit(schema, 'multipleOf')
  if (step !== undefined && !Number.isInteger(value / step)) {
    found.push(`must be multiple of ${step}`)
  }
  return found
}

function ofText(schema: Schema, value: string): string[] {
  const found: string[] = []
  const { pattern, format } = schema
  const length =
    schema.minLength !== undefined || schema.maxLength !== undefined ? [...value].length : 0
  const least = limit(schema, 'minLength')
  const most = limit(schema, 'maxLength')
  if (least !== undefined && length < least) {
    found.push(`must NOT have fewer than ${least} characters`)
  }
  if (most !== undefined && length > most) {
    found.push(`must NOT have more than ${most} characters`)
  }
  if (typeof pattern === 'string' && !new RegExp(pattern, 'u').test(value)) {
    found.push(`must match pattern "${pattern}"`)
  }
  const known = typeof format === 'string' && Object.hasOwn(FORMATS, format)
  if (known && !FORMATS[format]?.test(value)) found.push(`must match format "${format}"`)
  return found
}

function ofList(schema: Schema, value: readonly unknown[]): string[] {
  const found: string[] = []
  const least = limit(schema, 'minItems')
  const most = limit(schema, 'maxItems')
  if (least !== undefined && value.length < least) {
    found.push(`must NOT have fewer than ${least} items`)
  }
  if (most !== undefined && value.length > most) found.push(`must NOT have more than ${most} items`)
  if (schema.uniqueItems === true) {
    const twice = duplicate(value)
    if (twice !== undefined) {
      const [at, other] = twice
      found.push(`must NOT have duplicate items (items ## ${at} and ${other} are identical)`)
    }
  }
  return found
}

/** The positions of two equal items. */
function duplicate(items: readonly unknown[]): [number, number] | undefined {
  const seen = new Map<string, number>()
  for (let at = items.length - 1; at >= 0; at--) {
    const key = stable(items[at])
    const other = seen.get(key)
    if (other !== undefined) return [other, at]
    seen.set(key, at)
  }
  return undefined
}

/** JSON that does not depend on the order of keys. */
function stable(value: unknown): string {
  return JSON.stringify(value, (_, part) => {
    const isRecord = typeof part === 'object' && part !== null && !Array.isArray(part)
    return isRecord ? Object.fromEntries(Object.entries(part).sort()) : part
  })
}

function ofObject(schema: Schema, value: object): string[] {
  const found: string[] = []
  const { length } = Object.keys(value)
  const least = limit(schema, 'minProperties')
  const most = limit(schema, 'maxProperties')
  if (least !== undefined && length < least) {
    found.push(`must NOT have fewer than ${least} properties`)
  }
  if (most !== undefined && length > most) {
    found.push(`must NOT have more than ${most} properties`)
  }
  return found
}

export { FORMATS, limits, stable }
