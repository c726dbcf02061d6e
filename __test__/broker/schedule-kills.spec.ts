// Processes with schedules that are killed at any step: each due time has exactly one message. It must never ask a process that is
// killed for anything.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { echoing } from '../support/broker.js'
import { folder } from '../support/cleanup.js'
import { expectSound } from '../support/ledger/invariants.js'
import { sqlite3 } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'

/** The kills of each test; `npm run proof:broker` sets more. */
const kills = Number(process.env.BROKER_KILLS ?? 3)
const script = 'broker/timer.mjs'
const schedules = 20

for (const processes of [1, 3]) {
  test(`${processes} processes with the same schedules, killed at any step`, {
    timeout: 600_000,
  }, async () => {
    const server = await echoing()
    for (let round = 0; round < kills; round++) {
      const { file } = folder()
      // The first times come while the processes begin.
      const first = Date.now() + 300
      const args = [file, server.url, `${first}`, `${schedules}`]
      const children = Array.from({ length: processes }, () => killable(script, [...args, 'stay']))
      await Promise.all(
        children.map(async (child, number) => {
          // Another step in each round and process.
          await Promise.race([child.count(5 + ((round * 11 + number * 7) % 60)), child.ended])
          child.kill()
          await child.ended
        }),
      )
      const last = killable(script, [...args, 'end'])
      await last.line('ended')
      await last.ended
      const engine = new AgentEngine({ ledger: { path: file } })
      const { rows } = await engine.ledger.query('SELECT event_id, status FROM queue_items')
      await engine.close()
      const expected = Array.from({ length: schedules }, (_, number) => ({
        event_id: `schedule:s${number}:${first + number * 25}`,
        status: 'delivered',
      }))
      const number = ({ event_id: id }: { event_id?: unknown }) =>
        Number(String(id).split(/:s?/)[1])
      expect(rows.toSorted((one, other) => number(one) - number(other))).toEqual(expected)
      if (sqlite3) expectSound(file)
    }
  })
}
