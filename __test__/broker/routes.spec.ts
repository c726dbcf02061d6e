// Where a broker's messages go: targets, personas, events, smart routes; and what it refuses. It must never need a model.

import { expect, test } from 'vitest'
import { AgentEngine, Broker, type BrokerOptions, scriptedProvider } from '../../index.js'
import { brokerAt, echoing } from '../support/broker.js'
import { closing, folder } from '../support/cleanup.js'
import { refusal } from '../support/ledger/sqlite3.js'

const agents = {
  main: { model: 'test-model', provider: 'test' },
  coder: { model: 'test-model', provider: 'test' },
}

test('a target is a session, a persona, an event or a thread', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url, {
    agents,
    defaultAgent: 'main',
    personas: { atlas: { agentId: 'coder' } },
    bindings: [{ agentId: 'coder', match: { channel: 'telegram' } }],
  })
  expect([
    broker.route({ session: 'agent:coder:main' }),
    broker.route({ persona: 'atlas' }),
    broker.route({ event: { channel: 'telegram', peer: { kind: 'group', id: '7' } } }),
    broker.route({ thread: 't1' }),
  ]).toEqual([
    { sessionLabel: 'agent:coder:main', agentId: 'coder' },
    { sessionLabel: 'agent:atlas:main', agentId: 'coder' },
    { sessionLabel: 'agent:coder:telegram:group:7', agentId: 'coder' },
    { thread: 't1' },
  ])
  const refused = (target: object) => refusal(broker.send({ to: target, message: 'x' }))
  expect(await Promise.all([refused({}), refused({ session: 'a', thread: 'b' })])).toEqual([
    { code: 'invalid_target', field: 'to' },
    { code: 'invalid_target', field: 'to' },
  ])
  expect(await refused({ persona: 'zeus' })).toEqual({
    code: 'invalid_target',
    field: 'to.persona',
  })
  expect(await refused({ thread: 'none' })).toEqual({ code: 'unknown_turn' })
})

test('a smart route is taken where it is sure and there, and the receipt has the reason otherwise', async () => {
  const server = await echoing()
  let answer: unknown
  const { broker } = brokerAt(server.url, {
    agents,
    defaultAgent: 'main',
    smartRoute: (() => {
      if (answer instanceof Error) throw answer
      return answer
    }) as NonNullable<BrokerOptions['smartRoute']>,
  })
  await broker.execute({ to: { session: 'agent:coder:main' }, message: 'Hi' }).result
  const sent = async (given: unknown) => {
    answer = given
    const execution = broker.execute({ to: { session: 'given', smart: true }, message: 'x' })
    const { sessionLabel, smartFallback } = await execution.receipt
    await execution.result
    return [sessionLabel, smartFallback]
  }
  expect([
    await sent({ session: 'agent:coder:main', confidence: 0.9 }),
    await sent({ session: 'agent:coder:main', confidence: 0.4 }),
    await sent({ session: 'nowhere', confidence: 1 }),
    await sent({ confidence: 1 }),
    await sent({ session: 7, confidence: 1 }),
    await sent({ session: 'agent:coder:main', confidence: Number.NaN }),
    await sent('agent:coder:main'),
    await sent(null),
    await sent(new Error('no')),
    // It is left out after two seconds.
    await sent(new Promise(() => {})),
  ]).toEqual([
    ['agent:coder:main', undefined],
    ['given', 'low_confidence'],
    ['given', 'unknown'],
    ['given', 'invalid'],
    ['given', 'invalid'],
    ['given', 'invalid'],
    ['given', 'invalid'],
    ['given', 'no_answer'],
    ['given', 'threw'],
    ['given', 'timeout'],
  ])
})

test('options and requests that are wrong are refused by their paths', async () => {
  const providers = { test: scriptedProvider([]) }
  const engine = closing(new AgentEngine({ ledger: { path: folder().file }, providers }))
  const made = (options: object) => refusal((async () => new Broker(engine, options as never))())
  const wrong = 'invalid_options'
  expect(
    await Promise.all([
      made({}),
      made({ agents: {} }),
      made({ agents, defaultAgent: 'x' }),
      made({ agents: { main: { toolset: 'x' } } }),
      made({ agents, queue: { mode: 'x' } }),
      made({ agents, queue: { cap: 0 } }),
      made({ agents, lanes: { main: -1 } }),
      made({ agents, lane: {} }),
    ]),
  ).toEqual([
    { code: wrong, field: 'agents' },
    { code: wrong, field: 'agents' },
    { code: wrong, field: 'defaultAgent' },
    { code: wrong, field: 'agents.main.toolset' },
    { code: wrong, field: 'queue.mode' },
    { code: wrong, field: 'queue.cap' },
    { code: wrong, field: 'lanes.main' },
    { code: wrong, field: 'lane' },
  ])
  const without = closing(new AgentEngine({ providers }))
  expect(await refusal((async () => new Broker(without, { agents }))())).toEqual({
    code: 'no_ledger',
  })
  const broker = new Broker(engine, { agents })
  const sent = (request: object) => refusal(broker.send(request as never))
  const to = { session: 'main' }
  expect(
    await Promise.all([
      sent({ to, message: '' }),
      sent({ to, message: 'x', mode: 'x' }),
      sent({ to, message: 'x', model: 'y' }),
      sent({ to: { session: 'a\u0000' }, message: 'x' }),
    ]),
  ).toEqual([
    { code: wrong, field: 'message' },
    { code: wrong, field: 'mode' },
    { code: wrong, field: 'model' },
    { code: 'invalid_label', field: 'to.session' },
  ])
  await broker.close()
  expect(await sent({ to, message: 'x' })).toEqual({ code: 'engine_closed' })
})
