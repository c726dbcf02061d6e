// Two turns compared, after real runs with tools, forks and a compaction: the common ancestor, what each side has, limits. It must
// never compare turns that were not run.

import { expect, test } from 'vitest'
import type { AgentEngine, DiffSide } from '../../../index.js'
import { context } from '../../support/engine.js'
import { scriptedLedger } from '../../support/ledger/scripted-ledger.js'
import { refusal } from '../../support/ledger/sqlite3.js'

const usage = { inputTokens: 10, outputTokens: 2 }
const tools = [{ name: 'look', run: ({ at }: { at: string }) => `seen ${at}` }]
const looks = (at: string) => ({
  text: 'looking',
  usage,
  toolCalls: [{ id: `c-${at}`, name: 'look', arguments: { at } }],
})

async function turn(engine: AgentEngine, content: string, sessionLabel: string): Promise<string> {
  const currentMessage = { role: 'user' as const, content }
  const run = engine.run(context({ currentMessage, sessionLabel, tools }))
  const { turnId, stopReason } = await run.result
  expect(stopReason).toBe('end_turn')
  return turnId
}

const plain = (side: DiffSide) => ({
  turns: side.turns.map(({ id }) => id),
  messages: side.messages.map(({ role, content }) => `${role}: ${content}`),
  calls: side.toolCalls.map(({ toolName, params, sessionLabel }) => [
    toolName,
    params,
    sessionLabel,
  ]),
  count: side.turnCount,
  tokens: side.usage.totalTokens,
  truncated: side.truncated,
})

const none = { turns: [], messages: [], calls: [], count: 0, tokens: 0, truncated: false }

test('two forks have a common ancestor, and each its own messages, calls and usage', async () => {
  const answer = (text: string) => ({ text, usage })
  const { engine, ledger } = scriptedLedger([
    answer('one'),
    answer('two'),
    looks('a'),
    answer('three'),
    answer('four'),
  ])
  const root = await turn(engine, 'first', 'main')
  const shared = await turn(engine, 'second', 'main')
  await ledger.fork(shared, 'side')
  const main = await turn(engine, 'third', 'main')
  const side = await turn(engine, 'fourth', 'side')
  const { ancestor, a, b } = await ledger.diff(main, side)
  expect(ancestor?.id).toBe(shared)
  expect(plain(a)).toEqual({
    turns: [main],
    messages: ['user: third', 'assistant: looking', 'tool: seen a', 'assistant: three'],
    calls: [['look', { at: 'a' }, 'main']],
    count: 1,
    tokens: 24,
    truncated: false,
  })
  expect(plain(b)).toEqual({
    ...none,
    turns: [side],
    messages: ['user: fourth', 'assistant: four'],
    count: 1,
    tokens: 12,
  })
  expect([a.cost, a.unpricedTurns]).toEqual([null, 1])
  const down = await ledger.diff(root, main)
  expect([down.ancestor?.id, plain(down.a), down.b.turns.map(({ id }) => id)]).toEqual([
    root,
    none,
    [shared, main],
  ])
  const same = await ledger.diff(main, main)
  expect([same.ancestor?.id, plain(same.a), plain(same.b)]).toEqual([main, none, none])
})

test('turns of different trees have no common ancestor, and a limit cuts the content but no sum', async () => {
  const { engine, ledger } = scriptedLedger(Array(6).fill({ text: 'ok', usage }))
  const ids: string[] = []
  for (let n = 0; n < 4; n++) ids.push(await turn(engine, `m${n}`, 'main'))
  const other = await turn(engine, 'o', 'other')
  const { ancestor, a, b } = await ledger.diff(ids[3] as string, other, { limit: 3 })
  expect(ancestor).toBeNull()
  expect(plain(a)).toEqual({
    turns: ids.slice(0, 3),
    messages: ['m0', 'm1', 'm2'].flatMap((text) => [`user: ${text}`, 'assistant: ok']),
    calls: [],
    count: 4,
    tokens: 48,
    truncated: true,
  })
  expect([b.turnCount, b.truncated]).toEqual([1, false])
  expect(await refusal(ledger.diff('none', other))).toEqual({
    code: 'unknown_turn',
    field: 'turnA',
  })
  expect(await refusal(ledger.diff(other, 'none'))).toEqual({
    code: 'unknown_turn',
    field: 'turnB',
  })
  expect(await refusal(ledger.diff(other, other, { limit: 0 }))).toEqual({
    code: 'invalid_query',
    field: 'options.limit',
  })
})
