// Processes with an outbox that are killed at any step: every answer is delivered at least once, by one process at a time, and in
// the order of its session. It must never ask a process that is killed for anything.

import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { echoing } from '../support/broker.js'
import { folder } from '../support/cleanup.js'
import { expectSound } from '../support/ledger/invariants.js'
import { sqlite3 } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'

/** The kills of each test; `npm run proof:broker` sets more. */
const kills = Number(process.env.BROKER_KILLS ?? 3)
const script = 'broker/deliverer.mjs'

/** What the processes have noted, against what the ledger has. */
async function check(file: string, log: string, receipts: string[]): Promise<void> {
  const engine = new AgentEngine({ ledger: { path: file } })
  try {
    const { rows } = await engine.ledger.query(
      'SELECT turn_id, session_label, status, tries FROM deliveries ORDER BY n',
    )
    expect(rows.filter(({ status }) => status !== 'delivered')).toEqual([])
    // Each message with a receipt has ended with a turn, and each turn has its delivery.
    const { rows: items } = await engine.ledger.query(
      'SELECT id, status, turn_id FROM queue_items ORDER BY n',
    )
    const turns = new Set(rows.map(({ turn_id }) => turn_id))
    const undelivered = items.filter(({ turn_id }) => !turns.has(turn_id))
    expect(undelivered).toEqual([])
    const known = new Set(items.map(({ id }) => id))
    expect(receipts.filter((id) => !known.has(id))).toEqual([])

    const begun = new Map<string, number>()
    const ended = new Set<string>()
    /** The delivery that a process has of a session. */
    const open = new Map<string, string>()
    const killed = new Set<string>()
    const last = new Map<string, number>()
    for (const line of readFileSync(log, 'utf8').trim().split('\n')) {
      const [step, name = '', turn = '', session = ''] = line.split(' ')
      if (step === 'begin') {
        begun.set(turn, (begun.get(turn) ?? 0) + 1)
        const at = rows.findIndex(({ turn_id }) => turn_id === turn)
        // The same one again, or the next.
        expect(at).toBeGreaterThanOrEqual(last.get(session) ?? 0)
        last.set(session, at)
        const other = open.get(session)
        expect(other === undefined || killed.has(other)).toBe(true)
        open.set(session, name)
      } else if (step === 'end') {
        ended.add(turn)
        for (const [label, owner] of open) {
          if (
            owner === name &&
            rows.some((row) => row.turn_id === turn && row.session_label === label)
          ) {
            open.delete(label)
          }
        }
      } else if (step === 'kill') {
        killed.add(name)
      }
    }
    for (const { turn_id, tries } of rows) {
      const turn = String(turn_id)
      const times = begun.get(turn) ?? 0
      expect(ended.has(turn)).toBe(true)
      // A process may be killed between its claim and its first line.
      expect(times).toBeGreaterThanOrEqual(1)
      expect(times).toBeLessThanOrEqual(Number(tries))
    }
  } finally {
    await engine.close()
  }
  if (sqlite3) expectSound(file)
}

for (const processes of [1, 3]) {
  test(`${processes} processes with one outbox, killed at any step`, {
    timeout: 600_000,
  }, async () => {
    const server = await echoing()
    for (let round = 0; round < kills; round++) {
      const { path, file } = folder()
      const log = join(path, 'deliveries.log')
      const receipts: string[] = []
      const take = (lines: string[]) => {
        for (const line of lines) {
          const [, id] = /^receipt (\S+)$/.exec(line) ?? []
          if (id !== undefined) receipts.push(id)
        }
      }
      const children = Array.from({ length: processes }, (_, number) => {
        const name = `r${round}p${number}`
        return { name, child: killable(script, [file, log, server.url, name, '8', 'stay']) }
      })
      await Promise.all(
        children.map(async ({ name, child }, number) => {
          // Another step in each round and process.
          await Promise.race([child.count(2 + ((round * 11 + number * 7) % 60)), child.ended])
          // First: another process takes over as soon as it sees the death.
          appendFileSync(log, `kill ${name} - -\n`)
          child.kill()
          await child.ended
          take(child.lines)
        }),
      )
      const last = killable(script, [file, log, server.url, `r${round}last`, '2', 'end'])
      await last.line('ended')
      await last.ended
      take(last.lines)
      await check(file, log, receipts)
    }
  })
}
