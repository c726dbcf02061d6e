// What the events of a run tell besides its text: arguments and results of tools, usage, retries, compactions, steered messages,
// the outcome. It must never compare less than the whole event.

import { expect, test } from 'vitest'
import type { StreamEvent } from '../../index.js'
import { closing, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine, testModel } from '../support/engine.js'
import { expectGapless } from '../support/events.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { price } from '../support/values/prices.js'

const ULID = expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/)
const COUNT = expect.any(Number)
const usage = {
  inputTokens: COUNT,
  outputTokens: COUNT,
  cachedInputTokens: COUNT,
  cacheWriteTokens: COUNT,
  reasoningTokens: COUNT,
  totalTokens: COUNT,
}

const echo = { name: 'echo', run: (params: unknown) => ({ said: params }) }
const broken = {
  name: 'broken',
  run: () => {
    throw new Error('no such place')
  },
}

const ofType = <Type extends StreamEvent['type']>(events: StreamEvent[], type: Type) =>
  events.filter((event): event is Extract<StreamEvent, { type: Type }> => event.type === type)

test('a tool has its arguments in its start event, and its result, time and failure in its end event', async () => {
  const { engine } = scriptedEngine([
    { toolCalls: [{ name: 'echo', arguments: { of: '1' } }, { name: 'broken' }, { name: 'none' }] },
    'done',
  ])
  const run = closing(engine).run(context({ tools: [echo, broken] }))
  const events = await readAll(run)
  const result = await run.result
  expectGapless(events)
  const [echoed, threw, unknown] = result.toolCalls
  const messageId = result.messages[1]?.id
  const of = (call: typeof echoed) => ({
    type: 'tool_status',
    toolName: call?.toolName,
    toolCallId: call?.id,
    callId: call?.callId,
    messageId,
    seq: COUNT,
  })
  expect(ofType(events, 'tool_status')).toEqual([
    // A call that cannot run ends without a start, and without a time.
    { ...of(unknown), status: 'failed', isError: true, summary: unknown?.error },
    { ...of(echoed), status: 'started', params: { of: '1' } },
    {
      ...of(echoed),
      status: 'completed',
      isError: false,
      result: { said: { of: '1' } },
      durationMs: COUNT,
      summary: '{"said":{"of":"1"}}',
    },
    { ...of(threw), status: 'started', params: {} },
    {
      ...of(threw),
      status: 'failed',
      isError: true,
      durationMs: COUNT,
      summary: 'no such place',
    },
  ])
})

test('each call of the model has an event with its usage, and the end has the outcome of the run', async () => {
  const { engine } = scriptedEngine([{ text: 'a', toolCalls: [{ name: 'echo' }] }, { text: 'b' }], {
    models: [{ ...testModel, cost: price }],
  })
  const run = closing(engine).run(context({ tools: [echo] }))
  const events = await readAll(run)
  const result = await run.result
  const calls = result.messages.filter(({ role }) => role === 'assistant')
  expect(ofType(events, 'usage')).toEqual(
    result.attempts.map((attempt, at) => ({
      type: 'usage',
      purpose: 'run',
      attempt: at + 1,
      provider: 'test',
      model: 'test-model',
      messageId: calls[at]?.id,
      usage: attempt.usage,
      ...(attempt.usageEstimated ? { usageEstimated: true } : {}),
      cost: attempt.cost,
      seq: COUNT,
    })),
  )
  expect(events.at(-1)).toEqual({
    type: 'stream_end',
    runId: result.runId,
    final: true,
    messageId: calls[1]?.id,
    stopReason: 'end_turn',
    turnId: result.turnId,
    usage: result.usage,
    cost: result.cost,
    persisted: false,
    seq: events.length,
  })
  expect(result.cost).toBeGreaterThan(0)
})

test('a failed run has its kind in its end event, and whether and when it may be tried again', async () => {
  const { engine } = scriptedEngine([
    { error: { status: 429, kind: 'rate_limit', retryAfterMs: 3_600_000 } },
  ])
  const run = closing(engine).run(context())
  const events = await readAll(run)
  const result = await run.result
  expect(events.at(-1)).toEqual({
    type: 'stream_error',
    error: result.error?.message,
    partial: false,
    ...(result.error?.detail.retryAfterMs === undefined
      ? {}
      : { retryAfterMs: result.error.detail.retryAfterMs }),
    stopReason: 'error',
    turnId: result.turnId,
    usage,
    ...(result.cost === null || result.cost === undefined ? {} : { cost: result.cost }),
    persisted: false,
    kind: 'rate_limit',
    retryable: true,
    seq: events.length,
  })
  expect(result.error?.detail.retryAfterMs).toBe(3_600_000)
})

test('a failure that is retried is an event with the reason, and the wait before the next call', async () => {
  const server = await serving((response, seen) => {
    if (server.seen.length > 1) return sse(anthropic.answer('ok'))(response, seen)
    response.writeHead(500, { 'content-type': 'application/json' })
    response.end('{"type":"error","error":{"type":"api_error","message":"broken"}}')
  })
  const run = closing(engineAt(server.url)).run(context())
  const events = await readAll(run)
  const from = { provider: 'test', model: 'test-model', profileId: 'p1' }
  expect(events.filter(({ type }) => type === 'retry' || type === 'waiting')).toEqual([
    { type: 'retry', reason: 'server_error', attempt: 1, ...from, ms: COUNT, seq: 2 },
    {
      type: 'waiting',
      reason: 'server_error',
      purpose: 'run',
      attempt: 2,
      ...from,
      until: COUNT,
      ms: COUNT,
      seq: 3,
    },
  ])
})

test('a steered message is an event where it entered, with the id of its row', async () => {
  const { engine, provider } = scriptedEngine([
    { steps: [{ text: 'a' }, { gate: 'steered' }] },
    'answered',
  ])
  const run = closing(engine).run(context())
  const events: StreamEvent[] = []
  for await (const event of run) {
    events.push(event)
    if (event.type === 'token' && event.text === 'a') {
      expect(run.steer('and "this"?')).toBe(true)
      provider.open('steered')
    }
  }
  const result = await run.result
  const steered = result.messages.filter(({ role }) => role === 'user').at(-1)
  expect(ofType(events, 'user_message')).toEqual([
    { type: 'user_message', messageId: steered?.id, text: 'and "this"?', seq: COUNT },
  ])
  expect(events.map(({ type }) => type)).toEqual([
    'stream_start',
    'token',
    'usage',
    'stream_end',
    'user_message',
    'token',
    'usage',
    'stream_end',
  ])
})

test('a tool’s updates are events of the run that have a number after the last stored one', async () => {
  const slow = {
    name: 'slow',
    async *run() {
      yield { done: 1 }
      yield { done: 2 }
      return 'whole'
    },
  }
  const { engine } = scriptedEngine([{ toolCalls: [{ name: 'slow' }] }, 'done'])
  closing(engine)
  const run = engine.run(context({ tools: [slow] }))
  const events = await readAll(run)
  const started = ofType(events, 'tool_status').find(({ status }) => status === 'started')
  const progress = { type: 'tool_progress', toolName: 'slow', toolCallId: started?.toolCallId }
  const at = { callId: started?.callId, seq: started?.seq }
  expect(ofType(events, 'tool_progress')).toEqual([
    { ...progress, ...at, partial: { done: 1 }, sub: 1 },
    { ...progress, ...at, partial: { done: 2 }, sub: 2 },
  ])
  expectGapless(events.filter((event) => !('sub' in event)))
})

test('the arguments of a call stream as fragments where they are asked for, and only there', async () => {
  const { engine } = scriptedEngine([
    { toolCalls: [{ name: 'echo', arguments: { of: 'x'.repeat(40) } }], chunkSize: 7 },
    'done',
    { toolCalls: [{ name: 'echo', arguments: { of: 1 } }] },
    'done',
  ])
  closing(engine)
  const asked = await readAll(engine.run(context({ tools: [echo], events: { toolInput: true } })))
  const fragments = ofType(asked, 'tool_input_delta')
  expect(fragments.length).toBeGreaterThan(1)
  expect(JSON.parse(fragments.map(({ delta }) => delta).join(''))).toEqual({ of: 'x'.repeat(40) })
  const started = ofType(asked, 'tool_status')[0]
  expect(fragments.map(({ delta: _, ...rest }) => rest)).toEqual(
    fragments.map((_, at) => ({
      type: 'tool_input_delta',
      toolCallId: started?.toolCallId,
      toolName: 'echo',
      index: 0,
      messageId: started?.messageId,
      seq: 1,
      sub: at + 1,
    })),
  )
  const silent = await readAll(engine.run(context({ tools: [echo] })))
  expect(ofType(silent, 'tool_input_delta')).toEqual([])
})

test('`core` delivers the six events of the broker interface with the numbers of all, and a selection the others', async () => {
  const replies = [{ text: 'a', toolCalls: [{ name: 'echo' }] }, 'b']
  const types = async (options: object, ofContext: object) => {
    const { engine } = scriptedEngine(replies, options)
    const run = closing(engine).run(context({ tools: [echo], ...ofContext }))
    return (await readAll(run)).map(({ seq, type }) => `${seq} ${type}`)
  }
  const core = [
    '1 stream_start',
    '2 token',
    '4 stream_end',
    '5 tool_status',
    '6 tool_status',
    '7 token',
    '9 stream_end',
  ]
  const all = [...core.slice(0, 2), '3 usage', ...core.slice(2, 6), '8 usage', '9 stream_end']
  expect(await types({}, {})).toEqual(all)
  expect(await types({}, { events: 'all' })).toEqual(all)
  expect(await types({}, { events: 'core' })).toEqual(core)
  expect(await types({ events: 'core' }, {})).toEqual(core)
  expect(await types({ events: 'core' }, { events: { waiting: false } })).toEqual(all)
  expect(await types({ events: { usage: false } }, {})).toEqual(core)
  expect(await types({ events: { usage: false } }, { events: { waiting: false } })).toEqual(all)
  expect(await types({}, { events: { usage: false } })).toEqual(core)
})

test.each([
  ['some', 'events'],
  [7, 'events'],
  [{ usages: true }, 'events.usages'],
  [{ usage: 'yes' }, 'events.usage'],
])('`events: %j` is refused', (events, field) => {
  const { engine } = scriptedEngine(['a'])
  closing(engine)
  const refused = (code: string) => expect.objectContaining({ code, field })
  expect(() => engine.run(context({ events: events as never }))).toThrow(refused('invalid_context'))
  expect(() => scriptedEngine(['a'], { events: events as never })).toThrow(
    refused('invalid_options'),
  )
})
