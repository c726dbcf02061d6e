// Owns a disk that fails: each read, write, sync and truncation of a turn, once or from then on. The result is typed or whole,
// nothing hangs, the ledger is sound afterwards, and what was acknowledged is on the disk even when the power fails next.
// With `PROOF=eio` at every operation, else at some. It must never fail an operation of a file that is not the child's own.

import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { folder } from '../support/cleanup.js'
import { killable } from '../support/counter.js'
import { canPreload, library } from '../support/preload.js'

const all = process.env.PROOF === 'eio'

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('eio')
})

const typed = ['storage_io', 'storage_full', 'storage_locked', 'ledger_corrupt', 'ledger_replaced']

interface Turn {
  turn: string
  turnId: string
  stopReason: string
  persisted: boolean
  codes: string[]
  ends: number
  said: string
}

/** Which of `turns` are in the ledger at `file`, which must be sound. */
async function there(file: string, turns: Turn[]): Promise<boolean[]> {
  const engine = new AgentEngine({ ledger: { path: file } })
  expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  const found: boolean[] = []
  for (const { turnId } of turns) {
    const turn = await engine.ledger.turn(turnId)
    // Whole, or not among what a reader sees.
    found.push(turn?.status === 'completed' && turn.messages.length === 4)
  }
  await engine.close()
  return found
}

/** Lets the `number`th operation fail. False where there is none. */
async function failing(kind: string, number: number, how: string): Promise<boolean> {
  const at = `${kind} ${number} ${how}`
  const { path, file } = folder()
  const disk = join(path, 'disk')
  mkdirSync(disk)
  await new AgentEngine({ ledger: { path: file } }).close()
  copyFileSync(file, join(disk, 'ledger.db'))
  const mark = join(path, 'mark')
  const child = killable('eio.mjs', [file], {
    LD_PRELOAD: preload,
    FAULT_FILE: file,
    FAULT_AT: at,
    FAULT_DISK: disk,
    FAULT_MARK: mark,
  })
  const late = setTimeout(() => child.kill('SIGABRT'), 50_000)
  expect({ at, signal: await child.ended }).toEqual({ at, signal: 'SIGKILL' })
  clearTimeout(late)
  const told = child.lines.map((line) => JSON.parse(line))
  const turns = told.filter((line): line is Turn => 'turn' in line)
  if ('open' in told[0]) expect(typed).toContain(told[0].open)
  else expect(turns.map(({ turn }) => turn)).toEqual(['first', 'second'])
  for (const { turn, stopReason, persisted, codes, ends, said } of turns) {
    const whole = { at, turn, stopReason: 'end_turn', said: turn === 'first' ? 'one' : 'two' }
    // A history that cannot be read ends a run, and so does a session that cannot be had; an answer that was had is whole.
    if (stopReason === 'error') expect(codes.length).toBeGreaterThan(0)
    else expect({ at, turn, stopReason, said }).toEqual(whole)
    expect({ at, turn, ends, untyped: codes.filter((code) => !typed.includes(code)) }).toEqual({
      at,
      turn,
      ends: 1,
      untyped: [],
    })
    expect({ at, persisted }).toEqual({ at, persisted: persisted && codes.length === 0 })
  }
  const looked = told.find((line) => 'looked' in line)?.looked ?? 'ok'
  if (looked !== 'ok')
    expect({ at, looked: [looked].flat() }).toEqual({ at, looked: ['storage_io'] })
  const acknowledged = turns.filter(({ persisted }) => persisted)
  const kept = acknowledged.map(() => true)
  // As the system has it, and as the disk does after a power cut.
  for (const where of [file, join(disk, 'ledger.db')]) {
    expect({ at, where, kept: await there(where, acknowledged) }).toEqual({ at, where, kept })
  }
  return existsSync(mark)
}

/** Some of the operations: all of the first ones, fewer later. */
function* numbers(): Generator<number> {
  let [last, next] = [1, 1]
  for (;;) {
    yield next
    if (all) next++
    else [last, next] = [next, last + next]
  }
}

for (const kind of ['read', 'write', 'sync', 'truncate']) {
  for (const how of ['once', 'ever']) {
    test.skipIf(!canPreload)(
      `a ${kind} that fails ${how === 'once' ? 'once' : 'from then on'}, at ${all ? 'each' : 'some'} of a turn (cc, Linux)`,
      { timeout: 1_800_000 },
      async () => {
        let failed = 0
        for (const number of numbers()) {
          if (!(await failing(kind, number, how))) break
          failed++
        }
        // A log is cut short only where one is begun anew.
        if (kind !== 'truncate') expect(failed).toBeGreaterThan(3)
        console.log(`${failed} times: ${kind}, ${how}`)
      },
    )
  }
}
