// Budgets that hold over processes and through trees of agents. It must never read a state of the engine: the ledger has the
// accounts.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { askedServer, brokerAt, userTexts } from '../../support/broker.js'
import { folder, serving } from '../../support/cleanup.js'
import { expectSound } from '../../support/ledger/invariants.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'
import { killable } from '../../support/processes/killable.js'
import { anthropic } from '../../support/servers/anthropic.js'

/** The trees and the rounds; `npm run proof:budgets` sets more. */
const trees = Number(process.env.BUDGET_TREES ?? 12)
const rounds = Number(process.env.BUDGET_ROUNDS ?? 1)

const accounts = `SELECT a.id, a.tokens, a.nanos,
  a.nanos + coalesce((SELECT sum(r.nanos) FROM budget_reservations r WHERE r.account = a.id), 0) AS most
  FROM budget_accounts a`

test('trees of agents in three processes never reserve more than their budget, and it is settled to the token', {
  timeout: 600_000,
}, async () => {
  // The first answer starts an agent; the agent answers, and then the first one.
  const server = await serving((response, { body }) => {
    const isTree = (userTexts({ body } as never)[0] ?? '').startsWith('tree')
    const isFirst = body.messages.length === 1
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const call = anthropic.calls(['c', 'spawn_agent', { task: 'work' }])
    response.end(isTree && isFirst ? call : anthropic.answer('done'))
  })
  for (let round = 0; round < rounds; round++) {
    const { file } = folder()
    // About a third of the calls at their maximum at once.
    const cap = trees * 0.001
    const reader = new AgentEngine({ ledger: { path: file } })
    const children = ['a', 'b', 'c'].map((name, number) => {
      const count = Math.ceil((trees - number) / 3)
      return killable('broker/spender.mjs', [file, server.url, name, String(count), String(cap)])
    })
    let isOver = false
    const ended = Promise.all(
      children.map(async (child) => {
        await child.line('ended')
        await child.ended
      }),
    ).finally(() => {
      isOver = true
    })
    let looks = 0
    while (!isOver) {
      const { rows } = await reader.ledger.query(accounts)
      for (const { most } of rows) expect(most as number).toBeLessThanOrEqual(cap * 1e9)
      looks++
    }
    await ended
    expect(looks).toBeGreaterThan(0)
    const endings = children.flatMap(({ lines }) => lines.filter((line) => line !== 'ended'))
    expect(endings).toHaveLength(trees)
    for (const ending of endings) expect(ending).toMatch(/^(end_turn |error budget_exceeded)$/)
    const { rows } = await reader.ledger.query(accounts)
    const spent = await reader.ledger.query(
      'SELECT sum(total_tokens) AS tokens, round(sum(cost) * 1e9) AS nanos FROM turns',
    )
    const [account] = rows
    expect(rows).toHaveLength(1)
    expect([account?.id, account?.tokens, account?.most]).toEqual([
      expect.stringMatching(/^day:\d+$/),
      spent.rows[0]?.tokens,
      account?.nanos,
    ])
    // Each call is rounded up to a billionth of a dollar.
    const rounded = (account?.nanos as number) - (spent.rows[0]?.nanos as number)
    expect(rounded).toBeGreaterThanOrEqual(0)
    expect(rounded).toBeLessThanOrEqual(4 * trees)
    await reader.close()
    if (sqlite3) expectSound(file)
  }
})

test('the agents of a tree share the budget of the turn at its top', async () => {
  const { server, next } = await askedServer()
  const model = { model: 'test-model', provider: 'test' }
  const { broker, engine } = brokerAt(
    server.url,
    { agents: { main: { ...model, subagents: {} } } },
    { budgets: [{ per: 'tree', maxTokens: 1_000_000 }] },
  )
  const { result } = broker.execute({ to: { session: 'main' }, message: 'go' })
  ;(await next()).calls(['1', 'spawn_agent', { task: 'a' }])
  ;(await next()).calls(['2', 'spawn_agent', { task: 'b' }])
  const open = 'SELECT DISTINCT account FROM budget_reservations'
  const third = await next()
  const { rows: reserved } = await engine.ledger.query(open)
  third.answer('done')
  ;(await next()).answer('done')
  ;(await next()).answer('end')
  const { text, turnId } = await result
  expect(text).toBe('end')
  expect(reserved).toEqual([{ account: `tree:${turnId}` }])
  const { rows } = await engine.ledger.query(
    `SELECT id, tokens = (SELECT sum(total_tokens) FROM turns) AS settled,
       (SELECT count(*) FROM budget_reservations) AS open FROM budget_accounts`,
  )
  expect(rows).toEqual([{ id: `tree:${turnId}`, settled: 1, open: 0 }])
})
