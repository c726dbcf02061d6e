// The ledgers of specs that run on both backends: a file, or with `LEDGER=postgres` a schema of the server at POSTGRES_URL
// (`crates/postgres/serve.sh` starts one). It must never use a schema twice.

import { folder } from '../cleanup.js'

export { ledgerAt } from '../../children/ledger-at.mjs'

let schemas = 0

/** The name of a new ledger, for `ledgerAt` and for processes. */
export function newLedger(): string {
  if (process.env.LEDGER !== 'postgres') return folder().file
  const url = process.env.POSTGRES_URL
  if (!url)
    throw new Error('LEDGER=postgres needs POSTGRES_URL: run it by crates/postgres/serve.sh')
  return `${url}#test_${process.pid}_${Date.now()}_${++schemas}`
}
