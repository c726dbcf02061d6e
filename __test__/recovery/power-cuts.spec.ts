// Power cuts: what a process did to its ledger's folder is recorded, and from the recording the disk is built as it may stand
// after a cut at any moment, with what was not synced lost, there, or torn by sectors. Kills of a process, which lose nothing
// that was written, are in kill-points.spec.ts. It must never take a cut for survived because no turn had been acknowledged.

import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import type { AgentMessage } from '../../index.js'
import { folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { expectSound } from '../support/ledger/invariants.js'
import { sqlite3 } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'
import { canPreload, library } from '../support/processes/preload.js'
import { type Loss, readRecording, SimulatedDisk } from '../support/processes/simulated-disk.js'
import { random } from '../support/values/random.js'

/** In the full proof 1,000. */
const CUTS = Number(process.env.POWER_CUTS ?? 28)
const SEED = Number(process.env.SEED ?? 20_261_122)
const LOSSES: readonly Loss[] = ['all', 'none', 'writes', 'sectors']

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('disk-log')
})

interface Acknowledged {
  session: string
  turn: number
  turnId: string
  messages: AgentMessage[]
}

interface Survived {
  acknowledged: number
  /** Acknowledged turns that the ledger does not have. */
  lost: string[]
}

/** Runs a host on a new ledger and returns what it did to the folder. */
async function recorded(synchronous: 'full' | 'normal', sessions: number, turns: number) {
  const { path } = folder()
  const [ledgers, log] = [join(path, 'ledgers'), join(path, 'log')]
  mkdirSync(ledgers)
  const child = killable(
    'recovery/many-turns.mjs',
    [join(ledgers, 'a.db'), synchronous, String(sessions), String(turns)],
    { LD_PRELOAD: preload, DISK_FOLDER: `${ledgers}/`, DISK_LOG: log },
  )
  expect(await child.ended).toBeNull()
  expect(child.lines).toHaveLength(sessions * turns)
  return { path, operations: readRecording(log) }
}

/** Opens what a cut has left, checks it whole, and goes on in it. */
async function survive(file: string, disk: SimulatedDisk): Promise<Survived> {
  const acknowledged: Acknowledged[] = disk.output
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
  const lost: string[] = []
  const { engine } = scriptedEngine(['after the cut'], { ledger: { path: file } })
  try {
    expect((await engine.ledger.verify()).problems).toEqual([])
    const interrupted = new Set((await engine.recover()).map(({ turnId }) => turnId))
    for (const { turnId } of acknowledged) {
      const turn = await engine.ledger.turn(turnId)
      if (turn?.status !== 'completed') lost.push(turnId)
      expect(interrupted.has(turnId)).toBe(false)
    }
    for (const session of new Set(acknowledged.map(({ session }) => session))) {
      const stored = (await engine.ledger.session(session))
        ? await engine.ledger.history(session)
        : []
      const mine = acknowledged.filter(
        (each) => each.session === session && !lost.includes(each.turnId),
      )
      const expected = mine.flatMap(({ messages }) => messages)
      // The very messages that the host got, once each, and after them at most one turn whose end was not acknowledged.
      const history = stored.map(({ turnId: _, ...message }) => message)
      expect(history.slice(0, expected.length)).toEqual(expected)
      const later = new Set(stored.slice(expected.length).map(({ turnId }) => turnId))
      expect(later.size).toBeLessThanOrEqual(1)
    }
    // The ledger can be written to.
    const { persisted } = await engine.run(context({ sessionLabel: 'session 0' })).result
    expect(persisted).toBe(true)
  } finally {
    await engine.close()
  }
  if (sqlite3) expectSound(file)
  return { acknowledged: acknowledged.length, lost }
}

test.skipIf(!canPreload)(
  'after a power cut at any moment every acknowledged turn is there, and nothing is corrupt (cc, Linux)',
  { timeout: 3_600_000 },
  async () => {
    const turns = CUTS > 100 ? 120 : 36
    const { path, operations } = await recorded('full', 6, turns / 6)
    const below = random(SEED)
    const moments = Array.from({ length: CUTS }, () => below(operations.length + 1))
    moments.sort((a, b) => a - b)
    const disk = new SimulatedDisk()
    const seen: number[] = []
    let applied = 0
    for (const [number, moment] of moments.entries()) {
      for (const operation of operations.slice(applied, moment)) disk.apply(operation)
      applied = moment
      const loss = LOSSES[number % LOSSES.length] as Loss
      const at = join(path, `cut ${number}`)
      mkdirSync(at)
      disk.cut(at, loss, below)
      try {
        const { acknowledged, lost } = await survive(join(at, 'a.db'), disk)
        expect(lost).toEqual([])
        seen.push(acknowledged)
      } catch (error) {
        throw new Error(`cut ${number} after operation ${moment}, lost: ${loss}, seed ${SEED}`, {
          cause: error,
        })
      }
      rmSync(at, { recursive: true })
    }
    // Cuts before, between and after acknowledgements.
    expect(new Set(seen).size).toBeGreaterThan(Math.min(CUTS, turns) / 3)
    console.log(
      `${CUTS} cuts in ${operations.length} operations, up to ${Math.max(...seen)} acknowledged turns`,
    )
  },
)

test.skipIf(!canPreload)(
  'with `synchronous: normal` a power cut may lose acknowledged turns, which the check above would find (cc, Linux)',
  { timeout: 600_000 },
  async () => {
    const { path, operations } = await recorded('normal', 2, 4)
    const disk = new SimulatedDisk()
    // Until the last acknowledgement: the file is closed after it.
    const last = operations.findLastIndex(({ kind }) => kind === 0)
    for (const operation of operations.slice(0, last + 1)) disk.apply(operation)
    const at = join(path, 'cut')
    mkdirSync(at)
    disk.cut(at, 'all', () => 0)
    const { acknowledged, lost } = await survive(join(at, 'a.db'), disk)
    expect(acknowledged).toBe(8)
    expect(lost.length).toBeGreaterThan(0)
  },
)
