// Reads a ledger from outside: the sqlite3 command line, and results with comparable ids and times. It must never open a ledger
// inside this process while an engine has it: closing that would drop SQLite's locks.

import { spawnSync } from 'node:child_process'
import { expect } from 'vitest'

export { rows } from './named.js'

/** Whether the machine has the sqlite3 command line. Tests that need it are skipped with its name otherwise. */
export const sqlite3 = spawnSync('sqlite3', ['--version']).status === 0

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/
const TIMES = new Set(['createdAt', 'startedAt', 'completedAt', 'updatedAt'])
const DURATIONS = new Set(['ms', 'durationMs'])

/**
 * A copy in which every ULID is its number of first appearance (`#1`), every time between `since` and now is `now`, and every
 * shorter duration is 0. Other values stay, and so fail a comparison.
 */
export function normal<T>(value: T, since: number): any {
  const ids = new Map<string, string>()
  const now = Date.now()
  const known = (text: string) => {
    if (!ids.has(text)) ids.set(text, `#${ids.size + 1}`)
    return ids.get(text)
  }
  const walk = (value: unknown, key: string): unknown => {
    if (typeof value === 'string') return ULID.test(value) ? known(value) : value
    if (typeof value === 'number') {
      const camel = key.replace(/_[a-z]/g, (part) => (part[1] ?? '').toUpperCase())
      if (TIMES.has(camel) && value >= since && value <= now) return 'now'
      if (DURATIONS.has(camel) && value >= 0 && value <= now - since) return 0
      return value
    }
    if (Array.isArray(value)) return value.map((item) => walk(item, key))
    if (value === null || typeof value !== 'object') return value
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, walk(item, name)]))
  }
  return walk(value, '')
}

/** The code and field of the AgentEngineError a promise rejects with. */
export async function refusal(
  promise: Promise<unknown>,
): Promise<{ code: string; field?: string }> {
  const error = await promise.then(
    () => expect.fail('it was not refused'),
    (error: unknown) => error as { name: string; code: string; field?: string },
  )
  expect(error).toMatchObject({ name: 'AgentEngineError', message: expect.stringMatching(/\S/) })
  return error.field === undefined ? { code: error.code } : { code: error.code, field: error.field }
}
