// Brokers whose agents give tasks to others, killed at any step: each task has exactly one result, whichever process has it in the
// end. It must never ask a process that is killed for anything.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { userTexts } from '../../support/broker.js'
import { folder, serving } from '../../support/cleanup.js'
import { expectSound } from '../../support/ledger/invariants.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'
import { killRound } from '../../support/processes/kill-rounds.js'
import { anthropic } from '../../support/servers/anthropic.js'

/** The kills of each test; `npm run proof:agents` sets more. */
const kills = Number(process.env.AGENT_KILLS ?? 3)
const script = 'broker/manager.mjs'

/** A model whose manager dispatches every second message, waits for an agent at the others, and whose worker answers its task. */
const model = () =>
  serving((response, { body }) => {
    const last = userTexts({ body } as never).at(-1) ?? ''
    const isManager = JSON.stringify(body.system).includes('manager')
    const hasResult = JSON.stringify(body.messages.at(-1).content).includes('tool_result')
    const task = /<(\w+-(\d+))>$/.exec(last)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (!isManager) response.end(anthropic.answer(`did ${last}`))
    else if (hasResult || task === null) response.end(anthropic.answer('done'))
    else if (Number(task[2]) % 2 === 0) {
      const params = { op: 'dispatch', target: 'coder', content: `task ${task[1]}` }
      response.end(anthropic.calls(['call_1', 'agent_send', params]))
    } else {
      const params = { agent: 'coder', task: `task ${task[1]}` }
      response.end(anthropic.calls(['call_1', 'spawn_agent', params]))
    }
  })

/** What became of the tasks. Returns their number. */
async function check(file: string, receipts: Map<string, string>): Promise<number> {
  const engine = new AgentEngine({ ledger: { path: file } })
  try {
    const query = async (sql: string) => (await engine.ledger.query(sql)).rows
    const items = await query(
      'SELECT id, status, reason, sender_json, message_json FROM queue_items',
    )
    const byId = new Map(items.map((row) => [row.id as string, row]))
    for (const [id, text] of receipts) {
      const { status, reason } = byId.get(id) ?? {}
      expect(`${text}: ${status} ${reason ?? ''}`).toMatch(
        /: (delivered |failed (interrupted|run_failed))$/,
      )
    }
    const history = await engine.ledger.history('main')
    const read = history.filter(({ role }) => role === 'user').map(({ content }) => content)
    const dispatches = await query('SELECT * FROM dispatches')
    for (const { id, kind, status, text: column, result_item_id, body } of dispatches) {
      // A server has one column for what no filter reads.
      const { text, resultItemId } =
        body === undefined
          ? { text: column, resultItemId: result_item_id }
          : JSON.parse(String(body))
      expect(`${id} ${status}`).toMatch(/ (ok|aborted)$/)
      const results = items.filter(({ sender_json }) => {
        const sender = JSON.parse((sender_json as string | null) ?? '{}')
        return sender.kind === 'worker_result' && sender.dispatchId === id
      })
      expect(results.map((row) => row.id)).toEqual(kind === 'dispatch' ? [resultItemId] : [])
      const times = read.filter((content) => content.includes(`dispatch="${id}"`)).length
      for (const { status: how, reason } of results) {
        const found = `${status} ${how} ${reason ?? ''}, read ${times} times`
        expect(found).toMatch(
          /^(\w+ delivered , read 1 times|\w+ failed (interrupted|run_failed|cancelled), read [01] times)$/,
        )
      }
      if (status === 'ok') expect(text).toMatch(/^did task /)
    }
    expect(await engine.recover()).toEqual([])
    expect(new Set(read).size).toBe(read.length)
    return dispatches.length
  } finally {
    await engine.close()
  }
}

for (const processes of [1, 3]) {
  test(`${processes} brokers whose agents give tasks, killed at any step`, {
    timeout: 600_000,
  }, async () => {
    const server = await model()
    let tasks = 0
    for (let round = 0; round < kills; round++) {
      const { file } = folder()
      const receipts = await killRound({
        script,
        processes,
        args: (name, count, until) => [file, server.url, `r${round}${name}`, String(count), until],
        messages: [4, 2],
        // Another step in each round and process.
        step: (number) => 5 + ((round * 11 + number * 7) % 30),
        sendsFirst: true,
      })
      tasks += await check(file, receipts)
      if (sqlite3) expectSound(file)
    }
    expect(tasks).toBeGreaterThan(0)
  })
}
