// Slots of lanes that a session was chosen for and cannot use: another one has them. It must never wait for a time: the test answers each
// request of the model.

import { expect, test } from 'vitest'
import { Broker } from '../../../index.js'
import { askedServer, brokerAt } from '../../support/broker.js'
import { afterwards, folder } from '../../support/cleanup.js'
import { engineAt } from '../../support/engine.js'
import { leaseEnds } from '../../support/ledger/named.js'
import { killable } from '../../support/processes/killable.js'

const label = 'agent:main:main'
const model = { model: 'test-model', provider: 'test' }

test('while a broker closes, the slot of a worker is that of the agent for which a turn waits', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url, {
    agents: {
      main: { ...model, subagents: { allowAgents: ['coder'] } },
      coder: { ...model, systemPrompt: 'worker' },
    },
    defaultAgent: 'main',
    lanes: { worker: 1 },
  })
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  const task = (content: string) => ({ op: 'dispatch', target: 'coder', content })
  ;(await next()).calls(['c1', 'agent_send', task('one')])
  const [left, right] = [await next(), await next()]
  const [worker, parent] = left.texts[0] === 'one' ? [left, right] : [right, left]
  // It waits for the only slot, and the agent that the parent waits for is behind it.
  parent.calls(['c2', 'agent_send', task('two')])
  ;(await next()).calls(['c3', 'spawn_agent', { agent: 'coder', task: 'three' }])
  await expect.poll(async () => (await broker.dispatches(label)).length).toBe(3)
  const closed = broker.close()
  worker.answer('first')
  const child = await next()
  expect(child.texts).toEqual(['three'])
  child.answer('third')
  const again = await next()
  expect(JSON.stringify(again.seen.body.messages.at(-1))).toContain('third')
  again.answer('Done')
  expect((await result).text).toBe('Done')
  await closed
})

test('a session whose interrupted turn the host resumes itself leaves its slot to another one', async () => {
  const { server, next } = await askedServer()
  const { file } = folder()
  const engine = engineAt(server.url, { ledger: { path: file } })
  const broker = new Broker(engine, {
    agents: { main: model },
    lanes: { main: 1 },
    queue: { pulseMs: 20 },
  })
  afterwards(async () => {
    await broker.close({ drainMs: 0 })
    await engine.close()
  })
  const held = broker.execute({ to: { session: 'held' }, message: 'hold' })
  const holding = await next()
  const other = killable('broker/sender.mjs', [file, server.url, 'a', '1', 'stay'])
  afterwards(() => other.kill())
  expect((await next()).texts).toEqual(['<a-0>'])
  other.kill()
  await other.ended
  leaseEnds(file, 'main')
  // Its step finds the interrupted turn, which waits for the only slot; another session waits behind it.
  const followed = broker.execute({ to: { session: 'main' }, message: 'and then?' })
  expect((await followed.receipt).disposition).toBe('queued')
  const behind = broker.execute({ to: { session: 'behind' }, message: 'b' })
  expect((await behind.receipt).disposition).toBe('queued')
  // On a server as soon as the lease of the killed process has expired.
  await expect.poll(async () => (await engine.recover()).length).toBe(1)
  const [interrupted] = await engine.recover()
  const resumed = await engine.resume(interrupted?.turnId ?? '')
  const again = await next()
  expect(again.texts).toEqual(['<a-0>'])
  holding.answer('held')
  expect((await held.result).text).toBe('held')
  const asked = await next()
  expect(asked.texts).toEqual(['b'])
  asked.answer('to b')
  expect((await behind.result).text).toBe('to b')
  again.answer('late')
  expect((await resumed.result).text).toBe('late')
  const last = await next()
  expect(last.texts).toEqual(['<a-0>', 'and then?'])
  last.answer('That was it')
  expect((await followed.result).text).toBe('That was it')
})
