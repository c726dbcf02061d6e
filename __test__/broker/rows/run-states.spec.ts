// The states of a session, a test for each row: as `state()` has them at a moment, and as the event `session` emits them. It must never wait
// for a time.
//
// | State        | Meaning                    |
// |--------------|----------------------------|
// | `idle`       | no turn                    |
// | `running`    | a turn is in progress      |
// | `streaming`  | it answers                 |
// | `compacting` | its context is compacted   |

import { expect, test } from 'vitest'
import { Broker, type BrokerEvents } from '../../../index.js'
import { askedServer, brokerAt, echoing } from '../../support/broker.js'
import { afterwards, closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { waitingTool } from '../../support/tools.js'
import { SUMMARY } from '../../support/values/summary.js'

const label = 'agent:main:main'
const to = { session: label }
const agents = { main: { model: 'test-model', provider: 'test', toolset: 'house' } }

type SessionEvent = BrokerEvents['session']

/** A broker over a script, and a wait for the next event with a state. */
function scripted(replies: Parameters<typeof scriptedEngine>[0], tools: unknown[] = []) {
  const { engine, provider } = scriptedEngine(replies, { ledger: { path: folder().file } })
  closing(engine)
  const broker = new Broker(engine, { agents, toolsets: { house: tools as never } })
  afterwards(() => broker.close({ drainMs: 0 }))
  const states: string[] = []
  const waits: [string, () => void][] = []
  broker.on('session', ({ state }: SessionEvent) => {
    states.push(state)
    for (const [wanted, resolve] of waits) if (wanted === state) resolve()
  })
  const reaches = (state: SessionEvent['state']) =>
    new Promise<void>((resolve) => waits.push([state, resolve]))
  return { broker, provider, states, reaches }
}

test('idle: before the first turn, and after each', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const before = broker.state(label)
  const idle = new Promise<void>((resolve) => {
    broker.on('session', ({ state }) => state === 'idle' && resolve())
  })
  await broker.execute({ to, message: 'Hi' }).result
  await idle
  expect([before, broker.state(label), broker.state('unknown')]).toEqual(['idle', 'idle', 'idle'])
})

test('running, streaming: a tool runs, then the answer comes', async () => {
  const { wait, begun, finish } = waitingTool()
  const call = { toolCalls: [{ name: 'wait', arguments: {} }] }
  const { broker, provider, states, reaches } = scripted(
    [call, { steps: [{ text: 'It ' }, { gate: 'end' }, { text: 'is.' }] }],
    [wait],
  )
  const streams = reaches('streaming')
  const { result } = broker.execute({ to, message: 'Hi' })
  await begun
  expect(broker.state(label)).toBe('running')
  finish()
  await streams
  expect(broker.state(label)).toBe('streaming')
  const idle = reaches('idle')
  provider.open('end')
  await result
  await idle
  expect([states[0], states.at(-1), states.includes('streaming')]).toEqual([
    'running',
    'idle',
    true,
  ])
})

test('a listener that comes while a turn runs has its states from then on, and finds the session idle at its end', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const { result } = broker.execute({ to, message: 'Hi' })
  const asked = await next()
  const states: string[] = []
  const ended = new Promise<string>((resolve) => {
    const leave = broker.on('session', ({ sessionLabel, state }) => {
      states.push(`${sessionLabel} ${state}`)
      if (state !== 'idle') return
      leave()
      resolve(broker.state(label))
    })
  })
  asked.answer('Hi.')
  expect((await result).text).toBe('Hi.')
  expect(await ended).toBe('idle')
  expect([states[0], states.at(-1)]).toEqual([`${label} running`, `${label} idle`])
})

test('a listener that comes while a turn runs has what the turn has used, and one that leaves has nothing', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const { result } = broker.execute({ to, message: 'Hi' })
  const asked = await next()
  let heard = 0
  broker.on('usage', () => heard++)()
  const used = new Promise<BrokerEvents['usage']>((resolve) => {
    broker.on('usage', resolve)
    broker.on('usage', () => heard++)
  })
  asked.answer('Hi.')
  const { turnId, usage, cost } = await result
  expect(await used).toEqual({
    ...{ sessionLabel: label, agentId: 'main', turnId },
    ...{ usage, cost: cost ?? null },
  })
  expect(heard).toBe(1)
})

test('a context that runs past the queue has the states, the usage and the run of a turn', async () => {
  const { wait, begun, finish } = waitingTool()
  const call = { toolCalls: [{ name: 'wait', arguments: {} }] }
  const { broker, provider, states, reaches } = scripted(
    [call, { steps: [{ text: 'It ' }, { gate: 'end' }, { text: 'is.' }] }, 'Again.'],
    [wait],
  )
  const runs: unknown[] = []
  broker.on('run', ({ run, ...about }) => runs.push({ runId: run.id, ...about }))
  const used: BrokerEvents['usage'][] = []
  broker.on('usage', (event) => used.push(event))
  const streams = reaches('streaming')
  const { result } = broker.runAgent(await broker.assembleContext({ to, message: 'Hi' }))
  await begun
  expect(broker.state(label)).toBe('running')
  finish()
  await streams
  expect(broker.state(label)).toBe('streaming')
  const idle = reaches('idle')
  provider.open('end')
  const { runId, turnId, usage, cost } = await result
  await idle
  expect(broker.state(label)).toBe('idle')
  expect([states[0], states.at(-1), states.includes('streaming')]).toEqual([
    'running',
    'idle',
    true,
  ])
  const about = { sessionLabel: label, agentId: 'main', turnId }
  expect(runs).toEqual([{ ...about, runId, itemIds: [] }])
  expect(used).toEqual([{ ...about, usage, cost: cost ?? null }])
  // In a session of another agent than the context's.
  const assembled = await broker.assembleContext({ to, message: 'Hi' })
  const other = broker.startBrokerExecution(assembled, { sessionKey: 'agent:main:other' })
  expect((await other.result).text).toBe('Again.')
  expect(runs[1]).toMatchObject({ sessionLabel: 'agent:main:other', agentId: 'main' })
  await broker.close()
  expect(() => broker.runAgent(assembled)).toThrow(
    expect.objectContaining({ code: 'engine_closed' }),
  )
})

test('a context that runs past the queue waits for the turn of its session', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const runs: string[] = []
  broker.on('run', ({ run }) => runs.push(run.id))
  const first = broker.execute({ to, message: 'one' })
  const asked = await next()
  const waiting = broker.runAgent(await broker.assembleContext({ to, message: 'two' }))
  expect(runs).toEqual([first.runId])
  asked.answer('One.')
  expect((await first.result).text).toBe('One.')
  ;(await next()).answer('Two.')
  const { runId } = await waiting.result
  expect(runs).toEqual([first.runId, runId])
})

test('compacting: while the history is summarised', async () => {
  const overflow = {
    error: { kind: 'context_overflow', message: 'prompt is too long' },
  } as const
  const long = 'word '.repeat(2_000)
  const { broker, provider, states, reaches } = scripted([
    ...Array.from({ length: 6 }, () => ({ text: long })),
    overflow,
    { steps: [{ gate: 'summary' }, { text: SUMMARY }] },
    { text: 'Done.' },
  ])
  for (let number = 0; number < 6; number++) {
    await broker.execute({ to, message: `${number} ${long}` }).result
  }
  const compacts = reaches('compacting')
  const { result } = broker.execute({ to, message: 'and now?' })
  await compacts
  expect(broker.state(label)).toBe('compacting')
  provider.open('summary')
  expect((await result).text).toBe('Done.')
  expect(states).toContain('compacting')
})
