// Every field of an AgentResult, for every stop reason, compared as a whole.
// Events are streams/streams.spec.ts, rows are ledger/rows.spec.ts.

import { expect, test } from 'vitest'
import type { AgentEngineOptions, ScriptedReply } from '../../index.js'
import { closing, serving } from '../support/cleanup.js'
import { addTool as add } from '../support/described-tools.js'
import { context, engineAt, scriptedEngine, testModel } from '../support/engine.js'
import { scriptedLedger } from '../support/ledger/scripted-ledger.js'
import { normal } from '../support/ledger/sqlite3.js'
import { noUsage, fullUsage as usage } from '../support/ledger/turn-input.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { price } from '../support/values/prices.js'

const priced = { ...testModel, cost: price }

const scripted = (replies: ScriptedReply[], options: AgentEngineOptions = {}) =>
  scriptedLedger(replies, { models: [priced], ...options })

const query = {
  id: '#2',
  role: 'user',
  content: 'hi',
  sequence: 0,
  createdAt: 'now',
  blocks: [{ type: 'text', text: 'hi' }],
}

const from = (number: number) => ({
  provider: 'test',
  api: 'scripted',
  model: 'test-model',
  responseId: `scripted_${number}`,
})

const good = { provider: 'test', model: 'test-model', ok: true, status: 200, ms: 0 }
/** The fields that are equal in every result, unless a test overrides them. */
const common = {
  usageEstimated: false,
  tokenBudget: expect.objectContaining({ modelLimit: 200_000 }),
  durationMs: 0,
  persisted: true,
  undeliveredSteering: [],
  warnings: [],
  cacheBreaks: [],
}
/** An attempt with `usage`. */
const used = { usage: { ...usage, totalTokens: 3600 }, cost: 0.004 }

test('end_turn: messages, blocks, tool calls, the sum of usage, cost, context size and attempts', async () => {
  const { engine } = scripted([
    {
      thinking: 'two numbers',
      signature: 'c2ln',
      text: 'adding',
      toolCalls: [{ id: 'call_a', name: 'add', arguments: { a: '1', b: 2 } }],
      usage,
    },
    { text: 'it is 3', usage: { inputTokens: 10, outputTokens: 5 } },
  ])
  const since = Date.now()
  const result = await engine.run(context({ runId: 'run-whole', tools: [add] })).result
  expect(normal(result, since)).toEqual({
    turnId: '#1',
    runId: 'run-whole',
    text: 'it is 3',
    messages: [
      query,
      {
        id: '#3',
        role: 'assistant',
        content: 'adding',
        thinking: 'two numbers',
        sequence: 1,
        createdAt: 'now',
        blocks: [
          { type: 'thinking', thinking: 'two numbers', signature: 'c2ln' },
          { type: 'text', text: 'adding' },
          { type: 'tool_call', id: 'call_a', name: 'add', argumentsJson: '{"a":"1","b":2}' },
        ],
        provenance: from(1),
        providerStopReason: 'tool_use',
      },
      {
        id: '#4',
        role: 'tool',
        content: '{"sum":3}',
        sequence: 2,
        createdAt: 'now',
        toolCallId: 'call_a',
        isError: false,
        blocks: [
          {
            type: 'tool_result',
            toolCallId: 'call_a',
            toolName: 'add',
            content: [{ type: 'text', text: '{"sum":3}' }],
            isError: false,
          },
        ],
      },
      {
        id: '#5',
        role: 'assistant',
        content: 'it is 3',
        sequence: 3,
        createdAt: 'now',
        blocks: [{ type: 'text', text: 'it is 3' }],
        provenance: from(2),
        providerStopReason: 'end_turn',
      },
    ],
    blocks: [{ type: 'text', text: 'it is 3' }],
    toolCalls: [
      {
        id: 'call_a',
        toolName: 'add',
        params: { a: 1, b: 2 },
        result: { sum: 3 },
        status: 'completed',
        startedAt: 'now',
        completedAt: 'now',
        sequence: 0,
        callId: '#6',
        messageId: '#3',
      },
    ],
    usage: {
      inputTokens: 1010,
      outputTokens: 105,
      cachedInputTokens: 2000,
      cacheWriteTokens: 500,
      reasoningTokens: 40,
      totalTokens: 3615,
    },
    ...common,
    contextTokens: 15,
    cost: (1000 * 1 + 100 * 10 + 2000 * 0.5 + 500 * 2 + 10 * 1 + 5 * 10) / 1e6,
    stopReason: 'end_turn',
    attempts: [
      { ...good, ...used },
      {
        ...good,
        usage: { ...noUsage, inputTokens: 10, outputTokens: 5, totalTokens: 15 },
        cost: 0.00006,
      },
    ],
  })
})

test('max_tokens: the cut call is closed and never run', async () => {
  let ran = 0
  const { engine } = scripted([
    {
      text: 'I will',
      toolCalls: [{ id: 'call_a', name: 'add', arguments: { a: 1, b: 2 } }],
      stopReason: 'max_tokens',
      usage,
    },
  ])
  const since = Date.now()
  const tool = { ...add, run: () => ++ran }
  const result = await engine.run(context({ runId: 'r', tools: [tool] })).result
  const closed = 'This tool was not run (max_tokens).'
  const blocks = [
    { type: 'text', text: 'I will' },
    { type: 'tool_call', id: 'call_a', name: 'add', argumentsJson: '{"a":1,"b":2}' },
  ]
  expect(normal(result, since)).toEqual({
    turnId: '#1',
    runId: 'r',
    text: 'I will',
    messages: [
      query,
      {
        id: '#3',
        role: 'assistant',
        content: 'I will',
        sequence: 1,
        createdAt: 'now',
        blocks,
        provenance: from(1),
        providerStopReason: 'max_tokens',
      },
      {
        id: '#4',
        role: 'tool',
        content: closed,
        sequence: 2,
        createdAt: 'now',
        toolCallId: 'call_a',
        isError: true,
        blocks: [
          {
            type: 'tool_result',
            toolCallId: 'call_a',
            toolName: 'add',
            content: [{ type: 'text', text: closed }],
            isError: true,
          },
        ],
      },
    ],
    blocks,
    toolCalls: [
      {
        id: 'call_a',
        toolName: 'add',
        params: {},
        error: 'max_tokens',
        status: 'failed',
        startedAt: 'now',
        completedAt: 'now',
        sequence: 0,
        callId: '#5',
        messageId: '#3',
      },
    ],
    usage: { ...usage, totalTokens: 3600 },
    ...common,
    contextTokens: 3600,
    cost: 0.004,
    stopReason: 'max_tokens',
    attempts: [{ ...good, ...used }],
  })
  expect(ran).toBe(0)
})

test('tool_use: at the iteration cap the pending call is closed without another call of the model', async () => {
  const { engine, provider } = scripted([
    { toolCalls: [{ id: 'a', name: 'add', arguments: { a: 1, b: 1 } }], usage },
    { toolCalls: [{ id: 'b', name: 'add', arguments: { a: 2, b: 2 } }], usage },
    'never requested',
  ])
  const since = Date.now()
  const run = engine.run(context({ tools: [add], maxIterations: 2 }))
  const result = normal(await run.result, since)
  expect({
    ...result,
    messages: result.messages.map((message: any) => [message.role, message.content]),
    toolCalls: result.toolCalls.map((call: any) => [call.id, call.status, call.result, call.error]),
  }).toEqual({
    turnId: '#1',
    runId: result.runId,
    text: '',
    messages: [
      ['user', 'hi'],
      ['assistant', ''],
      ['tool', '{"sum":2}'],
      ['assistant', ''],
      ['tool', 'This tool was not run (iteration_limit).'],
    ],
    blocks: [{ type: 'tool_call', id: 'b', name: 'add', argumentsJson: '{"a":2,"b":2}' }],
    toolCalls: [
      ['a', 'completed', { sum: 2 }, undefined],
      ['b', 'failed', undefined, 'iteration_limit'],
    ],
    usage: {
      inputTokens: 2000,
      outputTokens: 200,
      cachedInputTokens: 4000,
      cacheWriteTokens: 1000,
      reasoningTokens: 80,
      totalTokens: 7200,
    },
    ...common,
    contextTokens: 3600,
    cost: 0.008,
    stopReason: 'tool_use',
    attempts: [
      { ...good, ...used },
      { ...good, ...used },
    ],
  })
  expect(provider.requests).toHaveLength(2)
})

test('timeout: the result has the partial text, and the error is retryable', async () => {
  const { engine } = scripted([{ steps: [{ usage }, { text: 'so far' }, { gate: 'never' }] }])
  const since = Date.now()
  const result = await engine.run(context({ runId: 'r', timeoutMs: 150 })).result
  expect(normal(result, since)).toEqual({
    turnId: '#1',
    runId: 'r',
    text: 'so far',
    messages: [
      query,
      {
        id: '#3',
        role: 'assistant',
        content: 'so far',
        sequence: 1,
        createdAt: 'now',
        blocks: [{ type: 'text', text: 'so far' }],
        provenance: from(1),
      },
    ],
    blocks: [{ type: 'text', text: 'so far' }],
    toolCalls: [],
    usage: { ...usage, totalTokens: 3600 },
    ...common,
    contextTokens: null,
    cost: 0.004,
    stopReason: 'timeout',
    error: {
      kind: 'timeout',
      message: 'the run reached `timeoutMs`; raise it, or request less',
      retryable: true,
      detail: { kind: 'timeout', code: 'run_timeout' },
    },
    attempts: [
      { provider: 'test', model: 'test-model', ok: false, reason: 'timeout', ms: 0, ...used },
    ],
  })
  expect(result.durationMs).toBeGreaterThanOrEqual(150)
})

test('aborted: the result has the partial text, and no error', async () => {
  const { engine } = scripted([
    { steps: [{ usage }, { thinking: 'hm' }, { text: 'so far' }, { gate: 'never' }] },
  ])
  const since = Date.now()
  const run = engine.run(context({ runId: 'r' }))
  for await (const event of run) if (event.type === 'token') run.abort()
  expect(normal(await run.result, since)).toEqual({
    turnId: '#1',
    runId: 'r',
    text: 'so far',
    messages: [
      query,
      {
        id: '#3',
        role: 'assistant',
        content: 'so far',
        thinking: 'hm',
        sequence: 1,
        createdAt: 'now',
        blocks: [
          { type: 'thinking', thinking: 'hm' },
          { type: 'text', text: 'so far' },
        ],
        provenance: from(1),
      },
    ],
    blocks: [
      { type: 'thinking', thinking: 'hm' },
      { type: 'text', text: 'so far' },
    ],
    toolCalls: [],
    usage: { ...usage, totalTokens: 3600 },
    ...common,
    contextTokens: null,
    cost: 0.004,
    stopReason: 'aborted',
    attempts: [
      { provider: 'test', model: 'test-model', ok: false, reason: 'aborted', ms: 0, ...used },
    ],
  })
})

test('aborted while a tool runs: its call is closed, and a later return value is not in the result', async () => {
  const { engine } = scripted([
    {
      toolCalls: [
        { id: 'a', name: 'slow', arguments: { a: '1' } },
        { id: 'b', name: 'slow', arguments: { a: 2 } },
      ],
      usage,
    },
  ])
  const since = Date.now()
  let finish: (value: string) => void = () => {}
  const late = new Promise<string>((resolve) => {
    finish = resolve
  })
  const parameters = { type: 'object', properties: { a: { type: 'number' } } }
  const run = engine.run(context({ tools: [{ name: 'slow', parameters, run: () => late }] }))
  for await (const event of run) {
    if (event.type === 'tool_status' && event.status === 'started') run.abort()
  }
  finish('too late')
  const result = normal(await run.result, since)
  expect(result.toolCalls).toEqual([
    {
      id: 'a',
      toolName: 'slow',
      params: { a: 1 },
      error: 'aborted',
      status: 'failed',
      startedAt: 'now',
      completedAt: 'now',
      sequence: 0,
      callId: '#6',
      messageId: '#3',
    },
    {
      id: 'b',
      toolName: 'slow',
      params: {},
      error: 'aborted',
      status: 'failed',
      startedAt: 'now',
      completedAt: 'now',
      sequence: 1,
      callId: '#7',
      messageId: '#3',
    },
  ])
  expect(
    result.messages.slice(2).map((message: any) => [message.toolCallId, message.content]),
  ).toEqual([
    ['a', 'The run ended (aborted) while this tool ran; its outcome is unknown.'],
    ['b', 'This tool was not run (aborted).'],
  ])
})

test('error: only the query, and the finer kind beside the kind', async () => {
  const { engine } = scripted([
    { error: { status: 400, code: 'bad_thing', message: 'no such thing' } },
  ])
  const since = Date.now()
  const result = await engine.run(context({ runId: 'r' })).result
  expect(normal(result, since)).toEqual({
    turnId: '#1',
    runId: 'r',
    text: '',
    messages: [query],
    blocks: [],
    toolCalls: [],
    usage: noUsage,
    ...common,
    contextTokens: null,
    cost: 0,
    stopReason: 'error',
    error: {
      kind: 'model_error',
      message: 'no such thing',
      retryable: false,
      detail: { kind: 'format', status: 400, code: 'bad_thing' },
    },
    attempts: [
      {
        provider: 'test',
        model: 'test-model',
        ok: false,
        status: 400,
        reason: 'format',
        ms: 0,
      },
    ],
  })
})

test('the context size is that of the last successful call, also when a later one fails', async () => {
  const { engine } = scripted([
    { toolCalls: [{ id: 'a', name: 'add', arguments: { a: 1, b: 1 } }], usage },
    { error: { status: 400, message: 'no' } },
  ])
  const result = await engine.run(context({ tools: [add] })).result
  expect([result.stopReason, result.contextTokens, result.usage.totalTokens]).toEqual([
    'error',
    3600,
    3600,
  ])
})

test('without a price the cost is null, and without reported usage the usage is marked as estimated', async () => {
  const { engine } = scripted(['twelve chars'], { models: [testModel] })
  const result = await engine.run(context()).result
  expect([result.cost, result.usageEstimated]).toEqual([null, true])
  expect(result.usage.outputTokens).toBe(3)
})

test('without a ledger the result is the same, with `persisted: false`', async () => {
  const { engine } = scriptedEngine([{ text: 'hello', usage }], { models: [priced] })
  closing(engine)
  const since = Date.now()
  const result = await engine.run(context({ runId: 'r' })).result
  expect(normal(result, since)).toEqual({
    turnId: '#1',
    runId: 'r',
    text: 'hello',
    messages: [
      query,
      {
        id: '#3',
        role: 'assistant',
        content: 'hello',
        sequence: 1,
        createdAt: 'now',
        blocks: [{ type: 'text', text: 'hello' }],
        provenance: from(1),
        providerStopReason: 'end_turn',
      },
    ],
    blocks: [{ type: 'text', text: 'hello' }],
    toolCalls: [],
    usage: { ...usage, totalTokens: 3600 },
    ...common,
    contextTokens: 3600,
    cost: 0.004,
    stopReason: 'end_turn',
    persisted: false,
    attempts: [{ ...good, ...used }],
  })
})

test('over HTTP: the result has the profile, the status, the response id and every kind of usage', async () => {
  const server = await serving(
    (response) => {
      response.writeHead(529, { 'content-type': 'application/json', 'retry-after-ms': '1' })
      response.end('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')
    },
    sse(
      anthropic.start({ input: 1000, cached: 2000, cacheWrite: 500 }, 'msg_77'),
      anthropic.thinking(0, 'hm', 'c2lnbmF0dXJl'),
      anthropic.blockStart(1, { type: 'redacted_thinking', data: 'b3BhcXVl' }),
      anthropic.blockStop(1),
      anthropic.text(2, 'Hel', 'lo'),
      anthropic.end('end_turn', { output: 100 }),
    ),
  )
  const engine = closing(engineAt(server.url, { models: [priced] }))
  const since = Date.now()
  const result = await engine.run(context({ runId: 'r' })).result
  const blocks = [
    { type: 'thinking', thinking: 'hm', signature: 'c2lnbmF0dXJl' },
    { type: 'redacted_thinking', data: 'b3BhcXVl' },
    { type: 'text', text: 'Hello' },
  ]
  expect(normal(result, since)).toEqual({
    turnId: '#1',
    runId: 'r',
    text: 'Hello',
    messages: [
      query,
      {
        id: '#3',
        role: 'assistant',
        content: 'Hello',
        thinking: 'hm',
        sequence: 1,
        createdAt: 'now',
        blocks,
        provenance: {
          provider: 'test',
          api: 'anthropic-messages',
          model: 'test-model',
          responseId: 'msg_77',
        },
        providerStopReason: 'end_turn',
      },
    ],
    blocks,
    toolCalls: [],
    usage: {
      inputTokens: 1000,
      outputTokens: 100,
      cachedInputTokens: 2000,
      cacheWriteTokens: 500,
      reasoningTokens: 0,
      totalTokens: 3600,
    },
    ...common,
    contextTokens: 3600,
    cost: 0.004,
    stopReason: 'end_turn',
    persisted: false,
    attempts: [
      {
        provider: 'test',
        model: 'test-model',
        profileId: 'p1',
        ok: false,
        status: 529,
        reason: 'overloaded',
        ms: 0,
      },
      { ...good, ...used, usage: { ...used.usage, reasoningTokens: 0 }, profileId: 'p1' },
    ],
  })
})

test('a return value that JSON cannot represent is in the result as it is, and in the ledger as far as JSON can represent it', async () => {
  const { engine } = scripted([{ toolCalls: [{ id: 'a', name: 'made' }] }, 'done'])
  const made = { content: [{ type: 'text' as const, text: 'x' }], details: { big: 1n } }
  const result = await engine.run(context({ tools: [{ name: 'made', run: () => made }] })).result
  expect(result.toolCalls[0]?.result).toBe(made)
  const turn = await engine.ledger.turn(result.turnId)
  expect(turn?.toolCalls[0]?.result).toEqual({ content: made.content })
})
