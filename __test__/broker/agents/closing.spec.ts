// Turns that wait for an agent while their engine or their broker closes: they have no result, and continue in the next broker with what
// the agent answers. It must never wait for a time: the test answers each request of the model.

import { expect, test } from 'vitest'
import { type AgentEngine, type AgentRun, Broker, type BrokerOptions } from '../../../index.js'
import { onlyPending, paying } from '../../support/approvals.js'
import { type Asked, askedServer, brokerAt } from '../../support/broker.js'
import { afterwards, closing } from '../../support/cleanup.js'
import { engineAt } from '../../support/engine.js'
import { ledgerAt } from '../../support/ledger/named.js'
import { deferred } from '../../support/tools.js'

const label = 'agent:main:main'
const model = { model: 'test-model', provider: 'test' }
const pay: [string, string, unknown] = ['call_pay', 'pay', { to: 'shop', amount: 7 }]

const spawn = (agent: string, task: string): [string, string, unknown] => [
  `call_${task}`,
  'spawn_agent',
  { agent, task },
]

/** A manager whose agents start others, to two levels. */
function options(ran: unknown[]): Partial<BrokerOptions> {
  const agent = { ...model, toolset: 'house' }
  return {
    agents: {
      main: { ...agent, subagents: { allowAgents: ['lead'] } },
      lead: { ...agent, systemPrompt: 'lead', subagents: { allowAgents: ['coder'] } },
      coder: { ...agent, systemPrompt: 'coder' },
    },
    defaultAgent: 'main',
    toolsets: { house: [paying(ran)] },
    queue: { pulseMs: 20 },
  }
}

/** The results of tools that a request has, the oldest first. */
function results(asked: Asked): string[] {
  const contents = asked.seen.body.messages.flatMap(({ content }: { content: unknown }) =>
    Array.isArray(content) ? content : [],
  )
  const found = contents.filter(({ type }: { type: string }) => type === 'tool_result')
  return found.map((it: unknown) => JSON.stringify(it))
}

/** The run of each session as it begins. */
function runsOf(broker: Broker) {
  const runs = new Map<string, ReturnType<typeof deferred<AgentRun>>>()
  const of = (agentId: string) => {
    const known = runs.get(agentId) ?? deferred<AgentRun>()
    runs.set(agentId, known)
    return known
  }
  broker.on('run', ({ run, agentId }) => of(agentId).resolve(run))
  return (agentId: string) => of(agentId).promise
}

/** A broker on the same ledger, in a new engine. */
function next(url: string, file: string, ran: unknown[]) {
  const engine = closing(engineAt(url, { ledger: ledgerAt(file) }))
  const broker = new Broker(engine, options(ran) as BrokerOptions)
  afterwards(() => broker.close({ drainMs: 0 }))
  return { engine, broker }
}

const ways = [
  ['close() of the engine', (_: Broker, engine: AgentEngine) => engine.close()],
  ['close() of the broker', (broker: Broker) => broker.close()],
  ['close() of the broker with a time', (broker: Broker) => broker.close({ drainMs: 0 })],
] as const

for (const [how, close] of ways) {
  for (const levels of [1, 2]) {
    const whom = levels === 1 ? 'an agent' : 'an agent that waits for an agent'
    test(`${how} leaves a turn that waits for ${whom} that waits for a decision, and the next broker goes on`, async () => {
      const { server, next: asked } = await askedServer()
      const ran: unknown[] = []
      const { broker, engine, file } = brokerAt(server.url, options(ran))
      const runOf = runsOf(broker)
      const followed = broker.execute({ to: { session: label }, message: 'go' }).result
      const refused = expect(followed).rejects.toMatchObject({ name: 'AgentEngineError' })
      ;(await asked()).calls(spawn('lead', 'one'), [
        'call_late',
        'spawn_agent',
        { agent: 'lead', task: 'late' },
      ])
      if (levels === 2) (await asked()).calls(spawn('coder', 'two'))
      const child = await asked()
      expect(child.texts).toEqual([levels === 1 ? 'one' : 'two'])
      child.calls(pay)
      const { id } = await onlyPending(engine)
      const agents = levels === 1 ? ['main'] : ['main', 'lead']
      const runs = await Promise.all(agents.map(runOf))
      const closed = runs.map(({ result }) =>
        expect(result).rejects.toMatchObject({ code: 'engine_closed' }),
      )
      await close(broker, engine)
      await engine.close()
      await broker.close()
      await Promise.all([refused, ...closed])
      const { engine: later, broker: again } = next(server.url, file, ran)
      await again.approve(id)
      const names = levels === 1 ? ['one'] : ['two', 'one']
      for (const name of names) {
        const request = await asked()
        expect(request.texts).toEqual([name])
        expect(results(request)).toHaveLength(1)
        expect(results(request)[0]).toContain(name === names[0] ? 'paid' : 'did two')
        request.answer(`did ${name}`)
      }
      const late = await asked()
      expect(late.texts).toEqual(['late'])
      late.answer('did late')
      const last = await asked()
      expect(last.texts).toEqual(['go'])
      expect(results(last)).toHaveLength(2)
      expect(results(last)[0]).toContain('did one')
      expect(results(last)[1]).toContain('did late')
      last.answer('all done')
      await expect.poll(() => again.queue(label)).toEqual([])
      const { items } = await later.ledger.turns({ sessionLabel: label })
      expect(items.map(({ status }) => status)).toEqual(['completed'])
      expect(ran).toHaveLength(1)
    })
  }
}

test('an agent that runs is waited for when the engine closes, and the turn that waits for it ends with its answer', async () => {
  const { server, next: asked } = await askedServer()
  const { broker, engine } = brokerAt(server.url, options([]))
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  ;(await asked()).calls(spawn('lead', 'one'))
  const child = await asked()
  const closed = engine.close()
  child.answer('did one')
  const parent = await asked()
  expect(results(parent)[0]).toContain('did one')
  parent.answer('all done')
  expect((await result).text).toBe('all done')
  await closed
})

test('an agent that cannot begin because the engine closes begins in the next broker, and its answer is the result of the call', async () => {
  const { server, next: asked } = await askedServer()
  const ran: unknown[] = []
  const { broker, engine, file } = brokerAt(server.url, options(ran))
  const runOf = runsOf(broker)
  await broker.send({ to: { session: label }, message: 'go' })
  const first = await asked()
  const { result } = await runOf('main')
  const refused = expect(result).rejects.toMatchObject({ code: 'engine_closed' })
  const closed = engine.close()
  first.calls(spawn('lead', 'one'))
  await closed
  await refused
  await broker.close()
  const { engine: later, broker: again } = next(server.url, file, ran)
  const child = await asked()
  expect(child.texts).toEqual(['one'])
  child.answer('did one')
  const parent = await asked()
  expect(results(parent)).toHaveLength(1)
  expect(results(parent)[0]).toContain('did one')
  parent.answer('all done')
  await expect.poll(() => again.queue(label)).toEqual([])
  const { items } = await later.ledger.turns({ sessionLabel: label })
  expect(items.map(({ status }) => status)).toEqual(['completed'])
})

/** A ledger whose manager waits for a task that waits for one that is parked, and that nobody runs. */
async function left(timeoutMs: number) {
  const { server, next: asked } = await askedServer()
  const ran: unknown[] = []
  const { broker, engine, file } = brokerAt(server.url, options(ran))
  await broker.send({ to: { session: label }, message: 'go' })
  const params = { agent: 'lead', task: 'one', timeoutMs }
  ;(await asked()).calls(['call_one', 'spawn_agent', params])
  ;(await asked()).calls(spawn('coder', 'two'))
  ;(await asked()).calls(pay)
  const { id } = await onlyPending(engine)
  const [{ deadline }] = (
    await engine.ledger.query('SELECT max(deadline) AS deadline FROM dispatches')
  ).rows as [{ deadline: number }]
  await engine.close()
  await broker.close()
  return { asked, ran, id, deadline, begin: () => next(server.url, file, ran) }
}

test('the time of a task stands still while an agent for which it waits is parked, also while nobody runs them', async () => {
  const { asked, id, deadline, begin } = await left(5_000)
  await expect.poll(() => Date.now(), { timeout: 10_000 }).toBeGreaterThan(deadline)
  const { broker } = begin()
  await broker.approve(id)
  const names = ['two', 'one', 'go']
  for (const name of names) {
    const request = await asked()
    expect(request.texts).toEqual([name])
    request.answer(`did ${name}`)
  }
  await expect
    .poll(() => broker.dispatches(label))
    .toMatchObject([{ kind: 'spawn', status: 'ok', text: 'did one' }])
})

test('a parked task that nobody runs ends with the turn that waits for it, and its call is never run', async () => {
  const { asked, ran, id, begin } = await left(60_000)
  const { broker, engine } = begin()
  const [lead] = await broker.dispatches(label)
  await expect.poll(() => broker.state(label)).toBe('running')
  await broker.abort(label)
  await expect.poll(async () => (await engine.approvals({ status: 'pending' })).items).toEqual([])
  await expect(broker.approve(id)).rejects.toMatchObject({ name: 'AgentEngineError' })
  const below = () => broker.dispatches(lead?.sessionLabel ?? '')
  await expect.poll(below).toMatchObject([{ kind: 'spawn', status: 'aborted' }])
  const again = broker.execute({ to: { session: label }, message: 'and then?' })
  ;(await asked()).answer('that is all')
  expect((await again.result).text).toBe('that is all')
  expect(ran).toEqual([])
})
