// The tool loop with tools in JavaScript: what the model and the tools receive, round by round. Broken tools are
// tools/tool-faults.spec.ts, schemas are tools/validation.spec.ts; it must never test those.

import { Type } from '@sinclair/typebox'
import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentToolCall,
  scriptedProvider,
  type ToolCallInfo,
} from '../../index.js'
import { context, engineAt, readAll, scriptedEngine, tempDir } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse, testServer } from '../support/servers/server.js'
import { callTools, runTools, textOf, tool, toolResultsIn } from '../support/tools.js'

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
