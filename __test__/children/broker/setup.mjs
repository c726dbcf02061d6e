// The parts of the processes in this folder: their engine, and their lines. It must never begin anything.
import { writeSync } from 'node:fs'
import { AgentEngine } from '../../../index.js'
import { ledgerAt } from '../ledger-at.mjs'

/** Prints a line in one write, so that a kill never leaves a partial one. */
export const print = (line) => writeSync(1, `${line}\n`)

/** An engine in the ledger `file` with the test model, which answers at `url`. */
export const engineAt = (file, url, options = {}) =>
  new AgentEngine({
    providers: { test: { api: 'anthropic-messages', baseUrl: url } },
    authProfiles: [
      { id: 'p1', provider: 'test', type: 'api_key', key: 'sk-test-canary-0123456789' },
    ],
    models: [
      { provider: 'test', id: 'test-model', contextWindow: 200_000, maxOutputTokens: 8_192 },
    ],
    ledger: ledgerAt(file),
    ...options,
  })
