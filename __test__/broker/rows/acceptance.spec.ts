// The acceptance criteria of an agent's execution, a test for each, through a broker. It must never test a part alone: those have specs of
// their own.
//
// | Criterion                                               | Test                                                    |
// |---------------------------------------------------------|---------------------------------------------------------|
// | Agent runs with streaming text output                   | "streaming: …"                                          |
// | Tool calls are executed and results returned            | "tools: …"                                              |
// | Model failover switches to the fallback on errors       | "failover: …"                                           |
// | Session compaction manages the size of the context      | `run-states.spec.ts`, "compacting …"                    |
// | The system prompt has all of its context                | "system prompt: …"                                      |
// | Transcript repair handles all provider formats          | "transcript repair: …"                                  |
// | Subagents respect depth limits                          | `../agents/spawn.spec.ts`, "a call over a limit …"      |
// | An abort stops execution promptly                       | "abort: …"                                              |
// | Usage tracking reports accurate token counts            | "usage: …"                                              |
// | The full execution cycle                                | "full cycle: …"                                         |
// | Stress tests verify concurrent agents                   | `../queue.spec.ts`, "two hundred sessions …"            |

import { expect, test } from 'vitest'
import { Broker, type BrokerEvents, type StreamEvent } from '../../../index.js'
import { askedServer, brokerAt } from '../../support/broker.js'
import { afterwards, closing, folder, serving } from '../../support/cleanup.js'
import { engineAt, scriptedEngine, textOf } from '../../support/engine.js'
import { wireApis } from '../../support/servers/wire-apis.js'
import { waitingTool } from '../../support/tools.js'

const label = 'agent:main:main'
const to = { session: label }
const model = { model: 'test-model', provider: 'test' }

/** A broker over a script. */
function scripted(
  replies: Parameters<typeof scriptedEngine>[0],
  options: Partial<ConstructorParameters<typeof Broker>[1]> = {},
) {
  const { engine, provider } = scriptedEngine(replies, { ledger: { path: folder().file } })
  closing(engine)
  const broker = new Broker(engine, { agents: { main: model }, ...options })
  afterwards(() => broker.close({ drainMs: 0 }))
  return { broker, engine, provider }
}

test('streaming: the text comes piece by piece while the turn runs, in order, and then its end', async () => {
  const { broker, provider } = scripted([
    { steps: [{ text: 'One, ' }, { gate: 'more' }, { text: 'two.' }] },
  ])
  const { stream, result } = broker.execute({ to, message: 'Count' })
  const events: StreamEvent[] = []
  await new Promise<void>((resolve) => {
    stream.onEvent((event) => {
      events.push(event)
      if (event.type === 'token') resolve()
    })
  })
  expect([textOf(events), stream.isStreaming()]).toEqual(['One, ', true])
  provider.open('more')
  expect((await result).text).toBe('One, two.')
  expect(textOf(events)).toBe('One, two.')
  expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
})

test('streaming: who follows a message has the first event of its turn, however many turns begin at once', async () => {
  const count = 24
  const { broker } = scripted(Array(count).fill('Hi.'), { lanes: { main: count } })
  const followed = Array.from({ length: count }, (_, at) => {
    const events: StreamEvent[] = []
    const { stream, result } = broker.execute({
      to: { session: `agent:main:dm:u${at}` },
      message: 'Hi',
    })
    stream.onEvent((event) => events.push(event))
    return { events, result }
  })
  for (const { events, result } of followed) {
    expect((await result).text).toBe('Hi.')
    expect([events[0]?.type, textOf(events), events.at(-1)?.type]).toEqual([
      'stream_start',
      'Hi.',
      'stream_end',
    ])
  }
})

test('tools: each call is run with its arguments, and the model reads each result', async () => {
  const ran: unknown[] = []
  const add = {
    name: 'add',
    run: ({ a, b }: { a: number; b: number }) => {
      ran.push([a, b])
      return String(a + b)
    },
  }
  const call = (a: number, b: number) => ({ name: 'add', arguments: { a, b } })
  const { broker, provider } = scripted(
    [{ toolCalls: [call(1, 2), call(3, 4)] }, { text: 'Three and seven.' }],
    { agents: { main: { ...model, toolset: 'math' } }, toolsets: { math: [add as never] } },
  )
  const { toolCalls, text } = await broker.execute({ to, message: 'Add' }).result
  expect(ran).toEqual([
    [1, 2],
    [3, 4],
  ])
  expect(toolCalls.map(({ status, result }) => [status, result])).toEqual([
    ['completed', '3'],
    ['completed', '7'],
  ])
  expect(JSON.stringify(provider.requests[1]?.messages)).toMatch(/"3".*"7"/)
  expect(text).toBe('Three and seven.')
})

test('failover: a model that fails is replaced by the next of the agent, and the message is answered once', async () => {
  const { server, next } = await askedServer()
  const spare = { provider: 'test', id: 'spare', contextWindow: 200_000, maxOutputTokens: 8_192 }
  const { broker, engine } = brokerAt(
    server.url,
    { agents: { main: { ...model, fallbacks: [{ provider: 'test', model: 'spare' }] } } },
    { models: [{ ...spare, id: 'test-model' }, spare] },
  )
  const { result } = broker.execute({ to, message: 'Hi' })
  ;(await next()).refuse(404, 'model: test-model')
  const asked = await next()
  expect(asked.seen.body.model).toBe('spare')
  asked.answer('Hello')
  const { turnId, text } = await result
  const turn = await engine.ledger.turn(turnId)
  expect([text, turn?.model, turn?.attempts.map(({ model: id, ok }) => [id, ok])]).toEqual([
    'Hello',
    'spare',
    [
      ['test-model', false],
      ['spare', true],
    ],
  ])
})

test('system prompt: identity, tools, memory and channel are where they belong', async () => {
  const { broker, provider } = scripted([{ text: 'ok' }], {
    agents: { main: { ...model, identity: 'You are Atlas.', toolset: 'house' } },
    toolsets: { house: [{ name: 'lamp', description: 'Turns it on.', run: () => 'on' }] },
    context: {
      layers: async (layers) => [
        ...layers,
        { name: 'cortex', source: 'memory', text: 'Ann likes tea.' },
      ],
    },
  })
  const event = { channel: 'telegram', from: 'ann' }
  await broker.execute({ to, message: 'Hi', event }).result
  const [{ system, messages }] = provider.requests as never as [
    { system: string; messages: unknown },
  ]
  expect(system).toMatch(/^You are Atlas\.[\s\S]*- lamp: Turns it on\./)
  expect(JSON.stringify(messages)).toMatch(/Ann likes tea\..*channel.*telegram.*Hi/)
})

test('transcript repair: a turn that was cut in a call is read by every provider', async () => {
  for (const { api, answer, provider } of wireApis) {
    const server = await serving(answer('fine'))
    const { file } = folder()
    const first = closing(
      scriptedEngine([{ toolCalls: [{ name: 'wait', arguments: {} }] }], { ledger: { path: file } })
        .engine,
    )
    const { wait, begun } = waitingTool()
    const options = {
      agents: { main: { ...model, toolset: 'house' } },
      toolsets: { house: [wait] },
    }
    const broker = new Broker(first, options)
    const cut = broker.execute({ to, message: 'one' })
    await begun
    await broker.abort(label)
    expect((await cut.result).stopReason).toBe('aborted')
    await broker.close()
    await first.close()
    const engine = closing(engineAt(server.url, { ledger: { path: file } }, { api, ...provider }))
    const later = new Broker(engine, options)
    afterwards(() => later.close({ drainMs: 0 }))
    const { text, stopReason } = await later.execute({ to, message: 'two' }).result
    expect([api, stopReason, text]).toEqual([api, 'end_turn', 'fine'])
  }
})

test('abort: a turn whose tool never ends is over, and the next message runs', async () => {
  const { wait, begun } = waitingTool()
  const { broker } = scripted(
    [{ toolCalls: [{ name: 'wait', arguments: {} }] }, { text: 'Here I am.' }],
    { agents: { main: { ...model, toolset: 'house' } }, toolsets: { house: [wait] } },
  )
  const { result } = broker.execute({ to, message: 'Wait' })
  await begun
  await broker.abort(label)
  const { stopReason, toolCalls } = await result
  expect([stopReason, toolCalls.map(({ status }) => status)]).toEqual(['aborted', ['failed']])
  expect((await broker.execute({ to, message: 'There?' }).result).text).toBe('Here I am.')
})

test('usage: the events, the results and the sums of sessions and agents are the same numbers', async () => {
  const usage = (input: number, output: number) => ({
    text: 'ok',
    usage: { inputTokens: input, outputTokens: output },
  })
  const { broker, engine } = scripted([usage(100, 10), usage(200, 20), usage(300, 30)], {
    agents: { main: model, coder: model },
    defaultAgent: 'main',
  })
  const emitted: BrokerEvents['usage'][] = []
  broker.on('usage', (event) => emitted.push(event))
  const sessions = ['agent:main:main', 'agent:coder:main', 'agent:main:main']
  const totals: number[] = []
  for (const session of sessions) {
    totals.push((await broker.execute({ to: { session }, message: 'Hi' }).result).usage.totalTokens)
  }
  await new Promise((resolve) => setImmediate(resolve))
  expect(emitted.map(({ agentId, usage: { totalTokens } }) => [agentId, totalTokens])).toEqual([
    ['main', totals[0]],
    ['coder', totals[1]],
    ['main', totals[2]],
  ])
  const sums = async (by: 'session' | 'agent') => {
    const { items } = await engine.ledger.usage({ by })
    return Object.fromEntries(items.map(({ key, usage: { totalTokens } }) => [key, totalTokens]))
  }
  const [one = 0, two = 0, three = 0] = totals
  expect(await sums('session')).toEqual({ 'agent:main:main': one + three, 'agent:coder:main': two })
  expect(await sums('agent')).toEqual({ main: one + three, coder: two })
})

test('full cycle: message, context, tool, approval, worker, answer, delivery, and what is in the ledger', async () => {
  const pay = { name: 'pay', permission: 'ask' as const, run: () => 'paid' }
  const { broker, engine } = scripted(
    [
      { toolCalls: [{ name: 'spawn_agent', arguments: { agent: 'coder', task: 'Check it.' } }] },
      { text: 'It is right.' },
      { toolCalls: [{ name: 'pay', arguments: {} }] },
      { text: 'It is paid.' },
    ],
    {
      agents: {
        main: {
          ...model,
          identity: 'You are Atlas.',
          toolset: 'house',
          subagents: { allowAgents: ['coder'] },
        },
        coder: { ...model, systemPrompt: 'You check.' },
      },
      defaultAgent: 'main',
      toolsets: { house: [pay] },
    },
  )
  broker.on('approval', ({ phase, approval }) => {
    if (phase === 'requested') void broker.approve(approval.id, { by: 'desk' })
  })
  const delivered = new Promise<unknown[]>((resolve) => {
    broker.on('delivery', ({ target, text, status }) => resolve([target, text, status]))
  })
  const execution = broker.execute({
    to,
    message: 'Pay the bill.',
    event: { from: 'ann' },
    target: { chat: 7 },
    outbox: true,
  })
  const { text, toolCalls, turnId } = await execution.result
  expect([text, toolCalls.map(({ toolName, status }) => [toolName, status])]).toEqual([
    'It is paid.',
    [
      ['spawn_agent', 'completed'],
      ['pay', 'completed'],
    ],
  ])
  expect(await delivered).toEqual([{ chat: 7 }, 'It is paid.', 'completed'])
  const turn = await engine.ledger.turn(turnId)
  expect(turn?.permissionsUsed).toMatchObject([{ tool: 'pay', decidedBy: 'desk' }])
  expect((await engine.ledger.session(label))?.threadId).toBe(turnId)
  expect((await engine.ledger.verify()).problems).toEqual([])
})
