// The events of a run: the six types, their numbers and their order. Readers are streams/readers.spec.ts, callbacks
// streams/callbacks.spec.ts. It must never assert on time.

import { expect, test } from 'vitest'
import type { PlainTool } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, textOf } from '../support/engine.js'
import { expectGapless, isTerminal } from '../support/events.js'
import { anthropic } from '../support/servers/anthropic.js'
import { gate, type Handler, sse, sseThenHold, status } from '../support/servers/server.js'

const echo: PlainTool = { name: 'echo', run: (params) => params }

test('a turn with thinking, text and a tool is emitted in order, each event with its number and its message', async () => {
  const server = await serving(
    sse(
      anthropic.start() +
        anthropic.thinking(0, 'Let me see.', 'c2ln') +
        anthropic.text(1, 'One ', 'moment.') +
        anthropic.toolUse(2, 'toolu_1', 'echo', { a: 1 }) +
        anthropic.end('tool_use'),
    ),
    sse(anthropic.answer('Done.')),
  )
  const engine = closing(engineAt(server.url))
  const run = engine.run(context({ runId: 'r1', target: { chat: 7 }, tools: [echo] }))
  const events = await readAll(run)
  const result = await run.result
  const [first, second] = result.messages.filter((message) => message.role === 'assistant')
  const [call] = result.toolCalls
  const ofCall = {
    purpose: 'run',
    provider: 'test',
    model: 'test-model',
    usage: result.attempts[0]?.usage,
  }
  expect(events).toEqual([
    {
      type: 'stream_start',
      runId: 'r1',
      sessionLabel: 'agent:main:main',
      target: { chat: 7 },
      seq: 1,
    },
    { type: 'reasoning', text: 'Let me see.', messageId: first.id, seq: 2 },
    { type: 'token', text: 'One ', messageId: first.id, seq: 3 },
    { type: 'token', text: 'moment.', messageId: first.id, seq: 4 },
    { type: 'usage', ...ofCall, attempt: 1, messageId: first.id, seq: 5 },
    { type: 'stream_end', runId: 'r1', final: false, messageId: first.id, seq: 6 },
    {
      type: 'tool_status',
      toolName: 'echo',
      toolCallId: 'toolu_1',
      status: 'started',
      callId: call.callId,
      params: { a: 1 },
      messageId: first.id,
      seq: 7,
    },
    {
      type: 'tool_status',
      toolName: 'echo',
      toolCallId: 'toolu_1',
      status: 'completed',
      callId: call.callId,
      summary: '{"a":1}',
      durationMs: expect.any(Number),
      isError: false,
      result: { a: 1 },
      messageId: first.id,
      seq: 8,
    },
    { type: 'token', text: 'Done.', messageId: second.id, seq: 9 },
    { type: 'usage', ...ofCall, attempt: 2, messageId: second.id, seq: 10 },
    {
      type: 'stream_end',
      runId: 'r1',
      final: true,
      messageId: second.id,
      stopReason: 'end_turn',
      turnId: result.turnId,
      usage: result.usage,
      persisted: false,
      seq: 11,
    },
  ])
  expect(result).toMatchObject({ stopReason: 'end_turn', runId: 'r1' })
})

test('stream_start is delivered before the first request', async () => {
  const held = gate()
  const server = await serving(
    async (response, seen) => {
      await held.wait
      await sse(anthropic.answer('first'))(response, seen)
    },
    sse(anthropic.answer('second')),
  )
  const engine = closing(engineAt(server.url, { ledger: { path: folder().file } }))
  const first = engine.run(context())
  // The first run has the session: no request can have been sent when the event is read.
  const second = engine.run(context())
  expect((await first.next()).value.type).toBe('stream_start')
  expect((await second.next()).value.type).toBe('stream_start')
  expect(server.seen.length).toBeLessThanOrEqual(1)
  held.open()
  expect(textOf(await readAll(second))).toBe('second')
  expect(textOf(await readAll(first))).toBe('first')
  expect(server.seen.length).toBe(2)
})

test('stream_start is delivered even if no request can be sent', async () => {
  const server = await serving(sse(anthropic.answer('never')))
  const engine = closing(engineAt(server.url))
  const run = engine.run(context({ abortSignal: AbortSignal.abort() }))
  const events = await readAll(run)
  expect(events.map((event) => event.type)).toEqual(['stream_start', 'stream_end'])
  await engine.close()
  expect(server.seen).toEqual([])
})

const ends: [string, Handler[], Partial<Parameters<typeof context>[0]>, object][] = [
  ['end_turn', [sse(anthropic.answer('hi'))], {}, { type: 'stream_end', final: true }],
  [
    'max_tokens',
    [sse(anthropic.start() + anthropic.text(0, 'cut') + anthropic.end('max_tokens'))],
    {},
    { type: 'stream_end', final: true },
  ],
  [
    'tool_use',
    [sse(anthropic.calls(['toolu_1', 'echo', {}]))],
    { tools: [echo], maxIterations: 2 },
    { type: 'stream_end', final: true },
  ],
  [
    'error',
    [
      status(400, {
        type: 'error',
        error: { type: 'invalid_request_error', message: 'no such field' },
      }),
    ],
    {},
    { type: 'stream_error', partial: false },
  ],
  [
    'error',
    [
      sse(
        anthropic.start() +
          anthropic.blockStart(0, { type: 'text', text: '' }) +
          anthropic.delta(0, { type: 'text_delta', text: 'half' }),
      ),
    ],
    {},
    { type: 'stream_error', partial: true },
  ],
  [
    'timeout',
    [sseThenHold(anthropic.start())],
    { timeoutMs: 200 },
    { type: 'stream_error', partial: false },
  ],
  [
    'timeout',
    [
      sseThenHold(
        anthropic.start() +
          anthropic.blockStart(0, { type: 'thinking', thinking: '', signature: '' }) +
          anthropic.delta(0, { type: 'thinking_delta', thinking: 'hm' }),
      ),
    ],
    { timeoutMs: 200 },
    { type: 'stream_error', partial: true },
  ],
]
test.each(ends)(
  'a run that stops with %s has one terminal event, last (%#)',
  async (stop, handlers, changes, terminal) => {
    const server = await serving(...handlers)
    const engine = closing(engineAt(server.url))
    const run = engine.run(context(changes))
    const events = await readAll(run)
    expectGapless(events)
    expect(events.filter(isTerminal)).toEqual([expect.objectContaining(terminal)])
    expect(events.at(-1)).toMatchObject(terminal)
    expect(await run.next()).toEqual({ value: undefined, done: true })
    expect((await run.result).stopReason).toBe(stop)
  },
)

test('the error event has the error of the result', async () => {
  const body = { type: 'error', error: { type: 'invalid_request_error', message: 'bad field `x`' } }
  const server = await serving(status(400, body))
  const engine = closing(engineAt(server.url))
  const run = engine.run(context())
  const last = (await readAll(run)).at(-1)
  const { error } = await run.result
  expect(error?.message).not.toBe('')
  const { turnId, usage } = await run.result
  expect(last).toEqual({
    type: 'stream_error',
    error: error?.message,
    partial: false,
    stopReason: 'error',
    turnId,
    usage,
    persisted: false,
    kind: error?.kind,
    retryable: false,
    seq: 2,
  })
})

test('a failure after the first answer is partial although its own answer had none', async () => {
  const body = { type: 'error', error: { type: 'invalid_request_error', message: 'no' } }
  const server = await serving(
    sse(
      anthropic.start() +
        anthropic.text(0, 'Looking.') +
        anthropic.toolUse(1, 'toolu_1', 'echo', {}) +
        anthropic.end('tool_use'),
    ),
    status(400, body),
  )
  const engine = closing(engineAt(server.url))
  const events = await readAll(engine.run(context({ tools: [echo] })))
  expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
})

test('after each message that continues there is a stream_end that is not final', async () => {
  const server = await serving(
    sse(anthropic.calls(['a', 'echo', {}])),
    sse(anthropic.calls(['b', 'echo', {}], ['c', 'echo', {}])),
    sse(anthropic.answer('done')),
  )
  const engine = closing(engineAt(server.url))
  const events = await readAll(engine.run(context({ tools: [echo] })))
  expectGapless(events)
  expect(
    events.map((event) =>
      event.type === 'stream_end'
        ? `end:${event.final}`
        : event.type === 'tool_status'
          ? `${event.toolCallId}:${event.status}`
          : event.type,
    ),
  ).toEqual([
    'stream_start',
    'usage',
    'end:false',
    'a:started',
    'a:completed',
    'usage',
    'end:false',
    'b:started',
    'b:completed',
    'c:started',
    'c:completed',
    'token',
    'usage',
    'end:true',
  ])
})

test.each(['end_turn', 'error', 'aborted'])(
  'the terminal event of a run that ends %s is delivered after its commit and before the result',
  async (stop) => {
    const server = await serving(
      stop === 'end_turn'
        ? sse(anthropic.answer('hi'))
        : stop === 'error'
          ? status(400, { type: 'error', error: { type: 'invalid_request_error', message: 'no' } })
          : sseThenHold(anthropic.start() + anthropic.text(0, 'half')),
    )
    const engine = closing(engineAt(server.url, { ledger: { path: folder().file } }))
    const run = engine.run(context({ runId: 'the-run' }))
    const order: string[] = []
    let atTerminal: Promise<unknown> = Promise.resolve()
    run.stream.onEvent((event) => {
      if (!isTerminal(event)) return
      order.push('listener')
      atTerminal = engine.ledger.query('select run_id, stop_reason from turns')
    })
    const settled = run.result.then((result) => {
      order.push('result')
      return result
    })
    for await (const event of run) {
      if (event.type === 'token' && stop === 'aborted') run.abort()
      if (isTerminal(event)) order.push('iterator')
    }
    const result = await settled
    // The result does not wait for a reader that is behind: a paused one would block it forever.
    expect(order[0]).toBe('listener')
    expect(order.slice(1).sort()).toEqual(['iterator', 'result'])
    expect(result).toMatchObject({ stopReason: stop, persisted: true })
    expect(await atTerminal).toMatchObject({ rows: [{ run_id: 'the-run', stop_reason: stop }] })
    expect((await engine.ledger.turn(result.turnId))?.stopReason).toBe(stop)
  },
)
