// Brokers that are killed at any step: every message with a receipt is delivered or visibly fails, exactly once, whichever process
// has it in the end. It must never ask a process that is killed for anything.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { userTexts } from '../support/broker.js'
import { folder, serving } from '../support/cleanup.js'
import { expectSound } from '../support/ledger/invariants.js'
import { sqlite3 } from '../support/ledger/sqlite3.js'
import { killRound } from '../support/processes/kill-rounds.js'
import { anthropic } from '../support/servers/anthropic.js'

/** The kills of each test; `npm run proof:broker` sets more. */
const kills = Number(process.env.BROKER_KILLS ?? 4)
const script = 'broker/sender.mjs'

/** A model that calls a tool first for every second message. */
const model = () =>
  serving((response, { body }) => {
    const last = body.messages.at(-1)
    const results = JSON.stringify(last.content).includes('tool_result')
    const number = Number(/-(\d+)>/.exec(userTexts({ body } as never).at(-1) ?? '')?.[1] ?? 0)
    const calls = number % 2 === 1 && !results
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(calls ? anthropic.calls(['call_1', 'note', {}]) : anthropic.answer('done'))
  })

/** What became of the messages with receipts. */
async function check(file: string, receipts: Map<string, string>): Promise<void> {
  const engine = new AgentEngine({ ledger: { path: file } })
  try {
    const { rows } = await engine.ledger.query('SELECT id, status, reason FROM queue_items')
    const items = new Map(rows.map((row) => [row.id as string, row]))
    const history = await engine.ledger.history('main')
    const asked = history.filter(({ role }) => role === 'user').map(({ content }) => content)
    for (const [id, text] of receipts) {
      const { status, reason } = items.get(id) ?? {}
      const times = asked.filter((content) => content === text).length
      const found = `${text}: ${status} ${reason ?? ''}, ${times} times in the session`
      expect(found).toMatch(
        /: (delivered , 1 times|failed (interrupted|run_failed), [01] times) in the session$/,
      )
    }
    expect(rows.filter(({ status }) => status === 'pending' || status === 'processing')).toEqual([])
    expect(await engine.recover()).toEqual([])
    // Nothing is answered twice, also of messages whose receipt was not given.
    expect(new Set(asked).size).toBe(asked.length)
  } finally {
    await engine.close()
  }
  if (sqlite3) expectSound(file)
}

for (const processes of [1, 3]) {
  test(`${processes} brokers on one session, killed at any step`, {
    timeout: 600_000,
  }, async () => {
    const server = await model()
    for (let round = 0; round < kills; round++) {
      const { file } = folder()
      const receipts = await killRound({
        script,
        processes,
        args: (name, count, until) => [file, server.url, `r${round}${name}`, String(count), until],
        messages: [8, 2],
        // Another step in each round and process.
        step: (number) => 1 + ((round * 7 + number * 5) % 40),
        sendsFirst: false,
      })
      await check(file, receipts)
    }
  })
}
