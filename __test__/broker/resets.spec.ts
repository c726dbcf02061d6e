// Sessions whose thread is over: the next turn starts another one under the same label. It must never wait for an idle time.

import { expect, test } from 'vitest'
import { Broker, type BrokerAgent, type SessionReset } from '../../index.js'
import { isOver } from '../../lib/broker/thread-age.ts'
import { askedServer, brokerAt, echoing, userTexts } from '../support/broker.js'
import { afterwards, closing } from '../support/cleanup.js'
import { engineAt } from '../support/engine.js'
import { ledgerAt } from '../support/ledger/named.js'

const label = 'agent:main:main'
const to = { session: label }

/** An agent whose sessions are over when the test says so. */
function resetting(): { main: BrokerAgent; next: (reset: SessionReset | null) => void } {
  let now: SessionReset | null = null
  const reset = () => now
  return {
    main: { model: 'test-model', provider: 'test', reset },
    next: (given) => {
      now = given
    },
  }
}

/** Every session that was used before is over: the clock moves on between two turns. */
const always = { idleMs: 1 }

async function clockTick(): Promise<void> {
  const now = Date.now()
  while (Date.now() === now) await new Promise(setImmediate)
}

test('an idle session starts another thread under its label, and the old one stays', async () => {
  const server = await echoing()
  const { main, next } = resetting()
  const { broker, engine } = brokerAt(server.url, { agents: { main } })
  const first = await broker.execute({ to, message: 'a' }).result
  const second = await broker.execute({ to, message: 'b' }).result
  await clockTick()
  next(always)
  const third = await broker.execute({ to, message: 'c' }).result
  next(null)
  const fourth = await broker.execute({ to, message: 'd' }).result
  expect(server.seen.map(userTexts)).toEqual([['a'], ['a', 'b'], ['c'], ['c', 'd']])
  const thread = async (turnId: string) =>
    (await engine.ledger.history(turnId)).map(({ turnId }) => turnId)
  expect([...new Set(await thread(second.turnId))]).toEqual([first.turnId, second.turnId])
  expect([...new Set(await thread(fourth.turnId))]).toEqual([third.turnId, fourth.turnId])
  const turn = await engine.ledger.turn(third.turnId)
  expect([turn?.parentTurnId, turn?.depth, turn?.sessionLabel]).toEqual([null, 0, label])
  expect((await engine.ledger.session(label))?.threadId).toBe(fourth.turnId)
})

test('what waits in the queue follows the turn that started the thread, also in another process', async () => {
  const { server, next: asked } = await askedServer()
  const { main, next } = resetting()
  const { broker, engine, file } = brokerAt(server.url, { agents: { main } })
  const first = broker.execute({ to, message: 'a' })
  ;(await asked()).answer('to a')
  await first.result
  await clockTick()
  next({ idleMs: 60_000 })
  // Its last turn is too young: it goes on.
  const second = broker.execute({ to, message: 'b' })
  const going = await asked()
  expect(going.texts).toEqual(['a', 'b'])
  going.answer('to b')
  await second.result
  await clockTick()
  next(always)
  const third = broker.execute({ to, message: 'c' })
  const over = await asked()
  expect(over.texts).toEqual(['c'])
  next({ idleMs: 60_000 })
  const fourth = broker.execute({ to, message: 'd' })
  await fourth.receipt
  over.answer('to c')
  const follows = await asked()
  expect(follows.texts).toEqual(['c', 'd'])
  follows.answer('to d')
  await Promise.all([third.result, fourth.result])
  await broker.close()
  await engine.close()

  const again = closing(engineAt(server.url, { ledger: ledgerAt(file) }))
  const later = new Broker(again, { agents: { main } })
  afterwards(() => later.close({ drainMs: 0 }))
  const fifth = later.execute({ to, message: 'e' })
  const reopened = await asked()
  expect(reopened.texts).toEqual(['c', 'd', 'e'])
  reopened.answer('to e')
  await fifth.result
})

test('a turn that fails leaves the old thread in place, and the next one starts another again', async () => {
  const { server, next: asked } = await askedServer()
  const { main, next } = resetting()
  const { broker, engine } = brokerAt(server.url, { agents: { main } })
  const first = broker.execute({ to, message: 'a' })
  ;(await asked()).answer('to a')
  const { turnId } = await first.result
  await clockTick()
  next(always)
  const second = broker.execute({ to, message: 'b' })
  ;(await asked()).refuse(400, 'no such field')
  expect((await second.result).stopReason).toBe('error')
  expect((await engine.ledger.session(label))?.threadId).toBe(turnId)
  const third = broker.execute({ to, message: 'c' })
  const over = await asked()
  expect(over.texts).toEqual(['c'])
  over.answer('to c')
  expect((await engine.ledger.turn((await third.result).turnId))?.parentTurnId).toBe(null)
})

test('a session is over after an idle time, or after a time of the day in its zone', () => {
  const at = (time: string) => Date.parse(time)
  const used = at('2026-10-24T20:00:00Z')
  const idle = { idleMs: 3_600_000 }
  expect(isOver(idle, used, used + 3_599_999)).toBe(false)
  expect(isOver(idle, used, used + 3_600_000)).toBe(true)
  const daily = { dailyAt: '04:00', zone: 'Europe/Berlin' }
  // The clock was set back in the night: 04:00 is 03:00 UTC.
  expect(isOver(daily, used, at('2026-10-25T02:59:59Z'))).toBe(false)
  expect(isOver(daily, used, at('2026-10-25T03:00:00Z'))).toBe(true)
  expect(isOver(daily, at('2026-10-25T03:00:00Z'), at('2026-10-26T02:59:00Z'))).toBe(false)
  expect(isOver({ ...idle, ...daily }, used, used + 3_600_000)).toBe(true)
})

test('a wrong reset is refused by name', async () => {
  const server = await echoing()
  const { engine } = brokerAt(server.url)
  const wrong: [object, string][] = [
    [{}, ''],
    [{ idleMs: 0 }, '.idleMs'],
    [{ dailyAt: '4:00' }, '.dailyAt'],
    [{ dailyAt: '24:00' }, '.dailyAt'],
    [{ dailyAt: '04:00', zone: 'Mars/Base' }, '.zone'],
    [{ idleMs: 1, zone: 'UTC' }, '.zone'],
    [{ weekly: true }, '.weekly'],
  ]
  for (const [reset, field] of wrong) {
    const main = { model: 'test-model', provider: 'test', reset }
    const making = () => new Broker(engine, { agents: { main } })
    expect(making).toThrow(
      expect.objectContaining({ code: 'invalid_options', field: `agents.main.reset${field}` }),
    )
  }
})
