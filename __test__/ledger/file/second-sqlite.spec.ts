// Another SQLite that opens the ledger after the engine in the same process: it is detected, nothing more is written, and no
// acknowledged turn is lost. One that was first is in ledger/refused-files.spec.ts. It must never run one in the test's own
// process.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'

/** A Node.js that has `node:sqlite`: this one, or one that scripts/nodes.mjs finds. */
const node = (() => {
  const script = fileURLToPath(new URL('../../../scripts/nodes.mjs', import.meta.url))
  const found = spawnSync(process.execPath, [script], { encoding: 'utf8' }).stdout
  const lines = found.trim().split('\n')
  return lines.map((line) => line.split(' ')).find(([version]) => Number(version) >= 22)?.[1]
})()

const child = fileURLToPath(new URL('../../children/ledger/second.mjs', import.meta.url))
const modes = ['idle', 'reads', 'writes', 'reads closed', 'writes closed']

test.skipIf(process.platform !== 'linux' || node === undefined).each(modes)(
  'another SQLite that opens the ledger later (%s) is detected, and acknowledged turns are there (Linux, Node.js 22)',
  (mode) => {
    const { file } = folder()
    const { NODE_OPTIONS: _, ...env } = process.env
    const made = spawnSync(node as string, ['--no-warnings', child, file, mode], {
      env,
      encoding: 'utf8',
      timeout: 55_000,
    })
    expect(made.stderr).toBe('')
    const outcome = JSON.parse(made.stdout)
    // One that closes may remove the log: then that is detected.
    expect(['ledger_in_use', 'ledger_replaced']).toContain(outcome.found)
    if (!mode.includes('closed')) expect(outcome.found).toBe('ledger_in_use')
    expect(outcome).toEqual({
      found: outcome.found,
      later: Array(4).fill(outcome.found),
      ok: true,
      problems: [],
      lost: 0,
      whole: 'written',
    })
  },
)
