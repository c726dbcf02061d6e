// A message whose turn has failed pauses before its next try, in every mode. The pause is seen in the rows: it must never wait for a time.

import { expect, test } from 'vitest'
import type { Broker, QueueMode } from '../../../index.js'
import { brokerAt, userTexts } from '../../support/broker.js'
import { serving } from '../../support/cleanup.js'

const label = 'agent:main:main'
const to = { session: label }
const turns = `SELECT count(*) AS n FROM runs WHERE session_label = '${label}'`

/** A model that never answers `a`, and refuses what ends with another text for an hour. */
const limited = () =>
  serving((response, request) => {
    if (userTexts(request).at(-1) === 'a') return
    const error = { type: 'error', error: { type: 'rate_limit_error', message: 'Later' } }
    response.writeHead(429, { 'content-type': 'application/json', 'retry-after': '3600' })
    response.end(JSON.stringify(error))
  })

/** Resolves when a message waits after so many tries. */
function triedAgain(broker: Broker, times: number): Promise<void> {
  return new Promise((resolve) => {
    broker.on('queue', ({ items }) => {
      if (items.some(({ status, tries }) => status === 'pending' && tries === times)) resolve()
    })
  })
}

const waiting = async (broker: Broker) =>
  (await broker.queue(label)).map(({ status, tries }) => [status, tries])

for (const mode of ['queue', 'collect', 'interrupt', 'steer'] satisfies QueueMode[]) {
  test(`a message with the mode ${mode} is not tried before the time that the provider requests`, async () => {
    const server = await limited()
    const { broker, engine } = brokerAt(server.url, { queue: { pulseMs: 10 } })
    const failed = triedAgain(broker, 1)
    await broker.send({ to, message: 'b', mode })
    await failed
    // Each of these takes a step of the session, which begins nothing.
    await broker.send({ to, message: 'c', mode: 'followup' })
    await broker.suspendQueue(label)
    await broker.resumeQueue(label)
    await broker.send({ to, message: 'd', mode: 'followup' })
    const [item] = await broker.queue(label)
    expect((item?.notBefore ?? 0) - (item?.createdAt ?? 0)).toBeGreaterThanOrEqual(3_600_000)
    expect(await waiting(broker)).toEqual([
      ['pending', 1],
      ['pending', 0],
      ['pending', 0],
    ])
    expect((await engine.ledger.query(turns)).rows).toEqual([{ n: 1 }])
    // A new interrupt does not wait, and takes the backlog with it.
    const again = triedAgain(broker, 2)
    await broker.send({ to, message: 'e', mode: 'interrupt' })
    await again
    expect(await waiting(broker)).toEqual([
      ['pending', 2],
      ['pending', 1],
      ['pending', 1],
      ['pending', 1],
    ])
    expect((await engine.ledger.query(turns)).rows).toEqual([{ n: 2 }])
  })
}

test('a message that has interrupted a turn waits for its next try like any other', async () => {
  const server = await limited()
  const { broker, engine } = brokerAt(server.url, { queue: 'nexus' })
  const failed = triedAgain(broker, 1)
  const first = broker.execute({ to, message: 'a' })
  await new Promise<void>((resolve) => {
    broker.on('session', ({ state }) => state === 'running' && resolve())
  })
  await broker.send({ to, message: 'b' })
  expect((await first.result).stopReason).toBe('aborted')
  await failed
  await broker.send({ to, message: 'c', mode: 'followup' })
  await broker.suspendQueue(label)
  await broker.resumeQueue(label)
  await broker.send({ to, message: 'd', mode: 'followup' })
  expect(await waiting(broker)).toEqual([
    ['pending', 1],
    ['pending', 0],
    ['pending', 0],
  ])
  expect((await engine.ledger.query(turns)).rows).toEqual([{ n: 2 }])
})
