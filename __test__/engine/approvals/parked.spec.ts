// A parked turn: across processes and restarts, aborts, closes, and other runs of its session. A parked turn must never be lost, nor hold
// anything that another run needs.

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
import { folder } from '../../support/cleanup.js'
import { context, readAll } from '../../support/engine.js'
import { expectGapless } from '../../support/events.js'

const ANN = { to: 'ann', amount: 5 }
const PAY: [string, string, unknown][] = [['toolu_1', 'pay', ANN]]

/** A run whose only call waits, on its own server. */
async function parked(fields: object = {}) {
  const { file } = folder()
  const server = await answering(PAY)
  const engine = engineOn(server, file)
  const ran: unknown[] = []
  const run = engine.run(context({ tools: [paying(ran)], runId: 'r1', ...fields }))
  const events = readAll(run)
  const approval = await onlyPending(engine)
  return { file, server, engine, ran, run, events, approval }
}

test('another run of the session is refused while a turn is parked, and runs after it', async () => {
  const { engine, run, approval, server } = await parked()
  const refused = await engine.run(context()).result
  expect(refused).toMatchObject({
    stopReason: 'error',
    error: { detail: { code: 'awaiting_approval' } },
  })
  expect(refused.error?.message).toContain(approval.turnId)
  expect(server.seen.length).toBe(1)
  const other = await engine.run(context({ sessionLabel: 'another' })).result
  expect(other.stopReason).toBe('end_turn')
  await engine.approve(approval.id)
  const first = await run.result
  expect(first).toMatchObject({ stopReason: 'end_turn', persisted: true })
  const next = await engine.run(context()).result
  expect(next).toMatchObject({ stopReason: 'end_turn', persisted: true })
  expect((await engine.ledger.turn(next.turnId))?.parentTurnId).toBe(first.turnId)
})

test('after a restart the turn is listed as awaiting, and resumed with the decision that was made meanwhile', async () => {
  const { file, server, engine, run, approval, ran } = await parked()
  const closed = run.result.catch((error) => error)
  await engine.close()
  expect(await closed).toMatchObject({ code: 'engine_closed' })
  const other = decider(file)
  const [turn, ...more] = await other.recover()
  expect(more).toEqual([])
  expect(turn).toMatchObject({
    turnId: approval.turnId,
    runId: 'r1',
    awaitingApproval: true,
    resumable: true,
    approvals: [approval],
  })
  await other.approve(approval.id, { by: 'eve' })
  const again = engineOn(server, file)
  const resumed = await again.resume(approval.turnId, { tools: [paying(ran)] })
  expect(resumed.id).toBe('r1')
  const events = readAll(resumed)
  const result = await resumed.result
  expect(ran).toEqual([ANN])
  expect(result).toMatchObject({ turnId: approval.turnId, stopReason: 'end_turn', persisted: true })
  const stored: StreamEvent[] = []
  for await (const event of again.attach('r1')) stored.push(event)
  expectGapless(stored)
  const types = stored.map((event) => event.type).filter((type) => type !== 'token')
  expect(types).toEqual([
    ...['stream_start', 'usage', 'stream_end', 'approval', 'approval', 'tool_status'],
    ...['tool_status', 'usage', 'stream_end'],
  ])
  expect(stored.slice(-(await events).length)).toEqual(await events)
})

test('a turn that is resumed before the decision parks again, and asks nobody twice', async () => {
  const { file, server, engine, run, approval, ran } = await parked()
  run.result.catch(() => {})
  await engine.close()
  const again = engineOn(server, file)
  const resumed = await again.resume(approval.turnId, { tools: [paying(ran)] })
  const events = readAll(resumed)
  while ((await again.recover())[0]?.awaitingApproval !== true) await pending(again)
  expect((await again.approvals()).items).toEqual([approval])
  await decider(file).approve(approval.id)
  expect((await resumed.result).stopReason).toBe('end_turn')
  expect(ran).toEqual([ANN])
  expect((await events).filter((event) => event.type === 'approval')).toMatchObject([
    { phase: 'decided' },
  ])
})

test('with `recovery: discard`, an engine leaves a turn that waits for a decision', async () => {
  const { file, engine, run, approval } = await parked()
  run.result.catch(() => {})
  await engine.close()
  const server = await answering()
  const opened = engineOn(server, file, { recovery: 'discard' })
  expect(await opened.recovered).toMatchObject([{ outcome: 'left' }])
  expect((await opened.approvals({ status: 'pending' })).items).toEqual([approval])
})

test('an approval that expires while no process lives denies the call', async () => {
  const { file, server, engine, run, approval, ran } = await parked({ approvalExpiresMs: 300 })
  run.result.catch(() => {})
  await engine.close()
  const again = engineOn(server, file)
  while ((await again.approvals({ status: 'pending' })).items.length > 0) {}
  expect((await again.approvals()).items).toMatchObject([{ id: approval.id, status: 'expired' }])
  const result = await (await again.resume(approval.turnId, { tools: [paying(ran)] })).result
  expect(ran).toEqual([])
  expect(result.toolCalls).toMatchObject([{ status: 'failed' }])
})

test('an abort ends a parked turn, and cancels its approval', async () => {
  const { engine, run, events, approval, ran } = await parked()
  run.stream.abort()
  const result = await run.result
  expect(result).toMatchObject({
    turnId: approval.turnId,
    stopReason: 'aborted',
    persisted: true,
    toolCalls: [{ status: 'failed', error: 'aborted' }],
  })
  const seen = await events
  expectGapless(seen)
  expect(seen.at(-1)).toMatchObject({ type: 'stream_end', final: true, stopReason: 'aborted' })
  expect((await engine.approvals()).items).toMatchObject([{ id: approval.id, status: 'cancelled' }])
  expect(await engine.recover()).toEqual([])
  expect(await engine.ledger.turn(approval.turnId)).toMatchObject({ status: 'aborted' })
  expect(ran).toEqual([])
  await expect(engine.approve(approval.id)).rejects.toMatchObject({ code: 'already_decided' })
})

test('an abort of the session from another engine ends the parked run here', async () => {
  const { file, run, events, approval } = await parked()
  await decider(file).abortSession('agent:main:main')
  expect(await run.result).toMatchObject({ turnId: approval.turnId, stopReason: 'aborted' })
  const seen = await events
  expectGapless(seen)
  expect(seen.at(-1)).toMatchObject({ type: 'stream_end', final: true })
})

test('an abort reaches a run that parks and continues meanwhile', async () => {
  const { file } = folder()
  const rounds = Array.from(
    { length: Number(process.env.PARKED_ABORTS ?? 40) },
    (_, round) => `s${round}`,
  )
  const names = Array.from({ length: 8 }, (_, n) => `toolu_${n}`)
  const calls = names.map((name): [string, string, unknown] => [name, 'pay', ANN])
  const server = await answering(...rounds.map(() => calls))
  const engine = engineOn(server, file)
  for (const [round, sessionLabel] of rounds.entries()) {
    const run = engine.run(context({ tools: [paying([])], sessionLabel }))
    const approvals = await pending(engine, names.length)
    // Each decision wakes the run, which parks again for the calls that are left.
    const deciding = (async () => {
      for (const { id } of approvals.slice(1)) {
        const error = await engine.approve(id).catch((error: unknown) => error)
        if (error instanceof Error) expect(error).toMatchObject({ code: 'already_decided' })
      }
    })()
    for (let turn = 0; turn < (round % 40) * 3; turn++) {
      await new Promise((resolve) => setImmediate(resolve))
    }
    await engine.abortSession(sessionLabel)
    expect((await run.result).stopReason).toBe('aborted')
    await deciding
  }
})

test('a discarded turn ends the parked run that waits for it', async () => {
  const { engine, run, events, approval } = await parked()
  await engine.discard(approval.turnId)
  expect(await run.result).toMatchObject({
    stopReason: 'error',
    error: { detail: { code: 'interrupted' } },
  })
  expect((await events).at(-1)).toMatchObject({ type: 'stream_error' })
})

test('with `onApproval: return` the run ends with its approvals, and goes on when it is resumed', async () => {
  const { file, server, engine, run, events, approval, ran } = await parked({
    onApproval: 'return',
  })
  const result = await run.result
  expect(result).toMatchObject({
    turnId: approval.turnId,
    stopReason: 'tool_use',
    persisted: false,
    pendingApprovals: [approval],
  })
  const before = await events
  expect(before.at(-1)).toEqual({
    type: 'stream_end',
    runId: 'r1',
    final: false,
    parked: true,
    messageId: approval.messageId,
    seq: before.length,
  })
  await engine.approve(approval.id)
  const again = engineOn(server, file)
  const resumed = await again.resume(approval.turnId, {
    tools: [paying(ran)],
    onApproval: 'return',
  })
  const after = await readAll(resumed)
  expect(after[0]?.seq).toBe(before.length + 1)
  expectGapless([...before, ...after])
  expect(await resumed.result).toMatchObject({ runId: 'r1', stopReason: 'end_turn' })
  expect(ran).toEqual([ANN])
})

test('a reader of the run, and one of the session, see the same events while it is parked and after', async () => {
  const { file, engine, events, approval } = await parked()
  const attached: StreamEvent[] = []
  const other = decider(file)
  const reading = (async () => {
    for await (const event of other.attach('r1')) attached.push(event)
  })()
  const watched: StreamEvent[] = []
  const watching = (async () => {
    for await (const { event } of other.ledger.watch('agent:main:main')) {
      watched.push(event)
      if (event.type === 'stream_end' && event.final) return
    }
  })()
  while (![attached, watched].every((seen) => seen.some(({ type }) => type === 'approval'))) {
    await pending(engine)
  }
  await other.approve(approval.id)
  await Promise.all([reading, watching])
  expect(attached).toEqual(await events)
  expect(watched).toEqual(await events)
})

test('a run that asks nothing writes no approval and has no trace of one in its result', async () => {
  const { file } = folder()
  const engine = engineOn(await answering([['toolu_1', 'look', {}]]), file)
  const result = await engine.run(context({ tools: [{ name: 'look', run: () => 'seen' }] })).result
  expect(result.stopReason).toBe('end_turn')
  expect(result).not.toHaveProperty('permissionsUsed')
  expect(result).not.toHaveProperty('pendingApprovals')
  expect((await engine.ledger.query('SELECT count(*) AS n FROM approvals')).rows).toEqual([
    { n: 0 },
  ])
})
