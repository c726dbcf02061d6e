// Turns that wait for an approval, and the queues of their sessions. It must never wait for a time.

import { expect, test } from 'vitest'
import { type AgentRun, Broker } from '../../index.js'
import { onlyPending, paying } from '../support/approvals.js'
import { askedServer, brokerAt } from '../support/broker.js'
import { afterwards, closing } from '../support/cleanup.js'
import { engineAt } from '../support/engine.js'
import { ledgerAt } from '../support/ledger/named.js'
import { deferred } from '../support/tools.js'

const [a, b] = ['agent:main:main', 'agent:main:dm:guest']
const call: [string, string, unknown] = ['call_1', 'pay', { to: 'shop', amount: 7 }]

function options(ran: unknown[]) {
  return {
    agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
    toolsets: { house: [paying(ran)] },
    lanes: { main: 1 },
    queue: { pulseMs: 20 },
  }
}

test('a parked turn holds no slot of its lane, and the messages to its session wait for it', async () => {
  const { server, next } = await askedServer()
  const ran: unknown[] = []
  const { broker, engine } = brokerAt(server.url, options(ran))
  const first = broker.execute({ to: { session: a }, message: 'pay' })
  ;(await next()).calls(call)
  const approval = await onlyPending(engine)
  const second = broker.execute({ to: { session: a }, message: 'and?' })
  expect((await second.receipt).disposition).toBe('queued')
  const other = broker.execute({ to: { session: b }, message: 'hi' })
  const asked = await next()
  expect(asked.texts).toEqual(['hi'])
  asked.answer('to hi')
  expect((await other.result).text).toBe('to hi')
  // The other turn began when the parked one gave up its slot: the request was reported before.
  const events: string[] = []
  broker.on('approval', ({ phase, approval: { id, status } }) => {
    events.push(`${phase} ${status} ${id}`)
  })
  expect(ran).toEqual([])
  expect((await broker.approvals({ status: 'pending' })).items).toEqual([approval])
  await broker.approve(approval.id)
  const paid = await next()
  expect([paid.texts, ran]).toEqual([['pay'], [{ to: 'shop', amount: 7 }]])
  paid.answer('paid')
  expect((await first.result).text).toBe('paid')
  const last = await next()
  expect(last.texts).toEqual(['pay', 'and?'])
  last.answer('that is all')
  expect((await second.result).text).toBe('that is all')
  // The listener came after the request.
  expect(events).toEqual([])
})

test('the event `approval` has a call when it waits, and when it is decided', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url, options([]))
  const events: string[] = []
  const phases = { requested: () => {}, decided: () => {} }
  const has = (phase: keyof typeof phases) => {
    return new Promise<void>((resolve) => {
      phases[phase] = resolve
    })
  }
  const [requested, decided] = [has('requested'), has('decided')]
  broker.on('approval', ({ phase, approval: { toolName, status } }) => {
    events.push(`${phase} ${toolName} ${status}`)
    phases[phase]()
  })
  const { result } = broker.execute({ to: { session: a }, message: 'pay' })
  ;(await next()).calls(call)
  const { id } = await onlyPending(engine)
  await requested
  await broker.approve(id)
  ;(await next()).answer('paid')
  await result
  // It is read from the ledger, which may take longer than the turn.
  await decided
  expect(events).toEqual(['requested pay pending', 'decided pay approved'])
})

test('a denied call goes on with the reason', async () => {
  const { server, next } = await askedServer()
  const ran: unknown[] = []
  const { broker, engine } = brokerAt(server.url, options(ran))
  const first = broker.execute({ to: { session: a }, message: 'pay' })
  ;(await next()).calls(call)
  const { id } = await onlyPending(engine)
  expect(await broker.deny(id, 'too much')).toMatchObject({ status: 'denied', reason: 'too much' })
  const denied = await next()
  expect(JSON.stringify(denied.seen.body)).toContain('too much')
  denied.answer('I did not pay')
  expect([(await first.result).text, ran]).toEqual(['I did not pay', []])
})

test('an interrupt denies the call of a parked turn, which is never run, and aborts it', async () => {
  const { server, next } = await askedServer()
  const ran: unknown[] = []
  const { broker, engine } = brokerAt(server.url, options(ran))
  const events: string[] = []
  const [requested, denied] = [deferred<void>(), deferred<void>()]
  broker.on('approval', ({ phase, approval: { id, status } }) => {
    events.push(`${phase} ${status} ${id}`)
    if (phase === 'requested') requested.resolve()
    else denied.resolve()
  })
  const first = broker.execute({ to: { session: a }, message: 'pay' })
  ;(await next()).calls(call)
  const { id } = await onlyPending(engine)
  await requested.promise
  const second = broker.execute({ to: { session: a }, message: 'stop', mode: 'interrupt' })
  expect((await first.result).stopReason).toBe('aborted')
  const asked = await next()
  expect(asked.texts.at(-1)).toBe('stop')
  asked.answer('stopped')
  expect((await second.result).text).toBe('stopped')
  const [decided] = (await broker.approvals()).items
  expect([decided?.id, decided?.status, decided?.reason, ran]).toEqual([
    id,
    'denied',
    'A message interrupted the turn.',
    [],
  ])
  await denied.promise
  expect(events).toEqual([`requested pending ${id}`, `decided denied ${id}`])
})

for (const mode of ['queue', 'interrupt'] as const) {
  test(`a message with the mode ${mode} to a session that a plain run has parked`, async () => {
    const { server, next } = await askedServer()
    const ran: unknown[] = []
    const { broker, engine } = brokerAt(server.url, options(ran))
    const run = engine.run('pay', {
      sessionLabel: a,
      systemPrompt: 'Pays.',
      model: 'test-model',
      provider: 'test',
      tools: [paying(ran)],
    })
    ;(await next()).calls(call)
    const { id } = await onlyPending(engine)
    let runs = 0
    broker.on('run', () => {
      runs += 1
    })
    const message = broker.execute({ to: { session: a }, message: 'and?', mode })
    expect((await message.receipt).disposition).toBe('queued')
    if (mode === 'queue') {
      expect((await broker.queue(a)).map(({ status, tries }) => [status, tries])).toEqual([
        ['pending', 0],
      ])
      await broker.approve(id)
      ;(await next()).answer('paid')
      expect((await run.result).text).toBe('paid')
    } else {
      expect((await run.result).stopReason).toBe('aborted')
    }
    const asked = await next()
    expect(asked.texts.at(-1)).toContain('and?')
    asked.answer('that is all')
    expect((await message.result).text).toBe('that is all')
    // No turn was begun in vain.
    expect([runs, ran.length]).toEqual([1, mode === 'queue' ? 1 : 0])
  })
}

for (const [how, close] of [
  ['close() of its broker', (broker: Broker) => broker.close()],
  ['close() with a time', (broker: Broker) => broker.close({ drainMs: 0 })],
  ['close() of its engine', () => Promise.resolve()],
] as const) {
  test(`a turn that waits for a decision is left waiting by ${how}, and continues in the next broker`, async () => {
    const { server, next } = await askedServer()
    const ran: unknown[] = []
    const { broker, engine, file } = brokerAt(server.url, options(ran))
    const followed = broker.execute({ to: { session: a }, message: 'pay' }).result
    const refused = expect(followed).rejects.toMatchObject({ name: 'AgentEngineError' })
    ;(await next()).calls(call)
    const { id } = await onlyPending(engine)
    await broker.send({ to: { session: a }, message: 'and?' })
    await close(broker)
    await engine.close()
    await broker.close()
    await refused
    const again = closing(engineAt(server.url, { ledger: ledgerAt(file) }))
    const later = new Broker(again, options(ran))
    afterwards(() => later.close({ drainMs: 0 }))
    await later.approve(id)
    const paid = await next()
    expect([paid.texts, ran.length]).toEqual([['pay'], 1])
    paid.answer('paid')
    const last = await next()
    expect(last.texts).toEqual(['pay', 'and?'])
    last.answer('that is all')
  })
}

test('a turn that waits for a decision continues in the engine of a broker that was closed', async () => {
  const { server, next } = await askedServer()
  const ran: unknown[] = []
  const { broker, engine } = brokerAt(server.url, options(ran))
  const begun = deferred<AgentRun>()
  broker.on('run', ({ run }) => begun.resolve(run))
  await broker.send({ to: { session: a }, message: 'pay' })
  ;(await next()).calls(call)
  const { id } = await onlyPending(engine)
  const run = await begun.promise
  await broker.close({ drainMs: 0 })
  await engine.approve(id)
  ;(await next()).answer('paid')
  expect([(await run.result).text, ran.length]).toEqual(['paid', 1])
  expect(await broker.queue(a)).toEqual([])
})
