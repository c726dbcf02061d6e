// Budgets that hold over processes and through trees of agents. It must never read a state of the engine: the ledger has the
// accounts.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { askedServer, brokerAt, treeModel } from '../../support/broker.js'
import { folder } from '../../support/cleanup.js'
import { engineAt } from '../../support/engine.js'
import { recordCommits } from '../../support/ledger/commits.js'
import { expectSound } from '../../support/ledger/invariants.js'
import { onPostgres } from '../../support/ledger/named.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'
import { killable } from '../../support/processes/killable.js'

/** The trees and the rounds; `npm run proof:budgets` sets more. */
const trees = Number(process.env.BUDGET_TREES ?? 12)
const rounds = Number(process.env.BUDGET_ROUNDS ?? 1)

const accounts = `SELECT a.id, a.tokens, a.nanos,
  a.nanos + coalesce((SELECT sum(r.nanos) FROM budget_reservations r WHERE r.account = a.id), 0) AS most
  FROM budget_accounts a`

test('trees of agents in three processes never reserve more than their budget, and it is settled to the token', {
  timeout: 600_000,
}, async () => {
  const server = await treeModel()
  for (let round = 0; round < rounds; round++) {
    const { path, file } = folder()
    // About a third of the calls at their maximum at once.
    const cap = trees * 0.001
    const reader = new AgentEngine({ ledger: { path: file } })
    await reader.ledger.query('SELECT 1')
    // Every commit of a file; those of a server are sampled.
    const recorded = sqlite3 && !onPostgres
    const commits = recorded ? await recordCommits(file, join(path, 'copy.db')) : undefined
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
    const states: Record<string, unknown>[][] = []
    while (!recorded && !isOver) states.push((await reader.ledger.query(accounts)).rows)
    await ended
    if (commits !== undefined) states.push(...(await commits.after(accounts)))
    // Calls of several trees share a commit, so that their number is open.
    const reserving = states.filter((rows) => rows.some((row) => row.most !== row.nanos))
    if (recorded) expect(reserving.length).toBeGreaterThan(2)
    const most = states.map((rows) => Math.max(0, ...rows.map((row) => row.most as number)))
    expect(most.filter((nanos) => nanos > cap * 1e9)).toEqual([])
    expect(Math.max(...most)).toBeGreaterThan(0)
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

test('what a process had reserved when it was killed is spent, at its maximum', async () => {
  const { server, next } = await askedServer()
  const { file } = folder()
  const child = killable('broker/spender.mjs', [file, server.url, 'killed', '1', '1'])
  await next()
  child.kill()
  await child.ended
  const cost = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 0, tiers: [] }
  // Without a broker: it would resume the turn.
  const engine = engineAt(server.url, {
    ledger: { path: file },
    budgets: [{ per: 'day', maxCost: 1 }],
    models: [
      {
        provider: 'test',
        id: 'test-model',
        contextWindow: 200_000,
        maxOutputTokens: 1_000,
        cost,
      },
    ],
  })
  const reserved = 'SELECT tokens, nanos FROM budget_reservations'
  const [most] = (await engine.ledger.query(reserved)).rows
  const run = engine.run('Hi', { sessionLabel: 'other', model: 'test-model', provider: 'test' })
  ;(await next()).answer('Hello')
  const { usage, cost: dollars } = await run.result
  // The settlement of the call follows its answer.
  await engine.close()
  let reader = new AgentEngine({ ledger: { path: file } })
  // A server knows that a process has ended when its lease has: whoever opens the ledger then settles the call.
  await expect
    .poll(
      async () => {
        await reader.close()
        reader = new AgentEngine({ ledger: { path: file } })
        return (await reader.ledger.query(reserved)).rows
      },
      { interval: 200, timeout: 20_000 },
    )
    .toEqual([])
  const [account] = (await reader.ledger.query('SELECT tokens, nanos FROM budget_accounts')).rows
  expect(most?.tokens).toBeGreaterThan(1_000)
  expect(account).toEqual({
    tokens: (most?.tokens as number) + usage.totalTokens,
    nanos: (most?.nanos as number) + Math.round((dollars ?? 0) * 1e9),
  })
  await reader.close()
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
  // The tree has ended: nobody will ask for its balance.
  const { rows } = await engine.ledger.query(
    'SELECT id FROM budget_accounts UNION ALL SELECT account FROM budget_reservations',
  )
  expect(rows).toEqual([])
})

/** What is counted of the budget of the turn at the top at a moment, and what is reserved in it. */
const balance = `SELECT a.tokens + coalesce((SELECT sum(r.tokens) FROM budget_reservations r WHERE r.account = a.id), 0)
    + coalesce((SELECT sum(d.max_tokens) FROM dispatches d WHERE d.parent_account = a.id AND d.status = 'active'), 0) AS most
  FROM budget_accounts a WHERE a.id LIKE 'turn:%'`

test('a task has the smaller of its own budget and of what its parent has left, reserved before it starts and settled at its end', async () => {
  const { server, next } = await askedServer()
  const model = { model: 'test-model', provider: 'test', maxResponseTokens: 100 }
  const { broker, engine } = brokerAt(server.url, {
    agents: {
      main: {
        ...model,
        subagents: { allowAgents: ['coder', 'tester'] },
        budgets: { maxTokens: 20_000 },
      },
      coder: { ...model, subagents: { allowAgents: ['tester'] }, budgets: { maxTokens: 9_000 } },
      tester: { ...model, budgets: { maxTokens: 1_000_000 } },
    },
    defaultAgent: 'main',
  })
  const { result } = broker.execute({ to: { session: 'main' }, message: 'go' })
  const most: number[] = []
  const look = async () => {
    const { rows } = await engine.ledger.query(balance)
    most.push(...rows.map((row) => row.most as number))
  }
  const parent = await next()
  await look()
  parent.calls(['1', 'spawn_agent', { agent: 'coder', task: 'a' }])
  const child = await next()
  await look()
  const [first] = await broker.dispatches('main')
  expect(first?.maxTokens).toBe(9_000)
  child.calls(['2', 'spawn_agent', { agent: 'tester', task: 'b' }])
  const grandchild = await next()
  await look()
  const [second] = await broker.dispatches(first?.sessionLabel ?? '')
  // What the child has left, after its own call.
  expect(second?.maxTokens).toBeLessThan(9_000)
  expect(second?.maxTokens).toBeGreaterThan(8_000)
  grandchild.answer('deep')
  ;(await next()).answer('middle')
  const again = await next()
  await look()
  again.calls(['3', 'spawn_agent', { agent: 'tester', task: 'c' }])
  const third = await next()
  await look()
  const [, other] = await broker.dispatches('main')
  // All that is left: what the first task did not use is there again.
  const { rows: left } = await engine.ledger.query(
    "SELECT 20000 - tokens AS tokens FROM budget_accounts WHERE id LIKE 'turn:%'",
  )
  expect(left).toEqual([{ tokens: other?.maxTokens }])
  third.answer('ok')
  ;(await next()).answer('end')
  expect((await result).text).toBe('end')
  expect(most.length).toBeGreaterThan(4)
  for (const tokens of most) expect(tokens).toBeLessThanOrEqual(20_000)
  const { rows } = await engine.ledger.query(
    'SELECT id FROM budget_accounts UNION ALL SELECT account FROM budget_reservations',
  )
  expect(rows).toEqual([])
})

test('a task over its budget ends as an error of the call, and its parent goes on; without a budget left none is started', async () => {
  const { server, next } = await askedServer()
  const model = { model: 'test-model', provider: 'test', maxResponseTokens: 100 }
  const { broker } = brokerAt(server.url, {
    agents: {
      main: { ...model, subagents: { allowAgents: ['coder'] } },
      coder: { ...model, budgets: { maxTokens: 50 } },
    },
    defaultAgent: 'main',
  })
  const { result } = broker.execute({ to: { session: 'main' }, message: 'go' })
  ;(await next()).calls(['1', 'spawn_agent', { agent: 'coder', task: 'a' }])
  const asked = await next()
  expect(JSON.stringify(asked.seen.body.messages.at(-1))).toMatch(
    /not finished: error.*the budget of the turn has `50` left/,
  )
  asked.answer('alone')
  expect((await result).text).toBe('alone')
  const [dispatch] = await broker.dispatches('main')
  expect([dispatch?.status, dispatch?.maxTokens]).toEqual(['error', 50])
})

test('a dispatched task that goes on after its parent has a budget of its own, and leaves nothing behind', async () => {
  const { server, next } = await askedServer()
  const model = { model: 'test-model', provider: 'test', maxResponseTokens: 100 }
  const { broker, engine } = brokerAt(server.url, {
    agents: {
      main: { ...model, systemPrompt: 'manager', subagents: {}, budgets: { maxTokens: 10_000 } },
    },
  })
  const { result } = broker.execute({ to: { session: 'main' }, message: 'go' })
  const params = { op: 'dispatch', target: 'main', content: 'Work' }
  const parent = await next()
  parent.calls(['1', 'agent_send', params])
  const [one, two] = [await next(), await next()]
  const [worker, manager] = one.texts.includes('Work') ? [one, two] : [two, one]
  const [dispatch] = await broker.dispatches('main')
  // Half of what is left: its parent goes on.
  expect(dispatch?.maxTokens).toBeGreaterThan(4_000)
  expect(dispatch?.maxTokens).toBeLessThan(5_000)
  manager.answer('It is on its way')
  await result
  const ended = new Promise<void>((resolve) => {
    broker.on('queue', ({ items }) => {
      if (items.some(({ from }) => from?.kind === 'worker_result')) resolve()
    })
  })
  worker.answer('done')
  ;(await next()).answer('Thanks')
  await ended
  const { rows } = await engine.ledger.query(
    'SELECT id FROM budget_accounts UNION ALL SELECT account FROM budget_reservations',
  )
  expect(rows).toEqual([])
})
