// The outbox of a broker: the answer of a message with a target is passed on by the host, once, in the session's order. It must
// never reach a real platform.

import { expect, test, vi } from 'vitest'
import { type AgentEngineError, Broker, type Delivery, type StoredDelivery } from '../../index.js'
import { askedServer, brokerAt, echoing } from '../support/broker.js'
import { afterwards, closing } from '../support/cleanup.js'
import { engineAt } from '../support/engine.js'
import { ledgerAt } from '../support/ledger/named.js'

const label = 'agent:main:main'
const to = { session: label }
const target = { chat: 7 }

/** The deliveries of a broker as they come, and how each is answered. */
function deliveriesOf(broker: Broker, answer: (delivery: Delivery) => void | Promise<void>) {
  const got: Delivery[] = []
  const waiting: { count: number; resolve: (all: Delivery[]) => void }[] = []
  const leave = broker.on('delivery', async (delivery) => {
    got.push(delivery)
    for (const each of waiting) if (got.length >= each.count) each.resolve(got)
    await answer(delivery)
  })
  const first = (count: number) =>
    new Promise<Delivery[]>((resolve) => {
      if (got.length >= count) resolve(got)
      else waiting.push({ count, resolve })
    })
  return { got, first, leave }
}

/** Resolves when the broker has no delivery that waits. */
async function drained(broker: Broker): Promise<void> {
  while ((await broker.deliveries()).length > 0) await new Promise(setImmediate)
}

test('the answer of a message with a target is delivered once, with the turn as its key', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const { got, first } = deliveriesOf(broker, () => {})
  await broker.send({ to, message: 'a', target })
  await first(1)
  await drained(broker)
  const turnId = (await engine.ledger.session(label))?.threadId
  const blocks = [{ type: 'text', text: 'to a' }]
  const delivery = {
    turnId,
    sessionLabel: label,
    target,
    status: 'completed',
    text: 'to a',
    blocks,
    attachments: [],
    error: null,
    attempt: 1,
  }
  expect(got).toEqual([delivery])
  const [row] = await broker.deliveries({ status: 'delivered' })
  expect(row).toEqual({
    turnId,
    sessionLabel: label,
    target,
    status: 'delivered',
    tries: 1,
    failures: 0,
    notBefore: row?.notBefore,
    error: null,
    createdAt: row?.createdAt,
    deliveredAt: row?.deliveredAt,
  })
})

test('execute has a delivery with outbox: true only, and a message without a target has none', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  await broker.execute({ to, message: 'a', target }).result
  const followed = await broker.execute({ to, message: 'b', target, outbox: true }).result
  await broker.execute({ to, message: 'c', outbox: true }).result
  expect((await broker.deliveries()).map(({ turnId }) => turnId)).toEqual([followed.turnId])
  expect(await broker.delivered(followed.turnId)).toBe(true)
  expect(await broker.delivered(followed.turnId)).toBe(false)
  expect(await broker.deliveries()).toEqual([])
})

test('a silent answer has no delivery', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url, { outbox: { silent: ['QUIET'] } })
  const answers = ['QUIET', 'NO_REPLY']
  const turns: string[] = []
  for (const answer of answers) {
    const { result } = broker.execute({ to, message: 'a', target, outbox: true })
    ;(await next()).answer(answer)
    turns.push((await result).turnId)
  }
  expect((await broker.deliveries()).map(({ turnId }) => turnId)).toEqual([turns[1]])
})

test('a failed and an aborted turn are delivered with their status, and a try that is repeated is not', async () => {
  const { server, next } = await askedServer()
  const agents = { main: { model: 'test-model', provider: 'test', timeoutMs: 1_500 } }
  const { broker } = brokerAt(server.url, { agents })
  const { first } = deliveriesOf(broker, () => {})
  const refused = broker.execute({ to, message: 'a', target, outbox: true })
  ;(await next()).refuse(400, 'no such field')
  const failed = await refused.result
  const stopped = broker.execute({ to, message: 'b', target, outbox: true })
  await next()
  await broker.abort(label)
  const aborted = await stopped.result
  const repeated = broker.execute({ to, message: 'c', target, outbox: true })
  // The first try is never answered.
  await next()
  ;(await next()).answer('to c')
  const answered = await repeated.result
  const got = await first(3)
  expect(got.map(({ turnId, status, text }) => [turnId, status, text])).toEqual([
    [failed.turnId, 'failed', ''],
    [aborted.turnId, 'aborted', ''],
    [answered.turnId, 'completed', 'to c'],
  ])
  expect(got[0]?.error?.message).toContain('no such field')
})

test('a delivery that throws is handed out again, and holds back the later ones of its session', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const { first } = deliveriesOf(broker, ({ text, attempt }) => {
    if (text === 'to a' && attempt === 1) throw new Error('no network')
  })
  for (const message of ['a', 'b']) await broker.send({ to, message, target })
  await broker.send({ to: { session: 'other' }, message: 'c', target })
  const got = await first(4)
  const ofSession = got.filter(({ sessionLabel }) => sessionLabel === label)
  expect(ofSession.map(({ text, attempt }) => [text, attempt])).toEqual([
    ['to a', 1],
    ['to a', 2],
    ['to b', 1],
  ])
  expect(new Set(got.map(({ turnId }) => turnId)).size).toBe(3)
})

for (const [timeoutMs, most] of [
  [undefined, 60_000],
  [5_000, 5_000],
] as const) {
  test(`a listener that does not answer within ${most / 1_000} s has failed, and the delivery is handed out again`, async () => {
    const server = await echoing()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const { broker } = brokerAt(server.url, { outbox: { timeoutMs } })
      const errors: unknown[] = []
      broker.on('error', (error) => {
        const { code, message } = error as AgentEngineError
        errors.push([code, message])
      })
      let late = () => {}
      const { first } = deliveriesOf(broker, ({ text, attempt }) => {
        if (text !== 'to a' || attempt > 1) return
        return new Promise((resolve) => {
          late = resolve
        })
      })
      for (const message of ['a', 'b']) await broker.send({ to, message, target })
      const [{ turnId }] = (await first(1)) as [Delivery]
      vi.advanceTimersByTime(most - 1)
      expect(errors).toEqual([])
      vi.advanceTimersByTime(1)
      const got = await first(3)
      expect(got.map(({ text, attempt }) => [text, attempt])).toEqual([
        ['to a', 1],
        ['to a', 2],
        ['to b', 1],
      ])
      const why = `the delivery of turn \`${turnId}\` did not answer within ${most / 1_000} s`
      expect(errors).toEqual([['delivery_failed', expect.stringContaining(why)]])
      late()
      await drained(broker)
      const rows = await broker.deliveries({ status: 'delivered' })
      expect(rows.map(({ tries, failures, error }) => [tries, failures, error])).toEqual([
        [2, 1, expect.stringContaining(why)],
        [1, 0, null],
      ])
    } finally {
      vi.useRealTimers()
    }
  })
}

test('a delivery is parked after seven failures, blocks none behind it, and is handed out again on request', {
  timeout: 60_000,
}, async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  let isDown = true
  const { first } = deliveriesOf(broker, ({ text }) => {
    if (text === 'to a' && isDown) throw new Error('no network')
  })
  const parked = new Promise<StoredDelivery>((resolve) => broker.on('deliveryParked', resolve))
  for (const message of ['a', 'b']) await broker.send({ to, message, target })
  const { turnId } = await parked
  expect((await first(8)).map(({ text }) => text)).toEqual([...Array(7).fill('to a'), 'to b'])
  const rows = await broker.deliveries({ status: 'parked', session: label })
  expect(rows.map((row) => [row.turnId, row.failures, row.error])).toEqual([
    [turnId, 7, 'no network'],
  ])
  isDown = false
  expect(await broker.redeliver(turnId)).toBe(true)
  expect(await broker.redeliver(turnId)).toBe(false)
  expect((await first(9)).at(-1)).toMatchObject({ turnId, text: 'to a', attempt: 8 })
  await drained(broker)
  expect(await broker.deliveries({ status: 'parked' })).toEqual([])
})

test('what was not acknowledged is handed out by the next broker, in the order of the session', async () => {
  const server = await echoing()
  const { broker, engine, file } = brokerAt(server.url)
  const texts = ['a', 'b', 'c']
  for (const message of texts) {
    await broker.execute({ to, message, target, outbox: true }).result
  }
  await broker.close()
  await engine.close()
  const again = closing(engineAt(server.url, { ledger: ledgerAt(file) }))
  const agents = { main: { model: 'test-model', provider: 'test' } }
  const next = new Broker(again, { agents, queue: { pulseMs: 20 } })
  afterwards(() => next.close({ drainMs: 0 }))
  const { first } = deliveriesOf(next, () => {})
  expect((await first(3)).map(({ text }) => text)).toEqual(['to a', 'to b', 'to c'])
  await drained(next)
})

test('close waits for the deliveries that the host has', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  let finish = () => {}
  const { first } = deliveriesOf(broker, () => {
    return new Promise((resolve) => {
      finish = resolve
    })
  })
  await broker.send({ to, message: 'a', target })
  const [{ turnId }] = (await first(1)) as [Delivery]
  const closed = broker.close()
  finish()
  await closed
  const { rows } = await engine.ledger.query('SELECT turn_id, status FROM deliveries')
  expect(rows).toEqual([{ turn_id: turnId, status: 'delivered' }])
})

test('wrong options of the outbox are refused by name', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const agents = { main: { model: 'test-model', provider: 'test' } }
  const refused = async (work: () => unknown) =>
    Promise.resolve()
      .then(work)
      .then(
        () => 'nothing',
        ({ code, field }) => [code, field],
      )
  const code = 'invalid_options'
  const wrong: [() => unknown, string][] = [
    [() => new Broker(engine, { agents, outbox: { silent: 'NO' as never } }), 'outbox.silent'],
    [() => new Broker(engine, { agents, outbox: { loud: [] } as never }), 'outbox.loud'],
    [() => new Broker(engine, { agents, outbox: { timeoutMs: 0 } }), 'outbox.timeoutMs'],
    [() => new Broker(engine, { agents, outbox: { timeoutMs: 2 ** 31 } }), 'outbox.timeoutMs'],
    [() => broker.send({ to, message: 'a', outbox: 1 as never }), 'outbox'],
    [() => broker.deliveries({ status: 'lost' as never }), 'status'],
    [() => broker.deliveries({ limit: 0 }), 'limit'],
    [() => broker.deliveries({ sort: 1 } as never), 'sort'],
    [() => broker.redeliver(7 as never), 'turnId'],
  ]
  for (const [work, field] of wrong) expect(await refused(work)).toEqual([code, field])
  broker.on('delivery', () => {})
  expect(await refused(() => broker.on('delivery', () => {}))).toEqual([code, 'name'])
})
