// The end of a message: one event reports it, whoever finds it, and who follows the message learns it. It must never wait for a fixed
// time.

import { expect, test } from 'vitest'
import type { Broker, QueuedMessage, QueueMode } from '../../../index.js'
import { Execution } from '../../../lib/broker/execution.ts'
import { askedServer, brokerAt, echoing } from '../../support/broker.js'
import { deferred } from '../../support/tools.js'
import { random } from '../../support/values/random.js'

const to = { session: 'agent:main:main' }

/** The ends that a broker reports, by message: each with the turn of the event, and of the message. */
function endsOf(broker: Broker) {
  const ends = new Map<string, [string | null, QueuedMessage][]>()
  broker.on('queue', ({ turnId, items }) => {
    for (const item of items) {
      if (item.status !== 'delivered' && item.status !== 'failed') continue
      ends.set(item.id, [...(ends.get(item.id) ?? []), [turnId, item]])
    }
  })
  return ends
}

/** Resolves when a later message of the session has ended: its turn looks at the queue before it begins. */
const later = (broker: Broker) => broker.execute({ to, message: 'later' }).result

test('a message whose queue is resumed while its turn runs is delivered once', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const ends = endsOf(broker)
  const { receipt, result } = broker.execute({ to, message: 'a' })
  const asked = await next()
  await broker.resumeQueue(to.session)
  asked.answer('to a')
  const { turnId } = await result
  const second = later(broker)
  ;(await next()).answer('to later')
  await second
  const found = ends.get((await receipt).itemId) ?? []
  expect(found.map(([of, { status }]) => [of, status])).toEqual([[turnId, 'delivered']])
})

test('a message that is cancelled while its turn is prepared fails once, and its result rejects', async () => {
  const server = await echoing()
  const [prepared, prepares] = [deferred<void>(), deferred<void>()]
  const { broker } = brokerAt(server.url, {
    context: {
      layers: async (layers) => {
        prepares.resolve()
        await prepared.promise
        return layers
      },
    },
  })
  const ends = endsOf(broker)
  const { receipt, result } = broker.execute({ to, message: 'a' })
  const { itemId } = await receipt
  await prepares.promise
  expect(await broker.cancel(itemId)).toBe(true)
  await expect(result).rejects.toMatchObject({ code: 'not_delivered' })
  prepared.resolve()
  expect((await later(broker)).text).toBe('to later')
  const found = ends.get(itemId) ?? []
  expect(found.map(([of, { status, reason }]) => [of, status, reason])).toEqual([
    [null, 'failed', 'cancelled'],
  ])
})

test('a message that is cancelled as its run begins has no result of that run', async () => {
  const execution = new Execution(new Promise(() => {}), () => {})
  const run = { id: 'r', result: Promise.resolve('of the run') }
  execution.begin(run as never)
  const item = { id: 'i', status: 'failed', reason: 'cancelled', detail: null, turnId: null }
  expect(execution.end(item as never, null, () => Promise.reject(new Error('elsewhere')))).toBe(
    true,
  )
  await expect(execution.result).rejects.toMatchObject({ code: 'not_delivered' })
})

const modes: QueueMode[] = ['queue', 'followup', 'collect', 'interrupt', 'steer', 'steer-backlog']

test.each([
  ['a queue that drops', 3],
  ['a queue that drops nothing', 1_000],
])(
  'messages in all modes, cancelled and aborted at any moment, end once each: %s',
  async (_, cap) => {
    const server = await echoing()
    const { broker } = brokerAt(server.url, { queue: { cap, debounceMs: 0, pulseMs: 1 } })
    const ends = endsOf(broker)
    const chance = random(29)
    const session = () => `s${chance(3)}`
    const pick = () => modes[chance(modes.length)] as QueueMode
    const calls: Promise<unknown>[] = []
    const sent = Array.from({ length: 150 }, (_, number) => {
      const execution = broker.execute({
        to: { session: session() },
        message: `m${number}`,
        mode: pick(),
      })
      const [cancels, aborts, resumes] = [chance(3) === 0, chance(8) === 0, chance(8) === 0]
      if (cancels) calls.push(execution.receipt.then(({ itemId }) => broker.cancel(itemId)))
      if (aborts) calls.push(execution.receipt.then(() => broker.abort(session())))
      if (resumes) calls.push(broker.resumeQueue(session()))
      return execution
    })
    const results = await Promise.allSettled(sent.map(({ result }) => result))
    await Promise.all(calls)
    // A later turn of each session looks at its queue.
    for (const name of ['s0', 's1', 's2']) {
      await broker.execute({ to: { session: name }, message: 'later' }).result
    }
    for (const [at, { receipt }] of sent.entries()) {
      const found = ends.get((await receipt).itemId) ?? []
      const [[of, item] = [null, undefined]] = found
      expect([found.length, item?.status]).toEqual([1, expect.stringMatching(/delivered|failed/)])
      const result = results[at]
      if (item?.status === 'delivered') {
        expect(item.turnId).toEqual(expect.any(String))
        expect(of).toBe(item.turnId)
        expect(result?.status).toBe('fulfilled')
      } else if (item?.turnId === null || item?.reason === 'dropped') {
        expect(result).toMatchObject({ status: 'rejected', reason: { code: 'not_delivered' } })
      }
    }
  },
)
