// A process that is killed while it creates a ledger: no reader finds a partial one, and the next open removes the remains.
// Drafts of running processes are in `crates/ledger/src/tests/drafts.rs`. It must never kill anything but its own children.

import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { canPreload, library } from '../../support/processes/preload.js'

const child = fileURLToPath(new URL('../../children/ledger/open.mjs', import.meta.url))

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('kill-point')
})

/** Creates a ledger, and is killed at that write or sync; returns the remaining files. */
function killed(path: string, file: string, at: string): { signal: string | null; left: string[] } {
  const { NODE_OPTIONS: _, ...env } = process.env
  const { signal } = spawnSync(process.execPath, [child, file], {
    env: { ...env, LD_PRELOAD: preload, KILL_FILE: `${path}/`, KILL_AT: at },
    timeout: 55_000,
  })
  return { signal, left: readdirSync(path).filter((name) => name.includes('.new-')) }
}

test.skipIf(!canPreload)(
  'a process killed while it creates a ledger leaves nothing permanently (cc, Linux)',
  { timeout: 600_000 },
  async () => {
    let kills = 0
    let drafts = 0
    for (const [moment, kind] of [
      ['before', 'sync'],
      ['after', 'sync'],
      ['before', 'write'],
      ['torn', 'write'],
    ] as const) {
      let [last, number] = [1, 1]
      for (;;) {
        const { path, file } = folder()
        const { signal, left } = killed(path, file, `${moment} ${kind} ${number}`)
        if (signal === null) break
        kills++
        if (!existsSync(file)) drafts += left.length
        const engine = new AgentEngine({ ledger: { path: file } })
        const at = { at: `${moment} ${kind} ${number}` }
        expect({ ...at, ...(await engine.ledger.verify()) }).toMatchObject({ ...at, ok: true })
        await engine.close()
        expect({ ...at, files: readdirSync(path) }).toEqual({ ...at, files: ['agent.db'] })
        if (kind === 'sync') number++
        else [last, number] = [number, last + number]
      }
    }
    // Some of the kills left files.
    expect(kills).toBeGreaterThan(8)
    expect(drafts).toBeGreaterThan(4)
  },
)
