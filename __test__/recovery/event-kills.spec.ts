// The events that consumers of a killed process have received are always a prefix of the later replay. EVENT_KILLS sets the number
// of kills. It must never kill anything but its own children.

import { expect, test } from 'vitest'
import { AgentEngine, type StreamEvent } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { leasesEnd } from '../support/ledger/named.js'
import { killable } from '../support/processes/killable.js'

const KILLS = Number(process.env.EVENT_KILLS ?? 40)

const replies = [
  {
    steps: [
      { thinking: 'hm' },
      ...Array.from({ length: 30 }, (_, n) => (n % 7 === 3 ? { delayMs: 1 } : { text: `w${n} ` })),
      { toolCall: { name: 'echo', arguments: { of: 1 } } },
    ],
  },
  { text: 'and so it ended, in many small pieces', chunkSize: 1 },
]

test(`${KILLS} kills: the events of a consumer are a prefix of the replay`, {
  timeout: 120_000 + KILLS * 2_000,
}, async () => {
  const { file } = folder()
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  let torn = 0
  let compared = 0
  for (let round = 0; round < KILLS; round++) {
    const changes = JSON.stringify({ replies, runId: `k${round}`, label: `s${round}` })
    const child = killable('recovery/events.mjs', [file, 'crash', changes])
    await Promise.race([child.count(1 + Math.floor(Math.random() * 150)), child.ended])
    // At any later moment.
    setTimeout(() => child.kill(), Math.random() * 8)
    expect(await child.ended).toBe('SIGKILL')
    leasesEnd(file)
    const seen = new Map<string, StreamEvent[]>()
    for (const line of child.lines) {
      const [runId, event] = JSON.parse(line)
      seen.set(runId, [...(seen.get(runId) ?? []), event])
    }
    for (const [runId, events] of seen) {
      const replayed: StreamEvent[] = []
      for await (const event of engine.attach(runId)) replayed.push(event)
      expect(replayed.slice(0, events.length)).toEqual(events)
      expect(replayed.map((event) => event.seq)).toEqual(replayed.map((_, index) => index + 1))
      const ends = replayed.filter(
        (event) => event.type === 'stream_error' || (event.type === 'stream_end' && event.final),
      )
      const status = await engine.ledger.query('SELECT status FROM turns WHERE run_id = ?', [runId])
      const finished = status.rows[0]?.status === 'completed'
      expect(ends).toHaveLength(finished ? 1 : 0)
      if (!finished) torn++
      compared += events.length
    }
  }
  expect(compared).toBeGreaterThan(KILLS)
  expect(torn).toBeGreaterThan(0)
})
