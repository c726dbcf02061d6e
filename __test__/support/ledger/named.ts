// The ledgers of specs that run on both backends. With `LEDGER=postgres` a path is a schema of the server at POSTGRES_URL: in an
// engine by `on-postgres.cjs`, in the rows that a spec reads by `rows`. It must never open a ledger inside this process.

import { execFileSync, spawnSync } from 'node:child_process'
import { expect } from 'vitest'
import { folder } from '../cleanup.js'
import { onPostgres, schemaOf } from './on-postgres.js'

export { ledgerAt } from '../../children/ledger-at.mjs'
export { onPostgres }

/** The name of a new ledger, for `ledgerAt` and for processes. */
export const newLedger = (): string => folder().file

/**
 * The rows of a statement in a ledger, by a program of its own: sqlite3 or psql. Without their checksums; `[]` for statements
 * without rows. `name` is a path, or a URL with a schema.
 */
export function rows(name: string, sql: string): Record<string, unknown>[] {
  const isServer = onPostgres || name.startsWith('postgres')
  const found = isServer ? rowsOnServer(name, sql) : rowsInFile(name, sql)
  return found.map(({ row_checksum: _, ...row }) => row)
}

/**
 * The leases of killed processes have ended, as after their time: on a server nobody sees that a process is dead. For ledgers that
 * no process has open.
 */
export function leasesEnd(name: string): void {
  if (!onPostgres) return
  for (const table of ['sessions', 'waits', 'runs', 'deliveries', 'listeners'])
    rowsOnServer(name, `update ${table} set expires_at = 0 where expires_at is not null`)
}

/** As `leasesEnd`, for one session that a killed process had, while others go on. */
export function leaseEnds(name: string, label: string): void {
  if (onPostgres) rowsOnServer(name, `update sessions set expires_at = 0 where label = '${label}'`)
}

/** As `leasesEnd`, for the runs of killed processes that waited for their sessions, while others go on. */
export function waitsEnd(name: string): void {
  if (!onPostgres) return
  for (const table of ['waits', 'runs']) rowsOnServer(name, `update ${table} set expires_at = 0`)
}

function rowsInFile(file: string, sql: string): Record<string, unknown>[] {
  const out = execFileSync('sqlite3', ['-json', file, sql], { encoding: 'utf8' })
  return out.trim() === '' ? [] : JSON.parse(out)
}

function rowsOnServer(name: string, sql: string): Record<string, unknown>[] {
  const [url, schema] = name.startsWith('postgres')
    ? name.split('#')
    : [process.env.POSTGRES_URL, schemaOf(name)]
  const isQuery = /^\s*(select|with)\b/i.test(sql)
  const statement = isQuery ? `select coalesce(json_agg(t), '[]') from (${sql}) t` : sql
  const done = spawnSync('psql', [url ?? '', '-AtqXc', statement], {
    encoding: 'utf8',
    env: { ...process.env, PGOPTIONS: `-c search_path=${schema}` },
  })
  expect([sql, done.status, done.stderr]).toEqual([sql, 0, ''])
  return isQuery ? JSON.parse(done.stdout) : []
}
