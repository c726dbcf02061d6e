// Kills of a process that deletes, before and after each sync of the ledger and, in the full proof, before and in the middle of each write:
// the ledger is sound, nothing else is gone, and the same deletion again leaves what an undisturbed one leaves. It must never kill anything
// but its own children.

import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import type { AgentEngine } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { dump, histories } from '../support/ledger/dump.js'
import { killable } from '../support/processes/killable.js'
import { canPreload, library } from '../support/processes/preload.js'

/** With `DELETION_KILLS=all` after each sync and at every write too: some hundreds of children for each way. */
const moments =
  process.env.DELETION_KILLS === 'all'
    ? ['before sync', 'after sync', 'before write', 'torn write']
    : ['before sync']
/** More than one batch. */
const TURNS = 70

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('kill-point')
})

type Row = Record<string, unknown>
const MOVED = { updated_at: 0, changed_at: 0 }

const opened = (file: string): AgentEngine =>
  closing(scriptedEngine([{ text: 'x'.repeat(800) }], { ledger: { path: file } }).engine)

/** A ledger with a session to delete, of which a fork needs the first turns, and another session. */
async function ledger(): Promise<string> {
  const { path, file } = folder()
  const replies = Array.from({ length: TURNS + 8 }, (_, n) => ({
    text: `words ${n} ${'x'.repeat(n === 9 ? 200_000 : 300)}`,
  }))
  const { engine } = scriptedEngine(replies, { ledger: { path: file } })
  const run = (sessionLabel: string, metadata: object | undefined) =>
    engine.run(context({ sessionLabel, metadata } as object)).result
  const first = await run('doomed', undefined)
  for (let n = 0; n < 3; n++) await run('remaining', undefined)
  for (let n = 0; n < TURNS; n++) await run('doomed', { doomed: true })
  await engine.ledger.fork(first.turnId, 'fork')
  await run('fork', undefined)
  await engine.ledger.alias('name', 'doomed')
  await engine.close()
  return path
}

/** The number of rows of every table that a deletion empties, and everything that a host reads. */
async function contents(engine: AgentEngine) {
  const tables = [
    ...['runs', 'event_archive', 'message_rows', 'call_rows', 'blobs', 'turn_metadata'],
    ...['turn_branches', 'turns_of_days', 'turns_of_models', 'session_history', 'session_aliases'],
    ...[
      'session_metadata',
      'cache_links',
      'session_leases',
      'session_commands',
      'pending_deletions',
    ],
  ]
  const counts = tables.map((table) => `(SELECT count(*) FROM ${table}) AS ${table}`)
  const { rows } = await engine.ledger.query(`SELECT ${counts.join(', ')}`)
  const found = (await engine.ledger.search('words')).items.length
  const dumped = await dump(engine)
  for (const row of [...(dumped.sessions ?? []), ...(dumped.log ?? [])] as Row[]) {
    // When its head has moved to a turn that is left.
    if ((row.label ?? row.session_label) === 'doomed') Object.assign(row, MOVED)
  }
  return { rows, found, dumped, histories: await histories(engine) }
}

const remove = (engine: AgentEngine, way: string) =>
  way === 'turns'
    ? engine.ledger.deleteTurns({ metadata: { doomed: true } }, { followers: true })
    : engine.ledger.deleteSession('doomed', { turns: true, secure: way === 'secure' })

/** Kills a deletion at an operation; false if it had none with this number. */
async function killedAt(from: string, way: string, at: string, wanted: unknown): Promise<boolean> {
  const { path, file } = folder()
  cpSync(from, path, { recursive: true })
  const env = { LD_PRELOAD: preload, KILL_FILE: join(path, '/'), KILL_AT: at }
  const child = killable('recovery/deletion.mjs', [file, way], env)
  const isKilled = (await child.ended) === 'SIGKILL'
  const engine = opened(file)
  expect((await engine.ledger.verify()).problems).toEqual([])
  expect(await engine.ledger.history('remaining')).toHaveLength(6)
  expect(await engine.ledger.history('fork')).toHaveLength(4)
  const session = await engine.ledger.session('doomed')
  if (session !== null) {
    // Whole, or shorter by turns at its end.
    const history = await engine.ledger.history('doomed')
    if (way !== 'turns') expect(history).toHaveLength(2 * (TURNS + 1))
    await remove(engine, way)
  } else {
    // Hidden: the next deletion finishes the one that was cut off.
    await engine.ledger.prune({ before: 0 })
  }
  expect((await engine.ledger.verify()).problems).toEqual([])
  expect(await contents(engine)).toEqual(wanted)
  await engine.close()
  return isKilled
}

for (const way of ['session', 'turns', 'secure']) {
  for (const moment of moments) {
    test.skipIf(!canPreload)(
      `killed ${moment} of a deletion (${way}), each in turn, the ledger is sound and the deletion is completed (cc, Linux)`,
      { timeout: 3_600_000 },
      async () => {
        const from = await ledger()
        const { path, file } = folder()
        cpSync(from, path, { recursive: true })
        const engine = opened(file)
        expect((await remove(engine, way)).turns).toBe(TURNS)
        const wanted = await contents(engine)
        await engine.close()
        let kills = 0
        while (await killedAt(from, way, `${moment} ${kills + 1}`, wanted)) kills++
        expect(kills).toBeGreaterThan(2)
        console.log(`${kills} kills ${moment}: ${way}`)
      },
    )
  }
}
