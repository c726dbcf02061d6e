// Calls that wait for an approval: requested, approved, denied, expired, and the run that continues. A call must never run before it
// is approved, nor with other arguments than those that were approved.

import { expect, test } from 'vitest'
import type { StreamEvent } from '../../../index.js'
import {
  answering,
  decider,
  engineOn,
  onlyPending,
  paying,
  pending,
} from '../../support/approvals.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, engineAt, readAll } from '../../support/engine.js'
import { expectGapless } from '../../support/events.js'

const ANN = { to: 'ann', amount: 5 }
const approvals = (events: StreamEvent[]) => events.filter((event) => event.type === 'approval')

test('an approved call runs once, in the same run, with events and rows that tell it', async () => {
  const { file } = folder()
  const server = await answering([['toolu_1', 'pay', ANN]])
  const engine = engineOn(server, file)
  const ran: unknown[] = []
  const run = engine.run(context({ tools: [paying(ran)], runId: 'r1' }))
  const events = readAll(run)
  const approval = await onlyPending(engine)
  expect(ran).toEqual([])
  expect(approval).toEqual({
    id: expect.any(String),
    kind: 'approval',
    status: 'pending',
    turnId: expect.any(String),
    runId: 'r1',
    sessionLabel: 'agent:main:main',
    callId: expect.any(String),
    toolCallId: 'toolu_1',
    messageId: expect.any(String),
    toolName: 'pay',
    params: ANN,
    paramsHash: expect.stringMatching(/^[0-9a-f]{32}$/),
    createdAt: expect.any(Number),
  })
  const decided = await engine.approve(approval.id, { by: 'eve' })
  expect(decided).toEqual({
    ...approval,
    status: 'approved',
    decidedBy: 'eve',
    decidedAt: expect.any(Number),
  })
  const result = await run.result
  expect(ran).toEqual([ANN])
  expect(result).toMatchObject({
    runId: 'r1',
    turnId: approval.turnId,
    stopReason: 'end_turn',
    text: 'Done.',
    persisted: true,
    permissionsUsed: [{ tool: 'pay', approvalId: approval.id, decidedBy: 'eve' }],
  })
  expect(result.toolCalls).toMatchObject([{ status: 'completed', params: ANN, result: 'paid' }])
  const seen = await events
  expectGapless(seen)
  const { id, callId, messageId } = approval
  const about = { approvalId: id, kind: 'approval', toolName: 'pay', callId, messageId }
  expect(approvals(seen)).toMatchObject([
    { ...about, phase: 'requested', status: 'pending', toolCallId: 'toolu_1', params: ANN },
    { ...about, phase: 'decided', status: 'approved', decidedBy: 'eve' },
  ])
  expect(seen.map((event) => event.type).filter((type) => type !== 'token')).toEqual([
    ...['stream_start', 'usage', 'stream_end', 'approval', 'approval', 'tool_status'],
    ...['tool_status', 'usage', 'stream_end'],
  ])
  const turn = await engine.ledger.turn(result.turnId)
  expect(turn).toMatchObject({
    status: 'completed',
    permissionsGranted: [],
    permissionsUsed: result.permissionsUsed,
  })
  expect((await engine.approvals()).items).toEqual([decided])
  expect((await engine.ledger.verify()).problems).toEqual([])
  const stored: StreamEvent[] = []
  for await (const event of engine.attach('r1')) stored.push(event)
  expect(approvals(stored)).toEqual(approvals(seen))
})

test('a denied call never runs, and the model reads the reason', async () => {
  const { file } = folder()
  const server = await answering([['toolu_1', 'pay', ANN]])
  const engine = engineOn(server, file)
  const ran: unknown[] = []
  const run = engine.run(context({ tools: [paying(ran)] }))
  const { id } = await onlyPending(engine)
  await engine.deny(id, { reason: 'Not to Ann.', by: 'eve' })
  const result = await run.result
  expect(ran).toEqual([])
  expect(result.toolCalls).toMatchObject([{ status: 'failed', error: 'Not to Ann.' }])
  expect(result.permissionsUsed).toBeUndefined()
  const [, second] = server.seen
  expect(second?.body.messages.at(-1).content).toMatchObject([
    { type: 'tool_result', tool_use_id: 'toolu_1', is_error: true },
  ])
  expect(JSON.stringify(second?.body)).toContain('Not to Ann.')
})

test('a decision is final: the second one names who made the first', async () => {
  const { file } = folder()
  const engine = engineOn(await answering([['toolu_1', 'pay', ANN]]), file)
  const ran: unknown[] = []
  const run = engine.run(context({ tools: [paying(ran)] }))
  const { id } = await onlyPending(engine)
  const elsewhere = decider(file)
  const both = await Promise.allSettled([
    engine.approve(id, { by: 'eve' }),
    elsewhere.deny(id, { by: 'bob' }),
  ])
  const [won] = both.filter((one) => one.status === 'fulfilled')
  const [lost] = both.filter((one) => one.status === 'rejected')
  const winner = won?.value.decidedBy
  expect(lost?.reason).toMatchObject({
    code: 'already_decided',
    message: expect.stringContaining(`by \`${winner}\``),
  })
  const result = await run.result
  expect(result.toolCalls[0]?.status).toBe(winner === 'eve' ? 'completed' : 'failed')
  expect(ran).toEqual(winner === 'eve' ? [ANN] : [])
  await expect(engine.approve('01ARZ3NDEKTSV4RRFFQ69G5FAV')).rejects.toMatchObject({
    code: 'unknown_approval',
  })
})

test('approved with other arguments, the call runs with those, and the ledger shows both', async () => {
  const { file } = folder()
  const engine = engineOn(await answering([['toolu_1', 'pay', ANN]]), file)
  const ran: unknown[] = []
  const run = engine.run(context({ tools: [paying(ran)] }))
  const { id } = await onlyPending(engine)
  await expect(engine.approve(id, { params: { to: 'ann', amount: 500 } })).rejects.toMatchObject({
    code: 'invalid_params',
    path: 'params',
    message: expect.stringContaining('amount'),
  })
  const params = { to: 'ann', amount: 4 }
  expect(await engine.approve(id, { params })).toMatchObject({
    status: 'approved',
    params,
    requestedParams: ANN,
  })
  const result = await run.result
  expect([ran, result.toolCalls[0]?.params]).toEqual([[params], params])
  const turn = await engine.ledger.turn(result.turnId)
  expect(turn?.toolCalls[0]?.params).toEqual(params)
})

test('the arguments that the hook has changed are the ones that are approved', async () => {
  const { file } = folder()
  const engine = engineOn(await answering([['toolu_1', 'pay', ANN]]), file)
  const ran: unknown[] = []
  const run = engine.run(
    context({
      tools: [paying(ran, { permission: 'allow' })],
      beforeToolCall: ({ params }) => ({
        ask: true,
        params: { ...params, amount: 1 },
        question: 'Pay Ann?',
        expiresMs: 60_000,
      }),
    }),
  )
  const approval = await onlyPending(engine)
  expect(approval).toMatchObject({ params: { to: 'ann', amount: 1 }, question: 'Pay Ann?' })
  expect(approval.expiresAt).toBe(approval.createdAt + 60_000)
  await engine.approve(approval.id)
  await run.result
  expect(ran).toEqual([{ to: 'ann', amount: 1 }])
})

test('an approval that nobody gives in time is a denial', async () => {
  const { file } = folder()
  const engine = engineOn(await answering([['toolu_1', 'pay', ANN]]), file)
  const ran: unknown[] = []
  const run = engine.run(context({ tools: [paying(ran)], approvalExpiresMs: 50 }))
  const events = readAll(run)
  const result = await run.result
  expect(ran).toEqual([])
  expect(result.toolCalls).toMatchObject([
    { status: 'failed', error: expect.stringContaining('nobody approved') },
  ])
  const [approval] = (await engine.approvals()).items
  expect(approval).toMatchObject({ status: 'expired' })
  expect(approvals(await events)).toMatchObject([
    { phase: 'requested' },
    { phase: 'decided', status: 'expired' },
  ])
  await expect(engine.approve(approval?.id as string)).rejects.toMatchObject({
    code: 'already_decided',
    message: expect.stringContaining('has expired'),
  })
})

test('the siblings of a call that waits have finished before the run parks', async () => {
  const { file } = folder()
  const calls: [string, string, unknown][] = [
    ['toolu_1', 'look', {}],
    ['toolu_2', 'pay', ANN],
    ['toolu_3', 'look', {}],
    ['toolu_4', 'pay', { to: 'bob', amount: 2 }],
  ]
  const server = await answering(calls)
  const engine = engineOn(server, file)
  const ran: unknown[] = []
  const look = { name: 'look', executionMode: 'parallel' as const, run: () => ran.push('look') }
  const run = engine.run(context({ tools: [paying(ran), look] }))
  const [first, second] = await pending(engine, 2)
  expect(ran).toEqual(['look', 'look'])
  const [turn] = await engine.recover()
  expect(turn).toMatchObject({ awaitingApproval: true, resumable: true })
  expect(turn?.toolCalls.map(({ status }) => status)).toEqual([
    'completed',
    'pending',
    'completed',
    'pending',
  ])
  // One decision after the other: each call runs as soon as it may.
  await engine.approve(second?.id as string)
  while (ran.length < 3) await pending(engine)
  expect(ran[2]).toEqual({ to: 'bob', amount: 2 })
  await engine.deny(first?.id as string, { reason: 'no' })
  const result = await run.result
  expect(result.toolCalls.map(({ status, error }) => [status, error])).toEqual([
    ['completed', undefined],
    ['failed', 'no'],
    ['completed', undefined],
    ['completed', undefined],
  ])
  expect(result.messages.map(({ toolCallId }) => toolCallId).filter(Boolean)).toEqual([
    ...['toolu_1', 'toolu_2', 'toolu_3', 'toolu_4'],
  ])
  expect(server.seen.length).toBe(2)
})

test('approvals are listed in pages, oldest first, each once', async () => {
  const { file } = folder()
  const calls = Array.from({ length: 5 }, (_, n): [string, string, unknown] => [
    `toolu_${n}`,
    'pay',
    { to: 'ann', amount: n },
  ])
  const engine = engineOn(await answering(calls), file)
  const run = engine.run(context({ tools: [paying([])], runId: 'r1' }))
  const all = await pending(engine, 5)
  await engine.deny(all[1]?.id as string)
  await engine.run(context({ sessionLabel: 'other' })).result
  for (const filter of [{}, { runId: 'r1' }, { session: 'agent:main:main' }]) {
    const listed: unknown[] = []
    let after: string | undefined
    do {
      const { items, next } = await engine.approvals({ ...filter, after, limit: 2 })
      expect(items.length).toBeLessThanOrEqual(2)
      listed.push(...items.map(({ id }) => id))
      after = next ?? undefined
    } while (after !== undefined)
    expect(listed).toEqual(all.map(({ id }) => id))
  }
  const waiting = all.filter((_, index) => index !== 1).map(({ id }) => id)
  const first = await engine.approvals({ status: 'pending', session: 'agent:main:main', limit: 3 })
  expect(first.items.map(({ id }) => id)).toEqual(waiting.slice(0, 3))
  expect(first.next).toBe(waiting[2])
  const rest = await engine.approvals({ status: 'pending', after: first.next ?? '', limit: 3 })
  expect([rest.items.map(({ id }) => id), rest.next]).toEqual([waiting.slice(3), null])
  expect(await engine.approvals({ runId: 'none' })).toEqual({ items: [], next: null })
  run.abort()
  await run.result
})

test('while a run is parked no time of it passes, and a message cannot steer it', async () => {
  const { file } = folder()
  const engine = engineOn(await answering([['toolu_1', 'pay', ANN]]), file)
  const run = engine.run(context({ tools: [paying([])], timeoutMs: 1_500 }))
  const { id } = await onlyPending(engine)
  expect(run.stream.steer('hello?')).toBe(false)
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  await engine.approve(id)
  expect((await run.result).stopReason).toBe('end_turn')
})

test('a run without a ledger cannot wait: the call is not run, and says why', async () => {
  const server = await answering([['toolu_1', 'pay', ANN]])
  const engine = closing(engineAt(server.url))
  const ran: unknown[] = []
  const result = await engine.run(context({ tools: [paying(ran)] })).result
  expect(ran).toEqual([])
  expect(result.toolCalls).toMatchObject([
    { status: 'failed', error: expect.stringContaining('needs a ledger') },
  ])
  await expect(engine.approvals()).rejects.toMatchObject({ code: 'no_ledger' })
})
