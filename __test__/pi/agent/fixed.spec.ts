// What pi's agent gets wrong and ours does not: calls of a cut answer, runs that never settle, tools that start after an abort. It must never wait for a
// time that a test asserts.

import { expect, test } from 'vitest'
import { Agent, agentLoop, agentLoopContinue } from '../../../pi-agent.js'
import { createAssistantMessageEventStream } from '../../../pi-ai.js'
import { calls, model, playing, text, toolOf, user } from './script.js'

const both = ['0.54', '0.73'] as const
const convertToLlm = (messages: any[]) => messages

function agentOf(options: any, tools: any[] = []) {
  const agent = new Agent({ initialState: { model, tools }, ...options })
  const types: string[] = []
  agent.subscribe((event) => void types.push(event.type))
  return { agent, types }
}

const last = (agent: Agent) => agent.state.messages.at(-1)

test.each(both)(
  'calls of an answer that was cut at its length are not run (%s)',
  async (semantics) => {
    const ran: string[] = []
    const { streamFn } = playing({ ...calls('a'), stopReason: 'length' }, text('Shorter.'))
    const { agent } = agentOf({ streamFn, semantics }, [toolOf('a', () => void ran.push('a'))])
    await agent.prompt('hi')
    expect(ran).toEqual([])
    expect(agent.state.messages[2]).toMatchObject({
      role: 'toolResult',
      toolCallId: 'id-a',
      isError: true,
      content: [{ text: expect.stringContaining('cut at its length') }],
    })
    expect(last(agent)).toMatchObject({ content: [{ text: 'Shorter.' }] })
  },
)

const throwing = () => {
  throw new Error('it broke')
}

test.each(
  both.flatMap((semantics) =>
    ['streamFn', 'transformContext', 'convertToLlm', 'getApiKey'].map(
      (name) => [semantics, name] as const,
    ),
  ),
)('a throw is a message, and the prompt settles (%s, %s)', async (semantics, name) => {
  const { streamFn } = playing(text('Hello.'))
  const { agent, types } = agentOf({ streamFn, semantics, [name]: throwing })
  await agent.prompt('hi')
  await agent.waitForIdle()
  expect(last(agent)).toMatchObject({ stopReason: 'error', errorMessage: 'it broke' })
  expect([agent.state.error, agent.state.errorMessage]).toEqual(['it broke', 'it broke'])
  expect([agent.state.isStreaming, types.at(-1)]).toEqual([false, 'agent_end'])
  // It can be used again.
  Object.assign(agent, { streamFn: playing(text('Now.')).streamFn, [name]: undefined })
  if (name === 'convertToLlm') agent.convertToLlm = convertToLlm
  if (name === 'streamFn') agent.streamFn = playing(text('Now.')).streamFn
  await agent.prompt('again')
  expect(last(agent)).toMatchObject({ content: [{ text: 'Now.' }] })
})

test.each(both)('after an abort no tool starts, and no model is called (%s)', async (semantics) => {
  const ran: string[] = []
  const { streamFn, seen } = playing(calls('a', 'b'), text('never'))
  const { agent, types } = agentOf({ streamFn, semantics, toolExecution: 'sequential' }, [
    toolOf('a', () => {
      ran.push('a')
      agent.abort()
      throw new Error('stopped')
    }),
    toolOf('b', () => void ran.push('b')),
  ])
  await agent.prompt('hi')
  expect(ran).toEqual(['a'])
  expect(seen).toHaveLength(1)
  const results = agent.state.messages.filter(({ role }) => role === 'toolResult')
  expect(results.map(({ toolCallId, isError }) => [toolCallId, isError])).toEqual([
    ['id-a', true],
    ['id-b', true],
  ])
  expect(last(agent)).toMatchObject({ role: 'assistant', stopReason: 'aborted' })
  expect(types.slice(-3)).toEqual(['message_end', 'turn_end', 'agent_end'])
})

test.each(both)('a tool that ignores its signal does not hold the run (%s)', async (semantics) => {
  const { streamFn } = playing(calls('a'))
  const { agent } = agentOf({ streamFn, semantics, abortGraceMs: 1 }, [
    toolOf('a', () => {
      agent.abort()
      return new Promise(() => {})
    }),
  ])
  await agent.prompt('hi')
  expect(agent.state.messages[2]).toMatchObject({ role: 'toolResult', isError: true })
  expect(last(agent)).toMatchObject({ stopReason: 'aborted' })
})

test('a tool has a limit of time, where one is set', async () => {
  const { streamFn } = playing(calls('a'), text('Done.'))
  const { agent } = agentOf({ streamFn, toolTimeoutMs: 1 }, [
    toolOf('a', () => new Promise(() => {})),
  ])
  await agent.prompt('hi')
  expect(agent.state.messages[2]).toMatchObject({
    isError: true,
    content: [{ text: 'The tool took longer than 1 ms.' }],
  })
})

test('at most eight tools run at the same time, or as many as are allowed', async () => {
  for (const [limit, most] of [
    [undefined, 8],
    [2, 2],
  ]) {
    let running = 0
    let peak = 0
    const tool = toolOf('a', async () => {
      peak = Math.max(peak, ++running)
      await new Promise((resolve) => setImmediate(resolve))
      running--
    })
    const names = Array.from({ length: 20 }, (_, at) => `a:${at}`)
    const { streamFn } = playing(calls(...names), text('Done.'))
    const { agent } = agentOf({ streamFn, semantics: '0.73', maxParallelTools: limit }, [tool])
    await agent.prompt('hi')
    expect(peak).toBe(most)
    const results = agent.state.messages.filter(({ role }) => role === 'toolResult')
    expect(results.map(({ toolCallId }) => toolCallId)).toEqual(names.map((name) => name.slice(2)))
  }
})

test.each(both)('a stream that ends without a result is a message (%s)', async (semantics) => {
  const streamFn = () => {
    const stream = createAssistantMessageEventStream()
    stream.end()
    return stream
  }
  const { agent } = agentOf({ streamFn, semantics })
  await agent.prompt('hi')
  expect(last(agent)).toMatchObject({
    stopReason: 'error',
    errorMessage: 'The stream ended without a result',
  })
})

test.each(both)('a stream that ignores the abort does not hold the run (%s)', async (semantics) => {
  const streamFn = () => {
    const stream = createAssistantMessageEventStream()
    queueMicrotask(() => agent.abort())
    return stream
  }
  const { agent } = agentOf({ streamFn, semantics, abortGraceMs: 1 })
  await agent.prompt('hi')
  expect(last(agent)).toMatchObject({ stopReason: 'aborted' })
})

test.each(both)(
  'a subscriber that throws ends the run, and what it had begun (%s)',
  async (semantics) => {
    const { streamFn } = playing(calls('a'), text('never'))
    const signals: (AbortSignal | undefined)[] = []
    const tool = toolOf('a', (_id, _args, signal) => void signals.push(signal))
    const { agent } = agentOf({ streamFn, semantics }, [tool])
    let thrown = 0
    agent.subscribe((event) => {
      if (event.type === 'tool_execution_end' && thrown++ === 0) throw new Error('my fault')
    })
    await agent.prompt('hi')
    expect(agent.state.error).toBe('my fault')
    expect(signals.map((signal) => signal?.aborted)).toEqual([true])
    expect(last(agent)).toMatchObject({ stopReason: 'error', errorMessage: 'my fault' })
  },
)

test('`streamFn` is read at each run, and may be wrapped', async () => {
  const first = playing(text('One.'))
  const second = playing(text('Two.'))
  const { agent } = agentOf({ streamFn: first.streamFn, sessionId: 's-1' })
  await agent.prompt('hi')
  const inner = second.streamFn
  agent.streamFn = (at, context, options) =>
    inner(
      at,
      { ...context, messages: context.messages.slice(-1) },
      { ...options, headers: { x: '1' } },
    )
  agent.setThinkingLevel('low')
  await agent.prompt('again')
  expect(second.seen[0]?.roles).toEqual(['user'])
  expect(second.seen[0]?.options).toMatchObject({
    sessionId: 's-1',
    reasoning: 'low',
    headers: { x: '1' },
  })
})

test.each(both)('objects of the host stay the same objects (%s)', async (semantics) => {
  const details = { keep: () => 'a function', at: new Map([[1, 2]]) }
  const made = { content: [{ type: 'text', text: 'r' }], details }
  const note = { role: 'note', of: new Date(0) }
  const asked = user('hi')
  const { streamFn } = playing(calls('a'), text('Done.'))
  const { agent } = agentOf({ streamFn, semantics }, [toolOf('a', () => made)])
  const ended: any[] = []
  agent.subscribe((event) => {
    if (event.type === 'tool_execution_end') ended.push(event.result)
  })
  await agent.prompt([note, asked])
  const { messages } = agent.state
  expect(messages[0]).toBe(note)
  expect(messages[1]).toBe(asked)
  expect(ended[0]).toBe(made)
  expect(messages[3].details).toBe(details)
})

test('the state has both names of a value, and an agent both ways to set one', async () => {
  const { streamFn } = playing({ ...text('Hel'), stopReason: 'error', errorMessage: 'broke' })
  const { agent } = agentOf({ streamFn })
  const during: unknown[] = []
  agent.subscribe((event) => {
    const { streamMessage, streamingMessage } = agent.state
    if (event.type === 'message_update') during.push(streamMessage === streamingMessage)
  })
  agent.setSystemPrompt('One.')
  agent.state.systemPrompt += ' Two.'
  agent.setSteeringMode('all')
  agent.followUpMode = 'all'
  await agent.prompt('hi')
  const { error, errorMessage, streamMessage, streamingMessage, systemPrompt } = agent.state
  expect(during.length).toBeGreaterThan(0)
  expect(new Set(during)).toEqual(new Set([true]))
  expect({ error, errorMessage, streamMessage, streamingMessage, systemPrompt }).toEqual({
    error: 'broke',
    errorMessage: 'broke',
    streamMessage: null,
    streamingMessage: undefined,
    systemPrompt: 'One. Two.',
  })
  expect([agent.steeringMode, agent.getFollowUpMode()]).toEqual(['all', 'all'])
  const list = [user('a')]
  agent.replaceMessages(list)
  agent.appendMessage(user('b'))
  expect([agent.state.messages.length, list.length]).toEqual([2, 1])
  agent.reset()
  expect([agent.state.messages, agent.state.errorMessage]).toEqual([[], undefined])
})

test('the loops have their results, and refuse what cannot continue', async () => {
  const { streamFn } = playing(calls('a'), text('Done.'))
  const context = { systemPrompt: '', messages: [user('before')], tools: [toolOf('a')] }
  const config = { model, convertToLlm }
  const loop = agentLoop([user('hi')], context, config, undefined, streamFn)
  const roles = (await loop.result()).map(({ role }: any) => role)
  expect(roles).toEqual(['user', 'assistant', 'toolResult', 'assistant'])
  expect(context.messages).toHaveLength(1)
  const empty = { ...context, messages: [] }
  expect(() => agentLoopContinue(empty, config)).toThrow('Cannot continue: no messages in context')
  const next = agentLoopContinue(context, config, undefined, playing(text('More.')).streamFn)
  expect((await next.result()).map(({ role }: any) => role)).toEqual(['assistant'])
})
