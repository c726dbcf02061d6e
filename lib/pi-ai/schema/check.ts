// Whether a value fits a JSON Schema, coerced where that helps, with what ajv writes where it does not. It must never follow a reference out of the
// schema, nor recurse without a bound.

import { coerced, hasType } from './coerce.ts'
import { applied } from './combined.ts'
import { limits } from './limits.ts'
import type { Problem, Schema, Scope } from './types.ts'

/** The value as it was coerced, and what is wrong with it. */
interface Checked {
  value: unknown
  problems: Problem[]
}

/** Deeper values and schemas fail. */
const MAX_DEPTH = 200

function check(schema: unknown, value: unknown): Checked {
  const problems: Problem[] = []
  const read = visit(schema, value, [], { root: schema, depth: 0 }, problems)
  return { value: read, problems }
}

/** Checks a value, and returns it as it was coerced. */
function visit(
  given: unknown,
  value: unknown,
  path: readonly string[],
  outer: Scope,
  problems: Problem[],
): unknown {
  const scope = { ...outer, depth: outer.depth + 1 }
  if (scope.depth > MAX_DEPTH) {
    problems.push({ path, message: 'is nested too deeply' })
    return value
  }
  if (given === false) problems.push({ path, message: 'boolean schema is false' })
  const schema = resolved(given, scope.root)
  if (schema === undefined) return value
  const before = problems.length
  let read = typed(schema, value, path, problems)
  if (problems.length > before) return read
  if (Array.isArray(read)) read = items(schema, read, path, scope, problems)
  else if (hasType(read, 'object')) read = properties(schema, read as Schema, path, scope, problems)
  for (const message of limits(schema, read)) problems.push({ path, message })
  return applied(schema, read, path, scope, problems, visit)
}

/** The schema that is meant: another part of the whole one, where it is a reference. */
function resolved(given: unknown, root: unknown): Schema | undefined {
  let schema = given
  for (let step = 0; step < MAX_DEPTH; step++) {
    if (!hasType(schema, 'object')) return undefined
    const { $ref } = schema as Schema
    if (typeof $ref !== 'string') return schema as Schema
    if (!$ref.startsWith('#')) return undefined
    const keys = $ref.slice(1).split('/').filter(Boolean)
    schema = keys.reduce<unknown>(
      (at, key) =>
        (at as Schema | undefined)?.[
          decodeURIComponent(key).replace(/~1/g, '/').replace(/~0/g, '~')
        ],
      root,
    )
  }
  return undefined
}

/** Checks the type, and coerces a value that has another one. */
function typed(
  { type }: Schema,
  value: unknown,
  path: readonly string[],
  problems: Problem[],
): unknown {
  if (type === undefined) return value
  const types = (Array.isArray(type) ? type : [type]).map(String)
  if (types.some((name) => hasType(value, name))) return value
  for (const name of types) {
    const result = coerced(value, name)
    if (result !== undefined) return result.value
  }
  problems.push({ path, message: `must be ${types.join(',')}` })
  return value
}

function properties(
  schema: Schema,
  value: Schema,
  path: readonly string[],
  scope: Scope,
  problems: Problem[],
): unknown {
  const { required, additionalProperties } = schema
  for (const name of Array.isArray(required) ? required.map(String) : []) {
    if (Object.hasOwn(value, name)) continue
    const message = `must have required property '${name}'`
    problems.push({ path, message, missing: name })
  }
  const known = (schema.properties ?? {}) as Schema
  const patterns = Object.entries((schema.patternProperties ?? {}) as Schema)
  for (const key of Object.keys(value)) {
    const at = [...path, key]
    const matching = patterns.filter(([pattern]) => new RegExp(pattern, 'u').test(key))
    const own = Object.hasOwn(known, key) ? [known[key]] : []
    const schemas = [...own, ...matching.map(([, each]) => each)]
    if (schemas.length === 0 && additionalProperties === false) {
      problems.push({ path, message: 'must NOT have additional properties' })
    } else if (schemas.length === 0 && hasType(additionalProperties, 'object')) {
      schemas.push(additionalProperties)
    }
    for (const each of schemas) put(value, key, visit(each, value[key], at, scope, problems))
  }
  return value
}

/** A key is never a setter: `__proto__` is a key like others. */
function put(object: Schema, key: string, value: unknown): void {
  if (object[key] === value) return
  Object.defineProperty(object, key, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  })
}

function items(
  schema: Schema,
  value: unknown[],
  path: readonly string[],
  scope: Scope,
  problems: Problem[],
): unknown {
  const first = Array.isArray(schema.items) ? schema.items : schema.prefixItems
  const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items
  const tuple: unknown[] = Array.isArray(first) ? first : []
  value.forEach((item, index) => {
    const each = index < tuple.length ? tuple[index] : rest
    if (each === false) {
      problems.push({ path, message: `must NOT have more than ${tuple.length} items` })
    } else if (each !== undefined) {
      value[index] = visit(each, item, [...path, String(index)], scope, problems)
    }
  })
  return value
}

export { check, put }
