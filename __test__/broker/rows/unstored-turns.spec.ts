// Turns, their messages and their deliveries whose end the ledger does not store: once, and for good. Nothing is lost, no message is in
// the session twice, and what is tried again is tried in its order. It must never wait a fixed time.

import { expect, test } from 'vitest'
import type { AgentEngineError, AgentResult, Broker, QueuedMessage } from '../../../index.js'
import { type Asked, askedServer, brokerAt } from '../../support/broker.js'
import { folder } from '../../support/cleanup.js'
import { ledgerAt, newLedger, onPostgres, rows } from '../../support/ledger/named.js'
import { hasPostgres } from '../../support/ledger/postgres.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'

const label = 'agent:main:main'
const to = { session: label }
const target = { chat: 7 }
const live = test.skipIf(onPostgres ? !hasPostgres : !sqlite3)

/** Lets each change of a table fail that is so described, as another program does it; the function ends that. */
function failing(file: string, change: string, table: string, when = ''): () => void {
  if (onPostgres) {
    const clause = when === '' ? '' : `when (${when})`
    rows(
      file,
      `create or replace function broken() returns trigger language plpgsql as $$
       begin raise exception using errcode = '58030', message = 'broken'; end $$;
       create trigger broken before ${change} on ${table} for each row ${clause} execute function broken()`,
    )
    return () => void rows(file, `drop trigger broken on ${table}`)
  }
  const clause = when === '' ? '' : `WHEN ${when}`
  const patient = 'PRAGMA busy_timeout = 5000;'
  rows(
    file,
    `${patient} CREATE TRIGGER broken BEFORE ${change} ON ${table} ${clause} BEGIN SELECT RAISE(ABORT, 'broken'); END`,
  )
  return () => void rows(file, `${patient} DROP TRIGGER broken`)
}

/** What a broker reports. */
function watched(broker: Broker) {
  const errors: AgentEngineError[] = []
  const waiting: (() => void)[] = []
  broker.on('error', (error) => {
    errors.push(error as AgentEngineError)
    waiting.shift()?.()
  })
  const ended: [string | null, QueuedMessage[]][] = []
  broker.on('queue', ({ turnId, items }) => void ended.push([turnId, items]))
  return { errors, ended, failure: () => new Promise<void>((resolve) => waiting.push(resolve)) }
}

/** Answers each request, also repeated ones, until the work is done. */
async function answering<T>(next: () => Promise<Asked>, work: Promise<T>): Promise<T> {
  let isDone = false
  const asked: string[][] = []
  const answers = async () => {
    while (!isDone) {
      const request = await next()
      asked.push(request.texts)
      request.answer(`to ${request.texts.at(-1)}`)
    }
  }
  answers().catch(() => {})
  return work.finally(() => {
    isDone = true
  })
}

const delivered = "new.status = 'delivered'"
const typed = /^storage_(io|constraint)$/
const texts = async (engine: ReturnType<typeof brokerAt>['engine']) =>
  (await engine.ledger.history(label)).map(({ content }) => content)

live(
  'a turn whose end is not stored once is resumed, and its messages and its delivery are there once',
  async () => {
    const { server, next } = await askedServer()
    const { broker, engine, file } = brokerAt(server.url, { queue: { pulseMs: 20 } })
    const { ended } = watched(broker)
    const first = broker.execute({ to, message: 'a', target, outbox: true })
    const second = broker.execute({ to, message: 'b', target, outbox: true })
    await second.receipt
    const asked = await next()
    const mend = failing(file, 'INSERT', 'deliveries')
    asked.answer('to a')
    const again = await next()
    expect(again.texts).toEqual(['a'])
    mend()
    again.answer('to a')
    const result = await first.result
    expect([result.text, result.persisted]).toEqual(['to a', true])
    ;(await next()).answer('to b')
    expect((await second.result).text).toBe('to b')
    expect(await texts(engine)).toEqual(['a', 'to a', 'b', 'to b'])
    const deliveries = await broker.deliveries()
    expect(deliveries.map(({ turnId }) => turnId)).toEqual([
      result.turnId,
      (await second.result).turnId,
    ])
    expect(await broker.queue(label)).toEqual([])
    // The end of the run that was not stored, and that of the one that was.
    const of = ended.filter(([turnId]) => turnId === result.turnId)
    expect(of.map(([, items]) => items.map(({ status }) => status))).toEqual([
      ['processing'],
      ['delivered'],
    ])
    expect(await engine.recover()).toEqual([])
  },
)

live(
  'a turn that cannot be stored at all waits for the ledger, with the messages behind it, and asks the model no more',
  async () => {
    const { server, next } = await askedServer()
    const { broker, engine, file } = brokerAt(server.url, { queue: { pulseMs: 20 } })
    const { errors, failure } = watched(broker)
    const first = broker.execute({ to, message: 'a', target, outbox: true })
    const second = broker.execute({ to, message: 'b', target, outbox: true })
    await second.receipt
    const asked = await next()
    const mend = onPostgres
      ? failing(file, 'UPDATE', 'turns', "new.status <> 'streaming'")
      : failing(file, 'INSERT', 'turn_rows')
    asked.answer('to a')
    // It is resumed once; then it can only be closed, which fails as well.
    ;(await next()).answer('to a')
    for (let failures = 0; failures < 3; failures++) await failure()
    expect([...new Set(errors.map(({ code }) => code))]).toEqual([expect.stringMatching(typed)])
    expect(server.seen).toHaveLength(2)
    const waiting = (await broker.queue(label)).map(({ message, status }) => [
      message.content,
      status,
    ])
    expect(waiting).toEqual([
      ['a', 'processing'],
      ['b', 'pending'],
    ])
    mend()
    const [one, two] = await answering(next, Promise.all([first.result, second.result]))
    expect([one.text, two.text]).toEqual(['to a', 'to b'])
    expect(await texts(engine)).toEqual(['a', 'to a', 'b', 'to b'])
    expect((await broker.deliveries()).map(({ turnId }) => turnId)).toEqual([
      one.turnId,
      two.turnId,
    ])
    expect(await broker.queue(label)).toEqual([])
    expect(await engine.recover()).toEqual([])
  },
)

live(
  'a turn whose delivery cannot be stored asks the model no more, and is answered once that works again',
  async () => {
    const { server, next } = await askedServer()
    const { broker, engine, file } = brokerAt(server.url, { queue: { pulseMs: 20 } })
    const { errors, failure } = watched(broker)
    const execution = broker.execute({ to, message: 'a', target, outbox: true })
    const asked = await next()
    const mend = failing(file, 'INSERT', 'deliveries')
    asked.answer('to a')
    ;(await next()).answer('to a')
    for (let failures = 0; failures < 3; failures++) await failure()
    expect([...new Set(errors.map(({ code }) => code))]).toEqual([expect.stringMatching(typed)])
    expect(server.seen).toHaveLength(2)
    expect((await broker.queue(label)).map(({ status }) => status)).toEqual(['processing'])
    mend()
    const { text, turnId } = await answering(next, execution.result)
    expect([text, server.seen.length]).toEqual(['to a', 3])
    expect(await texts(engine)).toEqual(['a', 'to a'])
    expect((await broker.deliveries()).map((delivery) => delivery.turnId)).toEqual([turnId])
  },
)

live(
  'messages of a turn that end neither with it nor after it are reported when that works again',
  async () => {
    const { server, next } = await askedServer()
    const { broker, engine, file } = brokerAt(server.url, { queue: { pulseMs: 20 } })
    const { errors, failure } = watched(broker)
    const first = broker.execute({ to, message: 'a' })
    const asked = await next()
    const steered = broker.execute({ to, message: 's', mode: 'steer' })
    await steered.receipt
    // Both are the turn's.
    const ofTurn = 'SELECT id FROM queue_items WHERE turn_id IS NOT NULL'
    await expect.poll(async () => (await engine.ledger.query(ofTurn)).rows.length).toBe(2)
    const mend = failing(file, 'UPDATE', 'queue_items')
    const fails = failure()
    const reported = new Promise((resolve) => {
      broker.on('queue', resolve)
    })
    asked.refuse(400, 'no such field')
    await fails
    expect(errors[0]?.code).toMatch(typed)
    // That it has ended is known, and what became of its messages is not.
    expect(await reported).toEqual({ turnId: expect.any(String), items: [] })
    mend()
    const [one, two] = await answering(next, Promise.all([first.result, steered.result]))
    expect([one.persisted, two.persisted]).toEqual([true, true])
    expect((await texts(engine)).filter((text) => text === 'a' || text === 's')).toEqual(['a', 's'])
    expect(await broker.queue(label)).toEqual([])
    const { rows: items } = await engine.ledger.query('SELECT status FROM queue_items ORDER BY n')
    expect(items).toEqual([{ status: 'delivered' }, { status: 'delivered' }])
  },
)

test('a message whose turn is refused while the ledger is closed for a move waits, and is answered when that has failed', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url, { queue: { pulseMs: 20 } })
  const refused = new Promise<AgentResult>((resolve) => {
    let runs = 0
    broker.on('run', ({ run }) => {
      if (++runs === 3) resolve(run.result)
    })
  })
  const other = broker.execute({ to: { session: 'other' }, message: 'o' })
  const holding = await next()
  const first = broker.execute({ to, message: 'a' })
  const asked = await next()
  const second = broker.execute({ to, message: 'b' })
  await second.receipt
  const codeOf = (call: Promise<unknown>) =>
    call.then(
      () => 'no error',
      ({ code }) => code,
    )
  const move = codeOf(engine.ledger.copyTo({ path: folder().file }, { cutOver: true }))
  // It waits for the turns under way.
  await expect.poll(() => codeOf(engine.ledger.alias('another', label))).toBe('ledger_moved')
  asked.answer('to a')
  expect((await first.result).persisted).toBe(true)
  const { stopReason, error } = await refused
  expect([stopReason, error?.detail.code]).toEqual(['error', 'ledger_moved'])
  const waiting = (await broker.queue(label)).map(({ message, status }) => [
    message.content,
    status,
  ])
  expect(waiting).toEqual([['b', 'pending']])
  holding.answer('to o')
  expect((await other.result).persisted).toBe(true)
  expect(await move).toBe('storage_locked')
  ;(await next()).answer('to b')
  expect((await second.result).text).toBe('to b')
  expect(await texts(engine)).toEqual(['a', 'to a', 'b', 'to b'])
})

live('a delivery whose acknowledgement is not stored once is handed out once', async () => {
  const { server, next } = await askedServer()
  const { broker, file } = brokerAt(server.url, { queue: { pulseMs: 20 } })
  const { errors, failure } = watched(broker)
  const got: [string, number][] = []
  let mend = () => {}
  broker.on('delivery', ({ text, attempt }) => {
    got.push([text, attempt])
    if (text === 'to a' && attempt === 1) mend = failing(file, 'UPDATE', 'deliveries', delivered)
  })
  const fails = failure()
  for (const message of ['a', 'b']) await broker.send({ to, message, target })
  for (const message of ['a', 'b']) (await next()).answer(`to ${message}`)
  await fails
  await failure()
  expect([...new Set(errors.map(({ code }) => code))]).toEqual([expect.stringMatching(typed)])
  mend()
  await expect.poll(() => broker.deliveries()).toEqual([])
  expect(got).toEqual([
    ['to a', 1],
    ['to b', 1],
  ])
})

live(
  'a delivery whose acknowledgement is never stored is handed out again by the next broker, in its order',
  async () => {
    const { server, next } = await askedServer()
    const file = newLedger()
    const ledger = ledgerAt(file, { leaseMs: 600 })
    const { broker, engine } = brokerAt(server.url, { queue: { pulseMs: 20 } }, { ledger })
    const { errors, failure } = watched(broker)
    let mend = () => {}
    broker.on('delivery', ({ text, attempt }) => {
      if (text === 'to a' && attempt === 1) mend = failing(file, 'UPDATE', 'deliveries', delivered)
    })
    const fails = failure()
    for (const message of ['a', 'b']) await broker.send({ to, message, target })
    for (const message of ['a', 'b']) (await next()).answer(`to ${message}`)
    await fails
    await broker.close()
    await engine.close()
    expect([...new Set(errors.map(({ code }) => code))]).toEqual([expect.stringMatching(typed)])
    mend()
    const again = brokerAt(server.url, { queue: { pulseMs: 20 } }, { ledger })
    const got: [string, number][] = []
    again.broker.on('delivery', ({ text, attempt }) => void got.push([text, attempt]))
    await expect.poll(() => again.broker.deliveries(), { timeout: 20_000 }).toEqual([])
    expect(got).toEqual([
      ['to a', 2],
      ['to b', 1],
    ])
  },
)
