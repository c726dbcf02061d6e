// What users of other brokers have suffered, a test for each: the failure, and what happens here instead. It must never wait for a time.
//
// | Failure elsewhere                                            | Test                                              |
// |--------------------------------------------------------------|---------------------------------------------------|
// | A queued message is lost when the turn before it fails       | "a queued message survives …" (time-out, abort, error) |
// | A message is answered twice after a retry                    | "a message that is tried again is answered once"  |
// | A session is busy for ever after a throw in a hook           | "a throw in … leaves the session free"            |
// | An interrupt drops the backlog                               | `../queue.spec.ts`, "an interrupt aborts …"       |
// | `collect` mixes two chats                                    | `../queue.spec.ts`, "collected messages share …"  |
// | A steered message is lost because the run ends               | "a steered message is not lost …"                 |
// | A worker's result is lost on a restart, or while the parent is busy | `../agents/kills.spec.ts`; "a worker's result waits …" |
// | A time-out is reported as success                            | "a task whose time is over …"                     |
// | A child has the lane of its parent, and blocks it            | `../agents/spawn.spec.ts`, "eight workers …"      |
// | Locks are waited for, for minutes                            | `../kills.spec.ts`: the next process takes over   |
// | A lane is cleared, and those who wait hang                   | "a queue that is cleared …"                       |
// | A poisoned message is tried without a pause                  | `../elsewhere.spec.ts`, "… poisoned …"; `hot-retries.spec.ts` |
// | A stale head makes a silent fork                             | `routing.spec.ts`, "thread: …"                    |

import { expect, test } from 'vitest'
import type { BrokerOptions, QueuedMessage } from '../../../index.js'
import { askedServer, brokerAt, echoing, userTexts } from '../../support/broker.js'
import { serving } from '../../support/cleanup.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { waitingTool } from '../../support/tools.js'

const label = 'agent:main:main'
const to = { session: label }
const model = { model: 'test-model', provider: 'test' }

const endings = {
  // Enough for the next turn, which has the same limit, on a busy machine.
  'its time is over': { timeoutMs: 2_000 },
  'it is aborted': {},
  'the model refuses it': {},
}

test.each(Object.entries(endings))(
  'a queued message survives the turn before it: %s',
  async (how, fields) => {
    const { server, next } = await askedServer()
    const { broker } = brokerAt(server.url, { agents: { main: { ...model, ...fields } } })
    // Each message is tried once: what follows a try is not the subject.
    const first = broker.execute({ to, message: 'a' })
    const asked = await next()
    const second = broker.execute({ to, message: 'b' })
    await second.receipt
    if (how === 'it is aborted') await broker.abort(label)
    if (how === 'the model refuses it') asked.refuse(400, 'no such field')
    for (;;) {
      const { texts, answer } = await next()
      answer(`to ${texts.at(-1)}`)
      if (texts.at(-1)?.endsWith('b')) break
    }
    expect((await second.result).text).toMatch(/^to (a\n\n)?b$/)
    await first.result
  },
)

test('a message that is tried again is answered once', async () => {
  let failures = 3
  const server = await serving((response, seen) => {
    if (failures-- > 0) {
      const error = { type: 'error', error: { type: 'api_error', message: 'Internal' } }
      response.writeHead(500, { 'content-type': 'application/json', 'retry-after-ms': '1' })
      response.end(JSON.stringify(error))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(anthropic.answer(`to ${userTexts(seen).at(-1)}`))
  })
  const { broker, engine } = brokerAt(server.url)
  const { result } = broker.execute({ to, message: 'a' })
  expect((await result).text).toBe('to a')
  const head = (await engine.ledger.session(label))?.threadId ?? ''
  const history = await engine.ledger.history(head)
  expect(history.map(({ role, content }) => `${role} ${content}`)).toEqual([
    'user a',
    'assistant to a',
  ])
})

const throwing = (() => {
  throw new Error('a hook threw')
}) as never

const hooks: Record<string, Partial<BrokerOptions>> = {
  'a toolset': {
    agents: { main: { ...model, toolset: 'house' } },
    toolsets: { house: throwing },
  },
  'context.layers': { context: { layers: throwing } },
  beforeToolCall: {
    agents: { main: { ...model, toolset: 'house' } },
    toolsets: { house: [{ name: 'look', run: () => 'seen' }] },
    beforeToolCall: throwing,
  },
  smartRoute: { smartRoute: throwing },
}

test.each(Object.entries(hooks))('a throw in %s leaves the session free', async (name, options) => {
  const server = await serving((response, seen) => {
    const last = userTexts(seen).at(-1)
    const hasResult = JSON.stringify(seen.body.messages.at(-1)).includes('tool_result')
    const calls = name === 'beforeToolCall' && !hasResult
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(calls ? anthropic.calls(['c', 'look', {}]) : anthropic.answer(`to ${last}`))
  })
  const { broker } = brokerAt(server.url, options)
  broker.on('error', () => {})
  const settled = async (message: string) => {
    const { result } = broker.execute({ to: { ...to, smart: true }, message })
    return await result.then(
      ({ text }) => text,
      ({ message: why }) => why,
    )
  }
  const expected =
    name === 'smartRoute' || name === 'beforeToolCall' ? /^to [ab]$/ : /run_failed: .*a hook threw/
  expect(await settled('a')).toMatch(expected)
  expect(await settled('b')).toMatch(expected)
  // The result of a message comes before its session has ended its step; a listener that comes late is informed of its end.
  if (broker.state(label) !== 'idle') {
    await new Promise<void>((resolve) => {
      broker.on('session', ({ state }) => state === 'idle' && resolve())
    })
  }
  expect([broker.state(label), await broker.queue(label)]).toEqual(['idle', []])
})

test('a throw in a listener leaves the session free', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const warnings = new Promise<string>((resolve) => {
    process.once('warning', ({ message }) => resolve(message))
  })
  broker.on('run', throwing)
  broker.on('queue', throwing)
  expect((await broker.execute({ to, message: 'a' }).result).text).toBe('to a')
  expect((await broker.execute({ to, message: 'b' }).result).text).toBe('to b')
  expect(await warnings).toContain('a hook threw')
})

test('a steered message is not lost where the run fails before it could read it', async () => {
  const { server, next } = await askedServer()
  const { wait, begun, finish } = waitingTool()
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: { ...model, toolset: 'house' } },
    toolsets: { house: [wait] },
  })
  const first = broker.execute({ to, message: 'a' })
  ;(await next()).calls(['c', 'wait', {}])
  await begun
  const steered = broker.execute({ to, message: 'b', mode: 'steer' })
  expect((await steered.receipt).disposition).toBe('steered')
  finish()
  const { itemId } = await steered.receipt
  const ended = new Promise<QueuedMessage>((resolve) => {
    broker.on('queue', ({ items }) => {
      const found = items.find(({ id }) => id === itemId)
      if (found?.status === 'delivered' || found?.status === 'failed') resolve(found)
    })
  })
  const asked = await next()
  expect(asked.texts).toEqual(['a', 'b'])
  asked.refuse(400, 'no such field')
  expect((await first.result).stopReason).toBe('error')
  // The turn has output, so it is in the session, with the message.
  expect(await ended).toMatchObject({ status: 'delivered' })
  const head = (await engine.ledger.session(label))?.threadId ?? ''
  const history = await engine.ledger.history(head)
  expect(history.filter(({ role }) => role === 'user').map(({ content }) => content)).toEqual([
    'a',
    'b',
  ])
})

test('a steered message is not lost where it arrives with the last answer', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a' })
  const asked = await next()
  const steered = broker.execute({ to, message: 'b', mode: 'steer' })
  await steered.receipt
  asked.answer('to a')
  const again = await next()
  expect(again.texts).toEqual(['a', 'b'])
  again.answer('to b')
  expect((await steered.result).text).toContain('to b')
  await first.result
})

/** A broker whose agent gives tasks to `coder`, with the requests of each by their prompts. */
async function dispatching() {
  const { server, next } = await askedServer()
  const subagents = { allowAgents: ['coder'] }
  const { broker } = brokerAt(server.url, {
    agents: {
      main: { ...model, systemPrompt: 'manager', subagents },
      coder: { ...model, systemPrompt: 'worker' },
    },
    defaultAgent: 'main',
    queue: { pulseMs: 20 },
  })
  return { broker, next }
}

test("a worker's result waits while its parent is busy, and is read once", async () => {
  const { broker, next } = await dispatching()
  const first = broker.execute({ to, message: 'go' })
  const params = { op: 'dispatch', target: 'coder', content: 'Work' }
  ;(await next()).calls(['c', 'agent_send', params])
  const [one, two] = [await next(), await next()]
  const isWorker = (asked: typeof one) => JSON.stringify(asked.seen.body.system).includes('worker')
  const [worker, parent] = isWorker(one) ? [one, two] : [two, one]
  const ended = new Promise<void>((resolve) => {
    broker.on('queue', ({ items }) => {
      if (items.some(({ from }) => from?.kind === 'task')) resolve()
    })
  })
  worker.answer('done')
  await ended
  const waiting = await broker.queue(label)
  expect(waiting.map(({ from, status }) => [from?.kind ?? 'user', status])).toEqual([
    ['user', 'processing'],
    ['worker_result', 'pending'],
  ])
  parent.answer('I wait')
  await first.result
  const read = await next()
  expect(read.texts.at(-1)).toContain('done')
  read.answer('Thanks')
})

test('a task whose time is over has the result `timeout`', async () => {
  const { broker, next } = await dispatching()
  const { result } = broker.execute({ to, message: 'go' })
  const params = { op: 'dispatch', target: 'coder', content: 'Work', timeoutMs: 1 }
  ;(await next()).calls(['c', 'agent_send', params])
  for (;;) {
    const asked = await next()
    const text = asked.texts.at(-1) ?? ''
    // The worker is never answered.
    if (JSON.stringify(asked.seen.body.system).includes('worker')) continue
    asked.answer('ok')
    if (text.includes('status="timeout"')) break
  }
  await result
  const [dispatch] = await broker.dispatches(label)
  expect(dispatch?.status).toBe('timeout')
})

test('a queue that is cleared leaves nobody hanging, and other sessions have their turns', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url, { lanes: { main: 1 } })
  const running = broker.execute({ to, message: 'a' })
  const asked = await next()
  const [own, other] = [
    broker.execute({ to, message: 'b' }),
    broker.execute({ to: { session: 'agent:main:dm:ann' }, message: 'c' }),
  ]
  const cleared = broker.execute({ to: { session: 'agent:main:dm:bob' }, message: 'd' })
  await Promise.all([own.receipt, other.receipt, cleared.receipt])
  // It waits for the only slot of the lane.
  await broker.abort('agent:main:dm:bob', { queue: 'clear' })
  await expect(cleared.result).rejects.toMatchObject({ code: 'not_delivered' })
  await broker.abort(label, { queue: 'clear' })
  await expect(own.result).rejects.toMatchObject({ code: 'not_delivered' })
  expect((await running.result).stopReason).toBe('aborted')
  asked.answer('too late')
  const last = await next()
  expect(last.texts).toEqual(['c'])
  last.answer('to c')
  expect((await other.result).text).toBe('to c')
})
