// Chat Completions end to end: the requests, the answers, and what is sent back in the next call. It asserts on the raw requests
// of a loopback server and must never read internal state of the engine.

import { describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext } from '../../index.js'
import { describedTool, echoTool } from '../support/described-tools.js'
import { context, engineAt, tempDir, testModel, textOf } from '../support/engine.js'
import { chat } from '../support/servers/chat.js'
import { type Seen, sse } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'
import { image, pictureTool, pointSchema, wholeContext } from '../support/values/whole-context.js'

const server = serverPerTest(() => sse(chat.answer('ok')))

const engineFor = (options: AgentEngineOptions = {}, provider: Record<string, unknown> = {}) =>
  engineAt(`${server.url}/v1`, options, { api: 'openai-chat', ...provider })

/** One run against the server with an engine of its own. */
const runOnce = (
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
  provider: Record<string, unknown> = {},
) => singleRun(engineFor(options, provider), changes)

const thinker = { ...testModel, id: 'thinker', reasoning: true, temperature: false }

/** The body up to the end of its messages: model, tools and the messages so far. */
const prefix = (seen: Seen) => seen.raw.slice(0, seen.raw.lastIndexOf('],"stream"'))

describe('the request', () => {
  test('has the whole context in the API’s form, and nothing else', async () => {
    const schema = pointSchema
    await runOnce({
      ...wholeContext(),
    })
    expect(server.seen.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /v1/chat/completions',
    ])
    expect(server.seen[0]?.body).toEqual({
      model: 'test-model',
      tools: [
        { type: 'function', function: { name: 'plot', description: 'Plots.', parameters: schema } },
      ],
      messages: [
        { role: 'system', content: 'Be "brief".' },
        { role: 'user', content: 'earlier' },
        { role: 'assistant', content: 'answer' },
        { role: 'user', content: 'now' },
      ],
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 1_000,
      temperature: 0.25,
    })
  })

  test('has the key as a bearer, and the headers of the options', async () => {
    await runOnce({}, {}, { headers: { 'openai-organization': 'org-1' } })
    const headers = server.seen[0]?.headers ?? {}
    expect(headers).toMatchObject({
      authorization: 'Bearer sk-test-canary-0123456789',
      'openai-organization': 'org-1',
      'accept-encoding': 'identity',
    })
    expect([headers['x-api-key'], headers['anthropic-version']]).toEqual([undefined, undefined])
  })

  test('has an effort for a reasoning model, and no temperature', async () => {
    const options = { models: [testModel, thinker] }
    await runOnce(
      { model: 'thinker', temperature: 0.5, thinkingConfig: { effort: 'low' } },
      options,
    )
    await runOnce({ thinkingConfig: { effort: 'low' } }, options)
    const sent = server.seen.map(({ body }) => [body.reasoning_effort, body.temperature])
    expect(sent).toEqual([
      ['low', undefined],
      [undefined, undefined],
    ])
  })

  test('has images as data URLs; those of a tool follow in a user message', async () => {
    server.use(sse(chat.calls(['call_1', 'picture', {}])), sse(chat.answer('seen')))
    await runOnce({
      currentMessage: { role: 'user', content: [{ type: 'text', text: 'what?' }, image] },
      tools: [pictureTool],
    })
    const sent = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } }
    const messages = server.seen[1]?.body.messages
    expect(messages[1]).toEqual({ role: 'user', content: [{ type: 'text', text: 'what?' }, sent] })
    expect(messages[3]).toEqual({ role: 'tool', tool_call_id: 'call_1', content: 'here' })
    expect(messages[4]).toEqual({
      role: 'user',
      content: [{ type: 'text', text: 'Image from tool `picture` (call `call_1`):' }, sent],
    })
  })
})

describe('the answer', () => {
  test('streams each delta as one event', async () => {
    server.use(
      sse(
        chat.delta({ role: 'assistant', reasoning_content: 'hm' }),
        chat.text('Hel', 'lo'),
        chat.finish('stop'),
        chat.usage(12, 3),
        chat.done(),
      ),
    )
    const { events, result } = await runOnce()
    expect(
      events.map((event) => ('text' in event ? `${event.type} ${event.text}` : event.type)),
    ).toEqual(['stream_start', 'reasoning hm', 'token Hel', 'token lo', 'usage', 'stream_end'])
    expect(result.messages.at(-1)).toMatchObject({
      content: 'Hello',
      thinking: 'hm',
      providerStopReason: 'stop',
      provenance: { api: 'openai-chat', responseId: 'chatcmpl-1' },
    })
  })

  test('may be one JSON completion although a stream was requested', async () => {
    server.use((response) => {
      response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(
        JSON.stringify({
          id: 'whole',
          choices: [
            { index: 0, message: { role: 'assistant', content: 'whole' }, finish_reason: 'stop' },
          ],
          usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
        }),
      )
    })
    const { events, result } = await runOnce()
    expect([textOf(events), result.stopReason, result.usage.totalTokens]).toEqual([
      'whole',
      'end_turn',
      5,
    ])
  })

  test.each([
    ['stop', 'end_turn'],
    ['length', 'max_tokens'],
    ['a_reason_of_tomorrow', 'end_turn'],
  ])('that finishes with `%s` ends the run as `%s`', async (reason, stopReason) => {
    server.use(sse(chat.text('part'), chat.finish(reason), chat.usage(1, 1), chat.done()))
    const { events, result } = await runOnce()
    expect(result).toMatchObject({ stopReason })
    expect(result.messages.at(-1)).toMatchObject({ content: 'part', providerStopReason: reason })
    expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
  })

  test.each([
    ['a content filter', [chat.text('par'), chat.finish('content_filter')], 'par'],
    ['a refusal', [chat.delta({ refusal: 'I cannot.' }), chat.finish('stop')], 'I cannot.'],
  ])('that ends with %s is an error whose text is in the result', async (_, parts, content) => {
    server.use(sse(...parts, chat.usage(1, 1), chat.done()))
    const { result } = await runOnce()
    expect(result).toMatchObject({
      stopReason: 'error',
      error: { kind: 'model_error', retryable: false, detail: { kind: 'refusal' } },
    })
    expect(result.messages.at(-1)?.content).toBe(content)
    expect(server.seen).toHaveLength(1)
  })

  test('that finishes with `stop` but calls a tool runs the tool', async () => {
    server.use(
      sse(chat.toolCall(0, 'call_1', 'echo', '{}'), chat.finish('stop'), chat.done()),
      sse(chat.answer('done')),
    )
    const { result } = await runOnce({ tools: [echoTool] })
    expect(result.toolCalls).toMatchObject([{ id: 'call_1', status: 'completed' }])
  })

  test('that is cut at `length` never runs the call at the cut', async () => {
    const ran: unknown[] = []
    server.use(
      sse(
        chat.toolCall(0, 'call_1', 'echo', '{"path":"/ho'),
        chat.finish('length'),
        chat.usage(1, 1),
        chat.done(),
      ),
    )
    const { result } = await runOnce({
      tools: [describedTool('echo', (params) => ran.push(params))],
    })
    expect(ran).toEqual([])
    expect(result).toMatchObject({
      stopReason: 'max_tokens',
      toolCalls: [{ id: 'call_1', status: 'failed', error: 'max_tokens' }],
    })
  })

  test('has separate calls at one index, without ids, or with arguments as an object', async () => {
    const piece = (call: object) => chat.delta({ tool_calls: [call] })
    server.use(
      sse(
        piece({ index: 0, id: 'a', function: { name: 'echo', arguments: '{"n":1}' } }),
        piece({ index: 0, id: 'b', function: { name: 'echo', arguments: '{"n":2}' } }),
        piece({ function: { name: 'echo', arguments: { n: 3 } } }),
        chat.finish('tool_calls'),
        chat.done(),
      ),
      sse(chat.answer('done')),
    )
    const { result } = await runOnce({ tools: [echoTool] })
    expect(result.toolCalls.map(({ params }) => params)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    const messages: { role: string; tool_call_id?: string; tool_calls?: { id: string }[] }[] =
      server.seen[1]?.body.messages
    const callIds = messages.flatMap(({ tool_calls }) => tool_calls?.map(({ id }) => id) ?? [])
    expect(new Set(callIds).size).toBe(3)
    expect(messages.flatMap(({ tool_call_id }) => tool_call_id ?? [])).toEqual(callIds)
  })
})

describe('usage', () => {
  const priced = [
    {
      ...testModel,
      cost: {
        input: 2,
        output: 10,
        cacheRead: 0.5,
        cacheWrite: null,
        cacheWrite1h: null,
        tiers: [],
      },
    },
  ]
  const usage = (fields: object) => `data: ${JSON.stringify({ choices: [], usage: fields })}\n\n`

  test('counts cached tokens out of the prompt, and reasoning within the output', async () => {
    server.use(
      sse(
        chat.text('x'),
        chat.finish('stop'),
        usage({
          prompt_tokens: 100,
          completion_tokens: 40,
          total_tokens: 140,
          prompt_tokens_details: { cached_tokens: 60 },
          completion_tokens_details: { reasoning_tokens: 25 },
        }),
        chat.done(),
      ),
    )
    const { result } = await runOnce({}, { models: priced })
    expect(result.usage).toEqual({
      inputTokens: 40,
      cachedInputTokens: 60,
      cacheWriteTokens: 0,
      outputTokens: 40,
      reasoningTokens: 25,
      totalTokens: 140,
    })
    expect(result.contextTokens).toBe(140)
    expect(result.cost).toBeCloseTo((40 * 2 + 60 * 0.5 + 40 * 10) / 1e6, 12)
  })

  test('is summed over the calls, while the context’s size is the last call’s', async () => {
    server.use(sse(chat.calls(['call_1', 'echo', {}])), sse(chat.answer('done')))
    const { result } = await runOnce({ tools: [echoTool] })
    expect([result.usage.totalTokens, result.contextTokens]).toEqual([30, 15])
    expect(result.cost).toBeNull()
  })

  test('may be in the last choice or after it, and is estimated if it is not reported', async () => {
    server.use(sse(chat.text('some words'), chat.finish('stop'), chat.done()))
    const { result } = await runOnce()
    expect(result.usageEstimated).toBe(true)
    expect(result.usage.outputTokens).toBeGreaterThan(0)
  })
})

describe('the next call', () => {
  test('has one tool message per call, in call order, right after the calls', async () => {
    server.use(
      sse(
        chat.calls(
          ['call_a', 'echo', { n: 1 }],
          ['call_b', 'gone', {}],
          ['call_c', 'echo', { n: 3 }],
        ),
      ),
      sse(chat.answer('done')),
    )
    await runOnce({ tools: [echoTool] })
    const messages = server.seen[1]?.body.messages
    expect(messages.slice(2)).toEqual([
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call_a', type: 'function', function: { name: 'echo', arguments: '{"n":1}' } },
          { id: 'call_b', type: 'function', function: { name: 'gone', arguments: '{}' } },
          { id: 'call_c', type: 'function', function: { name: 'echo', arguments: '{"n":3}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_a', content: 'echo {"n":1}' },
      { role: 'tool', tool_call_id: 'call_b', content: expect.stringContaining('gone') },
      { role: 'tool', tool_call_id: 'call_c', content: 'echo {"n":3}' },
    ])
  })

  test('gets the reasoning of a tool call back in its field, also from the ledger', async () => {
    const dir = tempDir()
    server.use(
      sse(
        chat.delta({ reasoning_content: 'think “hard”' }),
        chat.toolCall(0, 'call_1', 'echo', '{}'),
        chat.finish('tool_calls'),
        chat.done(),
      ),
      sse(chat.answer('one')),
    )
    const engine = engineFor({ ledger: { path: dir.file } })
    await engine.run(context({ tools: [echoTool] })).result
    await engine.close()
    const again = engineFor({ ledger: { path: dir.file } })
    await again.run(context({ tools: [echoTool] })).result
    await again.close()
    dir.remove()
    const sent = server.seen.slice(1).map(({ body }) => body.messages[2].reasoning_content)
    expect(sent).toEqual(['think “hard”', 'think “hard”'])
  })

  test('gets reasoning details back with their signatures', async () => {
    const details = [
      {
        type: 'reasoning.text',
        text: 'why',
        signature: 'sig+/=',
        format: 'anthropic-claude-v1',
        index: 0,
      },
      {
        type: 'reasoning.encrypted',
        data: 'enc+/=',
        id: 'r1',
        format: 'openai-responses-v1',
        index: 1,
      },
    ]
    server.use(
      sse(
        chat.delta({ reasoning_details: [details[0]] }),
        chat.delta({ reasoning_details: [details[1]] }),
        chat.toolCall(0, 'call_1', 'echo', '{}'),
        chat.finish('tool_calls'),
        chat.done(),
      ),
      sse(chat.answer('one')),
    )
    const { result } = await runOnce({ tools: [echoTool] })
    expect(server.seen[1]?.body.messages[2].reasoning_details).toEqual(details)
    expect(result.messages[1]?.thinking).toBe('why')
  })

  test('begins with the bytes of the previous one, over a tool loop', async () => {
    const calls = [0, 1, 2, 3].map((n) =>
      sse(chat.calls([`call_${n}`, 'echo', { n }], ['call_0', 'echo', { text: '"\n' }])),
    )
    server.use(...calls, sse(chat.answer('done')))
    await runOnce({ tools: [echoTool, describedTool('other', () => 1)] })
    expect(server.seen).toHaveLength(5)
    for (const [n, seen] of server.seen.entries()) {
      const next = server.seen[n + 1]
      if (next !== undefined) expect(next.raw.startsWith(prefix(seen)), `call ${n + 2}`).toBe(true)
    }
  })

  test('begins with the bytes of the previous turn, from memory or from the ledger', async () => {
    const dir = tempDir()
    const turns = async (engine: ReturnType<typeof engineFor>, count: number) => {
      for (let turn = 0; turn < count; turn++) {
        const content = `turn ${turn} of ${server.seen.length}`
        await engine.run(context({ tools: [echoTool], currentMessage: { role: 'user', content } }))
          .result
      }
      await engine.close()
    }
    const script = () =>
      server.use(
        sse(
          chat.delta({ reasoning_content: 'think' }),
          chat.toolCall(0, 'call_0', 'echo', '{"n": 1}'),
          chat.toolCall(1, '', 'echo', ''),
          chat.finish('tool_calls'),
          chat.done(),
        ),
        sse(chat.calls(['call_0', 'echo', { again: true }])),
        sse(chat.answer('one')),
        sse(chat.delta({ reasoning: 'hm' }), chat.answer('two')),
        sse(chat.answer('three')),
      )
    script()
    await turns(engineFor({ ledger: { path: dir.file } }), 3)
    script()
    await turns(engineFor({ ledger: { path: dir.file } }), 3)
    dir.remove()
    expect(server.seen).toHaveLength(10)
    for (const [n, seen] of server.seen.entries()) {
      const next = server.seen[n + 1]
      if (next !== undefined) expect(next.raw.startsWith(prefix(seen)), `call ${n + 2}`).toBe(true)
    }
  })
})
