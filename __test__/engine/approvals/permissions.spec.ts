// Which calls need an approval: the tool's permission, `permissionsGranted`, and `beforeToolCall`; and what a turn reports of it. A gate
// that fails must never allow a call.

import { expect, test } from 'vitest'
import { answering, engineOn, onlyPending, paying } from '../../support/approvals.js'
import { folder } from '../../support/cleanup.js'
import { context } from '../../support/engine.js'
import { onPostgres } from '../../support/ledger/on-postgres.js'

const call = (to: string): [string, string, unknown][] => [['toolu_1', 'pay', { to, amount: 1 }]]

test.each([
  ['the name of the tool', 'pay'],
  ['a pattern that its argument matches', 'pay(to~*@team.example)'],
])('an entry of `permissionsGranted` covers a call: %s', async (_, entry) => {
  const { file } = folder()
  const engine = engineOn(await answering(call('ann@team.example')), file)
  const ran: unknown[] = []
  const permissionsGranted = [{ fs: ['read'] }, 'other', entry]
  const result = await engine.run(context({ tools: [paying(ran)], permissionsGranted })).result
  expect(ran.length).toBe(1)
  expect((await engine.approvals()).items).toEqual([])
  expect(result.permissionsUsed).toEqual([entry])
  expect(await engine.ledger.turn(result.turnId)).toMatchObject({
    permissionsGranted,
    permissionsUsed: [entry],
  })
  // A server has them in the body of the turn.
  if (onPostgres) return
  const { rows } = await engine.ledger.query(
    'SELECT permissions_granted AS granted, permissions_used AS used FROM turns',
  )
  expect(rows).toEqual([
    { granted: JSON.stringify(permissionsGranted), used: JSON.stringify([entry]) },
  ])
})

test.each([
  ['another tool', 'send'],
  ['a pattern that its argument does not match', 'pay(to~*@team.example)'],
  ['a pattern over an argument that it does not have', 'pay(for~*)'],
  ['an entry that is none', 'pay('],
])('an entry of `permissionsGranted` does not cover a call: %s', async (_, entry) => {
  const { file } = folder()
  const engine = engineOn(await answering(call('ann@other.example')), file)
  const ran: unknown[] = []
  const run = engine.run(context({ tools: [paying(ran)], permissionsGranted: [entry] }))
  await engine.deny((await onlyPending(engine)).id)
  expect((await run.result).toolCalls).toMatchObject([
    { status: 'failed', error: 'The call was denied.' },
  ])
  expect(ran).toEqual([])
})

test.each([
  ['allow', 'allow' as const, 1],
  ['deny', 'deny' as const, 0],
])('the host decides about a tool that asks: %s', async (_, verdict, times) => {
  const { file } = folder()
  const engine = engineOn(await answering(call('ann')), file)
  const ran: unknown[] = []
  const tools = [paying(ran)]
  await engine.run(context({ tools, beforeToolCall: () => verdict })).result
  expect([ran.length, (await engine.approvals()).items]).toEqual([times, []])
})

test('arguments that the host changes still need the approval of a tool that asks', async () => {
  const { file } = folder()
  const engine = engineOn(await answering(call('ann')), file)
  const ran: unknown[] = []
  const tools = [paying(ran)]
  const params = { to: 'bob', amount: 2 }
  const run = engine.run(context({ tools, beforeToolCall: () => ({ params }) }))
  const approval = await onlyPending(engine)
  expect(approval.params).toEqual(params)
  await engine.approve(approval.id)
  await run.result
  expect(ran).toEqual([params])
})

test('`ask` parks any tool, and changed arguments are validated before anybody is asked', async () => {
  const { file } = folder()
  const engine = engineOn(await answering(call('ann'), call('bob')), file)
  const ran: unknown[] = []
  const tools = [paying(ran, { permission: 'allow' })]
  let calls = 0
  const run = engine.run(
    context({
      tools,
      beforeToolCall: () => (calls++ === 0 ? { ask: true, params: { to: 7 } } : 'ask'),
    }),
  )
  const approval = await onlyPending(engine)
  expect(approval.params).toEqual({ to: 'bob', amount: 1 })
  await engine.approve(approval.id)
  const result = await run.result
  expect(result.toolCalls.map(({ status }) => status)).toEqual(['failed', 'completed'])
  expect(ran).toEqual([{ to: 'bob', amount: 1 }])
})

test.each<[string, unknown]>([
  ['no time', { ask: true, expiresMs: 0 }],
  ['a question that is no text', { ask: true, question: 7 }],
  ['a decision beside it', { ask: true, deny: 'no' }],
  ['an unknown field', { ask: true, who: 'ann' }],
  ['something else than true', { ask: 'yes' }],
])('a question with %s is a deny', async (_, verdict) => {
  const { file } = folder()
  const engine = engineOn(await answering(call('ann')), file)
  const ran: unknown[] = []
  const tools = [paying(ran)]
  const run = engine.run(context({ tools, beforeToolCall: () => verdict as never }))
  expect((await run.result).toolCalls).toMatchObject([
    { status: 'failed', error: expect.stringContaining('was denied') },
  ])
  expect([ran, (await engine.approvals()).items]).toEqual([[], []])
})

test.each([
  ['onApproval', 'later'],
  ['approvalExpiresMs', 0],
  ['approvalExpiresMs', 1.5],
])('a wrong `%s` (%j) is refused', async (field, value) => {
  const { file } = folder()
  const engine = engineOn(await answering(), file)
  expect(() => engine.run(context({ [field]: value }))).toThrow(
    expect.objectContaining({ code: 'invalid_context', path: field }),
  )
})

test.each<[string, () => object, string]>([
  ['approvals', () => ({ status: 'maybe' }), 'status'],
  ['approvals', () => ({ sesion: 'main' }), 'sesion'],
  ['approvals', () => ({ limit: 0 }), 'limit'],
])('wrong arguments of `%s` are refused', async (_, filter, path) => {
  const { file } = folder()
  const engine = engineOn(await answering(), file)
  await expect(engine.approvals(filter() as never)).rejects.toMatchObject({
    code: 'invalid_options',
    path,
  })
})

test('wrong arguments of a decision are refused', async () => {
  const { file } = folder()
  const engine = engineOn(await answering(), file)
  await expect(engine.approve('x', { param: {} } as never)).rejects.toMatchObject({
    code: 'invalid_options',
    path: 'param',
  })
  await expect(engine.approve('x', { params: 7 } as never)).rejects.toMatchObject({
    code: 'invalid_params',
  })
  await expect(engine.deny('x', { by: '' })).rejects.toMatchObject({ path: 'by' })
  await expect(engine.deny(7 as never)).rejects.toMatchObject({ code: 'unknown_approval' })
})
