// Messages that another process runs, forks, and messages that cannot enter a turn or never succeed. It must never reach a real
// provider.

import { expect, test } from 'vitest'
import {
  type AgentEngine,
  type AgentTool,
  Broker,
  type QueuedMessage,
  type SessionEvent,
} from '../../index.js'
import { Execution } from '../../lib/broker/execution.ts'
import { askedServer, brokerAt, echoing } from '../support/broker.js'
import { afterwards } from '../support/cleanup.js'
import { ledgerAt } from '../support/ledger/named.js'
import { killable } from '../support/processes/killable.js'
import { killedAfterTool } from '../support/processes/killed-sender.js'
import { deferred } from '../support/tools.js'
import { noise } from '../support/values/incompressible.js'

const label = 'agent:main:main'
const to = { session: label }

test('the result of a message is that of its turn, also where another process runs it', async () => {
  const { server, next } = await askedServer()
  const { broker, file } = brokerAt(server.url, { lanes: { main: 1 }, queue: { pulseMs: 20 } })
  const held = broker.execute({ to: { session: 'held' }, message: 'hold' })
  const holding = await next()
  // The only slot here is taken: another process runs this one.
  const followed = broker.execute({ to, message: 'a' })
  expect((await followed.receipt).disposition).toBe('queued')
  const other = killable('broker/sender.mjs', [file, server.url, 'other', '0', 'stay'])
  const asked = await next()
  expect(asked.texts).toEqual(['a'])
  asked.answer('from afar')
  const result = await followed.result
  expect([result.text, result.stopReason, result.persisted]).toEqual([
    'from afar',
    'end_turn',
    true,
  ])
  other.kill()
  await other.ended
  holding.answer('held')
  expect((await held.result).text).toBe('held')
})

/** A broker that resumes the turn of a process that was killed, and waits for the tools of its agent. */
async function resuming() {
  const { server, next, file } = await killedAfterTool()
  const [began, tools] = [deferred<string>(), deferred<readonly AgentTool[]>()]
  const { broker, engine } = brokerAt(
    server.url,
    {
      agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
      toolsets: {
        house: ({ turnId }) => {
          began.resolve(turnId)
          return tools.promise
        },
      },
      queue: { pulseMs: 20 },
    },
    { ledger: ledgerAt(file) },
  )
  const errors: string[] = []
  broker.on('error', (error) => errors.push((error as Error).message))
  return { next, broker, engine, errors, tools, turnId: await began.promise }
}

for (const [how, take] of [
  ['closes', (engine: AgentEngine, turnId: string) => engine.discard(turnId)],
  ['resumes', (engine: AgentEngine, turnId: string) => engine.resume(turnId)],
] as const) {
  test(`an interrupted turn that somebody else ${how} first is left to them, and the session goes on`, async () => {
    const { next, broker, engine, errors, tools, turnId } = await resuming()
    const run = await take(engine, turnId)
    tools.resolve([])
    if (run !== undefined) {
      ;(await next()).answer('late')
      expect((await run.result).text).toBe('late')
    }
    const following = broker.execute({ to: { session: 'main' }, message: 'b' })
    const asked = await next()
    expect(asked.texts.at(-1)).toBe('b')
    asked.answer('to b')
    expect((await following.result).text).toBe('to b')
    expect(errors).toEqual([])
    const status = (await engine.ledger.turn(turnId))?.status
    expect(status).toBe(how === 'closes' ? 'failed' : 'completed')
  })
}

test('an interrupted turn that is aborted while it is resumed ends as aborted', async () => {
  const { next, broker, engine, errors, tools, turnId } = await resuming()
  await broker.abort('main')
  tools.resolve([])
  const following = broker.execute({ to: { session: 'main' }, message: 'b' })
  const asked = await next()
  expect(asked.texts.at(-1)).toBe('b')
  asked.answer('to b')
  expect((await following.result).text).toBe('to b')
  expect((await engine.ledger.turn(turnId))?.status).toBe('aborted')
  expect(errors).toEqual([])
})

test('an interrupted turn that cannot be resumed, and that somebody else has closed, is not closed again', async () => {
  const { broker, engine, errors, tools, turnId } = await resuming()
  const ended = new Promise<QueuedMessage[]>((resolve) => {
    broker.on('queue', ({ items }) => resolve(items))
  })
  await engine.discard(turnId)
  tools.reject(new Error('there are no tools'))
  expect((await ended).map((item) => [item.turnId, item.status])).toEqual([[turnId, 'delivered']])
  expect(errors).toEqual(['there are no tools'])
})

test('a second report of the end of a message asks no other process for its result again', async () => {
  const execution = new Execution(new Promise(() => {}), () => {})
  const item = { status: 'delivered', turnId: 'a', reason: null } as QueuedMessage
  const asked: (() => void)[] = []
  const elsewhere = () =>
    new Promise<never>((_, reject) => {
      asked.push(() => reject(new Error('the engine is closed')))
    })
  expect([execution.end(item, null, elsewhere), execution.end(item, null, elsewhere)]).toEqual([
    true,
    true,
  ])
  expect(asked.length).toBe(1)
  for (const closes of asked) closes()
  await expect(execution.result).rejects.toThrow('the engine is closed')
})

test('a fork begins at a turn, with a message or without one', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const first = await broker.execute({ to, message: 'a' }).result
  await broker.execute({ to, message: 'b' }).result
  const empty = await broker.fork(first.turnId)
  expect([empty.receipt, (await engine.ledger.session(empty.sessionLabel))?.threadId]).toEqual([
    null,
    first.turnId,
  ])
  const ended = new Promise<QueuedMessage[]>((resolve) => {
    broker.on('queue', ({ items }) => resolve(items))
  })
  const { sessionLabel, receipt } = await broker.fork(first.turnId, 'c')
  expect(receipt?.sessionLabel).toBe(sessionLabel)
  const [item] = await ended
  const history = await engine.ledger.history(item?.turnId ?? '')
  expect(history.map(({ content }) => content)).toEqual(['a', 'to a', 'c', 'to c'])
  await expect(broker.fork('01ARZ3NDEKTSV4RRFFQ69G5FAV')).rejects.toMatchObject({
    code: 'unknown_turn',
  })
})

test('a steered message with an image is the next turn, because a running one takes texts', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a' })
  const asked = await next()
  const data =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  const content = [
    { type: 'text' as const, text: 'look' },
    { type: 'image' as const, data, mimeType: 'image/png' },
  ]
  const message = { role: 'user' as const, content }
  const steered = broker.execute({ to, message, mode: 'steer' })
  expect((await steered.receipt).disposition).toBe('queued')
  asked.answer('to a')
  expect((await first.result).text).toBe('to a')
  const looking = await next()
  expect(JSON.stringify(looking.seen.body.messages.at(-1))).toContain(data)
  looking.answer('a dot')
  expect((await steered.result).text).toBe('a dot')
})

test('a message is poisoned after seven failures of its own, and the queue goes on', {
  timeout: 90_000,
}, async () => {
  const { server, next } = await askedServer()
  // No request of the first message is ever answered, which is no failure of the provider.
  const agents = { main: { model: 'test-model', provider: 'test', timeoutMs: 1_000 } }
  const { broker, engine } = brokerAt(server.url, { agents })
  const poisoned = broker.execute({ to, message: 'a' })
  const behind = broker.execute({ to, message: 'b' })
  const pauses: number[] = []
  const failed = new Promise<QueuedMessage>((resolve) => {
    broker.on('queue', ({ items: [item] }) => {
      if (item?.status === 'pending') pauses.push(item.notBefore)
      if (item?.status === 'failed') resolve(item)
    })
  })
  for (let tries = 0; tries < 7; tries++) expect((await next()).texts).toEqual(['a'])
  expect(await failed).toMatchObject({ status: 'failed', reason: 'poisoned', tries: 6 })
  expect((await poisoned.result).stopReason).toBe('timeout')
  // Each try begins after the pause that the one before it has left, which grows to ten seconds.
  const turns =
    'SELECT started_at, completed_at FROM turns WHERE completed_at IS NOT NULL ORDER BY started_at'
  const { rows } = await engine.ledger.query(turns)
  const tries = rows as { started_at: number; completed_at: number }[]
  const waited = pauses.map((pause, at) => {
    expect(tries[at + 1]?.started_at).toBeGreaterThanOrEqual(pause)
    return Math.round((pause - (tries[at]?.completed_at ?? 0)) / 500) * 500
  })
  expect(waited).toEqual([500, 1_000, 2_000, 4_000, 8_000, 10_000])
  const asked = await next()
  expect(asked.texts).toEqual(['b'])
  asked.answer('to b')
  expect((await behind.result).text).toBe('to b')
})

test('two brokers of one process share the sessions: each message begins one turn, by the broker that has queued it', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url, { queue: { cap: 100 } })
  const agents = { main: { model: 'test-model', provider: 'test' } }
  const other = new Broker(engine, { agents, queue: { cap: 100 } })
  afterwards(() => other.close({ drainMs: 0 }))
  const runs: string[][] = [[], []]
  const errors: unknown[] = []
  for (const [at, each] of [broker, other].entries()) {
    each.on('run', ({ itemIds }) => runs[at]?.push(...itemIds))
    each.on('error', (error) => errors.push(error))
  }
  const executions = Array.from({ length: 20 }, (_, number) => {
    const sender = number % 2 === 0 ? broker : other
    return sender.execute({ to, message: `message ${number}` })
  })
  const results = await Promise.all(executions.map(({ result }) => result))
  expect(results.map(({ text }) => text)).toEqual(
    Array.from({ length: 20 }, (_, number) => `to message ${number}`),
  )
  const ids = await Promise.all(executions.map(async ({ receipt }) => (await receipt).itemId))
  expect(runs.map((begun) => begun.toSorted())).toEqual([
    ids.filter((_, number) => number % 2 === 0).toSorted(),
    ids.filter((_, number) => number % 2 === 1).toSorted(),
  ])
  expect(errors).toEqual([])
  const { rows } = await engine.ledger.query('SELECT count(*) AS turns FROM runs')
  expect(rows).toEqual([{ turns: 20 }])
})

test('an image of a message that waits is in `blobs`, and is sent whole', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  await broker.suspendQueue(label)
  const data = Buffer.from(noise('image', 50_000)).toString('base64')
  const content = [
    { type: 'image', mimeType: 'image/png', data },
    { type: 'text', text: 'What is this?' },
  ] as const
  const execution = broker.execute({ to, message: { role: 'user', content: [...content] } })
  await execution.receipt
  const [waiting] = await broker.queue(label)
  expect(waiting?.message.content).toEqual(content)
  const sizes = `SELECT length(message_json) < 1000 AS isSmall, blobs_json IS NOT NULL AS hasBlob,
    (SELECT count(*) FROM blobs) AS blobs FROM queue_items`
  const stored = { isSmall: 1, hasBlob: 1, blobs: 1 }
  expect((await engine.ledger.query(sizes)).rows).toEqual([stored])
  expect((await engine.ledger.verify()).problems).toEqual([])
  await broker.resumeQueue(label)
  const { turnId } = await execution.result
  expect(JSON.stringify(server.seen[0]?.body)).toContain(data)
  // The message of the turn shares the blob, which stays after a vacuum, and goes with both.
  await engine.ledger.vacuum()
  expect((await engine.ledger.query(sizes)).rows).toEqual([stored])
  expect((await engine.ledger.turn(turnId))?.messages[0]?.blocks[0]).toMatchObject({ data })
  await engine.ledger.deleteSession(label, { turns: true })
  expect((await engine.ledger.query('SELECT count(*) AS n FROM blobs')).rows).toEqual([{ n: 0 }])
})

test('a reader of a session that was away gets what it has missed, and then what happens, each event once', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url)
  const shown = ({ runId, event }: SessionEvent) => `${runId} ${event.seq} ${event.type}`
  const all: string[] = []
  const reader = broker.subscribe(label)
  const [first, second, third] = ['a', 'b', 'c'].map((message) => broker.execute({ to, message }))
  ;(await next()).answer('to a')
  // It reads a part of the first run, and leaves.
  while (all.length < 2) {
    const { value } = await reader.next()
    all.push(shown(value))
  }
  await reader.return?.()
  await first?.result
  const [runId = '', seq] = (all.at(-1) ?? '').split(' ')
  ;(await next()).answer('to b')
  await second?.result
  const asked = await next()
  for await (const item of broker.subscribe(label, { runId, afterSeq: Number(seq) })) {
    all.push(shown(item))
    const { event } = item
    if (event.type === 'stream_start' && all.filter((it) => it.includes('_start')).length === 3) {
      asked.answer('to c')
    }
    if (event.type === 'stream_end' && item.runId === third?.runId) break
  }
  const expected: string[] = []
  for (const execution of [first, second, third]) {
    const id = execution?.runId ?? ''
    for await (const event of engine.attach(id)) {
      expected.push(shown({ runId: id, turnId: '', event }))
    }
  }
  expect(all).toEqual(expected)
  const other = broker.subscribe(label, { runId: 'unknown' })
  await expect(other.next()).rejects.toMatchObject({ code: 'unknown_run' })
  expect(() => broker.subscribe(label, { afterSeq: 3 })).toThrow(/runId/)
})

test('an assembled context is run as it is, in its own session or in that of a label or a key', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const assembled = async (message: string) =>
    await broker.assembleContext({ to: { session: 'own' }, message })
  const ran = async (execution: { result: Promise<{ text: string; turnId: string }> }) => {
    const { text, turnId } = await execution.result
    return [text, (await engine.ledger.turn(turnId))?.sessionLabel]
  }
  const start = broker.startBrokerExecution.bind(broker)
  expect([
    await ran(broker.runAgent(await assembled('a'))),
    await ran(start(await assembled('b'))),
    await ran(start(await assembled('c'), { sessionLabel: 'label' })),
    await ran(start(await assembled('d'), { sessionKey: 'agent:main:main' })),
  ]).toEqual([
    ['to a', 'own'],
    ['to b', 'own'],
    ['to c', 'label'],
    ['to d', 'agent:main:main'],
  ])
})
