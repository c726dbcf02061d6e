// The steps of a message through its queue, a test for each commit point and each end of docs/rules/queue.md: what another reader of the
// ledger sees after it. It must never look inside the addon.
//
// | Tested elsewhere  | Where                                                                         |
// |-------------------|-------------------------------------------------------------------------------|
// | `pending` again   | `../queue.spec.ts`, "a message is tried again after a failure without …"      |
// | poisoned          | `../queue.spec.ts`, "a message is poisoned after seven failures …"            |
// | interrupted       | `../kills.spec.ts` and `../load/kill-points.spec.ts`                          |
// | offered, released | `field-failures.spec.ts`, "a steered message is not lost where …"             |

import { expect, test } from 'vitest'
import type { AgentEngine } from '../../../index.js'
import { askedServer, brokerAt } from '../../support/broker.js'
import { waitingTool } from '../../support/tools.js'

const to = { session: 'agent:main:main' }
const model = { model: 'test-model', provider: 'test' }

/** The rows of the queue by their texts, each with its turn as `turn` where it is that of `of`. */
async function rows(engine: AgentEngine, of?: string) {
  const { rows: items } = await engine.ledger.query(
    'SELECT message_json, status, reason, turn_id, tries FROM queue_items ORDER BY n',
  )
  return items.map(({ message_json, status, reason, turn_id, tries }) => {
    const text = JSON.parse(String(message_json)).content
    const turn = turn_id === null ? null : turn_id === of ? 'turn' : 'other turn'
    return [text, status, reason, turn, tries]
  })
}

test('enqueue: the row is committed before its receipt', async () => {
  const { server } = await askedServer()
  const { broker, engine } = brokerAt(server.url)
  await broker.suspendQueue(to.session)
  const { disposition } = await broker.send({ to, message: 'a' })
  expect([disposition, await rows(engine)]).toEqual(['queued', [['a', 'pending', null, null, 0]]])
})

test('claim: the message is processing, in the transaction that opens its turn', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url)
  const { result } = broker.execute({ to, message: 'a' })
  const asked = await next()
  const { rows: open } = await engine.ledger.query('SELECT turn_id FROM runs WHERE in_journal = 1')
  expect(open.length).toBe(1)
  expect(await rows(engine, String(open[0]?.turn_id))).toEqual([
    ['a', 'processing', null, 'turn', expect.any(Number)],
  ])
  asked.answer('ok')
  expect((await result).turnId).toBe(open[0]?.turn_id)
})

test('steered: the message is processing in the running turn as soon as that has it, and ends with it', async () => {
  const { server, next } = await askedServer()
  const { wait, begun, finish } = waitingTool()
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: { ...model, toolset: 'house' } },
    toolsets: { house: [wait] },
  })
  const { result } = broker.execute({ to, message: 'a' })
  ;(await next()).calls(['c', 'wait', {}])
  await begun
  const steered = broker.execute({ to, message: 'b', mode: 'steer' })
  expect((await steered.receipt).disposition).toBe('steered')
  finish()
  const asked = await next()
  asked.answer('to both')
  const { turnId } = await result
  expect((await steered.result).turnId).toBe(turnId)
  expect((await rows(engine, turnId)).map((row) => row.slice(0, 4))).toEqual([
    ['a', 'delivered', null, 'turn'],
    ['b', 'delivered', null, 'turn'],
  ])
})

test('delivered: with the end of its turn, also where the user has aborted it', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a' })
  ;(await next()).answer('to a')
  const done = await first.result
  const second = broker.execute({ to, message: 'b' })
  await next()
  await broker.abort(to.session)
  const aborted = await second.result
  expect(aborted.stopReason).toBe('aborted')
  const all = async (turn: string) => (await rows(engine, turn)).map((row) => row.slice(0, 4))
  expect(await all(done.turnId)).toEqual([
    ['a', 'delivered', null, 'turn'],
    ['b', 'delivered', null, 'other turn'],
  ])
  expect((await all(aborted.turnId))[1]).toEqual(['b', 'delivered', null, 'turn'])
})

test('failed, run_failed: a turn that no other try can mend ends its message visibly', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url)
  const { result } = broker.execute({ to, message: 'a' })
  ;(await next()).refuse(400, 'no such field')
  const { turnId, stopReason } = await result
  expect(stopReason).toBe('error')
  expect((await rows(engine, turnId)).map((row) => row.slice(0, 4))).toEqual([
    ['a', 'failed', 'run_failed', 'turn'],
  ])
})

test('failed, dropped, rejected and cancelled: the rows stay, each with its reason', async () => {
  const { server } = await askedServer()
  const { broker, engine } = brokerAt(server.url, { queue: { cap: 1, drop: 'old' } })
  await broker.suspendQueue(to.session)
  await broker.send({ to, message: 'dropped' })
  const { itemId } = await broker.send({ to, message: 'cancelled' })
  expect(await broker.cancel(itemId)).toBe(true)
  expect((await rows(engine)).map((row) => row.slice(0, 3))).toEqual([
    ['dropped', 'failed', 'dropped'],
    ['cancelled', 'failed', 'cancelled'],
  ])
  const full = brokerAt(server.url, { queue: { cap: 1, drop: 'new' } })
  await full.broker.suspendQueue(to.session)
  await full.broker.send({ to, message: 'first' })
  expect((await full.broker.send({ to, message: 'rejected' })).disposition).toBe('rejected')
  expect((await rows(full.engine)).map((row) => row.slice(0, 3))).toEqual([
    ['first', 'pending', null],
    ['rejected', 'failed', 'rejected'],
  ])
})
