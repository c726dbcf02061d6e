// Tasks whose results come as messages, and messages between agents. It must never wait for a time: the test answers each request
// of the model.

import { expect, test } from 'vitest'
import type { Broker, BrokerAgent, QueuedMessage } from '../../../index.js'
import { type Asked, askedServer, brokerAt } from '../../support/broker.js'
import { folder } from '../../support/cleanup.js'

const model = { model: 'test-model', provider: 'test' }
const label = 'agent:main:main'

async function dispatching(main: Partial<BrokerAgent> = {}, coder: Partial<BrokerAgent> = {}) {
  const { server, next } = await askedServer()
  const subagents = { allowAgents: ['main', 'coder'] }
  const { broker, engine } = brokerAt(server.url, {
    agents: {
      main: { ...model, systemPrompt: 'manager', subagents, ...main },
      coder: { ...model, systemPrompt: 'worker', subagents, ...coder },
    },
    defaultAgent: 'main',
  })
  // The agents run at once: each test takes their requests by their prompts.
  const open: Asked[] = []
  const of = async (prompt: string): Promise<Asked> => {
    for (;;) {
      const at = open.findIndex(({ seen }) => JSON.stringify(seen.body.system).includes(prompt))
      const [found] = at < 0 ? [] : open.splice(at, 1)
      if (found !== undefined) return found
      open.push(await next())
    }
  }
  return { broker, engine, manager: () => of('manager'), worker: () => of('worker') }
}

/** The result of the next tool call of a model, as it reads it. */
function toolResult(asked: Asked): string {
  return JSON.stringify(asked.seen.body.messages.at(-1))
}

/** Resolves with the first message of a queue that has ended and fits. */
function ended(broker: Broker, fits: (item: QueuedMessage) => boolean): Promise<QueuedMessage> {
  return new Promise((resolve) => {
    const leave = broker.on('queue', ({ items }) => {
      const found = items.find(
        (it) => it.status !== 'pending' && it.status !== 'processing' && fits(it),
      )
      if (found === undefined) return
      leave()
      resolve(found)
    })
  })
}

const isResult = ({ from }: QueuedMessage) => from?.kind === 'worker_result'

test('the result of a task is a message of the session that gave it, for the same user', async () => {
  const { broker, engine, manager, worker } = await dispatching()
  const target = { channel: 'chat' }
  const identity = { id: 'owner' }
  const { result } = broker.execute({ to: { session: label }, message: 'go', identity, target })
  ;(await manager()).calls([
    '1',
    'agent_send',
    { op: 'dispatch', target: 'coder', content: 'Task' },
  ])
  const task = await worker()
  expect(task.texts).toEqual(['Task'])
  const sent = await manager()
  expect(toolResult(sent)).toContain('Dispatched to coder')
  sent.answer('It is under way')
  expect((await result).text).toBe('It is under way')
  const answered = ended(broker, isResult)
  task.answer('It is done')
  const asked = await manager()
  const { toolCalls } = await result
  const id = toolCalls[0]?.callId
  const session = `worker:${id}`
  expect(asked.texts.at(-1)).toMatch(
    new RegExp(
      `^<worker_result nonce="\\w+" dispatch="${id}" session="${session}" agent="coder" status="ok">\nIt is done\n</worker_result nonce="\\w+">$`,
    ),
  )
  asked.answer('Thank you')
  const item = await answered
  const dispatch = await broker.dispatch(id ?? '')
  expect(item).toMatchObject({
    id: dispatch?.resultItemId,
    source: 'worker',
    status: 'delivered',
    from: {
      kind: 'worker_result',
      fromSession: session,
      fromAgent: 'coder',
      fromTurn: dispatch?.turnId,
      dispatchId: id,
      status: 'ok',
      hops: 0,
    },
  })
  expect(item.from?.usage?.totalTokens).toBeGreaterThan(0)
  const { rows } = await engine.ledger.query(
    'SELECT source, principal, request_json FROM queue_items ORDER BY n',
  )
  expect(new Set(rows.map(({ principal }) => principal)).size).toBe(1)
  const requests = rows.map(({ request_json }) => JSON.parse(request_json as string))
  expect(requests).toEqual([{ identity, target }, { identity }, { identity, target }])
})

test('agents write to each other at most five times in a row', async () => {
  const { broker, manager, worker } = await dispatching()
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  const write = (to: string) => ['1', 'send_message_to_agent', { to, content: 'ping' }] as const
  const asked: Asked[] = []
  for (let hop = 0; hop < 6; hop++) {
    const isManager = hop % 2 === 0
    const writer = isManager ? await manager() : await worker()
    if (hop > 0) {
      const other = isManager ? 'coder' : 'main'
      const tag = new RegExp(
        `<agent_message nonce="\\w+" from="${other}" session="agent:${other}:main">\nping`,
      )
      expect(writer.texts.at(-1)).toMatch(tag)
    }
    writer.calls([...write(isManager ? 'coder' : 'main')])
    const after = isManager ? await manager() : await worker()
    const refused = '5 messages between agents have followed one another'
    if (hop < 5) expect(toolResult(after)).not.toContain(refused)
    else expect(toolResult(after)).toContain(refused)
    asked.push(after)
    after.answer('sent')
  }
  await result
  expect(asked).toHaveLength(6)
})

test('a role has its tools, and a worker writes to its parent only', async () => {
  const { broker, manager, worker } = await dispatching({ role: 'manager' }, { role: 'worker' })
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  const first = await manager()
  const names = (asked: Asked) => asked.seen.body.tools.map(({ name }: { name: string }) => name)
  const common = ['agent_send', 'send_message_to_agent', 'get_agent_status', 'cancel_agent']
  expect(names(first)).toEqual(common)
  first.calls(['1', 'agent_send', { op: 'dispatch', target: 'coder', content: 'Task' }])
  ;(await manager()).answer('ok')
  await result
  const task = await worker()
  expect(names(task)).toEqual(['spawn_agent', ...common])
  task.calls(
    ['2', 'agent_send', { op: 'dispatch', target: 'coder', content: 'x' }],
    ['3', 'send_message_to_agent', { to: 'coder', content: 'half' }],
  )
  const report = await manager()
  expect(report.texts.at(-1)).toContain('half')
  report.answer('noted')
  const after = await worker()
  expect(toolResult(after)).toContain('op: must be equal to one of the allowed values')
  const answered = ended(broker, isResult)
  after.answer('all')
  ;(await manager()).answer('thanks')
  expect((await answered).status).toBe('delivered')
})

test('a cancelled task is reported as aborted, whether it waits or runs', async () => {
  const { broker, manager, worker } = await dispatching()
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  ;(await manager()).calls([
    '1',
    'agent_send',
    { op: 'dispatch', target: 'coder', content: 'Task' },
  ])
  await worker()
  const sent = await manager()
  const [dispatch] = await broker.dispatches(label)
  sent.calls(['2', 'cancel_agent', { dispatchId: dispatch?.id }])
  const cancelled = await manager()
  expect(toolResult(cancelled)).toMatch(/cancelling|aborted/)
  cancelled.answer('cancelled')
  await result
  const answered = ended(broker, isResult)
  const asked = await manager()
  expect(asked.texts.at(-1)).toContain('status="aborted"')
  asked.answer('ok')
  await answered
  expect(await broker.dispatch(dispatch?.id ?? '')).toMatchObject({
    status: 'aborted',
    cancelled: 'requested',
  })
})

test('a task that ends while its ledger is closed for a move is stored with its result, which follows when the ledger goes on', async () => {
  const { broker, engine, manager, worker } = await dispatching()
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  const call = { op: 'dispatch', target: 'coder', content: 'Task' }
  ;(await manager()).calls(['1', 'agent_send', call])
  const task = await worker()
  ;(await manager()).answer('It is under way')
  await result
  const move = engine.ledger.copyTo({ path: folder().file }, { cutOver: true }).then(
    () => 'moved',
    ({ code }) => code,
  )
  // It waits for the turn of the task.
  const closed = () =>
    engine.ledger.alias('other', label).then(
      () => 'open',
      ({ code }) => code,
    )
  await expect.poll(closed).toBe('ledger_moved')
  task.answer('It is done')
  expect(await move).toBe('storage_locked')
  const heard = await manager()
  expect(heard.texts.at(-1)).toContain('It is done')
  const answered = ended(broker, isResult)
  heard.answer('Good')
  expect((await answered).status).toBe('delivered')
  const [dispatch] = await broker.dispatches(label)
  expect([dispatch?.status, await engine.recover()]).toEqual(['ok', []])
})

test('the abort of a turn ends what it has dispatched, and a detached task goes on', async () => {
  const { broker, manager, worker } = await dispatching()
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  const send = (content: string, detached: boolean) =>
    ['1', 'agent_send', { op: 'dispatch', target: 'coder', content, detached }] as const
  ;(await manager()).calls([...send('stays', true)], [...send('ends', false)])
  const tasks = [await worker(), await worker()]
  await manager()
  const unwanted = ended(broker, (it) => it.from?.kind === 'task')
  await broker.abort(label)
  expect((await result).stopReason).toBe('aborted')
  await unwanted
  const stays = tasks.find(({ texts }) => texts[0] === 'stays')
  const answered = ended(broker, (it) => isResult(it) && it.from?.status === 'ok')
  stays?.answer('done')
  const asked = await manager()
  expect(asked.texts.at(-1)).toContain('status="ok"')
  asked.answer('ok')
  await answered
  const dispatches = await broker.dispatches(label)
  expect(dispatches.map(({ status, cancelled }) => [status, cancelled]).sort()).toEqual([
    ['aborted', 'parent_ended'],
    ['ok', null],
  ])
  // The result of the other one is stored, and nothing follows from it.
  const results = await Promise.all(dispatches.map(({ resultItemId }) => resultItemId))
  expect(results.every((id) => id !== null)).toBe(true)
  expect(await broker.queue(label)).toEqual([])
})

test('a task to a session that is busy waits there, and a task that a full queue drops is an error', async () => {
  const { broker, manager, worker } = await dispatching()
  const busy = broker.execute({ to: { session: 'agent:coder:main' }, message: 'long' })
  const long = await worker()
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  const target = 'agent:coder:main'
  ;(await manager()).calls(['1', 'agent_send', { op: 'dispatch', target, content: 'Task' }])
  ;(await manager()).answer('sent')
  await result
  const [dispatch] = await broker.dispatches(label)
  expect(await broker.cancel(dispatch?.id ?? '')).toBe(true)
  const asked = await manager()
  expect(asked.texts.at(-1)).toContain('status="aborted"')
  const answered = ended(broker, isResult)
  asked.answer('ok')
  await answered
  long.answer('done')
  await busy.result
})

test('a task whose session is deleted is reported as aborted, and none of it is left', async () => {
  const { broker, engine, manager, worker } = await dispatching()
  const other = 'agent:coder:main'
  const before = broker.execute({ to: { session: other }, message: 'Hello' })
  ;(await worker()).answer('Hi')
  await before.result
  await broker.suspendQueue(other)
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  const params = { op: 'dispatch', target: other, content: 'Work' }
  ;(await manager()).calls(['1', 'agent_send', params])
  const again = await manager()
  await engine.ledger.deleteSession(other, { turns: true })
  again.answer('It is on its way')
  await result
  const asked = await manager()
  expect(asked.texts.at(-1)).toMatch(/status="aborted">\nThe session of the task was deleted\./)
  const delivered = ended(broker, isResult)
  asked.answer('A pity')
  await delivered
  const [dispatch] = await broker.dispatches(label)
  expect([dispatch?.status, dispatch?.turnId]).toEqual(['aborted', null])
  expect(await broker.queue(other)).toEqual([])
})
