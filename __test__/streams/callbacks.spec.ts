// Callbacks and the stream handle: what they receive and in which order. A callback must never harm a run. The iterator is in
// streams.spec.ts.

import { expect, test } from 'vitest'
import type { AgentEngineCallbacks, AgentResult, PlainTool, StreamEvent } from '../../index.js'
import { callbackWarnings } from '../support/callback-warnings.js'
import { closing, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine, textOf } from '../support/engine.js'
import { expectGapless } from '../support/events.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse, status } from '../support/servers/server.js'

/** Callbacks that record what they receive. */
function recorder() {
  const received: unknown[] = []
  const callbacks: Required<AgentEngineCallbacks> = {
    onPartialReply: ({ text }) => received.push(`text:${text}`),
    onReasoningStream: ({ text }) => received.push(`reasoning:${text}`),
    onToolResult: ({ toolName, status: how }) => received.push(`${toolName}:${how}`),
    onAgentEvent: ({ phase }) => received.push(`phase:${phase}`),
    onToolUpdate: ({ toolName, partial }) => received.push(`${toolName}:update:${partial}`),
  }
  return { received, callbacks }
}

const slow: PlainTool = {
  name: 'slow',
  run: (_, { onUpdate }) => {
    onUpdate(1)
    onUpdate(2)
    return 'ok'
  },
}

test('callbacks receive the phases, the text, the reasoning and the tools in order', async () => {
  const server = await serving(
    sse(
      anthropic.start() +
        anthropic.thinking(0, 'hm', 'c2ln') +
        anthropic.text(1, 'a', 'b') +
        anthropic.toolUse(2, 'toolu_1', 'slow', {}) +
        anthropic.end('tool_use'),
    ),
    sse(anthropic.answer('done')),
  )
  const { received, callbacks } = recorder()
  const before = Date.now()
  const times: number[] = []
  const run = closing(engineAt(server.url)).run(context({ tools: [slow] }), {
    ...callbacks,
    onAgentEvent: (event) => {
      times.push(event.timestamp)
      callbacks.onAgentEvent(event)
    },
  })
  const result = await run.result
  expect(received).toEqual([
    'phase:start',
    'phase:streaming',
    'reasoning:hm',
    'text:a',
    'text:b',
    'phase:tool_use',
    'slow:started',
    'slow:update:1',
    'slow:update:2',
    'slow:completed',
    'phase:streaming',
    'text:done',
    'phase:end',
  ])
  expect(times).toEqual([...times].sort((a, b) => a - b))
  expect(times[0]).toBeGreaterThanOrEqual(before)
  expect(result.stopReason).toBe('end_turn')
})

test('the payloads are those of the broker interface', async () => {
  const { engine } = scriptedEngine([
    { thinking: 'hm', text: 'a', toolCalls: [{ id: 'c1', name: 'slow' }] },
    'done',
  ])
  const received: unknown[] = []
  const receive = (payload: unknown) => received.push(payload)
  const run = closing(engine).run(context({ tools: [slow] }), {
    onPartialReply: receive,
    onReasoningStream: receive,
    onToolResult: receive,
    onToolUpdate: receive,
  })
  const { messages } = await run.result
  const [first, second] = messages.filter((message) => message.role === 'assistant')
  expect(received).toEqual([
    { text: 'hm' },
    { text: 'a', messageId: first.id },
    { toolCallId: 'c1', toolName: 'slow', status: 'started', summary: undefined },
    { toolCallId: 'c1', toolName: 'slow', partial: 1 },
    { toolCallId: 'c1', toolName: 'slow', partial: 2 },
    { toolCallId: 'c1', toolName: 'slow', status: 'completed', summary: 'ok' },
    { text: 'done', messageId: second.id },
  ])
})

test.each(['error', 'aborted', 'timeout'])('a run that ends %s emits its end', async (stop) => {
  const server = await serving(
    status(400, { type: 'error', error: { type: 'invalid_request_error', message: 'no' } }),
  )
  const { engine } = scriptedEngine([{ gate: 'never' }])
  const { received, callbacks } = recorder()
  const run =
    stop === 'error'
      ? closing(engineAt(server.url)).run(context(), callbacks)
      : closing(engine).run(context({ timeoutMs: stop === 'timeout' ? 100 : 30_000 }), callbacks)
  if (stop === 'aborted') run.abort()
  expect((await run.result).stopReason).toBe(stop)
  expect(received).toEqual(['phase:start', 'phase:end'])
})

test('onEvent receives every event, like the iterator, also beside it and with several listeners', async () => {
  const { engine } = scriptedEngine([{ thinking: 'hm', text: 'abc', chunkSize: 1 }])
  const run = closing(engine).run(context())
  const one: StreamEvent[] = []
  const two: StreamEvent[] = []
  run.stream.onEvent((event) => one.push(event))
  run.stream.onEvent((event) => two.push(event))
  const iterated = await readAll(run)
  expect(one).toEqual(iterated)
  expect(two).toEqual(iterated)
})

test('onEvent continues after the iterator of a detached run was left', async () => {
  const { engine, provider } = scriptedEngine([
    { steps: [{ text: 'a' }, { gate: 'more' }, { text: 'b' }] },
  ])
  const run = closing(engine).run(context({ detached: true }))
  const events: StreamEvent[] = []
  run.stream.onEvent((event) => events.push(event))
  for await (const event of run) if (event.type === 'token') break
  provider.open('more')
  await run.result
  expect(textOf(events)).toBe('ab')
  expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
})

test('onEvent refuses anything but a function', () => {
  const { engine } = scriptedEngine(['x'])
  const run = closing(engine).run(context())
  expect(() => run.stream.onEvent(undefined as never)).toThrow(
    expect.objectContaining({ code: 'invalid_options', field: 'callback' }),
  )
})

test('the handle aborts and steers, and reports whether the run streams or compacts', async () => {
  const { engine } = scriptedEngine([{ steps: [{ text: 'a' }, { gate: 'never' }] }])
  const run = closing(engine).run(context())
  expect(run.stream.isStreaming()).toBe(true)
  expect(run.stream.isCompacting()).toBe(false)
  // What is sent before the first request is a message of it.
  await new Promise<void>((resolve) => {
    run.stream.onEvent(({ type }) => type === 'token' && resolve())
  })
  expect(run.stream.steer('more')).toBe(true)
  run.stream.abort()
  expect(run.stream.steer('late')).toBe(false)
  const result = await run.result
  expect(result).toMatchObject({ stopReason: 'aborted', undeliveredSteering: ['more'] })
  expect(run.stream.isStreaming()).toBe(false)
  expect(run.stream.steer('later')).toBe(false)
})

const hostile = (): never => {
  throw new Error('callback boom')
}
const rejecting = (): never => Promise.reject(new Error('callback rejects')) as never
const unreadable = (): never => {
  throw {
    get message() {
      throw new Error('no')
    },
    toString() {
      throw new Error('neither')
    },
  }
}
const oddThenable = (): never =>
  ({
    get then() {
      throw new Error('then boom')
    },
  }) as never

test.each([
  ['throw', hostile, 'a callback of an agent run threw: callback boom'],
  ['reject', rejecting, 'a callback of an agent run threw: callback rejects'],
  [
    'throw what cannot be read',
    unreadable,
    'a callback of an agent run threw: it failed with an error that cannot be read',
  ],
  ['return a thenable that throws', oddThenable, 'a callback of an agent run threw: then boom'],
])('callbacks that %s do no harm and are reported by one warning', async (_, callback, message) => {
  const seen = callbackWarnings()
  const { engine } = scriptedEngine([
    { thinking: 'hm', text: 'abc', toolCalls: [{ name: 'slow' }], chunkSize: 1 },
    'done',
  ])
  const run = closing(engine).run(context({ tools: [slow] }), {
    onPartialReply: callback,
    onReasoningStream: callback,
    onToolResult: callback,
    onAgentEvent: callback,
    onToolUpdate: callback,
  })
  run.stream.onEvent(callback)
  const events = await readAll(run)
  const result = await run.result
  expect(textOf(events)).toBe('abcdone')
  expectGapless(events.filter((event) => !('sub' in event)))
  expect(result.stopReason).toBe('end_turn')
  expect(result.toolCalls).toMatchObject([{ status: 'completed', result: 'ok' }])
  await new Promise(setImmediate)
  expect(seen.map((warning) => warning.message)).toEqual([message])
})

test('a listener that throws does not hide the event from the next one', async () => {
  callbackWarnings()
  const { engine } = scriptedEngine(['x'])
  const run = closing(engine).run(context())
  const types: string[] = []
  run.stream.onEvent(hostile)
  run.stream.onEvent((event) => types.push(event.type))
  await run.result
  expect(types).toEqual(['stream_start', 'token', 'usage', 'stream_end'])
})

test('a run can be started inside a callback, and ends before or after the first one', async () => {
  const { engine, provider } = scriptedEngine([
    { steps: [{ text: 'outer' }, { gate: 'outer' }] },
    'inner',
    'third',
  ])
  closing(engine)
  const inner: Promise<AgentResult>[] = []
  const start = (sessionLabel: string) => engine.run(context({ sessionLabel })).result
  const run = engine.run(context({ sessionLabel: 'outer' }), {
    onPartialReply: () => {
      inner.push(start('inner'))
    },
  })
  run.stream.onEvent((event) => {
    if (event.type === 'stream_end') inner.push(start('third'))
  })
  while (inner.length === 0) await new Promise(setImmediate)
  expect((await inner[0]).messages.at(-1)?.content).toBe('inner')
  provider.open('outer')
  expect((await run.result).messages.at(-1)?.content).toBe('outer')
  expect((await inner[1]).messages.at(-1)?.content).toBe('third')
})

test('a run can be aborted inside its own callback', async () => {
  const { engine } = scriptedEngine([{ steps: [{ text: 'half' }, { gate: 'never' }] }])
  const run = closing(engine).run(context(), { onPartialReply: () => run.abort() })
  const result = await run.result
  expect(result.stopReason).toBe('aborted')
  expect(result.messages.at(-1)?.content).toBe('half')
})

test('progress of a tool after its end is not delivered', async () => {
  let late: ((partial: unknown) => void) | undefined
  const stubborn: PlainTool = {
    name: 'stubborn',
    timeoutMs: 20,
    run: (_, { onUpdate }) => {
      late = onUpdate
      return new Promise(() => {})
    },
  }
  const { engine } = scriptedEngine([
    { toolCalls: [{ name: 'stubborn' }] },
    { gate: 'go', text: 'done' },
  ])
  const updates: unknown[] = []
  const run = closing(engine).run(context({ tools: [stubborn] }), {
    onToolUpdate: ({ partial }) => updates.push(partial),
    onToolResult: ({ status: how }) => {
      if (how !== 'failed') return
      late?.('too late')
      run.abort()
    },
  })
  await run.result
  late?.('much too late')
  expect(updates).toEqual([])
})

test('a late result of a first attempt is never the result of the second', async () => {
  const tries: { answer: (text: string) => void; signal: AbortSignal }[] = []
  const flaky: PlainTool = {
    name: 'flaky',
    timeoutMs: 100,
    retries: 1,
    replay: 'pure',
    run: (_, { signal }) =>
      new Promise((resolve) => {
        tries.push({ answer: resolve, signal })
        if (tries.length === 2) {
          tries[0].answer('from the first try')
          setImmediate(() => resolve('from the second try'))
        }
      }),
  }
  const { engine } = scriptedEngine([{ toolCalls: [{ name: 'flaky' }] }, 'done'])
  const result = await closing(engine).run(context({ tools: [flaky] })).result
  expect(result.toolCalls).toMatchObject([{ status: 'completed', result: 'from the second try' }])
  // The model and the caller receive the same result.
  expect(result.messages.find(({ role }) => role === 'tool')?.content).toBe('from the second try')
  expect(tries.map(({ signal }) => signal.aborted)).toEqual([true, false])
})
