// Where a ledger is: a file, or a PostgreSQL server. It must never show what a URL has besides the server and the database: a password may be anywhere in it.

import type { LedgerOptions, PostgresLedgerOptions } from '../../../index.d.ts'
import { type Environment, expanded } from './paths.ts'
import { refusal } from './problems.ts'

const URL_LIKE = /^([a-z][a-z0-9+.-]*):\/\//i
const SERVER = /^postgres(?:ql)?$/i

/** Whether a ledger is on a server. */
function isOnServer(ledger: string): boolean {
  return SERVER.test(URL_LIKE.exec(ledger)?.[1] ?? '')
}

/** A ledger that a config or a caller names: a URL as it is, a path with its `~`. */
function namedLedger(given: string, env: Environment): string {
  const scheme = URL_LIKE.exec(given)?.[1]
  if (scheme === undefined) return expanded(given, env)
  if (isOnServer(given)) return given
  throw refusal('invalid_options', [
    {
      path: 'agent.ledger',
      message: `\`${scheme}://…\` is no ledger: name a file, or a server as \`postgres://…\``,
    },
  ])
}

function ledgerOptions(ledger: string): LedgerOptions | PostgresLedgerOptions {
  return isOnServer(ledger) ? { url: ledger } : { path: ledger }
}

/** A ledger as a user may read it: the server and the database of a URL. */
function shownLedger(ledger: string): string {
  const scheme = URL_LIKE.exec(ledger)?.[0]
  if (scheme === undefined) return ledger
  const [place = ''] = ledger.slice(scheme.length).replace(/^.*@/s, '').split('?')
  return scheme + place
}

export { isOnServer, ledgerOptions, namedLedger, shownLedger }
