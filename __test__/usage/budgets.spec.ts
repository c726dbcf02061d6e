// Budgets through the public API: reservations, calls refused before they are sent, and the state after a restart. It must never
// read internal state of the engine: the scripted provider records the requests.

import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentEngineOptions,
  type BudgetOptions,
  type ScriptedReply,
  scriptedProvider,
} from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, testModel } from '../support/engine.js'
import { price } from '../support/values/prices.js'

const priced = { ...testModel, maxOutputTokens: 1_000, cost: price }
const usage = {
  inputTokens: 100,
  outputTokens: 50,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
}
/** The cost of a call with `usage`. */
const SPENT = 0.0006

function start(
  replies: ScriptedReply[],
  budgets: BudgetOptions[],
  options: AgentEngineOptions = {},
) {
  const provider = scriptedProvider(replies)
  const engine = closing(
    new AgentEngine({ providers: { test: provider }, models: [priced], budgets, ...options }),
  )
  return { engine, provider }
}

const answers = (count: number): ScriptedReply[] =>
  Array.from({ length: count }, () => ({ text: 'ok', usage }))

test('a call that could exceed the budget of its run is not made, and the earlier output stays', async () => {
  const { file } = folder()
  const { engine, provider } = start(
    [{ text: 'I look.', toolCalls: [{ name: 'look' }], usage }, { text: 'never' }],
    [{ per: 'run', maxTokens: 1_150 }],
    { ledger: { path: file } },
  )
  const look = { name: 'look', run: () => 'seen' }
  const run = engine.run(context({ tools: [look], runId: 'the-run' }))
  const result = await run.result
  expect(provider.requests).toHaveLength(1)
  expect(result).toMatchObject({ stopReason: 'error', persisted: true })
  expect(result.error?.detail).toMatchObject({ kind: 'budget_exceeded', code: 'budget_tokens' })
  expect(result.error?.message).toMatch(/`1000` left \(`budgets\[0\]\.maxTokens`\)/)
  expect(result.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool'])
  expect(result.usage.totalTokens).toBe(150)
  const turn = await engine.ledger.turn(result.turnId)
  expect(turn).toMatchObject({ status: 'failed', error: { code: 'budget_tokens' } })
  // A run's budget ends with the run; the next run has its own.
  expect(engine.budgets()).toEqual([])
})

test('with an unknown price and a budget in money no call is made', async () => {
  const { engine, provider } = start(answers(1), [{ per: 'session', maxCost: 5 }], {
    models: [testModel],
  })
  const { error } = await engine.run(context()).result
  expect(error?.detail).toMatchObject({ kind: 'budget_exceeded', code: 'budget_no_price' })
  expect(provider.requests).toHaveLength(0)
})

test('64 concurrent runs together never exceed a cap', async () => {
  const cap = 0.2
  const gated = answers(64).map((reply) => ({ ...(reply as object), gate: 'go' }))
  const { engine, provider } = start([...gated, ...answers(64)], [{ per: 'day', maxCost: cap }])
  const wave = (from: number) =>
    Array.from({ length: 64 }, (_, n) => {
      const sessionLabel = `agent:main:dm:${from + n}`
      return engine.run(context({ sessionLabel })).result
    })
  let refused = 0
  const first = wave(0)
  for (const result of first)
    result.then(({ error }) => {
      if (error?.detail.code === 'budget_cost') refused++
    })
  await expect.poll(() => provider.requests.length + refused, { timeout: 20_000 }).toBe(64)
  // The maximum cost of a call is 0.01 for its answer, and little for its prompt: 19 fit.
  const [held] = engine.budgets()
  expect(held.usedCost).toBe(0)
  expect(provider.requests).toHaveLength(19)
  expect(held.heldCost).toBeGreaterThan(0.19)
  expect(held.heldCost).toBeLessThanOrEqual(cap)
  provider.open('go')
  await Promise.all(first)
  const results = await Promise.all([...first, ...wave(64)])
  const ended = results.filter(({ stopReason }) => stopReason === 'end_turn').length
  expect(provider.requests).toHaveLength(ended)
  expect(ended).toBeGreaterThan(19)
  const [day] = engine.budgets()
  expect(day).toMatchObject({ per: 'day', maxCost: cap, heldCost: 0, heldTokens: 0 })
  expect(day.usedCost).toBeCloseTo(ended * SPENT, 9)
  expect(day.usedCost).toBeLessThanOrEqual(cap)
  expect(day.key).toMatch(/^\d{4}-\d\d-\d\d$/)
})

test('spending before a restart counts for sessions, agents and days', async () => {
  const { file } = folder()
  const budgets: BudgetOptions[] = [
    { per: 'session', maxTokens: 10_000 },
    { per: 'agent', maxTokens: 10_000 },
    { per: 'agent', only: 'other', maxTokens: 1 },
    { per: 'day', maxTokens: 10_000 },
  ]
  const first = start(answers(3), budgets, { ledger: { path: file } })
  await first.engine.run(context({ sessionLabel: 'agent:main:main' })).result
  await first.engine.run(context({ sessionLabel: 'agent:main:dm:x' })).result
  const spent = (engine: AgentEngine) =>
    engine.budgets().map(({ per, key, usedTokens }) => [per, key, usedTokens])
  const before = spent(first.engine)
  expect(before).toEqual([
    ['session', 'agent:main:dm:x', 150],
    ['session', 'agent:main:main', 150],
    ['agent', 'main', 300],
    ['day', expect.any(String), 300],
  ])
  await first.engine.close()
  const second = start(answers(1), budgets, { ledger: { path: file } })
  await second.engine.run(context({ sessionLabel: 'agent:main:main' })).result
  expect(spent(second.engine)).toEqual([
    ['session', 'agent:main:main', 300],
    ['agent', 'main', 450],
    ['day', expect.any(String), 450],
  ])
  const refused = await second.engine.run(context({ sessionLabel: 'agent:other:main' })).result
  expect(refused.error?.detail.kind).toBe('budget_exceeded')
})

test('a fork is charged to the agent of its origin', async () => {
  const { file } = folder()
  const budgets: BudgetOptions[] = [{ per: 'agent', only: 'main', maxTokens: 1_100 }]
  const { engine, provider } = start(answers(2), budgets, { ledger: { path: file } })
  const main = await engine.run(context({ sessionLabel: 'agent:main:main' })).result
  const fork = await engine.ledger.fork(main.turnId)
  expect(fork.agentId).toBe('main')
  const refused = await engine.run(context({ sessionLabel: fork.label })).result
  expect(refused.error?.detail.kind).toBe('budget_exceeded')
  // Also a session that does not exist yet, with its first turn.
  const beside = { sessionLabel: 'a new one', parentTurnId: main.turnId }
  expect((await engine.run(context(beside)).result).error?.detail.kind).toBe('budget_exceeded')
  expect(provider.requests).toHaveLength(1)
  expect(engine.budgets()).toMatchObject([{ key: 'main', usedTokens: 150, heldTokens: 0 }])
})

test('a failed call releases its reservation, and each attempt is charged separately', async () => {
  const { engine, provider } = start(
    [{ error: { status: 500, message: 'down' } }, { text: 'ok', usage }],
    [{ per: 'session', maxTokens: 5_000 }],
  )
  const { stopReason } = await engine.run(context()).result
  expect(stopReason).toBe('end_turn')
  expect(provider.requests).toHaveLength(2)
  expect(engine.budgets()).toMatchObject([{ usedTokens: 150, heldTokens: 0 }])
})

test('a compaction is charged too, and a refused one does not change the session', async () => {
  const { file } = folder()
  const turns = answers(6)
  const { engine, provider } = start(turns, [{ per: 'session', maxTokens: 2_250 }], {
    ledger: { path: file },
  })
  for (let n = 0; n < 6; n++) {
    const content = `${n} ${'lorem ipsum '.repeat(20)}`
    await engine.run(context({ currentMessage: { role: 'user', content } })).result
  }
  expect(provider.requests).toHaveLength(6)
  const history = await engine.ledger.history('agent:main:main')
  const refused = engine.compact('agent:main:main')
  await expect(refused).rejects.toMatchObject({ code: 'compaction_failed' })
  await expect(refused).rejects.toThrow(/budgets\[0\]\.maxTokens/)
  expect(provider.requests).toHaveLength(6)
  expect(await engine.ledger.history('agent:main:main')).toEqual(history)
})

test.each([
  [[{ per: 'run' }], 'budgets[0].maxTokens'],
  [[{ per: 'day', maxCost: -1 }], 'budgets[0].maxCost'],
  [
    [
      { per: 'day', maxTokens: 1 },
      { per: 'run', only: 'x', maxTokens: 1 },
    ],
    'budgets[1].only',
  ],
  [[{ per: 'year', maxTokens: 1 }], 'budgets[0].per'],
  [[{ per: 'run', maxTokens: 1.5 }], 'budgets[0].maxTokens'],
  [{}, 'budgets'],
])('%j is refused at %s', (budgets, field) => {
  expect(
    () => new AgentEngine({ providers: { test: scriptedProvider([]) }, budgets } as never),
  ).toThrowError(expect.objectContaining({ code: 'invalid_options', field }))
})
