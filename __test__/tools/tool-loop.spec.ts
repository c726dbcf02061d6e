// The tool loop with tools in JavaScript: order, overlap, limits, retries, and what the model receives. Broken tools are in
// tools/tool-faults.spec.ts, schemas in tools/validation.spec.ts; it must never test those.

import { Type } from '@sinclair/typebox'
import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentToolCall,
  type PlainTool,
  scriptedProvider,
  type ToolCallInfo,
} from '../../index.js'
import { context, engineAt, readAll, scriptedEngine, tempDir } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse, testServer } from '../support/servers/server.js'
import {
  callTools,
  deferred,
  outline,
  runTools,
  textOf,
  tool,
  toolResultsIn,
} from '../support/tools.js'

const text = (value: string) => [{ type: 'text', text: value }]

test('a string is sent as text, and the call has the string', async () => {
  const { result, toolResults, requests } = await runTools(
    [tool('clock', () => 'noon')],
    [callTools(['clock', { zone: 'UTC' }])],
  )
  expect(result.stopReason).toBe('end_turn')
  expect(requests).toBe(2)
  expect(toolResults).toEqual([
    { toolCallId: 'call_1', toolName: 'clock', content: text('noon'), isError: false },
  ])
  expect(result.toolCalls.map(outline)).toEqual([
    {
      id: 'call_1',
      toolName: 'clock',
      params: { zone: 'UTC' },
      result: 'noon',
      error: undefined,
      status: 'completed',
      sequence: 0,
    },
  ])
})

test.each<[string, unknown, string]>([
  ['an object', { a: [1, { b: null }] }, '{"a":[1,{"b":null}]}'],
  ['an array', [1, 'two', false], '[1,"two",false]'],
  ['a number', 42.5, '42.5'],
  ['false', false, 'false'],
  ['null', null, 'null'],
  ['a date', new Date(0), '"1970-01-01T00:00:00.000Z"'],
])('%s is told as JSON, and the call holds the very value', async (_, value, json) => {
  const { result, toolResults } = await runTools([tool('t', () => value)], [callTools(['t'])])
  expect(toolResults).toEqual([
    { toolCallId: 'call_1', toolName: 't', content: text(json), isError: false },
  ])
  expect(result.toolCalls[0]?.status).toBe('completed')
  expect(result.toolCalls[0]?.result).toBe(value)
})

test("a result in pi's shape is sent as its content; the same object, details included, is in the result", async () => {
  const details = { handle: () => 1, big: 5n, self: {} as unknown }
  details.self = details
  const value = {
    content: [
      { type: 'text' as const, text: 'a picture' },
      { type: 'image' as const, data: 'iVBORw0=', mimeType: 'image/png' },
    ],
    details,
  }
  const { result, toolResults } = await runTools([tool('t', async () => value)], [callTools(['t'])])
  expect(toolResults[0]?.content).toEqual([
    { type: 'text', text: 'a picture' },
    { type: 'image', mimeType: 'image/png', data: 'iVBORw0=' },
  ])
  expect(result.toolCalls[0]?.result).toBe(value)
  expect((result.toolCalls[0]?.result as typeof value).details).toBe(details)
})

test('a pi result with isError is a failure for the model, and the call has the object with its details', async () => {
  const value = {
    content: [{ type: 'text', text: 'no such row' }],
    details: { row: 7 },
    isError: true,
  }
  const { result, toolResults } = await runTools([tool('t', () => value)], [callTools(['t'])])
  expect(toolResults).toEqual([
    { toolCallId: 'call_1', toolName: 't', content: text('no such row'), isError: true },
  ])
  expect(result.stopReason).toBe('end_turn')
  expect(result.toolCalls[0]).toMatchObject({ status: 'failed', error: 'no such row' })
  expect(result.toolCalls[0]?.result).toBe(value)
})

test.each([
  ['no blocks', []],
  ['an empty text', [{ type: 'text', text: '' }]],
])('a result with %s is a completed call, and the run goes on', async (_, content) => {
  const { result, requests } = await runTools([tool('t', () => ({ content }))], [callTools(['t'])])
  expect(requests).toBe(2)
  expect(result.stopReason).toBe('end_turn')
  expect(result.toolCalls[0]?.status).toBe('completed')
})

test("a tool in pi's shape gets the provider's call id, its arguments, a signal, onUpdate, and its idempotency key", async () => {
  const seen: unknown[][] = []
  const updates: unknown[] = []
  const partial = { content: [], details: { done: 0.5 } }
  const pi = {
    name: 'pi_tool',
    label: 'A label for people',
    description: 'Does it.',
    parameters: Type.Object({ n: Type.Number(), s: Type.Optional(Type.String()) }),
    async execute(...args: unknown[]) {
      seen.push(args)
      ;(args[3] as (partial: unknown) => void)(partial)
      return { content: [{ type: 'text', text: 'ok' }], details: undefined }
    },
  }
  const { engine } = scriptedEngine([
    { toolCalls: [{ id: 'toolu_7', name: 'pi_tool', arguments: { n: 1 } }] },
    'done',
  ])
  const run = engine.run(context({ tools: [pi] }), {
    onToolUpdate: (payload) => updates.push(payload),
  })
  const result = await run.result
  await engine.close()
  const info = {
    toolCallId: 'toolu_7',
    idempotencyKey: result.toolCalls[0]?.callId,
    signal: expect.any(AbortSignal),
    onUpdate: expect.any(Function),
  }
  expect(seen).toEqual([['toolu_7', { n: 1 }, expect.any(AbortSignal), expect.any(Function), info]])
  expect((seen[0]?.[2] as AbortSignal).aborted).toBe(false)
  expect(updates).toEqual([{ toolCallId: 'toolu_7', toolName: 'pi_tool', partial }])
  expect((updates[0] as { partial: unknown }).partial).toBe(partial)
  expect(result.toolCalls[0]).toMatchObject({ id: 'toolu_7', status: 'completed' })
})

test('a method is called with its `this`', async () => {
  class Counter {
    name = 'counter'
    description = ''
    parameters = { type: 'object' }
    count = 41
    async execute() {
      return String(++this.count)
    }
  }
  const { toolResults } = await runTools([new Counter()], [callTools(['counter'])])
  expect(textOf(toolResults[0])).toBe('42')
})

test("a plain tool receives the provider's id, the idempotency key of its call, a signal and onUpdate", async () => {
  const infos: ToolCallInfo[] = []
  const plain = tool('t', (_, call) => {
    infos.push(call)
    return 'ok'
  })
  const { result } = await runTools([plain], [callTools(['t'], ['t'])])
  expect(infos.map((info) => [info.toolCallId, info.idempotencyKey])).toEqual(
    result.toolCalls.map((call) => [call.id, call.callId]),
  )
  expect(new Set(infos.map((info) => info.idempotencyKey)).size).toBe(2)
  expect(infos[0]?.idempotencyKey).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/)
  expect(infos[0]?.signal.aborted).toBe(false)
})

test('the model receives name, description and schema, and neither label nor policy', async () => {
  const server = await testServer(sse(anthropic.answer('hi')))
  const parameters = Type.Object({ path: Type.String({ description: 'A path' }) })
  const engine = engineAt(server.url)
  await engine.run(
    context({
      tools: [
        {
          name: 'read',
          label: 'Secret label',
          description: 'Reads.',
          parameters,
          execute: () => '',
        },
        { name: 'plain', label: 'Other label', timeoutMs: 5, run: () => '' },
      ],
    }),
  ).result
  await engine.close()
  await server.close()
  expect(server.seen[0]?.body.tools).toMatchObject([
    {
      name: 'read',
      description: 'Reads.',
      input_schema: {
        type: 'object',
        required: ['path'],
        properties: { path: { type: 'string', description: 'A path' } },
      },
    },
    { name: 'plain', input_schema: { type: 'object', properties: {} } },
  ])
  expect(server.seen[0]?.raw).not.toContain('label')
  expect(server.seen[0]?.raw).not.toContain('timeoutMs')
})

test('model, tools, model: each round has the results of the previous one, in both protocols', async () => {
  const add = tool('add', ({ a, b }: { a: number; b: number }) => a + b)
  for (const api of ['anthropic-messages', 'openai-chat'] as const) {
    const server =
      api === 'anthropic-messages'
        ? await testServer(
            sse(anthropic.calls(['c1', 'add', { a: 1, b: 2 }])),
            sse(anthropic.calls(['c2', 'add', { a: 3, b: 4 }])),
            sse(anthropic.answer('10')),
          )
        : await testServer(
            sse(chat.calls(['c1', 'add', { a: 1, b: 2 }])),
            sse(chat.calls(['c2', 'add', { a: 3, b: 4 }])),
            sse(chat.answer('10')),
          )
    const engine = engineAt(server.url, {}, { api })
    const result = await engine.run(context({ tools: [add] })).result
    await engine.close()
    await server.close()
    expect(result.stopReason).toBe('end_turn')
    expect(result.toolCalls.map((call) => [call.id, call.result, call.sequence])).toEqual([
      ['c1', 3, 0],
      ['c2', 7, 1],
    ])
    expect(server.seen).toHaveLength(3)
    const messages = server.seen[2]?.body.messages.slice(-4)
    if (api === 'anthropic-messages') {
      expect(messages.map((message: { role: string }) => message.role)).toEqual([
        'assistant',
        'user',
        'assistant',
        'user',
      ])
      expect(messages[3].content[0]).toMatchObject({ type: 'tool_result', tool_use_id: 'c2' })
      expect(JSON.stringify(messages[3].content[0].content)).toContain('7')
    } else {
      expect(messages.map((message: { role: string }) => message.role)).toEqual([
        'assistant',
        'tool',
        'assistant',
        'tool',
      ])
      expect(messages[3]).toMatchObject({ tool_call_id: 'c2', content: '7' })
    }
    // The request for call n+1 begins with the messages of call n (docs/rules/compaction.md#prompt-cache-stability).
    const first = JSON.stringify(server.seen[1]?.body.messages.slice(0, 1))
    expect(JSON.stringify(server.seen[2]?.body.messages.slice(0, 1))).toBe(first)
  }
})

test.each([
  [undefined, 25],
  [1, 1],
  [3, 3],
])(
  'with maxIterations %s the model is called %i times, and then every pending call is closed',
  async (maxIterations, calls) => {
    let executed = 0
    const { engine, provider } = scriptedEngine(
      Array.from({ length: 30 }, () => callTools(['again'])),
    )
    const run = engine.run(
      context({
        tools: [
          tool('again', () => {
            executed++
            return 'ok'
          }),
        ],
        ...(maxIterations === undefined ? {} : { maxIterations }),
      }),
    )
    const events = await readAll(run)
    const result = await run.result
    await engine.close()
    expect(provider.requests).toHaveLength(calls)
    expect(result.stopReason).toBe('tool_use')
    expect(executed).toBe(calls - 1)
    expect(result.toolCalls).toHaveLength(calls)
    expect(result.toolCalls.at(-1)).toMatchObject({ status: 'failed', error: 'iteration_limit' })
    expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
  },
)

test('results are sent in call order, for any order of finishing', async () => {
  const gates = Object.fromEntries(['a', 'b', 'c'].map((name) => [name, deferred<string>()]))
  const finished: string[] = []
  let started = 0
  const all = ['a', 'b', 'c'].map((name) =>
    tool(
      name,
      async () => {
        // Once all run, they are released in the opposite order, each after the previous one has finished.
        if (++started === 3) gates.c?.resolve('c')
        const value = await gates[name]?.promise
        finished.push(name)
        const next = { c: 'b', b: 'a', a: '' }[name] ?? ''
        gates[next]?.resolve(next)
        return value
      },
      { executionMode: 'parallel' },
    ),
  )
  const { result, toolResults, events } = await runTools(all, [callTools(['a'], ['b'], ['c'])])
  expect(finished).toEqual(['c', 'b', 'a'])
  expect(toolResults.map((one) => [one.toolName, textOf(one)])).toEqual([
    ['a', 'a'],
    ['b', 'b'],
    ['c', 'c'],
  ])
  expect(result.toolCalls.map((call) => call.toolName)).toEqual(['a', 'b', 'c'])
  const statuses = events.flatMap((event) => (event.type === 'tool_status' ? [event] : []))
  expect(statuses.map((event) => event.status).slice(0, 3)).toEqual([
    'started',
    'started',
    'started',
  ])
  expect(statuses.slice(3).map((event) => event.status)).toEqual([
    'completed',
    'completed',
    'completed',
  ])
})

test('sequential tools never overlap, and begin in call order', async () => {
  let running = 0
  let most = 0
  const order: number[] = []
  const one = tool('one', async ({ n }: { n: number }) => {
    order.push(n)
    most = Math.max(most, ++running)
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
    running--
    return n
  })
  const { result } = await runTools(
    [one],
    [callTools(...Array.from({ length: 8 }, (_, n): [string, unknown] => ['one', { n }]))],
  )
  expect(most).toBe(1)
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  expect(result.toolCalls.map((call) => call.result)).toEqual(order)
})

test('parallel tools overlap: all of them run before any of them ends', async () => {
  const all = deferred<void>()
  let running = 0
  const one = tool(
    'one',
    async () => {
      if (++running === 6) all.resolve()
      await all.promise
      return running
    },
    { executionMode: 'parallel' },
  )
  const { result } = await runTools(
    [one],
    [callTools(...Array.from({ length: 6 }, (): [string] => ['one']))],
  )
  expect(result.toolCalls.map((call) => call.result)).toEqual([6, 6, 6, 6, 6, 6])
})

test('a sequential call waits for the parallel ones before it, and those after it wait for it', async () => {
  const log: string[] = []
  const running = new Set<string>()
  const both = deferred<void>()
  const overlap = async (id: string) => {
    running.add(id)
    log.push(`+${id}`)
    if (running.has('p1') && running.has('p2')) both.resolve()
    if (id === 'p1' || id === 'p2') await both.promise
    for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve))
    if (id === 's') expect([...running]).toEqual(['s'])
    running.delete(id)
    log.push(`-${id}`)
    return id
  }
  const parallel = tool('p', ({ id }: { id: string }) => overlap(id), { executionMode: 'parallel' })
  const sequential = tool('s', ({ id }: { id: string }) => overlap(id))
  const { result } = await runTools(
    [parallel, sequential],
    [callTools(['p', { id: 'p1' }], ['p', { id: 'p2' }], ['s', { id: 's' }], ['p', { id: 'p3' }])],
  )
  expect(log.slice(0, 2)).toEqual(['+p1', '+p2'])
  expect(log.slice(4)).toEqual(['+s', '-s', '+p3', '-p3'])
  expect(result.toolCalls.map((call) => call.result)).toEqual(['p1', 'p2', 's', 'p3'])
})

test.each<[string, Partial<PlainTool>, object, object]>([
  [
    "the tool's own timeoutMs",
    { timeoutMs: 30 },
    { toolTimeoutMs: 60_000 },
    { toolTimeoutMs: 60_000 },
  ],
  ["the context's toolTimeoutMs", {}, { toolTimeoutMs: 30 }, { toolTimeoutMs: 60_000 }],
  ["the engine's toolTimeoutMs", {}, {}, { toolTimeoutMs: 30 }],
])(
  '%s bounds a tool that never answers; its signal is aborted and the run goes on',
  async (_, policy, changes, options) => {
    let signal: AbortSignal | undefined
    const never = tool(
      'never',
      (_, call) => {
        signal = call.signal
        return new Promise(() => {})
      },
      policy,
    )
    const { result, toolResults, requests } = await runTools(
      [never],
      [callTools(['never'])],
      changes,
      options,
    )
    expect(requests).toBe(2)
    expect(toolResults[0]).toMatchObject({
      isError: true,
      content: text('Tool never timed out after 30 ms.'),
    })
    expect(result.toolCalls[0]).toMatchObject({
      status: 'failed',
      error: 'Tool never timed out after 30 ms.',
    })
    expect(result.stopReason).toBe('end_turn')
    expect(signal?.aborted).toBe(true)
  },
)

test("without a limit the run's remaining time bounds a tool, and the run ends as a timeout", async () => {
  const never = tool('never', () => new Promise(() => {}))
  const { result, requests, events } = await runTools([never], [callTools(['never'])], {
    timeoutMs: 60,
  })
  expect(result.stopReason).toBe('timeout')
  expect(requests).toBe(1)
  expect(result.toolCalls[0]).toMatchObject({ status: 'failed', error: 'interrupted' })
  expect(events.at(-1)?.type).toBe('stream_error')
})

test.each(['pure', 'idempotent'] as const)(
  'a %s tool is tried again as often as it declares, with the same idempotency key',
  async (replay) => {
    const keys: string[] = []
    const flaky = tool(
      'flaky',
      (_, call) => {
        keys.push(call.idempotencyKey)
        if (keys.length < 3) throw new Error(`try ${keys.length}`)
        return 'third time'
      },
      { replay, retries: 2 },
    )
    const { result, toolResults, events } = await runTools([flaky], [callTools(['flaky'])])
    expect(keys).toHaveLength(3)
    expect(new Set(keys)).toEqual(new Set([result.toolCalls[0]?.callId]))
    expect(textOf(toolResults[0])).toBe('third time')
    expect(toolResults[0]?.isError).toBe(false)
    expect(events.flatMap((event) => (event.type === 'tool_status' ? [event.status] : []))).toEqual(
      ['started', 'completed'],
    )
  },
)

test('retries end: the last failure is sent', async () => {
  let tries = 0
  const broken = tool(
    'broken',
    () => {
      throw new Error(`try ${++tries}`)
    },
    { replay: 'pure', retries: 2 },
  )
  const { toolResults } = await runTools([broken], [callTools(['broken'])])
  expect(tries).toBe(3)
  expect(toolResults[0]).toMatchObject({ isError: true, content: text('try 3') })
})

test('without retries a failing tool runs once', async () => {
  let tries = 0
  const broken = tool(
    'broken',
    () => {
      tries++
      throw new Error('no')
    },
    { replay: 'pure' },
  )
  await runTools([broken], [callTools(['broken'])])
  expect(tries).toBe(1)
})

test('a result after its own time limit is never the result of the retry', async () => {
  const first = deferred<string>()
  const second = deferred<string>()
  const signals: AbortSignal[] = []
  const slow = tool(
    'slow',
    (_, call) => {
      signals.push(call.signal)
      if (signals.length === 1) return first.promise
      // The first execution returns now, late; it must not replace the second.
      first.resolve('late')
      setImmediate(() => setImmediate(() => second.resolve('in time')))
      return second.promise
    },
    { replay: 'pure', retries: 1, timeoutMs: 100 },
  )
  const { result, toolResults } = await runTools([slow], [callTools(['slow'])])
  expect(textOf(toolResults[0])).toBe('in time')
  expect(result.toolCalls[0]?.result).toBe('in time')
  expect(signals.map((signal) => signal.aborted)).toEqual([true, false])
})

test('a late first result does not affect the signal of the retry', async () => {
  const first = deferred<string>()
  const signals: AbortSignal[] = []
  const aborted = deferred<void>()
  const slow = tool(
    'slow',
    (_, call) => {
      signals.push(call.signal)
      if (signals.length === 1) return first.promise
      first.resolve('late')
      call.signal.addEventListener('abort', () => aborted.resolve())
      return new Promise(() => {})
    },
    { replay: 'pure', retries: 1, timeoutMs: 80 },
  )
  const { toolResults } = await runTools([slow], [callTools(['slow'])])
  expect(toolResults[0]).toMatchObject({
    isError: true,
    content: text('Tool slow timed out after 80 ms.'),
  })
  await aborted.promise
  expect(signals.map((signal) => signal.aborted)).toEqual([true, true])
})

test('the result of an unknown tool has the names of the known ones; the others run', async () => {
  const { result, toolResults } = await runTools(
    [tool('read', () => 'r'), tool('write', () => 'w')],
    [callTools(['raed'], ['write'])],
  )
  expect(toolResults.map((one) => [one.isError, textOf(one)])).toEqual([
    [true, 'Tool raed not found. Available tools: read, write'],
    [false, 'w'],
  ])
  expect(result.toolCalls.map((call) => [call.toolName, call.status, call.params])).toEqual([
    ['raed', 'failed', {}],
    ['write', 'completed', {}],
  ])
})

test('names of JavaScript itself are names like others', async () => {
  const names = ['constructor', '__proto__', 'toString', 'then']
  const { toolResults } = await runTools(
    names.map((name) => tool(name, () => `my ${name}`)),
    [callTools(...names.map((name): [string] => [name]), ['hasOwnProperty'])],
  )
  expect(toolResults.map(textOf)).toEqual([
    ...names.map((name) => `my ${name}`),
    `Tool hasOwnProperty not found. Available tools: ${names.join(', ')}`,
  ])
})

test('a tool’s changes of its arguments affect neither the record nor the next call', async () => {
  const seen: unknown[] = []
  const rude = tool('rude', (params: { list: number[]; __proto__?: unknown }) => {
    seen.push(structuredClone(params))
    params.list.length = 0
    return 'ok'
  })
  const { result } = await runTools(
    [rude],
    [callTools(['rude', { list: [1, 2] }], ['rude', { list: [1, 2] }])],
  )
  expect(seen).toEqual([{ list: [1, 2] }, { list: [1, 2] }])
  expect(result.toolCalls.map((call) => call.params)).toEqual(seen)
})

test('an own key `__proto__` in the arguments reaches the tool as a key', async () => {
  let keys: string[] = []
  const { engine } = scriptedEngine([
    { toolCalls: [{ name: 't', argumentsText: '{"__proto__":{"polluted":true},"a":1}' }] },
    'done',
  ])
  await engine.run(
    context({
      tools: [
        tool('t', (params: object) => {
          keys = Object.keys(params)
          return 'ok'
        }),
      ],
    }),
  ).result
  await engine.close()
  expect(keys).toEqual(['__proto__', 'a'])
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
})

test('the text before the calls, the calls and their results are one turn in result and ledger', async () => {
  const dir = tempDir()
  const { engine } = scriptedEngine(
    [{ text: 'Let me see. ', toolCalls: [{ name: 't', arguments: { n: 1 } }] }, { text: 'Done.' }],
    { ledger: { path: dir.file } },
  )
  const details = { only: () => 'here' }
  const result = await engine.run(
    context({
      tools: [tool('t', () => ({ content: [{ type: 'text', text: 'one' }], details }))],
    }),
  ).result
  const row = await engine.ledger.turn(result.turnId)
  await engine.close()
  dir.remove()
  expect(result.messages.map((message) => message.role)).toEqual([
    'user',
    'assistant',
    'tool',
    'assistant',
  ])
  const stored = row?.toolCalls as unknown as AgentToolCall[]
  expect(stored).toHaveLength(1)
  expect(stored[0]).toMatchObject({ toolName: 't', status: 'completed' })
  expect(JSON.stringify(stored[0])).toContain('one')
})

test('two concurrent runs call their own tools', async () => {
  // A script each: with one for both, the order of the replies would be undefined.
  const script = () => scriptedProvider([callTools(['t']), 'done'])
  const engine = new AgentEngine({ providers: { left: script(), right: script() } })
  const results = await Promise.all(
    ['left', 'right'].map(
      (side) =>
        engine.run(context({ sessionLabel: side, provider: side, tools: [tool('t', () => side)] }))
          .result,
    ),
  )
  await engine.close()
  expect(results.map((result) => result.toolCalls.map((call) => call.result))).toEqual([
    ['left'],
    ['right'],
  ])
})

test('the result of a call is sent again in the next round, unchanged', async () => {
  let n = 0
  const { engine, provider } = scriptedEngine([callTools(['t']), callTools(['t']), 'done'])
  await engine.run(context({ tools: [tool('t', () => `answer ${++n}`)] })).result
  const requests = provider.requests
  await engine.close()
  expect(requests.map((request) => toolResultsIn(request.messages).map(textOf))).toEqual([
    [],
    ['answer 1'],
    ['answer 1', 'answer 2'],
  ])
})
