// A private PostgreSQL server for a spec, by crates/postgres/serve.sh: it ends with the spec's process, however that ends. Without
// a server on this machine the spec is skipped, and says so. It must never use a schema twice.

import { spawn, spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import type { PostgresLedgerOptions } from '../../../index.js'

const script = fileURLToPath(new URL('../../../crates/postgres/serve.sh', import.meta.url))

/** Whether this machine can start a server, or names one. */
export const hasPostgres = spawnSync(script, ['--check'], { encoding: 'utf8' }).status === 0
if (!hasPostgres) console.log('skipped: no PostgreSQL (install `postgresql`, or set POSTGRES_URL)')

/** A server for all tests of a spec. Each call returns the options of a ledger in a new schema. */
export function postgresServer(): (
  options?: Partial<PostgresLedgerOptions>,
) => PostgresLedgerOptions {
  let url = ''
  let schemas = 0
  beforeAll(async () => {
    const server = spawn(script, { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = new Promise((resolve) => server.once('close', resolve))
    const first = await createInterface({ input: server.stdout })[Symbol.asyncIterator]().next()
    url = String(first.value)
    afterAll(async () => {
      server.stdin.end()
      await ended
    })
  })
  return (options) => ({
    url,
    schema: `test_${process.pid}_${Date.now()}_${++schemas}`,
    pool: 4,
    ...options,
  })
}
