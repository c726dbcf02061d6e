// A failing disk: each read, write, sync and truncation of a turn fails, once or from then on. The result is typed or whole,
// nothing hangs, the ledger is sound afterwards, and acknowledged turns are on the disk even after a power cut. With
// `PROOF=eio` at every operation, else at some. It must never fail an operation of a file that is not the child's own.

import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { killable } from '../../support/processes/killable.js'
import { canPreload, library } from '../../support/processes/preload.js'

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
  /** Why it was not written, and why it failed. */
  codes: [string | null, string | null]
  ends: number
  answer: string
}

/** Which of `turns` are in the ledger at `file`, which must be sound. */
async function there(file: string, turns: Turn[]): Promise<boolean[]> {
  const engine = new AgentEngine({ ledger: { path: file } })
  expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  const found: boolean[] = []
  for (const { turnId, stopReason } of turns) {
    const turn = await engine.ledger.turn(turnId)
    if (stopReason === 'error') found.push(turn?.status === 'failed')
    else found.push(turn?.status === 'completed' && turn.messages.length === 4)
  }
  await engine.close()
  return found
}

/** Makes the `number`th operation fail. False if there is none. */
async function failing(kind: string, number: number, how: string): Promise<boolean> {
  const at = `${kind} ${number} ${how}`
  const { path, file } = folder()
  const disk = join(path, 'disk')
  mkdirSync(disk)
  await new AgentEngine({ ledger: { path: file } }).close()
  copyFileSync(file, join(disk, basename(file)))
  const mark = join(path, 'mark')
  const child = killable('ledger/eio.mjs', [file, kind], {
    LD_PRELOAD: preload,
    FAULT_FILE: file,
    FAULT_AT: at,
    FAULT_DISK: disk,
    FAULT_MARK: mark,
  })
  const late = setTimeout(() => child.kill('SIGABRT'), 50_000)
  expect({ at, signal: await child.ended }).toEqual({ at, signal: 'SIGKILL' })
  clearTimeout(late)
  const outcome = child.lines.map((line) => JSON.parse(line))
  const turns = outcome.filter((line): line is Turn => 'turn' in line)
  if ('open' in outcome[0]) expect(typed).toContain(outcome[0].open)
  else expect(turns.map(({ turn }) => turn)).toEqual(['first', 'second'])
  for (const { turn, stopReason, persisted, codes, ends, answer } of turns) {
    const [notWritten, failed] = codes
    const known = (code: string | null) => code === null || typed.includes(code)
    expect({ at, turn, ends, notWritten: known(notWritten) ? null : notWritten }).toEqual({
      at,
      turn,
      ends: 1,
      notWritten: null,
    })
    expect({ at, persisted }).toEqual({ at, persisted: notWritten === null })
    // An unreadable history ends a run; a received answer is whole.
    if (stopReason === 'error')
      expect({ at, failed }).toEqual({ at, failed: expect.stringMatching(/^(storage|ledger)_/) })
    else
      expect({ at, stopReason, answer }).toEqual({
        at,
        stopReason: 'end_turn',
        // A run that ended before its request has left its reply to the next one.
        answer: expect.stringMatching(/^(one|two)$/),
      })
  }
  // Unreadable data counts as damaged.
  const checked = outcome.find((line) => 'checked' in line)?.checked ?? 'ok'
  if (checked !== 'ok' && kind !== 'read')
    expect({ at, checked }).toEqual({ at, checked: 'storage_io' })
  const acknowledged = turns.filter(({ persisted }) => persisted)
  const present = acknowledged.map(() => true)
  // The state of the system, and that of the disk after a power cut.
  for (const where of [file, join(disk, basename(file))]) {
    expect({ at, where, present: await there(where, acknowledged) }).toEqual({ at, where, present })
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
        // A log is truncated once, when it is closed.
        expect(failed).toBeGreaterThan(kind === 'truncate' ? 0 : 3)
        console.log(`${failed} times: ${kind}, ${how}`)
      },
    )
  }
}
