// What the specs of the vitest project `postgres` begin with, before they load the engine: paths of ledgers are schemas of the server.
// It must never load the engine.

import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/** Whether the ledgers of this process are on a server. */
export const onPostgres = process.env.LEDGER === 'postgres'

/** What replaces the paths of ledgers in a process that loads it first. */
export const preload = fileURLToPath(new URL('on-postgres.cjs', import.meta.url))

export const { schemaOf } = createRequire(import.meta.url)(preload) as {
  schemaOf: (path: string) => string
}
