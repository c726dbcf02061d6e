// Agents that start other agents and wait for them: results, limits, slots, aborts. It must never wait for a time: the test answers
// each request of the model.

import { expect, test } from 'vitest'
import type { AgentTool, BrokerAgent, BrokerOptions } from '../../../index.js'
import { type Asked, askedServer, brokerAt } from '../../support/broker.js'

const model = { model: 'test-model', provider: 'test' }
const label = 'agent:main:main'

/** A broker whose agent may start agents. */
async function spawning(
  subagents: BrokerAgent['subagents'] = {},
  options: Partial<BrokerOptions> = {},
) {
  const { server, next } = await askedServer()
  const agents = {
    main: { ...model, subagents },
    coder: { ...model, systemPrompt: 'You write code.', subagents },
  }
  const { broker, engine, file } = brokerAt(server.url, {
    agents,
    defaultAgent: 'main',
    ...options,
  })
  return { broker, engine, file, next }
}

test('a spawned agent answers the call, and its session and the call know each other', async () => {
  const { broker, engine, next } = await spawning({ allowAgents: ['coder'] })
  const { result } = broker.execute({ to: { session: label }, message: 'Write it' })
  const parent = await next()
  const tools = parent.seen.body.tools.map(({ name }: { name: string }) => name)
  expect(tools).toEqual([
    'spawn_agent',
    'agent_send',
    'send_message_to_agent',
    'get_agent_status',
    'cancel_agent',
  ])
  parent.calls(['call_1', 'spawn_agent', { agent: 'coder', task: 'Write a test' }])
  const child = await next()
  expect(child.texts).toEqual(['Write a test'])
  expect(JSON.stringify(child.seen.body.system)).toContain('You write code.')
  child.answer('It is written')
  const again = await next()
  expect(JSON.stringify(again.seen.body.messages.at(-1))).toContain('It is written')
  again.answer('Done')
  const { text, turnId, toolCalls } = await result
  expect(text).toBe('Done')
  const [call] = toolCalls
  const spawned = call?.spawnedSessionLabel ?? ''
  expect([call?.status, spawned]).toEqual(['completed', `worker:${call?.callId}`])
  const session = await engine.ledger.session(spawned)
  expect(session).toMatchObject({
    label: spawned,
    agentId: 'coder',
    isSubagent: true,
    origin: 'subagent',
    parentSessionLabel: label,
    parentTurnId: turnId,
    spawnToolCallId: call?.callId,
    taskDescription: 'Write a test',
    taskStatus: 'completed',
  })
  const [dispatch] = await broker.dispatches(label)
  expect(dispatch).toMatchObject({
    id: call?.callId,
    kind: 'spawn',
    status: 'ok',
    text: 'It is written',
    turnId: session?.threadId,
    depth: 1,
  })
  const turn = await engine.ledger.turn(turnId)
  expect(turn?.toolCalls[0]?.spawnedSessionLabel).toBe(spawned)
})

test('an agent that starts with the conversation of its parent reads it up to the running message', async () => {
  const { broker, next } = await spawning()
  const first = broker.execute({ to: { session: label }, message: 'I am Ada' })
  ;(await next()).answer('Hello Ada')
  await first.result
  const second = broker.execute({ to: { session: label }, message: 'Who am I?' })
  ;(await next()).calls(['c', 'spawn_agent', { task: 'Find out', context: 'fork' }])
  const child = await next()
  expect(child.texts).toEqual(['I am Ada', 'Who am I?\n\nFind out'])
  child.answer('Ada')
  ;(await next()).answer('You are Ada')
  expect((await second.result).text).toBe('You are Ada')
})

test('eight workers that each wait for a child of their own do not block each other', async () => {
  const { broker, next } = await spawning({}, { lanes: { main: 1, worker: 8 } })
  const results = Array.from({ length: 8 }, (_, number) => {
    const to = { session: `agent:main:worker:w${number}` }
    return broker.execute({ to, message: `worker ${number}` }).result
  })
  // All children are asked before one of them is answered.
  const children: Asked[] = []
  while (children.length < 8) {
    const asked = await next()
    if (asked.texts[0]?.startsWith('child')) children.push(asked)
    else asked.calls(['c', 'spawn_agent', { task: `child of ${asked.texts[0]}` }])
  }
  for (const child of children) child.answer('done')
  for (let number = 0; number < 8; number++) (await next()).answer('all done')
  const texts = (await Promise.all(results)).map(({ text }) => text)
  expect(texts).toEqual(Array(8).fill('all done'))
})

test('a call over a limit is an error of the tool that names the limit', async () => {
  const { broker, next } = await spawning({ maxDepth: 1, maxChildren: 1, allowModels: ['other'] })
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  ;(await next()).calls(
    ['a', 'spawn_agent', { agent: 'coder', task: 'x' }],
    ['m', 'spawn_agent', { task: 'x', model: 'test-model' }],
    ['1', 'spawn_agent', { task: 'first' }],
    ['2', 'spawn_agent', { task: 'second' }],
  )
  const child = await next()
  child.calls(['d', 'spawn_agent', { task: 'deeper' }])
  const deeper = await next()
  expect(JSON.stringify(deeper.seen.body.messages.at(-1))).toContain('subagents.maxDepth')
  deeper.answer('alone')
  const last = await next()
  const results = last.seen.body.messages.at(-1).content as { is_error?: boolean }[]
  const shown = results.map((it) => JSON.stringify(it))
  expect(shown[0]).toContain('`subagents.allowAgents` allows main, and not coder')
  expect(shown[1]).toContain('`subagents.allowModels` allows other, and not test-model')
  expect(shown.filter((it) => it.includes('alone'))).toHaveLength(1)
  expect(shown.filter((it) => it.includes('`subagents.maxChildren` allows 1'))).toHaveLength(1)
  last.answer('end')
  await result
})

test('an abort of the parent aborts the child and its child', async () => {
  const { broker, engine, next } = await spawning()
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  ;(await next()).calls(['1', 'spawn_agent', { task: 'child' }])
  ;(await next()).calls(['2', 'spawn_agent', { task: 'grandchild' }])
  await next()
  const ended = new Promise<void>((resolve) => {
    let left = 3
    broker.on('queue', ({ items }) => {
      left -= items.filter(({ status }) => status === 'delivered').length
      if (left === 0) resolve()
    })
  })
  await broker.abort(label)
  expect((await result).stopReason).toBe('aborted')
  await ended
  const { rows } = await engine.ledger.query('SELECT status FROM dispatches')
  expect(rows).toEqual([{ status: 'aborted' }, { status: 'aborted' }])
  expect(await engine.recover()).toEqual([])
  expect(broker.state(label)).toBe('idle')
})

test('a child that fails, and one whose time is over, are errors of the call', async () => {
  const { broker, next } = await spawning()
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  ;(await next()).calls(['1', 'spawn_agent', { task: 'a' }])
  ;(await next()).refuse(400, 'no such thing')
  const second = await next()
  expect(JSON.stringify(second.seen.body.messages.at(-1))).toMatch(
    /not finished: error.*no such thing/,
  )
  second.calls(['2', 'spawn_agent', { task: 'b', timeoutMs: 1 }])
  // The child may have sent its request before its time was over.
  const last = ({ seen }: Awaited<ReturnType<typeof next>>) =>
    JSON.stringify(seen.body.messages.at(-1))
  let asked = await next()
  while (last(asked).includes('"text":"b"')) asked = await next()
  expect(last(asked)).toContain('not finished: timeout')
  asked.answer('end')
  expect((await result).text).toBe('end')
})

test('an agent without the options has none of the tools, and wrong options are refused', async () => {
  const { broker, next } = await spawning(undefined as never)
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  const asked = await next()
  asked.answer('ok')
  await result
  const { server } = await askedServer()
  const wrong = (subagents: unknown) => () =>
    brokerAt(server.url, { agents: { main: { ...model, subagents } as never } })
  expect(wrong({ maxDepth: 0 })).toThrow('`agents.main.subagents.maxDepth`: is not a whole number')
  expect(wrong({ allowAgents: ['x'] })).toThrow(
    '`agents.main.subagents.allowAgents[0]`: is not one of main',
  )
  expect(wrong({ depth: 1 })).toThrow('`agents.main.subagents.depth`: is not an option')
})

test('the time of a parent stands still while an agent below it waits for an approval', {
  timeout: 120_000,
}, async () => {
  const { server, next } = await askedServer()
  const timeoutMs = 15_000
  const subagents = {}
  const remove = { name: 'remove', description: 'Removes.', permission: 'ask', run: () => 'gone' }
  const { broker, engine } = brokerAt(server.url, {
    agents: {
      main: { ...model, timeoutMs, subagents, toolset: 'house' },
      slow: { ...model, timeoutMs },
    },
    defaultAgent: 'main',
    toolsets: { house: [remove as AgentTool] },
  })
  const asked = new Promise<string>((resolve) => {
    broker.on('run', ({ run }) => {
      run.stream.onEvent((event) => {
        if (event.type === 'approval') resolve(event.approvalId)
      })
    })
  })
  const { result } = broker.execute({ to: { session: label }, message: 'go' })
  ;(await next()).calls(['1', 'spawn_agent', { task: 'child' }])
  ;(await next()).calls(['2', 'spawn_agent', { task: 'grandchild' }])
  ;(await next()).calls(['3', 'remove', {}])
  const id = await asked
  // A run with as much time, begun now, is over when the parent would be.
  const context = await broker.assembleContext({
    to: { session: 'agent:slow:main' },
    message: 'wait',
  })
  const slow = broker.runAgent(context)
  expect((await slow.result).stopReason).toBe('timeout')
  expect(broker.state(label)).not.toBe('idle')
  await engine.approve(id)
  await next()
  const grandchild = await next()
  grandchild.answer('removed')
  ;(await next()).answer('done')
  ;(await next()).answer('end')
  const { stopReason, text } = await result
  expect([stopReason, text]).toEqual(['end_turn', 'end'])
})
