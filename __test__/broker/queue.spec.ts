// A session's queue through a broker: one turn at a time, in each mode. It must never wait for a time: the test answers each
// request of the model.

import { expect, test } from 'vitest'
import { type AgentTool, Broker, type QueuedMessage } from '../../index.js'
import { type Asked, askedServer, brokerAt, echoing, userTexts } from '../support/broker.js'
import { afterwards, closing, serving } from '../support/cleanup.js'
import { engineAt } from '../support/engine.js'
import { ledgerAt, onPostgres, rows } from '../support/ledger/named.js'
import { sqlite3 } from '../support/ledger/sqlite3.js'
import { anthropic } from '../support/servers/anthropic.js'
import { deferred, waitingTool } from '../support/tools.js'

const label = 'agent:main:main'
const to = { session: label }

/** Resolves when the broker reports that these messages have ended. */
function endOf(broker: Broker, ...ids: string[]): Promise<QueuedMessage[]> {
  const open = new Set(ids)
  const found: QueuedMessage[] = []
  return new Promise((resolve) => {
    const leave = broker.on('queue', ({ items }) => {
      for (const item of items) {
        if (item.status === 'delivered' || item.status === 'failed') {
          if (open.delete(item.id)) found.push(item)
        }
      }
      if (open.size > 0) return
      leave()
      resolve(found)
    })
  })
}

test('the shortest call: a message to a session is answered and is in the ledger', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const execution = broker.execute({ to: { session: 'main' }, message: 'Hi' })
  const receipt = await execution.receipt
  expect(receipt).toEqual({
    disposition: 'started',
    itemId: receipt.itemId,
    sessionLabel: 'main',
    isFork: false,
  })
  const result = await execution.result
  expect([result.text, result.persisted, execution.runId]).toEqual(['to Hi', true, result.runId])
  expect((await engine.ledger.session('main'))?.threadId).toBe(result.turnId)
  expect(await broker.queue('main')).toEqual([])
})

test('fifty messages to one session are fifty turns, one after the other, in one chain', async () => {
  let [running, most] = [0, 0]
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url, { queue: { cap: 100 } })
  broker.on('run', ({ run }) => {
    most = Math.max(most, ++running)
    const ended = () => void running--
    run.result.then(ended, ended)
  })
  const texts = Array.from({ length: 50 }, (_, number) => `message ${number}`)
  const executions = texts.map((message) => broker.execute({ to, message }))
  const results = await Promise.all(executions.map(({ result }) => result))
  expect(results.map(({ text }) => text)).toEqual(texts.map((text) => `to ${text}`))
  expect(most).toBe(1)
  const head = (await engine.ledger.session(label))?.threadId ?? ''
  const history = await engine.ledger.history(head)
  expect(history.filter(({ role }) => role === 'user').map(({ content }) => content)).toEqual(texts)
})

test('collected messages share a turn, each a message of its own, and another route does not', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url, { queue: { debounceMs: 0 } })
  const first = broker.execute({ to, message: 'a' })
  const asked = await next()
  const collect = (message: string, channel: string) =>
    broker.execute({ to, message, mode: 'collect', route: { channel } })
  const [b, c, d] = [collect('b', 'x'), collect('c', 'x'), collect('d', 'y')]
  await Promise.all([b.receipt, c.receipt, d.receipt])
  expect((await broker.queue(label)).map(({ status }) => status)).toEqual([
    'processing',
    'pending',
    'pending',
    'pending',
  ])
  asked.answer('to a')
  await first.result
  const both = await next()
  // The API takes no two messages of a user in a row.
  expect(both.texts).toEqual(['a', 'b\n\nc'])
  both.answer('to b and c')
  const [resultOfB, resultOfC] = await Promise.all([b.result, c.result])
  expect(resultOfB).toEqual(resultOfC)
  const turn = await engine.ledger.turn(resultOfB.turnId)
  expect(turn?.messages.map(({ role, content }) => `${role} ${content}`)).toEqual([
    'user b',
    'user c',
    'assistant to b and c',
  ])
  const other = await next()
  expect(other.texts).toEqual(['a', 'b\n\nc', 'd'])
  other.answer('to d')
  await d.result
})

test('an interrupt aborts the turn and takes the backlog of its sender with it', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a' })
  await next()
  const owner = { identity: { id: 'owner' } }
  const waiting = broker.execute({ to, message: 'b', ...owner })
  const guest = broker.execute({ to, message: 'g', identity: { id: 'guest' } })
  await Promise.all([waiting.receipt, guest.receipt])
  const interrupt = broker.execute({ to, message: 'c', mode: 'interrupt', ...owner })
  expect((await first.result).stopReason).toBe('aborted')
  const asked = await next()
  expect(asked.texts).toEqual(['a\n\nb\n\nc'])
  asked.answer('to both')
  const results = await Promise.all([waiting.result, interrupt.result])
  expect(results.map(({ text }) => text)).toEqual(['to both', 'to both'])
  const last = await next()
  expect(last.texts.at(-1)).toBe('g')
  last.answer('to g')
  await guest.result
})

test('a message that is aborted before it is stored never runs', async () => {
  const { server, next } = await askedServer()
  const gate = deferred<AgentTool[]>()
  const { broker } = brokerAt(server.url, {
    agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
    toolsets: { house: () => gate.promise },
  })
  // One whose turn is about to begin, and one that waits behind it.
  const cancelled = ['a', 'b'].map((message) => {
    const execution = broker.execute({ to, message })
    execution.stream.abort()
    return execution
  })
  for (const { result } of cancelled) {
    await expect(result).rejects.toMatchObject({
      code: 'not_delivered',
      message: expect.stringContaining('cancelled'),
    })
  }
  gate.resolve([])
  const last = broker.execute({ to, message: 'c' })
  const asked = await next()
  expect(asked.texts).toEqual(['c'])
  asked.answer('to c')
  expect((await last.result).text).toBe('to c')
})

test('an event whose message was rejected is queued when it comes again', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url, { queue: { cap: 1, drop: 'new' } })
  const first = broker.execute({ to, message: 'a' })
  const asked = await next()
  const waiting = await broker.send({ to, message: 'b' })
  const event = { to, message: 'c', eventId: 'e1' }
  expect((await broker.send(event)).disposition).toBe('rejected')
  expect((await broker.send(event)).disposition).toBe('rejected')
  expect(await broker.cancel(waiting.itemId)).toBe(true)
  const again = broker.execute(event)
  expect((await again.receipt).disposition).toBe('queued')
  expect((await broker.send(event)).disposition).toBe('duplicate')
  asked.answer('to a')
  await first.result
  const second = await next()
  expect(second.texts).toEqual(['a', 'c'])
  second.answer('to c')
  expect((await again.result).text).toBe('to c')
})

for (const mode of ['steer', 'steer-backlog'] as const) {
  test(`a message with the mode ${mode} enters the running turn after its tool`, async () => {
    const { server, next } = await askedServer()
    const { wait, begun, finish } = waitingTool()
    const { broker, engine } = brokerAt(server.url, {
      agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
      toolsets: { house: () => [wait] },
    })
    const first = broker.execute({ to, message: 'a' })
    ;(await next()).calls(['call_1', 'wait', {}])
    await begun
    const steered = broker.execute({ to, message: 'b', mode })
    expect((await steered.receipt).disposition).toBe('steered')
    expect(await broker.cancel((await steered.receipt).itemId)).toBe(false)
    finish()
    const asked = await next()
    expect(asked.texts).toEqual(['a', 'b'])
    asked.answer('to both')
    const results = await Promise.all([first.result, steered.result])
    expect(results.map(({ text }) => text)).toEqual(['to both', 'to both'])
    const turn = await engine.ledger.turn(results[0].turnId)
    expect(
      turn?.messages.filter(({ role }) => role === 'user').map(({ content }) => content),
    ).toEqual(['a', 'b'])
  })
}

test('ten messages that are steered at once: each receipt says that its message is in the running turn', async () => {
  const { server, next } = await askedServer()
  const { wait, begun, finish } = waitingTool()
  const { broker } = brokerAt(server.url, {
    agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
    toolsets: { house: () => [wait] },
  })
  const first = broker.execute({ to, message: 'a' })
  ;(await next()).calls(['call_1', 'wait', {}])
  await begun
  const steered = Array.from({ length: 10 }, (_, at) =>
    broker.execute({ to, message: `b${at}`, mode: 'steer' }),
  )
  const receipts = await Promise.all(steered.map((it) => it.receipt))
  expect(receipts.map(({ disposition }) => disposition)).toEqual(steered.map(() => 'steered'))
  finish()
  const asked = await next()
  expect(asked.texts.join('\n\n').split('\n\n')).toEqual(['a', ...steered.map((_, at) => `b${at}`)])
  asked.answer('to all')
  await Promise.all([first.result, ...steered.map((it) => it.result)])
})

test('a full queue: the oldest is dropped with a line in a note, or the new one is rejected', async () => {
  const { server, next } = await askedServer()
  for (const drop of ['summarize', 'old', 'new'] as const) {
    const { broker } = brokerAt(server.url, { queue: { cap: 1, drop } })
    const first = broker.execute({ to, message: 'a' })
    const asked = await next()
    const [b, c] = [broker.execute({ to, message: 'b' }), broker.execute({ to, message: 'c' })]
    await b.receipt
    const { disposition } = await c.receipt
    const lost = drop === 'new' ? c : b
    await expect(lost.result).rejects.toMatchObject({ code: 'not_delivered' })
    asked.answer('to a')
    await first.result
    const left = await next()
    const note = '[1 message was left out because the queue was full:]\n- b'
    expect([disposition, left.texts.slice(1)]).toEqual(
      { summarize: ['queued', [`${note}\n\nc`]], old: ['queued', ['c']], new: ['rejected', ['b']] }[
        drop
      ],
    )
    left.answer('to the rest')
    await (drop === 'new' ? b : c).result
  }
})

test('a message that is dropped while its turn is prepared is in the note of the next one, and not in a turn', async () => {
  const { server, next } = await askedServer()
  let opened = () => {}
  let prepared = () => {}
  const gate = new Promise<void>((resolve) => {
    opened = resolve
  })
  const preparing = new Promise<void>((resolve) => {
    prepared = resolve
  })
  const { broker } = brokerAt(server.url, {
    queue: { cap: 1, drop: 'summarize' },
    agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
    toolsets: {
      house: async () => {
        prepared()
        await gate
        return []
      },
    },
  })
  const first = broker.execute({ to, message: 'a' })
  await first.receipt
  await preparing
  const second = broker.execute({ to, message: 'b' })
  await second.receipt
  await expect(first.result).rejects.toMatchObject({ code: 'not_delivered' })
  opened()
  const asked = await next()
  expect(asked.texts).toEqual(['[1 message was left out because the queue was full:]\n- a\n\nb'])
  asked.answer('to b')
  expect((await second.result).text).toBe('to b')
})

test('an event is answered once, whatever session it would go to', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a', eventId: 'e1' })
  const receipt = await first.receipt
  const again = broker.execute({ to: { session: 'other' }, message: 'a', eventId: 'e1' })
  expect(await again.receipt).toEqual({ ...receipt, disposition: 'duplicate' })
  await expect(again.result).rejects.toMatchObject({ code: 'not_delivered' })
  await first.result
  expect(server.seen.length).toBe(1)
})

test('a suspended queue takes messages, and runs them when it is resumed', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  await broker.suspendQueue(label)
  const execution = broker.execute({ to, message: 'a' })
  expect((await execution.receipt).disposition).toBe('queued')
  expect([broker.state(label), server.seen.length]).toEqual(['idle', 0])
  await broker.resumeQueue(label)
  expect((await execution.result).text).toBe('to a')
})

test('a message that waits is cancelled, and one that runs is not', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a' })
  const asked = await next()
  const waiting = broker.execute({ to, message: 'b' })
  const { itemId } = await waiting.receipt
  expect(await broker.cancel((await first.receipt).itemId)).toBe(false)
  expect(await broker.cancel(itemId)).toBe(true)
  await expect(waiting.result).rejects.toMatchObject({ code: 'not_delivered' })
  asked.answer('to a')
  expect((await first.result).text).toBe('to a')
  expect(await broker.queue(label)).toEqual([])
})

test('a message that is cancelled while its turn begins has no result, and the session goes on', async () => {
  const { server, next } = await askedServer()
  const cancelled = deferred<boolean>()
  let prepare = async () => {}
  const { broker } = brokerAt(server.url, {
    agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
    toolsets: {
      house: async () => {
        await prepare()
        return []
      },
    },
  })
  const first = broker.execute({ to, message: 'a' })
  prepare = async () => {
    prepare = async () => {}
    const { itemId } = await first.receipt
    // Not awaited: the run has begun when the end of the message is reported, and finds nothing.
    void broker.cancel(itemId).then(cancelled.resolve)
  }
  await expect(first.result).rejects.toMatchObject({
    code: 'not_delivered',
    message: expect.stringContaining('cancelled'),
  })
  expect(await cancelled.promise).toBe(true)
  const second = broker.execute({ to, message: 'b' })
  const asked = await next()
  expect(asked.texts).toEqual(['b'])
  asked.answer('to b')
  expect((await second.result).text).toBe('to b')
})

for (const queue of ['keep', 'clear'] as const) {
  test(`an abort with the queue '${queue}'`, async () => {
    const { server, next } = await askedServer()
    const { broker } = brokerAt(server.url)
    const first = broker.execute({ to, message: 'a' })
    await next()
    const waiting = broker.execute({ to, message: 'b' })
    await waiting.receipt
    await broker.abort(label, { queue })
    expect((await first.result).stopReason).toBe('aborted')
    if (queue === 'clear') {
      await expect(waiting.result).rejects.toMatchObject({ code: 'not_delivered' })
      expect(await broker.queue(label)).toEqual([])
      return
    }
    const asked = await next()
    asked.answer('to b')
    expect((await waiting.result).text).toBe('to b')
  })
}

test('a message is tried again after a failure without output, and fails for good after one that no try can mend', async () => {
  const { server, next } = await askedServer()
  // The first request is never answered, and no failure of the provider: its key stays in use.
  const agents = { main: { model: 'test-model', provider: 'test', timeoutMs: 1_500 } }
  const { broker } = brokerAt(server.url, { agents })
  const execution = broker.execute({ to, message: 'a' })
  const tried = new Promise<QueuedMessage[]>((resolve) => {
    broker.on('queue', ({ items }) => items[0]?.status === 'pending' && resolve(items))
  })
  await next()
  expect(await tried).toMatchObject([{ tries: 1, failures: 1, turnId: null }])
  const second = await next()
  expect(second.texts).toEqual(['a'])
  second.answer('to a')
  expect((await execution.result).text).toBe('to a')
  const bad = broker.execute({ to, message: 'b' })
  const { itemId } = await bad.receipt
  const ended = endOf(broker, itemId)
  ;(await next()).refuse(400, 'no such field')
  expect((await bad.result).stopReason).toBe('error')
  expect(await ended).toMatchObject([{ id: itemId, status: 'failed', reason: 'run_failed' }])
})

test('a turn that cannot begin fails its messages with the reason, and the session goes on', async () => {
  const server = await echoing()
  let fails = true
  const { broker } = brokerAt(server.url, {
    agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
    toolsets: {
      house: () => {
        if (fails) throw new Error('no keys')
        return []
      },
    },
  })
  const errors: string[] = []
  broker.on('error', ({ message }) => errors.push(message))
  await expect(broker.execute({ to, message: 'a' }).result).rejects.toMatchObject({
    code: 'not_delivered',
    message:
      'the message has no result, because it is run_failed: no keys (docs/guide/errors.md#not_delivered)',
  })
  expect(errors).toEqual(['no keys'])
  fails = false
  expect((await broker.execute({ to, message: 'b' }).result).text).toBe('to b')
})

test('a thread is continued in its session, or else in a fork', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const first = await broker.execute({ to, message: 'a' }).result
  const second = await broker.execute({ to: { thread: first.turnId }, message: 'b' }).result
  expect((await engine.ledger.session(label))?.threadId).toBe(second.turnId)
  const fork = broker.execute({ to: { thread: first.turnId }, message: 'c' })
  const receipt = await fork.receipt
  expect(receipt).toMatchObject({ isFork: true, sessionLabel: `fork-${receipt.itemId}` })
  const third = await fork.result
  const history = await engine.ledger.history(third.turnId)
  expect(history.map(({ content }) => content)).toEqual(['a', 'to a', 'c', 'to c'])
  expect((await engine.ledger.session(label))?.threadId).toBe(second.turnId)
})

test('turns of different sessions run at once up to the limit of their lane, in the order of arrival', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url, { lanes: { main: 2, worker: 1 } })
  const sessions = ['a', 'b', 'c', 'd']
  // One after the other: messages that are sent at once arrive in any order.
  for (const session of sessions) {
    for (const number of [1, 2]) {
      await broker.send({ to: { session }, message: `${session}${number}` })
    }
  }
  const worker = broker.execute({ to: { session: 'worker:1' }, message: 'w' })
  const order: string[] = []
  const byText = (one: Asked, two: Asked) => String(one.texts).localeCompare(String(two.texts))
  let open = [await next(), await next(), await next()].sort(byText)
  expect(open.map(({ texts }) => texts.at(-1))).toEqual(['a1', 'b1', 'w'])
  open.pop()?.answer('to w')
  await worker.result
  while (open.length > 0) {
    const asked = open.shift()
    order.push(asked?.texts.at(-1) ?? '')
    asked?.answer('done')
    if (order.length + open.length < 8) open = [...open, await next()]
  }
  expect(order.slice(0, 4)).toEqual(['a1', 'b1', 'c1', 'd1'])
  // Which of two turns that end at nearly the same time lets its session wait first is open.
  expect(order.slice(4).toSorted()).toEqual(['a2', 'b2', 'c2', 'd2'])
})

test('two hundred sessions have their first turns before any has its second', async () => {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const server = await serving(async (response, seen) => {
    await opened
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(anthropic.answer(`to ${userTexts(seen).at(-1)}`))
  })
  const { broker } = brokerAt(server.url)
  const order: string[] = []
  let [running, most] = [0, 0]
  broker.on('run', ({ run, sessionLabel }) => {
    order.push(sessionLabel)
    most = Math.max(most, ++running)
    const ended = () => void running--
    run.result.then(ended, ended)
  })
  const sessions = Array.from({ length: 200 }, (_, number) => `session ${number}`)
  const executions = [1, 2].flatMap((number) =>
    sessions.map((session) => broker.execute({ to: { session }, message: `${number}` })),
  )
  await Promise.all(executions.map(({ receipt }) => receipt))
  open()
  await Promise.all(executions.map(({ result }) => result))
  expect([order.length, new Set(order.slice(0, 200)).size, most]).toEqual([400, 200, 4])
})

test('a broker that closes begins no turn, and the next one takes the messages over', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a' })
  const asked = await next()
  const waiting = broker.execute({ to, message: 'b' })
  await waiting.receipt
  const closed = broker.close()
  asked.answer('to a')
  await closed
  expect((await first.result).text).toBe('to a')
  await expect(waiting.result).rejects.toMatchObject({ code: 'not_delivered' })
  const agents = { main: { model: 'test-model', provider: 'test' } }
  const other = new Broker(engine, { agents })
  afterwards(() => other.close({ drainMs: 0 }))
  const itemId = (await waiting.receipt).itemId
  const ended = endOf(other, itemId)
  ;(await next()).answer('to b')
  expect(await ended).toMatchObject([{ id: itemId, status: 'delivered' }])
})

test('an engine that closes before its broker loses no message', async () => {
  const { server, next } = await askedServer()
  const { broker, engine, file } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a' })
  const asked = await next()
  const waiting = broker.execute({ to, message: 'b' })
  const { itemId } = await waiting.receipt
  const closed = engine.close()
  asked.answer('to a')
  await Promise.all([first.result, closed])
  const again = closing(engineAt(server.url, { ledger: ledgerAt(file) }))
  const agents = { main: { model: 'test-model', provider: 'test' } }
  // The former owner of the session is this process, which lives.
  const other = new Broker(again, { agents, queue: { pulseMs: 20 } })
  afterwards(() => other.close({ drainMs: 0 }))
  const ended = endOf(other, itemId)
  ;(await next()).answer('to b')
  expect(await ended).toMatchObject([{ id: itemId, status: 'delivered' }])
})

test.skipIf(!onPostgres && !sqlite3)(
  'a message is queued without reading those that wait: one that is damaged refuses no other',
  async () => {
    const { server, next } = await askedServer()
    const { broker, engine, file } = brokerAt(server.url)
    const first = broker.execute({ to, message: 'a' })
    const asked = await next()
    const texts = ['b', 'c']
    await broker.send({ to, message: 'b' })
    const change = (value: string) => {
      const patient = onPostgres ? '' : 'PRAGMA busy_timeout = 5000;'
      rows(
        file,
        `${patient} UPDATE queue_items SET sender_json = ${value} WHERE status = 'pending'`,
      )
    }
    change("'{'")
    await expect(broker.queue(label)).rejects.toMatchObject({ code: 'ledger_corrupt' })
    expect((await broker.send({ to, message: 'c' })).disposition).toBe('queued')
    change('NULL')
    asked.answer('to a')
    await first.result
    for (const text of texts) {
      const following = await next()
      expect(following.texts.at(-1)).toBe(text)
      following.answer(`to ${text}`)
    }
    await expect.poll(() => broker.queue(label)).toEqual([])
    expect((await engine.ledger.verify()).problems).toEqual([])
  },
)
