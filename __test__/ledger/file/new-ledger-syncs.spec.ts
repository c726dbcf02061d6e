// The cost of a new ledger: its file is synced once, when it is finished and before it gets its name, and its folder once after.
// It must never measure time. That a power cut leaves a whole ledger or none is in recovery/power-cuts.spec.ts.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'
import { killable } from '../../support/processes/killable.js'
import { canPreload, library } from '../../support/processes/preload.js'
import {
  CREATE,
  type Operation,
  RENAME,
  readRecording,
  SYNC,
  SYNC_FOLDER,
  TRUNCATE,
  WRITE,
} from '../../support/processes/simulated-disk.js'

const of = (operations: Operation[], ...kinds: number[]) =>
  operations.filter(({ kind }) => kinds.includes(kind))

test.skipIf(!canPreload)(
  'a new ledger is synced once before it has its name, and its folder once after (cc, Linux)',
  async () => {
    const { path } = folder()
    const [ledgers, log] = [join(path, 'ledgers'), join(path, 'log')]
    mkdirSync(ledgers)
    const child = killable('recovery/many-turns.mjs', [join(ledgers, 'a.db'), 'full', '1', '1'], {
      LD_PRELOAD: library('disk-log'),
      DISK_FOLDER: `${ledgers}/`,
      DISK_LOG: log,
    })
    expect(await child.ended).toBeNull()
    const operations = readRecording(log)
    const at = operations.findIndex(({ kind }) => kind === RENAME)
    const before = operations.slice(0, at)
    const [draft, name] = operations[at]?.bytes.toString().split('/') ?? []
    expect([draft, name]).toEqual([expect.stringMatching(/^a\.db\.new-[^/]+$/), 'a.db'])
    const created = of(before, CREATE).find(({ bytes }) => bytes.toString() === draft)
    const synced = before.findIndex(({ kind }) => kind === SYNC)
    expect(of(before, SYNC, SYNC_FOLDER)).toEqual([before[synced]])
    expect(before[synced]?.inode).toBe(created?.inode)
    // The file was finished.
    expect(of(before.slice(0, synced), WRITE).length).toBeGreaterThan(10)
    expect(of(before.slice(synced), WRITE, TRUNCATE)).toEqual([])
    expect(operations[at + 1]?.kind).toBe(SYNC_FOLDER)
  },
)
