// The ledgers between which specs copy, and the engines that open them.

import { test } from 'vitest'
import type { AgentEngine, AgentEngineOptions } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { hasPostgres, postgresServer } from '../../support/ledger/postgres.js'

/** From where a ledger is copied, and where to. */
export const directions = [
  ['a file', 'PostgreSQL'],
  ['PostgreSQL', 'a file'],
  ['a file', 'a file'],
] as const

type Kind = (typeof directions)[number][number]

/** The options of a new ledger of each kind. Called once by a spec. */
export function kindsOfLedgers() {
  const schema = postgresServer()
  return {
    'a file': () => ({ path: folder().file }),
    PostgreSQL: () => schema(),
  }
}

/** A test of these kinds of ledgers, which is skipped without a server that it needs. */
export const testOf = (...kinds: Kind[]) =>
  test.skipIf(!hasPostgres && kinds.includes('PostgreSQL'))

/** An engine with so many answers. */
export function open(
  ledger: AgentEngineOptions['ledger'],
  replies = 20,
  delayMs = 0,
  options: AgentEngineOptions = {},
): AgentEngine {
  const script = Array.from({ length: replies }, (_, n) => ({ text: `answer ${n}`, delayMs }))
  return closing(scriptedEngine(script, { ledger, ...options }).engine)
}
