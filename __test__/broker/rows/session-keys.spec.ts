// The table of session keys, a test for each pattern: the session in which the message of an event runs. It must never make a label itself.
//
// | Pattern         | Label                                        |
// |-----------------|----------------------------------------------|
// | Main session    | `agent:main:main`                            |
// | DM (main scope) | `agent:main:main`                            |
// | DM (per-peer)   | `agent:main:dm:tyler`                        |
// | Group           | `agent:main:telegram:group:123`              |
// | Worker          | `agent:main:worker:uuid`, `worker:<ulid>`    |
// | Platform thread | `agent:main:telegram:group:123:thread:456`   |

import { expect, test } from 'vitest'
import type { BrokerOptions, RoutedEvent } from '../../../index.js'
import { askedServer, brokerAt, echoing } from '../../support/broker.js'

const tyler = { kind: 'dm', id: 'tyler' } as const
const group = { kind: 'group', id: '123' } as const

const rows: [string, RoutedEvent, string, Partial<BrokerOptions>?][] = [
  ['Main session', {}, 'agent:main:main'],
  ['DM (main scope)', { channel: 'telegram', peer: tyler }, 'agent:main:main'],
  [
    'DM (per-peer)',
    { channel: 'telegram', peer: tyler },
    'agent:main:dm:tyler',
    { dmScope: 'per-peer' },
  ],
  ['Group', { channel: 'telegram', peer: group }, 'agent:main:telegram:group:123'],
  [
    'Platform thread',
    { channel: 'telegram', peer: group, threadId: '456' },
    'agent:main:telegram:group:123:thread:456',
  ],
]

test.each(rows)('%s', async (_name, event, label, options = {}) => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url, options)
  const execution = broker.execute({ to: { event }, message: 'Hi' })
  expect((await execution.receipt).sessionLabel).toBe(label)
  const { turnId } = await execution.result
  const session = await engine.ledger.session(label)
  expect([session?.agentId, session?.threadId]).toEqual(['main', turnId])
})

test('Worker: a label of a worker has the lane of workers, and a spawned worker is one', async () => {
  const { server, next } = await askedServer()
  const model = { model: 'test-model', provider: 'test' }
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: { ...model, subagents: {} } },
    lanes: { main: 1, worker: 1 },
  })
  const main = broker.execute({ to: { session: 'agent:main:main' }, message: 'Hi' })
  const asked = await next()
  // The only turn of the main lane runs.
  const worker = broker.execute({ to: { session: 'agent:main:worker:uuid' }, message: 'Work' })
  expect((await worker.receipt).disposition).toBe('started')
  ;(await next()).answer('Done.')
  await worker.result
  asked.calls(['c', 'spawn_agent', { task: 'Work' }])
  ;(await next()).answer('Done.')
  ;(await next()).answer('All is done.')
  const { toolCalls } = await main.result
  const label = toolCalls[0]?.spawnedSessionLabel ?? ''
  expect(label).toMatch(/^worker:[0-9A-Z]{26}$/)
  expect((await engine.ledger.session(label))?.isSubagent).toBe(true)
})
