// Kills at each write of a migration: the ledger of version 0.1.0 is opened by a process that is killed at one write or sync to
// its files. Afterwards it opens, is old or new, and whole. The full proof is `npm run proof:migration`. It must never kill
// anything but its own children.

import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { folder } from '../support/cleanup.js'
import { firstVersion } from '../support/ledger/everything.js'
import { killable } from '../support/processes/killable.js'
import { canPreload, library } from '../support/processes/preload.js'

/** With `MIGRATION_KILLS=all` every write and sync, in all three ways. */
const ALL = process.env.MIGRATION_KILLS === 'all'
const SAMPLE = 6

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('kill-point')
})

/** The rows that every version reads. */
async function content(file: string) {
  const engine = new AgentEngine({ ledger: { path: file } })
  const { rows } = await engine.ledger.query(
    'SELECT label FROM sessions WHERE opening = 0 ORDER BY label',
  )
  const histories = []
  for (const { label } of rows) histories.push(await engine.ledger.history(String(label)))
  const listed = await engine.recover()
  const { problems } = await engine.ledger.verify()
  const { schemaVersion } = await engine.ledger.stats()
  await engine.close()
  return { rows, histories, listed, problems, schemaVersion }
}

/** Opens a copy in a child that is killed at the `number`th operation; false if it has fewer. */
async function killed(moment: string, kind: string, number: number, whole: unknown) {
  const { path, file } = folder()
  firstVersion(file)
  const child = killable('ledger/open.mjs', [file], {
    LD_PRELOAD: preload,
    KILL_FILE: `${path}/`,
    KILL_AT: `${moment} ${kind} ${number}`,
  })
  const signal = await child.ended
  // After the kill the version in the file, or in its log, is the old one or the new one.
  copyFileSync(file, join(path, 'left.db'))
  const old = readFileSync(join(path, 'left.db')).readUInt32BE(60)
  expect([9, (whole as { schemaVersion: number }).schemaVersion]).toContain(old)
  expect(await content(file)).toEqual(whole)
  return signal === 'SIGKILL'
}

for (const [kind, moments] of [
  ['sync', ['before', 'after']],
  ['write', ['before', 'torn']],
] as const) {
  for (const moment of moments) {
    test.skipIf(!canPreload)(
      `killed ${moment} a ${kind} of the migration, the ledger is old or new, and opens whole (cc, Linux)`,
      { timeout: 3_600_000 },
      async () => {
        const { file } = folder()
        firstVersion(file)
        const whole = await content(file)
        expect(whole.problems).toEqual([])
        let kills = 0
        // A sample: the first ones, then with growing distances.
        for (let number = 1; ALL || kills < SAMPLE; number += ALL || kills < 2 ? 1 : number) {
          if (!(await killed(moment, kind, number, whole))) break
          kills++
        }
        expect(kills).toBeGreaterThan(1)
        console.log(`${kills} kills ${moment} a ${kind}`)
      },
    )
  }
}
