// What events become as chunks, judged by the schema and by the reader of `ai` itself, in both versions. It must never need an engine.

import type { UIMessage } from 'ai'
import { describe, expect, test } from 'vitest'
import {
  toUIMessageStream,
  toUIMessageStreamResponse,
  type UIMessageChunk,
  type UIMessageStreamOptions,
} from '../../../ai-sdk.js'
import type { StreamEvent } from '../../../index.js'
import { versions } from './ai.js'

type Loose = { type: string } & Record<string, unknown>

/** Events with their numbers, as a run delivers them. */
async function* numbered(...events: Loose[]) {
  for (const [index, event] of events.entries()) {
    yield { messageId: 'm1', ...event, seq: index + 1 } as unknown as StreamEvent
  }
}

const start = { type: 'stream_start', runId: 'run-1', sessionLabel: 's', target: null }
const end = { type: 'stream_end', runId: 'run-1', final: true, stopReason: 'end_turn' }
const token = (text: string, messageId = 'm1') => ({ type: 'token', text, messageId })
const reasoning = (text: string) => ({ type: 'reasoning', text })
const status = (status: string, more: object = {}) => ({
  type: 'tool_status',
  toolName: 'thermometer',
  toolCallId: 'call_1',
  status,
  ...more,
})

async function chunksOf(
  events: Loose[],
  options: UIMessageStreamOptions = {},
): Promise<UIMessageChunk[]> {
  const chunks: UIMessageChunk[] = []
  for await (const chunk of toUIMessageStream(numbered(...events), options)) chunks.push(chunk)
  return chunks
}

/** A run with everything: reasoning, text, two steps, a tool that ends well and one that fails. */
const whole: Loose[] = [
  start,
  reasoning('I '),
  reasoning('look.'),
  token('Let me '),
  token('look.'),
  { type: 'stream_end', final: false },
  status('started', { params: { room: 'bath' }, callId: 'c1' }),
  status('started', { toolCallId: 'call_2', params: {}, callId: 'c2' }),
  status('completed', { result: { celsius: 11 }, summary: '{"celsius":11}', isError: false }),
  status('failed', { toolCallId: 'call_2', summary: 'no such room', isError: true }),
  token('Eleven.', 'm2'),
  end,
]

const wholeChunks: UIMessageChunk[] = [
  { type: 'start', messageId: 'run-1' },
  { type: 'start-step' },
  { type: 'reasoning-start', id: 'm1-1' },
  { type: 'reasoning-delta', id: 'm1-1', delta: 'I ' },
  { type: 'reasoning-delta', id: 'm1-1', delta: 'look.' },
  { type: 'reasoning-end', id: 'm1-1' },
  { type: 'text-start', id: 'm1-2' },
  { type: 'text-delta', id: 'm1-2', delta: 'Let me ' },
  { type: 'text-delta', id: 'm1-2', delta: 'look.' },
  { type: 'text-end', id: 'm1-2' },
  {
    type: 'tool-input-available',
    toolCallId: 'call_1',
    toolName: 'thermometer',
    input: { room: 'bath' },
  },
  { type: 'tool-input-available', toolCallId: 'call_2', toolName: 'thermometer', input: {} },
  { type: 'tool-output-available', toolCallId: 'call_1', output: { celsius: 11 } },
  { type: 'tool-output-error', toolCallId: 'call_2', errorText: 'no such room' },
  { type: 'finish-step' },
  { type: 'start-step' },
  { type: 'text-start', id: 'm2-3' },
  { type: 'text-delta', id: 'm2-3', delta: 'Eleven.' },
  { type: 'text-end', id: 'm2-3' },
  { type: 'finish-step' },
  { type: 'finish', finishReason: 'stop' },
]

test('a run is one message: a step for each answer of the model, with its reasoning, text and tools', async () => {
  expect(await chunksOf(whole)).toEqual(wholeChunks)
})

describe.each(versions)('%s', (_, ai) => {
  test('reads every chunk, and makes a message of them', async () => {
    const response = toUIMessageStreamResponse(numbered(...whole))
    const parsed = ai.parseJsonEventStream({
      stream: response.body as ReadableStream<Uint8Array>,
      schema: ai.uiMessageChunkSchema,
    })
    const chunks: unknown[] = []
    for await (const part of parsed as unknown as AsyncIterable<any>) {
      expect(part.error).toBeUndefined()
      chunks.push(part.value)
    }
    expect(chunks).toEqual(wholeChunks)

    let message: UIMessage | undefined
    const errors: unknown[] = []
    const stream = toUIMessageStream(numbered(...whole)) as ReadableStream<any>
    const onError = (error: unknown) => errors.push(error)
    for await (message of ai.readUIMessageStream({ stream, onError })) {
    }
    expect(errors).toEqual([])
    // Fields that are absent are undefined in one version or the other.
    expect(JSON.parse(JSON.stringify(message))).toMatchObject({
      id: 'run-1',
      role: 'assistant',
      parts: [
        { type: 'step-start' },
        { type: 'reasoning', text: 'I look.', state: 'done' },
        { type: 'text', text: 'Let me look.', state: 'done' },
        {
          type: 'tool-thermometer',
          toolCallId: 'call_1',
          state: 'output-available',
          input: { room: 'bath' },
          output: { celsius: 11 },
        },
        {
          type: 'tool-thermometer',
          toolCallId: 'call_2',
          state: 'output-error',
          input: {},
          errorText: 'no such room',
        },
        { type: 'step-start' },
        { type: 'text', text: 'Eleven.', state: 'done' },
      ],
    })
  })

  test('shows the arguments of an answer that is requested again from their beginning', async () => {
    const delta = (text: string) => ({
      ...{ type: 'tool_input_delta', index: 0, delta: text },
      ...{ toolCallId: 'call_1', toolName: 'thermometer' },
    })
    const events = [start, delta('{"room":"ki'), { type: 'retry' }, delta('{"room":"bath"}'), end]
    const inputs: unknown[] = []
    const reading = { stream: toUIMessageStream(numbered(...events)) as ReadableStream<any> }
    for await (const { parts } of ai.readUIMessageStream(reading)) {
      const part: any = parts.at(-1)
      if (part?.toolCallId) inputs.push([parts.length, part.input])
    }
    expect(inputs).toContainEqual([2, { room: 'ki' }])
    expect(inputs.at(-1)).toEqual([2, { room: 'bath' }])
  })

  test.each([[[{ type: 'retry' }]], [[]]])(
    'goes on with a part of an answer that is requested again, under another id too, and ends one that is not: %j',
    async (retry) => {
      const delta = (index: number, toolCallId: string, toolName: string, delta: string) => ({
        ...{ type: 'tool_input_delta', index, delta },
        ...{ toolCallId, toolName },
      })
      const second = { messageId: 'm2' }
      const events = [
        start,
        delta(0, 'call_1', 'thermometer', '{"room":"ki'),
        delta(1, 'call_2', 'clock', '{'),
        ...retry,
        { ...delta(0, 'call_8', 'calendar', '{}'), ...second },
        { ...delta(1, 'call_9', 'thermometer', '{"room":"bath"}'), ...second },
        status('started', {
          toolCallId: 'call_8',
          toolName: 'calendar',
          params: {},
          callId: 'c1',
          ...second,
        }),
        status('started', {
          toolCallId: 'call_9',
          params: { room: 'bath' },
          callId: 'c2',
          ...second,
        }),
        status('completed', {
          toolCallId: 'call_8',
          toolName: 'calendar',
          result: 1,
          callId: 'c1',
          ...second,
        }),
        status('completed', { toolCallId: 'call_9', result: 11, callId: 'c2', ...second }),
        token('Eleven.', 'm3'),
        end,
      ]
      const reading = { stream: toUIMessageStream(numbered(...events)) as ReadableStream<any> }
      let tools: unknown[] = []
      let steps = 0
      for await (const { parts } of ai.readUIMessageStream(reading)) {
        steps = parts.filter(({ type }) => type === 'step-start').length
        tools = parts.flatMap((part: any) =>
          part.toolCallId ? [[part.type, part.toolCallId, part.state, part.output]] : [],
        )
      }
      expect(steps).toBe(2)
      expect(tools).toEqual([
        ['tool-thermometer', 'call_1', 'output-available', 11],
        ['tool-clock', 'call_2', 'output-error', undefined],
        ['tool-calendar', 'call_8', 'output-available', 1],
      ])
    },
  )

  test('shows arguments as they stream, and the progress of a tool', async () => {
    const at = { type: 'tool_input_delta', index: 1 }
    const known = { ...at, toolCallId: 'call_1', toolName: 'thermometer' }
    const events = [
      start,
      { ...at, delta: '{"ro' },
      { ...known, delta: 'om":' },
      { ...known, delta: '"bath"}' },
      status('started', { params: { room: 'bath' }, callId: 'c1' }),
      { type: 'tool_progress', callId: 'c1', toolCallId: 'call_1', partial: 'half' },
      status('completed', { result: 11, callId: 'c1' }),
      end,
    ]
    const chunks = await chunksOf(events, { toolProgress: true })
    expect(chunks.slice(2, -2)).toEqual([
      { type: 'tool-input-start', toolCallId: 'call_1', toolName: 'thermometer' },
      { type: 'tool-input-delta', toolCallId: 'call_1', inputTextDelta: '{"room":' },
      { type: 'tool-input-delta', toolCallId: 'call_1', inputTextDelta: '"bath"}' },
      {
        type: 'tool-input-available',
        toolCallId: 'call_1',
        toolName: 'thermometer',
        input: { room: 'bath' },
      },
      { type: 'tool-output-available', toolCallId: 'call_1', output: 'half', preliminary: true },
      { type: 'tool-output-available', toolCallId: 'call_1', output: 11 },
    ])
    const states: unknown[] = []
    const stream = toUIMessageStream(numbered(...events), { toolProgress: true })
    const reading = { stream: stream as ReadableStream<any>, terminateOnError: true }
    for await (const { parts } of ai.readUIMessageStream(reading)) {
      const part: any = parts.at(-1)
      if (part?.toolCallId) states.push([part.state, part.input, part.output])
    }
    expect(states).toEqual([
      ['input-streaming', undefined, undefined],
      ['input-streaming', {}, undefined],
      ['input-streaming', { room: 'bath' }, undefined],
      ['input-available', { room: 'bath' }, undefined],
      ['output-available', { room: 'bath' }, 'half'],
      ['output-available', { room: 'bath' }, 11],
    ])
  })

  test('takes dynamic tools, tools that were refused, data parts and metadata', async () => {
    const events = [
      start,
      { type: 'waiting', reason: 'overloaded', ms: 5 },
      status('failed', { summary: 'not valid' }),
      { type: 'model_switch', reason: 'overloaded' },
      end,
    ]
    const stream = toUIMessageStream(numbered(...events), {
      messageId: 'a-1',
      dynamicTools: true,
      messageMetadata: ({ type }) => ({ [type]: true }),
      data: (event) =>
        event.type === 'waiting' ? { type: 'data-waiting', data: event.ms } : undefined,
    }) as ReadableStream<any>
    let message: UIMessage | undefined
    for await (message of ai.readUIMessageStream({ stream, terminateOnError: true })) {
    }
    expect(JSON.parse(JSON.stringify(message))).toMatchObject({
      id: 'a-1',
      metadata: { stream_start: true, stream_end: true },
      parts: [
        { type: 'data-waiting', data: 5 },
        { type: 'step-start' },
        {
          type: 'dynamic-tool',
          toolName: 'thermometer',
          state: 'output-error',
          errorText: 'not valid',
        },
      ],
    })
  })
})

test.each([
  ['end_turn', [{ type: 'finish', finishReason: 'stop' }]],
  ['max_tokens', [{ type: 'finish', finishReason: 'length' }]],
  ['tool_use', [{ type: 'finish', finishReason: 'tool-calls' }]],
  ['aborted', [{ type: 'abort' }]],
  [undefined, [{ type: 'finish' }]],
])('a run that stops with `%s` ends so', async (stopReason, last) => {
  const chunks = await chunksOf([start, { ...end, stopReason }])
  expect(chunks.slice(1)).toEqual(last)
})

test('the ids of calls that come again in a later answer are told apart', async () => {
  const again = { messageId: 'm2' }
  const chunks = await chunksOf([
    start,
    status('started', { params: { n: 1 } }),
    status('completed', { result: 1 }),
    status('started', { params: { n: 2 }, ...again }),
    status('completed', { result: 2, ...again }),
    end,
  ])
  expect(chunks.filter(({ type }) => type.startsWith('tool-'))).toEqual([
    {
      type: 'tool-input-available',
      toolCallId: 'call_1',
      toolName: 'thermometer',
      input: { n: 1 },
    },
    { type: 'tool-output-available', toolCallId: 'call_1', output: 1 },
    {
      type: 'tool-input-available',
      toolCallId: 'call_1-2',
      toolName: 'thermometer',
      input: { n: 2 },
    },
    { type: 'tool-output-available', toolCallId: 'call_1-2', output: 2 },
  ])
})

test('the result of a call that did not start in this stream comes after its call', async () => {
  const chunks = await chunksOf([status('completed', { result: 1 }), end])
  expect(chunks).toEqual([
    { type: 'start-step' },
    { type: 'tool-input-available', toolCallId: 'call_1', toolName: 'thermometer', input: {} },
    { type: 'tool-output-available', toolCallId: 'call_1', output: 1 },
    { type: 'finish-step' },
    { type: 'finish', finishReason: 'stop' },
  ])
})

test('without `sendReasoning` no reasoning is sent', async () => {
  const chunks = await chunksOf(whole, { sendReasoning: false })
  expect(chunks.filter(({ type }) => type.startsWith('reasoning'))).toEqual([])
})

test('an error of the run closes what is open and ends the stream, with a text that the host may replace', async () => {
  const failed = { type: 'stream_error', error: 'Overloaded', partial: true }
  expect(await chunksOf([start, token('Half'), failed])).toEqual([
    { type: 'start', messageId: 'run-1' },
    { type: 'start-step' },
    { type: 'text-start', id: 'm1-1' },
    { type: 'text-delta', id: 'm1-1', delta: 'Half' },
    { type: 'text-end', id: 'm1-1' },
    { type: 'finish-step' },
    { type: 'error', errorText: 'Overloaded' },
  ])
  const errorText = ({ type }: { type: string }) => `something went wrong (${type})`
  expect((await chunksOf([start, failed], { errorText })).at(-1)).toEqual({
    type: 'error',
    errorText: 'something went wrong (stream_error)',
  })
})

test('a source that fails is an error with its code, and the host gets what was thrown', async () => {
  const thrown: unknown[] = []
  async function* source() {
    yield* numbered(start)
    throw new Error('/home/secret')
  }
  const chunks: UIMessageChunk[] = []
  for await (const chunk of toUIMessageStream(source(), { onError: (e) => thrown.push(e) })) {
    chunks.push(chunk)
  }
  expect(chunks).toEqual([
    { type: 'start', messageId: 'run-1' },
    { type: 'error', errorText: 'internal' },
  ])
  expect(thrown).toEqual([new Error('/home/secret')])
})

test('a source without a terminal event is interrupted', async () => {
  expect((await chunksOf([start, token('Half')])).at(-1)).toEqual({
    type: 'error',
    errorText: 'interrupted',
  })
})

test('an event’s number comes with its last chunk, and a client that has events gets what follows', async () => {
  const text = await toUIMessageStreamResponse(numbered(start, token('One '), token('two'), end), {
    headers: { 'x-own': 'yes' },
  }).text()
  expect(text).toBe(
    [
      ':',
      'id: 1\ndata: {"type":"start","messageId":"run-1"}',
      'data: {"type":"start-step"}',
      'data: {"type":"text-start","id":"m1-1"}',
      'id: 2\ndata: {"type":"text-delta","id":"m1-1","delta":"One "}',
      'id: 3\ndata: {"type":"text-delta","id":"m1-1","delta":"two"}',
      'data: {"type":"text-end","id":"m1-1"}',
      'data: {"type":"finish-step"}',
      'id: 4\ndata: {"type":"finish","finishReason":"stop"}',
      'data: [DONE]',
      '',
    ].join('\n\n'),
  )
  const rest = await toUIMessageStreamResponse(numbered(start, token('One '), token('two'), end), {
    lastEventId: 2,
  }).text()
  expect(rest).toBe(`:\n\n${text.slice(text.indexOf('id: 3'))}`)
})

test('a response has the headers of a UI message stream', () => {
  const response = toUIMessageStreamResponse(numbered(start, end), {
    headers: { 'x-own': 'yes' },
    status: 201,
  })
  expect(response.status).toBe(201)
  expect(Object.fromEntries(response.headers)).toEqual({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-vercel-ai-ui-message-stream': 'v1',
    'x-own': 'yes',
  })
})

test.each([
  [{ messageID: 'a' }, '`messageID`: is not an option'],
  [{ messageId: 5 }, '`messageId`: is not a string'],
  [{ dynamicTools: 'yes' }, '`dynamicTools`: is not a boolean'],
  [{ data: {} }, '`data`: is not a function'],
  [{ onDisconnect: 'abort' }, '`onDisconnect`: an attachment cannot abort its run'],
])('options that do not fit are refused: %j', (options, message) => {
  expect(() => toUIMessageStream(numbered(start), options as never)).toThrow(message)
})
