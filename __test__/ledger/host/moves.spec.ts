// A session moved to another turn of its tree, after real runs: what the next run sends, what stays, what is refused. It must never move a pointer
// behind the API.

import { expect, test } from 'vitest'
import type { AgentEngine } from '../../../index.js'
import { onlyPending } from '../../support/approvals.js'
import { context } from '../../support/engine.js'
import { scriptedLedger } from '../../support/ledger/scripted-ledger.js'

async function turn(engine: AgentEngine, content: string, changes = {}): Promise<string> {
  const currentMessage = { role: 'user' as const, content }
  const run = engine.run(context({ currentMessage, sessionLabel: 'main', ...changes }))
  return (await run.result).turnId
}

const code = (refused: Promise<unknown>) => refused.then(String, (error) => error.code)

test('a session that was moved continues from there, and returns to what was left', async () => {
  const { engine, ledger } = scriptedLedger(['1', '2', '3', '4'])
  const [first, second] = [await turn(engine, 'one'), await turn(engine, 'two')]
  await ledger.alias('m', 'main')
  const row = await ledger.moveSession('m', first, { expectedHead: second })
  expect(row).toMatchObject({ label: 'main', threadId: first })
  const third = await turn(engine, 'three')
  const texts = async (of: string) => (await ledger.history(of)).map(({ content }) => content)
  expect(await texts('main')).toEqual(['one', '1', 'three', '3'])
  expect(await code(ledger.moveSession('main', second, { expectedHead: second }))).toBe(
    'stale_head',
  )
  await ledger.moveSession('main', second, { expectedHead: third })
  expect(await texts('main')).toEqual(['one', '1', 'two', '2'])
  await turn(engine, 'four')
  expect(
    (await ledger.sessionHistory('main')).items.map(({ threadId }) => threadId).slice(0, 5),
  ).toEqual([first, second, first, third, second])
  expect((await ledger.turns({ sessionLabel: 'main' })).items).toHaveLength(4)
  expect((await ledger.search('three')).items).toHaveLength(1)
  expect((await ledger.verify()).problems).toEqual([])
})

test('a session is moved in its own tree only, and not while a turn runs or waits', async () => {
  const calls = (name: string) => ({ toolCalls: [{ id: name, name, arguments: {} }] })
  const { engine, ledger } = scriptedLedger(['1', '2', calls('look'), '3', calls('ask'), '4'])
  const first = await turn(engine, 'one')
  await ledger.fork(first, 'side')
  const other = await turn(engine, 'two', { sessionLabel: 'side' })
  expect(await code(ledger.moveSession('main', other))).toBe('unknown_turn')
  expect(await code(ledger.moveSession('main', 'none'))).toBe('unknown_turn')
  expect(await code(ledger.moveSession('none', first))).toBe('unknown_session')
  const unknown = { head: first } as never
  expect(await code(ledger.moveSession('main', first, unknown))).toBe('invalid_query')
  expect(await ledger.moveSession('side', first)).toMatchObject({ threadId: first })
  let during: string | undefined
  const look = async () => {
    during = await code(ledger.moveSession('side', other))
    return 'seen'
  }
  const last = await turn(engine, 'three', {
    sessionLabel: 'side',
    tools: [{ name: 'look', run: look }],
  })
  expect(during).toBe('storage_locked')
  const asked = {
    currentMessage: { role: 'user' as const, content: 'four' },
    sessionLabel: 'side',
    tools: [{ name: 'ask', run: () => 'done' }],
    beforeToolCall: () => 'ask' as const,
  }
  const run = engine.run(context(asked))
  const { id } = await onlyPending(engine)
  expect(await code(ledger.moveSession('side', other))).toBe('awaiting_approval')
  await engine.approve(id)
  await run.result
  expect(await ledger.moveSession('side', last)).toMatchObject({ threadId: last })
  expect((await ledger.verify()).problems).toEqual([])
})
