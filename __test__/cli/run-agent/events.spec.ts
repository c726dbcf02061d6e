// What `onEvent` of `runAgent` receives: pi's events of each answer, and what happens between answers. It must never know the engine's own
// events.

import type { AssistantMessageEvent as PiEvent } from '@mariozechner/pi-ai'
import { expect, expectTypeOf, test } from 'vitest'
import type { AssistantMessageEvent, RunAgentEvent } from '../../../run-agent.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { sse, sseThenHold, status } from '../../support/servers/server.js'
import { agent, calls, says } from './agent.js'

const names = (events: RunAgentEvent[]) => events.map(({ type }) => type)

test('an answer has the events of pi in their order', async () => {
  const { stream } = await agent(
    sse(
      anthropic.start({ input: 4000 }),
      anthropic.thinking(0, 'hm', 'sig'),
      anthropic.text(1, 'Hel', 'lo'),
      anthropic.end('end_turn', { output: 3 }),
    ),
  )
  const { result, events } = await stream('hi')
  expect(result.reply).toBe('Hello')
  expect(names(events)).toEqual([
    'start',
    'thinking_start',
    'thinking_delta',
    'thinking_end',
    'text_start',
    'text_delta',
    'text_delta',
    'text_end',
    'done',
  ])
  const texts = events.flatMap((event) => (event.type === 'text_delta' ? event.delta : []))
  expect(texts).toEqual(['Hel', 'lo'])
  expect(events.at(-2)).toMatchObject({ type: 'text_end', contentIndex: 1, content: 'Hello' })
  expect(events.at(-1)).toEqual({
    type: 'done',
    reason: 'stop',
    message: {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hm' },
        { type: 'text', text: 'Hello' },
      ],
      api: 'anthropic-messages',
      provider: 'anthropic',
      model: 'claude-haiku-4-5',
      usage: {
        input: 4000,
        output: 3,
        cacheRead: 0,
        cacheWrite: 0,
        totalTokens: 4003,
        cost: {
          input: expect.closeTo(4e-3, 12),
          output: expect.closeTo(15e-6, 12),
          cacheRead: 0,
          cacheWrite: 0,
          total: expect.closeTo(4015e-6, 12),
        },
      },
      stopReason: 'stop',
      timestamp: expect.any(Number),
    },
  })
})

test('a call begins, has its arguments, ends, and then its tool runs', async () => {
  const { stream, put } = await agent(
    sse(
      anthropic.start(),
      anthropic.text(0, 'Reading.'),
      anthropic.toolUse(1, 't1', 'read', { path: 'a.txt' }),
      anthropic.toolUse(2, 't2', 'read', { path: 'b.txt' }),
      anthropic.end('tool_use'),
    ),
    says('done'),
  )
  put('a.txt', 'A')
  const { events } = await stream('hi')
  expect(names(events)).toEqual([
    'start',
    'text_start',
    'text_delta',
    'text_end',
    'toolcall_start',
    'toolcall_delta',
    'toolcall_end',
    'toolcall_start',
    'toolcall_delta',
    'toolcall_end',
    'done',
    ...names(events).filter((name) => name.startsWith('tool_')),
    'start',
    'text_start',
    'text_delta',
    'text_end',
    'done',
  ])
  const ends = events.filter((event) => event.type === 'toolcall_end')
  expect(ends.map(({ contentIndex, toolCall }) => [contentIndex, toolCall])).toEqual([
    [1, { type: 'toolCall', id: 't1', name: 'read', arguments: { path: 'a.txt' } }],
    [2, { type: 'toolCall', id: 't2', name: 'read', arguments: { path: 'b.txt' } }],
  ])
  expect(events.find(({ type }) => type === 'done')).toMatchObject({ reason: 'toolUse' })
  const tools = events.filter((event) => event.type === 'tool_end')
  expect(tools.map(({ toolCallId, toolName, isError }) => [toolCallId, toolName, isError])).toEqual(
    expect.arrayContaining([
      ['t1', 'read', false],
      ['t2', 'read', true],
    ]),
  )
})

test('`partial` is one object that grows, and is the message of the end', async () => {
  const { run } = await agent(says('Hello.'))
  const seen = new Set<unknown>()
  await run('hi', {
    onEvent(event) {
      if ('partial' in event) seen.add(event.partial)
      if (event.type === 'done') seen.add(event.message)
    },
  })
  expect([...seen]).toHaveLength(1)
})

test('an answer that its limit cut ends with `length`', async () => {
  const { stream } = await agent(
    sse(anthropic.start(), anthropic.text(0, 'Hel'), anthropic.end('max_tokens')),
  )
  const { result, events } = await stream('hi')
  expect(result.stopReason).toBe('max_tokens')
  expect(events.at(-1)).toMatchObject({ type: 'done', reason: 'length' })
})

test('an aborted answer ends with an error that has what came until then', async () => {
  const { stream } = await agent(
    sseThenHold(
      anthropic.start(),
      anthropic.blockStart(0, { type: 'text', text: '' }),
      anthropic.delta(0, { type: 'text_delta', text: 'Hel' }),
    ),
  )
  const controller = new AbortController()
  const seen: RunAgentEvent[] = []
  await stream('hi', {
    signal: controller.signal,
    onEvent(event) {
      seen.push(event)
      if (event.type === 'text_delta') controller.abort()
    },
  })
  expect(names(seen)).toEqual(['start', 'text_start', 'text_delta', 'text_end', 'error'])
  expect(seen.at(-1)).toMatchObject({
    reason: 'aborted',
    error: { stopReason: 'aborted', content: [{ type: 'text', text: 'Hel' }] },
  })
})

test('a failed call is an error of pi, with the reason as its message', async () => {
  const body = { error: { type: 'invalid_request_error', message: 'that is wrong' } }
  const { stream } = await agent(status(400, body))
  const { events } = await stream('hi')
  expect(names(events)).toEqual(['start', 'error'])
  expect(events.at(-1)).toMatchObject({
    reason: 'error',
    error: { stopReason: 'error', errorMessage: expect.stringContaining('that is wrong') },
  })
})

test('a failed profile is an event, and the next one answers', async () => {
  const { stream, config, server } = await agent(
    status(401, { error: { type: 'authentication_error', message: 'no' } }),
    says('ok'),
  )
  const authProfiles = [
    { id: 'primary', apiKey: 'canary-key-1' },
    { id: 'second', apiKey: 'canary-key-2' },
  ]
  const { result, events } = await stream('hi', {
    config: { ...config, provider: { ...config.provider, authProfiles } },
  })
  expect(result.reply).toBe('ok')
  expect(server.seen.map(({ headers }) => headers['x-api-key'])).toEqual([
    'canary-key-1',
    'canary-key-2',
  ])
  expect(events[0]).toEqual({
    type: 'retry',
    attempt: 1,
    reason: 'auth',
    profileId: 'primary',
    ms: 0,
  })
})

test('without `onEvent` the result is the same', async () => {
  const script = () => [calls(['t1', 'bash', { command: 'echo hi' }]), says('done')]
  const streaming = await agent(...script())
  const buffered = await agent(...script())
  const { result } = await streaming.stream('hi')
  expect(await buffered.run('hi')).toEqual({ ...result, turnId: expect.any(String) })
})

test('a throw in `onEvent` does not end the run', async () => {
  const { run } = await agent(says('ok'))
  const { reply } = await run('hi', {
    onEvent() {
      throw new Error('mine')
    },
  })
  expect(reply).toBe('ok')
})

test('the events have the types of pi', () => {
  expectTypeOf<AssistantMessageEvent>().toExtend<PiEvent>()
  expectTypeOf<PiEvent>().toExtend<AssistantMessageEvent>()
})

test('an answer that was cut within a call and is requested again is one message, without the call', async () => {
  const { stream } = await agent((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const block = anthropic.blockStart(0, { type: 'tool_use', id: 't1', name: 'read', input: {} })
    const piece = anthropic.delta(0, { type: 'input_json_delta', partial_json: '{"pa' })
    response.write(anthropic.start() + block + piece, () => response.destroy())
  }, says('Hello'))
  const { events } = await stream('hi')
  expect(names(events)).toEqual([
    'start',
    'toolcall_start',
    'toolcall_delta',
    'retry',
    'text_start',
    'text_delta',
    'text_end',
    'done',
  ])
  expect(events.at(-1)).toMatchObject({
    message: { content: [{ type: 'text', text: 'Hello' }], stopReason: 'stop' },
  })
  expect(events.at(-2)).toMatchObject({ contentIndex: 0, content: 'Hello' })
})
