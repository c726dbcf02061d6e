// The keywords of JSON Schema that join schemas. A value that only one of several accepts is coerced for that one. It must never adopt what a failed
// alternative has made of a value.

import type { Problem, Schema, Scope } from './types.ts'

type Visit = (
  schema: unknown,
  value: unknown,
  path: readonly string[],
  scope: Scope,
  problems: Problem[],
) => unknown

function applied(
  schema: Schema,
  value: unknown,
  path: readonly string[],
  scope: Scope,
  problems: Problem[],
  visit: Visit,
): unknown {
  let read = value
  const tried = (each: unknown) => {
    const found: Problem[] = []
    // On a copy: an alternative may change a part before another part fails.
    const result = visit(each, structuredClone(read), path, scope, found)
    return { result, found }
  }
  for (const each of listOf(schema.allOf)) read = visit(each, read, path, scope, problems)
  const anyOf = listOf(schema.anyOf)
  if (anyOf.length > 0) {
    const fitting = firstFitting(anyOf, tried)
    if (fitting === undefined) problems.push({ path, message: 'must match a schema in anyOf' })
    else read = fitting.result
  }
  const oneOf = listOf(schema.oneOf)
  if (oneOf.length > 0) {
    const fitting = oneOf.map(tried).filter(({ found }) => found.length === 0)
    if (fitting.length === 1) read = fitting[0]?.result
    else problems.push({ path, message: 'must match exactly one schema in oneOf' })
  }
  if (schema.not !== undefined && tried(schema.not).found.length === 0) {
    problems.push({ path, message: 'must NOT be valid' })
  }
  if (schema.if !== undefined) {
    const branch = tried(schema.if).found.length === 0 ? schema.then : schema.else
    if (branch !== undefined) read = visit(branch, read, path, scope, problems)
  }
  return read
}

function listOf(given: unknown): readonly unknown[] {
  return Array.isArray(given) ? given : []
}

interface Tried {
  result: unknown
  found: Problem[]
}

function firstFitting(
  schemas: readonly unknown[],
  tried: (schema: unknown) => Tried,
): Tried | undefined {
  for (const each of schemas) {
    const attempt = tried(each)
    if (attempt.found.length === 0) return attempt
  }
  return undefined
}

export { applied }
